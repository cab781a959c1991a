/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The time of a cache line between the two ranks: --line. The processors of a virtual machine may
 * be close to each other in one second and far apart in the next, so each figure is told with it.
 */
#ifndef BENCHMARK_LINE_H
#define BENCHMARK_LINE_H

#include <stdatomic.h>
#include <stdint.h>

/* Collective, for two ranks of one host. Returns the line, NULL if they cannot share one. */
_Atomic uint32_t *line_open(int rank);
void line_close(_Atomic uint32_t *line);

/* Collective. Returns the time of one way, ns, to rank 0, and 0 to rank 1; negative: no answer. */
double line_nanoseconds(_Atomic uint32_t *line, int rank);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* The time that a cache line takes between two processors: the lower limit of every latency. */
#ifndef TOOLS_CACHE_LINE_H
#define TOOLS_CACHE_LINE_H

#include "topology.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * The two sides of the measurement, over a line that both processes map and that is 0 before it.
 * cache_line_measure returns the seconds of one way, the median of batches until at least longest
 * seconds are over, or -1 if the other process does not answer for 5 s; it ends cache_line_answer,
 * which otherwise gives up after 5 s without a store.
 */
double cache_line_measure(_Atomic uint32_t *line, double longest);
void cache_line_answer(_Atomic uint32_t *line);

/*
 * Measure half the time of a round trip of one cache line between two processes on these cores, in
 * 30 ms. Returns seconds, or -1 if no second process runs there. Binds this process to the first.
 */
double cache_line_between(const struct cores *cores);

/*
 * In a virtual machine, whose processors the host moves, the time changes by a factor of three.
 * Return whether two times are so different that what was measured between them must not be
 * compared. -1 differs from all others.
 */
bool cache_line_differs(double before, double after);

/* Describe the time: "52 ns from one core to the other", or why it was not measured. */
void cache_line_describe(const struct cores *cores, char *text, size_t size);

#endif

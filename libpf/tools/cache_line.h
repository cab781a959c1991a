/* SPDX-License-Identifier: BSD-3-Clause */
/* Time of a cache line between two processors: the lower limit of every latency. */
#ifndef TOOLS_CACHE_LINE_H
#define TOOLS_CACHE_LINE_H

#include "topology.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * The two sides of the measurement, over a line mapped by both processes, 0 at the start.
 * cache_line_measure returns the seconds of one way: the median of batches during at least longest
 * seconds. cache_line_measure returns -1 after 5 s without an answer. cache_line_answer returns at
 * the end of the measurement, or after 5 s without a store.
 */
double cache_line_measure(_Atomic uint32_t *line, double longest);
void cache_line_answer(_Atomic uint32_t *line);

/*
 * Measure half the time of a round trip of one cache line between two processes on the two cores,
 * in 30 ms. Returns seconds, or -1 if no second process runs there. Binds this process to the first
 * core.
 */
double cache_line_between(const struct cores *cores);

/*
 * In a virtual machine the host moves the processors, and the time changes by a factor of three.
 * Return whether two times differ too much for a comparison of figures measured between the two. -1
 * differs from every time.
 */
bool cache_line_differs(double before, double after);

/* Describe the time: "52 ns from one core to the other", or why it was not measured. */
void cache_line_describe(const struct cores *cores, char *text, size_t size);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* The time that a cache line takes between two processors: the lower limit of every latency. */
#ifndef TOOLS_CACHE_LINE_H
#define TOOLS_CACHE_LINE_H

#include "topology.h"

/*
 * Measure half the time of a round trip of one cache line between two processes on these cores,
 * and describe it: "52 ns from one core to the other", or why it was not measured. Binds this
 * process to the first core.
 */
void cache_line_describe(const struct cores *cores, char *text, size_t size);

#endif

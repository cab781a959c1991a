/* SPDX-License-Identifier: BSD-3-Clause */
/* The interval in which a receiver of a stream counts bytes, in steps. */
#ifndef BENCHMARK_SPAN_H
#define BENCHMARK_SPAN_H

#include <stdbool.h>

struct span {
	double begin, end; /* CLOCK_MONOTONIC, s */
	double step;       /* interval of one line of output, s */
	int steps;
};

/* Read BEGIN END STEP. Returns 0, or -1 if they make no sense. */
int span_parse(struct span *span, int count, char **arguments);
/* Does it contain this time? */
bool span_contains(const struct span *span, double time);
/* The number of the step that a time inside belongs to, which is at most steps. */
int span_step(const struct span *span, double time);

#endif

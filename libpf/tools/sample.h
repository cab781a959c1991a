/* SPDX-License-Identifier: BSD-3-Clause */
/* Clocks, and the median and range of repeated measurements. */
#ifndef TOOLS_SAMPLE_H
#define TOOLS_SAMPLE_H

#include <stddef.h>

/* Seconds of the monotonic clock. */
double sample_seconds(void);

/* Processor time of the thread, in seconds. */
double sample_processor_seconds(void);

struct summary {
	double median, lowest, highest;
};

/* Sort and summarize the values. count must be at least 1. */
struct summary sample_summary(double *values, size_t count);

#endif

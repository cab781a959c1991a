/* SPDX-License-Identifier: BSD-3-Clause */
/* Time, and what repeated measurements of it say. */
#ifndef TOOLS_SAMPLE_H
#define TOOLS_SAMPLE_H

#include <stddef.h>

/* Of the monotonic clock. */
double sample_seconds(void);

/* Processor time of this thread. */
double sample_processor_seconds(void);

struct summary {
	double median, lowest, highest;
};

/* Sorts values; count is at least 1. */
struct summary sample_summary(double *values, size_t count);

#endif

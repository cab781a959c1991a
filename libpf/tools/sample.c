/* SPDX-License-Identifier: BSD-3-Clause */
#include "sample.h"

#include <stdlib.h>
#include <time.h>

static double read_clock(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

double sample_seconds(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

double sample_processor_seconds(void)
{
	return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

static int sample_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

struct summary sample_summary(double *values, size_t count)
{
	struct summary summary;

	qsort(values, count, sizeof(*values), sample_compare);
	summary.lowest = values[0];
	summary.highest = values[count - 1];
	summary.median = (values[(count - 1) / 2] + values[count / 2]) / 2;
	return summary;
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "sample.h"

#include <stdlib.h>
#include <time.h>

double sample_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

struct summary sample_summary(double *values, size_t count)
{
	struct summary summary;

	qsort(values, count, sizeof(*values), compare);
	summary.lowest = values[0];
	summary.highest = values[count - 1];
	summary.median = (values[(count - 1) / 2] + values[count / 2]) / 2;
	return summary;
}

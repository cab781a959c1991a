/* SPDX-License-Identifier: BSD-3-Clause */
#include "sample.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

long process_status(pid_t pid, const char *field)
{
	size_t length = strlen(field);
	char line[256];
	long value = -1;
	FILE *file;

	snprintf(line, sizeof(line), "/proc/%d/status", (int)pid);
	file = fopen(line, "re");
	while (file && value < 0 && fgets(line, sizeof(line), file))
		if (!strncmp(line, field, length) && line[length] == ':')
			value = strtol(line + length + 1, NULL, 10);
	if (file)
		fclose(file);
	return value;
}

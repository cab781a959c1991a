/* SPDX-License-Identifier: BSD-3-Clause */
/* Clocks, numbers of /proc, and the median and range of repeated measurements. */
#ifndef TOOLS_SAMPLE_H
#define TOOLS_SAMPLE_H

#include <stddef.h>
#include <sys/types.h>

/* Seconds of the monotonic clock. */
double sample_seconds(void);

/* Processor time of the thread, in seconds. */
double sample_processor_seconds(void);

/* A number of /proc/PID/status, as VmHWM (KiB); -1: no process or field of the name. */
long process_status(pid_t pid, const char *field);

struct summary {
	double median, lowest, highest;
};

/* Sort and summarize the values. count must be at least 1. */
struct summary sample_summary(double *values, size_t count);

#endif

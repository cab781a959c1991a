/* SPDX-License-Identifier: BSD-3-Clause */
/* A copy of the statistics of one context, or of several together. */
#ifndef TOOLS_COUNTERS_H
#define TOOLS_COUNTERS_H

#include "base/statistics.h"

struct counters {
	uint64_t stat[PF_STAT_COUNT];
	uint64_t resolve[PF_RESOLVE_BUCKETS];
};

void counters_read(struct counters *counters, const struct statistics_page *page);
void counters_add(struct counters *sum, const struct counters *counters);
/* What was counted since before. */
void counters_subtract(struct counters *counters, const struct counters *before);

/* Faults in the histogram. */
uint64_t counters_resolved(const struct counters *counters);
/*
 * The time that percent of the resolved faults took less than: a bound of the
 * histogram in nanoseconds. 0 if there are none, UINT64_MAX beyond the last.
 */
uint64_t counters_percentile(const struct counters *counters, unsigned percent);

#endif

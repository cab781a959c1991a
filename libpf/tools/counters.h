/* SPDX-License-Identifier: BSD-3-Clause */
/* A copy of the statistics of a context, or their sum over several. */
#ifndef TOOLS_COUNTERS_H
#define TOOLS_COUNTERS_H

#include "base/statistics.h"

struct counters {
	uint64_t stat[PF_STAT_COUNT];
	uint64_t resolve[PF_RESOLVE_BUCKETS];
};

void counters_read(struct counters *counters, const struct statistics_page *page);
void counters_add(struct counters *sum, const struct counters *counters);
/* Subtract the counts of an earlier time. */
void counters_subtract(struct counters *counters, const struct counters *before);

/* Return the number of faults in the histogram. */
uint64_t counters_resolved(const struct counters *counters);
/*
 * Return the bound of the histogram, in ns, above a percentage of the faults. 0: no faults.
 * UINT64_MAX: the percentage lies beyond the last bound.
 */
uint64_t counters_percentile(const struct counters *counters, unsigned percent);

#endif

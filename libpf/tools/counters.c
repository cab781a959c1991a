/* SPDX-License-Identifier: BSD-3-Clause */
#include "counters.h"

void counters_read(struct counters *counters, const struct statistics_page *page)
{
	unsigned i;

	for (i = 0; i < PF_STAT_COUNT; i++)
		counters->stat[i] = statistic_read(page, i);
	for (i = 0; i < PF_RESOLVE_BUCKETS; i++)
		counters->resolve[i] = statistic_read_bucket(page, i);
}

void counters_add(struct counters *sum, const struct counters *counters)
{
	unsigned i;

	for (i = 0; i < PF_STAT_COUNT; i++)
		sum->stat[i] += counters->stat[i];
	for (i = 0; i < PF_RESOLVE_BUCKETS; i++)
		sum->resolve[i] += counters->resolve[i];
}

void counters_subtract(struct counters *counters, const struct counters *before)
{
	unsigned i;

	for (i = 0; i < PF_STAT_COUNT; i++)
		counters->stat[i] -= before->stat[i];
	for (i = 0; i < PF_RESOLVE_BUCKETS; i++)
		counters->resolve[i] -= before->resolve[i];
}

uint64_t counters_resolved(const struct counters *counters)
{
	uint64_t count = 0;
	unsigned i;

	for (i = 0; i < PF_RESOLVE_BUCKETS; i++)
		count += counters->resolve[i];
	return count;
}

uint64_t counters_percentile(const struct counters *counters, unsigned percent)
{
	uint64_t count = counters_resolved(counters), seen = 0;
	/* Round up without overflow: the counts may be forged. */
	uint64_t wanted = count / 100 * percent + (count % 100 * percent + 99) / 100;
	unsigned i;

	if (!count)
		return 0;
	for (i = 0; i < PF_RESOLVE_BUCKETS - 1; i++) {
		seen += counters->resolve[i];
		if (seen >= wanted)
			return 1ull << (i + STATISTICS_BUCKET_FIRST);
	}
	return UINT64_MAX;
}

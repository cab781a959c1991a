/* SPDX-License-Identifier: GPL-2.0 */
/* What a context counts. */
#ifndef EXANEST_COUNTERS_H
#define EXANEST_COUNTERS_H

#include <linux/atomic.h>
#include <linux/types.h>

/* In the order of struct exanest_statistics. */
enum exanest_counter {
	EXANEST_TRANSFERS,
	EXANEST_BYTES,
	EXANEST_BLOCKS,
	EXANEST_RETRANSMITS,
	EXANEST_FAULT_ERRORS,
	EXANEST_TRANSLATION_MISSES,
	EXANEST_TRANSLATION_FILLS,
	EXANEST_INVALIDATIONS,
	EXANEST_FAULTS,
	EXANEST_FAULTS_PAGER,
	EXANEST_FAULTS_FAILED,
	EXANEST_RESOLVE_NS,
	EXANEST_COUNTERS
};

/* Monotonic; written by engine threads, the resolver and MMU notifiers at a time. */
struct exanest_counters {
	atomic64_t value[EXANEST_COUNTERS];
};

static inline void exanest_count(struct exanest_counters *counters, enum exanest_counter which,
				 u64 more)
{
	atomic64_add(more, &counters->value[which]);
}

#endif

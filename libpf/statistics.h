/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PF_STATISTICS_H
#define PF_STATISTICS_H

#include <stdatomic.h>
#include <stdbool.h>

#include "pf.h"

struct statistics {
	_Atomic uint64_t value[PF_STAT_COUNT];
	bool threads;
};

/* A lone writer needs no locked instruction: load and store, each atomic for readers. */
static inline void statistic_add(struct statistics *statistics, enum pf_stat stat, uint64_t amount)
{
	_Atomic uint64_t *value = &statistics->value[stat];

	if (statistics->threads)
		atomic_fetch_add_explicit(value, amount, memory_order_relaxed);
	else
		atomic_store_explicit(value,
				      atomic_load_explicit(value, memory_order_relaxed) + amount,
				      memory_order_relaxed);
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The statistics of a context, in a page of their own: a memfd, found and read by pf_info --job
 * in /proc while the process runs, without its help and at no cost. Only the context can write
 * there.
 */
#ifndef PF_STATISTICS_H
#define PF_STATISTICS_H

#include <stdatomic.h>
#include <stdbool.h>

#include "fault.h"
#include "limits.h"
#include <libpf/pf.h>

#define STATISTICS_NAME "libpf-statistics"
#define STATISTICS_MAGIC 0x3173746174736670 /* "pfstats1" */
/* Increase the version with every change of the layout, or of the meaning of a statistic. */
#define STATISTICS_VERSION 5
/* Bytes of the file: whole pages, whatever their size; only the start has memory. */
#define STATISTICS_SIZE PAGE_SIZE_MAX
/* Log2 of the upper bound of the first bucket, ns. */
#define STATISTICS_BUCKET_FIRST 8
/* Bytes: processors fetch cache lines in pairs. */
#define STATISTICS_LINE 128

struct statistics_page {
	uint64_t magic;
	uint32_t version;
	uint32_t stats, buckets; /* PF_STAT_COUNT and PF_RESOLVE_BUCKETS of the writer */
	int32_t pid;             /* of the writer, in its own PID namespace */
	uint64_t started;        /* CLOCK_BOOTTIME, ns */
	/* Counted by the threads of the application, and by all other threads. */
	_Alignas(STATISTICS_LINE) _Atomic uint64_t value[PF_STAT_COUNT];
	_Alignas(STATISTICS_LINE) _Atomic uint64_t concurrent[PF_STAT_COUNT];
	_Alignas(STATISTICS_LINE) _Atomic uint64_t resolve[PF_RESOLVE_BUCKETS];
};

/* Part of the context: no pointer has to be loaded to reach the page. */
struct statistics {
	union {
		struct statistics_page page;
		char room[STATISTICS_SIZE]; /* nothing else is where the page is mapped */
	};
	bool threads; /* several threads at a time may call statistic_add */
	int fd;       /* of the page; -1: private memory */
};

/*
 * Map the page over its place in *statistics, which is zeroed memory at the start of
 * a mapping of the caller. Only munmap releases it. If the page cannot be shared,
 * the statistics are private to this process.
 */
void statistics_create(struct statistics *statistics, bool threads);
void statistics_destroy(struct statistics *statistics);

/*
 * Count on a thread of the application. With a single thread, a load and a store, each atomic for
 * readers, are cheaper than a locked instruction.
 */
static inline void statistic_add(struct statistics *statistics, enum pf_stat stat, uint64_t amount)
{
	_Atomic uint64_t *value = &statistics->page.value[stat];

	if (statistics->threads)
		atomic_fetch_add_explicit(value, amount, memory_order_relaxed);
	else
		atomic_store_explicit(value,
				      atomic_load_explicit(value, memory_order_relaxed) + amount,
				      memory_order_relaxed);
}

/* Count on any thread: the service thread, resolvers. */
static inline void statistic_add_concurrent(struct statistics *statistics, enum pf_stat stat,
					    uint64_t amount)
{
	atomic_fetch_add_explicit(&statistics->page.concurrent[stat], amount, memory_order_relaxed);
}

static inline uint64_t statistic_read(const struct statistics_page *page, enum pf_stat stat)
{
	struct statistics_page *counters = (struct statistics_page *)(uintptr_t)page;

	return atomic_load_explicit(&counters->value[stat], memory_order_relaxed) +
	       atomic_load_explicit(&counters->concurrent[stat], memory_order_relaxed);
}

static inline uint64_t statistic_read_bucket(const struct statistics_page *page, unsigned bucket)
{
	struct statistics_page *counters = (struct statistics_page *)(uintptr_t)page;

	return atomic_load_explicit(&counters->resolve[bucket], memory_order_relaxed);
}

/*
 * Any thread: count a page fault by its kind. PF_STAT_LOCAL_FAULTS and PF_STAT_REMOTE_FAULTS
 * count the parked blocks.
 */
void statistic_fault(struct statistics *statistics, enum pf_side side, enum fault_kind kind);
/* Any thread: count a page fault by the time from noticing to resolution, ns. */
void statistic_resolved(struct statistics *statistics, uint64_t nanoseconds);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
#include "statistics.h"

#include <assert.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "clock.h"
#include "file.h"

/* Linux 5.1; older C libraries lack the name. */
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

static_assert(sizeof(struct statistics_page) <= STATISTICS_SIZE, "the statistics are one page");

#define STATISTIC_INFO(constant, name, help) [constant] = { name, help },
static const pf_stat_info table[PF_STAT_COUNT] = { PF_STATISTICS(STATISTIC_INFO) };

const pf_stat_info *pf_stat_table(void)
{
	return table;
}

/* Readers rely on the size. Where the kernel supports it, other processes cannot write. */
static int statistics_seal(int fd)
{
	int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

	return fcntl(fd, F_ADD_SEALS, seals | F_SEAL_FUTURE_WRITE) ? fcntl(fd, F_ADD_SEALS, seals) :
								     0;
}

/* Map a file visible to other processes over the page. Returns -1 if the page stays private. */
static int map_shared(struct statistics_page *page)
{
	int fd = file_create(STATISTICS_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return -1;
	if (file_size_permitted(STATISTICS_SIZE) && !ftruncate(fd, STATISTICS_SIZE) &&
	    file_allocate(fd, 0, STATISTICS_SIZE) &&
	    mmap(page, STATISTICS_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) !=
		    MAP_FAILED &&
	    !statistics_seal(fd))
		return fd;
	close(fd);
	return -1;
}

void statistics_create(struct statistics *statistics, bool threads)
{
	struct statistics_page *page = &statistics->page;

	statistics->threads = threads;
	/* A page invisible to other processes is no error. */
	statistics->fd = map_shared(page);
	page->version = STATISTICS_VERSION;
	page->stats = PF_STAT_COUNT;
	page->buckets = PF_RESOLVE_BUCKETS;
	page->pid = getpid();
	page->started = clock_nanoseconds(CLOCK_BOOTTIME);
	/* Store the magic last: a reader of the magic sees the rest. */
	atomic_thread_fence(memory_order_release);
	page->magic = STATISTICS_MAGIC;
}

void statistics_destroy(struct statistics *statistics)
{
	if (statistics->fd >= 0)
		close(statistics->fd);
}

void statistic_fault(struct statistics *statistics, enum pf_side side, enum fault_kind kind)
{
	assert_that(kind < FAULT_KINDS);
	/* Hidden memory moves another way, without waiting for the page. */
	static const enum pf_stat stats[][FAULT_KINDS] = {
		[PF_SIDE_LOCAL] = { PF_STAT_LOCAL_MINOR, PF_STAT_LOCAL_MAJOR, PF_STAT_LOCAL_PAGER,
				    PF_STAT_LOCAL_PERMISSION, PF_STAT_LOCAL_MINOR },
		[PF_SIDE_REMOTE] = { PF_STAT_REMOTE_MINOR, PF_STAT_REMOTE_MAJOR,
				     PF_STAT_REMOTE_PAGER, PF_STAT_REMOTE_PERMISSION,
				     PF_STAT_REMOTE_MINOR },
	};

	if (side != PF_SIDE_NONE)
		statistic_add_concurrent(statistics, stats[side][kind], 1);
}

void statistic_resolved(struct statistics *statistics, uint64_t nanoseconds)
{
	unsigned bucket = 0;

	if (nanoseconds >> STATISTICS_BUCKET_FIRST)
		bucket = 64 - STATISTICS_BUCKET_FIRST - (unsigned)__builtin_clzll(nanoseconds);
	if (bucket >= PF_RESOLVE_BUCKETS)
		bucket = PF_RESOLVE_BUCKETS - 1;
	atomic_fetch_add_explicit(&statistics->page.resolve[bucket], 1, memory_order_relaxed);
}

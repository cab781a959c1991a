/* SPDX-License-Identifier: BSD-3-Clause */
#include "statistics.h"

#include <assert.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "clock.h"
#include "file.h"

/* Linux 5.1; older C libraries do not name it. */
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

static_assert(sizeof(struct statistics_page) <= STATISTICS_SIZE, "the statistics are one page");

static const pf_stat_info table[PF_STAT_COUNT] = {
	[PF_STAT_SENDS] = { "sends", "messages sent" },
	[PF_STAT_SEND_BYTES] = { "send_bytes", "bytes of messages sent" },
	[PF_STAT_RECEIVES] = { "receives", "messages received" },
	[PF_STAT_RECEIVE_BYTES] = { "receive_bytes", "bytes of messages received" },
	[PF_STAT_PUTS] = { "puts", "puts completed" },
	[PF_STAT_GETS] = { "gets", "gets completed" },
	[PF_STAT_ATOMICS] = { "atomics", "atomic operations completed" },
	[PF_STAT_SINGLE_COPY_BYTES] = { "single_copy_bytes",
					"bytes that this process moved by single copy for its own transfers" },
	[PF_STAT_SHARED_BYTES] = { "shared_bytes",
				   "bytes that this process moved by single copy for transfers of its peers, from the other end" },
	[PF_STAT_STREAM_BYTES] = { "stream_bytes",
				   "bytes that this process moved through the ring for its own transfers" },
	[PF_STAT_PREFAULT_BYTES] = { "prefault_bytes",
				     "bytes of buffers whose pages were touched before a transfer" },
	[PF_STAT_PIN_BYTES] = { "pin_bytes", "bytes of buffers locked in memory for a transfer" },
	[PF_STAT_PIN_CACHE_BYTES] = { "pin_cache_bytes",
				      "bytes of buffers found in or added to the cache of locked memory" },
	[PF_STAT_DEVICE_BYTES] = { "device_bytes", "bytes of transfers that /dev/exanest moved" },
	[PF_STAT_LOCAL_FAULTS] = { "local_faults",
				   "blocks parked because of a page fault in this process" },
	[PF_STAT_REMOTE_FAULTS] = { "remote_faults",
				    "blocks parked because of a page fault in the peer" },
	[PF_STAT_LOCAL_MINOR] = { "local_minor_faults",
				  "page faults in this process on memory never touched" },
	[PF_STAT_LOCAL_MAJOR] = { "local_major_faults",
				  "page faults in this process on pages in swap or in a file" },
	[PF_STAT_LOCAL_PAGER] = { "local_pager_faults",
				  "page faults in this process on pages of a pager" },
	[PF_STAT_LOCAL_PERMISSION] = { "local_permission_faults",
				       "page faults in this process that could not be resolved" },
	[PF_STAT_REMOTE_MINOR] = { "remote_minor_faults",
				   "page faults in the peer on memory never touched" },
	[PF_STAT_REMOTE_MAJOR] = { "remote_major_faults",
				   "page faults in the peer on pages in swap or in a file" },
	[PF_STAT_REMOTE_PAGER] = { "remote_pager_faults",
				   "page faults in the peer on pages of a pager" },
	[PF_STAT_REMOTE_PERMISSION] = { "remote_permission_faults",
					"page faults in the peer that could not be resolved" },
	[PF_STAT_RETRANSMITS] = { "retransmits",
				  "blocks sent again after their page fault was resolved" },
	[PF_STAT_FAULT_ERRORS] = { "fault_errors",
				   "transfers that failed because a page fault could not be resolved" },
	[PF_STAT_RING_FULL] = { "ring_full",
				"messages refused because a ring or, between hosts, a window had no room" },
	[PF_STAT_COLLAPSED] = { "collapsed", "2 MiB ranges of buffers made huge pages" },
	[PF_STAT_SLEEPS] = { "sleeps",
			     "times the progress function slept because there was nothing to do" },
	[PF_STAT_PEERS] = { "peers", "peers connected" },
	[PF_STAT_NET_SENT] = { "net_sent", "packets sent to other hosts" },
	[PF_STAT_NET_RECEIVED] = { "net_received", "packets received from other hosts" },
	[PF_STAT_NET_BYTES] = { "net_bytes", "bytes of the packets sent to other hosts" },
	[PF_STAT_NET_LOST] = { "net_lost",
			       "packets to other hosts that were lost; what they carried was sent again" },
	[PF_STAT_NET_DROPPED] = { "net_dropped",
				  "packets from other hosts dropped because a socket buffer was full" },
	[PF_STAT_NET_NACKS] = { "net_nacks",
				"blocks from other hosts refused because a page was absent" },
	[PF_STAT_NET_MALFORMED] = { "net_malformed", "packets dropped: not of a packet's form" },
	[PF_STAT_NET_UNKNOWN] = { "net_unknown",
				  "packets dropped: for no association of this process" },
	[PF_STAT_NET_UNEXPECTED] = { "net_unexpected",
				     "packets dropped: not in the state of their association" },
	[PF_STAT_NET_DIFFERENT] = { "net_different",
				    "packets dropped: from a process with other options" },
	[PF_STAT_NET_FORGED] = { "net_forged", "packets dropped: with a wrong tag" },
	[PF_STAT_NET_REPLAYED] = { "net_replayed",
				   "packets dropped: with a number that was seen before" },
	[PF_STAT_NET_REFUSED] = { "net_refused",
				  "packets dropped: with contents not valid, or without room here" },
};

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

/* Map a file that others can find where the page is. Returns -1 if the page stays private. */
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
	/* A page that others cannot see is no error. */
	statistics->fd = map_shared(page);
	page->version = STATISTICS_VERSION;
	page->stats = PF_STAT_COUNT;
	page->buckets = PF_RESOLVE_BUCKETS;
	page->pid = getpid();
	page->started = clock_nanoseconds(CLOCK_BOOTTIME);
	/* Last: a reader that sees the magic sees the rest. */
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

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Huge pages for buffers in repeated use. Two thirds of the cost of a single copy is the kernel's
 * look-up of 4 KiB pages, of the process on the far side of the copy; a huge page needs one look-up.
 * Progress counts the bytes copied from or to the far side in each range of the size of a huge page;
 * the owner of the range, asked by the copying peer, collapses the range into a huge page
 * (MADV_COLLAPSE, Linux 6.1). Only ranges whose pages are all present, private and mapped by no
 * further process are collapsed, because the use of memory must not grow.
 */
#ifndef PF_COLLAPSE_H
#define PF_COLLAPSE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/service.h"
#include "base/statistics.h"

/*
 * Bytes of the longest huge page made. With pages of 64 KiB, as in some kernels for arm64, a huge
 * page has 512 MiB, and copying 512 MiB stops all page faults of the process for 0.1 s.
 */
#define COLLAPSE_SIZE_MAX ((uint64_t)32 << 20)
/* Ranges counted at a time. */
#define COLLAPSE_RANGES 512
/*
 * Bytes of the longest transfer counted: the speed of memory, not the look-up of pages, limits
 * longer transfers.
 */
#define COLLAPSE_TRANSFER_MAX (4ull << 20)

/* Ranges that wait for the service thread at a time; more are asked for again. */
#define COLLAPSE_WAITING_MOST 64
/*
 * A collapse copies 2 MiB on the processor of a rank at work. The service thread rests after each
 * for so many times the duration: the rank loses at most a tenth of the time, and wins more back with
 * each pass over finished ranges.
 */
#define COLLAPSE_REST 9

/* Own memory, as the owner of a range. */
#define COLLAPSE_OWN 0

struct collapse_entry {
	uint64_t owner;
	uint64_t number; /* address >> shift */
	uint64_t bytes;  /* looked up there */
	uint64_t next;   /* bytes from which on the owner is asked, once more; 0: threshold */
};

struct collapse {
	uint64_t threshold; /* bytes looked up in a range before it is collapsed; 0: never */
	unsigned shift;     /* log2 of the bytes of a range */
	struct service *service;
	struct statistics *statistics;
	/* Progress's own; without threads, of the program's thread. Ranges share an entry if owner plus number are equal modulo the size. */
	struct collapse_entry ranges[COLLAPSE_RANGES];
	_Atomic unsigned waiting_count; /* of progress and the service thread: requests not done */
	/* The service thread's own. */
	STAILQ_HEAD(, collapse_request) waiting;
	struct event *rest; /* pending while the thread rests; NULL before the first request */
};

/*
 * Permission of the administrator and of the program, for huge pages of size bytes. MADV_COLLAPSE
 * itself asks neither.
 */
enum collapse_setting {
	COLLAPSE_NEVER,
	COLLAPSE_MADVISE, /* to programs with MADV_HUGEPAGE */
	COLLAPSE_ALWAYS,  /* the kernel provides huge pages by itself */
};
enum collapse_setting collapse_setting(uint64_t size);
/* The administrator's part, from a folder like /sys/kernel/mm/transparent_hugepage. */
enum collapse_setting collapse_setting_in(const char *folder, uint64_t size);

/*
 * size: bytes of a huge page, a power of two; above COLLAPSE_SIZE_MAX nothing is collapsed. The
 * service and the statistics are borrowed; both must outlive the collapse and its tasks.
 */
void collapse_init(struct collapse *collapse, uint64_t threshold, uint64_t size,
		   struct service *service, struct statistics *statistics);
/* After service_stop. */
void collapse_destroy(struct collapse *collapse);
/* Are bytes of a transfer counted? */
static inline bool collapse_counts(const struct collapse *collapse, uint64_t transfer_length)
{
	return collapse->threshold && transfer_length <= COLLAPSE_TRANSFER_MAX;
}

/*
 * Progress: length bytes at address, in the memory of the owner (a number of the caller's, or
 * COLLAPSE_OWN), were copied from the far side. Costs an increment for each range touched. Return a
 * range worth a huge page, or NULL. Only if collapse_counts.
 */
struct collapse_entry *collapse_note(struct collapse *collapse, uint64_t owner, uint64_t address,
				     uint64_t length);
/*
 * The owner was asked for the range. collapse_note returns the range again after as many bytes as
 * before: the owner may have been busy, or the program may have mapped the memory anew.
 */
void collapse_asked(struct collapse_entry *range);
/*
 * Progress: have the service thread collapse the range of own memory at address, a number from a
 * peer. False: too many wait.
 */
bool collapse_request(struct collapse *collapse, uint64_t address);
/*
 * Any thread: collapse the range of size bytes at address, a multiple of size, if the memory use
 * does not grow. Returns whether the range is a huge page now.
 */
bool collapse_range(uint64_t address, uint64_t size);
/*
 * Any thread: collapse the range, in which at least one page is present, whatever the cost. The
 * kernel refuses mappings with MADV_NOHUGEPAGE. Returns whether the range is a huge page now.
 */
bool collapse_pages(uint64_t address, uint64_t size);

#endif

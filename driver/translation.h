/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Translations: what an IOTLB is to a device. An address space keeps, for each
 * 2 MiB of it that transfers touched, the page frame numbers of its pages.
 *
 * No page is held by its translation. A translation is true for as long as
 * its lock is held for reading and its entry is valid: the kernel says before
 * it takes a page away or its permissions back (mmu_interval_notifier), and
 * the answer to that takes the lock for writing, and so comes after the last
 * access.
 *
 * Lock order: mmap_lock and whatever else callers of MMU notifiers hold (locks
 * of reverse mappings, folio locks) come before a translation's lock. With
 * that lock held for reading only what may be taken under a page table lock is
 * taken (folio_mark_dirty), and nothing sleeps. Readers only ever try: an
 * engine holds the locks of both sides of a transfer, in no order, and while
 * it held one and waited for another a writer between two readers would close
 * the circle. Who cannot have a lock at once sees a miss.
 */
#ifndef EXANEST_TRANSLATION_H
#define EXANEST_TRANSLATION_H

#include <linux/bitmap.h>
#include <linux/hmm.h>
#include <linux/mmu_notifier.h>
#include <linux/spinlock.h>
#include <linux/xarray.h>

#include "statistics.h"

#define EXANEST_SPAN_SHIFT 21
#define EXANEST_SPAN_SIZE (1UL << EXANEST_SPAN_SHIFT)
#define EXANEST_SPAN_PAGES (1U << (EXANEST_SPAN_SHIFT - PAGE_SHIFT))

/* Entries are as hmm_range_fault gives them. Without HMM_PFN_VALID, there is none. */
#define EXANEST_ENTRY_WRITE (HMM_PFN_VALID | HMM_PFN_WRITE)

struct exanest_space;

/* The translations of one span: 2 MiB, aligned. */
struct exanest_translation {
	struct mmu_interval_notifier notifier;
	rwlock_t lock; /* of entries and dirty */
	bool used;     /* since eviction last looked */
	struct exanest_space *space;
	unsigned long *entries;
	/* The page was read or written since the kernel last asked. Set under the lock. */
	DECLARE_BITMAP(accessed, EXANEST_SPAN_PAGES);
	/* The page was marked dirty since its entry became valid. */
	DECLARE_BITMAP(dirty, EXANEST_SPAN_PAGES);
	struct rcu_head rcu;
};

struct exanest_space {
	struct mm_struct *mm; /* counted, but not its users: it may be empty */
	struct mmu_notifier notifier;
	bool gone;             /* nothing becomes valid any more */
	struct xarray spans;   /* by address >> EXANEST_SPAN_SHIFT; changed by the resolver only */
	unsigned int count;    /* of them */
	unsigned long hand;    /* where eviction looks next */
	unsigned long *buffer; /* of the resolver: EXANEST_SPAN_PAGES */
	struct exanest_counters *counters;
	void (*on_gone)(struct exanest_space *space); /* called once or more; must not sleep */
};

/* Bind to the caller's address space. */
int exanest_space_open(struct exanest_space *space, struct exanest_counters *counters,
		       void (*on_gone)(struct exanest_space *space));
/* Once it returns nothing of the space is accessed, and no entry becomes valid any more. */
void exanest_space_invalidate(struct exanest_space *space);
/* Give all back. Sleeps; not at the same time as exanest_translation_get or _fill. */
void exanest_space_close(struct exanest_space *space);

/* The span of an address, or NULL. Valid until rcu_read_unlock. */
static inline struct exanest_translation *exanest_translation_find(struct exanest_space *space,
								   unsigned long address)
{
	return xa_load(&space->spans, address >> EXANEST_SPAN_SHIFT);
}

/*
 * The same, made if there is none. For the one resolver of the space, which
 * holds a user count of the mm. ERR_PTR(-ENOMEM) or -ESRCH.
 */
struct exanest_translation *exanest_translation_get(struct exanest_space *space,
						    unsigned long address);

/*
 * Look count pages up, from page number first of the span on. request:
 * HMM_PFN_REQ_FAULT brings absent ones in, with HMM_PFN_REQ_WRITE so that they
 * may be written. Without it what is absent or cannot be reached is no error.
 * Sleeps. -EBUSY: the kernel kept changing the range; else the errors of
 * hmm_range_fault.
 */
int exanest_translation_fill(struct exanest_translation *translation, unsigned int first,
			     unsigned int count, unsigned long request);

/* The first of the pages [first, end) that is not there or not writable; end if all are. */
unsigned int exanest_translation_missing(struct exanest_translation *translation,
					 unsigned int first, unsigned int end, bool write);

#endif

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
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/xarray.h>

#define EXANEST_SPAN_SHIFT 21
#define EXANEST_SPAN_SIZE (1UL << EXANEST_SPAN_SHIFT)
#define EXANEST_SPAN_PAGES (1U << (EXANEST_SPAN_SHIFT - PAGE_SHIFT))

/* Entries are as hmm_range_fault gives them. Without HMM_PFN_VALID, there is none. */
#define EXANEST_ENTRY_WRITE (HMM_PFN_VALID | HMM_PFN_WRITE)

struct exanest_space;

/* The translations of one span: 2 MiB, aligned. */
struct exanest_translation {
	struct mmu_interval_notifier notifier;
	rwlock_t lock;    /* of entries and dirty */
	bool used;        /* since eviction last looked */
	atomic_t holders; /* resolvers that work on it: it is not evicted */
	struct exanest_space *space;
	unsigned long *entries;
	/* The page was read or written since the kernel last asked. Set under the lock. */
	DECLARE_BITMAP(accessed, EXANEST_SPAN_PAGES);
	/* The page was marked dirty since its entry was filled. */
	DECLARE_BITMAP(dirty, EXANEST_SPAN_PAGES);
	struct rcu_head rcu;
};

/* What keeps translations of its own, beside those here, and has to be told of changes. */
struct exanest_space_operations {
	/* The first context of the space is opened, the last one is closed. May sleep. */
	int (*attach)(struct exanest_space *space);
	void (*detach)(struct exanest_space *space);
	/*
	 * The entries of count pages from page number first on became valid. The span's
	 * lock is held for writing, so they stay so until it returns. Must not sleep.
	 */
	int (*map)(struct exanest_translation *translation, unsigned int first, unsigned int count);
	/*
	 * Addresses start to end - 1 are valid no more. Returns after the last access to
	 * their pages; false, without having waited, if it would have to sleep and must
	 * not. No lock of this layer is held.
	 */
	bool (*invalidate)(struct exanest_space *space, unsigned long start, unsigned long end,
			   bool may_block);
};

/* An address space, as one engine sees it. */
struct exanest_space {
	struct list_head link;  /* of all spaces */
	struct mm_struct *mm;   /* counted, but not its users: it may be empty */
	unsigned int joined;    /* users, under spaces_lock; 0: nobody may join any more */
	struct list_head users; /* contexts, under users_lock */
	struct mutex users_lock;
	struct mmu_notifier notifier;
	struct mutex lock;   /* of what follows: */
	struct xarray spans; /* by address >> EXANEST_SPAN_SHIFT */
	unsigned int count;  /* of them */
	unsigned long hand;  /* where eviction looks next */
	atomic64_t invalidations;
	const struct exanest_space_operations *operations;
	void *engine;
	bool attached;
	void *private; /* of the engine */
};

/* A context's part in the space of its process. */
struct exanest_space_user {
	struct list_head link;
	struct exanest_space *space;
	/* The address space is empty: exit, or exec. Once at most. May sleep. */
	void (*gone)(struct exanest_space_user *user);
};

/*
 * Join the space of the caller's process for this engine, which is made if there is
 * none. gone is set. -ERESTARTNOINTR: there was a signal; -EINTR: one that kills; else
 * what attach returned.
 */
int exanest_space_join(struct exanest_space_user *user,
		       const struct exanest_space_operations *operations, void *engine);
/* No resolver and no engine works for the user any more. Sleeps. */
void exanest_space_quit(struct exanest_space_user *user);
/* An engine goes while spaces are attached to it: none is when it returns. */
void exanest_spaces_detach(const void *engine);

static inline unsigned long exanest_translation_start(const struct exanest_translation *translation)
{
	return translation->notifier.interval_tree.start;
}

/* The span of an address, or NULL. Valid until rcu_read_unlock. */
static inline struct exanest_translation *exanest_translation_find(struct exanest_space *space,
								   unsigned long address)
{
	return xa_load(&space->spans, address >> EXANEST_SPAN_SHIFT);
}

/*
 * The same, made if there is none, and held until exanest_translation_put. For a
 * resolver, which holds a user count of the mm. ERR_PTR.
 */
struct exanest_translation *exanest_translation_get(struct exanest_space *space,
						    unsigned long address);

static inline void exanest_translation_put(struct exanest_translation *translation)
{
	atomic_dec(&translation->holders);
}

/*
 * Look count pages up, from page number first of the span on. request:
 * HMM_PFN_REQ_FAULT brings absent ones in, with HMM_PFN_REQ_WRITE so that they
 * may be written. Without it what is absent or cannot be reached is no error.
 * buffer: of EXANEST_SPAN_PAGES. Sleeps. -EBUSY: the kernel kept changing the
 * range; -ENOMEM, for a single page; else the errors of hmm_range_fault.
 */
int exanest_translation_fill(struct exanest_translation *translation, unsigned int first,
			     unsigned int count, unsigned long request, unsigned long *buffer);

/* The first of the pages [first, end) that is not there or not writable; end if all are. */
unsigned int exanest_translation_missing(struct exanest_translation *translation,
					 unsigned int first, unsigned int end, bool write);

/*
 * An engine read or, if write, wrote length bytes, at least 1, from offset in the span
 * on. If write, the lock is held, or exanest_space_operations.invalidate has not returned
 * yet for pages that were valid; else rcu_read_lock is enough.
 */
void exanest_translation_mark(struct exanest_translation *translation, unsigned int offset,
			      unsigned int length, bool write);

#endif

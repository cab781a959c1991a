/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Ranges of a context whose pages its process provides, and the page faults in them:
 * they are handed out as events, and come back with an answer or when their time is
 * up. A container: it decides nothing about a fault.
 */
#ifndef EXANEST_PAGER_H
#define EXANEST_PAGER_H

#include <linux/list.h>
#include <linux/rbtree.h>
#include <linux/spinlock.h>
#include <linux/types.h>

struct exanest_page_fault;
struct exanest_ring_set;

struct exanest_pagers {
	spinlock_t lock;
	struct rb_root_cached ranges; /* interval tree */
	unsigned int range_count;
	bool closed; /* no fault comes in any more */
	struct exanest_ring_set *rings;
	struct list_head waiting; /* faults, the oldest first; sent ones come before unsent ones */
	struct exanest_page_fault
		*unsent;     /* the first of them whose event is still to be sent, or NULL */
	struct rb_root sent; /* those whose event was, by ticket */
	u64 ticket;          /* the last one given out */
};

void exanest_pagers_init(struct exanest_pagers *pager);
/* Nothing waits any more. */
void exanest_pagers_free(struct exanest_pagers *pager);

/* Addresses start to last. -EEXIST, -ENOSPC or -ENOMEM; rings: for the events. */
int exanest_pager_take(struct exanest_pagers *pager, struct exanest_ring_set *rings,
		       unsigned long start, unsigned long last);
/* All faults that wait are moved to list. -ENOENT. */
int exanest_pager_give_back(struct exanest_pagers *pager, unsigned long start, unsigned long last,
			    struct list_head *list);
/* Up to which address the process provides the pages from address on; 0: it does not. */
unsigned long exanest_pager_end(struct exanest_pagers *pager, unsigned long address);
static inline bool exanest_pager_has_ranges(const struct exanest_pagers *pager)
{
	return READ_ONCE(pager->range_count);
}

/*
 * Have a fault wait for length bytes, in whole pages from that of its address on, for so
 * many jiffies. false: the pager is closed, or the fault is dropped.
 */
bool exanest_pager_add(struct exanest_pagers *pager, struct exanest_page_fault *fault,
		       unsigned long length, unsigned long time);
/* Take the fault of a ticket out, or NULL. */
struct exanest_page_fault *exanest_pager_answer(struct exanest_pagers *pager, u64 ticket);
/* Take a fault out. false: it does not wait here. */
bool exanest_pager_cancel(struct exanest_pagers *pager, struct exanest_page_fault *fault);
/* Move those whose time is up to list. Returns jiffies until the next one's is; 0: none waits. */
unsigned long exanest_pager_expire(struct exanest_pagers *pager, struct list_head *list);
/* Move all to list; no more come. */
void exanest_pager_close(struct exanest_pagers *pager, struct list_head *list);

#endif

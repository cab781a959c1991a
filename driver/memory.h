/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The memory of a context: page faults in it are parked here, resolved one after another,
 * so that one process's slow memory holds up only transfers that need it, and settled.
 *
 * It is part of an object with a reference count, and keeps that object while there is a
 * page fault that it has not settled.
 */
#ifndef EXANEST_MEMORY_H
#define EXANEST_MEMORY_H

#include <linux/kref.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

#include "pager.h"
#include "resolver.h"

struct exanest_page_fault;

struct exanest_memory {
	struct kref *reference; /* of the owner */
	void (*release)(struct kref *reference);
	bool gone; /* nothing in it is resolved any more */
	struct workqueue_struct
		*resolvers; /* where its page faults are resolved; NULL: no domain's */
	struct exanest_counters *counters;
	struct exanest_resolver resolver;
	struct exanest_pagers pagers;
	spinlock_t parked_lock;
	struct list_head parked; /* page faults, in the order in which they were met */
	struct work_struct resolve;
	struct delayed_work expire; /* of those that wait for the pager */
};

/* Works of memories. Made before and destroyed after all of them. */
int exanest_memories_start(void);
void exanest_memories_stop(void);

/* Cleared memory whose reference, release, counters, resolver.space and resolver.cred are set. */
int exanest_memory_init(struct exanest_memory *memory);
/* Once the owner's last reference is gone. */
void exanest_memory_free(struct exanest_memory *memory);

/* Hand a page fault to the resolver, whose it is until settle. It may be settled before this returns. */
void exanest_memory_park(struct exanest_memory *memory, struct exanest_page_fault *fault);
/* The fault's limit of retries is reached: end it with -EBUSY. */
bool exanest_page_fault_exhausted(const struct exanest_page_fault *fault);

/* Settle, with -ECONNRESET, what is parked and what is still to come. */
void exanest_memory_end(struct exanest_memory *memory);

/* The process takes a range over, or gives it back, or answers an event. */
int exanest_memory_take_range(struct exanest_memory *memory, struct exanest_ring_set *rings,
			      unsigned long start, unsigned long last);
int exanest_memory_give_back_range(struct exanest_memory *memory, unsigned long start,
				   unsigned long last);
int exanest_memory_answer(struct exanest_memory *memory, u64 ticket, bool provided);

#endif

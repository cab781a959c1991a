/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A context: an open descriptor, bound to the address space that opened it.
 *
 * It is counted by its descriptor, by each transfer that has it on either
 * side, by the engine while it is ready or served, and by its resolver while
 * that is queued. It is gone once it is left, its descriptor is closed or its
 * address space is empty, whichever comes first: nothing of it is accessed from
 * then on, its own transfers are dropped, and those of others end with
 * -ECONNRESET.
 *
 * Locks, outer first: setup_lock; lock; pager.lock; then, apart from each
 * other and with nothing inside, faults.lock, the engine's lock and the wait
 * queue. No transfer takes the locks of two contexts but as (its own) lock,
 * (the faulting side's) pager.lock.
 */
#ifndef EXANEST_CONTEXT_H
#define EXANEST_CONTEXT_H

#include <linux/cred.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "fault.h"
#include "pager.h"
#include "statistics.h"
#include "translation.h"
#include "uapi/exanest.h"

struct exanest_domain;
struct exanest_ring_set;
struct exanest_transfer;

struct exanest_context {
	struct kref reference;
	struct rcu_head rcu;
	struct work_struct free_work;
	struct list_head link; /* in the list of all, for debugfs */

	const struct cred *cred; /* of who opened it */
	pid_t pid;
	char comm[TASK_COMM_LEN];

	struct mutex setup_lock;       /* of what is set once: */
	struct exanest_domain *domain; /* NULL before join */
	u64 address;
	u32 policy;
	struct exanest_ring_set *rings; /* NULL before; published with release */

	struct exanest_space space;
	struct exanest_faults faults;
	struct exanest_pagers pager;
	struct exanest_counters counters;
	wait_queue_head_t wait; /* poll(2) */

	/* Turns at the engine, under its lock. */
	struct list_head ready;
	bool queued;
	bool served;
	bool again; /* made ready while it was served */

	spinlock_t lock;           /* of transfers, their blocks and what follows */
	struct list_head runnable; /* transfers that have a block to issue, or to be ended */
	struct list_head idle;     /* transfers that are none */
	struct list_head fences;   /* in order of submission */
	struct exanest_transfer *transfers;
	unsigned int transfer_count;
	unsigned int outstanding; /* of them, in use */
	u64 sequence;             /* of the last submission taken */
};

extern const struct file_operations exanest_context_operations;

/* For what is no domain's. Made before and destroyed after all contexts. */
extern struct workqueue_struct *exanest_workqueue;

static inline void exanest_context_get(struct exanest_context *context)
{
	kref_get(&context->reference);
}

static inline bool exanest_context_get_unless_zero(struct exanest_context *context)
{
	return kref_get_unless_zero(&context->reference);
}

/* Any context but interrupts: the last one leaves the rest to a work. */
void exanest_context_put(struct exanest_context *context);

static inline bool exanest_context_gone(const struct exanest_context *context)
{
	return READ_ONCE(context->space.gone);
}

/* Call with all of them, in turn, under the lock of the list. */
void exanest_contexts_call(void (*call)(struct exanest_context *context, void *argument),
			   void *argument);

/* Sleeps until the last context is freed. No descriptor is open any more. */
void exanest_context_drain(void);

/*
 * A structure of an ioctl, whose first field is its size as the caller knows
 * it. in: what the caller's lacks is 0. out: no more than the caller's size.
 */
long exanest_copy_in(void *structure, size_t size, const void __user *argument);
long exanest_copy_out(void __user *argument, void *structure, size_t size);

#endif

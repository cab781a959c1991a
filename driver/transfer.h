/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Ports and their transfers. A port is a context as transfers see it: what submits
 * them, and memory that they reach. This is the only state machine of a block, and
 * decides what becomes of it; the layers below return results.
 *
 * A block is READY (on its transfer's retry list, or not cut yet), MOVING (at the
 * engine), or parked: FAULTED (in the list of the port that it met the fault on) or
 * waiting for that port's pager. Only its current owner writes to it; the owner
 * changes under the lock of the list that the block goes to or comes from, or of
 * the engine's slots. A transfer ends when no block of it has an owner. A transfer
 * and its blocks come out of a table that its port has from the start, so an engine
 * allocates nothing.
 *
 * A port is counted by its context, by each transfer that has it on either side, by
 * the engine while its turn is queued or served, and by its works while they are
 * queued. It is gone once its context is left, its descriptor is closed or its
 * address space is empty, whichever comes first: nothing of it is accessed from then
 * on, its own transfers are dropped, and those of others end with -ECONNRESET.
 *
 * Locks, outer first: lock; the pager's lock; then, apart from each other and with
 * nothing inside, parked_lock, the engine's locks and the rings' wait queue. No
 * transfer takes the locks of two ports but as (its own) lock, (a side's) pager's
 * lock.
 */
#ifndef EXANEST_TRANSFER_H
#define EXANEST_TRANSFER_H

#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

#include "counters.h"
#include "domain.h"
#include "engine.h"
#include "memory.h"
#include "request.h"

/* Runs of one turn. */
#define EXANEST_TURN_RUNS 8

struct exanest_ring_set;
struct exanest_transfer;

struct exanest_port {
	struct exanest_member member; /* its reference is the port's */
	void (*release)(struct exanest_port *port);

	struct exanest_engine *engine;
	struct exanest_domain *domain;  /* NULL before its context joined */
	struct exanest_ring_set *rings; /* NULL before; published with release */
	struct exanest_turn turn;
	struct exanest_counters counters;

	struct exanest_memory memory;
	struct exanest_export export;     /* of it */
	struct exanest_requests requests; /* of other nodes, which met page faults in it */
	atomic_t moving; /* blocks at the engine that have it on a side, one for each */

	/* What it submitted. */
	spinlock_t lock;
	struct list_head runnable; /* transfers that have a block to issue, or to be ended */
	struct list_head held;     /* those that wait for far to become less */
	struct list_head idle;     /* transfers that are none */
	unsigned int far;          /* blocks that an engine has, or had, for other nodes */
	struct list_head fences;   /* in order of submission */
	struct exanest_transfer *transfers;
	unsigned int transfer_count;
	unsigned int outstanding;   /* of them, in use */
	u64 sequence;               /* of the last submission taken */
	struct task_struct *server; /* the thread that gives it its turn, or NULL */
	/* Of a turn: too large for a stack that the compiler clears. */
	struct exanest_descriptor descriptors[EXANEST_TURN_RUNS];
	struct exanest_block *blocks[EXANEST_TURN_RUNS];
};

/* What engines call. */
extern const struct exanest_engine_client exanest_transfers;

/*
 * Make a port of cleared memory, whose engine, memory.resolver.space and .cred are set. release is called, once, without a lock, when the last reference is gone.
 */
int exanest_port_init(struct exanest_port *port, void (*release)(struct exanest_port *port));
/* After release. */
void exanest_port_free(struct exanest_port *port);

static inline bool exanest_port_get_unless_zero(struct exanest_port *port)
{
	return kref_get_unless_zero(&port->member.reference);
}

void exanest_port_put(struct exanest_port *port);

static inline bool exanest_port_gone(const struct exanest_port *port)
{
	return READ_ONCE(port->memory.gone);
}

/* The rings are the port's from then on. -ENOMEM. */
int exanest_port_set_rings(struct exanest_port *port, struct exanest_ring_set *rings,
			   unsigned int submissions);
/* There is something in the rings. Any context but interrupts. */
void exanest_port_ready(struct exanest_port *port);

/* The port is gone. When it returns nothing of its memory is accessed any more. Sleeps. */
void exanest_port_end(struct exanest_port *port);

#endif

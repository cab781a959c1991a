/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puts, gets and atomics to processes of other hosts by the engine of /dev/exanest, if it has a link
 * that goes there: each is one submission. What the engine does not do, the network does: packets.
 *
 * Threads: any thread posts, under the lock; progress alone submits, because the rings are its own.
 */
#ifndef PF_NET_NODE_H
#define PF_NET_NODE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/queue.h>

#include "common/operation.h"
#include "device/device.h"

struct node_operation {
	struct operation operation;
	struct device_request request;
	TAILQ_ENTRY(node_operation) link; /* posted */
	struct exanest_submission submission;
	enum pf_atomic_op atomic;
	uint64_t started; /* ns; 0: not traced */
	/*
	 * Progress: the engine did not do it; packets are to. lost: it does not reach the peer, and
	 * gets no more. With PF_OK the operation is the callee's.
	 */
	int (*again)(struct node_operation *operation, bool lost);
};

struct nodes {
	struct device *device; /* NULL: none, or its engine has no link */
	struct statistics *statistics;
	_Atomic bool waiting; /* posted is not empty */
	pthread_mutex_t lock; /* of posted */
	TAILQ_HEAD(node_operations, node_operation) posted;
};

void nodes_init(struct nodes *nodes, struct device *device, struct statistics *statistics);
/* Operations that are not done are away, and freed as such (operations_drop). */
void nodes_destroy(struct nodes *nodes);

/* Describe an operation, whose peer has that address at the engine. */
void node_describe_transfer(struct node_operation *operation, uint64_t engine, uint64_t local,
			    uint64_t remote, uint64_t length);
void node_describe_atomic(struct node_operation *operation, uint64_t engine, enum pf_atomic_op op,
			  unsigned width, uint64_t remote, uint64_t operand, uint64_t compare);
/* Any thread. The operation is among those that are away. */
void node_post(struct nodes *nodes, struct node_operation *operation);

/* Progress: is there something to submit? */
static inline bool nodes_wait(const struct nodes *nodes)
{
	return atomic_load_explicit(&nodes->waiting, memory_order_relaxed);
}

/* For nodes_poll. */
int nodes_advance(struct nodes *nodes);

/* Progress: submit what was posted, end what is done. Returns how many things happened. */
static inline int nodes_poll(struct nodes *nodes)
{
	if (!nodes->device || (!nodes_wait(nodes) && !nodes->device->in_flight))
		return 0;
	return nodes_advance(nodes);
}

/* Progress: is there nothing for it to do until a completion wakes it? */
static inline bool nodes_may_sleep(const struct nodes *nodes)
{
	return !nodes->device ||
	       (!nodes_wait(nodes) && (!nodes->device->in_flight || nodes->device->may_sleep));
}

#endif

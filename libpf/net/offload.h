/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puts, gets and atomics to processes of other hosts by the engine of /dev/exanest, if it has a link
 * that goes there: each is one submission. What the engine does not do, the network does: packets.
 *
 * Threads: any thread posts, under the lock; progress alone submits, because the rings are its own.
 */
#ifndef PF_NET_OFFLOAD_H
#define PF_NET_OFFLOAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/queue.h>

#include "common/operation.h"
#include "device/device.h"

struct offload {
	struct operation operation;
	struct device_request request;
	TAILQ_ENTRY(offload) link; /* posted */
	struct exanest_submission submission;
	enum pf_atomic_op atomic;
	uint64_t started; /* ns; 0: not traced */
	/*
	 * Progress: the engine did not do it; packets are to. lost: it does not reach the peer, and
	 * gets no more. With PF_OK the operation is the callee's.
	 */
	int (*again)(struct offload *offload, bool lost);
};

struct offloads {
	struct device *device; /* NULL: none, or its engine has no link */
	struct statistics *statistics;
	_Atomic bool waiting; /* posted is not empty */
	pthread_mutex_t lock; /* of posted */
	TAILQ_HEAD(offload_list, offload) posted;
};

void offloads_init(struct offloads *offloads, struct device *device, struct statistics *statistics);
/* Operations that are not done are away, and freed as such (operations_drop). */
void offloads_destroy(struct offloads *offloads);

/* Describe an operation, whose peer has that address at the engine. */
void offload_describe_transfer(struct offload *offload, uint64_t engine, uint64_t local,
			       uint64_t remote, uint64_t length);
void offload_describe_atomic(struct offload *offload, uint64_t engine, enum pf_atomic_op op,
			     unsigned width, uint64_t remote, uint64_t operand, uint64_t compare);
/* Any thread. The operation is among those that are away. */
void offload_post(struct offloads *offloads, struct offload *offload);

/* Progress: is there something to submit? */
static inline bool offloads_wait(const struct offloads *offloads)
{
	return atomic_load_explicit(&offloads->waiting, memory_order_relaxed);
}

/* For offloads_poll. */
int offloads_advance(struct offloads *offloads);

/* Progress: submit what was posted, end what is done. Returns how many things happened. */
static inline int offloads_poll(struct offloads *offloads)
{
	if (!offloads->device || (!offloads_wait(offloads) && !offloads->device->in_flight))
		return 0;
	return offloads_advance(offloads);
}

/* Progress: is there nothing for it to do until a completion wakes it? */
static inline bool offloads_may_sleep(const struct offloads *offloads)
{
	return !offloads->device || (!offloads_wait(offloads) &&
				     (!offloads->device->in_flight || offloads->device->may_sleep));
}

#endif

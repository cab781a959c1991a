/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations offloaded to the engine of /dev/exanest: puts, gets and atomics to processes of other
 * hosts, if the engine has a link there. Each operation is a submission. The network sends packets
 * for operations refused by the engine.
 *
 * Threads: any thread posts, under the lock. Progress alone submits, because progress owns the
 * rings.
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
	TAILQ_ENTRY(offload) link; /* in offloads.posted */
	struct exanest_submission submission;
	enum pf_atomic_op atomic;
	uint64_t started; /* time of the submission, ns; 0: not traced */
	/*
	 * Progress: have packets do the operation, because the engine did not. lost: the engine
	 * does not reach the peer, and must get no more operations to the peer. After PF_PENDING the
	 * callee owns the operation.
	 */
	int (*again)(struct offload *offload, bool lost);
};

struct offloads {
	struct device *device; /* device whose engine has a link; NULL: none */
	struct statistics *statistics;
	_Atomic bool waiting; /* "posted" is not empty */
	pthread_mutex_t lock; /* lock of "posted" */
	TAILQ_HEAD(offload_list, offload) posted;
};

void offloads_init(struct offloads *offloads, struct device *device, struct statistics *statistics);
/* Destroy the list. operations_drop frees the operations under way, from operations.away. */
void offloads_destroy(struct offloads *offloads);

/* Describe a transfer or an atomic to a peer with this address at the engine. */
void offload_describe_transfer(struct offload *offload, uint64_t engine, uint64_t local,
			       uint64_t remote, uint64_t length);
void offload_describe_atomic(struct offload *offload, uint64_t engine, enum pf_atomic_op op,
			     unsigned width, uint64_t remote, uint64_t operand, uint64_t compare);
/* Any thread: post an operation, already listed in operations.away. */
void offload_post(struct offloads *offloads, struct offload *offload);

/* Progress: is there an operation to submit? */
static inline bool offloads_wait(const struct offloads *offloads)
{
	return atomic_load_explicit(&offloads->waiting, memory_order_relaxed);
}

/* Slow part of offloads_poll. */
int offloads_advance(struct offloads *offloads);

/* Progress: submit posted operations, and end completed ones. Return the number of both. */
static inline int offloads_poll(struct offloads *offloads)
{
	if (!offloads->device || (!offloads_wait(offloads) && !offloads->device->in_flight))
		return 0;
	return offloads_advance(offloads);
}

/* Progress: is there nothing to do until a completion wakes progress? */
static inline bool offloads_may_sleep(const struct offloads *offloads)
{
	return !offloads->device || (!offloads_wait(offloads) &&
				     (!offloads->device->in_flight || offloads->device->may_sleep));
}

#endif

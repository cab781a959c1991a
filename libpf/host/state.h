/* SPDX-License-Identifier: BSD-3-Clause */
/* State for all parts of the host transport, for one context. */
#ifndef PF_HOST_STATE_H
#define PF_HOST_STATE_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/queue.h>

#include "common/refused.h"
#include "connection.h"
#include "connection_message.h"
#include "device/watch.h"
#include "inbox.h"
#include "notice.h"
#include "request.h"

/*
 * Time for which empty polls yield after this process called a peer, unless the peer is connected
 * before, ns. A first round trip of two processes takes some 0.2 ms.
 */
#define HOST_CONNECT_NANOSECONDS 1000000ull

/* Most requests to resolve a range that wait for an answer through a ring. */
#define HOST_ASKS_MOST 8

/* A request to resolve a range, sent through the owner's ring: see resolve_request. */
struct ask {
	struct host_peer *owner;
	struct resolve request;
	uint64_t due; /* time of the request on the socket, CLOCK_MONOTONIC, ns */
};

struct host_state {
	pf_context *context;
	struct inbox inbox;
	struct task begin_life; /* for the service thread, as its first task */
	struct notices notices;
	struct requests requests;        /* progress's own */
	struct ask asks[HOST_ASKS_MOST]; /* progress's own */
	unsigned asks_count;
	TAILQ_HEAD(, host_peer) turns;  /* turns.h; progress's own */
	bool moving;                    /* as in the inbox; progress's own */
	bool copied_alone;              /* by the caller, since the last message; without threads */
	_Atomic int64_t ring_allowance; /* bytes that rings may still grow by */
	_Atomic unsigned rings;         /* to peers */
	_Atomic unsigned longs;         /* open transfers, but the short ones (transfer_is_short) */
	_Atomic uint64_t rings_shrunk; /* time of the last look for idle ones, CLOCK_MONOTONIC, ns */
	uint64_t cookie; /* readable for each peer with permission to copy from this process */
	struct connections connections; /* see connections.lock */
	struct device_watch device_watch;
};

/*
 * Any thread: give an operation to progress. Another thread may sleep in progress, and no thread
 * enters meanwhile; or the program, which posts the operation, sleeps until a descriptor reports
 * work. PF_PENDING, or why not, as refused_add. Not refusable: bytes of the operation were moved
 * already.
 */
static inline int host_post(pf_context *context, struct operation *operation, bool refusable)
{
	if (!operation_post(&context->operations, operation, refusable))
		return refused_add(operation->peer, REFUSED_OPERATION, 0);
	if (context->posts_wake)
		inbox_wake(context->host->inbox.memory, INBOX_SLEEPS_AT_ONCE);
	return PF_PENDING;
}

#endif

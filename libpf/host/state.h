/* SPDX-License-Identifier: BSD-3-Clause */
/* State for all parts of the host transport, for one context. */
#ifndef PF_HOST_STATE_H
#define PF_HOST_STATE_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/queue.h>

#include "common/refused.h"
#include "connection.h"
#include "device/watch.h"
#include "inbox.h"
#include "notice.h"
#include "request.h"

/* Sleeps of progress after this process called a peer, until the peer is connected. */
#define HOST_CONNECT_SLEEPS 8

struct host_state {
	pf_context *context;
	struct inbox inbox;
	struct task begin_life; /* for the service thread, as its first task */
	struct notices notices;
	struct requests requests;       /* progress's own */
	TAILQ_HEAD(, host_peer) turns;  /* turns.h; progress's own */
	_Atomic int64_t ring_allowance; /* bytes that rings may still grow by */
	_Atomic unsigned rings;         /* to peers */
	_Atomic uint64_t rings_shrunk; /* time of the last look for idle ones, CLOCK_MONOTONIC, ns */
	uint64_t cookie; /* readable for each peer with permission to copy from this process */
	struct connections connections; /* the service thread's own */
	/* End of the last unshared transfer, CLOCK_MONOTONIC, ns; progress's own: SHARE_LATE_MAX */
	uint64_t alone_until;
	struct device_watch device_watch;
	/* Inbox of the peer rung last; a hint, NULL at first. */
	_Atomic(struct inbox_memory *) partner;
};

/*
 * Any thread: give an operation to progress. Another thread may sleep in progress, and no thread
 * enters meanwhile; or the program, which posts the operation, sleeps until a descriptor reports
 * work. PF_OK, or why not, as refused_add. Not refusable: bytes of the operation were moved
 * already.
 */
static inline int host_post(pf_context *context, struct operation *operation, bool refusable)
{
	if (!operation_post(&context->operations, operation, refusable))
		return refused_add(operation->peer, REFUSED_OPERATION, 0);
	if (context->posts_wake)
		inbox_wake(context->host->inbox.memory, INBOX_SLEEPS_AT_ONCE);
	return PF_OK;
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The record of a context: the data shared by the transports, and their own states as pointers.
 * Its lifetime and pf_progress are in context/.
 *
 * Permissions of the threads:
 * - the thread inside pf_progress (one at a time, "progressing") owns the host transport's state
 *   and the active operations;
 * - posted operations are under operations.lock, the list of peers under peers.lock; each
 *   transport has locks of its own for data shared by callers;
 * - the service thread owns connections and its events; the service thread reports to progress
 *   through queues, gives peers their bells (host/peer.h), and is asked through tasks
 *   (base/service.h).
 * The first two kinds of locks are taken only if pf_options.threads permits more than one caller.
 */
#ifndef PF_CONTEXT_H
#define PF_CONTEXT_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/activity.h"
#include "base/address.h"
#include "base/idle.h"
#include "base/service.h"
#include "base/statistics.h"
#include "base/trace.h"
#include "device/device.h"
#include "memory/memory.h"
#include "operation.h"
#include "peer.h"
#include "pf.h"

struct host_state;
struct network;

struct pf_context {
	struct statistics statistics; /* first: its page is mapped here, at the start of a page */
	/* The data of every poll comes next. */
	struct host_state *host;
	struct network *network; /* NULL without one */
	struct trace *trace;     /* NULL: none */
	_Atomic bool polled;     /* a transport beside the first has or had a peer; only ever set */
	_Atomic bool progressing;
	_Atomic(const void *) progress_thread; /* a mark of the thread inside; NULL: none */
	bool threads;                          /* several threads may call at the same time */
	_Atomic bool sleepy; /* progress, or the waiter of a descriptor, may sleep; only ever set */
	bool posts_wake;     /* progress or the waiter may sleep while a thread posts */
	bool stood_still;    /* if sleepy: the last poll was empty, and no wait followed */
	struct activity activity; /* of the polling thread */
	struct idle idle;         /* progress's own */
	uint64_t sleep_unrung;    /* longest sleep beside a peer that does not ring, microseconds */
	/* Sleeps of progress left while this process connects to a peer; set by a transport. */
	_Atomic unsigned connect_sleeps;
	struct operations operations;

	pf_receive_fn receive;
	void *receive_arg;
	pf_receive_pieces_fn receive_pieces;
	void *receive_pieces_arg;
	pf_error_fn error;
	void *error_arg;
	pf_warning_fn warning;
	void *warning_arg;
	pf_room_fn room;
	void *room_arg;

	struct transport_slot
		transports[TRANSPORTS_MOST + 1]; /* a slot without a transport ends it */
	struct peers peers;
	pf_options options;
	uint64_t share_min[DISTANCES]; /* the option, by the distance of the peer */
	size_t send_max;               /* pf_attributes */
	struct address address;
	struct service service;

	/* Any thread: wake a sleeping progress. The first transport sets it. */
	void (*wake)(pf_context *context);
	/* Any thread: the transport for answers to the owner of the address. context/ sets it. */
	const struct transport *(*transport_back)(const pf_context *context,
						  const struct address *address);

	struct device device;
	struct memory memory;
};

/*
 * Any thread: return the present address, with the address at the engine of /dev/exanest once the
 * context joined.
 */
static inline struct address context_address(const pf_context *context)
{
	struct address address = context->address;

	address.engine = device_node_address(&context->device);
	return address;
}

/* Any thread: may progress or the waiter sleep until woken? */
static inline bool context_is_sleepy(const pf_context *context)
{
	return atomic_load_explicit(&((pf_context *)(uintptr_t)context)->sleepy,
				    memory_order_relaxed);
}

#endif

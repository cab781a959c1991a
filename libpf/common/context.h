/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The record of a context: the data shared by the transports, and their own states as pointers.
 * Its lifetime and pf_progress are in context/.
 *
 * Permissions of the threads:
 * - the thread inside pf_progress (one at a time, "progressing") owns the host transport's state
 *   and the active operations;
 * - posted operations are under operations.lock, the table of peers under peers.lock; each
 *   transport has locks of its own for data shared by callers;
 * - the service thread owns connections and its events; the service thread reports to progress
 *   through queues, gives peers their bells (host/peer.h), and is asked through tasks
 *   (base/service.h).
 * operations.lock and the locks of host peers are taken only if pf_options.threads permits more than
 * one caller.
 */
#ifndef PF_CONTEXT_H
#define PF_CONTEXT_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/activity.h"
#include "base/address.h"
#include "base/log.h"
#include "base/service.h"
#include "base/statistics.h"
#include "base/trace.h"
#include "device/device.h"
#include "memory/memory.h"
#include "operation.h"
#include "owner.h"
#include "peer.h"
#include <libpf/pf.h>

struct host_state;
struct network;

struct pf_context {
	struct statistics statistics; /* first: the page is mapped here, at the start of a page */
	/* The data of every poll comes next. */
	struct host_state *host;
	struct network *network; /* NULL without one */
	struct trace *trace;     /* NULL: none */
	_Atomic bool polled;     /* a transport beside the first has or had a peer; only ever set */
	_Atomic bool progressing;
	_Atomic(const void *) progress_thread; /* a mark of the thread inside; NULL: none */
	_Atomic unsigned holders;              /* threads in progress_hold that wait */
	bool threads;                          /* several threads may call at the same time */
	/* Peers of this host wake pf_wait, or the waiter of a descriptor; only ever set. */
	_Atomic bool sleepy;
	bool posts_wake;  /* pf_wait or the waiter may sleep while a thread posts */
	bool stood_still; /* if sleepy: the last poll was empty, and no wait followed */
	bool announced; /* progress's own: pf_wait has announced a sleep, and nothing happened since */
	bool slept;     /* progress's own: a sleep followed */
	_Atomic bool took_wake;   /* a sleep took a pf_wake: for the pf_flush that slept */
	struct activity activity; /* of the polling thread */
	uint64_t sleep_longest;   /* longest sleep at a time, microseconds */
	uint64_t sleep_unrung;    /* the same beside a peer that does not ring */
	/*
	 * Until then empty polls yield the processor to the thread that connects, CLOCK_MONOTONIC,
	 * ns; 0: none does. Set by a transport.
	 */
	_Atomic uint64_t connect_until;
	struct operations operations;

	pf_callbacks callbacks; /* of pf_open */
	struct owners owners;
	uint8_t data[PF_DATA_MOST]; /* pf_options.data; address.data_length bytes */

	struct transport_slot
		transports[TRANSPORTS_MOST + 1]; /* a slot without a transport comes last */
	struct peers peers;
	struct log log; /* for pf_callbacks.log */
	pf_options options;
	uint64_t share_min[DISTANCES]; /* the option, by the distance of the peer */
	size_t send_max;               /* pf_attributes */
	struct address address;
	struct service service;

	/* Any thread: wake a sleeping progress. Set by the first transport. */
	void (*wake)(pf_context *context);
	/* Any thread: the transport for answers to the owner of the address. Set by context/. */
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

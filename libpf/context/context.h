/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The context ties the rooms together. Who may touch what:
 *
 *   - the thread inside pf_progress (one at a time, "progressing") owns the
 *     incoming channels, the operations and the requests;
 *   - a peer's sending side is under peer->lock;
 *   - posted operations and the peer table are under context->lock;
 *   - the service thread owns connections; it talks to progress through the
 *     event queue alone, and is talked to through its command queue.
 *
 * The locks are taken only when pf_options.threads says that there may be
 * more than one caller.
 */
#ifndef PF_CONTEXT_H
#define PF_CONTEXT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/address.h"
#include "host/event.h"
#include "memory/collapse.h"
#include "memory/pace.h"
#include "memory/pager.h"
#include "memory/residency.h"
#include "memory/registration.h"
#include "common/operation.h"
#include "pf.h"
#include "host/request.h"
#include "base/statistics.h"
#include "device/device.h"
#include "host/answer.h"
#include "host/inbox.h"
#include "host/incoming.h"

struct engine;
struct service;

struct pf_context {
	struct statistics statistics; /* first: its page is mapped here, so it starts a page */
	struct polling polling;
	struct inbox inbox;
	struct event_queue events;
	bool threads;
	_Atomic bool progressing;
	bool sleepy;        /* idle_polls != 0 */
	_Atomic bool moved; /* something other than blocks sent again, since progress ended last */
	_Atomic bool turned_away; /* a message waits for room, of which nobody tells us */
	uint64_t idle;            /* empty polls in a row */
	uint64_t idle_unclocked;  /* empty polls since idle_clock */
	int64_t idle_clock;       /* this thread's processor time when it was last looked at, ns */

	pf_receive_fn receive;
	void *receive_arg;
	pf_error_fn error;
	void *error_arg;

	struct operations operations;
	struct answers answers;
	struct requests requests;
	struct collapse collapse;
	struct pace pace;
	struct pagers pagers;
	struct residency residency; /* of our own memory */
	struct device device;
	struct registrations registrations;

	pf_options options;
	size_t send_max; /* pf_attributes */
	struct address address;
	uint64_t cookie; /* a peer that may copy from us can read this */
	struct service *service;
	struct engine *engine;  /* NULL without a network */
	const char *no_network; /* why there is none */

	_Atomic int64_t ring_allowance; /* bytes that rings may still grow by */

	pthread_mutex_t lock;
	struct pf_peer *peers;
};

/* So that what is resolved meanwhile is given no more than its share: see memory/pace.h. */
static inline void context_moved(pf_context *context)
{
	atomic_store_explicit(&context->moved, true, memory_order_relaxed);
}

/* Any thread: tell progress, and wake it. Waits for memory. */
void context_tell(pf_context *context, struct event news);

static inline void context_lock(pf_context *context)
{
	if (context->threads)
		pthread_mutex_lock(&context->lock);
}

static inline void context_unlock(pf_context *context)
{
	if (context->threads)
		pthread_mutex_unlock(&context->lock);
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the service thread has to tell the thread in pf_progress. A stack that
 * one side pushes and the other takes whole: looking for events costs one
 * load of a line that only the rare event writes.
 */
#ifndef PF_EVENT_H
#define PF_EVENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/address.h"
#include "base/fault.h"
#include "pf.h"

struct incoming;
struct inbox_memory;

enum event_kind {
	EVENT_INCOMING, /* a peer opened a channel to us */
	EVENT_LINKED,   /* a peer accepted our channel */
	EVENT_GONE,     /* a peer's process ended, or refused us */
	EVENT_RESOLVED, /* a fault was resolved, or cannot be */
};

struct event {
	struct event *next;
	enum event_kind kind;
	struct incoming *incoming;  /* INCOMING */
	pf_peer *peer;              /* LINKED, RESOLVED, GONE: the one we called */
	struct address from;        /* GONE without peer: the one that called us */
	bool farewell;              /* GONE: in good order */
	struct inbox_memory *inbox; /* LINKED */
	uint32_t slot;
	pid_t pid;
	int copy_error;          /* LINKED: 0, or why single copy is impossible */
	uint64_t engine;         /* LINKED: its address at /dev/exanest, or 0 */
	int status;              /* GONE, RESOLVED */
	uint64_t token, address; /* RESOLVED */
	enum fault_kind fault;
};

struct event_queue {
	_Atomic(struct event *) newest;
};

static inline bool events_waiting(const struct event_queue *queue)
{
	return atomic_load_explicit(&queue->newest, memory_order_relaxed) != NULL;
}

void event_push(struct event_queue *queue, struct event *event);
/* That a peer is gone; false without memory to say so. */
bool events_tell_gone(struct event_queue *queue, pf_peer *peer, int status);
/* All events, oldest first, linked by next; the caller frees each. */
struct event *events_take(struct event_queue *queue);

#endif

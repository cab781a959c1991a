/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reports of any thread to progress about peers of this host. A stack that writers push to and
 * progress takes whole: a look costs a load of a line that only a rare notice writes.
 */
#ifndef PF_NOTICE_H
#define PF_NOTICE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/address.h"
#include "base/fault.h"
#include "inbox.h"
#include <libpf/pf.h>
#include "process.h"

struct incoming;
struct parked_atomic;

enum notice_kind {
	NOTICE_INCOMING,     /* a peer opened a channel to this process */
	NOTICE_LINKED,       /* a peer accepted this process's channel */
	NOTICE_GONE,         /* a peer's process ended, or refused a call */
	NOTICE_DISCONNECTED, /* the service thread refers to the peer no more */
	NOTICE_RESOLVED,     /* a fault was resolved, or cannot be */
	NOTICE_ATOMIC,       /* the page of a peer's atomic was resolved, or cannot be */
};

struct notice {
	struct notice *next;
	enum notice_kind kind;
	struct incoming *incoming; /* INCOMING */
	pf_peer *peer;             /* LINKED, RESOLVED, DISCONNECTED; GONE: the called peer */
	struct address from;       /* GONE without peer: the calling peer */
	bool farewell;             /* GONE: in good order */
	uint64_t deadline; /* GONE: to be handled then at the latest, CLOCK_MONOTONIC, ns; 0: not set */
	const char *why;         /* GONE: static sentence */
	struct process *process; /* LINKED: a reference, which progress takes over */
	int copy_error;          /* LINKED: 0, or the errno for which single copy is impossible */
	uint64_t engine;         /* LINKED: the peer's address at /dev/exanest, or 0 */
	int status;              /* GONE, RESOLVED */
	uint64_t token, address; /* RESOLVED */
	struct parked_atomic *atomic; /* ATOMIC: progress takes over the atomic */
	enum fault_kind fault;
};

struct notices {
	_Atomic(struct notice *) newest;
	struct inbox_memory *inbox; /* of this process: woken by notices_report */
};

static inline bool notices_waiting(const struct notices *notices)
{
	return atomic_load_explicit(&notices->newest, memory_order_relaxed) != NULL;
}

/* Any thread: push a notice of the heap; progress frees it. */
void notice_push(struct notices *notices, struct notice *notice);
/* Any thread: report a copy of the notice, and wake progress. Waits for memory. */
void notices_report(struct notices *notices, const struct notice *notice);
/* Progress: report a peer that is gone, where the end cannot be handled. False: out of memory. */
bool notices_report_gone(struct notices *notices, pf_peer *peer, int status, const char *why);
/* Progress: all notices, oldest first, linked by next; the caller frees each. */
struct notice *notices_take(struct notices *notices);
/* Progress: let the next notices_take begin with these notices, which the last call returned. */
void notices_put_back(struct notices *notices, struct notice *oldest);

#endif

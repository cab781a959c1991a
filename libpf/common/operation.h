/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What transfers and atomics have in common: a peer, a completion to deliver,
 * and a place in the order of posting, which flush goes by.
 */
#ifndef PF_OPERATION_H
#define PF_OPERATION_H

#include <stdbool.h>

#include "pf.h"

enum operation_kind { OPERATION_PUT, OPERATION_GET, OPERATION_ATOMIC };

/* What advancing an operation did: nothing, something small, copied a run, finished it. */
enum { OPERATION_IDLE, OPERATION_MOVED, OPERATION_COPIED, OPERATION_FINISHED };

struct operation {
	struct operation *next, *previous;
	enum operation_kind kind;
	pf_peer *peer;
	uint64_t sequence;
	pf_complete_fn complete;
	pf_completion completion;
};

struct operations {
	struct operation active; /* head of a ring; progress's own */
	struct operation posted; /* head of a ring; under context->lock */
	struct operation
		away; /* with a transport that tells when they are done; under context->lock */
	_Atomic bool waiting; /* posted is not empty */
	uint64_t sequence;    /* of the last one posted */
};

void operations_init(struct operations *operations);
void operations_destroy(struct operations *operations);
/* Give an operation over to progress. */
void operation_post(pf_context *context, struct operation *operation);
/* Any thread: the same, for a transport that calls operation_finish by itself. */
void operation_send_away(pf_context *context, struct operation *operation);
/* It could not be started after all: free it. */
void operation_take_back(pf_context *context, struct operation *operation);
/* Progress: take what was posted into the active list. Returns how many. */
int operations_collect(pf_context *context);
/* Progress: advance every active operation. Returns how many things happened. */
int operations_advance(pf_context *context);
/* Progress: fail everything that waits for this peer. */
void operations_fail(pf_context *context, pf_peer *peer, int status);
/* Progress: deliver the completion, and free. */
void operation_finish(pf_context *context, struct operation *operation);
/* Progress: does everything that is active wait for /dev/exanest, and something? */
bool operations_on_device(pf_context *context);
/* Is anything posted up to this sequence number, to peer or to anybody, unfinished? */
bool operations_pending(pf_context *context, const pf_peer *peer, uint64_t sequence);

#endif

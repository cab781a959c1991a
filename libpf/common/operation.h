/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What transfers and atomics have in common: a peer, a completion to deliver,
 * and a place in the order of posting, by which pf_flush waits. Transports
 * embed struct operation in their own records; here are only the lists.
 *
 * Operations end in any order, so a count of those that ended does not tell which are open.
 * The lists do: an operation gets its number and its place at the end of a list under one
 * lock, and what is posted moves to active in that order. So each list has ascending numbers,
 * and the oldest open operation is the first of one of them. A mark, which is the number of the
 * operation posted last, is reached when none of the lists begins with a number up to it; of one
 * peer, when no operation of that peer comes before the first number behind the mark. This costs
 * nothing where operations are posted and end, and a test looks only at open operations that are
 * older than the mark.
 */
#ifndef PF_OPERATION_H
#define PF_OPERATION_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/queue.h>

#include "base/statistics.h"
#include "base/trace.h"
#include "pf.h"

enum operation_kind { OPERATION_PUT, OPERATION_GET, OPERATION_ATOMIC };

struct operation {
	struct operation *next, *previous;
	/* Its place among those of its peer that the transport can advance; progress's own. */
	TAILQ_ENTRY(operation) ready;
	bool is_ready;
	enum operation_kind kind;
	pf_peer *peer;
	uint64_t sequence; /* in the order of posting, from 1 */
	pf_complete_fn complete;
	pf_completion completion;
};

struct operations {
	pf_context *context; /* handed to completion callbacks */
	struct statistics *statistics;
	struct trace *trace; /* NULL: none */
	bool threads;
	uint64_t most; /* that may be open; 0: no limit */
	/*
	 * posted is not empty. Relaxed: the lock orders what is in posted; a poll that misses it is
	 * followed by another, and before a sleep the fences order it (host_post, inbox.h).
	 */
	_Atomic bool waiting;
	/* The three lists have ascending sequence numbers. */
	struct operation active; /* head of a ring; progress's own */
	/* The first of active that operations_next_new has not returned; progress's own. */
	struct operation *first_new;
	/* Under the lock. */
	pthread_mutex_t lock;
	struct operation posted; /* head of a ring: not seen by progress yet */
	struct operation away;   /* head of a ring: the transport reports when they end */
	uint64_t sequence;       /* of the operation posted last */
	uint64_t open;           /* operations not completed yet, counted only with a limit */
};

/* The statistics and the trace are the caller's and live longer. */
void operations_init(struct operations *operations, pf_context *context,
		     struct statistics *statistics, struct trace *trace, const pf_options *options);
/* The lists must be empty. */
void operations_destroy(struct operations *operations);

/*
 * Any thread: give an operation to progress, which finds it in active; and record one that the
 * transport advances by itself. False: it is refusable, and operations_max are open.
 */
bool operation_post(struct operations *operations, struct operation *operation, bool refusable);
bool operation_send_away(struct operations *operations, struct operation *operation);
/* Any thread: the transport could not start it after all. The caller frees it. */
void operation_take_back(struct operations *operations, struct operation *operation);
/* Any thread: are there fewer open than operations_max? */
bool operations_have_room(struct operations *operations);
/* Progress: move what was posted to the active list. */
void operations_take_posted(struct operations *operations);
/* Progress: each operation that came to the active list, once, in the order of posting; NULL: no more. */
struct operation *operations_next_new(struct operations *operations);
/* Progress: deliver the completion and take it off its list. The caller frees it. */
void operation_finish(struct operations *operations, struct operation *operation);
/* Closing: an operation of the list with this head, taken off it without a completion; NULL at the end. */
struct operation *operations_drop(struct operation *head);
/* Any thread: is an operation up to this sequence number, to peer or to any (NULL), unfinished? */
bool operations_pending(struct operations *operations, const pf_peer *peer, uint64_t sequence);
/* Any thread: the sequence number of the operation posted last. */
uint64_t operations_last(struct operations *operations);

/* Progress: the same, at the cost of one load if nothing was posted. */
static inline void operations_collect(struct operations *operations)
{
	if (atomic_load_explicit(&operations->waiting, memory_order_relaxed))
		operations_take_posted(operations);
}

static inline bool operations_active(const struct operations *operations)
{
	return operations->active.next != &operations->active;
}

#endif

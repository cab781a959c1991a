/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The common part of transfers and atomics: a peer, a completion to deliver, and a place in the
 * order of posting, used by pf_flush to wait. Transports embed struct operation in their own
 * records; here are only the lists.
 *
 * Operations end in any order, hence a count of ended operations does not tell which operations
 * are open. The lists do: an operation gets its number and its place at the end of a list under a
 * single lock, and posted operations move to active in posting order. Therefore each list has
 * ascending numbers, and the oldest open operation is the first of a list. A mark, which is the
 * number of the operation posted last, is reached when no list begins with a number up to the
 * mark; for a single peer, when no operation of the peer comes before the first number behind the
 * mark. Nothing is spent on marks where operations are posted and end, and a test looks only at
 * open operations older than the mark.
 */
#ifndef PF_OPERATION_H
#define PF_OPERATION_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/queue.h>

#include "base/statistics.h"
#include "base/trace.h"
#include <libpf/pf.h>
#include "transport.h"

struct peers;

struct operation {
	struct operation *next, *previous;
	/*
	 * place among the ready operations of the peer, which the transport can advance;
	 * progress's own
	 */
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
	uint64_t most; /* limit of open operations; 0: none */
	/*
	 * posted is not empty. Relaxed: the lock orders the list posted; a poll that misses the
	 * flag is followed by another poll, and before a sleep the fences order the flag
	 * (host_post, inbox.h).
	 */
	_Atomic bool waiting;
	/*
	 * A row: the number of short operations to row_peer since a poll found no operation active,
	 * or a flush of the peer returned. Operations that ended in the call of the program count,
	 * too. Without threads only; else 0.
	 */
	unsigned row;
	const pf_peer *row_peer;
	/* The three lists have ascending sequence numbers. */
	struct operation active; /* head of a ring; progress's own */
	/* The first of active not yet returned by operations_next_new; progress's own. */
	struct operation *first_new;
	/* Under the lock. */
	pthread_mutex_t lock;
	struct operation posted; /* head of a ring: not seen by progress yet */
	struct operation away;   /* head of a ring: the transport reports their ends */
	uint64_t sequence;       /* of the operation posted last */
	uint64_t open;           /* operations not completed yet, counted only with a limit */
	bool failed;             /* a peer may have a failure (peer.h) */
	uint32_t failures;       /* number of failures noted */
	/* Of peers that are forgotten, the oldest failure; as in peer.h. */
	uint32_t failure_number;
	int8_t failure;
};

/* The statistics and the trace are borrowed and live longer. */
void operations_init(struct operations *operations, pf_context *context,
		     struct statistics *statistics, struct trace *trace, const pf_options *options);
/* The lists must be empty. */
void operations_destroy(struct operations *operations);

/*
 * Any thread: give an operation to progress, which finds the operation in active
 * (operation_post), or record an operation advanced by the transport alone (operation_send_away).
 * False: the operation is refusable, and operations_max are open.
 */
bool operation_post(struct operations *operations, struct operation *operation, bool refusable);
bool operation_send_away(struct operations *operations, struct operation *operation);
/*
 * Any thread: the transport could not start the operation after all. The caller frees the
 * operation.
 */
void operation_take_back(struct operations *operations, struct operation *operation);
/* Any thread: are fewer operations open than operations_max? */
bool operations_have_room(struct operations *operations);
/* Progress: move posted operations to the active list. */
void operations_take_posted(struct operations *operations);
/*
 * Progress: return each new operation of the active list, once, in the order of posting; NULL: no
 * more.
 */
struct operation *operations_next_new(struct operations *operations);
/*
 * Progress: put an operation into the place of an active one, to be freed by the caller without a
 * completion.
 */
void operation_replace(struct operations *operations, struct operation *old,
		       struct operation *with);
/*
 * Progress: deliver the completion, or without a completion function note an error for the next
 * flush, and take the operation off its list. The caller frees the operation.
 */
void operation_finish(struct operations *operations, struct operation *operation);
/*
 * Closing: take an operation off the list with the given head, without a completion; NULL at the
 * end.
 */
struct operation *operations_drop(struct operation *head);
/* Any thread: is an operation up to the sequence number, to peer or to any (NULL), unfinished? */
bool operations_pending(struct operations *operations, const pf_peer *peer, uint64_t sequence);
/*
 * Any thread: return the first error of an operation without a completion function to peer, and
 * forget the error; PF_OK: none. peer NULL: the oldest error of all peers, and forget all.
 */
int operations_take_failure(struct operations *operations, struct peers *peers, pf_peer *peer);
/* Progress: keep the failure of a peer about to be freed, for a flush of all peers. */
void operations_keep_failure(struct operations *operations, const pf_peer *peer);
/* Any thread: the sequence number of the operation posted last. */
uint64_t operations_last(struct operations *operations);

/* Without threads: count a short operation to the peer. Returns how many came before in the row. */
static inline unsigned operations_row(struct operations *operations, const pf_peer *peer)
{
	if (operations->row_peer != peer)
		operations->row = 0;
	operations->row_peer = peer;
	return operations->row++;
}

static inline bool operations_active(const struct operations *operations)
{
	return operations->active.next != &operations->active;
}

/* Progress: the row ends where no operation is active. */
static inline void operations_end_row(struct operations *operations)
{
	if (operations->row && !operations_active(operations) &&
	    !atomic_load_explicit(&operations->waiting, memory_order_relaxed))
		operations->row = 0;
}

/*
 * Progress: move posted operations as operations_take_posted, at the cost of a load if nothing
 * was posted.
 */
static inline void operations_collect(struct operations *operations)
{
	if (atomic_load_explicit(&operations->waiting, memory_order_relaxed))
		operations_take_posted(operations);
	else
		operations_end_row(operations);
}

#endif

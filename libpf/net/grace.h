/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Something is to be sent that may not go yet: a window is full, or it waits for the next poll. Then
 * the application is given a grace period, after which the service thread takes the network over if
 * there was neither poll nor post. Without that a program that sends and then computes would keep the
 * end of what it sent back until the thread looks by itself, which is not often.
 *
 * If it polled and something still waits, another period follows at once. Each is twice as long as the
 * last, until the application was away for one: so one that always polls is left alone, and one that
 * polled for some time and then computes keeps things back for about as long. One that has no processor
 * is not away: with more processes than processors, the thread would take the processor that one of
 * them needs to poll. Acknowledgements that wait for an answer are not worth a period. Times are
 * nanoseconds, and arguments.
 *
 * A driver begins a period, under engine.lock. The service thread ends it, and may begin the next; it
 * also begins one when it leaves the network to the application, which may just have stopped polling.
 * All loads and stores are relaxed. What one misses of the other, the thread finds when it looks by
 * itself; if both begin a period at the same time it has values of either, all of them of that time.
 */
#ifndef PF_NET_GRACE_H
#define PF_NET_GRACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define GRACE_LEAST 100000u /* the time of two context switches is a small part of it */
#define GRACE_MOST 4000000u /* no longer than about the time until the thread looks by itself */

/* All 0 at first. */
struct grace {
	_Atomic bool waits;     /* something did, when a driver stopped last */
	_Atomic bool running;   /* the service thread will look at the end */
	_Atomic uint32_t shift; /* the next one is GRACE_LEAST << shift long */
	/* When it began: */
	_Atomic uint64_t looks; /* of the application */
	_Atomic uint64_t start;
	_Atomic int thread;    /* that had something to send, as gettid, */
	_Atomic uint64_t used; /* and the processor time that it had used */
};

enum grace_end {
	GRACE_AWAY,    /* the application works, and did not look at the network */
	GRACE_RENEWED, /* it did, or could not: another period begins */
	GRACE_OVER,    /* ... and nothing waits */
};

static inline uint64_t grace_length(const struct grace *grace)
{
	return (uint64_t)GRACE_LEAST << atomic_load_explicit(
		       &((struct grace *)(uintptr_t)grace)->shift, memory_order_relaxed);
}

/*
 * A driver stops. True: a period is to begin with grace_start, and the caller sees to it that the
 * thread looks at its end.
 */
static inline bool grace_needed(struct grace *grace, bool waits)
{
	/* Most often nothing changes, and nothing is written that the thread reads. */
	if (waits != atomic_load_explicit(&grace->waits, memory_order_relaxed))
		atomic_store_explicit(&grace->waits, waits, memory_order_relaxed);
	return waits && !atomic_load_explicit(&grace->running, memory_order_relaxed);
}

/* used: as activity_thread_fn's, of that thread. */
static inline void grace_start(struct grace *grace, uint64_t looks, uint64_t now, int thread,
			       uint64_t used)
{
	atomic_store_explicit(&grace->looks, looks, memory_order_relaxed);
	atomic_store_explicit(&grace->start, now, memory_order_relaxed);
	atomic_store_explicit(&grace->thread, thread, memory_order_relaxed);
	atomic_store_explicit(&grace->used, used, memory_order_relaxed);
	atomic_store_explicit(&grace->running, true, memory_order_relaxed);
}
/* The thread: does a period run? *left: of it, 0 at its end. */
static inline bool grace_runs(const struct grace *grace, uint64_t now, uint64_t *left)
{
	struct grace *read = (struct grace *)(uintptr_t)grace;
	uint64_t passed = now - atomic_load_explicit(&read->start, memory_order_relaxed);

	*left = passed < grace_length(grace) ? grace_length(grace) - passed : 0;
	return atomic_load_explicit(&read->running, memory_order_relaxed);
}

/*
 * The thread, at the end of a period. away: the application works, and did not look at the network.
 * GRACE_RENEWED: grace_start is to follow.
 */
static inline enum grace_end grace_end(struct grace *grace, bool away)
{
	atomic_store_explicit(&grace->running, false, memory_order_relaxed);
	if (away)
		return GRACE_AWAY;
	if (2 * grace_length(grace) <= GRACE_MOST)
		atomic_fetch_add_explicit(&grace->shift, 1, memory_order_relaxed);
	return atomic_load_explicit(&grace->waits, memory_order_relaxed) ? GRACE_RENEWED :
									   GRACE_OVER;
}

/* The thread: the application is away, and the network the thread's. */
static inline void grace_away(struct grace *grace)
{
	atomic_store_explicit(&grace->running, false, memory_order_relaxed);
	atomic_store_explicit(&grace->shift, 0, memory_order_relaxed);
}

#endif

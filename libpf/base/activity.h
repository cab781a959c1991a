/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Activity of the application's thread, seen from its calls of pf_progress: polling with events,
 * waiting, or computing instead of calling. Resolver threads rest by the activity. Also, whether
 * a thread is able to run but has no processor. No clock is read here: times are arguments.
 *
 * Progress writes the counters with relaxed stores; observers on other threads read the counters
 * without any order towards other data: the counters are hints.
 */
#ifndef PF_ACTIVITY_H
#define PF_ACTIVITY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum activity_state {
	ACTIVITY_POLLING,   /* calls progress, and something new moves */
	ACTIVITY_WAITING,   /* calls progress again and again, and nothing new moves */
	ACTIVITY_COMPUTING, /* does not call, or works between calls */
};

/*
 * Polls without new movement that mean waiting; fewer polls do not: a peer's move of its end of a
 * transfer also takes some microseconds of polls.
 */
#define ACTIVITY_WAITING_POLLS 500

struct activity {
	_Atomic uint64_t polls;    /* calls of progress */
	_Atomic uint64_t moved_at; /* the value of polls when something new moved last */
	_Atomic bool moved;        /* something new moved since the last poll ended; any thread */
	_Atomic bool sleeps;       /* progress sleeps in place of polls */
	/* Progress's own: */
	uint64_t busy_at; /* the value of polls from which empty polls are counted */
};

/* Any thread: note new movement, but not a retransmission after a fault. */
static inline void activity_moved(struct activity *activity)
{
	atomic_store_explicit(&activity->moved, true, memory_order_relaxed);
}

static inline uint64_t activity_read(const _Atomic uint64_t *counter)
{
	return atomic_load_explicit((_Atomic uint64_t *)(uintptr_t)counter, memory_order_relaxed);
}

/* Progress, at the end of a poll. busy: the poll did anything. */
static inline void activity_polled(struct activity *activity, bool busy)
{
	uint64_t polls = activity_read(&activity->polls) + 1;

	atomic_store_explicit(&activity->polls, polls, memory_order_relaxed);
	if (atomic_load_explicit(&activity->moved, memory_order_relaxed)) {
		atomic_store_explicit(&activity->moved, false, memory_order_relaxed);
		atomic_store_explicit(&activity->moved_at, polls, memory_order_relaxed);
	}
	if (busy)
		activity->busy_at = polls;
}

/* Progress: the empty polls in a row. */
static inline uint64_t activity_empty(const struct activity *activity)
{
	return activity_read(&activity->polls) - activity->busy_at;
}

/* Progress begins to sleep until something happens, or the sleep is over. */
static inline void activity_sleep(struct activity *activity, bool sleeps)
{
	atomic_store_explicit(&activity->sleeps, sleeps, memory_order_relaxed);
}

/* State at the last look of an observer on another thread. Zeroed at first. */
struct activity_observer {
	uint64_t polls, moved_at;
};

/* Progress: polls since something new moved. */
static inline uint64_t activity_still(const struct activity *activity)
{
	return activity_read(&activity->polls) - activity_read(&activity->moved_at);
}

/*
 * Return the activity of the thread since the observer looked last: POLLING, WAITING, or
 * COMPUTING, which here means no calls, or too few calls to tell.
 */
enum activity_state activity_observe(const struct activity *activity,
				     struct activity_observer *observer);

/*
 * Find whether a thread of the process is able to run (runnable NULL: not asked), and its
 * processor time used, ns. False: not known. Only runnable is read from a file.
 */
bool activity_thread(int thread, bool *runnable, uint64_t *used);
/*
 * Has a thread of the process hardly run for the last passed ns, though able to run? before,
 * used: its processor time at the begin of the time, and now.
 */
bool activity_starved(int thread, uint64_t before, uint64_t used, uint64_t passed);

#endif

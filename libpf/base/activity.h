/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the application's thread does, as seen from its calls of pf_progress:
 * it polls and something happens, it only waits, it computes between calls or
 * instead of calling, or it would like to run but has no processor. Progress
 * sleeps, resolver threads rest and the service thread serves the network by
 * this one measure. No clock is read here: times are arguments.
 *
 * Progress writes the counters with relaxed stores; observers on other threads
 * read them without any order towards other data: they are hints.
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
	ACTIVITY_STARVED,   /* does not call, because it waits for a processor */
};

/* More processor time than this between two polls is work of the application, ns. */
#define ACTIVITY_WORK_NANOSECONDS 5000
/*
 * Processor time that a sleep adds to the next poll, ns: two context switches and cold caches. An
 * estimate; with it, 64 idle processes on two processors go on sleeping.
 */
#define ACTIVITY_WAKE_NANOSECONDS 20000
/*
 * Fewer polls than this without new movement do not mean waiting: there are some
 * microseconds of them also while a peer moves its end of a transfer.
 */
#define ACTIVITY_WAITING_POLLS 500
/* A power of two, and shorter than a grace period (net/grace.h), in which a look is to be seen. */
#define ACTIVITY_MOMENT_NANOSECONDS 65536
/* For so long after a look, posts count as looks. */
#define ACTIVITY_POSTING_NANOSECONDS 4000000

struct activity {
	_Atomic uint64_t polls;    /* calls of progress */
	_Atomic uint64_t looks;    /* moments in which it looked at the network, or posted */
	_Atomic uint64_t moved_at; /* the value of polls when something new moved last */
	_Atomic bool moved;        /* something new moved since the last poll ended; any thread */
	_Atomic int thread;        /* the thread that looked last, as gettid; 0: none yet */
	/* The rest is progress's own; these two are moments, of other threads that poll as well. */
	_Atomic uint64_t counted; /* the last that looks counts */
	_Atomic uint64_t looked;  /* the last with a look */
	uint64_t busy_at;         /* the value of polls from which empty polls are counted */
	/* Empty polls since activity_waits was asked last, and the processor time that was used then. */
	uint64_t unasked;
	uint64_t asked_used;
};

/* Any thread: something moved other than what was retransmitted after a fault. */
static inline void activity_moved(struct activity *activity)
{
	atomic_store_explicit(&activity->moved, true, memory_order_relaxed);
}

static inline uint64_t activity_read(const _Atomic uint64_t *counter)
{
	return atomic_load_explicit((_Atomic uint64_t *)(uintptr_t)counter, memory_order_relaxed);
}

/* Progress: one writer, so a load and a store. */
static inline void activity_count(_Atomic uint64_t *counter)
{
	atomic_store_explicit(counter, activity_read(counter) + 1, memory_order_relaxed);
}

/* That moment counts, once. */
static inline void activity_count_moment(struct activity *activity, uint64_t moment)
{
	if (moment == activity_read(&activity->counted))
		return;
	atomic_store_explicit(&activity->counted, moment, memory_order_relaxed);
	activity_count(&activity->looks);
}

/*
 * Progress looks at the network, at that time (ns). Looks of one moment count once: one that computes,
 * and waits for a message now and then, looks often then, but in few moments.
 */
static inline void activity_looked(struct activity *activity, uint64_t now)
{
	uint64_t moment = now / ACTIVITY_MOMENT_NANOSECONDS;

	if (moment != activity_read(&activity->looked))
		atomic_store_explicit(&activity->looked, moment, memory_order_relaxed);
	activity_count_moment(activity, moment);
}

/*
 * The thread of progress posts something: as if it looked, if it did so within the last
 * ACTIVITY_POSTING_NANOSECONDS. One that only posts does not receive.
 */
static inline void activity_posted(struct activity *activity, uint64_t now)
{
	uint64_t moment = now / ACTIVITY_MOMENT_NANOSECONDS;

	if (moment - activity_read(&activity->looked) <=
	    ACTIVITY_POSTING_NANOSECONDS / ACTIVITY_MOMENT_NANOSECONDS)
		activity_count_moment(activity, moment);
}

/* Progress: count empty polls from now on. */
static inline void activity_count_anew(struct activity *activity)
{
	activity->busy_at = activity_read(&activity->polls);
}

/* Progress, at the end of a poll. busy: it did anything. */
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

/*
 * Progress: has the application only waited since this was asked last? Then there is
 * next to no processor time for each empty poll, which the caller counts in unasked, however
 * long other processes had the processor. used: processor time of this thread, ns.
 */
bool activity_waits(struct activity *activity, uint64_t used);

/* Progress: it slept until now, which is neither waiting nor work. used: as above. */
static inline void activity_slept(struct activity *activity, uint64_t used)
{
	activity->unasked = 0;
	activity->asked_used = used + ACTIVITY_WAKE_NANOSECONDS;
}

/* What an observer on another thread knew when it looked last. Zeroed at first. */
struct activity_observer {
	uint64_t time; /* ns */
	uint64_t polls, looks, moved_at;
	uint64_t used; /* processor time of the thread observed, ns */
};

/* Progress: polls since something new moved. */
static inline uint64_t activity_still(const struct activity *activity)
{
	return activity_read(&activity->polls) - activity_read(&activity->moved_at);
}

/*
 * What the thread did since the observer looked last: POLLING, WAITING, or COMPUTING,
 * which here means that it did not call, or not often enough to tell.
 */
enum activity_state activity_observe(const struct activity *activity,
				     struct activity_observer *observer);

/*
 * Whether the thread is able to run (runnable NULL: not asked), and the processor time that it has
 * used, ns. False: it is not known.
 */
typedef bool (*activity_thread_fn)(int thread, bool *runnable, uint64_t *used);
/* The same of a thread of this process. Only what is asked of runnable is read from a file. */
bool activity_thread(int thread, bool *runnable, uint64_t *used);
/*
 * Has a thread of this process hardly run for the last passed ns, though it is able to? before, used:
 * its processor time when they began, and now.
 */
bool activity_starved(int thread, uint64_t before, uint64_t used, uint64_t passed);

/*
 * Does the thread look at the network often enough since the observer looked last, which was
 * before now (ns)? POLLING if so, else STARVED or COMPUTING, by what "thread" tells of it.
 */
enum activity_state activity_observe_looks(const struct activity *activity,
					   struct activity_observer *observer, uint64_t now,
					   activity_thread_fn thread);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Grace periods decide when the service thread attends. An application that polls drives the
 * network without help, and the service thread would only take the processor. Therefore a poll
 * takes the network back from the service thread, and a grace period begins. At the end of the
 * period the service thread takes over if the application is away, with no poll and no post in the
 * second half of the period. An application without a processor is not away: with more processes
 * than processors, the service thread would take a processor from a process about to poll.
 * Otherwise another period follows at once, twice as long, and an application that always polls is
 * left alone.
 *
 * A short period begins while something cannot be sent yet, because a window is full or because a
 * post waits for the next poll: a program that sends and then computes would keep the end of a
 * message back. Without such waiting the first period is longer for each time in a row that the
 * service thread took over without need. An application with a poll each millisecond, and with
 * peers in need of nothing meanwhile, is not interrupted. Times are nanoseconds, and arguments.
 *
 * Callers hold network.attending while a period begins or ends, and while the timer is set. The
 * service thread attends while no period runs; while a period runs, the timer for the end is set.
 * The service thread reads without the lock, and may read fields of two periods; then the thread
 * looks once more than needed.
 */
#ifndef PF_NET_GRACE_H
#define PF_NET_GRACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define GRACE_LEAST 100000u           /* much more than the time of two context switches */
#define GRACE_FIRST (2 * GRACE_LEAST) /* least first period when nothing waits */
#define GRACE_DOUBLINGS 5             /* doublings of the longest period: 3.2 ms */
/*
 * Doublings of the longest period when nothing waits and the service thread was not needed lately:
 * 6.4 ms.
 */
#define GRACE_DOUBLINGS_NEEDLESS 6

/* Grace periods of a network; all 0 at first. */
struct grace {
	_Atomic bool waits;   /* something waited when a thread stopped driving last */
	_Atomic bool running; /* the service thread will look at the end of the period */
	_Atomic bool idle;    /* nothing waited when the period began */
	_Atomic uint64_t start, length;
	_Atomic uint32_t doublings; /* doublings of the next period with something waiting */
	/* Times in a row that the service thread took over without need. */
	_Atomic uint32_t needless;
	/*
	 * Last presence of the application: time, thread as gettid, and processor time of the
	 * thread.
	 */
	_Atomic uint64_t since;
	_Atomic int thread;
	_Atomic uint64_t used;
	/* The service thread was needed since a poll took the network back; under network.lock. */
	bool needed;
};

/* The order is relaxed: see the top. */
static inline uint64_t grace_read(const _Atomic uint64_t *number)
{
	return atomic_load_explicit((_Atomic uint64_t *)(uintptr_t)number, memory_order_relaxed);
}

static inline uint32_t grace_count(const _Atomic uint32_t *number)
{
	return atomic_load_explicit((_Atomic uint32_t *)(uintptr_t)number, memory_order_relaxed);
}

static inline bool grace_flag(const _Atomic bool *flag)
{
	return atomic_load_explicit((_Atomic bool *)(uintptr_t)flag, memory_order_relaxed);
}

/* Return the time from then to now, or 0 if another thread has read the clock later. */
static inline uint64_t grace_passed(uint64_t now, uint64_t then)
{
	return now > then ? now - then : 0;
}

/* The driving thread stops. Return whether a period has to begin with grace_start. */
static inline bool grace_needed(struct grace *grace, bool waits)
{
	/*
	 * Most often nothing changes, and the cache line, read by the service thread, is not
	 * written.
	 */
	if (waits != grace_flag(&grace->waits))
		atomic_store_explicit(&grace->waits, waits, memory_order_relaxed);
	return waits && (!grace_flag(&grace->running) || grace_flag(&grace->idle));
}

/* Begin a period, and return the end, like all functions below that begin a period. */
static inline uint64_t grace_begin(struct grace *grace, uint64_t now, uint64_t length, bool idle)
{
	atomic_store_explicit(&grace->idle, idle, memory_order_relaxed);
	atomic_store_explicit(&grace->length, length, memory_order_relaxed);
	atomic_store_explicit(&grace->start, now, memory_order_relaxed);
	atomic_store_explicit(&grace->running, true, memory_order_relaxed);
	return now + length;
}

/*
 * Note the presence of the application. used: processor time of the thread, from activity_thread.
 */
static inline void grace_note(struct grace *grace, uint64_t now, int thread, uint64_t used)
{
	atomic_store_explicit(&grace->since, now, memory_order_relaxed);
	atomic_store_explicit(&grace->thread, thread, memory_order_relaxed);
	atomic_store_explicit(&grace->used, used, memory_order_relaxed);
}

/* Begin a period because something waits. */
static inline uint64_t grace_start(struct grace *grace, uint64_t now)
{
	return grace_begin(grace, now, (uint64_t)GRACE_LEAST << grace_count(&grace->doublings),
			   false);
}

/*
 * Return the length of the first period with nothing waiting; grace_longest: of the longest period.
 */
static inline uint64_t grace_first(const struct grace *grace)
{
	return (uint64_t)GRACE_FIRST << grace_count(&grace->needless);
}

static inline uint64_t grace_longest(const struct grace *grace)
{
	return (uint64_t)GRACE_LEAST
	       << (grace_count(&grace->needless) < GRACE_DOUBLINGS - 1 ? GRACE_DOUBLINGS :
									 GRACE_DOUBLINGS_NEEDLESS);
}

/* Begin the period after a poll took the network back. */
static inline uint64_t grace_return(struct grace *grace, uint64_t now)
{
	uint32_t needless = grace_count(&grace->needless);

	/* A single time may be chance. */
	if (grace->needed)
		needless -= needless < 2 ? needless : 2;
	else if (needless < GRACE_DOUBLINGS - 1)
		needless++;
	grace->needed = false;
	atomic_store_explicit(&grace->needless, needless, memory_order_relaxed);
	return grace_begin(grace, now, grace_first(grace), true);
}

/*
 * The application polls or posts, for the first time since "last". After a pause with something
 * waiting, the application does not count as always polling, unless the application shares a
 * processor and may have waited for a turn.
 */
static inline void grace_seen(struct grace *grace, uint64_t now, uint64_t last, bool shares)
{
	if (!shares && grace_passed(now, last) >= GRACE_LEAST && grace_flag(&grace->waits))
		atomic_store_explicit(&grace->doublings, 0, memory_order_relaxed);
}

/* Return whether a period runs. *left: the rest of the period; 0 at the end. */
static inline bool grace_runs(const struct grace *grace, uint64_t now, uint64_t *left)
{
	uint64_t passed = grace_passed(now, grace_read(&grace->start)),
		 length = grace_read(&grace->length);

	*left = passed < length ? length - passed : 0;
	return grace_flag(&grace->running);
}

/*
 * At the end of a period: is the application, with the last poll or post at "last", away? Absence
 * during a short period says little when nothing waits any more.
 */
static inline bool grace_is_away(const struct grace *grace, uint64_t now, uint64_t last)
{
	return grace_passed(now, last) >= grace_read(&grace->length) / 2 &&
	       (grace_flag(&grace->idle) || grace_flag(&grace->waits));
}

/* Begin the next period, when the service thread does not take over at the end of the last. */
static inline uint64_t grace_renew(struct grace *grace, uint64_t now)
{
	uint32_t doublings = grace_count(&grace->doublings);
	bool before = grace_flag(&grace->idle), idle = !grace_flag(&grace->waits);
	uint64_t length = grace_read(&grace->length);

	if (!before && doublings < GRACE_DOUBLINGS)
		atomic_store_explicit(&grace->doublings, ++doublings, memory_order_relaxed);
	if (!idle)
		length = (uint64_t)GRACE_LEAST << doublings;
	else if (!before)
		length = grace_first(grace);
	else if (length < grace_longest(grace))
		length *= 2;
	return grace_begin(grace, now, length, idle);
}

/* The service thread takes over: no period runs. */
static inline void grace_away(struct grace *grace)
{
	atomic_store_explicit(&grace->running, false, memory_order_relaxed);
	atomic_store_explicit(&grace->doublings, 0, memory_order_relaxed);
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who serves the network. An application that polls serves it, and the service thread would only take its
 * processor from it. So a poll takes the network back from the thread, and a grace period begins, after
 * which the thread takes over if the application is away: it neither polled nor posted in the second
 * half of the period. One that has no processor is not away: with more processes than processors, the
 * thread would take the processor that one of them needs to poll. Otherwise another period follows at once,
 * twice as long, so one that always polls is left alone.
 *
 * If something is to be sent that may not go yet, because a window is full or it waits for the next poll,
 * a short period begins: a program that sends and then computes would keep the end of what it sent back.
 * Without that the first period is the longer, the more often in a row the thread took over and nobody
 * needed it: an application that polls each millisecond, and whose peers want nothing from it meanwhile,
 * is not interrupted. Times are nanoseconds, and arguments.
 *
 * What begins and ends periods is called with network.attending, and so is what sets the timer: while none
 * runs the thread attends, and while one runs the timer for its end is set. The thread reads without that,
 * and may read of two periods; then it looks once more than needed.
 */
#ifndef PF_NET_GRACE_H
#define PF_NET_GRACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define GRACE_LEAST 100000u           /* the time of two context switches is a small part of it */
#define GRACE_FIRST (2 * GRACE_LEAST) /* the first period, if nothing waits, is no shorter */
#define GRACE_DOUBLINGS 5             /* the longest period is 3.2 ms */
/* ... 6.4 ms, if nothing waits and the thread was not needed lately. */
#define GRACE_DOUBLINGS_NEEDLESS 6

/* All 0 at first. */
struct grace {
	_Atomic bool waits;   /* something did, when a driver stopped last */
	_Atomic bool running; /* the service thread will look at the end */
	_Atomic bool idle;    /* nothing waited when it began */
	_Atomic uint64_t start, length;
	_Atomic uint32_t doublings; /* of the next one for something that waits */
	_Atomic uint32_t needless; /* times in a row that the thread took over and was not needed */
	/* The application was there: since then, this thread of it, as gettid, and the processor time it had used. */
	_Atomic uint64_t since;
	_Atomic int thread;
	_Atomic uint64_t used;
	bool needed; /* somebody needed the thread since a poll took the network back; under network.lock */
};

/* Relaxed: see the top. */
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

/* Time from then to now, 0 if another thread has read the clock later. */
static inline uint64_t grace_passed(uint64_t now, uint64_t then)
{
	return now > then ? now - then : 0;
}

/* A driver stops. True: a period is to begin with grace_start. */
static inline bool grace_needed(struct grace *grace, bool waits)
{
	/* Most often nothing changes, and nothing is written that the thread reads. */
	if (waits != grace_flag(&grace->waits))
		atomic_store_explicit(&grace->waits, waits, memory_order_relaxed);
	return waits && (!grace_flag(&grace->running) || grace_flag(&grace->idle));
}

/* Returns its end, as those below that begin one. */
static inline uint64_t grace_begin(struct grace *grace, uint64_t now, uint64_t length, bool idle)
{
	atomic_store_explicit(&grace->idle, idle, memory_order_relaxed);
	atomic_store_explicit(&grace->length, length, memory_order_relaxed);
	atomic_store_explicit(&grace->start, now, memory_order_relaxed);
	atomic_store_explicit(&grace->running, true, memory_order_relaxed);
	return now + length;
}

/* The application is there. used: as activity_thread's, of that thread. */
static inline void grace_note(struct grace *grace, uint64_t now, int thread, uint64_t used)
{
	atomic_store_explicit(&grace->since, now, memory_order_relaxed);
	atomic_store_explicit(&grace->thread, thread, memory_order_relaxed);
	atomic_store_explicit(&grace->used, used, memory_order_relaxed);
}

/* For something that waits. */
static inline uint64_t grace_start(struct grace *grace, uint64_t now)
{
	return grace_begin(grace, now, (uint64_t)GRACE_LEAST << grace_count(&grace->doublings),
			   false);
}

/* The length of the first period in which nothing waits, and of the longest. */
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

/* A poll takes the network back. */
static inline uint64_t grace_return(struct grace *grace, uint64_t now)
{
	uint32_t needless = grace_count(&grace->needless);

	/* Once is chance. */
	if (grace->needed)
		needless -= needless < 2 ? needless : 2;
	else if (needless < GRACE_DOUBLINGS - 1)
		needless++;
	grace->needed = false;
	atomic_store_explicit(&grace->needless, needless, memory_order_relaxed);
	return grace_begin(grace, now, grace_first(grace), true);
}

/*
 * The application polls or posts, and did so last at that time. If something waited meanwhile, it is not one
 * that always polls, unless it shares its processor: then it may have waited for that.
 */
static inline void grace_seen(struct grace *grace, uint64_t now, uint64_t last, bool shares)
{
	if (!shares && grace_passed(now, last) >= GRACE_LEAST && grace_flag(&grace->waits))
		atomic_store_explicit(&grace->doublings, 0, memory_order_relaxed);
}

/* Does a period run? *left: of it, 0 at its end. */
static inline bool grace_runs(const struct grace *grace, uint64_t now, uint64_t *left)
{
	uint64_t passed = grace_passed(now, grace_read(&grace->start)),
		 length = grace_read(&grace->length);

	*left = passed < length ? length - passed : 0;
	return grace_flag(&grace->running);
}

/*
 * At its end: is the application away, which polled or posted last at that time? That it is, says little
 * after a short period for something that does not wait any more.
 */
static inline bool grace_is_away(const struct grace *grace, uint64_t now, uint64_t last)
{
	return grace_passed(now, last) >= grace_read(&grace->length) / 2 &&
	       (grace_flag(&grace->idle) || grace_flag(&grace->waits));
}

/* At its end, if the thread does not take over: the next one. */
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

/* The network is the thread's. */
static inline void grace_away(struct grace *grace)
{
	atomic_store_explicit(&grace->running, false, memory_order_relaxed);
	atomic_store_explicit(&grace->doublings, 0, memory_order_relaxed);
}

#endif

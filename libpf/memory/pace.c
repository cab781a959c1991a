/* SPDX-License-Identifier: BSD-3-Clause */
#include "pace.h"

#include <errno.h>
#include <sched.h>
#include <time.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/thread.h"

/*
 * Least processor time of the work before a rest, ns. A wake-up costs some microseconds of the
 * processor spared by the rest: a few percent of the work.
 */
#define WORK_MIN_NANOSECONDS 100000
/* Sleep of a real-time thread between two polls, ns: less than a page takes from most disks. */
#define REAL_TIME_SLEEP_NANOSECONDS 50000

void pace_init(struct pace *pace, uint64_t share, const struct activity *activity)
{
	pthread_condattr_t monotonic;

	pace->activity = activity;
	pace->share = share;
	pthread_mutex_init(&pace->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&pace->rested, &monotonic);
	pthread_condattr_destroy(&monotonic);
}

void pace_destroy(struct pace *pace)
{
	pthread_cond_destroy(&pace->rested);
	pthread_mutex_destroy(&pace->lock);
}

uint64_t pace_used(void)
{
	return clock_nanoseconds(CLOCK_THREAD_CPUTIME_ID);
}

void pace_begin(struct pace *pace)
{
	if (atomic_fetch_add_explicit(&pace->resolving, 1, memory_order_relaxed))
		return;
	pthread_mutex_lock(&pace->lock);
	pace->yielded = false;
	pthread_mutex_unlock(&pace->lock);
}

void pace_end(struct pace *pace)
{
	atomic_fetch_sub_explicit(&pace->resolving, 1, memory_order_relaxed);
}

/*
 * Under the lock: does progress move other blocks? Progress on the processor of the calling
 * thread cannot poll while the calling thread runs. Therefore the processor is yielded to
 * progress, once for each time that resolutions begin. Progress that does not poll then computes.
 */
static bool must_rest(struct pace *pace)
{
	enum activity_state state = activity_observe(pace->activity, &pace->observer);

	assert_locked(&pace->lock, true);
	if (state == ACTIVITY_COMPUTING && !pace->yielded) {
		sched_yield();
		state = activity_observe(pace->activity, &pace->observer);
	}
	pace->yielded = true;
	return state == ACTIVITY_POLLING;
}

/* Under the lock: sleep until due (CLOCK_MONOTONIC, ns), or until pace_wake. */
static void rest_until(struct pace *pace, uint64_t due)
{
	const struct timespec until = { .tv_sec = (time_t)(due / 1000000000),
					.tv_nsec = (long)(due % 1000000000) };
	const unsigned wakes = pace->wakes;

	assert_locked(&pace->lock, true);
	atomic_store_explicit(&pace->rests, true, memory_order_relaxed);
	while (!pace->stopped && pace->wakes == wakes &&
	       pthread_cond_timedwait(&pace->rested, &pace->lock, &until) != ETIMEDOUT)
		;
	atomic_store_explicit(&pace->rests, false, memory_order_relaxed);
}

void pace_rest(struct pace *pace, uint64_t *used)
{
	uint64_t spent = pace_used() - *used, now;

	if (pace->share >= 100 || spent < WORK_MIN_NANOSECONDS)
		return;
	*used += spent;
	pthread_mutex_lock(&pace->lock);
	if (must_rest(pace)) {
		/* The share is for all threads together: their rests are added up. */
		now = clock_nanoseconds(CLOCK_MONOTONIC);
		if (pace->due < now)
			pace->due = now;
		pace->due += spent * (100 - pace->share) / pace->share;
		rest_until(pace, pace->due);
	}
	pthread_mutex_unlock(&pace->lock);
}

/* End all rests; no rest is owed any more. */
static void pace_wake(struct pace *pace)
{
	pthread_mutex_lock(&pace->lock);
	pace->due = 0;
	pace->wakes++;
	pthread_cond_broadcast(&pace->rested);
	pthread_mutex_unlock(&pace->lock);
}

void pace_end_rests(struct pace *pace)
{
	pthread_mutex_lock(&pace->lock);
	pace->stopped = true;
	pthread_mutex_unlock(&pace->lock);
	pace_wake(pace);
}

/*
 * Leave the processor to the threads that bring the pages. Some are ordinary threads of the
 * kernel bound to the processor, as those of kblockd. sched_yield gives a kernel thread nothing
 * while the caller has a real-time policy: the kernel would run the thread after 0.95 s (the fair
 * server, or before Linux 6.12 sched_rt_runtime_us).
 */
static void processor_leave(void)
{
	const struct timespec sleep = { .tv_nsec = REAL_TIME_SLEEP_NANOSECONDS };
	int policy;

	if (thread_is_real_time(&policy))
		clock_nanosleep(CLOCK_MONOTONIC, 0, &sleep, NULL);
	else
		sched_yield();
}

void pace_polled(struct pace *pace, bool busy)
{
	if (activity_still(pace->activity) < ACTIVITY_WAITING_POLLS)
		return;
	/* If a thread begins to rest just now, the next poll wakes it. */
	if (atomic_load_explicit(&pace->rests, memory_order_relaxed))
		pace_wake(pace);
	if (!busy)
		processor_leave();
}

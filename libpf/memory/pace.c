/* SPDX-License-Identifier: BSD-3-Clause */
#include "pace.h"

#include <errno.h>
#include <sched.h>
#include <time.h>

#include "base/clock.h"

/* Waking up costs some microseconds of the processor that is to be spared. */
#define WORTH_NANOSECONDS 100000
/* Polls come up empty for some microseconds, too, while a peer moves its end of a transfer. */
#define WAITS_POLLS 500

void pace_init(struct pace *pace, uint64_t share)
{
	pthread_condattr_t monotonic;

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
	atomic_store_explicit(&pace->begun, true, memory_order_relaxed);
	if (atomic_fetch_add_explicit(&pace->resolving, 1, memory_order_relaxed))
		return;
	pthread_mutex_lock(&pace->lock);
	pace->asked = false;
	pthread_mutex_unlock(&pace->lock);
}

void pace_end(struct pace *pace)
{
	atomic_fetch_sub_explicit(&pace->resolving, 1, memory_order_relaxed);
}

/*
 * A caller on this very processor cannot show itself while we have it, so it
 * is let in once. Who stays silent then, computes.
 */
static bool must_rest(struct pace *pace)
{
	for (;;) {
		int caller = atomic_exchange_explicit(&pace->caller, PACE_SILENT,
						      memory_order_relaxed);

		if (caller != PACE_SILENT || pace->asked) {
			pace->asked = true;
			return caller == PACE_MOVES;
		}
		pace->asked = true;
		sched_yield();
	}
}

/* Under the lock: until due, or until the caller has nothing else to do. */
static void rest_until(struct pace *pace, uint64_t due)
{
	const struct timespec until = { .tv_sec = (time_t)(due / 1000000000),
					.tv_nsec = (long)(due % 1000000000) };
	const unsigned wakes = pace->wakes;

	atomic_store_explicit(&pace->rests, true, memory_order_relaxed);
	while (!pace->stopped && pace->wakes == wakes &&
	       pthread_cond_timedwait(&pace->rested, &pace->lock, &until) != ETIMEDOUT)
		;
	atomic_store_explicit(&pace->rests, false, memory_order_relaxed);
}

void pace_rest(struct pace *pace, uint64_t *used)
{
	uint64_t spent = pace_used() - *used, now;

	if (pace->share >= 100 || spent < WORTH_NANOSECONDS)
		return;
	*used += spent;
	pthread_mutex_lock(&pace->lock);
	if (must_rest(pace)) {
		/* All threads together are to keep to the share: each rests behind the others. */
		now = clock_nanoseconds(CLOCK_MONOTONIC);
		if (pace->due < now)
			pace->due = now;
		pace->due += spent * (100 - pace->share) / pace->share;
		rest_until(pace, pace->due);
	}
	pthread_mutex_unlock(&pace->lock);
}

/* What is due is forgotten. */
static void wake(struct pace *pace)
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
	wake(pace);
}

void pace_called(struct pace *pace, bool moved, bool busy)
{
	if (atomic_load_explicit(&pace->begun, memory_order_relaxed)) {
		atomic_store_explicit(&pace->begun, false, memory_order_relaxed);
		pace->empty = 0;
	}
	if (moved) {
		pace->empty = 0;
		atomic_store_explicit(&pace->caller, PACE_MOVES, memory_order_relaxed);
	} else if (++pace->empty >= WAITS_POLLS) {
		atomic_store_explicit(&pace->caller, PACE_WAITS, memory_order_relaxed);
		/* One that lies down this moment is found at the next poll. */
		if (atomic_load_explicit(&pace->rests, memory_order_relaxed))
			wake(pace);
		if (!busy)
			sched_yield();
	}
}

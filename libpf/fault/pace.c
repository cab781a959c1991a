/* SPDX-License-Identifier: BSD-3-Clause */
#include "pace.h"

#include <sched.h>
#include <time.h>

#include "clock.h"

/* Waking up costs some microseconds of the processor that is to be spared. */
#define WORTH_NANOSECONDS 100000
/* Polls come up empty for some microseconds, too, while a peer moves its end of a transfer. */
#define WAITS_POLLS 500

void pace_init(struct pace *pace, uint64_t share)
{
	pace->share = share;
	pthread_mutex_init(&pace->lock, NULL);
}

void pace_destroy(struct pace *pace)
{
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

void pace_rest(struct pace *pace, uint64_t *used)
{
	uint64_t spent = pace_used() - *used, now, due;
	struct timespec until;

	if (pace->share >= 100 || spent < WORTH_NANOSECONDS)
		return;
	*used += spent;
	pthread_mutex_lock(&pace->lock);
	if (!must_rest(pace)) {
		pthread_mutex_unlock(&pace->lock);
		return;
	}
	/* All threads together are to keep to the share: each rests behind the others. */
	now = clock_nanoseconds(CLOCK_MONOTONIC);
	if (pace->due < now)
		pace->due = now;
	pace->due += spent * (100 - pace->share) / pace->share;
	due = pace->due;
	pthread_mutex_unlock(&pace->lock);
	until = (struct timespec){ .tv_sec = (time_t)(due / 1000000000),
				   .tv_nsec = (long)(due % 1000000000) };
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

void pace_called(struct pace *pace, bool moved, bool busy)
{
	if (moved) {
		pace->empty = 0;
		atomic_store_explicit(&pace->caller, PACE_MOVES, memory_order_relaxed);
	} else if (++pace->empty >= WAITS_POLLS) {
		atomic_store_explicit(&pace->caller, PACE_WAITS, memory_order_relaxed);
		if (!busy)
			sched_yield();
	}
}

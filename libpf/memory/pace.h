/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processor time of resolver threads. Often resolver threads have no processor but that of the
 * thread in progress. While progress moves other blocks, resolver threads take a given share of a
 * processor and no more. While progress only waits for resolutions, resolver threads take all
 * they can get. While the application computes, the kernel divides the processor as between any
 * two threads. base/activity.h tells the three apart.
 */
#ifndef PF_PACE_H
#define PF_PACE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/activity.h"

struct pace {
	const struct activity *activity;
	/*
	 * Hints for progress, without order towards other data, hence relaxed on any processor: a
	 * value missed by a poll is seen by a later poll.
	 */
	/* resolutions queued for or running on resolver threads, or asked of peers */
	_Atomic unsigned resolving;
	_Atomic bool rests; /* a resolver thread rests */
	uint64_t share;     /* percent of a processor; 100: no limit */
	pthread_mutex_t lock;
	/* Under the lock: */
	struct activity_observer observer;
	pthread_cond_t rested; /* rests end before their time */
	unsigned wakes;        /* how often all rests were ended */
	bool stopped;          /* no rests any more */
	bool yielded; /* the processor was yielded to progress once, to see if progress polls */
	uint64_t due; /* end of the rests so far, CLOCK_MONOTONIC, ns */
};

/* share: percent of a processor. The activity is borrowed and must outlive the pace. */
void pace_init(struct pace *pace, uint64_t share, const struct activity *activity);
void pace_destroy(struct pace *pace);
/* Any thread, around each resolution that is given to a resolver thread or to a peer. */
void pace_begin(struct pace *pace);
void pace_end(struct pace *pace);
/* Processor time of the calling thread, ns. */
uint64_t pace_used(void);
/*
 * A resolver thread, after some work: rest if the share demands a rest. *used: pace_used before
 * the work; set to the present value once the work was long enough to be judged.
 */
void pace_rest(struct pace *pace, uint64_t *used);
/* Any thread: end all rests; no thread rests again. */
void pace_end_rests(struct pace *pace);
/* Progress, after a poll while pace_is_resolving. busy: the poll did something. */
void pace_polled(struct pace *pace, bool busy);

/* Any thread: do resolver threads, here or in peers, have anything to do? */
static inline bool pace_is_resolving(const struct pace *pace)
{
	return atomic_load_explicit(&((struct pace *)pace)->resolving, memory_order_relaxed) != 0;
}

#endif

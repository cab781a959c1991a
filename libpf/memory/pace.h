/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How much of a processor resolver threads take. Often they have only that of
 * the thread that calls progress. While it moves other blocks, they take a stated
 * share of it and no more; while it only waits, which is for them, they take all of
 * it; and while it computes, the kernel divides the processor as between any two
 * threads. Which of these it does, base/activity.h tells.
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
	_Atomic unsigned resolving; /* resolutions that threads have or will have in hand */
	_Atomic bool rests;         /* a thread rests */
	uint64_t share;             /* percent of a processor; 100: all of it */
	pthread_mutex_t lock;
	/* Under the lock. */
	struct activity_observer observer;
	pthread_cond_t rested;
	unsigned wakes; /* that ended all rests before their time */
	bool stopped;   /* no more rests */
	bool let_in;    /* the caller had the processor to show itself */
	uint64_t due;   /* when the share allows for more, ns */
};

/* The activity is the caller's and lives longer. */
void pace_init(struct pace *pace, uint64_t share, const struct activity *activity);
void pace_destroy(struct pace *pace);
/* Around each resolution that is given to a resolver thread; any threads. */
void pace_begin(struct pace *pace);
void pace_end(struct pace *pace);
/* Processor time of the calling thread, ns. */
uint64_t pace_used(void);
/* Resolver threads: *used is what pace_used said before the work, and is renewed. */
void pace_rest(struct pace *pace, uint64_t *used);
/* Any thread: who rests goes on, and nobody rests again. */
void pace_end_rests(struct pace *pace);
/* Progress, after a poll while something is being resolved. busy: the poll did anything. */
void pace_polled(struct pace *pace, bool busy);

static inline bool pace_asked(const struct pace *pace)
{
	return atomic_load_explicit(&((struct pace *)pace)->resolving, memory_order_relaxed) != 0;
}

#endif

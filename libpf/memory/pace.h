/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Resolver threads often have only the processor of the thread that calls
 * progress. While that one moves other blocks, they take a stated share of it
 * and no more; when it has nothing to do but to wait for them, it lets them
 * have all; and when it does not call at all, for it computes, the kernel
 * divides the processor as it does between any two threads.
 *
 * What the caller did last is a hint, stored by it and taken by the resolver
 * threads without any order towards other data.
 */
#ifndef PF_PACE_H
#define PF_PACE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum pace_caller {
	PACE_SILENT, /* was not in progress since this was asked last */
	PACE_MOVES,
	PACE_WAITS,
};

struct pace {
	_Atomic unsigned resolving; /* resolutions that threads have or will have in hand */
	_Atomic int caller;         /* enum pace_caller */
	_Atomic bool begun;         /* something new since progress looked last */
	_Atomic bool rests;         /* a thread does */
	unsigned empty;             /* polls in a row; progress's own */
	uint64_t share;             /* percent of a processor; 100: all of it */
	pthread_mutex_t lock;
	pthread_cond_t rested;
	unsigned wakes; /* that ended all rests before their time */
	bool stopped;   /* no more rests */
	bool asked;     /* the caller had its chance to show itself */
	uint64_t due;   /* when the share allows for more, ns */
};

void pace_init(struct pace *pace, uint64_t share);
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
/*
 * Progress, while something is being resolved: did it move anything but what
 * was resolved before, and did it do anything at all?
 */
void pace_called(struct pace *pace, bool moved, bool busy);

static inline bool pace_asked(const struct pace *pace)
{
	return atomic_load_explicit(&((struct pace *)pace)->resolving, memory_order_relaxed) != 0;
}

#endif

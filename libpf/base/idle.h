/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When a process whose polls find nothing sleeps, and for how long. No clock is read and nothing
 * sleeps here: times are arguments, nanoseconds.
 *
 * Polls that find nothing are counted from the last event: something was found, or the application
 * posted something. They are timed in rounds of IDLE_ROUND. A caller that only waits, as MPI_Recv,
 * polls again at once, so its rounds are short. A caller that works between polls, as a loop of
 * MPI_Iprobe and work, has long rounds, and so has one that loses its processor: no sleep follows
 * a long round, and the next one decides anew.
 *
 * Yields of the processor fall between two rounds: the time that other processes take of it, and the
 * cold caches after it, are in none. With a yield after each poll the rounds of 64 waiting ranks on two
 * processors were all long, and none ever slept.
 *
 * The caller may wait for more than messages: a lock in shared memory, a generalized request, the
 * end of another library's work. Nothing wakes it for these. So a sleep lasts at most an
 * IDLE_SHARE-th of the time since the event, and at most what the caller permits; one round
 * separates it from the next. Messages end a sleep at once.
 */
#ifndef PF_IDLE_H
#define PF_IDLE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Polls of a round. The first poll after a sleep runs with cold caches, and ends before the round is
 * timed. Each poll more costs 1 us after every sleep (perf, 64 idle ranks on 2 processors).
 */
#define IDLE_ROUND 4
/*
 * A round of a caller that waits takes less than this for each poll, ns. MPI_Recv takes some 100; pieces of
 * work of MUMPS between two polls are shorter than 1 us.
 */
#define IDLE_WORK_NANOSECONDS 250
/*
 * Polls before the first yield of the processor, which another processor answers in meanwhile, and polls
 * of a caller that waits for each yield. One that works yields after each round. Multiples of IDLE_ROUND.
 * (benchmarks/promises, farm and all-to-all: with 4 and 4 a farm of 4 ranks takes 2.5 us a task instead
 * of 0.6, with 64 and 64 an all-to-all of 8 ranks twice as long.)
 */
#define IDLE_YIELD_FIRST 32
#define IDLE_YIELD_POLLS 16
/* How late an event that wakes nothing may be noticed: by this part of the time waited. */
#define IDLE_SHARE 32
/* No sleep is shorter, ns: the kernel adds as much to each (timerslack). */
#define IDLE_SLEEP_LEAST 50000

struct idle {
	uint64_t polls;     /* since the last event; 0: the last poll was one */
	uint64_t since;     /* time of the first of them, ns */
	uint64_t start;     /* time of the first poll of this round, ns */
	uint64_t announced; /* polls when a sleep was announced, until the next event; 0: none is */
	bool slept;         /* since the last event */
	uint64_t work;      /* ns; IDLE_WORK_NANOSECONDS, but for tests */
	uint64_t least;     /* ns; IDLE_SLEEP_LEAST, but for tests */
};

enum idle_step {
	IDLE_POLL,     /* poll on */
	IDLE_YIELD,    /* yield the processor once, and poll on */
	IDLE_ANNOUNCE, /* announce a sleep, and poll on */
	IDLE_SLEEP,
};

void idle_init(struct idle *idle);

/* Something happened. False: nothing was to be taken back. */
static inline bool idle_end(struct idle *idle)
{
	bool announced = idle->announced != 0;

	idle->polls = idle->announced = 0;
	return announced;
}

/* A poll found nothing. True: call idle_next. */
static inline bool idle_polled(struct idle *idle)
{
	return ++idle->polls % IDLE_ROUND <= 1;
}

/*
 * The next step. polls: to pass before the first sleep. ahead: at least so many of them pass between its
 * announcement and the sleep.
 */
enum idle_step idle_next(struct idle *idle, uint64_t now, uint64_t polls, uint64_t ahead);
/* The length of a sleep that begins now, ns: at most the longest. Such sleeps end at multiples of it. */
uint64_t idle_length(const struct idle *idle, uint64_t now, uint64_t longest);

#endif

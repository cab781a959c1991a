/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sleeps of a process with empty polls: their times and lengths. No clock is read and nothing
 * sleeps here: times are arguments, nanoseconds.
 *
 * Empty polls are counted from the last event: something was found, or the application posted
 * something. The polls are timed in rounds of IDLE_ROUND. A caller that only waits, as MPI_Recv,
 * polls again at once: its rounds are short. A caller that works between polls, as a loop of
 * MPI_Iprobe and work, has long rounds, and likewise a caller that loses its processor: no sleep
 * follows a long round, and the next round decides anew.
 *
 * Yields of the processor fall between two rounds: the time taken by other processes, and the
 * cold caches afterwards, are in no round. With a yield after each poll the rounds of 64 waiting
 * ranks on two processors were all long, and no rank ever slept.
 *
 * The caller may wait for more than messages: a lock in shared memory, a generalized request, the
 * end of another library's work. Nothing wakes the caller for any of the three. Therefore a sleep
 * lasts at most an IDLE_SHARE-th of the time since the event, and at most the time permitted by
 * the caller; a round separates two sleeps. Messages end a sleep at once.
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
 * Longest poll of a waiting caller, ns, on average of a round. MPI_Recv takes some 100; pieces of
 * work of MUMPS between two polls are shorter than 1 us.
 */
#define IDLE_WORK_NANOSECONDS 250
/*
 * Polls before the first yield of the processor, which another processor answers in meanwhile. A
 * peer without a processor answers no sooner: see idle_next.
 * Each later round ends with a yield, unless a sleep or the wait for an announced sleep follows.
 * A multiple of IDLE_ROUND. (benchmarks/promises, farm of 4 ranks on two processors: 2.5 us a task
 * with a yield after each 4 polls, 0.6 with one after each 16 from the 32nd on.)
 */
#define IDLE_YIELD_FIRST 32
/*
 * Divisor of the time waited: an event without a wake-up is noticed late by at most the quotient.
 */
#define IDLE_SHARE 32
/* No sleep is shorter, ns: the kernel adds as much to each (timerslack). */
#define IDLE_SLEEP_LEAST 50000

struct idle {
	uint64_t polls;     /* polls since the last event; 0: the last poll was an event */
	uint64_t since;     /* time of the first timed poll since the event, ns; 0: none */
	uint64_t start;     /* time of the first poll of the round, ns */
	uint64_t announced; /* polls at the announcement of a sleep, until the next event */
	bool slept;         /* a sleep since the last event */
	uint64_t work;      /* ns; IDLE_WORK_NANOSECONDS, but for tests */
	uint64_t least;     /* ns; IDLE_SLEEP_LEAST, but for tests */
};

enum idle_step {
	IDLE_POLL,     /* poll on */
	IDLE_YIELD,    /* yield the processor once, and poll on */
	IDLE_ANNOUNCE, /* announce a sleep, and poll on */
	IDLE_SLEEP,
};

/* How a sleep ended. */
enum idle_slept { IDLE_NOT_SLEPT, IDLE_WOKEN, IDLE_TIMED_OUT };

void idle_init(struct idle *idle);

/* Note an event. False: no announcement is to be taken back. */
static inline bool idle_end(struct idle *idle)
{
	bool announced = idle->announced != 0;

	idle->polls = idle->since = idle->announced = 0;
	return announced;
}

/* Note an empty poll. True: call idle_next. */
static inline bool idle_polled(struct idle *idle)
{
	return ++idle->polls % IDLE_ROUND <= 1;
}

/*
 * Return whether idle_next needs the time: at the first yield, and in rounds that a sleep may
 * follow.
 */
static inline bool idle_is_timed(const struct idle *idle, uint64_t polls, uint64_t ahead)
{
	return idle->polls == IDLE_YIELD_FIRST || idle->polls + ahead + IDLE_ROUND > polls;
}

/*
 * Return the next step. now: 0 unless early, or idle_is_timed with equal arguments. polls: number
 * before the first sleep. ahead: least number of polls between the announcement of a sleep and the
 * sleep. early: the peer needs a processor. The first yield then follows the first short round with
 * both ends timed.
 */
enum idle_step idle_next(struct idle *idle, uint64_t now, uint64_t polls, uint64_t ahead,
			 bool early);
/*
 * Return the length of a sleep that begins now, ns: at most longest. Sleeps of the longest length
 * end at its multiples.
 */
uint64_t idle_length(const struct idle *idle, uint64_t now, uint64_t longest);

#endif

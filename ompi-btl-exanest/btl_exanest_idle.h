/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Yields and sleeps of a process with empty polls: the times, and the lengths of sleeps. No
 * clock is read and nothing sleeps here: times are arguments, nanoseconds.
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
#ifndef MCA_BTL_EXANEST_IDLE_H
#define MCA_BTL_EXANEST_IDLE_H

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
 * Polls of a patient wait before the first yield of the processor, which another processor answers
 * in meanwhile.
 * Each later round ends with a yield, unless a sleep or the wait for an announced sleep follows.
 * A multiple of IDLE_ROUND. (benchmarks/promises, farm of 4 ranks on two processors: 2.5 us a task
 * with a yield after each 4 polls, 0.6 with one after each 16 from the 32nd on.)
 */
#define IDLE_YIELD_FIRST 32
/*
 * Most patience. A wait that ends within IDLE_YIELD_FIRST polls adds 2, and a longer wait takes 1.
 * Without patience the first yield follows the first round. In an all-to-all of ranks that share
 * processors 3 of 100 waits end within IDLE_YIELD_FIRST polls, because the peer needs the
 * processor; in a task farm 50 to 70.
 */
#define IDLE_PATIENCE 16
/* One of so many waits is patient in any case, and shows whether patience helps by now. */
#define IDLE_TRIAL 16
/*
 * Divisor of the time waited: an event without a wake-up is noticed late by at most the quotient.
 */
#define IDLE_SHARE 32
/* No sleep is shorter, ns: the kernel adds as much to each (timerslack). */
#define IDLE_SLEEP_LEAST 50000

/* A good number of polls before the first sleep for processes that share processors. */
#define MCA_BTL_EXANEST_IDLE_POLLS 1000

struct mca_btl_exanest_idle {
	uint64_t polls;    /* polls since the last event; 0: the last poll was an event */
	uint64_t since;    /* time of the first timed poll since the event, ns; 0: none */
	uint64_t start;    /* time of the first poll of the round, ns */
	unsigned patience; /* see IDLE_PATIENCE */
	unsigned waits;    /* events that ended a wait of a round or longer */
	bool rested;       /* no long round since the last sleep */
	uint64_t work;     /* ns; IDLE_WORK_NANOSECONDS, but for tests */
	uint64_t least;    /* ns; IDLE_SLEEP_LEAST, but for tests */
};

enum idle_step {
	IDLE_POLL,  /* poll on */
	IDLE_YIELD, /* yield the processor once, and poll on */
	IDLE_SLEEP, /* sleep; the poll after the sleep counts, too */
};

void mca_btl_exanest_idle_init(struct mca_btl_exanest_idle *idle);

/* Does this wait poll IDLE_YIELD_FIRST times before the first yield? */
static inline bool idle_is_patient(const struct mca_btl_exanest_idle *idle)
{
	return idle->patience || idle->waits % IDLE_TRIAL == 0;
}

/* An event ends a wait: note whether polls without a yield found the event. */
static inline void idle_learn(struct mca_btl_exanest_idle *idle)
{
	if (idle->polls < IDLE_YIELD_FIRST && idle_is_patient(idle) &&
	    idle->patience <= IDLE_PATIENCE - 2)
		idle->patience += 2;
	idle->waits++;
}

/* Note an event. */
static inline void idle_end(struct mca_btl_exanest_idle *idle)
{
	if (idle->polls >= IDLE_ROUND)
		idle_learn(idle);
	idle->polls = idle->since = 0;
}

/* Note an empty poll. True: call mca_btl_exanest_idle_next. */
static inline bool idle_polled(struct mca_btl_exanest_idle *idle)
{
	return ++idle->polls % IDLE_ROUND <= 1;
}

/*
 * Return whether mca_btl_exanest_idle_next needs the time: at poll IDLE_YIELD_FIRST, where the time
 * waited begins, and in rounds that a sleep may follow.
 */
static inline bool idle_is_timed(const struct mca_btl_exanest_idle *idle, uint64_t polls)
{
	return idle->polls == IDLE_YIELD_FIRST || idle->polls + IDLE_ROUND > polls;
}

/*
 * Return the next step. now: 0 where idle_is_timed, with the same arguments, returns false.
 * polls: number before the first sleep.
 */
enum idle_step mca_btl_exanest_idle_next(struct mca_btl_exanest_idle *idle, uint64_t now,
					 uint64_t polls);
/*
 * Return the length of a sleep that begins now, ns: at most longest. Sleeps of the longest length
 * end at its multiples.
 */
uint64_t mca_btl_exanest_idle_length(const struct mca_btl_exanest_idle *idle, uint64_t now,
				     uint64_t longest);

#endif

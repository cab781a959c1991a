/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bell of an inbox (host/inbox.h): two writers, each with one message, and a reader
 * that sleeps when it finds nothing. A message that is never delivered shows as an invalid
 * end state: the reader sleeps and no writer wakes it.
 *
 * Memory is as on arm64. A store becomes visible to all processors at once, but a
 * processor performs its own accesses in any order that the code does not forbid: so a
 * writer takes its steps in any order that the conditions below permit. The reader's
 * accesses are ordered by its exchanges and by its fence.
 *
 * -DMARK_RELAXED, -DBELL_RELAXED, -DNO_FENCE: variants that must fail.
 */
#define WRITERS 2

#ifdef MARK_RELAXED
#define MARK_ORDERED true
#else
#define MARK_ORDERED message[_pid]
#endif
#ifdef BELL_RELAXED
#define BELL_ORDERED message[_pid]
#else
#define BELL_ORDERED (message[_pid] && marked)
#endif
#ifdef NO_FENCE
#define LOAD_ORDERED true
#else
#define LOAD_ORDERED (message[_pid] && marked && rung)
#endif

bit message[WRITERS], mark[WRITERS], delivered[WRITERS];
bit bell, sleeping;

/* Processes 0 and 1. */
active [WRITERS] proctype writer()
{
	bit marked, rung, looked, asleep;

	do
	:: !message[_pid] -> message[_pid] = 1 /* W1 */
	:: !marked && MARK_ORDERED -> atomic { mark[_pid] = 1; marked = 1 } /* W3 */
	:: !rung && BELL_ORDERED -> atomic { bell = 1; rung = 1 } /* W4 */
	:: !looked && LOAD_ORDERED -> atomic { asleep = sleeping; looked = 1 } /* W6 */
	:: message[_pid] && marked && rung && looked -> break
	od;
	if
	:: asleep -> sleeping = 0 /* and FUTEX_WAKE */
	:: else
	fi
}

active proctype reader()
{
	byte i;

	do
	:: delivered[0] && delivered[1] -> break
	:: bell ->
		bell = 0; /* R1 */
		for (i : 0 .. WRITERS - 1) {
			if
			:: atomic { mark[i] -> mark[i] = 0 } /* R2 */
				if
				:: message[i] -> delivered[i] = 1 /* R3 */
				:: else
				fi
			:: else
			fi
		}
	:: !bell && !(delivered[0] && delivered[1]) ->
		sleeping = 1; /* S1, S2 */
		if
		:: bell -> sleeping = 0 /* S3 */
		:: else -> !sleeping /* FUTEX_WAIT */
		fi
	od
}

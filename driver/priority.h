/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The priority of an engine's thread. Callers that poll for a completion keep
 * their processors busy, and a thread that shares one of these as an equal
 * waits for whole time slices of theirs. So it goes before them, at the lowest
 * of the real-time priorities, but only while it has credit: it earns a share
 * of the time that passes (engine_share), up to CREDIT_MAX, and spends what it
 * runs for. Without credit it is an equal again. So whatever processes submit,
 * other threads have at least the rest of each processor's time, and never wait
 * longer for it than CREDIT_MAX / (1 - share): 16 ms, 40 at the highest share.
 */
#ifndef EXANEST_PRIORITY_H
#define EXANEST_PRIORITY_H

#include <linux/types.h>

struct exanest_priority {
	bool high;
	s64 credit; /* ns; below 0 once a turn was longer */
	u64 counted;
};

/* All of them for the thread that calls. */
void exanest_priority_start(struct exanest_priority *priority);
/* It worked since it was started, woken, or called this last. */
void exanest_priority_spend(struct exanest_priority *priority);
/* It is about to sleep: who wakes it finds it at the high priority. */
void exanest_priority_sleep(struct exanest_priority *priority);
void exanest_priority_wake(struct exanest_priority *priority);

#endif

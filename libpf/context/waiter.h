/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The descriptor polled by a program instead of calls of pf_progress, and the thread that makes
 * the descriptor readable, the waiter. Writers in other processes wake a sleeper by a futex,
 * which cannot be polled; the waiter sleeps on the futex in place of progress, exactly as
 * progress would, and then signals an eventfd. The waiter exists from the first pf_descriptor on.
 *
 *     pf_arm (as progress)                   waiter
 *     A1  read the eventfd                   T1  wait for "go"                    semaphore
 *     A2  sleeping = 1        relaxed        T2  sleep while sleeping == 1        futex
 *     A3  fence               seq_cst        T3  waiting = false                  seq_cst
 *     A4  anything to do?     relaxed        T4  write the eventfd
 *     A5  waiting = true      exchange
 *     A6  if it was not: post "go"
 *
 *     a thread or process with news          pf_wake
 *     N1  store the news                     woken = true
 *     N2  fence               seq_cst        N2, N3; then write the eventfd
 *     N3  sleeping = 0        exchange, if it is 1; if it was 1, wake all sleepers
 *
 * "sleeping" is the futex word of host/inbox.h; news are a rung bell, a notice, a posted
 * operation, something untold of the network, "woken". The following holds on arm64 as on x86,
 * because only fences, exchanges and system calls are relied on.
 *
 * - No news is lost between A and N: each side stores, then loads the word of the other side,
 *   with a full fence between. Either A4 finds the news, and pf_arm returns PF_ERR_AGAIN, or N3
 *   finds sleeping == 1, stores 0 and wakes. Writers omit N2 where sleeps are announced ahead; a
 *   context with a descriptor has told all writers not to (inbox_ring_always).
 * - A wake-up after A2 reaches the waiter, wherever the waiter is. In T2: the futex wakes the
 *   waiter. Before the kernel has compared the word in T2: the kernel finds 0, and T2 ends. In
 *   T1: A6 sends the waiter there. After T2, from an earlier time: T4 is still to come, and makes
 *   the descriptor readable after A1.
 * - The waiter may therefore still be in T2 from an earlier pf_arm when the next pf_arm returns
 *   PF_OK (A5 finds true): the waiter then waits for the word as before. In between, progress may
 *   have stored sleeping = 0 without a wake-up; no harm is done, because the kernel compares the
 *   word once, and A2 stores 1 before PF_OK.
 * - A1 takes back a T4 of an earlier time only if a later T4 is still to come or A4 decides anew:
 *   T3 precedes T4, hence if A1 reads the value of T4, A5 finds false and A6 sends the waiter to
 *   T2 again. A T4 after A1 makes the descriptor readable without a reason: one call of
 *   pf_progress for nothing.
 * - Only progress, and pf_arm, which excludes progress, store sleeping = 1 or 0 without a
 *   wake-up. The waiter never stores the word: a late store would undo the next pf_arm.
 *
 * The waiter does not sleep for longer than told, as progress. Afterwards the descriptor is
 * readable without a reason. While a peer may write without ringing the limit is a millisecond;
 * if the waiter is in T2 for longer then, pf_arm ends the sleep and returns PF_ERR_AGAIN
 * (waiter_arm).
 */
#ifndef PF_WAITER_H
#define PF_WAITER_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct transport_slot;

struct waiter {
	const struct transport_slot *sleeper; /* the transport in which progress sleeps */
	_Atomic int fd;                       /* the eventfd; -1: not open */
	_Atomic bool woken;                   /* by pf_wake, since a sleep was about to begin */
	_Atomic bool waiting;                 /* sent to sleep by pf_arm, without a signal since */
	_Atomic bool stopping;
	_Atomic uint64_t microseconds; /* length of the sleep; stored by pf_arm */
	sem_t go;
	pthread_t thread;
};

/* Costs nothing until waiter_open. The inbox is borrowed, and need not be open yet. */
void waiter_init(struct waiter *waiter, const struct transport_slot *sleeper);
/* End the thread, if there is one. */
void waiter_destroy(struct waiter *waiter);
/* Make the descriptor and the thread. PF_OK, or PF_ERR_SYSTEM with nothing left open. */
int waiter_open(struct waiter *waiter);

static inline bool waiter_is_open(const struct waiter *waiter)
{
	return atomic_load_explicit(&((struct waiter *)(uintptr_t)waiter)->fd,
				    memory_order_acquire) >= 0;
}

/* Progress: make the descriptor unreadable, unless the waiter is just signalling. */
void waiter_reset(struct waiter *waiter);
/*
 * Progress, with a sleep announced and nothing to do: let the waiter sleep in place of progress,
 * at most for the given time. PF_OK, or PF_ERR_AGAIN: the announcement was taken back.
 */
int waiter_arm(struct waiter *waiter, uint64_t microseconds);
/*
 * Any thread: note a pf_wake, and make the descriptor readable. The caller then wakes any
 * sleeper.
 */
void waiter_wake(struct waiter *waiter);

/* Progress, with a sleep announced: is there a pf_wake to take? */
static inline bool waiter_has_wake(const struct waiter *waiter)
{
	return atomic_load_explicit(&((struct waiter *)(uintptr_t)waiter)->woken,
				    memory_order_relaxed);
}

/* Take the wake, if there is one. Acquire: what was stored before pf_wake is seen. */
static inline bool waiter_take_wake(struct waiter *waiter)
{
	return waiter_has_wake(waiter) &&
	       atomic_exchange_explicit(&waiter->woken, false, memory_order_acquire);
}

/* A wake for another call was taken. */
static inline void waiter_give_wake_back(struct waiter *waiter)
{
	atomic_store_explicit(&waiter->woken, true, memory_order_release);
}

#endif

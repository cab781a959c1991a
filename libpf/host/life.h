/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A word of shared memory that tells whether the process that made it still runs the same program.
 *
 * The kernel gives the number of a reaped process to a new process, and a process that calls
 * exec(3) keeps its number. A copy by number then reaches memory of a program that is no peer. The
 * service thread learns of an end by an event, but may be busy or stopped. Therefore each copy
 * looks at the word first, which costs a load.
 *
 * The word is the lock of a robust mutex that the owner's service thread holds. When the thread
 * ends, the kernel replaces the number in the word by FUTEX_OWNER_DIED (set_robust_list(2)). Linux
 * does so before the process can be reaped, and before exec replaces the memory: exec ends all
 * other threads first. A thread that sees no such mark copies to the right memory, unless the
 * thread is stopped between the look and the system call. pf_close ends the service thread, too:
 * then the memory is no peer's any more.
 *
 * The word lies at the end of a shared page. The rest of the mutex, with the list that the kernel
 * and the C library follow, lies behind the word in a page of the owner alone. A hostile peer can
 * change the word; then other processes take the owner for dead, or learn of the end by the service
 * threads alone.
 */
#ifndef PF_LIFE_H
#define PF_LIFE_H

#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Bytes of the word, and of padding behind it, at the end of the shared page. */
#define LIFE_BYTES 8

/* The word in a shared page; 0: not known (yet). */
_Atomic uint32_t *life_word(void *page);
/*
 * The owner: life lasts as long as the calling thread from now on. A page of private memory follows
 * the shared page, and neither is unmapped before the thread has ended.
 */
void life_begin(void *page);

static inline bool life_is_over(const _Atomic uint32_t *word)
{
	return atomic_load_explicit((_Atomic uint32_t *)(uintptr_t)word, memory_order_relaxed) &
	       FUTEX_OWNER_DIED;
}

#endif

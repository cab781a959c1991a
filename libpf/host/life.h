/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A word of shared memory that tells whether the process that made it still runs the same program.
 *
 * The kernel gives the number of a process that was reaped to a new one, and a process that calls
 * exec(3) keeps its number. A copy by number then reaches memory of a program that is no peer. The
 * service thread learns of an end by an event, but it may be busy or stopped. So each copy looks at
 * this word first, which costs a load.
 *
 * The word is the lock of a robust mutex that the owner's service thread holds. When that thread ends,
 * the kernel replaces its number in the word by FUTEX_OWNER_DIED (set_robust_list(2)). Linux does
 * that before the process can be reaped, and before exec replaces its memory: exec ends all other
 * threads first. So whoever sees no such mark copies to the right memory, unless its thread is
 * stopped between this look and its system call. pf_close ends the thread, too: then the memory is no
 * peer's any more.
 *
 * The word lies at the end of a shared page. The rest of the mutex, with the list that the kernel and
 * the C library follow, lies in a page of the owner alone behind it. A hostile peer can change the
 * word; then others take the owner for dead, or learn of its end by their service threads alone.
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

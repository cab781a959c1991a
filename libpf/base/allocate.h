/* SPDX-License-Identifier: BSD-3-Clause */
/* Waiting for memory where an event, or a completion, would otherwise be lost. */
#ifndef PF_ALLOCATE_H
#define PF_ALLOCATE_H

#include <stddef.h>

/* Tries of a wait, 1 ms each, before the process reports the wait, once: 10 s. */
#define ALLOCATE_TRIES_SILENT 10000u

/*
 * There was no memory: sleep for 1 ms before the next try. *tries: 0 before the first. Any thread,
 * with any lock: the line on standard error needs neither memory nor a callback.
 */
void allocate_wait(unsigned *tries);
/* Allocate zeroed memory; wait until there is memory. */
void *allocate_or_wait(size_t size);

#endif

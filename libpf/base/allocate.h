/* SPDX-License-Identifier: BSD-3-Clause */
/* Waiting for memory where an event, or a completion, would be lost without it. */
#ifndef PF_ALLOCATE_H
#define PF_ALLOCATE_H

#include <stddef.h>

/* Tries of one wait, 1 ms each, after which the process says once that it waits: 10 s. */
#define ALLOCATE_TRIES_SILENT 10000u

/*
 * There was no memory: sleep for 1 ms before the next try. *tries: 0 before the first. Any thread,
 * with any lock: the line on standard error needs neither memory nor a callback.
 */
void allocate_wait(unsigned *tries);
/* Allocate zeroed memory; wait until there is some. */
void *allocate_or_wait(size_t size);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PF_ALLOCATE_H
#define PF_ALLOCATE_H

#include <stdlib.h>
#include <unistd.h>

/*
 * Allocate zeroed memory; wait until there is some. For events: without memory an event,
 * and perhaps a completion, would be lost.
 */
static inline void *allocate_or_wait(size_t size)
{
	void *memory;

	while (!(memory = calloc(1, size)))
		usleep(1000);
	return memory;
}

#endif

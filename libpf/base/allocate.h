/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PF_ALLOCATE_H
#define PF_ALLOCATE_H

#include <stdlib.h>
#include <unistd.h>

/*
 * Zeroed memory where being out of it would lose an event, and with that at worst
 * a completion: so wait for some.
 */
static inline void *allocate_or_wait(size_t size)
{
	void *memory;

	while (!(memory = calloc(1, size)))
		usleep(1000);
	return memory;
}

#endif

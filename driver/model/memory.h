/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The memory of the node, by physical address, as an engine sees it over its
 * bus. Each function returns false if the address is not memory.
 */
#ifndef MODEL_MEMORY_H
#define MODEL_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct memory {
	void *context;
	/*
	 * An aligned access of 4 or 8 bytes is single: a processor sees all of it or
	 * nothing. Reads are not reordered with earlier reads, nor writes with
	 * earlier accesses.
	 */
	bool (*read)(void *context, uint64_t address, void *bytes, size_t length);
	bool (*write)(void *context, uint64_t address, const void *bytes, size_t length);
	/*
	 * Store desired if the little-endian number of width 4 or 8 bytes at an aligned
	 * address equals *value. *value becomes the number before: unchanged, if it
	 * was stored.
	 */
	bool (*compare_swap)(void *context, uint64_t address, unsigned int width, uint64_t *value,
			     uint64_t desired);
};

#endif

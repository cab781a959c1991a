/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contents of test buffers. Each byte depends on the seed and on its position, so a byte that is
 * lost, repeated, misplaced or left over from another buffer does not match.
 */
#ifndef PF_TESTS_PATTERN_H
#define PF_TESTS_PATTERN_H

#include <stddef.h>
#include <stdint.h>

/* The finalizer of splitmix64 (Steele, Lea, Flood: Fast Splittable PRNGs, 2014). */
static inline uint64_t pattern_mix(uint64_t x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

/* position is that of the first byte. */
void pattern_fill_from(void *memory, size_t length, uint64_t seed, uint64_t position);
/* Return the offset of the first byte that differs, or length. */
size_t pattern_differs_from(const void *memory, size_t length, uint64_t seed, uint64_t position);

static inline void pattern_fill(void *memory, size_t length, uint64_t seed)
{
	pattern_fill_from(memory, length, seed, 0);
}

static inline size_t pattern_differs(const void *memory, size_t length, uint64_t seed)
{
	return pattern_differs_from(memory, length, seed, 0);
}

#endif

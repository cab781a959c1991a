/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contents of buffers, of the tools, the benchmarks and the tests. Each byte depends on the seed and
 * on its position, so a byte that is lost, repeated, misplaced or left over from another buffer does
 * not match. A shorter pattern is a prefix of a longer pattern from an equal seed.
 */
#ifndef TOOLS_PATTERN_H
#define TOOLS_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The finalizer of splitmix64 (Steele, Lea, Flood: Fast Splittable PRNGs, 2014). */
static inline uint64_t pattern_mix(uint64_t x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

/* The random number of splitmix64 for a state; the next state is greater by PATTERN_STEP. */
#define PATTERN_STEP 0x9e3779b97f4a7c15ull
static inline uint64_t pattern_random(uint64_t state)
{
	return pattern_mix(state + PATTERN_STEP);
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

static inline bool pattern_matches(const void *memory, size_t length, uint64_t seed)
{
	return pattern_differs(memory, length, seed) == length;
}

#endif

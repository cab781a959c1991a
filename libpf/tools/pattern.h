/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contents that reveal a wrong, lost or misplaced byte. A shorter pattern is a prefix of a longer
 * pattern from an equal seed.
 */
#ifndef TOOLS_PATTERN_H
#define TOOLS_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The random number of splitmix64 for a state; the next state is greater by PATTERN_STEP. Steele,
 * Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
 */
#define PATTERN_STEP 0x9e3779b97f4a7c15
static inline uint64_t pattern_random(uint64_t state)
{
	state += PATTERN_STEP;
	state = (state ^ state >> 30) * 0xbf58476d1ce4e5b9;
	state = (state ^ state >> 27) * 0x94d049bb133111eb;
	return state ^ state >> 31;
}

void pattern_fill(void *buffer, size_t length, uint64_t seed);
bool pattern_matches(const void *buffer, size_t length, uint64_t seed);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
#include "pattern.h"

#include <string.h>

/* splitmix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014 */
static uint64_t word(uint64_t seed, uint64_t index)
{
	uint64_t value = (seed << 32) + (index + 1) * 0x9e3779b97f4a7c15;

	value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9;
	value = (value ^ value >> 27) * 0x94d049bb133111eb;
	return value ^ value >> 31;
}

void pattern_fill(void *buffer, size_t length, uint64_t seed)
{
	uint8_t *to = buffer;
	size_t at;

	for (at = 0; at < length; at += sizeof(uint64_t)) {
		uint64_t value = word(seed, at);
		size_t left = length - at;

		memcpy(to + at, &value, left < sizeof(value) ? left : sizeof(value));
	}
}

bool pattern_matches(const void *buffer, size_t length, uint64_t seed)
{
	const uint8_t *from = buffer;
	size_t at;

	for (at = 0; at < length; at += sizeof(uint64_t)) {
		uint64_t value = word(seed, at);
		size_t left = length - at;

		if (memcmp(from + at, &value, left < sizeof(value) ? left : sizeof(value)))
			return false;
	}
	return true;
}

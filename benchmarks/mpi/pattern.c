/* SPDX-License-Identifier: BSD-3-Clause */
#include "pattern.h"

#include <string.h>

/* Finalizer of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators). */
static uint64_t mix(uint64_t x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

uint64_t pattern_seed(uint64_t seed, uint64_t value)
{
	return mix(seed * 0x9e3779b97f4a7c15u + value + 1);
}

static uint64_t word(uint64_t seed, size_t index)
{
	return mix(seed + index * 0x9e3779b97f4a7c15u);
}

void pattern_fill(void *buffer, size_t length, uint64_t seed)
{
	unsigned char *bytes = buffer;
	size_t done;

	for (done = 0; done < length; done += sizeof(uint64_t)) {
		uint64_t value = word(seed, done);
		size_t left = length - done;

		memcpy(bytes + done, &value, left < sizeof(value) ? left : sizeof(value));
	}
}

size_t pattern_check(const void *buffer, size_t length, uint64_t seed)
{
	const unsigned char *bytes = buffer;
	size_t done, i;

	for (done = 0; done < length; done += sizeof(uint64_t)) {
		uint64_t value = word(seed, done);
		size_t left = length - done;
		unsigned char expected[sizeof(value)];

		if (left > sizeof(value))
			left = sizeof(value);
		if (!memcmp(bytes + done, &value, left))
			continue;
		memcpy(expected, &value, sizeof(value));
		for (i = 0; bytes[done + i] == expected[i]; i++)
			;
		return done + i;
	}
	return length;
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "pattern.h"

#include <string.h>

static uint64_t pattern_word(uint64_t seed, uint64_t index)
{
	return pattern_random((seed << 32) + index * PATTERN_STEP);
}

void pattern_fill(void *buffer, size_t length, uint64_t seed)
{
	uint8_t *to = buffer;
	size_t at;

	for (at = 0; at < length; at += sizeof(uint64_t)) {
		uint64_t value = pattern_word(seed, at);
		size_t left = length - at;

		memcpy(to + at, &value, left < sizeof(value) ? left : sizeof(value));
	}
}

bool pattern_matches(const void *buffer, size_t length, uint64_t seed)
{
	const uint8_t *from = buffer;
	size_t at;

	for (at = 0; at < length; at += sizeof(uint64_t)) {
		uint64_t value = pattern_word(seed, at);
		size_t left = length - at;

		if (memcmp(from + at, &value, left < sizeof(value) ? left : sizeof(value)))
			return false;
	}
	return true;
}

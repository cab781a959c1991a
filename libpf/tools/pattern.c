/* SPDX-License-Identifier: BSD-3-Clause */
#include "pattern.h"

#include <endian.h>
#include <string.h>

#define WORD sizeof(uint64_t)

/* The thread sanitizer is told of whole buffers: a call for each word would take most of the time. */
#ifdef __SANITIZE_THREAD__
void __tsan_read_range(void *memory, long length);
void __tsan_write_range(void *memory, long length);
#define BY_RANGE __attribute__((no_sanitize_thread))
#define READS(memory, length) __tsan_read_range((void *)(memory), (long)(length))
#define WRITES(memory, length) __tsan_write_range(memory, (long)(length))
#else
#define BY_RANGE
#define READS(memory, length)
#define WRITES(memory, length)
#endif

/* The eight bytes of the pattern that position is in. */
BY_RANGE static uint64_t pattern_word(uint64_t seed, uint64_t position)
{
	return htole64(pattern_random(seed + position / WORD * PATTERN_STEP));
}

BY_RANGE static uint8_t pattern_byte(uint64_t seed, uint64_t position)
{
	uint64_t word = pattern_word(seed, position);

	return ((uint8_t *)&word)[position % WORD];
}

BY_RANGE void pattern_fill_from(void *memory, size_t length, uint64_t seed, uint64_t position)
{
	uint8_t *bytes = memory;
	size_t at = 0;

	WRITES(memory, length);
	for (; at < length && (position + at) % WORD; at++)
		bytes[at] = pattern_byte(seed, position + at);
	for (; at + WORD <= length; at += WORD) {
		uint64_t word = pattern_word(seed, position + at);

		memcpy(bytes + at, &word, WORD);
	}
	for (; at < length; at++)
		bytes[at] = pattern_byte(seed, position + at);
}

BY_RANGE size_t pattern_differs_from(const void *memory, size_t length, uint64_t seed,
				     uint64_t position)
{
	const uint8_t *bytes = memory;
	size_t at = 0;

	READS(memory, length);
	for (; at < length && (position + at) % WORD &&
	       bytes[at] == pattern_byte(seed, position + at);
	     at++)
		;
	for (; at + WORD <= length && (position + at) % WORD == 0; at += WORD) {
		uint64_t word;

		/* No call, as memcmp would be one for each word under a sanitizer. */
		memcpy(&word, bytes + at, WORD);
		if (word != pattern_word(seed, position + at))
			break;
	}
	for (; at < length && bytes[at] == pattern_byte(seed, position + at); at++)
		;
	return at;
}

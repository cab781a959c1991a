/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit.h"

#include <pthread.h>

/* A prime, so that neither pages nor blocks nor rings repeat it. */
#define PERIOD 65521

static uint8_t table[PERIOD];

static void fill_table(void)
{
	struct random_numbers numbers = { 0x9e3779b97f4a7c15 };
	size_t i;

	for (i = 0; i < PERIOD; i++)
		table[i] = (uint8_t)(random_next(&numbers) >> 24);
}

static size_t start(uint64_t what)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, fill_table);
	return (size_t)(what * 7919 % PERIOD);
}

static size_t piece(size_t from, size_t left)
{
	return left < PERIOD - from ? left : PERIOD - from;
}

void pattern_fill(void *memory, size_t length, uint64_t what)
{
	size_t from = start(what), done = 0;

	while (done < length) {
		size_t part = piece(from, length - done);

		memcpy((uint8_t *)memory + done, table + from, part);
		done += part;
		from = 0;
	}
}

size_t pattern_differs(const void *memory, size_t length, uint64_t what)
{
	const uint8_t *bytes = memory;
	size_t from = start(what), done = 0;

	while (done < length) {
		size_t part = piece(from, length - done), i;

		if (memcmp(bytes + done, table + from, part)) {
			for (i = 0; bytes[done + i] == table[from + i]; i++)
				;
			return done + i;
		}
		done += part;
		from = 0;
	}
	return length;
}

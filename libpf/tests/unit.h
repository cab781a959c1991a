/* SPDX-License-Identifier: BSD-3-Clause */
/* What every unit test includes: cmocka with what it needs, random numbers that can be had again, patterns. */
#ifndef PF_TESTS_UNIT_H
#define PF_TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

struct random_numbers {
	uint64_t state;
};

/* Seeded by PF_TEST_SEED or the clock; prints the seed. */
static inline struct random_numbers random_start(const char *what)
{
	const char *text = getenv("PF_TEST_SEED");
	struct timespec now;
	uint64_t seed;

	clock_gettime(CLOCK_REALTIME, &now);
	seed = text ? strtoull(text, NULL, 0) : (uint64_t)now.tv_sec * 1000000007 + now.tv_nsec;
	printf("# %s: PF_TEST_SEED=%llu\n", what, (unsigned long long)seed);
	fflush(stdout);
	return (struct random_numbers){ seed * 2 + 1 };
}

/* xorshift64*: Vigna, ACM TOMS 42/4, 2016 */
static inline uint64_t random_next(struct random_numbers *numbers)
{
	uint64_t x = numbers->state;

	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	numbers->state = x;
	return x * 0x2545f4914f6cdd1dull;
}

static inline uint64_t random_below(struct random_numbers *numbers, uint64_t limit)
{
	return (random_next(numbers) >> 16) % limit;
}

/* How often something is repeated: the thread sanitizer makes it all ten times as slow. */
#if defined(__SANITIZE_THREAD__)
#define REPEAT(times) ((times) / 8)
#else
#define REPEAT(times) (times)
#endif

/* Bytes that tell where they belong: they follow from their position and from what they are. */
void pattern_fill(void *memory, size_t length, uint64_t what);
/* The first position that differs, length if none. */
size_t pattern_differs(const void *memory, size_t length, uint64_t what);

#endif

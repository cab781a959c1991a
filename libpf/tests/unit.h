/* SPDX-License-Identifier: BSD-3-Clause */
/* Included by every unit test: cmocka and its headers, repeatable random numbers, allocation. */
#ifndef PF_TESTS_UNIT_H
#define PF_TESTS_UNIT_H

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <cmocka.h>

#include "pattern.h"
#include <libpf/pf.h>

#define MIB ((size_t)1 << 20)
#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

struct random_numbers {
	uint64_t state;
};

/* Seeded by LIBPF_TEST_SEED or the clock; prints the seed. */
static inline struct random_numbers random_start(const char *what)
{
	const char *text = getenv("LIBPF_TEST_SEED");
	struct timespec now;
	uint64_t seed;

	clock_gettime(CLOCK_REALTIME, &now);
	seed = text ? strtoull(text, NULL, 0) : (uint64_t)now.tv_sec * 1000000007 + now.tv_nsec;
	printf("# %s: LIBPF_TEST_SEED=%llu\n", what, (unsigned long long)seed);
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

/* Number of repetitions. The thread sanitizer makes each about ten times as slow. */
#if defined(__SANITIZE_THREAD__)
#define REPEAT(times) ((times) / 8)
#else
#define REPEAT(times) (times)
#endif

/* LIBPF_TEST_QUICK asks for fewer repetitions of the slowest tests. */
static inline unsigned quick_or(unsigned quick, unsigned full)
{
	return getenv("LIBPF_TEST_QUICK") ? quick : full;
}

/* Assert the status that a libpf function returns. */
#define assert_status(call, expected) check_status(#call, call, expected, __FILE__, __LINE__)
#define assert_ok(call) assert_status(call, PF_OK)
#define assert_pending(call) assert_status(call, PF_PENDING)

static inline void check_status(const char *call, int status, int expected, const char *file,
				int line)
{
	if (status == expected)
		return;
	print_error("%s: \"%s\" instead of \"%s\"\n", call, pf_strerror(status),
		    pf_strerror(expected));
	_fail(file, line);
}

#define assert_pattern(memory, length, seed)                                                       \
	assert_int_equal(pattern_differs(memory, length, seed), length)

/* Zeroed memory for free(). */
static inline void *test_alloc(size_t size)
{
	void *memory = calloc(1, size);

	if (!memory)
		abort();
	return memory;
}

/* How many entries a folder has, and two more: threads or descriptors of this process in /proc. */
static inline unsigned count_entries(const char *path)
{
	DIR *folder = opendir(path);
	unsigned count = 0;

	assert_non_null(folder);
	while (readdir(folder))
		count++;
	closedir(folder);
	return count;
}

static inline unsigned count_descriptors(void)
{
	return count_entries("/proc/self/fd");
}

/*
 * Untouched private memory for munmap(). Far below where the kernel places other mappings, and
 * never twice at the same place: a test may unmap a part of it and map it again, and no other
 * thread's stack gets there in between. Threads may call this at the same time.
 */
static inline void *test_map(size_t size)
{
	static atomic_uintptr_t next = 0x40000000;
	const size_t page_most = 65536;
	uintptr_t place = atomic_fetch_add(&next, (size / page_most + 2) * page_most);
	void *memory = mmap((void *)place, size, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (memory == MAP_FAILED)
		abort();
	return memory;
}

#endif

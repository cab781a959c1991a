/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What every MPI test program shares: TAP results that all ranks agree on,
 * contents that can be verified at any offset, and a watchdog that turns a
 * hang into a failure with a name.
 *
 * Options of every program:
 *   --seed N      replay the random choices and contents of an earlier run
 *   --timeout S   seconds that one test may take before it counts as hung
 *   --quick       a shorter list, for many ranks and instrumented builds
 */
#ifndef MPITEST_H
#define MPITEST_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

struct mpitest {
	int rank;
	int size;
	int quick;
	uint64_t seed;      /* of the whole program, the same on every rank */
	uint64_t test_seed; /* of the current test, the same on every rank */
};

extern struct mpitest mpitest;

/* MPI_Init_thread with thread_level, which must be granted in full. */
void mpitest_init(int *argc, char ***argv, int thread_level);
/* Print the plan and finalize. Returns the exit status. Collective. */
int mpitest_finish(void);

/* The word after option, "" for an option that is the last word, NULL if it was not given. */
const char *mpitest_option(const char *option);
/* The number after option. */
long mpitest_number(const char *option, long absent);

/* One test: all ranks call both; it passes if no rank failed in between. */
void mpitest_begin(const char *format, ...) __attribute__((format(printf, 1, 2)));
void mpitest_end(void);
/* A test that cannot run here. Called by all ranks instead of begin and end. */
void mpitest_skip(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Fail the current test, with a reason. Any thread. */
void mpitest_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* How often this rank has failed since mpitest_begin. */
int mpitest_failures(void);

#define mpitest_expect(condition, ...)                                                             \
	do {                                                                                       \
		if (!(condition))                                                                  \
			mpitest_fail(__VA_ARGS__);                                                 \
	} while (0)

/* malloc that ends the job with a reason rather than return NULL. */
void *mpitest_alloc(size_t length);

/* Independent 64-bit values from a state that each call advances. */
uint64_t mpitest_random(uint64_t *state);
/* 0 <= result < limit */
uint64_t mpitest_random_below(uint64_t *state, uint64_t limit);
/* 0 <= result <= most; every power of two equally likely */
size_t mpitest_random_size(uint64_t *state, size_t most);
/* A seed for message number of this pair of ranks in the current test. */
uint64_t mpitest_message_seed(int from, int to, uint64_t number);

/*
 * Contents: every byte depends on the seed and on its position, so bytes that
 * are lost, repeated, shifted or left over from another message all show.
 * start is the position of the first byte.
 */
void mpitest_fill_from(void *buffer, size_t length, uint64_t seed, uint64_t start);
/* 0, or 1 after a mpitest_fail that names what and the first wrong offset. */
int mpitest_verify_from(const void *buffer, size_t length, uint64_t seed, uint64_t start,
			const char *what);

static inline void mpitest_fill(void *buffer, size_t length, uint64_t seed)
{
	mpitest_fill_from(buffer, length, seed, 0);
}

static inline int mpitest_verify(const void *buffer, size_t length, uint64_t seed, const char *what)
{
	return mpitest_verify_from(buffer, length, seed, 0, what);
}

/* Bytes before and behind a receive buffer that nobody may write. */
#define MPITEST_GUARD 64
void mpitest_guard(void *buffer, size_t length);
int mpitest_verify_guard(const void *buffer, size_t length, const char *what);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the MPI test programs share: TAP results that all ranks agree on, contents that can be
 * verified, and a watchdog that turns a hang into a failure with the name of the test.
 *
 * Options of every program:
 *   --seed N      replay the random choices and contents of an earlier run
 *   --timeout S   time after which one test counts as hung, s
 *   --quick       a shorter list, for many ranks and instrumented builds
 */
#ifndef MPITEST_H
#define MPITEST_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

#define MPITEST_COUNT(array) (sizeof(array) / sizeof((array)[0]))

struct mpitest {
	int rank, size;
	int left, right; /* neighbours in a ring of all ranks */
	int quick;
	uint64_t seed;      /* of the whole program, the same on every rank */
	uint64_t test_seed; /* of the current test, the same on every rank */
};

extern struct mpitest mpitest;

/* MPI_Init_thread with thread_level, which must be granted. */
void mpitest_init(int *argc, char ***argv, int thread_level);
/* From now on all ranks are those of comm, which results are agreed on over. Collective. */
void mpitest_continue_on(MPI_Comm comm);
/* End the job unless its number of ranks is in this range. */
void mpitest_need_ranks(int least, int most);
/* Print the plan and finalize. Returns the exit status. Collective. */
int mpitest_finish(void);
/* Print a reason and end the job. */
void mpitest_abort(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* The word after option, "" if there is none, NULL if the option was not given. */
const char *mpitest_option(const char *option);
/* The number after option. */
long mpitest_number(const char *option, long absent);

/* One test: all ranks call both; it passes if no rank failed in between. */
void mpitest_begin(const char *format, ...) __attribute__((format(printf, 1, 2)));
void mpitest_end(void);
/* A test that cannot run here. Called by all ranks instead of begin and end. */
void mpitest_skip(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Run each function of a list as one test. */
struct mpitest_case {
	const char *name;
	void (*run)(void);
};
void mpitest_run_list(const struct mpitest_case *cases, size_t count);
#define mpitest_run(cases) mpitest_run_list(cases, MPITEST_COUNT(cases))

/* Fail the current test, with a reason. Any thread. */
void mpitest_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Number of failures of this rank since mpitest_begin. */
int mpitest_failures(void);

#define mpitest_expect(condition, ...)                                                             \
	do {                                                                                       \
		if (!(condition))                                                                  \
			mpitest_fail(__VA_ARGS__);                                                 \
	} while (0)

/* malloc and an anonymous mmap; they end the job rather than return NULL. */
void *mpitest_alloc(size_t length);
void *mpitest_map(size_t length);
/* The number in kB after a field such as "VmLck:" in a file of /proc; -1 if there is none. */
long mpitest_proc_kb(const char *path, const char *field);
/* Monotonic time, s. */
double mpitest_seconds(void);

/* Independent 64-bit values from a state that each call advances. */
uint64_t mpitest_random(uint64_t *state);
/* 0 <= result < limit */
uint64_t mpitest_random_below(uint64_t *state, uint64_t limit);
/* 0 <= result <= most; every power of two equally likely */
size_t mpitest_random_size(uint64_t *state, size_t most);

/* Contents that depend on a seed (pattern.h). verify: 0, or 1 after a mpitest_fail. */
void mpitest_fill(void *buffer, size_t length, uint64_t seed);
int mpitest_verify(const void *buffer, size_t length, uint64_t seed, const char *what);
/* The contents of the numbered message between two ranks in the current test. */
uint64_t mpitest_message_seed(int from, int to, uint64_t number);
static inline void mpitest_fill_message(void *buffer, size_t length, int to, uint64_t number)
{
	mpitest_fill(buffer, length, mpitest_message_seed(mpitest.rank, to, number));
}
static inline int mpitest_verify_message(const void *buffer, size_t length, int from,
					 uint64_t number, const char *what)
{
	return mpitest_verify(buffer, length, mpitest_message_seed(from, mpitest.rank, number),
			      what);
}
/* Send to the right neighbour and receive as much from the left one. */
void mpitest_shift(const void *out, void *in, size_t length, int tag);

/* Bytes before and behind a receive buffer that must not change. */
#define MPITEST_GUARD 64
void mpitest_guard(void *buffer, size_t length);
int mpitest_verify_guard(const void *buffer, size_t length, const char *what);

#endif

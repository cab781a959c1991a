/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Command line of the MPI benchmarks: the options of the OSU
 * micro-benchmarks, under the same letters, and a few more.
 */
#ifndef BENCHMARK_OPTIONS_H
#define BENCHMARK_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

/* Messages above this many bytes are "large" and get fewer iterations (OSU's limit). */
#define LARGE_MESSAGE 8192

/* Which options a benchmark takes besides the common ones. */
enum option_group {
	TAKES_SIZES = 1 << 0,
	TAKES_WINDOW = 1 << 1,
	TAKES_CPU = 1 << 2,
	TAKES_FULL = 1 << 3,
	TAKES_RMA = 1 << 4,
	TAKES_COLD = 1 << 5,
};

enum rma_sync { SYNC_FLUSH, SYNC_LOCK, SYNC_FENCE };
enum rma_create { CREATE_ALLOCATE, CREATE_FROM_MEMORY };

/* Whose buffers are cold: bits. */
enum cold_side { COLD_SOURCE = 1, COLD_DESTINATION = 2 };
#define COLD_CHOICES 4

struct loops {
	int iterations;
	int skip; /* warm-up iterations, not timed */
};

struct options {
	size_t min_size, max_size;
	struct loops small, large;
	int window;
	bool validate;
	bool cpu;
	bool full;
	bool help;
	enum rma_sync sync;
	enum rma_create create;
	unsigned cold[COLD_CHOICES]; /* what to measure, of enum cold_side's bits */
	int colds;                   /* how many; 0: buffers as OSU has them */
};

/*
 * Change *options, which holds the defaults, as argv asks. Returns 0, or -1
 * with a sentence in error.
 */
int options_parse(struct options *options, unsigned groups, int argc, char **argv, char *error,
		  size_t error_size);

/* Print the help text; *options holds the defaults it shows. */
void options_help(const struct options *options, unsigned groups, const char *program,
		  const char *about);

const char *rma_sync_name(enum rma_sync sync);
const char *rma_create_name(enum rma_create create);
const char *cold_name(unsigned cold);

#endif

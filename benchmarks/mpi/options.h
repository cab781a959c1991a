/* SPDX-License-Identifier: BSD-3-Clause */
/* Options of the benchmark programs: those of OSU, with the same letters, and a few more. */
#ifndef BENCHMARK_OPTIONS_H
#define BENCHMARK_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

/* Messages of more bytes are "large" and have fewer iterations; OSU's limit. */
#define LARGE_MESSAGE 8192

/* The options that only some benchmarks take. */
enum option_group {
	TAKES_SIZES = 1 << 0,
	TAKES_WINDOW = 1 << 1,
	TAKES_CPU = 1 << 2,
	TAKES_FULL = 1 << 3,
	TAKES_RMA = 1 << 4,
	TAKES_COLD = 1 << 5,
	TAKES_UDP = 1 << 6,
	TAKES_FIRST = 1 << 7,
	TAKES_WAITS = 1 << 8,
};

enum rma_sync { SYNC_FLUSH, SYNC_LOCK, SYNC_FENCE };
enum rma_create { CREATE_ALLOCATE, CREATE_FROM_MEMORY };

/* The buffers that are cold: a set, or a destination whose pages are on a disk. */
enum cold_side { COLD_SOURCE = 1, COLD_DESTINATION = 2, COLD_FILE = 4 };
#define COLD_CHOICES 5

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
	bool udp;   /* move the messages over UDP sockets instead of MPI */
	bool first; /* time the first calls after MPI_Init instead of warm ones */
	bool waits; /* count blocks that wait for a page */
	bool line;  /* tell the time of a cache line before and after each size */
	enum rma_sync sync;
	enum rma_create create;
	unsigned cold[COLD_CHOICES]; /* sets of enum cold_side to measure */
	int colds;                   /* their number; 0: measure OSU's buffers */
};

/*
 * Change *options, which holds the defaults, to what argv says. Returns 0, or
 * -1 with a message in error.
 */
int options_parse(struct options *options, unsigned groups, int argc, char **argv, char *error,
		  size_t error_size);

/* Print the help text, with the defaults that *options holds. */
void options_help(const struct options *options, unsigned groups, const char *program,
		  const char *about);

const char *rma_sync_name(enum rma_sync sync);
const char *rma_create_name(enum rma_create create);
const char *cold_name(unsigned cold);

#endif

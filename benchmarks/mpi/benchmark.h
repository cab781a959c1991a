/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The part that all MPI benchmarks share: buffers, warm-up and timed loops,
 * validation, and output in the format of the OSU micro-benchmarks.
 */
#ifndef BENCHMARK_H
#define BENCHMARK_H

#include "cold.h"
#include "options.h"

#include <mpi.h>
#include <stdint.h>

/* One rank's state. */
struct run {
	const struct options *options;
	int rank, ranks;
	size_t size; /* of one message, bytes */
	int window;  /* messages in flight */
	/*
	 * Distance between the messages of a window in the buffers. As in OSU,
	 * two-sided ones share a place (0) and one-sided ones do not;
	 * validation always keeps them apart.
	 */
	size_t stride;
	char *send, *receive; /* page aligned, length bytes each; one-sided: send alone */
	size_t length;
	MPI_Request *requests; /* 2 * options->window */
	MPI_Win win;           /* one-sided benchmarks: the window */
	char *exposed;         /* ... and this rank's memory in it */
	int round;             /* of validation */
	struct cold *cold;     /* --cold: send and receive are these */
};

struct timing {
	double seconds; /* of this rank's timed loop */
	double cpu;     /* user and system time of this rank meanwhile */
	int iterations;
};

struct benchmark {
	const char *title; /* as OSU prints it, without "OSU" */
	const char *about; /* one or two sentences for --help */
	unsigned groups;   /* enum option_group */
	struct options defaults;
	enum { RANKS_TWO, RANKS_EVEN, RANKS_ANY } ranks;
	/* Messages go from rank 0 to rank 1 only: --cold leaves the other buffers warm. */
	bool one_way;
	/* What the buffers hold. */
	enum { HOLD_MESSAGE, HOLD_MESSAGE_PER_RANK, HOLD_WINDOW } hold;

	/*
	 * Optional: collective set-up after the buffers exist, and its end.
	 * prepare returns NULL or, on every rank, what is wrong.
	 */
	const char *(*prepare)(struct run *run);
	void (*finish)(struct run *run);

	/* Lines between the title and the first result, with the column names, without its end. */
	void (*header)(const struct run *run);
	/* Do it repeats times; returns the seconds to report. */
	double (*exchange)(struct run *run, int repeats);
	/* Collective; rank 0 prints what follows the size. With --cold, once for each column. */
	void (*report)(const struct run *run, const struct timing *timing);

	/* Validation: fill what is sent in run->round; check what came (0: all right). */
	void (*fill)(struct run *run);
	int (*check)(struct run *run);
};

/* The whole of main(). */
int benchmark_main(const struct benchmark *benchmark, int argc, char **argv);

/* Seed for what `source` sends as message number `index` in this round. */
uint64_t benchmark_seed(const struct run *run, int source, int index);
/* Check one message; complains on stderr and returns -1 if it is wrong. */
int benchmark_check(const struct run *run, const char *message, int source, int index);

/* Headers and reports that several benchmarks share. */
void latency_header(const struct run *run);
void latency_report(const struct run *run, double microseconds);
void bandwidth_header(const struct run *run);
/* bytes: moved by all ranks in the timed loop. */
void bandwidth_report(const struct run *run, const struct timing *timing, double bytes);

#endif

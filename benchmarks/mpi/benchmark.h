/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The MPI benchmarks, and what they share: buffers, warm-up, timed loops,
 * validation, and output in the format of the OSU micro-benchmarks.
 */
#ifndef BENCHMARK_H
#define BENCHMARK_H

#include "cold.h"
#include "counters.h"
#include "line.h"
#include "options.h"
#include "udp.h"

#include <mpi.h>
#include <time.h>

struct benchmark;

/* State of one rank. */
struct run {
	const struct benchmark *benchmark;
	const struct options *options;
	int rank, ranks;
	size_t size; /* length of one message, bytes */
	int window;  /* messages in flight */
	/*
	 * Distance between the messages of a window in a buffer, bytes. As in
	 * OSU, the messages of a two-sided window share one place (0), those of
	 * a one-sided window do not. Validation always separates them.
	 */
	size_t stride;
	char *send, *receive;   /* page-aligned buffers; one-sided: receive is NULL */
	size_t length;          /* length of each buffer, bytes */
	MPI_Request *requests;  /* array of 2 * options->window */
	MPI_Win win;            /* window of one-sided communication, or MPI_WIN_NULL */
	char *exposed;          /* memory of this rank in win */
	int round;              /* number of validation rounds so far, equal on all ranks */
	struct cold *cold;      /* with --cold: owner of send and receive */
	_Atomic uint32_t *line; /* with --line: what the two ranks share */
	struct udp *udp;        /* with --udp: the sockets that move the messages */
};

struct timing {
	double seconds;           /* sum of what exchange returned */
	double cpu;               /* user and system time of this rank in the timed loop, s */
	double counted[COUNTERS]; /* with --waits, in this rank */
	int iterations;
};

struct benchmark {
	const char *title; /* OSU's title without "OSU" */
	const char *about; /* one or two sentences for --help */
	unsigned groups;   /* set of enum option_group */
	struct options defaults;
	enum { RANKS_TWO, RANKS_EVEN, RANKS_ANY } ranks;
	/* Messages move from rank 0 to rank 1 only, or only gets by rank 0 move them. */
	bool one_way;
	/* Capacity of a buffer. */
	enum { HOLD_MESSAGE, HOLD_MESSAGE_PER_RANK, HOLD_WINDOW } hold;

	/*
	 * Collective, optional: set-up after the allocation of the buffers, and
	 * its reversal. prepare returns NULL or, on every rank, an error message.
	 */
	const char *(*prepare)(struct run *run);
	void (*finish)(struct run *run);

	/* Print the column names, without the end of the line. */
	void (*header)(const struct run *run);
	/* Start message number index; for collectives: the whole call. For use by exchange. */
	void (*operation)(struct run *run, int peer, int index);
	/* Do it repeats times. Return the time to report for all of them, s. */
	double (*exchange)(struct run *run, int repeats);
	/* Collective: rank 0 prints the columns of one size, or of one --cold of that size. */
	void (*report)(const struct run *run, const struct timing *timing);

	/* Validation: write what is sent in run->round; return 0 if what arrived is right. */
	void (*fill)(struct run *run);
	int (*check)(struct run *run);
};

extern const struct benchmark benchmark_latency, benchmark_work_latency, benchmark_bw,
	benchmark_bibw, benchmark_mbw_mr;
extern const struct benchmark benchmark_barrier, benchmark_bcast, benchmark_allreduce,
	benchmark_reduce_scatter, benchmark_allgather, benchmark_alltoall;
extern const struct benchmark benchmark_put_latency, benchmark_get_latency, benchmark_put_bw,
	benchmark_get_bw;

/* Default options of the latency and of the bandwidth benchmarks; the numbers are OSU's. */
#define LATENCY_LOOPS .small = { 10000, 100 }, .large = { 1000, 10 }, .window = 1
#define BANDWIDTH_LOOPS .small = { 100, 10 }, .large = { 20, 2 }, .window = 64
#define SIZE_MOST ((size_t)1 << 22)

/* Processor time that the process or this thread has used: CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID. */
double cpu_seconds(clockid_t clock);

int benchmark_main(const struct benchmark *benchmark, int argc, char **argv);

/* Write the pattern of message number index from source; return 0 if message holds it. */
void message_fill(const struct run *run, char *message, int source, int index);
int message_check(const struct run *run, const char *message, int source, int index);
/* The same for all messages of a window. */
void window_fill(const struct run *run, char *buffer);
int window_check(const struct run *run, const char *buffer, int source);

void latency_header(const struct run *run);
void latency_report(const struct run *run, const struct timing *timing);
void bandwidth_header(const struct run *run);
void bandwidth_report(const struct run *run, const struct timing *timing);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The one-sided benchmarks: put_latency, get_latency, put_bw, get_bw. Rank 0 is
 * the origin, rank 1 the target; with -s fence the latency benchmarks take
 * turns, as OSU's do.
 */
#include "benchmark.h"

#include <string.h>

#define ORIGIN 0
#define TARGET 1

static void put(struct run *run, int peer, int index)
{
	const size_t offset = (size_t)index * run->stride;

	MPI_Put(run->send + offset, (int)run->size, MPI_CHAR, peer, (MPI_Aint)offset,
		(int)run->size, MPI_CHAR, run->win);
}

static void get(struct run *run, int peer, int index)
{
	const size_t offset = (size_t)index * run->stride;

	MPI_Get(run->send + offset, (int)run->size, MPI_CHAR, peer, (MPI_Aint)offset,
		(int)run->size, MPI_CHAR, run->win);
}

static void start_window(struct run *run)
{
	int i;

	for (i = 0; i < run->window; i++)
		run->benchmark->operation(run, TARGET, i);
}

/* The fences are where OSU has them. */
static double latency_fence(struct run *run, int repeats)
{
	double start = MPI_Wtime();
	int i;

	for (i = 0; i < repeats; i++) {
		MPI_Win_fence(0, run->win);
		if (run->rank == ORIGIN)
			run->benchmark->operation(run, TARGET, 0);
		MPI_Win_fence(0, run->win);
		if (run->rank == TARGET)
			run->benchmark->operation(run, ORIGIN, 0);
		MPI_Win_fence(0, run->win);
	}
	return (MPI_Wtime() - start) / 2;
}

static double bandwidth_fence(struct run *run, int repeats)
{
	double start = MPI_Wtime();
	int i;

	for (i = 0; i < repeats; i++) {
		MPI_Win_fence(0, run->win);
		if (run->rank == ORIGIN)
			start_window(run);
		MPI_Win_fence(0, run->win);
	}
	return MPI_Wtime() - start;
}

/* One epoch for all windows (flush), or one for each (lock). */
static double origin_passive(struct run *run, int repeats)
{
	const bool lock_once = run->options->sync == SYNC_FLUSH;
	double start, seconds;
	int i;

	if (lock_once)
		MPI_Win_lock(MPI_LOCK_SHARED, TARGET, 0, run->win);
	start = MPI_Wtime();
	for (i = 0; i < repeats; i++) {
		if (!lock_once)
			MPI_Win_lock(MPI_LOCK_SHARED, TARGET, 0, run->win);
		start_window(run);
		if (lock_once)
			MPI_Win_flush(TARGET, run->win);
		else
			MPI_Win_unlock(TARGET, run->win);
	}
	seconds = MPI_Wtime() - start;
	if (lock_once)
		MPI_Win_unlock(TARGET, run->win);
	return seconds;
}

/* As in OSU, the target waits in a barrier: that makes progress for operations that need it. */
static double passive(struct run *run, int repeats)
{
	double seconds = 0;

	if (run->rank == ORIGIN)
		seconds = origin_passive(run, repeats);
	MPI_Barrier(MPI_COMM_WORLD);
	return seconds;
}

static double latency(struct run *run, int repeats)
{
	return run->options->sync == SYNC_FENCE ? latency_fence(run, repeats) :
						  passive(run, repeats);
}

static double bandwidth(struct run *run, int repeats)
{
	return run->options->sync == SYNC_FENCE ? bandwidth_fence(run, repeats) :
						  passive(run, repeats);
}

static const char *prepare(struct run *run)
{
	const MPI_Aint length = (MPI_Aint)run->length;

	if (run->options->create == CREATE_ALLOCATE) {
		MPI_Win_allocate(length, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &run->exposed,
				 &run->win);
	} else {
		MPI_Alloc_mem(length, MPI_INFO_NULL, &run->exposed);
		MPI_Win_create(run->exposed, length, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &run->win);
	}
	memset(run->exposed, 0, run->length);
	return NULL;
}

static void finish(struct run *run)
{
	MPI_Win_free(&run->win);
	if (run->options->create == CREATE_FROM_MEMORY)
		MPI_Free_mem(run->exposed);
}

static bool is_get(const struct run *run)
{
	return run->benchmark->operation == get;
}

static void fill(struct run *run)
{
	window_fill(run, is_get(run) ? run->exposed : run->send);
}

static int check(struct run *run)
{
	if (run->rank != (is_get(run) ? ORIGIN : TARGET))
		return 0;
	return window_check(run, is_get(run) ? run->send : run->exposed, 1 - run->rank);
}

#define LATENCY                                                                                    \
	.groups = TAKES_SIZES | TAKES_RMA,                                                         \
	.defaults = { .min_size = 1, .max_size = SIZE_MOST, LATENCY_LOOPS }, .ranks = RANKS_TWO,   \
	.prepare = prepare, .finish = finish, .header = latency_header, .exchange = latency,       \
	.report = latency_report, .fill = fill, .check = check

#define BANDWIDTH                                                                                  \
	.groups = TAKES_SIZES | TAKES_WINDOW | TAKES_CPU | TAKES_RMA,                              \
	.defaults = { .min_size = 1, .max_size = SIZE_MOST, BANDWIDTH_LOOPS }, .ranks = RANKS_TWO, \
	.one_way = true, .hold = HOLD_WINDOW, .prepare = prepare, .finish = finish,                \
	.header = bandwidth_header, .exchange = bandwidth, .report = bandwidth_report,             \
	.fill = fill, .check = check

const struct benchmark benchmark_put_latency = {
	.title = "MPI_Put Latency Test",
	.about = "Time of one MPI_Put and its synchronization.",
	.operation = put,
	LATENCY,
};

const struct benchmark benchmark_get_latency = {
	.title = "MPI_Get Latency Test",
	.about = "Time of one MPI_Get and its synchronization.",
	.operation = get,
	LATENCY,
};

const struct benchmark benchmark_put_bw = {
	.title = "MPI_Put Bandwidth Test",
	.about = "Rank 0 starts a window of MPI_Put and completes them together.",
	.operation = put,
	BANDWIDTH,
};

const struct benchmark benchmark_get_bw = {
	.title = "MPI_Get Bandwidth Test",
	.about = "Rank 0 starts a window of MPI_Get and completes them together.",
	.operation = get,
	BANDWIDTH,
};

/* SPDX-License-Identifier: BSD-3-Clause */
#include "onesided.h"

#include "pattern.h"

#include <stdio.h>
#include <string.h>

#define ORIGIN 0
#define TARGET 1

void onesided_put(struct run *run, int peer, int index)
{
	const size_t offset = (size_t)index * run->stride;

	MPI_Put(run->send + offset, (int)run->size, MPI_CHAR, peer, (MPI_Aint)offset,
		(int)run->size, MPI_CHAR, run->win);
}

void onesided_get(struct run *run, int peer, int index)
{
	const size_t offset = (size_t)index * run->stride;

	MPI_Get(run->send + offset, (int)run->size, MPI_CHAR, peer, (MPI_Aint)offset,
		(int)run->size, MPI_CHAR, run->win);
}

/* Where the fences are is OSU's choice. */
static double latency_fence(struct run *run, int repeats, onesided_fn operation)
{
	double start = MPI_Wtime();
	int i;

	for (i = 0; i < repeats; i++) {
		MPI_Win_fence(0, run->win);
		if (run->rank == ORIGIN)
			operation(run, TARGET, 0);
		MPI_Win_fence(0, run->win);
		if (run->rank == TARGET)
			operation(run, ORIGIN, 0);
		MPI_Win_fence(0, run->win);
	}
	return MPI_Wtime() - start;
}

/* One epoch for all (flush), or one for each window of operations (lock). */
static double origin_passive(struct run *run, int repeats, int window, onesided_fn operation)
{
	const int lock_once = run->options->sync == SYNC_FLUSH;
	double start, seconds;
	int i, j;

	if (lock_once)
		MPI_Win_lock(MPI_LOCK_SHARED, TARGET, 0, run->win);
	start = MPI_Wtime();
	for (i = 0; i < repeats; i++) {
		if (!lock_once)
			MPI_Win_lock(MPI_LOCK_SHARED, TARGET, 0, run->win);
		for (j = 0; j < window; j++)
			operation(run, TARGET, j);
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

/* The target waits in a barrier, as OSU's: that makes progress for operations that need it. */
static double passive(struct run *run, int repeats, int window, onesided_fn operation)
{
	double seconds = 0;

	if (run->rank == ORIGIN)
		seconds = origin_passive(run, repeats, window, operation);
	MPI_Barrier(MPI_COMM_WORLD);
	return seconds;
}

double onesided_latency(struct run *run, int repeats, onesided_fn operation)
{
	if (run->options->sync == SYNC_FENCE)
		return latency_fence(run, repeats, operation);
	return passive(run, repeats, 1, operation);
}

static double bandwidth_fence(struct run *run, int repeats, onesided_fn operation)
{
	double start = MPI_Wtime();
	int i, j;

	for (i = 0; i < repeats; i++) {
		MPI_Win_fence(0, run->win);
		for (j = 0; j < run->window && run->rank == ORIGIN; j++)
			operation(run, TARGET, j);
		MPI_Win_fence(0, run->win);
	}
	return MPI_Wtime() - start;
}

double onesided_bandwidth(struct run *run, int repeats, onesided_fn operation)
{
	if (run->options->sync == SYNC_FENCE)
		return bandwidth_fence(run, repeats, operation);
	return passive(run, repeats, run->window, operation);
}

const char *onesided_prepare(struct run *run)
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

void onesided_finish(struct run *run)
{
	MPI_Win_free(&run->win);
	if (run->options->create == CREATE_FROM_MEMORY)
		MPI_Free_mem(run->exposed);
}

static void describe_window(const struct run *run)
{
	printf("# Window creation: MPI_Win_%s\n# Synchronization: MPI_Win_%s\n",
	       rma_create_name(run->options->create), rma_sync_name(run->options->sync));
}

void onesided_latency_header(const struct run *run)
{
	describe_window(run);
	latency_header(run);
}

void onesided_latency_report(const struct run *run, const struct timing *timing)
{
	double turns = run->options->sync == SYNC_FENCE ? 2 : 1;

	latency_report(run, timing->seconds * 1e6 / (turns * timing->iterations));
}

void onesided_bandwidth_header(const struct run *run)
{
	describe_window(run);
	bandwidth_header(run);
}

void onesided_bandwidth_report(const struct run *run, const struct timing *timing)
{
	bandwidth_report(run, timing, (double)run->size * run->window * timing->iterations);
}

static void fill(struct run *run, char *buffer)
{
	int i;

	for (i = 0; i < run->window; i++)
		pattern_fill(buffer + (size_t)i * run->stride, run->size,
			     benchmark_seed(run, run->rank, i));
}

static int check(struct run *run, const char *buffer, int source)
{
	int i;

	for (i = 0; i < run->window; i++)
		if (benchmark_check(run, buffer + (size_t)i * run->stride, source, i))
			return -1;
	return 0;
}

void onesided_fill_put(struct run *run)
{
	fill(run, run->send);
}

int onesided_check_put(struct run *run)
{
	return run->rank == TARGET ? check(run, run->exposed, ORIGIN) : 0;
}

void onesided_fill_get(struct run *run)
{
	fill(run, run->exposed);
}

int onesided_check_get(struct run *run)
{
	return run->rank == ORIGIN ? check(run, run->send, TARGET) : 0;
}

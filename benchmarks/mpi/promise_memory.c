/* SPDX-License-Identifier: BSD-3-Clause */
/* Shapes whose figures are memory, file descriptors and mappings of a process. */
#include "promise.h"

#include <dirent.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "sample.h"

#define MS 1e-3
#define KIB_IN_MIB 1024.0
#define MIB ((size_t)1 << 20)
#define PAGE 4096
/* Of shape_receives: a message, the distance between two, and what the program uses afterwards. */
#define RECEIVED (4 * MIB)
#define DISTANCE (6 * MIB)
#define USED (2 * MIB)
#define NOT_HUGE (16 * MIB)
/* One size for each way of a message: in the ring, in parts, by single copy. */
static const int peer_sizes[] = { 8, 4096, 100000 };
#define PEER_LONGEST 100000
/* Of the window of shape_puts, numbers. */
#define PUTS_WINDOW 65536
/* How long messages may take that nobody receives, s. */
#define UNEXPECTED_TIME 0.5

/* KiB of a line of a file of /proc/self, such as "VmRSS:". */
static double proc_kib(const char *file, const char *name)
{
	FILE *stream = fopen(file, "r");
	char line[256];
	long kib = -1;

	while (stream && fgets(line, sizeof(line), stream))
		if (!strncmp(line, name, strlen(name)))
			sscanf(line + strlen(name), "%ld", &kib);
	if (stream)
		fclose(stream);
	if (kib < 0)
		promise_fail("a line of /proc is missing");
	return (double)kib;
}

static double resident_kib(void)
{
	return proc_kib("/proc/self/status", "VmRSS:");
}

static double huge_kib(void)
{
	return proc_kib("/proc/self/smaps_rollup", "AnonHugePages:");
}

static int mapping_count(void)
{
	FILE *stream = fopen("/proc/self/maps", "r");
	int character, count = 0;

	while (stream && (character = getc(stream)) != EOF)
		count += character == '\n';
	if (stream)
		fclose(stream);
	return count;
}

static int descriptor_count(void)
{
	DIR *folder = opendir("/proc/self/fd");
	int count = 0;

	while (folder && readdir(folder))
		count++;
	if (folder)
		closedir(folder);
	return count;
}

void shape_init(const struct promise *promise)
{
	const double longest = promise_largest(sample_seconds() - promise->start);
	/* Of pages that processes share, a part. */
	const double memory = proc_kib("/proc/self/smaps_rollup", "Pss:");
	double sum;

	MPI_Reduce(&memory, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
	if (promise->rank == 0) {
		promise_print("init", longest / MS);
		promise_print("memory", sum / promise->ranks);
	}
}

/* Every rank sends messages of several lengths to every other, and receives them. */
void shape_peer(const struct promise *promise)
{
	int ranks = promise->ranks, distance, last;
	char *source = promise_map(PEER_LONGEST), *destination = promise_map(PEER_LONGEST);
	double before[3], more[3], sum[3];
	size_t i;

	memset(source, 1, PEER_LONGEST);
	memset(destination, 1, PEER_LONGEST);
	before[0] = resident_kib();
	before[1] = descriptor_count();
	before[2] = mapping_count();
	for (i = 0; i < sizeof(peer_sizes) / sizeof(*peer_sizes); i++)
		for (distance = 1; distance < ranks; distance++)
			MPI_Sendrecv(source, peer_sizes[i], MPI_BYTE,
				     (promise->rank + distance) % ranks, 0, destination,
				     peer_sizes[i], MPI_BYTE,
				     (promise->rank + ranks - distance) % ranks, 0, MPI_COMM_WORLD,
				     MPI_STATUS_IGNORE);
	MPI_Barrier(MPI_COMM_WORLD);
	more[0] = resident_kib() - before[0];
	more[1] = descriptor_count() - before[1];
	more[2] = mapping_count() - before[2];
	MPI_Reduce(more, sum, 3, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
	last = ranks * (ranks - 1);
	if (promise->rank == 0) {
		promise_print("memory", sum[0] / last);
		promise_print("descriptors", sum[1] / last);
		promise_print("mappings", sum[2] / last);
	}
}

/* Every rank sends messages to every other, all at once. */
void shape_rings(const struct promise *promise)
{
	size_t count = (size_t)promise->arguments[0], length = (size_t)promise->arguments[1];
	size_t peers = (size_t)promise->ranks - 1, all = count * peers, i;
	char *source = promise_map(length), *destination = promise_map(all * length);
	MPI_Request *requests = calloc(2 * all, sizeof(*requests));
	double more, sum, before;

	if (!requests)
		promise_fail("no memory");
	memset(source, 1, length);
	MPI_Barrier(MPI_COMM_WORLD);
	before = proc_kib("/proc/self/smaps_rollup", "Pss_Shmem:");
	/* No rank maps memory that another already shares while that other reads its share. */
	MPI_Barrier(MPI_COMM_WORLD);
	for (i = 0; i < all; i++) {
		int peer = (promise->rank + 1 + (int)(i % peers)) % promise->ranks;

		MPI_Irecv(destination + i * length, (int)length, MPI_BYTE, peer, 0, MPI_COMM_WORLD,
			  &requests[i]);
	}
	for (i = 0; i < all; i++) {
		int peer = (promise->rank + 1 + (int)(i % peers)) % promise->ranks;

		MPI_Isend(source, (int)length, MPI_BYTE, peer, 0, MPI_COMM_WORLD,
			  &requests[all + i]);
	}
	MPI_Waitall((int)(2 * all), requests, MPI_STATUSES_IGNORE);
	MPI_Barrier(MPI_COMM_WORLD);
	more = proc_kib("/proc/self/smaps_rollup", "Pss_Shmem:") - before;
	MPI_Reduce(&more, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
	if (promise->rank == 0)
		promise_print("memory", sum / KIB_IN_MIB);
	free(requests);
}

/*
 * Rank 1 receives into parts of a large mapping and gives the pages back, as allocators do; then it
 * uses one page of each 2 MiB. Where it wants no huge pages it gets none.
 */
void shape_receives(const struct promise *promise)
{
	size_t offset, count = (size_t)promise->arguments[0], i;
	int mappings;
	double resident, huge;
	char *memory;

	if (promise->rank == 0) {
		memory = promise_map(NOT_HUGE);
		memset(memory, 1, NOT_HUGE);
		for (i = 0; i < count; i++)
			MPI_Send(memory, RECEIVED, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
		MPI_Send(memory, NOT_HUGE, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
		return;
	}
	if (promise->rank != 1)
		return;
	memory = promise_map(count * DISTANCE);
	/* The first contact takes memory of its own. */
	MPI_Recv(memory, RECEIVED, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	madvise(memory, RECEIVED, MADV_DONTNEED);
	mappings = mapping_count();
	resident = resident_kib();
	for (i = 1; i < count; i++) {
		MPI_Recv(memory + i * DISTANCE, RECEIVED, MPI_BYTE, 0, 0, MPI_COMM_WORLD,
			 MPI_STATUS_IGNORE);
		madvise(memory + i * DISTANCE, RECEIVED, MADV_DONTNEED);
	}
	for (i = 1; i < count; i++)
		for (offset = 0; offset < RECEIVED; offset += USED)
			memory[i * DISTANCE + offset + PAGE] = 1;
	promise_print("memory", (resident_kib() - resident) / KIB_IN_MIB);
	promise_print("mappings", mapping_count() - mappings);

	memory = promise_map(NOT_HUGE);
	madvise(memory, NOT_HUGE, MADV_NOHUGEPAGE);
	huge = huge_kib();
	MPI_Recv(memory, NOT_HUGE, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	promise_print("huge", huge_kib() - huge);
}

/* Rank 0 posts many puts without waiting for one of them. */
void shape_puts(const struct promise *promise)
{
	long i, value = 1, count = promise->arguments[0];
	long *memory = calloc(PUTS_WINDOW, sizeof(*memory));
	double before, time;
	MPI_Win window;

	MPI_Win_create(memory, PUTS_WINDOW * sizeof(*memory), sizeof(*memory), MPI_INFO_NULL,
		       MPI_COMM_WORLD, &window);
	MPI_Win_fence(0, window);
	if (promise->rank == 0)
		MPI_Put(&value, 1, MPI_LONG, 1, 0, 1, MPI_LONG, window);
	MPI_Win_fence(0, window);
	before = proc_kib("/proc/self/status", "VmHWM:");
	time = sample_seconds();
	for (i = 0; promise->rank == 0 && i < count; i++)
		MPI_Put(&value, 1, MPI_LONG, 1, i % PUTS_WINDOW, 1, MPI_LONG, window);
	MPI_Win_fence(0, window);
	time = sample_seconds() - time;
	for (i = 0; promise->rank == 1 && i < count && i < PUTS_WINDOW; i++)
		if (memory[i] != value)
			promise_fail("a put is missing");
	if (promise->rank == 0) {
		promise_print("time", time / MS);
		promise_print("memory",
			      (proc_kib("/proc/self/status", "VmHWM:") - before) / KIB_IN_MIB);
	}
	MPI_Win_free(&window);
	free(memory);
}

/* Rank 1 makes progress, but does not receive what rank 0 sends. */
void shape_unexpected(const struct promise *promise)
{
	size_t i, count = (size_t)promise->arguments[0], bytes = (size_t)promise->arguments[1];
	MPI_Request *requests = calloc(count, sizeof(*requests));
	char *memory = promise_map(promise->rank ? bytes : count * bytes);
	double before, end;
	int flag;

	MPI_Barrier(MPI_COMM_WORLD);
	before = resident_kib();
	if (promise->rank == 0) {
		memset(memory, 1, count * bytes);
		for (i = 0; i < count; i++)
			MPI_Isend(memory + i * bytes, (int)bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD,
				  &requests[i]);
		MPI_Waitall((int)count, requests, MPI_STATUSES_IGNORE);
	} else if (promise->rank == 1) {
		for (end = sample_seconds() + UNEXPECTED_TIME; sample_seconds() < end;)
			MPI_Iprobe(0, 1, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
		promise_print("memory", (resident_kib() - before) / KIB_IN_MIB);
		for (i = 0; i < count; i++)
			MPI_Recv(memory, (int)bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD,
				 MPI_STATUS_IGNORE);
	}
	free(requests);
}

/* Rank 0 sends to rank 1, which does not call MPI. */
void shape_waiting(const struct promise *promise)
{
	size_t i, count = (size_t)promise->arguments[0], bytes = (size_t)promise->arguments[1];
	MPI_Request *requests = calloc(count, sizeof(*requests));
	char *memory = promise_map(promise->rank ? bytes : count * bytes);
	double before;

	memset(memory, 1, promise->rank ? bytes : count * bytes);
	MPI_Barrier(MPI_COMM_WORLD);
	if (promise->rank == 0) {
		before = resident_kib();
		for (i = 0; i < count; i++)
			MPI_Isend(memory + i * bytes, (int)bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD,
				  &requests[i]);
		promise_print("memory", (resident_kib() - before) / KIB_IN_MIB);
		MPI_Waitall((int)count, requests, MPI_STATUSES_IGNORE);
	} else if (promise->rank == 1) {
		promise_work(UNEXPECTED_TIME);
		for (i = 0; i < count; i++)
			MPI_Recv(memory, (int)bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD,
				 MPI_STATUS_IGNORE);
	}
	free(requests);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Shapes of data that move: how long it takes. */
#include "promise.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sample.h"

#define MS 1e-3
#define US 1e-6
#define PAGE 4096
/* Until a long message is under way, us. */
#define UNDER_WAY_US 5000

void shape_init(const struct promise *promise)
{
	double longest = promise_largest(sample_seconds() - promise->start);

	if (promise->rank == 0)
		promise_print("init", longest / MS);
}

/* Rank 0 receives a long message from rank 1, and meanwhile a short one from rank 2. */
void shape_beside(const struct promise *promise)
{
	int lengths[] = { 0, (int)promise->arguments[0], (int)promise->arguments[1] };
	int rounds = (int)promise->arguments[2], i;
	double *times = calloc((size_t)rounds + 1, sizeof(*times)), time;
	char *buffers[3] = { 0 };
	MPI_Request requests[3];

	for (i = 1; i <= 2; i++) {
		if (promise->rank != 0 && promise->rank != i)
			continue;
		buffers[i] = promise_map((size_t)lengths[i]);
		memset(buffers[i], promise->rank, (size_t)lengths[i]);
	}
	for (i = 0; i < rounds; i++) {
		MPI_Barrier(MPI_COMM_WORLD);
		if (promise->rank == 0) {
			MPI_Irecv(buffers[1], lengths[1], MPI_BYTE, 1, 0, MPI_COMM_WORLD,
				  &requests[1]);
			MPI_Irecv(buffers[2], lengths[2], MPI_BYTE, 2, 0, MPI_COMM_WORLD,
				  &requests[2]);
			MPI_Wait(&requests[2], MPI_STATUS_IGNORE);
			memcpy(&time, buffers[2], sizeof(time));
			times[i] = sample_seconds() - time;
			MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
			if (buffers[1][lengths[1] - 1] != 1 || buffers[2][lengths[2] - 1] != 2)
				promise_fail("a message arrived with wrong contents");
		} else if (promise->rank == 1) {
			MPI_Send(buffers[1], lengths[1], MPI_BYTE, 0, 0, MPI_COMM_WORLD);
		} else if (promise->rank == 2) {
			usleep(UNDER_WAY_US);
			time = sample_seconds();
			memcpy(buffers[2], &time, sizeof(time));
			MPI_Send(buffers[2], lengths[2], MPI_BYTE, 0, 0, MPI_COMM_WORLD);
		}
	}
	if (promise->rank == 0)
		promise_print("short", sample_summary(times, (size_t)rounds).median / MS);
	free(times);
}

/* A column of a matrix: numbers with a gap behind each. */
void shape_strided(const struct promise *promise)
{
	size_t i, count = (size_t)promise->arguments[0];
	double *column = calloc(2 * count, sizeof(*column)), time;
	MPI_Datatype type;
	MPI_Win window;

	for (i = 0; i < 2 * count; i++)
		column[i] = promise->rank ? -1 : (double)i;
	MPI_Type_vector((int)count, 1, 2, MPI_DOUBLE, &type);
	MPI_Type_commit(&type);
	MPI_Win_create(column, (MPI_Aint)(2 * count * sizeof(*column)), sizeof(*column),
		       MPI_INFO_NULL, MPI_COMM_WORLD, &window);
	MPI_Win_fence(0, window);
	/* The first contact is not counted. */
	if (promise->rank == 0)
		MPI_Put(column, 1, MPI_DOUBLE, 1, 0, 1, MPI_DOUBLE, window);
	MPI_Win_fence(0, window);
	time = sample_seconds();
	if (promise->rank == 0)
		MPI_Put(column, 1, type, 1, 0, 1, type, window);
	MPI_Win_fence(0, window);
	time = sample_seconds() - time;
	for (i = 0; promise->rank == 1 && i < 2 * count; i++)
		if (column[i] != (i % 2 ? -1 : (double)i))
			promise_fail("the column arrived with wrong contents");
	if (promise->rank == 0)
		promise_print("time", time / MS);
	MPI_Win_free(&window);
	MPI_Type_free(&type);
	free(column);
}

/* All ranks send to all, by nonblocking messages. */
void shape_round(const struct promise *promise)
{
	int peer, ranks = promise->ranks, bytes = (int)promise->arguments[1];
	char *source = calloc((size_t)ranks, (size_t)bytes);
	char *destination = calloc((size_t)ranks, (size_t)bytes);
	MPI_Request *requests = calloc(2 * (size_t)ranks, sizeof(*requests));
	double start, time, longest = 0, sum = 0;
	long k;

	/* Round -1 makes the contacts. */
	for (k = -1; k < promise->arguments[0]; k++) {
		start = sample_seconds();
		for (peer = 0; peer < ranks; peer++)
			MPI_Irecv(destination + (size_t)peer * (size_t)bytes, bytes, MPI_BYTE, peer,
				  0, MPI_COMM_WORLD, &requests[peer]);
		for (peer = 0; peer < ranks; peer++) {
			int to = (promise->rank + peer) % ranks;

			MPI_Isend(source + (size_t)to * (size_t)bytes, bytes, MPI_BYTE, to, 0,
				  MPI_COMM_WORLD, &requests[ranks + peer]);
		}
		MPI_Waitall(2 * ranks, requests, MPI_STATUSES_IGNORE);
		MPI_Barrier(MPI_COMM_WORLD);
		time = sample_seconds() - start;
		if (k < 0)
			continue;
		sum += time;
		longest = time > longest ? time : longest;
	}
	if (promise->rank == 0) {
		promise_print("longest", longest / MS);
		promise_print("mean", sum / (double)promise->arguments[0] / MS);
	}
	free(source);
	free(destination);
	free(requests);
}

/* Rank 0 hands out tasks; a rank that returns one gets the next. Tag 1 ends it. */
void shape_farm(const struct promise *promise)
{
	long tasks = promise->arguments[0], sent = 0, returned;
	int bytes = (int)promise->arguments[1], worker;
	char *task = calloc((size_t)bytes, 1);
	MPI_Status status;
	double time;

	MPI_Barrier(MPI_COMM_WORLD);
	time = sample_seconds();
	if (promise->rank == 0) {
		for (worker = 1; worker < promise->ranks; worker++, sent++)
			MPI_Send(task, bytes, MPI_BYTE, worker, 0, MPI_COMM_WORLD);
		for (returned = 0; returned < sent; returned++) {
			MPI_Recv(task, bytes, MPI_BYTE, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &status);
			if (sent < tasks) {
				MPI_Send(task, bytes, MPI_BYTE, status.MPI_SOURCE, 0,
					 MPI_COMM_WORLD);
				sent++;
			}
		}
		time = sample_seconds() - time;
		for (worker = 1; worker < promise->ranks; worker++)
			MPI_Send(NULL, 0, MPI_BYTE, worker, 1, MPI_COMM_WORLD);
		promise_print("task", time / (double)sent / US);
	} else {
		for (;;) {
			MPI_Recv(task, bytes, MPI_BYTE, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
			if (status.MPI_TAG)
				break;
			MPI_Send(task, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
		}
	}
	free(task);
}

/* Rank 0 sends, and then works without MPI. The figure is how late the last message arrived. */
void shape_stranded(const struct promise *promise)
{
	int i, count = (int)promise->arguments[0], bytes = (int)promise->arguments[1];
	MPI_Request *requests = calloc((size_t)count, sizeof(*requests));
	char *buffer = calloc((size_t)count, (size_t)bytes);
	double lateness, sent = 0;

	if ((size_t)bytes < sizeof(sent))
		promise_fail("stranded: give messages of 8 bytes or more");
	MPI_Barrier(MPI_COMM_WORLD);
	if (promise->rank == 0) {
		sent = sample_seconds();
		for (i = 0; i < count; i++) {
			char *message = buffer + (size_t)i * (size_t)bytes;

			memcpy(message, &sent, sizeof(sent));
			MPI_Isend(message, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &requests[i]);
		}
		promise_work((double)promise->arguments[2] * MS);
		MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
	} else if (promise->rank == 1) {
		for (i = 0; i < count; i++)
			MPI_Recv(buffer, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		memcpy(&sent, buffer, sizeof(sent));
		lateness = sample_seconds() - sent;
		promise_print("late", lateness / MS);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	free(requests);
	free(buffer);
}

/* Rank 1 receives into pages that it has given back, and has many other mappings. */
void shape_fresh(const struct promise *promise)
{
	int bytes = (int)promise->arguments[0];
	char *buffer = promise_map((size_t)bytes);
	double start = 0;
	long i;

	memset(buffer, 1, (size_t)bytes);
	/* Neighbours differ, else the kernel would merge them. */
	for (i = 0; i < promise->arguments[1]; i++)
		if (mmap(NULL, PAGE, i % 2 ? PROT_READ : PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
			promise_fail("no further mapping");
	/* The first two are not counted. */
	for (i = -2; i < promise->arguments[2]; i++) {
		if (i == 0) {
			MPI_Barrier(MPI_COMM_WORLD);
			start = sample_seconds();
		}
		if (promise->rank == 0) {
			MPI_Send(buffer, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
		} else if (promise->rank == 1) {
			madvise(buffer, (size_t)bytes, MADV_DONTNEED);
			MPI_Recv(buffer, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		}
	}
	MPI_Barrier(MPI_COMM_WORLD);
	if (promise->rank == 0)
		promise_print("time",
			      (sample_seconds() - start) / (double)promise->arguments[2] / MS);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Shapes of data that move: how long it takes. */
#include "promise.h"

#include <mpi.h>
#include <stdint.h>
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
/* Window of shape_scattered, bytes. */
#define SCATTERED ((size_t)64 << 20)
#define RANDOM_SEED 88172645463325252u

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

#define EXCHANGES 32 /* between two looks at the clock */

/*
 * Exchange blocks with the partner for so many seconds, all in turn. Return the time for each, in
 * rank 0.
 */
static double exchange(int rank, char *from, char *to, size_t blocks, int length, double seconds)
{
	int again = 1, i;
	double start = sample_seconds();
	size_t count = 0, at;

	while (again) {
		for (i = 0; i < EXCHANGES; i++, count++) {
			at = count % blocks * (size_t)length;
			MPI_Sendrecv(from + at, length, MPI_BYTE, rank ^ 1, 0, to + at, length,
				     MPI_BYTE, rank ^ 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			if (to[at] != (rank ^ 1) + 1 || to[at + (size_t)length - 1] != to[at])
				promise_fail("a message arrived with wrong contents");
			to[at] = to[at + (size_t)length - 1] = 0;
		}
		again = sample_seconds() - start < seconds;
		MPI_Bcast(&again, 1, MPI_INT, 0, MPI_COMM_WORLD);
	}
	return (sample_seconds() - start) / (double)count;
}

/* Both processors copy all the time: only less work for each byte helps. */
void shape_exchange(const struct promise *promise)
{
	size_t total = (size_t)promise->arguments[0] << 20, blocks;
	int length = (int)promise->arguments[1];
	double seconds = (double)promise->arguments[2] * MS, first, later;
	char *from = promise_map(total), *to = promise_map(total);

	if (length < 1 || (size_t)length > total || promise->ranks % 2)
		promise_fail("exchange: give messages that fit, and an even number of ranks");
	memset(from, promise->rank + 1, total);
	memset(to, 0, total);
	blocks = total / (size_t)length;
	MPI_Barrier(MPI_COMM_WORLD);
	first = exchange(promise->rank, from, to, blocks, length, seconds);
	exchange(promise->rank, from, to, blocks, length, 2 - seconds);
	later = exchange(promise->rank, from, to, blocks, length, seconds);
	if (promise->rank)
		return;
	promise_print("first", first / US);
	promise_print("later", later / US);
}

/* xorshift (Marsaglia, Journal of Statistical Software 8/14, 2003) */
static uint64_t random_next(uint64_t *random)
{
	*random ^= *random << 13;
	*random ^= *random >> 7;
	*random ^= *random << 17;
	return *random;
}

/* Rank 0 puts numbers at random places, and waits for each. */
void shape_scattered(const struct promise *promise)
{
	const size_t numbers = SCATTERED / sizeof(long);
	long *memory = (long *)(void *)promise_map(SCATTERED), value = 1, i;
	uint64_t random = RANDOM_SEED;
	double time;
	MPI_Win window;

	/* Small pages where the setting of huge pages is always, too. */
	madvise(memory, SCATTERED, MADV_NOHUGEPAGE);
	memset(memory, 0, SCATTERED);
	MPI_Win_create(memory, SCATTERED, sizeof(*memory), MPI_INFO_NULL, MPI_COMM_WORLD, &window);
	MPI_Win_lock_all(0, window);
	MPI_Barrier(MPI_COMM_WORLD);
	time = sample_seconds();
	for (i = 0; !promise->rank && i < promise->arguments[0]; i++) {
		MPI_Put(&value, 1, MPI_LONG, 1, (MPI_Aint)(random_next(&random) % numbers), 1,
			MPI_LONG, window);
		MPI_Win_flush(1, window);
	}
	time = sample_seconds() - time;
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_unlock_all(window);
	for (i = 0; promise->rank && i < promise->arguments[0]; i++)
		if (memory[random_next(&random) % numbers] != value)
			promise_fail("a put is missing");
	if (!promise->rank)
		promise_print("time", time / (double)promise->arguments[0] / US);
	MPI_Win_free(&window);
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

/* Most updates that wait in a rank, most in a message, and numbers of the table in each rank. */
#define UPDATES_PENDING 1024
#define UPDATES_MESSAGE 512
#define UPDATES_TABLE 65536

struct updates {
	int ranks;
	int working;       /* ranks whose last message has not come */
	int waiting;       /* updates that wait */
	int *counts;       /* of these, by rank */
	uint64_t *pending; /* these, UPDATES_PENDING places for each rank */
	uint64_t *table;
	uint64_t in[UPDATES_MESSAGE], out[UPDATES_MESSAGE];
	MPI_Request receive, send;
};

static void updates_receive(struct updates *updates)
{
	int done, count, i;
	MPI_Status status;

	if (!updates->working)
		return;
	MPI_Test(&updates->receive, &done, &status);
	if (!done)
		return;
	MPI_Get_count(&status, MPI_UINT64_T, &count);
	for (i = 0; i < count; i++)
		updates->table[updates->in[i] % UPDATES_TABLE] ^= updates->in[i];
	updates->working -= status.MPI_TAG;
	if (updates->working)
		MPI_Irecv(updates->in, UPDATES_MESSAGE, MPI_UINT64_T, MPI_ANY_SOURCE, MPI_ANY_TAG,
			  MPI_COMM_WORLD, &updates->receive);
}

/* Send to the rank with the most updates, once the last message is sent. */
static void updates_send(struct updates *updates)
{
	int done, i, rank = 0, count;

	MPI_Test(&updates->send, &done, MPI_STATUS_IGNORE);
	if (!done)
		return;
	for (i = 1; i < updates->ranks; i++)
		rank = updates->counts[i] > updates->counts[rank] ? i : rank;
	count = updates->counts[rank] < UPDATES_MESSAGE ? updates->counts[rank] : UPDATES_MESSAGE;
	updates->counts[rank] -= count;
	updates->waiting -= count;
	memcpy(updates->out, updates->pending + rank * UPDATES_PENDING + updates->counts[rank],
	       (size_t)count * sizeof(*updates->out));
	MPI_Isend(updates->out, count, MPI_UINT64_T, rank, 0, MPI_COMM_WORLD, &updates->send);
}

/*
 * As MPIRandomAccess of HPC Challenge: each rank looks for a message at each of its updates, and has
 * more to do.
 */
void shape_updates(const struct promise *promise)
{
	struct updates *updates = calloc(1, sizeof(*updates));
	long left = promise->arguments[0];
	uint64_t random = RANDOM_SEED + (uint64_t)promise->rank;
	double time;
	int rank;

	updates->ranks = promise->ranks;
	updates->table = calloc(UPDATES_TABLE, sizeof(*updates->table));
	updates->pending = calloc((size_t)promise->ranks * UPDATES_PENDING, sizeof(random));
	updates->counts = calloc((size_t)promise->ranks, sizeof(*updates->counts));
	updates->working = promise->ranks;
	updates->send = MPI_REQUEST_NULL;
	MPI_Barrier(MPI_COMM_WORLD);
	time = sample_seconds();
	MPI_Irecv(updates->in, UPDATES_MESSAGE, MPI_UINT64_T, MPI_ANY_SOURCE, MPI_ANY_TAG,
		  MPI_COMM_WORLD, &updates->receive);
	while (left || updates->waiting) {
		updates_receive(updates);
		if (left && updates->waiting < UPDATES_PENDING) {
			random_next(&random);
			rank = (int)((random >> 32) % (uint64_t)promise->ranks);
			updates->pending[rank * UPDATES_PENDING + updates->counts[rank]++] = random;
			updates->waiting++;
			left--;
		} else {
			updates_send(updates);
		}
	}
	/* The last message of each rank has the tag 1. */
	for (rank = 0; rank < promise->ranks; rank++) {
		int done = 0;

		while (!done) {
			updates_receive(updates);
			MPI_Test(&updates->send, &done, MPI_STATUS_IGNORE);
		}
		MPI_Isend(NULL, 0, MPI_UINT64_T, rank, 1, MPI_COMM_WORLD, &updates->send);
	}
	while (updates->working)
		updates_receive(updates);
	MPI_Wait(&updates->send, MPI_STATUS_IGNORE);
	time = promise_largest(sample_seconds() - time);
	if (promise->rank == 0)
		promise_print("update", time / (double)promise->arguments[0] / US);
	free(updates->table);
	free(updates->pending);
	free(updates->counts);
	free(updates);
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

/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages between two ranks arrive in order, also when the receiver is late. */
#include "mpitest.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TAG 4

/* Eager and rendezvous messages of one tag: a short one must not overtake a long one. */
static void mixed_sizes(int posted)
{
	enum { FLIGHT = 100, MOST = 300000 };
	unsigned char *out = mpitest_alloc((size_t)FLIGHT * MOST);
	unsigned char *in = mpitest_alloc((size_t)FLIGHT * MOST);
	MPI_Request requests[2 * FLIGHT];
	MPI_Status statuses[2 * FLIGHT];
	size_t lengths[FLIGHT];
	uint64_t state;
	int i, count;

	mpitest_begin("short and long messages keep their order, %s",
		      posted ? "receives posted" : "unexpected");
	state = mpitest.test_seed;
	for (i = 0; i < FLIGHT; i++) {
		lengths[i] = mpitest_random_size(&state, MOST);
		mpitest_fill_message(out + (size_t)i * MOST, lengths[i], mpitest.right,
				     (uint64_t)i);
	}
	if (posted) {
		for (i = 0; i < FLIGHT; i++)
			MPI_Irecv(in + (size_t)i * MOST, MOST, MPI_BYTE, mpitest.left, TAG,
				  MPI_COMM_WORLD, &requests[i]);
	}
	for (i = 0; i < FLIGHT; i++)
		MPI_Isend(out + (size_t)i * MOST, (int)lengths[i], MPI_BYTE, mpitest.right, TAG,
			  MPI_COMM_WORLD, &requests[FLIGHT + i]);
	if (!posted) {
		MPI_Barrier(MPI_COMM_WORLD);
		for (i = 0; i < FLIGHT; i++)
			MPI_Irecv(in + (size_t)i * MOST, MOST, MPI_BYTE, mpitest.left, TAG,
				  MPI_COMM_WORLD, &requests[i]);
	}
	MPI_Waitall(2 * FLIGHT, requests, statuses);
	for (i = 0; i < FLIGHT; i++) {
		MPI_Get_count(&statuses[i], MPI_BYTE, &count);
		mpitest_expect((size_t)count == lengths[i], "message %d has %d bytes not %zu", i,
			       count, lengths[i]);
		mpitest_verify_message(in + (size_t)i * MOST, lengths[i], mpitest.left, (uint64_t)i,
				       "received");
	}
	mpitest_end();
	free(out);
	free(in);
}

/* Numbered messages of one tag from all ranks to all ranks, received from any rank. */
static void numbered(int times)
{
	int i, who, number, pending = 0;
	int *next = calloc((size_t)mpitest.size, sizeof(int));
	MPI_Request *requests =
		mpitest_alloc((size_t)times * (size_t)mpitest.size * sizeof(MPI_Request));
	int *out = mpitest_alloc((size_t)times * sizeof(int));
	MPI_Status status;

	mpitest_begin("%d numbered messages from all ranks to all ranks", times);
	for (i = 0; i < times; i++) {
		out[i] = i;
		for (who = 0; who < mpitest.size; who++)
			MPI_Isend(&out[i], 1, MPI_INT, who, TAG, MPI_COMM_WORLD,
				  &requests[pending++]);
	}
	for (i = 0; i < times * mpitest.size; i++) {
		MPI_Recv(&number, 1, MPI_INT, MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &status);
		mpitest_expect(number == next[status.MPI_SOURCE], "number %d from %d, not %d",
			       number, status.MPI_SOURCE, next[status.MPI_SOURCE]);
		next[status.MPI_SOURCE] = number + 1;
	}
	MPI_Waitall(pending, requests, MPI_STATUSES_IGNORE);
	mpitest_end();
	free(next);
	free(requests);
	free(out);
}

/* All ranks send to rank 0, which receives late, and the last message first. */
static void unexpected(int times)
{
	struct timespec pause = { .tv_nsec = 50000000 };
	int i, who, last = TAG + 1, number[2];
	MPI_Status status;

	mpitest_begin("%d unexpected messages", times * (mpitest.size - 1));
	if (mpitest.rank) {
		for (i = 0; i < times; i++) {
			number[0] = i;
			number[1] = ~i;
			MPI_Send(number, 2, MPI_INT, 0, TAG, MPI_COMM_WORLD);
		}
		MPI_Send(&times, 1, MPI_INT, 0, last, MPI_COMM_WORLD);
		mpitest_end();
		return;
	}
	nanosleep(&pause, NULL);
	for (who = 1; who < mpitest.size; who++) {
		MPI_Recv(number, 1, MPI_INT, who, last, MPI_COMM_WORLD, &status);
		for (i = 0; i < times; i++) {
			MPI_Recv(number, 2, MPI_INT, who, TAG, MPI_COMM_WORLD, &status);
			mpitest_expect(number[0] == i && number[1] == ~i,
				       "message %d of %d is number %d", i, who, number[0]);
		}
	}
	mpitest_end();
}

/* The sender does not wait: more is in flight than fits a ring. */
static void unexpected_sends_in_flight(int times)
{
	enum { LENGTH = 200 };
	unsigned char *out = mpitest_alloc((size_t)times * LENGTH), in[LENGTH];
	MPI_Request *requests = mpitest_alloc((size_t)times * sizeof(MPI_Request));
	int i;

	mpitest_begin("%d sends in flight from each rank, none of them expected", times);
	for (i = 0; i < times; i++) {
		mpitest_fill_message(out + (size_t)i * LENGTH, LENGTH, mpitest.right, (uint64_t)i);
		MPI_Isend(out + (size_t)i * LENGTH, LENGTH, MPI_BYTE, mpitest.right, TAG,
			  MPI_COMM_WORLD, &requests[i]);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	for (i = 0; i < times; i++) {
		MPI_Recv(in, LENGTH, MPI_BYTE, mpitest.left, TAG, MPI_COMM_WORLD,
			 MPI_STATUS_IGNORE);
		mpitest_verify_message(in, LENGTH, mpitest.left, (uint64_t)i, "received");
	}
	MPI_Waitall(times, requests, MPI_STATUSES_IGNORE);
	mpitest_end();
	free(out);
	free(requests);
}

int main(int argc, char **argv)
{
	int share;

	mpitest_init(&argc, &argv, MPI_THREAD_SINGLE);
	share = mpitest.size > 2 ? mpitest.size - 1 : 1;
	mixed_sizes(1);
	mixed_sizes(0);
	numbered((mpitest.quick ? 1000 : 5000) / mpitest.size);
	unexpected((mpitest.quick ? 10000 : 100000) / share);
	unexpected_sends_in_flight((mpitest.quick ? 4000 : 40000) / share);
	return mpitest_finish();
}

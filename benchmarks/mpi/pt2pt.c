/* SPDX-License-Identifier: BSD-3-Clause */
#include "pt2pt.h"

#include "pattern.h"

#define TAG_MESSAGE 100
#define TAG_ACKNOWLEDGE 101
#define ACKNOWLEDGE_BYTES 4

void pt2pt_send_window(struct run *run, int peer)
{
	int i;

	for (i = 0; i < run->window; i++)
		MPI_Isend(run->send + (size_t)i * run->stride, (int)run->size, MPI_CHAR, peer,
			  TAG_MESSAGE, MPI_COMM_WORLD, &run->requests[i]);
	MPI_Waitall(run->window, run->requests, MPI_STATUSES_IGNORE);
	MPI_Recv(run->receive, ACKNOWLEDGE_BYTES, MPI_CHAR, peer, TAG_ACKNOWLEDGE, MPI_COMM_WORLD,
		 MPI_STATUS_IGNORE);
}

void pt2pt_receive_window(struct run *run, int peer)
{
	int i;

	for (i = 0; i < run->window; i++)
		MPI_Irecv(run->receive + (size_t)i * run->stride, (int)run->size, MPI_CHAR, peer,
			  TAG_MESSAGE, MPI_COMM_WORLD, &run->requests[i]);
	MPI_Waitall(run->window, run->requests, MPI_STATUSES_IGNORE);
	MPI_Send(run->send, ACKNOWLEDGE_BYTES, MPI_CHAR, peer, TAG_ACKNOWLEDGE, MPI_COMM_WORLD);
}

void pt2pt_fill(struct run *run)
{
	int i;

	for (i = 0; i < run->window; i++)
		pattern_fill(run->send + (size_t)i * run->stride, run->size,
			     benchmark_seed(run, run->rank, i));
}

int pt2pt_check(struct run *run, int peer)
{
	int i;

	for (i = 0; i < run->window; i++)
		if (benchmark_check(run, run->receive + (size_t)i * run->stride, peer, i))
			return -1;
	return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wait-sync-yield THREADS SECONDS: each thread of rank 0 exchanges messages of 8 bytes with its
 * partner in rank 1, over a communicator of its own. Prints the round trips a second of all threads.
 */
#include <mpi.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define THREADS_MOST 16

struct exchange {
	pthread_t thread;
	MPI_Comm comm;
	double end; /* MPI_Wtime; on rank 0 */
	int rank;
	uint64_t trips;
};

static pthread_barrier_t all_started;

static void *exchange_run(void *arg)
{
	struct exchange *exchange = arg;
	int peer = !exchange->rank;
	uint64_t more = 1;

	pthread_barrier_wait(&all_started);
	while (more) {
		/* The last message tells the partner to end. */
		if (exchange->rank == 0) {
			more = MPI_Wtime() < exchange->end;
			MPI_Send(&more, 1, MPI_UINT64_T, peer, 0, exchange->comm);
		}
		MPI_Recv(&more, 1, MPI_UINT64_T, peer, 0, exchange->comm, MPI_STATUS_IGNORE);
		if (exchange->rank == 1)
			MPI_Send(&more, 1, MPI_UINT64_T, peer, 0, exchange->comm);
		exchange->trips++;
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int threads = argc > 1 ? atoi(argv[1]) : 2, provided, rank, i;
	double seconds = argc > 2 ? atof(argv[2]) : 3;
	struct exchange exchanges[THREADS_MOST] = { 0 };
	uint64_t trips = 0;

	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	if (threads < 1 || threads > THREADS_MOST || provided < MPI_THREAD_MULTIPLE)
		MPI_Abort(MPI_COMM_WORLD, 1);
	pthread_barrier_init(&all_started, NULL, (unsigned)threads);
	for (i = 0; i < threads; i++) {
		exchanges[i].rank = rank;
		MPI_Comm_dup(MPI_COMM_WORLD, &exchanges[i].comm);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	for (i = 0; i < threads; i++) {
		exchanges[i].end = MPI_Wtime() + seconds;
		pthread_create(&exchanges[i].thread, NULL, exchange_run, &exchanges[i]);
	}
	for (i = 0; i < threads; i++) {
		pthread_join(exchanges[i].thread, NULL);
		trips += exchanges[i].trips;
	}
	if (rank == 0)
		printf("%d threads: %.0f round trips a second\n", threads, (double)trips / seconds);
	MPI_Finalize();
	return 0;
}

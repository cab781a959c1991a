/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks that share processors yield theirs once in several looks for a message, not after each. The
 * sched_yield below takes the place of the C library's in Open MPI and libpf, and counts.
 */
#include "mpitest.h"

#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOOKS 2048
/* IDLE_ROUND of btl_exanest_idle.h: a slow machine takes rounds of looks for work. */
#define LOOKS_OF_A_YIELD 4

static unsigned long yields;

int sched_yield(void)
{
	__atomic_add_fetch(&yields, 1, __ATOMIC_RELAXED);
	return (int)syscall(SYS_sched_yield);
}

int main(int argc, char **argv)
{
	unsigned long before, most = LOOKS / LOOKS_OF_A_YIELD;
	MPI_Request request;
	int i, done, number = 0;

	/* As mpirun does for more ranks than processors. */
	setenv("OMPI_MCA_mpi_yield_when_idle", "1", 1);
	mpitest_init(&argc, &argv, MPI_THREAD_SINGLE);
	mpitest_begin("at most one yield in %d looks for a message", LOOKS_OF_A_YIELD);
	MPI_Irecv(&number, 1, MPI_INT, mpitest.left, 0, MPI_COMM_WORLD, &request);
	MPI_Barrier(MPI_COMM_WORLD);
	before = yields;
	for (i = 0; i < LOOKS; i++)
		MPI_Test(&request, &done, MPI_STATUS_IGNORE);
	mpitest_expect(yields > before && yields - before <= most,
		       "%lu yields in %d looks, not 1 to %lu", yields - before, LOOKS, most);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Send(&i, 1, MPI_INT, mpitest.right, 0, MPI_COMM_WORLD);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	mpitest_end();
	return mpitest_finish();
}

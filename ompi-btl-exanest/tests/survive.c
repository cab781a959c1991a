/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank kills itself with SIGKILL during traffic; the others revoke the communicator, shrink it and
 * go on, until the next one dies. Needs Open MPI with ULFM, mpirun --with-ft ulfm and 6 ranks.
 */
#include "mpitest.h"

#include <mpi-ext.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef OMPI_HAVE_MPI_EXT_FTMPI

int main(void)
{
	fprintf(stderr, "this Open MPI has no ULFM\n");
	return 2;
}

#else

#define RANKS 6
#define TAG 7
#define SMALL 64
#define LARGE (4 << 20)
#define TRAFFIC_SECONDS 0.2

static unsigned char *out, *in;
/* What the ranks that are alive use, and the one of its ranks that dies next. */
static MPI_Comm comm;
static int victim;

static int exchange(int length)
{
	return MPI_Sendrecv(out, length, MPI_BYTE, mpitest.right, TAG, in, length, MPI_BYTE,
			    mpitest.left, TAG, comm, MPI_STATUS_IGNORE);
}

static int eager(void)
{
	return exchange(SMALL);
}

static int large(void)
{
	return exchange(LARGE);
}

static int collective(void)
{
	return MPI_Allreduce(out, in, 10000, MPI_BYTE, MPI_BXOR, comm);
}

/* Wait for a message that is never sent. */
static int idle(void)
{
	if (mpitest.rank == victim)
		return MPI_SUCCESS;
	return MPI_Recv(in, 1, MPI_BYTE, victim, TAG + 1, comm, MPI_STATUS_IGNORE);
}

/* Die during the send of a large message, which the neighbour may be receiving. */
static void die(void)
{
	MPI_Request request;

	MPI_Isend(out, LARGE, MPI_BYTE, mpitest.left, TAG, comm, &request);
	raise(SIGKILL);
}

/* Until the victim is dead: its neighbours get an error of the process, others of the revoked comm. */
static void communicate(int (*traffic)(void))
{
	double end = mpitest_seconds() + TRAFFIC_SECONDS;
	int rc, class;

	do {
		rc = traffic();
		if (mpitest.rank == victim && mpitest_seconds() > end)
			die();
	} while (rc == MPI_SUCCESS);
	MPI_Error_class(rc, &class);
	mpitest_expect(class == MPIX_ERR_PROC_FAILED || class == MPIX_ERR_REVOKED,
		       "the traffic ended with error class %d", class);
	MPIX_Comm_revoke(comm);
}

/* The victim, and no other rank, must have failed. */
static void shrink(void)
{
	MPI_Group all, failed, dead;
	int same, size, before, agreed = 1;
	MPI_Comm smaller;

	mpitest_expect(MPIX_Comm_shrink(comm, &smaller) == MPI_SUCCESS, "shrink fails");
	MPI_Comm_size(comm, &before);
	MPI_Comm_size(smaller, &size);
	mpitest_expect(size == before - 1, "%d of %d ranks are left", size, before);
	MPIX_Comm_get_failed(comm, &failed);
	MPI_Comm_group(comm, &all);
	MPI_Group_incl(all, 1, &victim, &dead);
	MPI_Group_compare(failed, dead, &same);
	mpitest_expect(same == MPI_IDENT, "the rank that died is not the one that failed");
	MPI_Group_free(&all);
	MPI_Group_free(&failed);
	MPI_Group_free(&dead);
	MPI_Comm_set_errhandler(smaller, MPI_ERRORS_ARE_FATAL);
	mpitest_expect(MPIX_Comm_agree(smaller, &agreed) == MPI_SUCCESS && agreed,
		       "the survivors do not agree");
	MPI_Comm_free(&comm);
	comm = smaller;
}

/* Messages of all survivors to all of them, of both lengths. */
static void go_on(void)
{
	int distance, to, from, length, sum;

	for (distance = 1; distance <= mpitest.size; distance++) {
		to = (mpitest.rank + distance) % mpitest.size;
		from = (mpitest.rank + mpitest.size - distance) % mpitest.size;
		for (length = SMALL; length <= LARGE; length += LARGE - SMALL) {
			mpitest_fill_message(out, (size_t)length, to, (uint64_t)length);
			MPI_Sendrecv(out, length, MPI_BYTE, to, TAG, in, length, MPI_BYTE, from,
				     TAG, comm, MPI_STATUS_IGNORE);
			mpitest_verify_message(in, (size_t)length, from, (uint64_t)length,
					       "from a survivor");
		}
	}
	MPI_Allreduce(&mpitest.rank, &sum, 1, MPI_INT, MPI_SUM, comm);
	mpitest_expect(sum == mpitest.size * (mpitest.size - 1) / 2, "allreduce gives %d", sum);
}

static void survive(const char *name, int (*traffic)(void), int who)
{
	victim = who;
	mpitest_begin("rank %d of %d dies during %s: the others shrink and go on", victim,
		      mpitest.size, name);
	MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
	communicate(traffic);
	shrink();
	mpitest_continue_on(comm);
	go_on();
	mpitest_end();
}

int main(int argc, char **argv)
{
	mpitest_init(&argc, &argv, MPI_THREAD_SINGLE);
	mpitest_need_ranks(RANKS, RANKS);
	out = mpitest_alloc(LARGE);
	in = mpitest_alloc(LARGE);
	memset(out, 1, LARGE);
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);

	survive("short messages", eager, mpitest.size - 1);
	survive("long messages", large, 0);
	survive("a collective operation", collective, 1);
	survive("a wait for it", idle, 2);
	MPI_Comm_free(&comm);
	return mpitest_finish();
}

#endif

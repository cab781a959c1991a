/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The last rank kills itself with SIGKILL. The others then access its window by one-sided
 * communication of every kind: each call must return, and MPI must know that the rank has failed.
 * Needs Open MPI with ULFM, mpirun --with-ft ulfm and 3 or more ranks.
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

#define LENGTH (1 << 20)
#define WORD_AT LENGTH /* in the window: an integer for atomic operations */
#define WINDOW (LENGTH + 64)

static unsigned char *out, *in, *memory;
static MPI_Comm comm;
static MPI_Win win;
static int victim;

static int put(void)
{
	return MPI_Put(out, LENGTH, MPI_BYTE, victim, 0, LENGTH, MPI_BYTE, win);
}

static int get(void)
{
	return MPI_Get(in, LENGTH, MPI_BYTE, victim, 0, LENGTH, MPI_BYTE, win);
}

static int put_strided(void)
{
	MPI_Datatype strided;
	int rc;

	MPI_Type_vector(16, 1, 2, MPI_INT, &strided);
	MPI_Type_commit(&strided);
	rc = MPI_Put(out, 1, strided, victim, 0, 1, strided, win);
	MPI_Type_free(&strided);
	return rc;
}

static int get_strided(void)
{
	MPI_Datatype strided;
	int rc;

	MPI_Type_vector(16, 1, 2, MPI_INT, &strided);
	MPI_Type_commit(&strided);
	rc = MPI_Get(in, 1, strided, victim, 0, 1, strided, win);
	MPI_Type_free(&strided);
	return rc;
}

static int accumulate(void)
{
	return MPI_Accumulate(out, 100, MPI_INT, victim, 0, 100, MPI_INT, MPI_SUM, win);
}

static int fetch_and_op(void)
{
	int64_t one = 1, old;

	return MPI_Fetch_and_op(&one, &old, MPI_INT64_T, victim, WORD_AT, MPI_SUM, win);
}

static int compare_and_swap(void)
{
	int64_t one = 1, zero = 0, old;

	return MPI_Compare_and_swap(&one, &zero, &old, MPI_INT64_T, victim, WORD_AT, win);
}

/* MPI_Wait tells the error of a request. */
static int wait_for(int rc, MPI_Request *request)
{
	return rc == MPI_SUCCESS ? MPI_Wait(request, MPI_STATUS_IGNORE) : rc;
}

static int rput(void)
{
	MPI_Request request;

	return wait_for(MPI_Rput(out, LENGTH, MPI_BYTE, victim, 0, LENGTH, MPI_BYTE, win, &request),
			&request);
}

static int rget(void)
{
	MPI_Request request;

	return wait_for(MPI_Rget(in, LENGTH, MPI_BYTE, victim, 0, LENGTH, MPI_BYTE, win, &request),
			&request);
}

static const struct {
	const char *name;
	int (*call)(void);
	int tells; /* osc/rdma hands the error to the caller */
} calls[] = {
	{ "MPI_Put", put, 0 },
	{ "MPI_Get", get, 0 },
	{ "MPI_Rput", rput, 1 },
	{ "MPI_Rget", rget, 1 },
	{ "strided MPI_Put", put_strided, 0 },
	{ "strided MPI_Get", get_strided, 0 },
	{ "MPI_Accumulate", accumulate, 0 },
	{ "MPI_Fetch_and_op", fetch_and_op, 0 },
	{ "MPI_Compare_and_swap", compare_and_swap, 0 },
};

/* If a call hangs, this is the last line of the rank. */
static void note(const char *what, const char *name, int rc)
{
	fprintf(stderr, "# rank %d: %s, %s: %d\n", mpitest.rank, what, name, rc);
}

static void access_dead(const char *what)
{
	size_t i;
	int rc;

	for (i = 0; i < MPITEST_COUNT(calls); i++) {
		note(what, calls[i].name, -1);
		rc = calls[i].call();
		mpitest_expect(rc != MPI_SUCCESS || !calls[i].tells, "%s: %s succeeds", what,
			       calls[i].name);
		note(what, calls[i].name, rc);
		MPI_Win_flush(victim, win);
	}
}

static void lock_dead(int type, const char *what)
{
	note(what, "MPI_Win_lock", -1);
	MPI_Win_lock(type, victim, 0, win);
	access_dead(what);
	note(what, "MPI_Win_unlock", -1);
	MPI_Win_unlock(victim, win);
}

static int failed_processes(void)
{
	MPI_Group failed;
	int count;

	MPIX_Comm_get_failed(comm, &failed);
	MPI_Group_size(failed, &count);
	MPI_Group_free(&failed);
	return count;
}

/* One-sided communication finds out, or somebody tells. */
static void wait_for_death(void)
{
	while (!failed_processes()) {
		put();
		MPI_Win_flush(victim, win);
	}
}

/* The failure must be known, and the survivors can go on without the victim. */
static void shrink(void)
{
	const int failures = failed_processes();
	MPI_Comm smaller;
	int size;

	mpitest_expect(failures == 1, "%d processes have failed", failures);
	MPIX_Comm_revoke(comm);
	mpitest_expect(MPIX_Comm_shrink(comm, &smaller) == MPI_SUCCESS, "shrink fails");
	MPI_Comm_size(smaller, &size);
	mpitest_expect(size == mpitest.size - 1, "%d of %d ranks are left", size, mpitest.size);
	MPI_Comm_set_errhandler(smaller, MPI_ERRORS_ARE_FATAL);
	mpitest_continue_on(smaller);
}

int main(int argc, char **argv)
{
	mpitest_init(&argc, &argv, MPI_THREAD_SINGLE);
	mpitest_need_ranks(3, 64);
	victim = mpitest.size - 1;
	out = mpitest_alloc(LENGTH);
	in = mpitest_alloc(LENGTH);
	memory = mpitest_alloc(WINDOW);
	memset(out, 1, LENGTH);
	memset(memory, 0, WINDOW);
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	MPI_Win_create(memory, WINDOW, 1, MPI_INFO_NULL, comm, &win);
	MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
	MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);

	mpitest_begin("one-sided communication with a dead rank ends");
	MPI_Win_lock_all(MPI_MODE_NOCHECK, win);
	/*
	 * What a rank reads of another one's window before its first access does not fail here:
	 * osc/rdma of 5.0 would use what its buffer had before, or end with a segmentation fault.
	 */
	mpitest_expect(put() == MPI_SUCCESS, "MPI_Put to a rank that is alive fails");
	MPI_Win_flush(victim, win);
	MPI_Barrier(comm);
	if (mpitest.rank == victim)
		raise(SIGKILL);
	wait_for_death();
	access_dead("lock all");
	note("lock all", "MPI_Win_unlock_all", -1);
	MPI_Win_unlock_all(win);
	lock_dead(MPI_LOCK_SHARED, "shared lock");
	lock_dead(MPI_LOCK_EXCLUSIVE, "exclusive lock");
	shrink();
	mpitest_end();
	return mpitest_finish();
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The last rank kills itself with SIGKILL during traffic. The others would go on for ever: the
 * caller of mpirun checks that they end, with an error.
 *
 *   kill --during eager|large|collective|put|idle
 */
#include "mpitest.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LARGE (4 << 20)
#define TRAFFIC_SECONDS 0.3
#define EXIT_SURVIVED 3

static unsigned char *out, *in;
static MPI_Win win;

static void exchange(size_t length)
{
	mpitest_shift(out, in, length, 1);
}

static void eager(void)
{
	exchange(64);
}

static void large(void)
{
	exchange(LARGE);
}

static void collective(void)
{
	MPI_Allreduce(out, in, 10000, MPI_BYTE, MPI_BXOR, MPI_COMM_WORLD);
}

static void put(void)
{
	MPI_Win_lock(MPI_LOCK_SHARED, mpitest.right, 0, win);
	MPI_Put(out, LARGE, MPI_BYTE, mpitest.right, 0, LARGE, MPI_BYTE, win);
	MPI_Win_unlock(mpitest.right, win);
}

/* The others wait for a message that is never sent. */
static void idle(void)
{
	if (mpitest.rank == mpitest.size - 1) {
		usleep(1000);
		return;
	}
	MPI_Recv(in, 1, MPI_BYTE, mpitest.size - 1, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static const struct {
	const char *name;
	void (*run)(void);
} traffics[] = {
	{ "eager", eager }, { "large", large }, { "collective", collective },
	{ "put", put },     { "idle", idle },
};

/* Die during the send of a large message, which has a matching receive or none. */
static void die(int tag)
{
	MPI_Request request;

	if (mpitest.size > 1)
		MPI_Isend(out, LARGE, MPI_BYTE, mpitest.left, tag, MPI_COMM_WORLD, &request);
	fprintf(stderr, "# rank %d kills itself\n", mpitest.rank);
	fflush(stderr);
	raise(SIGKILL);
}

typedef void (*traffic_function)(void);

static traffic_function wanted_traffic(const char *wanted)
{
	size_t i;

	for (i = 0; wanted && i < MPITEST_COUNT(traffics); i++) {
		if (strcmp(wanted, traffics[i].name) == 0)
			return traffics[i].run;
	}
	return NULL;
}

int main(int argc, char **argv)
{
	traffic_function traffic;
	double end;

	mpitest_init(&argc, &argv, MPI_THREAD_SINGLE);
	traffic = wanted_traffic(mpitest_option("--during"));
	if (!traffic)
		mpitest_abort("usage: kill --during eager|large|collective|put|idle");
	out = mpitest_alloc(LARGE);
	in = mpitest_alloc(LARGE);
	memset(out, 1, LARGE);
	memset(in, 1, LARGE);
	MPI_Win_create(in, LARGE, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);

	mpitest_begin("rank %d dies during %s", mpitest.size - 1, mpitest_option("--during"));
	end = mpitest_seconds() + TRAFFIC_SECONDS;
	for (;;) {
		traffic();
		if (mpitest.rank == mpitest.size - 1 && mpitest_seconds() > end)
			die(traffic == large ? 1 : 2);
	}
	return EXIT_SURVIVED;
}

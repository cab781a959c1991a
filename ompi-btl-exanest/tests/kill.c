/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The last rank kills itself with SIGKILL in the middle of traffic. The rest
 * would go on for ever: that they end, and with an error, is for the caller of
 * mpirun to see.
 *
 *   kill --during eager|large|collective|put|idle
 */
#include "mpitest.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LARGE (4 << 20)
#define TRAFFIC_SECONDS 0.3
#define EXIT_SURVIVED 3

static unsigned char *out, *in;
static int left, right;
static MPI_Win win;

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void exchange(int length)
{
	MPI_Sendrecv(out, length, MPI_BYTE, right, 1, in, length, MPI_BYTE, left, 1, MPI_COMM_WORLD,
		     MPI_STATUS_IGNORE);
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
	MPI_Win_lock(MPI_LOCK_SHARED, right, 0, win);
	MPI_Put(out, LARGE, MPI_BYTE, right, 0, LARGE, MPI_BYTE, win);
	MPI_Win_unlock(right, win);
}

/* The others only wait for a message that will never come. */
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
#define TRAFFICS (sizeof(traffics) / sizeof(*traffics))

/* Dies while a large message of its own is on its way, to a receive that has room for it or to none. */
static void die(int tag)
{
	MPI_Request request;

	if (mpitest.size > 1)
		MPI_Isend(out, LARGE, MPI_BYTE, left, tag, MPI_COMM_WORLD, &request);
	fprintf(stderr, "# rank %d kills itself\n", mpitest.rank);
	fflush(stderr);
	raise(SIGKILL);
}

typedef void (*traffic_function)(void);

static traffic_function wanted_traffic(const char *wanted)
{
	size_t i;

	for (i = 0; wanted && i < TRAFFICS; i++) {
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
	if (!traffic) {
		fprintf(stderr, "usage: kill --during eager|large|collective|put|idle\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
		return 2;
	}
	left = (mpitest.rank + mpitest.size - 1) % mpitest.size;
	right = (mpitest.rank + 1) % mpitest.size;
	out = mpitest_alloc(LARGE);
	in = mpitest_alloc(LARGE);
	memset(out, 1, LARGE);
	memset(in, 1, LARGE);
	MPI_Win_create(in, LARGE, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);

	mpitest_begin("rank %d dies during %s", mpitest.size - 1, mpitest_option("--during"));
	end = seconds() + TRAFFIC_SECONDS;
	for (;;) {
		traffic();
		if (mpitest.rank == mpitest.size - 1 && seconds() > end)
			die(traffic == large ? 1 : 2);
	}
	return EXIT_SURVIVED;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The BTL's performance variables, read as a tool would: they prove that it
 * carried the traffic, and by which path.
 *
 *   --path single   large messages must have gone by single copy
 *   --path ring     ... must have gone through the ring, none by single copy
 */
#include "mpi_t.h"
#include "mpitest.h"

#include <stdlib.h>
#include <string.h>

#define LARGE ((size_t)8 << 20)
#define SMALL_TIMES 500
#define MOST_COUNTERS 64

static struct mpi_t_counter before[MOST_COUNTERS], after[MOST_COUNTERS];
static int counters;

/* How far the counter has moved, on all ranks together; -1 if there is none. */
static long long moved(const char *name)
{
	long long mine = -1, all;
	int i;

	for (i = 0; i < counters; i++) {
		if (strcmp(before[i].name, name) == 0)
			mine = (long long)(after[i].value - before[i].value);
	}
	mpitest_expect(mine >= 0, "there is no counter %s", name);
	if (mine < 0)
		mine = 0;
	MPI_Allreduce(&mine, &all, 1, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
	return all;
}

static void neighbours(int *left, int *right)
{
	*left = (mpitest.rank + mpitest.size - 1) % mpitest.size;
	*right = (mpitest.rank + 1) % mpitest.size;
}

static void small_messages(void)
{
	int i, left, right, out, in;
	long long sends, receives;

	mpitest_begin("small messages are counted");
	neighbours(&left, &right);
	MPI_Barrier(MPI_COMM_WORLD);
	mpi_t_counters(before, MOST_COUNTERS);
	for (i = 0; i < SMALL_TIMES; i++) {
		out = mpitest.rank + i;
		MPI_Sendrecv(&out, 1, MPI_INT, right, 1, &in, 1, MPI_INT, left, 1, MPI_COMM_WORLD,
			     MPI_STATUS_IGNORE);
		mpitest_expect(in == left + i, "message %d says %d", i, in);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	mpi_t_counters(after, MOST_COUNTERS);
	sends = moved("sends");
	receives = moved("receives");
	mpitest_expect(sends >= (long long)SMALL_TIMES * mpitest.size,
		       "%lld sends are counted for %d messages", sends,
		       SMALL_TIMES * mpitest.size);
	mpitest_expect(receives >= (long long)SMALL_TIMES * mpitest.size,
		       "%lld receives are counted for %d messages", receives,
		       SMALL_TIMES * mpitest.size);
	mpitest_end();
}

static void large_messages(void)
{
	const char *path = mpitest_option("--path");
	unsigned char *out = mpitest_alloc(LARGE), *in = mpitest_alloc(LARGE);
	long long single, shared, ring, wanted;
	int left, right;

	mpitest_begin("large messages are counted%s%s", path ? ", path " : "", path ? path : "");
	neighbours(&left, &right);
	mpitest_fill(out, LARGE, mpitest_message_seed(mpitest.rank, right, 0));
	MPI_Barrier(MPI_COMM_WORLD);
	mpi_t_counters(before, MOST_COUNTERS);
	MPI_Sendrecv(out, (int)LARGE, MPI_BYTE, right, 1, in, (int)LARGE, MPI_BYTE, left, 1,
		     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	mpitest_verify(in, LARGE, mpitest_message_seed(left, mpitest.rank, 0), "received");
	MPI_Barrier(MPI_COMM_WORLD);
	mpi_t_counters(after, MOST_COUNTERS);

	single = moved("single_copy_bytes");
	shared = moved("shared_bytes");
	ring = moved("stream_bytes") + moved("send_bytes");
	wanted = (long long)LARGE * mpitest.size;
	mpitest_expect(single + shared + ring >= wanted,
		       "%lld + %lld + %lld bytes are counted for %lld", single, shared, ring,
		       wanted);
	if (path && strcmp(path, "ring") == 0)
		mpitest_expect(single + shared == 0 && ring >= wanted,
			       "%lld bytes went by single copy, %lld through the ring",
			       single + shared, ring);
	if (path && strcmp(path, "single") == 0)
		mpitest_expect(single + shared >= wanted,
			       "only %lld of %lld bytes went by single copy", single + shared,
			       wanted);
	mpitest_end();
	free(out);
	free(in);
}

int main(int argc, char **argv)
{
	mpitest_init(&argc, &argv, MPI_THREAD_SINGLE);
	counters = mpi_t_counters(before, MOST_COUNTERS);
	mpitest_begin("btl %s shows performance variables", mpi_t_btl());
	mpitest_expect(counters > 0, "MPI_T shows none");
	mpitest_end();
	small_messages();
	large_messages();
	return mpitest_finish();
}

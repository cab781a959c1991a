/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The BTL's performance variables, read as a tool would: they prove that it
 * carried the traffic, and by which path.
 *
 *   --path single   large messages must have gone by single copy
 *   --path device   ... by /dev/exanest
 *   --path ring     ... must have gone through the ring, none by single copy
 *   --rma           one-sided operations must be the BTL's (run with --mca osc rdma)
 */
#include "mpi_t.h"
#include "mpitest.h"

#include <pf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define LARGE ((size_t)8 << 20)
#define SMALL_TIMES 500

/* What the counter has counted on all ranks together. */
static long long counted(const char *name)
{
	long long mine = mpi_t_counted(name), all;

	mpitest_expect(mine >= 0, "there is no counter %s", name);
	if (mine < 0)
		mine = 0;
	MPI_Allreduce(&mine, &all, 1, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
	return all;
}

/* Nobody may send before everybody counts. */
static void watch(void)
{
	MPI_Barrier(MPI_COMM_WORLD);
	mpi_t_watch();
	MPI_Barrier(MPI_COMM_WORLD);
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
	watch();
	for (i = 0; i < SMALL_TIMES; i++) {
		out = mpitest.rank + i;
		MPI_Sendrecv(&out, 1, MPI_INT, right, 1, &in, 1, MPI_INT, left, 1, MPI_COMM_WORLD,
			     MPI_STATUS_IGNORE);
		mpitest_expect(in == left + i, "message %d says %d", i, in);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	sends = counted("sends");
	receives = counted("receives");
	mpitest_expect(sends >= (long long)SMALL_TIMES * mpitest.size,
		       "%lld sends are counted for %d messages", sends, SMALL_TIMES * mpitest.size);
	mpitest_expect(receives >= (long long)SMALL_TIMES * mpitest.size,
		       "%lld receives are counted for %d messages", receives,
		       SMALL_TIMES * mpitest.size);
	mpi_t_unwatch();
	mpitest_end();
}

static void large_messages(void)
{
	const char *path = mpitest_option("--path");
	unsigned char *out = mpitest_alloc(LARGE), *in = mpitest_alloc(LARGE);
	long long single, shared, ring, device, wanted;
	int left, right;

	mpitest_begin("large messages are counted%s%s", path ? ", path " : "", path ? path : "");
	neighbours(&left, &right);
	mpitest_fill(out, LARGE, mpitest_message_seed(mpitest.rank, right, 0));
	watch();
	MPI_Sendrecv(out, (int)LARGE, MPI_BYTE, right, 1, in, (int)LARGE, MPI_BYTE, left, 1,
		     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	mpitest_verify(in, LARGE, mpitest_message_seed(left, mpitest.rank, 0), "received");
	MPI_Barrier(MPI_COMM_WORLD);

	single = counted("single_copy_bytes");
	device = counted("device_bytes");
	shared = counted("shared_bytes");
	ring = counted("stream_bytes") + counted("send_bytes");
	wanted = (long long)LARGE * mpitest.size;
	mpitest_expect(single + shared + ring + device >= wanted,
		       "%lld + %lld + %lld + %lld bytes are counted for %lld", single, shared, ring,
		       device, wanted);
	if (path && strcmp(path, "device") == 0)
		mpitest_expect(device >= wanted, "only %lld of %lld bytes went by the device",
			       device, wanted);
	if (path && strcmp(path, "ring") == 0)
		mpitest_expect(single + shared == 0 && ring >= wanted,
			       "%lld bytes went by single copy, %lld through the ring",
			       single + shared, ring);
	if (path && strcmp(path, "single") == 0)
		mpitest_expect(single + shared >= wanted,
			       "only %lld of %lld bytes went by single copy", single + shared,
			       wanted);
	mpi_t_unwatch();
	mpitest_end();
	free(out);
	free(in);
}

/* Into memory never touched: whoever brings it in, and however, the counts fit together. */
static void faults(void)
{
	static const char *const kinds[] = { "minor", "major", "pager", "permission" };
	unsigned char *out = mpitest_alloc(LARGE);
	unsigned char *in = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				 -1, 0);
	uint64_t buckets[2 * PF_RESOLVE_BUCKETS] = { 0 };
	long long by_kind = 0, resolved = 0;
	int left, right, count, i;
	char name[64];

	mpitest_begin("faults are counted by side and kind, and timed");
	if (in == MAP_FAILED) {
		mpitest_expect(0, "there is no memory");
		mpitest_end();
		free(out);
		return;
	}
	neighbours(&left, &right);
	mpitest_fill(out, LARGE, mpitest_message_seed(mpitest.rank, right, 2));
	watch();
	MPI_Sendrecv(out, (int)LARGE, MPI_BYTE, right, 1, in, (int)LARGE, MPI_BYTE, left, 1,
		     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	mpitest_verify(in, LARGE, mpitest_message_seed(left, mpitest.rank, 2), "received");
	MPI_Barrier(MPI_COMM_WORLD);
	for (i = 0; i < 4; i++) {
		snprintf(name, sizeof(name), "local_%s_faults", kinds[i]);
		by_kind += counted(name);
		snprintf(name, sizeof(name), "remote_%s_faults", kinds[i]);
		by_kind += counted(name);
	}
	mpitest_expect(counted("local_permission_faults") + counted("fault_errors") == 0,
		       "memory that is there counts as none");
	count = mpi_t_counted_each("resolve_time", buckets, 2 * PF_RESOLVE_BUCKETS);
	mpitest_expect(count == PF_RESOLVE_BUCKETS, "the histogram has %d buckets, not %d", count,
		       PF_RESOLVE_BUCKETS);
	for (i = 0; i < PF_RESOLVE_BUCKETS; i++)
		resolved += (long long)buckets[i];
	mpitest_expect(resolved <= by_kind, "%lld resolve times are counted for %lld faults",
		       resolved, by_kind);
	mpi_t_unwatch();
	mpitest_end();
	munmap(in, LARGE);
	free(out);
}

/* osc/rdma over the BTL: puts, gets and atomics of its own, no messages. */
static void one_sided(void)
{
	enum { TIMES = 50, LENGTH = 40000 };
	unsigned char *out = mpitest_alloc(LENGTH), *target = mpitest_alloc(LENGTH + 8);
	long long puts, gets, atomics, wanted = (long long)TIMES * mpitest.size;
	uint64_t one = 1, before, counter;
	int i, left, right;
	MPI_Win win;

	mpitest_begin("one-sided operations are counted");
	neighbours(&left, &right);
	mpitest_fill(out, LENGTH, mpitest_message_seed(mpitest.rank, right, 1));
	memset(target, 0, LENGTH + 8);
	MPI_Win_create(target, LENGTH + 8, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
	watch();
	MPI_Win_lock_all(0, win);
	for (i = 0; i < TIMES; i++) {
		MPI_Put(out, LENGTH, MPI_BYTE, right, 0, LENGTH, MPI_BYTE, win);
		MPI_Win_flush(right, win);
		memset(out, 0, LENGTH);
		MPI_Get(out, LENGTH, MPI_BYTE, right, 0, LENGTH, MPI_BYTE, win);
		MPI_Fetch_and_op(&one, &before, MPI_UINT64_T, right, LENGTH, MPI_SUM, win);
		MPI_Win_flush(right, win);
		mpitest_expect(before == (uint64_t)i, "fetch %d gives %llu", i,
			       (unsigned long long)before);
	}
	MPI_Win_unlock_all(win);
	MPI_Barrier(MPI_COMM_WORLD);
	puts = counted("puts");
	gets = counted("gets");
	atomics = counted("atomics");
	mpi_t_unwatch();
	memcpy(&counter, target + LENGTH, 8);
	mpitest_expect(counter == TIMES, "the counter ends at %llu", (unsigned long long)counter);
	mpitest_verify(target, LENGTH, mpitest_message_seed(left, mpitest.rank, 1), "put");
	mpitest_verify(out, LENGTH, mpitest_message_seed(mpitest.rank, right, 1), "got");
	mpitest_expect(puts >= wanted && gets >= wanted && atomics >= wanted,
		       "%lld puts, %lld gets and %lld atomics are counted for %lld of each", puts,
		       gets, atomics, wanted);
	MPI_Win_free(&win);
	mpitest_end();
	free(out);
	free(target);
}

int main(int argc, char **argv)
{
	mpitest_init(&argc, &argv, MPI_THREAD_SINGLE);
	mpitest_begin("btl %s shows performance variables", mpi_t_btl());
	mpitest_expect(mpi_t_watch() > 0, "MPI_T shows none");
	mpi_t_unwatch();
	mpitest_end();
	small_messages();
	large_messages();
	faults();
	if (mpitest_option("--rma"))
		one_sided();
	return mpitest_finish();
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The BTL's performance variables, read as a tool would: they show that it carried the traffic, and
 * by which path.
 *
 *   --path single   large messages must have gone by single copy
 *   --path device   ... by /dev/exanest
 *   --path ring     ... through the ring, none by single copy, and sent, not fetched (two ranks)
 *   --path network  ... in packets (each rank's neighbours must be on other hosts)
 *   --rma           one-sided operations must be the BTL's (run with --mca osc rdma)
 */
#include "mpi_t.h"
#include "mpitest.h"

#include <libpf/pf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define LARGE ((size_t)8 << 20)
#define MEDIUM ((size_t)1 << 20)
#define SMALL_TIMES 500

/* The sum of a counter over all ranks. */
static long long counted(const char *name)
{
	long long mine = mpi_t_counted(name), all;

	mpitest_expect(mine >= 0, "there is no counter %s", name);
	if (mine < 0)
		mine = 0;
	MPI_Allreduce(&mine, &all, 1, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
	return all;
}

/* Wait until all ranks count, before any of them sends. */
static void watch(void)
{
	MPI_Barrier(MPI_COMM_WORLD);
	mpi_t_watch();
	MPI_Barrier(MPI_COMM_WORLD);
}

static void has_variables(void)
{
	mpitest_expect(mpi_t_watch() > 0, "MPI_T shows no performance variables of btl %s",
		       mpi_t_btl());
	mpi_t_unwatch();
}

static void small_messages(void)
{
	long long sends, receives, wanted = (long long)SMALL_TIMES * mpitest.size;
	int i, out, in;

	watch();
	for (i = 0; i < SMALL_TIMES; i++) {
		out = mpitest.rank + i;
		mpitest_shift(&out, &in, sizeof(out), 1);
		mpitest_expect(in == mpitest.left + i, "message %d has %d", i, in);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	sends = counted("sends");
	receives = counted("receives");
	mpitest_expect(sends >= wanted, "%lld sends are counted for %lld messages", sends, wanted);
	mpitest_expect(receives >= wanted, "%lld receives are counted for %lld messages", receives,
		       wanted);
	mpi_t_unwatch();
}

/* One large message to the right, counted by all ranks. */
static void shift_large(unsigned char *in, uint64_t number)
{
	unsigned char *out = mpitest_alloc(LARGE);

	mpitest_fill_message(out, LARGE, mpitest.right, number);
	watch();
	mpitest_shift(out, in, LARGE, 1);
	mpitest_verify_message(in, LARGE, mpitest.left, number, "received");
	MPI_Barrier(MPI_COMM_WORLD);
	free(out);
}

static void large_messages(void)
{
	const char *path = mpitest_option("--path");
	unsigned char *in = mpitest_alloc(LARGE);
	long long single, ring, device, network, wanted = (long long)LARGE * mpitest.size;

	shift_large(in, 0);
	single = counted("single_copy_bytes") + counted("shared_bytes");
	device = counted("device_bytes");
	ring = counted("stream_bytes") + counted("send_bytes");
	network = counted("net_bytes");
	mpitest_expect(single + ring + device + network >= wanted,
		       "%lld + %lld + %lld + %lld bytes are counted for %lld", single, ring, device,
		       network, wanted);
	if (path && strcmp(path, "device") == 0)
		mpitest_expect(device >= wanted, "only %lld of %lld bytes went by the device",
			       device, wanted);
	if (path && strcmp(path, "ring") == 0)
		mpitest_expect(single == 0 && ring >= wanted,
			       "%lld bytes went by single copy, %lld through the ring", single,
			       ring);
	if (path && strcmp(path, "single") == 0)
		mpitest_expect(single >= wanted, "only %lld of %lld bytes went by single copy",
			       single, wanted);
	if (path && strcmp(path, "network") == 0)
		mpitest_expect(network >= wanted, "only %lld of %lld bytes went in packets",
			       network, wanted);
	mpi_t_unwatch();
	free(in);
}

/* One message to the right; returns how many of all ranks' messages were fetched. */
static long long shift_fetched(unsigned char *out, unsigned char *in, size_t size, uint64_t number)
{
	long long gets;

	mpitest_fill_message(out, size, mpitest.right, number);
	watch();
	mpitest_shift(out, in, size, 1);
	MPI_Barrier(MPI_COMM_WORLD);
	mpitest_verify_message(in, size, mpitest.left, number, "received");
	gets = counted("gets");
	mpi_t_unwatch();
	return gets;
}

/*
 * Two ranks send to each other until no message is fetched. A rank that has not found its
 * route to the other yet offers its message. A rank that has fetched a message has found
 * its route: once each rank has fetched one, neither may offer another.
 */
static void send_through_ring(unsigned char *out, unsigned char *in)
{
	long long gets, before = 0;
	uint64_t number = 10;

	while ((gets = shift_fetched(out, in, MEDIUM, number++)) > 0 && before < mpitest.size)
		before = gets;
	mpitest_expect(gets == 0, "%lld of %d messages of %zu bytes were fetched through the ring",
		       gets, mpitest.size, MEDIUM);
}

/* Open MPI's header does not count: no receiver fetches a message of exactly the limit. */
static void eager_messages(void)
{
	const char *path = mpitest_option("--path"), *name = "eager_limit";
	unsigned char *out = mpitest_alloc(LARGE), *in = mpitest_alloc(LARGE);
	long long gets;
	size_t limit;

	if (path && strcmp(path, "network") == 0)
		name = "net_eager_limit";
	limit = mpi_t_parameter(name);
	mpitest_expect(limit > 0, "%s is not known", name);
	gets = shift_fetched(out, in, limit, 3);
	mpitest_expect(gets == 0, "%lld of %d messages of %zu bytes were fetched", gets,
		       mpitest.size, limit);
	if (path && strcmp(path, "ring") == 0) {
		send_through_ring(out, in);
	} else {
		gets = shift_fetched(out, in, LARGE, 4);
		mpitest_expect(gets >= mpitest.size,
			       "%lld of %d messages of %zu bytes were fetched", gets, mpitest.size,
			       LARGE);
	}
	free(out);
	free(in);
}

/* A message into memory that was never touched: the counts of its faults agree. */
static void faults(void)
{
	static const char *const kinds[] = { "minor", "major", "pager", "permission" };
	unsigned char *in = mpitest_map(LARGE);
	uint64_t buckets[2 * PF_RESOLVE_BUCKETS] = { 0 };
	long long by_kind = 0, resolved = 0;
	int count, i;
	char name[64];

	shift_large(in, 2);
	for (i = 0; i < 8; i++) {
		snprintf(name, sizeof(name), "%s_%s_faults", i & 1 ? "remote" : "local",
			 kinds[i / 2]);
		by_kind += counted(name);
	}
	mpitest_expect(counted("local_permission_faults") + counted("fault_errors") == 0,
		       "accessible memory counts as inaccessible");
	count = mpi_t_counted_each("resolve_time", buckets, 2 * PF_RESOLVE_BUCKETS);
	mpitest_expect(count == PF_RESOLVE_BUCKETS, "the histogram has %d buckets, not %d", count,
		       PF_RESOLVE_BUCKETS);
	for (i = 0; i < PF_RESOLVE_BUCKETS; i++)
		resolved += (long long)buckets[i];
	mpitest_expect(resolved <= by_kind, "%lld resolve times are counted for %lld faults",
		       resolved, by_kind);
	mpi_t_unwatch();
	munmap(in, LARGE);
}

/* osc/rdma uses the BTL's puts, gets and atomics. */
static void one_sided(void)
{
	enum { TIMES = 50, LENGTH = 40000 };
	unsigned char *out = mpitest_alloc(LENGTH), *target = mpitest_alloc(LENGTH + 8);
	long long puts, gets, atomics, wanted = (long long)TIMES * mpitest.size;
	uint64_t one = 1, before, counter;
	int i, right = mpitest.right;
	MPI_Win win;

	mpitest_fill_message(out, LENGTH, right, 1);
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
	mpitest_verify_message(target, LENGTH, mpitest.left, 1, "put");
	mpitest_verify(out, LENGTH, mpitest_message_seed(mpitest.rank, right, 1), "get");
	mpitest_expect(puts >= wanted && gets >= wanted && atomics >= wanted,
		       "%lld puts, %lld gets and %lld atomics are counted for %lld of each", puts,
		       gets, atomics, wanted);
	MPI_Win_free(&win);
	free(out);
	free(target);
}

int main(int argc, char **argv)
{
	static const struct mpitest_case cases[] = {
		{ "performance variables", has_variables },
		{ "small messages are counted", small_messages },
		{ "large messages are counted", large_messages },
		{ "messages up to the eager limit, and all through the ring, are sent",
		  eager_messages },
		{ "faults are counted by side and kind, and timed", faults },
		{ "one-sided operations are counted", one_sided },
	};

	const size_t count = MPITEST_COUNT(cases);
	int granted;

	mpitest_init(&argc, &argv, MPI_THREAD_SINGLE);
	/* While MPI_T is open, Open MPI does not open and close all components for each case (0.2 s). */
	MPI_T_init_thread(MPI_THREAD_SINGLE, &granted);
	mpitest_run_list(cases, mpitest_option("--rma") ? count : count - 1);
	MPI_T_finalize();
	return mpitest_finish();
}

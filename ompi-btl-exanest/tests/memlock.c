/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Nothing is locked or pinned: after traffic of every kind VmLck and VmPin of each rank are 0. With
 * --nothing-allowed the rank also checks that it could not lock a page. With --locks MODE, for
 * btl_exanest_mode pin and pin-cache, buffers are locked during a transfer, and after it only by
 * the cache.
 */
#include "mpitest.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LENGTH ((size_t)4 << 20)

static unsigned char *out, *in;

static long locked_kb(void)
{
	return mpitest_proc_kb("/proc/self/status", "VmLck:");
}

static void check(const char *when)
{
	long locked = locked_kb(), pinned = mpitest_proc_kb("/proc/self/status", "VmPin:");

	mpitest_expect(locked == 0, "VmLck is %ld kB %s", locked, when);
	mpitest_expect(pinned == 0, "VmPin is %ld kB %s", pinned, when);
}

static void messages(void)
{
	MPI_Request requests[2];
	size_t length;

	for (length = 1; length <= LENGTH; length *= 4) {
		mpitest_fill_message(out, length, mpitest.right, length);
		MPI_Irecv(in, (int)length, MPI_BYTE, mpitest.left, 1, MPI_COMM_WORLD, &requests[0]);
		MPI_Isend(out, (int)length, MPI_BYTE, mpitest.right, 1, MPI_COMM_WORLD,
			  &requests[1]);
		check("with a transfer in flight");
		MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
		mpitest_verify_message(in, length, mpitest.left, length, "received");
	}
	check("after messages");
}

static void collectives(void)
{
	int n = (int)(LENGTH / (size_t)mpitest.size);

	MPI_Alltoall(out, n, MPI_BYTE, in, n, MPI_BYTE, MPI_COMM_WORLD);
	MPI_Bcast(in, (int)LENGTH, MPI_BYTE, 0, MPI_COMM_WORLD);
	MPI_Allreduce(out, in, (int)LENGTH, MPI_BYTE, MPI_BXOR, MPI_COMM_WORLD);
	check("after collectives");
}

static void windows(void)
{
	MPI_Win win;

	mpitest_fill_message(out, LENGTH, mpitest.right, 1);
	MPI_Win_create(in, (MPI_Aint)LENGTH, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
	check("with a window open");
	MPI_Win_fence(0, win);
	MPI_Put(out, (int)LENGTH, MPI_BYTE, mpitest.right, 0, (int)LENGTH, MPI_BYTE, win);
	MPI_Win_fence(0, win);
	mpitest_verify_message(in, LENGTH, mpitest.left, 1, "put");
	check("after puts");
	MPI_Win_free(&win);
}

static void nothing_allowed(void)
{
	struct rlimit limit;
	int locked;

	getrlimit(RLIMIT_MEMLOCK, &limit);
	mpitest_expect(limit.rlim_cur == 0, "RLIMIT_MEMLOCK is %llu, not 0: run under ulimit -l 0",
		       (unsigned long long)limit.rlim_cur);
	/* Not mlock(): the address sanitizer replaces it by an empty function. */
	locked = (int)syscall(SYS_mlock, out, (size_t)sysconf(_SC_PAGESIZE));
	mpitest_expect(locked == -1 && (errno == EPERM || errno == ENOMEM),
		       "mlock works in spite of the limit: take CAP_IPC_LOCK away");
	if (locked == 0)
		munlock(out, (size_t)sysconf(_SC_PAGESIZE));
}

static void locks(void)
{
	int cached = strcmp(mpitest_option("--locks"), "pin-cache") == 0;
	MPI_Request requests[2];
	long locked;

	mpitest_fill_message(out, LENGTH, mpitest.right, 0);
	MPI_Isend(out, (int)LENGTH, MPI_BYTE, mpitest.right, 1, MPI_COMM_WORLD, &requests[0]);
	locked = locked_kb();
	mpitest_expect(locked >= (long)(LENGTH >> 10), "VmLck is %ld kB during a send", locked);
	MPI_Irecv(in, (int)LENGTH, MPI_BYTE, mpitest.left, 1, MPI_COMM_WORLD, &requests[1]);
	MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
	mpitest_verify_message(in, LENGTH, mpitest.left, 0, "received");
	locked = locked_kb();
	mpitest_expect(cached ? locked >= (long)(2 * LENGTH >> 10) : locked == 0,
		       "VmLck is %ld kB after the send", locked);
}

int main(int argc, char **argv)
{
	static const struct mpitest_case none[] = {
		{ "no page locked or pinned by messages", messages },
		{ "no page locked or pinned by collectives", collectives },
		{ "no page locked or pinned by windows", windows },
		{ "these ranks are not allowed to lock a page", nothing_allowed },
	};
	static const struct mpitest_case some[] = {
		{ "buffers are locked during a transfer, and after it by the cache only", locks },
	};

	mpitest_init(&argc, &argv, MPI_THREAD_SINGLE);
	out = mpitest_alloc(LENGTH);
	in = mpitest_alloc(LENGTH);
	memset(in, 0, LENGTH);
	if (mpitest_option("--locks"))
		mpitest_run(some);
	else
		mpitest_run_list(none, mpitest_option("--nothing-allowed") ? 4 : 3);
	return mpitest_finish();
}

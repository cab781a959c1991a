/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Nothing is locked or pinned: after heavy traffic of every kind VmLck and
 * VmPin of each rank are 0. With --nothing-allowed the rank also makes sure
 * that it could not have locked a page if it had wanted to. With --locks, for
 * btl_exanest_mode pin and pin-cache, it is the other way round: buffers are
 * locked during a transfer, and after it by the cache only.
 */
#include "mpitest.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LENGTH ((size_t)4 << 20)

static unsigned char *out, *in;
static int left, right;

static long status_kb(const char *field)
{
	FILE *file = fopen("/proc/self/status", "r");
	char line[200];
	long kb = -1;

	while (file && fgets(line, sizeof(line), file)) {
		if (strncmp(line, field, strlen(field)) == 0 && line[strlen(field)] == ':') {
			kb = strtol(line + strlen(field) + 1, NULL, 10);
			break;
		}
	}
	if (file)
		fclose(file);
	return kb;
}

static void check(const char *when)
{
	long locked = status_kb("VmLck"), pinned = status_kb("VmPin");

	mpitest_expect(locked == 0, "VmLck is %ld kB %s", locked, when);
	mpitest_expect(pinned == 0, "VmPin is %ld kB %s", pinned, when);
}

static void messages(void)
{
	MPI_Request requests[2];
	size_t length;

	mpitest_begin("no page locked or pinned by messages");
	for (length = 1; length <= LENGTH; length *= 4) {
		mpitest_fill(out, length, mpitest_message_seed(mpitest.rank, right, length));
		MPI_Irecv(in, (int)length, MPI_BYTE, left, 1, MPI_COMM_WORLD, &requests[0]);
		MPI_Isend(out, (int)length, MPI_BYTE, right, 1, MPI_COMM_WORLD, &requests[1]);
		check("with a transfer in flight");
		MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
		mpitest_verify(in, length, mpitest_message_seed(left, mpitest.rank, length),
			       "received");
	}
	check("after messages");
	mpitest_end();
}

static void collectives(void)
{
	int n = (int)(LENGTH / (size_t)mpitest.size);

	mpitest_begin("no page locked or pinned by collectives");
	MPI_Alltoall(out, n, MPI_BYTE, in, n, MPI_BYTE, MPI_COMM_WORLD);
	MPI_Bcast(in, (int)LENGTH, MPI_BYTE, 0, MPI_COMM_WORLD);
	MPI_Allreduce(out, in, (int)LENGTH, MPI_BYTE, MPI_BXOR, MPI_COMM_WORLD);
	check("after collectives");
	mpitest_end();
}

static void windows(void)
{
	MPI_Win win;

	mpitest_begin("no page locked or pinned by windows");
	mpitest_fill(out, LENGTH, mpitest_message_seed(mpitest.rank, right, 1));
	MPI_Win_create(in, (MPI_Aint)LENGTH, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
	check("with a window open");
	MPI_Win_fence(0, win);
	MPI_Put(out, (int)LENGTH, MPI_BYTE, right, 0, (int)LENGTH, MPI_BYTE, win);
	MPI_Win_fence(0, win);
	mpitest_verify(in, LENGTH, mpitest_message_seed(left, mpitest.rank, 1), "put");
	check("after puts");
	MPI_Win_free(&win);
	mpitest_end();
}

static void nothing_allowed(void)
{
	struct rlimit limit;
	int locked;

	mpitest_begin("these ranks are not allowed to lock a page");
	getrlimit(RLIMIT_MEMLOCK, &limit);
	mpitest_expect(limit.rlim_cur == 0, "RLIMIT_MEMLOCK is %llu, not 0: run under ulimit -l 0",
		       (unsigned long long)limit.rlim_cur);
	/* Not mlock(): the address sanitizer puts an empty one in its place. */
	locked = (int)syscall(SYS_mlock, out, (size_t)sysconf(_SC_PAGESIZE));
	mpitest_expect(locked == -1 && (errno == EPERM || errno == ENOMEM),
		       "mlock works in spite of the limit: take CAP_IPC_LOCK away");
	if (locked == 0)
		munlock(out, (size_t)sysconf(_SC_PAGESIZE));
	mpitest_end();
}

static void locks(const char *mode)
{
	MPI_Request requests[2];
	long locked;

	mpitest_begin("buffers are locked during a transfer, and after it by the cache only");
	mpitest_fill(out, LENGTH, mpitest_message_seed(mpitest.rank, right, LENGTH));
	MPI_Isend(out, (int)LENGTH, MPI_BYTE, right, 1, MPI_COMM_WORLD, &requests[0]);
	locked = status_kb("VmLck");
	mpitest_expect(locked >= (long)(LENGTH >> 10), "VmLck is %ld kB with a send under way",
		       locked);
	MPI_Irecv(in, (int)LENGTH, MPI_BYTE, left, 1, MPI_COMM_WORLD, &requests[1]);
	MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
	mpitest_verify(in, LENGTH, mpitest_message_seed(left, mpitest.rank, LENGTH), "received");
	locked = status_kb("VmLck");
	if (strcmp(mode, "pin-cache") == 0)
		mpitest_expect(locked >= (long)(2 * LENGTH >> 10), "VmLck is %ld kB after it",
			       locked);
	else
		mpitest_expect(locked == 0, "VmLck is %ld kB after it", locked);
	mpitest_end();
}

int main(int argc, char **argv)
{
	mpitest_init(&argc, &argv, MPI_THREAD_SINGLE);
	left = (mpitest.rank + mpitest.size - 1) % mpitest.size;
	right = (mpitest.rank + 1) % mpitest.size;
	out = mpitest_alloc(LENGTH);
	in = mpitest_alloc(LENGTH);
	memset(in, 0, LENGTH);
	if (mpitest_option("--locks")) {
		locks(mpitest_option("--locks"));
		return mpitest_finish();
	}
	messages();
	collectives();
	windows();
	if (mpitest_option("--nothing-allowed"))
		nothing_allowed();
	return mpitest_finish();
}

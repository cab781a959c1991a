/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages of more bytes than an int can count. Needs about 5 GiB of memory.
 *
 *   --once   one message only, no window
 */
#include "mpitest.h"

#include <string.h>
#include <sys/mman.h>

/* 2^31 and some bytes, as elements of an odd number of bytes. */
#define ELEMENT 4099
#define ELEMENTS 524000
#define LENGTH ((size_t)ELEMENT * ELEMENTS)
#define NEEDED_KB ((long)(2 * (LENGTH >> 10) + (600u << 10)))

static unsigned char *buffer; /* one for each rank, which has no memory for two */

/* MPI 4 has another name for it, and MPI 4.1 deprecates the first. */
#if MPI_VERSION >= 4
#define GET_ELEMENTS MPI_Get_elements_c
#else
#define GET_ELEMENTS MPI_Get_elements_x
#endif

static void send_one(const char *name, MPI_Datatype type, int count, int synchronous)
{
	MPI_Status status;
	MPI_Count bytes;

	mpitest_begin("%s", name);
	if (mpitest.rank == 0) {
		mpitest_fill_message(buffer, LENGTH, 1, 0);
		(synchronous ? MPI_Ssend : MPI_Send)(buffer, count, type, 1, 5, MPI_COMM_WORLD);
	} else if (mpitest.rank == 1) {
		mpitest_guard(buffer, LENGTH);
		MPI_Recv(buffer, count, type, 0, 5, MPI_COMM_WORLD, &status);
		GET_ELEMENTS(&status, MPI_BYTE, &bytes);
		mpitest_expect((size_t)bytes == LENGTH, "%lld bytes arrived, not %zu",
			       (long long)bytes, LENGTH);
		mpitest_verify_message(buffer, LENGTH, 0, 0, "received");
		mpitest_verify_guard(buffer, LENGTH, "received");
	}
	mpitest_end();
}

static void one_sided(MPI_Datatype type, int count)
{
	int target = mpitest.rank == 1, origin = mpitest.rank == 0;
	uint64_t seed;
	MPI_Win win;

	mpitest_begin("put and get of more than 2 GiB");
	seed = mpitest_message_seed(0, 1, 1);
	MPI_Win_create(target ? buffer : NULL, target ? (MPI_Aint)LENGTH : 0, 1, MPI_INFO_NULL,
		       MPI_COMM_WORLD, &win);
	if (origin)
		mpitest_fill(buffer, LENGTH, seed);
	MPI_Win_fence(0, win);
	if (origin)
		MPI_Put(buffer, count, type, 1, 0, count, type, win);
	MPI_Win_fence(0, win);
	if (target)
		mpitest_verify(buffer, LENGTH, seed, "put");
	if (origin) {
		memset(buffer, 0, LENGTH);
		MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, win);
		MPI_Get(buffer, count, type, 1, 0, count, type, win);
		MPI_Win_unlock(1, win);
		mpitest_verify(buffer, LENGTH, seed, "get");
	}
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_free(&win);
	mpitest_end();
}

int main(int argc, char **argv)
{
	MPI_Datatype element, part, whole;
	int lengths[] = { 1, (int)(LENGTH - (1u << 30) - (1u << 30)) };
	MPI_Aint offsets[] = { 0, (MPI_Aint)1 << 31 };
	MPI_Datatype parts[2] = { MPI_DATATYPE_NULL, MPI_BYTE };
	long available;

	mpitest_init(&argc, &argv, MPI_THREAD_SINGLE);
	available = mpitest_proc_kb("/proc/meminfo", "MemAvailable:");
	MPI_Bcast(&available, 1, MPI_LONG, 0, MPI_COMM_WORLD);
	if (mpitest.size < 2 || available < NEEDED_KB) {
		mpitest_skip("messages of more than 2 GiB",
			     "needs 2 ranks and %ld MiB of free memory, there are %ld",
			     NEEDED_KB >> 10, available >> 10);
		return mpitest_finish();
	}
	buffer = (unsigned char *)mpitest_map(LENGTH + 2 * MPITEST_GUARD) + MPITEST_GUARD;

	MPI_Type_contiguous(ELEMENT, MPI_BYTE, &element);
	MPI_Type_commit(&element);
	send_one("many elements of odd size, more than 2 GiB", element, ELEMENTS, 0);

	MPI_Type_vector(1 << 11, 1 << 20, 1 << 20, MPI_BYTE, &part);
	parts[0] = part;
	MPI_Type_create_struct(2, lengths, offsets, parts, &whole);
	MPI_Type_commit(&whole);
	MPI_Type_free(&part);
	if (!mpitest_option("--once")) {
		send_one("one element of more than 2 GiB", whole, 1, 1);
		one_sided(element, ELEMENTS);
	}

	MPI_Type_free(&whole);
	MPI_Type_free(&element);
	munmap(buffer - MPITEST_GUARD, LENGTH + 2 * MPITEST_GUARD);
	return mpitest_finish();
}

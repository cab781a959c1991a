/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Message sizes and alignments. Each rank sends to its right neighbour and receives from its left
 * one, with the receive posted before the send or after the message has arrived.
 */
#include "mpi_t.h"
#include "mpitest.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LARGEST (4 * 1024 * 1024 + 64)
#define OFFSETS 10
#define MOST_THRESHOLDS 64

enum arrival { EXPECTED, UNEXPECTED };

static unsigned char *send_room, *receive_room;
static uint64_t message;

/* One message to the right and one from the left; returns whether it is correct. */
static int transfer(const unsigned char *out, unsigned char *in, size_t length,
		    enum arrival arrival)
{
	MPI_Request requests[2];
	MPI_Status status;
	int count;

	if (arrival == EXPECTED) {
		MPI_Irecv(in, (int)length, MPI_BYTE, mpitest.left, 1, MPI_COMM_WORLD, &requests[0]);
		MPI_Isend(out, (int)length, MPI_BYTE, mpitest.right, 1, MPI_COMM_WORLD,
			  &requests[1]);
		MPI_Wait(&requests[0], &status);
	} else {
		MPI_Isend(out, (int)length, MPI_BYTE, mpitest.right, 1, MPI_COMM_WORLD,
			  &requests[1]);
		/* Messages of two ranks are in order: after the barrier it has arrived. */
		MPI_Barrier(MPI_COMM_WORLD);
		MPI_Recv(in, (int)length, MPI_BYTE, mpitest.left, 1, MPI_COMM_WORLD, &status);
	}
	MPI_Wait(&requests[1], MPI_STATUS_IGNORE);

	MPI_Get_count(&status, MPI_BYTE, &count);
	mpitest_expect(count == (int)length && status.MPI_SOURCE == mpitest.left,
		       "%zu bytes arrived as %d bytes from %d", length, count, status.MPI_SOURCE);
	return !mpitest_verify_message(in, length, mpitest.left, message, "received");
}

static void prepare(unsigned char *out, unsigned char *in, size_t length)
{
	message++;
	mpitest_fill_message(out, length, mpitest.right, message);
	memset(in, 0xee, length);
}

static void exchange(size_t length, unsigned send_offset, unsigned receive_offset,
		     enum arrival arrival)
{
	unsigned char *out = send_room + MPITEST_GUARD + send_offset;
	unsigned char *in = receive_room + MPITEST_GUARD + receive_offset;

	prepare(out, in, length);
	mpitest_guard(in, length);
	if (!transfer(out, in, length, arrival) || mpitest_verify_guard(in, length, "received"))
		mpitest_fail("... in a message of %zu bytes, %s, offsets %u to %u", length,
			     arrival == EXPECTED ? "expected" : "unexpected", send_offset,
			     receive_offset);
}

static void both_ways(size_t length)
{
	exchange(length, 0, 0, EXPECTED);
	exchange(length, 0, 0, UNEXPECTED);
}

static void every_small_size(void)
{
	size_t length, most = mpitest.quick ? 300 : 2200;

	mpitest_begin("every size from 0 to %zu", most);
	for (length = 0; length <= most; length++)
		both_ways(length);
	mpitest_end();
}

static void powers_of_two(void)
{
	size_t power;

	mpitest_begin("powers of two to 4 MiB, and one byte less and more");
	for (power = 1; power <= 4 * 1024 * 1024; power *= 2) {
		both_ways(power - 1);
		both_ways(power);
		both_ways(power + 1);
	}
	mpitest_end();
}

/* Headers of the layers above a BTL reduce its limits by up to about 80 bytes. */
static void around_thresholds(void)
{
	size_t list[MOST_THRESHOLDS], length;
	int i, count = mpi_t_thresholds(list, MOST_THRESHOLDS, LARGEST - 32);
	size_t step = mpitest.quick ? 5 : 1;

	if (!count) {
		mpitest_skip("around every size parameter of the BTL", "btl %s shows none",
			     mpi_t_btl());
		return;
	}
	mpitest_begin("around every size parameter of the BTL");
	for (i = 0; i < count; i++) {
		for (length = list[i] > 96 ? list[i] - 96 : 0; length <= list[i] + 16;
		     length += step)
			both_ways(length);
	}
	mpitest_end();
}

static void offsets(void)
{
	static const size_t lengths[] = { 1,    3,     8,     17,    64,     100,    1000,
					  4096, 10000, 32768, 65537, 262144, 1048577 };
	size_t i, count = MPITEST_COUNT(lengths);
	unsigned from, to, step = mpitest.quick ? 3 : 1;

	for (i = 0; i < count; i++) {
		mpitest_begin("offsets 0 to 9 of source and destination, %zu bytes", lengths[i]);
		for (from = 0; from < OFFSETS; from += step) {
			for (to = 0; to < OFFSETS; to += step)
				exchange(lengths[i], from, to, EXPECTED);
		}
		mpitest_end();
	}
}

static unsigned char *map_between_holes(size_t length, size_t page)
{
	unsigned char *map = mmap(NULL, length + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS,
				  -1, 0);

	if (map == MAP_FAILED || mprotect(map + page, length, PROT_READ | PROT_WRITE))
		mpitest_abort("no memory for %zu bytes", length);
	return map + page;
}

/* The pages before and behind cannot be accessed: one byte too many is a fault. */
static void page_edges(void)
{
	static const size_t lengths[] = { 1, 64, 4000, 4097, 65536, 524289 };
	size_t i, length, page = (size_t)sysconf(_SC_PAGESIZE), room = 160 * page;
	unsigned char *out = map_between_holes(room, page), *in = map_between_holes(room, page);
	int corner;

	mpitest_begin("buffers at the start or the end of a mapping");
	for (i = 0; i < MPITEST_COUNT(lengths); i++) {
		length = lengths[i];
		for (corner = 0; corner < 8; corner++) {
			unsigned char *from = out + (corner & 1 ? room - length : 0);
			unsigned char *to = in + (corner & 2 ? room - length : 0);

			prepare(from, to, length);
			if (!transfer(from, to, length, corner & 4 ? UNEXPECTED : EXPECTED))
				mpitest_fail("... in a message of %zu bytes, corner %d", length,
					     corner);
		}
	}
	mpitest_end();
	munmap(out - page, room + 2 * page);
	munmap(in - page, room + 2 * page);
}

int main(int argc, char **argv)
{
	mpitest_init(&argc, &argv, MPI_THREAD_SINGLE);
	send_room = mpitest_alloc(LARGEST + OFFSETS + 2 * MPITEST_GUARD);
	receive_room = mpitest_alloc(LARGEST + OFFSETS + 2 * MPITEST_GUARD);

	every_small_size();
	powers_of_two();
	around_thresholds();
	offsets();
	page_edges();
	return mpitest_finish();
}

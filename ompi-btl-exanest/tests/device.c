/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Buffers in the memory of an accelerator, which the component of accelerator.c makes up. Two ranks.
 *
 *   device send     messages between device and host of several lengths
 *   device put|get  one-sided, with the buffer of the caller on the device
 *
 * Prints "right" or "wrong".
 */
#include "device.h"

#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tools/pattern.h"

#define LENGTH ((size_t)4 << 20)

static int file, rank;
static char *host;

static void device_open(void)
{
	char number[20];

	file = memfd_create("device", 0);
	snprintf(number, sizeof(number), "%d", file);
	if (file < 0 || ftruncate(file, (off_t)DEVICE_SIZE) || setenv(DEVICE_VARIABLE, number, 1) ||
	    mmap((void *)DEVICE_BASE, DEVICE_SIZE, PROT_NONE, MAP_SHARED | MAP_FIXED_NOREPLACE,
		 file, 0) == MAP_FAILED) {
		perror("device");
		exit(1);
	}
}

/* Fill a buffer, on the device or not. */
static void buffer_fill(bool on_device, size_t length, uint64_t seed)
{
	pattern_fill(host, length, seed);
	if (on_device && pwrite(file, host, length, 0) != (ssize_t)length)
		exit(1);
	if (on_device)
		memset(host, 0, length);
}

static bool buffer_is_right(bool on_device, size_t length, uint64_t seed)
{
	if (on_device && pread(file, host, length, 0) != (ssize_t)length)
		return false;
	return pattern_differs(host, length, seed) == length;
}

static void *buffer_address(bool on_device)
{
	return on_device ? (void *)DEVICE_BASE : host;
}

/* from, to: is the buffer of the sender, of the receiver, on the device? */
static bool message_is_right(bool from, bool to, size_t length)
{
	const uint64_t seed = length + 2 * from + to;

	buffer_fill(rank ? to : from, length, rank ? ~seed : seed);
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0) {
		MPI_Send(buffer_address(from), (int)length, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
		return true;
	}
	MPI_Recv(buffer_address(to), (int)length, MPI_BYTE, 0, 0, MPI_COMM_WORLD,
		 MPI_STATUS_IGNORE);
	return buffer_is_right(to, length, seed);
}

static bool messages_are_right(void)
{
	static const size_t lengths[] = { 1, 100, 4000, 30000, 100000, LENGTH };
	bool right = true;
	size_t i;

	for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		right &= message_is_right(true, true, lengths[i]);
		right &= message_is_right(true, false, lengths[i]);
		right &= message_is_right(false, true, lengths[i]);
	}
	return right;
}

static bool operation_is_right(bool put)
{
	char *window;
	bool right = true;
	MPI_Win win;

	MPI_Win_allocate((MPI_Aint)LENGTH, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window, &win);
	buffer_fill(rank == 0, LENGTH, rank == 0 && put ? 1 : 2);
	memcpy(window, host, LENGTH);
	MPI_Win_fence(0, win);
	if (rank == 0 && put)
		MPI_Put((void *)DEVICE_BASE, (int)LENGTH, MPI_BYTE, 1, 0, (int)LENGTH, MPI_BYTE,
			win);
	else if (rank == 0)
		MPI_Get((void *)DEVICE_BASE, (int)LENGTH, MPI_BYTE, 1, 0, (int)LENGTH, MPI_BYTE,
			win);
	MPI_Win_fence(0, win);
	if (put && rank == 1)
		right = pattern_differs(window, LENGTH, 1) == LENGTH;
	else if (!put && rank == 0)
		right = buffer_is_right(true, LENGTH, 2);
	MPI_Win_free(&win);
	return right;
}

int main(int argc, char **argv)
{
	bool right;
	int all;

	(void)argc;
	device_open();
	MPI_Init(NULL, NULL);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	host = malloc(LENGTH);
	right = strcmp(argv[1], "send") ? operation_is_right(!strcmp(argv[1], "put")) :
					  messages_are_right();
	all = right;
	MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
	if (rank == 0)
		printf("%s\n", all ? "right" : "wrong");
	free(host);
	MPI_Finalize();
	return 0;
}

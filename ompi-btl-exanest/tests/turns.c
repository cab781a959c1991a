/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages between rank 0 and two ranks at the same time: none waits for the end of the other. */
#include "mpitest.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LONG ((size_t)64 << 20)
#define SHORT ((size_t)256 << 10) /* above every eager_limit and share_min: it is fetched */
#define TAG 9
/* More messages than the smallest ring and the shortest list of descriptors have room for. */
#define WAITING 200
#define WAITING_LENGTH ((size_t)1000) /* sent in place */

enum { RECEIVER, LONG_SENDER, SHORT_SENDER };

static unsigned char *buffer;

static void receive_both(void)
{
	MPI_Request requests[2];
	int first;

	/* Both have announced their messages: only their fetches are left to do. */
	MPI_Probe(LONG_SENDER, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	MPI_Probe(SHORT_SENDER, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	MPI_Irecv(buffer, (int)LONG, MPI_BYTE, LONG_SENDER, TAG, MPI_COMM_WORLD, &requests[0]);
	MPI_Irecv(buffer + LONG, (int)SHORT, MPI_BYTE, SHORT_SENDER, TAG, MPI_COMM_WORLD,
		  &requests[1]);
	MPI_Waitany(2, requests, &first, MPI_STATUS_IGNORE);
	mpitest_expect(first == 1, "the long message, posted first, ended first");
	MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
	mpitest_verify_message(buffer, LONG, LONG_SENDER, 0, "long");
	mpitest_verify_message(buffer + LONG, SHORT, SHORT_SENDER, 1, "short");
}

static void test_short_beside_long(void)
{
	size_t length = mpitest.rank == LONG_SENDER ? LONG : SHORT;

	if (mpitest.rank == RECEIVER) {
		receive_both();
	} else {
		mpitest_fill_message(buffer, length, RECEIVER, mpitest.rank == SHORT_SENDER);
		MPI_Send(buffer, (int)length, MPI_BYTE, RECEIVER, TAG, MPI_COMM_WORLD);
	}
}

/* A page that all ranks share. */
static volatile char *page_share(void)
{
	const char *folder = getenv("TMPDIR");
	char path[256];
	void *page;
	int fd;

	snprintf(path, sizeof(path), "%s/turns-XXXXXX", folder ? folder : "/tmp");
	fd = mpitest.rank == 0 ? mkstemp(path) : -1;
	MPI_Bcast(path, sizeof(path), MPI_CHAR, 0, MPI_COMM_WORLD);
	if (fd < 0)
		fd = open(path, O_RDWR);
	if (fd < 0 || ftruncate(fd, 4096))
		mpitest_abort("cannot share %s", path);
	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	MPI_Barrier(MPI_COMM_WORLD);
	if (mpitest.rank == 0)
		unlink(path);
	if (page == MAP_FAILED)
		mpitest_abort("cannot map %s", path);
	return page;
}

static void send_and_receive(void)
{
	MPI_Request requests[WAITING + 1];
	int i;

	MPI_Irecv(buffer, (int)SHORT, MPI_BYTE, SHORT_SENDER, TAG, MPI_COMM_WORLD,
		  &requests[WAITING]);
	mpitest_fill_message(buffer + LONG, WAITING_LENGTH, LONG_SENDER, 0);
	for (i = 0; i < WAITING; i++)
		MPI_Isend(buffer + LONG, (int)WAITING_LENGTH, MPI_BYTE, LONG_SENDER, TAG,
			  MPI_COMM_WORLD, &requests[i]);
	MPI_Waitall(WAITING + 1, requests, MPI_STATUSES_IGNORE);
	mpitest_verify_message(buffer, SHORT, SHORT_SENDER, 1, "fetched");
}

/* The sender of a fetched message hears of the end, while messages to another rank wait. */
static void test_end_beside_waiting(void)
{
	volatile char *sent = page_share();
	int i;

	if (mpitest.rank == RECEIVER) {
		send_and_receive();
	} else if (mpitest.rank == SHORT_SENDER) {
		mpitest_fill_message(buffer, SHORT, RECEIVER, 1);
		MPI_Send(buffer, (int)SHORT, MPI_BYTE, RECEIVER, TAG, MPI_COMM_WORLD);
		*sent = 1;
	} else {
		/* Outside of MPI. */
		while (!*sent)
			usleep(1000);
		for (i = 0; i < WAITING; i++) {
			MPI_Recv(buffer, (int)WAITING_LENGTH, MPI_BYTE, RECEIVER, TAG,
				 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			mpitest_verify_message(buffer, WAITING_LENGTH, RECEIVER, 0, "waiting");
		}
	}
	munmap((void *)sent, 4096);
}

int main(int argc, char **argv)
{
	const struct mpitest_case cases[] = {
		{ "a short message beside a long one from another rank", test_short_beside_long },
		{ "the end of a message beside others that wait", test_end_beside_waiting },
	};

	mpitest_init(&argc, &argv, MPI_THREAD_SINGLE);
	mpitest_need_ranks(3, 3);
	buffer = mpitest_alloc(LONG + SHORT);
	memset(buffer, 0, LONG + SHORT);
	mpitest_run(cases);
	free(buffer);
	return mpitest_finish();
}

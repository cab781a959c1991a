/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages that rank 0 receives from two ranks at the same time: none waits for the end of the other. */
#include "mpitest.h"

#include <stdlib.h>
#include <string.h>

#define LONG ((size_t)64 << 20)
#define SHORT ((size_t)256 << 10) /* above every eager_limit and share_min: it is fetched */
#define TAG 9

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

int main(int argc, char **argv)
{
	const struct mpitest_case cases[] = {
		{ "a short message beside a long one from another rank", test_short_beside_long },
	};

	mpitest_init(&argc, &argv, MPI_THREAD_SINGLE);
	mpitest_need_ranks(3, 3);
	buffer = mpitest_alloc(LONG + SHORT);
	memset(buffer, 0, LONG + SHORT);
	mpitest_run(cases);
	free(buffer);
	return mpitest_finish();
}

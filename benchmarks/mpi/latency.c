/* SPDX-License-Identifier: BSD-3-Clause */
#include "pt2pt.h"

#define TAG 1

static double exchange(struct run *run, int repeats)
{
	const int size = (int)run->size;
	double start = MPI_Wtime();
	int i;

	for (i = 0; i < repeats; i++) {
		if (run->rank == 0) {
			MPI_Send(run->send, size, MPI_CHAR, 1, TAG, MPI_COMM_WORLD);
			MPI_Recv(run->receive, size, MPI_CHAR, 1, TAG, MPI_COMM_WORLD,
				 MPI_STATUS_IGNORE);
		} else {
			MPI_Recv(run->receive, size, MPI_CHAR, 0, TAG, MPI_COMM_WORLD,
				 MPI_STATUS_IGNORE);
			MPI_Send(run->send, size, MPI_CHAR, 0, TAG, MPI_COMM_WORLD);
		}
	}
	return MPI_Wtime() - start;
}

static void report(const struct run *run, const struct timing *timing)
{
	latency_report(run, timing->seconds * 1e6 / (2.0 * timing->iterations));
}

static int check(struct run *run)
{
	return pt2pt_check(run, 1 - run->rank);
}

static const struct benchmark latency = {
	.title = "MPI Latency Test",
	.about = "Half the time of a ping-pong between two ranks, blocking send and receive.",
	.groups = TAKES_SIZES | TAKES_COLD,
	.defaults = {
		.max_size = 1 << 22,
		.small = { 10000, 100 },
		.large = { 1000, 10 },
		.window = 1,
	},
	.ranks = RANKS_TWO,
	.header = latency_header,
	.exchange = exchange,
	.report = report,
	.fill = pt2pt_fill,
	.check = check,
};

int main(int argc, char **argv)
{
	return benchmark_main(&latency, argc, argv);
}

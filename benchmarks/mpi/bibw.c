/* SPDX-License-Identifier: BSD-3-Clause */
#include "pt2pt.h"

#define TAG_UP 100
#define TAG_DOWN 10

/* Both ranks post a window of receives and a window of sends: no acknowledgement, as OSU. */
static double exchange(struct run *run, int repeats)
{
	const int size = (int)run->size, peer = 1 - run->rank;
	const int tag_out = run->rank ? TAG_DOWN : TAG_UP, tag_in = run->rank ? TAG_UP : TAG_DOWN;
	double start = MPI_Wtime();
	int i, j;

	for (i = 0; i < repeats; i++) {
		for (j = 0; j < run->window; j++)
			MPI_Irecv(run->receive + (size_t)j * run->stride, size, MPI_CHAR, peer,
				  tag_in, MPI_COMM_WORLD, &run->requests[j]);
		for (j = 0; j < run->window; j++)
			MPI_Isend(run->send + (size_t)j * run->stride, size, MPI_CHAR, peer,
				  tag_out, MPI_COMM_WORLD, &run->requests[run->window + j]);
		MPI_Waitall(2 * run->window, run->requests, MPI_STATUSES_IGNORE);
	}
	return MPI_Wtime() - start;
}

static void report(const struct run *run, const struct timing *timing)
{
	bandwidth_report(run, timing, 2.0 * (double)run->size * run->window * timing->iterations);
}

static int check(struct run *run)
{
	return pt2pt_check(run, 1 - run->rank);
}

static const struct benchmark bibw = {
	.title = "MPI Bi-Directional Bandwidth Test",
	.about = "Both ranks send each other a window of messages at the same time.",
	.groups = TAKES_SIZES | TAKES_WINDOW | TAKES_CPU,
	.defaults = {
		.min_size = 1,
		.max_size = 1 << 22,
		.small = { 100, 10 },
		.large = { 20, 2 },
		.window = 64,
	},
	.ranks = RANKS_TWO,
	.header = bandwidth_header,
	.exchange = exchange,
	.report = report,
	.fill = pt2pt_fill,
	.check = check,
};

int main(int argc, char **argv)
{
	return benchmark_main(&bibw, argc, argv);
}

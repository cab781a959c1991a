/* SPDX-License-Identifier: BSD-3-Clause */
#include "pt2pt.h"

static double exchange(struct run *run, int repeats)
{
	double start = MPI_Wtime();
	int i;

	for (i = 0; i < repeats; i++) {
		if (run->rank == 0)
			pt2pt_send_window(run, 1);
		else
			pt2pt_receive_window(run, 0);
	}
	return MPI_Wtime() - start;
}

static void report(const struct run *run, const struct timing *timing)
{
	bandwidth_report(run, timing, (double)run->size * run->window * timing->iterations);
}

static int check(struct run *run)
{
	return run->rank == 1 ? pt2pt_check(run, 0) : 0;
}

static const struct benchmark bw = {
	.title = "MPI Bandwidth Test",
	.about = "Rank 0 sends a window of messages; rank 1 acknowledges the window.",
	.groups = TAKES_SIZES | TAKES_WINDOW | TAKES_CPU | TAKES_COLD,
	.defaults = {
		.min_size = 1,
		.max_size = 1 << 22,
		.small = { 100, 10 },
		.large = { 20, 2 },
		.window = 64,
	},
	.ranks = RANKS_TWO,
	.one_way = true,
	.header = bandwidth_header,
	.exchange = exchange,
	.report = report,
	.fill = pt2pt_fill,
	.check = check,
};

int main(int argc, char **argv)
{
	return benchmark_main(&bw, argc, argv);
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "onesided.h"

static double exchange(struct run *run, int repeats)
{
	return onesided_bandwidth(run, repeats, onesided_put);
}

static const struct benchmark put_bw = {
	.title = "MPI_Put Bandwidth Test",
	.about = "Rank 0 starts a window of MPI_Put and completes them together.",
	.groups = TAKES_SIZES | TAKES_WINDOW | TAKES_CPU | TAKES_RMA,
	.defaults = {
		.min_size = 1,
		.max_size = 1 << 22,
		.small = { 100, 10 },
		.large = { 20, 2 },
		.window = 64,
	},
	.ranks = RANKS_TWO,
	.hold = HOLD_WINDOW,
	.prepare = onesided_prepare,
	.finish = onesided_finish,
	.header = onesided_bandwidth_header,
	.exchange = exchange,
	.report = onesided_bandwidth_report,
	.fill = onesided_fill_put,
	.check = onesided_check_put,
};

int main(int argc, char **argv)
{
	return benchmark_main(&put_bw, argc, argv);
}

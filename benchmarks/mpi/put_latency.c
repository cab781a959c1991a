/* SPDX-License-Identifier: BSD-3-Clause */
#include "onesided.h"

static double exchange(struct run *run, int repeats)
{
	return onesided_latency(run, repeats, onesided_put);
}

static const struct benchmark put_latency = {
	.title = "MPI_Put Latency Test",
	.about = "Time of one MPI_Put and its synchronization.",
	.groups = TAKES_SIZES | TAKES_RMA,
	.defaults = {
		.min_size = 1,
		.max_size = 1 << 22,
		.small = { 10000, 100 },
		.large = { 1000, 10 },
		.window = 1,
	},
	.ranks = RANKS_TWO,
	.prepare = onesided_prepare,
	.finish = onesided_finish,
	.header = onesided_latency_header,
	.exchange = exchange,
	.report = onesided_latency_report,
	.fill = onesided_fill_put,
	.check = onesided_check_put,
};

int main(int argc, char **argv)
{
	return benchmark_main(&put_latency, argc, argv);
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "onesided.h"

static double exchange(struct run *run, int repeats)
{
	return onesided_latency(run, repeats, onesided_get);
}

static const struct benchmark get_latency = {
	.title = "MPI_Get Latency Test",
	.about = "Time of one MPI_Get and its synchronization.",
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
	.fill = onesided_fill_get,
	.check = onesided_check_get,
};

int main(int argc, char **argv)
{
	return benchmark_main(&get_latency, argc, argv);
}

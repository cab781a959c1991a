/* SPDX-License-Identifier: BSD-3-Clause */
#include "collective.h"
#include "pattern.h"

#define ROOT 0

static void call(struct run *run)
{
	MPI_Bcast(run->rank == ROOT ? run->send : run->receive, (int)run->size, MPI_CHAR, ROOT,
		  MPI_COMM_WORLD);
}

static double exchange(struct run *run, int repeats)
{
	return collective_time(run, repeats, call);
}

static void fill(struct run *run)
{
	if (run->rank == ROOT)
		pattern_fill(run->send, run->size, benchmark_seed(run, ROOT, 0));
}

static int check(struct run *run)
{
	return run->rank == ROOT ? 0 : benchmark_check(run, run->receive, ROOT, 0);
}

static const struct benchmark bcast = {
	.title = "MPI Broadcast Latency Test",
	.about = "Time of MPI_Bcast from rank 0, mean over the ranks.",
	.groups = TAKES_SIZES | TAKES_FULL,
	.defaults = {
		.min_size = 1,
		.max_size = 1 << 20,
		.small = { 1000, 200 },
		.large = { 100, 10 },
		.window = 1,
	},
	.ranks = RANKS_ANY,
	.header = collective_header,
	.exchange = exchange,
	.report = collective_report,
	.fill = fill,
	.check = check,
};

int main(int argc, char **argv)
{
	return benchmark_main(&bcast, argc, argv);
}

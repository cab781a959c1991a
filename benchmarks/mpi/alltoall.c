/* SPDX-License-Identifier: BSD-3-Clause */
#include "collective.h"
#include "pattern.h"

static void call(struct run *run)
{
	MPI_Alltoall(run->send, (int)run->size, MPI_CHAR, run->receive, (int)run->size, MPI_CHAR,
		     MPI_COMM_WORLD);
}

static double exchange(struct run *run, int repeats)
{
	return collective_time(run, repeats, call);
}

static void fill(struct run *run)
{
	int to;

	for (to = 0; to < run->ranks; to++)
		pattern_fill(run->send + (size_t)to * run->size, run->size,
			     benchmark_seed(run, run->rank, to));
}

static int check(struct run *run)
{
	int from;

	for (from = 0; from < run->ranks; from++)
		if (benchmark_check(run, run->receive + (size_t)from * run->size, from, run->rank))
			return -1;
	return 0;
}

static const struct benchmark alltoall = {
	.title = "MPI All-to-All Personalized Exchange Latency Test",
	.about = "Time of MPI_Alltoall, mean over the ranks; the size is that of one message.",
	.groups = TAKES_SIZES | TAKES_FULL,
	.defaults = {
		.min_size = 1,
		.max_size = 1 << 20,
		.small = { 1000, 200 },
		.large = { 100, 10 },
		.window = 1,
	},
	.ranks = RANKS_ANY,
	.hold = HOLD_MESSAGE_PER_RANK,
	.header = collective_header,
	.exchange = exchange,
	.report = collective_report,
	.fill = fill,
	.check = check,
};

int main(int argc, char **argv)
{
	return benchmark_main(&alltoall, argc, argv);
}

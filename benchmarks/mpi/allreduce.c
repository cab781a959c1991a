/* SPDX-License-Identifier: BSD-3-Clause */
#include "collective.h"

#include <stdio.h>

static int count(const struct run *run)
{
	return (int)(run->size / sizeof(float));
}

static void call(struct run *run)
{
	MPI_Allreduce(run->send, run->receive, count(run), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static double exchange(struct run *run, int repeats)
{
	return collective_time(run, repeats, call);
}

/* Small whole numbers, so that their sum is exact in any order. */
static float element(const struct run *run, int rank, int index)
{
	return (float)((index + rank + 7 * run->round) % 61);
}

static void fill(struct run *run)
{
	float *values = (float *)(void *)run->send;
	int i;

	for (i = 0; i < count(run); i++)
		values[i] = element(run, run->rank, i);
}

static int check(struct run *run)
{
	const float *values = (const float *)(void *)run->receive;
	int i, rank;

	for (i = 0; i < count(run); i++) {
		float sum = 0;

		for (rank = 0; rank < run->ranks; rank++)
			sum += element(run, rank, i);
		if (values[i] == sum)
			continue;
		fprintf(stderr, "rank %d: %zu bytes, round %d: element %d is %g, not %g\n",
			run->rank, run->size, run->round, i, (double)values[i], (double)sum);
		return -1;
	}
	return 0;
}

static const char *prepare(struct run *run)
{
	return run->options->min_size % sizeof(float) || !run->options->min_size ?
		       "MIN of -m must be a multiple of 4: the elements are floats" :
		       NULL;
}

static const struct benchmark allreduce = {
	.title = "MPI Allreduce Latency Test",
	.about = "Time of MPI_Allreduce, sum of floats, mean over the ranks.",
	.groups = TAKES_SIZES | TAKES_FULL,
	.defaults = {
		.min_size = sizeof(float),
		.max_size = 1 << 20,
		.small = { 1000, 200 },
		.large = { 100, 10 },
		.window = 1,
	},
	.ranks = RANKS_ANY,
	.prepare = prepare,
	.header = collective_header,
	.exchange = exchange,
	.report = collective_report,
	.fill = fill,
	.check = check,
};

int main(int argc, char **argv)
{
	return benchmark_main(&allreduce, argc, argv);
}

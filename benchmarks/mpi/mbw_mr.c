/* SPDX-License-Identifier: BSD-3-Clause */
#include "pt2pt.h"

#include <stdbool.h>
#include <stdio.h>

static int pairs(const struct run *run)
{
	return run->ranks / 2;
}

static bool sender(const struct run *run)
{
	return run->rank < pairs(run);
}

/* Rank n of the first half sends to rank n of the second half. */
static double exchange(struct run *run, int repeats)
{
	double start;
	int i;

	MPI_Barrier(MPI_COMM_WORLD);
	start = MPI_Wtime();
	for (i = 0; i < repeats; i++) {
		if (sender(run))
			pt2pt_send_window(run, run->rank + pairs(run));
		else
			pt2pt_receive_window(run, run->rank - pairs(run));
	}
	return MPI_Wtime() - start;
}

static void header(const struct run *run)
{
	printf("# [ pairs: %d ] [ window size: %d ]\n", pairs(run), run->window);
	printf("%-10s%20s%20s", "# Size", "MB/s", "Messages/s");
}

/* As OSU: all messages over the mean time of the senders. */
static void report(const struct run *run, const struct timing *timing)
{
	double messages = (double)pairs(run) * run->window * timing->iterations;
	double mine = sender(run) ? timing->seconds : 0, seconds = 0;

	MPI_Reduce(&mine, &seconds, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
	if (run->rank)
		return;
	seconds /= pairs(run);
	printf("%20.2f%20.2f", messages * (double)run->size / 1e6 / seconds, messages / seconds);
}

static int check(struct run *run)
{
	return sender(run) ? 0 : pt2pt_check(run, run->rank - pairs(run));
}

static const struct benchmark mbw_mr = {
	.title = "MPI Multiple Bandwidth / Message Rate Test",
	.about = "Pairs of ranks, one sending windows of messages to the other.",
	.groups = TAKES_SIZES | TAKES_WINDOW,
	.defaults = {
		.min_size = 1,
		.max_size = 1 << 22,
		.small = { 100, 10 },
		.large = { 20, 2 },
		.window = 64,
	},
	.ranks = RANKS_EVEN,
	.header = header,
	.exchange = exchange,
	.report = report,
	.fill = pt2pt_fill,
	.check = check,
};

int main(int argc, char **argv)
{
	return benchmark_main(&mbw_mr, argc, argv);
}

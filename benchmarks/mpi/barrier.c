/* SPDX-License-Identifier: BSD-3-Clause */
#include "collective.h"

#include <stdio.h>
#include <time.h>

/* When this rank came to the barrier and left it, for validation. */
static double entered, left;

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* OSU's barrier test has no second barrier between the timed ones. */
static double exchange(struct run *run, int repeats)
{
	double seconds = 0;
	int i;

	(void)run;
	for (i = 0; i < repeats; i++) {
		double start = MPI_Wtime();

		MPI_Barrier(MPI_COMM_WORLD);
		seconds += MPI_Wtime() - start;
	}
	return seconds;
}

/* One rank comes late: nobody may leave before it came. */
static void fill(struct run *run)
{
	const struct timespec late = { .tv_nsec = 2000000 };

	MPI_Barrier(MPI_COMM_WORLD);
	if (run->rank == run->round % run->ranks)
		nanosleep(&late, NULL);
	entered = now();
	MPI_Barrier(MPI_COMM_WORLD);
	left = now();
}

static int check(struct run *run)
{
	double last_entered, first_left;

	MPI_Allreduce(&entered, &last_entered, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	MPI_Allreduce(&left, &first_left, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
	if (first_left >= last_entered)
		return 0;
	if (run->rank == 0)
		fprintf(stderr, "round %d: a rank left the barrier %.1f us before the last came\n",
			run->round, (last_entered - first_left) * 1e6);
	return -1;
}

/* Times of different hosts cannot be compared. */
static const char *prepare(struct run *run)
{
	MPI_Comm host;
	int on_host;

	if (!run->options->validate)
		return NULL;
	MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
	MPI_Comm_size(host, &on_host);
	MPI_Comm_free(&host);
	return on_host == run->ranks ? NULL : "--validate needs all ranks on one host";
}

static const struct benchmark barrier = {
	.title = "MPI Barrier Latency Test",
	.about = "Time of MPI_Barrier, mean over the ranks.",
	.groups = TAKES_FULL,
	.defaults = { .small = { 1000, 200 }, .window = 1 },
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
	return benchmark_main(&barrier, argc, argv);
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "collective.h"

#include <stdio.h>

double collective_time(struct run *run, int repeats, void (*call)(struct run *run))
{
	double seconds = 0;
	int i;

	for (i = 0; i < repeats; i++) {
		double start = MPI_Wtime();

		call(run);
		seconds += MPI_Wtime() - start;
		MPI_Barrier(MPI_COMM_WORLD);
	}
	return seconds;
}

void collective_header(const struct run *run)
{
	if (run->options->max_size)
		printf("%-10s", "# Size");
	else
		printf("# ");
	printf("%18s", "Avg Latency(us)");
	if (run->options->full)
		printf("%18s%18s%12s", "Min Latency(us)", "Max Latency(us)", "Iterations");
}

void collective_report(const struct run *run, const struct timing *timing)
{
	double mine = timing->seconds * 1e6 / timing->iterations, sum = 0, least = 0, most = 0;

	MPI_Reduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
	MPI_Reduce(&mine, &least, 1, MPI_DOUBLE, MPI_MIN, 0, MPI_COMM_WORLD);
	MPI_Reduce(&mine, &most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
	if (run->rank)
		return;
	printf("%18.2f", sum / run->ranks);
	if (run->options->full)
		printf("%18.2f%18.2f%12d", least, most, timing->iterations);
}

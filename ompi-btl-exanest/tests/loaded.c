/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Says after MPI_Init whether the component exanest is mapped in this process,
 * and exchanges a message with every other rank, so that there are transports.
 */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
	int rank, size, i, mine, theirs;
	const char *state = "not loaded";
	char line[512];
	FILE *maps;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	maps = fopen("/proc/self/maps", "r");
	while (maps && fgets(line, sizeof(line), maps)) {
		if (strstr(line, "mca_btl_exanest.so"))
			state = "loaded";
	}
	printf("%s: rank %d\n", state, rank);
	for (i = 0; i < size; i++) {
		mine = rank * size + i;
		MPI_Sendrecv(&mine, 1, MPI_INT, i, 0, &theirs, 1, MPI_INT, i, 0, MPI_COMM_WORLD,
			     MPI_STATUS_IGNORE);
		if (theirs != i * size + rank)
			MPI_Abort(MPI_COMM_WORLD, 1);
	}
	MPI_Finalize();
	return maps ? fclose(maps) != 0 : 1;
}

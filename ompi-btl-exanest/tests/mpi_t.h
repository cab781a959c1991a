/* SPDX-License-Identifier: BSD-3-Clause */
/* Parameters and counters of the BTL under test, read through MPI_T. */
#ifndef MPI_T_H
#define MPI_T_H

#include <stddef.h>
#include <stdint.h>

/* "exanest", or what EXANEST_TEST_BTL puts in its place. Static. */
const char *mpi_t_btl(void);

/*
 * The values of its integer parameters that can be a message size where the
 * protocol changes: between 32 and most, ascending, none twice. Returns how
 * many there are, at most limit. After MPI_Init.
 */
int mpi_t_thresholds(size_t *list, int limit, size_t most);

struct mpi_t_counter {
	char name[128];
	uint64_t value;
};

/* Its performance variables, by name. Returns how many, at most limit, or -1. */
int mpi_t_counters(struct mpi_t_counter *list, int limit);

#endif

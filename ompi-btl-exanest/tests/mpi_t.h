/* SPDX-License-Identifier: BSD-3-Clause */
/* Parameters and counters of the BTL under test, read through MPI_T. */
#ifndef MPI_T_H
#define MPI_T_H

#include <stddef.h>
#include <stdint.h>

/* "exanest", or the first of EXANEST_TEST_BTL. Static. */
const char *mpi_t_btl(void);

/*
 * The values of its integer parameters that may be a message size at which the protocol changes:
 * between 32 and most, ascending, without duplicates. Returns their number, at most limit. After
 * MPI_Init.
 */
int mpi_t_thresholds(size_t *list, int limit, size_t most);

/* The value of its integer parameter of this name; 0 if there is none. After MPI_Init. */
size_t mpi_t_parameter(const char *name);

/* Begin to count its performance variables, from zero; returns their number. */
int mpi_t_watch(void);
/* What a variable has counted since; -1 if there is none with this name. */
long long mpi_t_counted(const char *name);
/* The same for the elements of an array, at most this many. Returns the number of elements, or -1. */
int mpi_t_counted_each(const char *name, uint64_t *values, int most);
void mpi_t_unwatch(void);

#endif

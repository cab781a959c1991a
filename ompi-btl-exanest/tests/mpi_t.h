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

/*
 * Watch its performance variables; returns how many there are. Counters count
 * from here, because Open MPI begins each handle's count at zero.
 */
int mpi_t_watch(void);
/* What the named one has counted since; -1 if there is none of this name. */
long long mpi_t_counted(const char *name);
/*
 * What the elements of the named array have counted since, at most as many as
 * most. Returns how many it has; -1 if there is none of this name.
 */
int mpi_t_counted_each(const char *name, uint64_t *values, int most);
void mpi_t_unwatch(void);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Counters of btl exanest, read as MPI_T performance variables, for --waits. */
#ifndef BENCHMARK_COUNTERS_H
#define BENCHMARK_COUNTERS_H

/* Blocks that waited for a page of this process, and those that it asked for again (NACK). */
#define COUNTERS 2

/* Begin to count in this process. */
void counters_begin(void);

/* End it, and add what was counted: nothing over another transport. */
void counters_end(double counted[COUNTERS]);

#endif

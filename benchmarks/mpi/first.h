/* SPDX-License-Identifier: BSD-3-Clause */
/* The first messages between ranks that have exchanged none since MPI_Init: --first. */
#ifndef BENCHMARK_FIRST_H
#define BENCHMARK_FIRST_H

/* How many calls are timed: the first 1, 10, 100 and 1,000. */
#define FIRST_COUNTS 4
extern const int first_counts[FIRST_COUNTS];

/*
 * Let all ranks, which are on one host, begin at the same time, without a message of MPI.
 * Returns NULL or an error message.
 */
const char *first_begin(int rank, int ranks);

/* Minor page faults of this process so far. */
long first_faults(void);

#endif

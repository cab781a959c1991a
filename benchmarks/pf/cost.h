/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of fault_cost share. Functions return 0, or -1 after a message on stderr. */
#ifndef BENCHMARK_COST_H
#define BENCHMARK_COST_H

#include "pair.h"

struct cost {
	const struct cores *cores;
	const pf_options *options; /* of libpf: its defaults and the environment */
	size_t size;               /* of a transfer, whole pages; 0: the test has no sizes */
	int iterations, warm_up;
};

/* One row: what follows the size, without the end of the line. */
int cost_minor(const struct cost *cost);
int cost_warm(const struct cost *cost);
int cost_pager(const struct cost *cost);
int cost_beside_pager(const struct cost *cost);
int cost_beside_swap(const struct cost *cost);
int cost_device(const struct cost *cost);

/*
 * A partner with a buffer of length bytes at *remote, filled with the pattern
 * of this seed. It is stopped: short gets need nothing of it, and its polling
 * would take a core from whoever else is measured.
 */
#define COST_SEED 1
int cost_open(struct pair *pair, const struct cost *cost, const pf_options *options, size_t length,
	      uint64_t *remote);
void cost_wake_partner(const struct pair *pair);
/* Wakes the partner. */
int cost_close(struct pair *pair);

/* One get, until it is complete. */
int cost_get(struct pair *pair, void *local, uint64_t remote, size_t length);

/* Anonymous memory, never touched and without huge pages; to be given to munmap. */
uint8_t *cost_untouched(size_t length);

/* How many of the pages are in memory, or -1. */
long cost_present(const void *address, size_t length);

/* What two readings of the clock differ by with nothing between, seconds; median. */
double cost_of_clock(void);
/* The median in microseconds, less the clock's share; sorts. */
double cost_microseconds(double *seconds, size_t count);

#endif

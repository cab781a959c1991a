/* SPDX-License-Identifier: BSD-3-Clause */
/* The tests of fault_cost, and what they share. Functions return 0, or -1 after an error message. */
#ifndef BENCHMARK_COST_H
#define BENCHMARK_COST_H

#include "session.h"

struct cost {
	const struct cores *cores;
	const pf_options *options; /* libpf's defaults and the environment */
	size_t size;               /* length of a transfer, whole pages; 0: the test has no sizes */
	int iterations, warm_up;
};

/* Measure and print the columns after the size, without the end of the line. */
int cost_minor(const struct cost *cost);
int cost_warm(const struct cost *cost);
int cost_pager(const struct cost *cost);
int cost_beside_pager(const struct cost *cost);
int cost_beside_swap(const struct cost *cost);
int cost_device(const struct cost *cost);

/* libpf's defaults and the environment. */
int cost_load_options(pf_options *options);

/*
 * Fork a partner that has a buffer of length bytes at *remote, with the pattern
 * of COST_SEED. The partner is then stopped with SIGSTOP: its polling would take
 * processor time from the measurement.
 */
#define COST_SEED 1
int cost_open(struct session *session, const struct cost *cost, const pf_options *options,
	      size_t length, uint64_t *remote);
void cost_stop_partner(const struct session *session);
void cost_continue_partner(const struct session *session);
/*
 * Call before short gets. Continue the partner unless this process moves their
 * bytes alone: through the ring and over the network, the partner sends them.
 */
void cost_prepare_gets(const struct session *session);
/* Continue the partner and close the connection. */
int cost_close(struct session *session);

/* Get, and wait for the completion. */
int cost_get(struct session *session, void *local, uint64_t remote, size_t length);

/* Map anonymous memory without huge pages and do not touch it; munmap unmaps it. */
uint8_t *cost_untouched(size_t length);

/* Number of resident pages, or -1. */
long cost_present(const void *address, size_t length);

/* Allocate rows of count samples each, in one piece: free(samples[0]) frees it. */
int cost_samples(double **samples, size_t rows, size_t count);
/* Print a column for each row, without its first skip samples: the median, us. Sorts. */
void cost_print(double **samples, size_t rows, size_t skip, size_t count);

#endif

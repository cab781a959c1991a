/* SPDX-License-Identifier: BSD-3-Clause */
/* The shapes of communication that benchmarks/promises measures. */
#ifndef BENCHMARK_PROMISE_H
#define BENCHMARK_PROMISE_H

#include <stdbool.h>
#include <stddef.h>

#define PROMISE_ARGUMENTS 3

struct promise {
	int rank, ranks;
	double start;                      /* time before MPI_Init, s */
	long arguments[PROMISE_ARGUMENTS]; /* of the shape */
};

/* Each shape is called by all ranks. One of them prints the figures. */
typedef void (*promise_shape)(const struct promise *promise);

/* How long ranks that wait notice what they wait for too late, and what their waiting costs. */
void shape_idle(const struct promise *promise);
void shape_wake(const struct promise *promise);
void shape_look(const struct promise *promise);
void shape_late(const struct promise *promise);
/* How long messages and one-sided operations take. */
void shape_beside(const struct promise *promise);
void shape_exchange(const struct promise *promise);
void shape_strided(const struct promise *promise);
void shape_scattered(const struct promise *promise);
void shape_round(const struct promise *promise);
void shape_farm(const struct promise *promise);
void shape_updates(const struct promise *promise);
void shape_stranded(const struct promise *promise);
void shape_fresh(const struct promise *promise);
/* What MPI_Init takes; memory, descriptors and mappings that communication takes. */
void shape_init(const struct promise *promise);
void shape_peer(const struct promise *promise);
void shape_rings(const struct promise *promise);
void shape_receives(const struct promise *promise);
void shape_puts(const struct promise *promise);
void shape_unexpected(const struct promise *promise);
void shape_waiting(const struct promise *promise);

/* Print one figure: NAME VALUE. */
void promise_print(const char *name, double value);
/* End the job because a figure would be worthless. */
_Noreturn void promise_fail(const char *why);
/* The largest value of all ranks, in each rank. */
double promise_largest(double value);
/* Allocate memory that begins at a huge page, or end the job. No page is touched. */
char *promise_map(size_t length);
/* Compute for this time, s, without MPI. */
void promise_work(double seconds);

#endif

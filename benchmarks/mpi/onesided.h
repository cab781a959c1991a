/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the one-sided benchmarks share. Rank 0 is the origin, rank 1 the
 * target; with -s fence the latency tests take turns, as OSU's do.
 */
#ifndef BENCHMARK_ONESIDED_H
#define BENCHMARK_ONESIDED_H

#include "benchmark.h"

/* Start one put or get of message number index between this rank and peer. */
typedef void (*onesided_fn)(struct run *run, int peer, int index);

/* Bodies of the timed loops. */
double onesided_latency(struct run *run, int repeats, onesided_fn operation);
double onesided_bandwidth(struct run *run, int repeats, onesided_fn operation);

void onesided_put(struct run *run, int peer, int index);
void onesided_get(struct run *run, int peer, int index);

/* Make the window: run->win, run->exposed. */
const char *onesided_prepare(struct run *run);
void onesided_finish(struct run *run);

void onesided_latency_header(const struct run *run);
void onesided_latency_report(const struct run *run, const struct timing *timing);
void onesided_bandwidth_header(const struct run *run);
void onesided_bandwidth_report(const struct run *run, const struct timing *timing);

void onesided_fill_put(struct run *run);
int onesided_check_put(struct run *run);
void onesided_fill_get(struct run *run);
int onesided_check_get(struct run *run);

#endif

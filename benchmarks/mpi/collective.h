/* SPDX-License-Identifier: BSD-3-Clause */
/* What the collective benchmarks share: the mean, least and greatest latency over the ranks. */
#ifndef BENCHMARK_COLLECTIVE_H
#define BENCHMARK_COLLECTIVE_H

#include "benchmark.h"

/* Time call repeats times, with an untimed barrier after each. */
double collective_time(struct run *run, int repeats, void (*call)(struct run *run));

void collective_header(const struct run *run);
void collective_report(const struct run *run, const struct timing *timing);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* What the two-sided benchmarks share. */
#ifndef BENCHMARK_PT2PT_H
#define BENCHMARK_PT2PT_H

#include "benchmark.h"

/* Send the whole window to peer, then wait for its acknowledgement; and the other end of that. */
void pt2pt_send_window(struct run *run, int peer);
void pt2pt_receive_window(struct run *run, int peer);

/* Validation of a window: every rank fills; who received from peer checks. */
void pt2pt_fill(struct run *run);
int pt2pt_check(struct run *run, int peer);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puts and gets for networks without page faults: both buffers are registered before each transfer
 * and deregistered afterwards.
 */
#ifndef TOOLS_REGISTERED_H
#define TOOLS_REGISTERED_H

#include "bench.h"

/* Make puts or gets, a window at a time. Returns 0, or -1 after a message. */
int registered_transfers(struct bench *bench, uint64_t iterations, bool put);

#endif

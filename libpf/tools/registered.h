/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puts and gets as networks need them that cannot take a page fault: both buffers are registered
 * before each transfer and deregistered after it.
 */
#ifndef TOOLS_REGISTERED_H
#define TOOLS_REGISTERED_H

#include "bench.h"

/* Make that many puts or gets, a window of them at a time. Returns 0, or -1 after a message. */
int registered_transfers(struct bench *bench, uint64_t iterations, bool put);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puts and gets as a network needs them that cannot take a fault: both
 * buffers are registered before each transfer, and deregistered after it.
 */
#ifndef TOOLS_REGISTERED_H
#define TOOLS_REGISTERED_H

#include "perf_tests.h"

/* That many transfers, window of them at a time. Returns 0, or -1 after a message. */
int registered_puts(struct bench *bench, uint64_t iterations, unsigned window);
int registered_gets(struct bench *bench, uint64_t iterations, unsigned window);

#endif

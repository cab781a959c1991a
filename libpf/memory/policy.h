/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How absent pages are brought in (enum pf_policy): what is done for memory of
 * ours that a copy is about to touch for the first time, and how much more is
 * resolved with a block that met a fault.
 */
#ifndef PF_POLICY_H
#define PF_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "pf.h"

/* Longest window; the thesis calls this the touch-ahead. */
#define POLICY_WINDOW_MOST (2ull << 20)

/* Of one transfer's faults on one side. */
struct window {
	uint64_t next; /* the offset at which a fault is in order */
	uint64_t size;
};

/* How much of [offset, length) to resolve with a block that met a fault there. */
uint64_t policy_window(enum pf_policy policy, struct window *window, uint64_t offset,
		       uint64_t block, uint64_t length);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* enum pf_policy: the memory resolved together with a block after a page fault. */
#ifndef PF_POLICY_H
#define PF_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include <libpf/pf.h>

/*
 * Bytes of the longest window of a policy that resolves ahead, which the literature on ExaNeSt calls
 * touch-ahead.
 */
#define POLICY_WINDOW_MAX (2ull << 20)

/*
 * Window of the last page fault, on one side: of a transfer on the host, where offsets count from its
 * begin; of all transfers of a context over the network, where offsets are addresses. Zeroed at
 * first.
 */
struct resolve_window {
	uint64_t next; /* offset at which a page fault continues the sequence */
	uint64_t size; /* bytes resolved for the last page fault */
};

/*
 * Bytes of [offset, end) to resolve for a page fault of the block at offset: the block, or,
 * with a policy that resolves ahead, twice the last window if page faults come in sequence.
 * block: bytes of a block.
 */
uint64_t policy_window(enum pf_policy policy, struct resolve_window *window, uint64_t offset,
		       uint64_t block, uint64_t end);
/* The longest result of policy_window, bytes. */
uint64_t policy_window_most(enum pf_policy policy, uint64_t block);

/* Return whether pages of a destination in absent memory are made present before the copy. */
bool policy_fills_destination(enum pf_policy policy);
/* Return whether huge pages are made where a transfer covers them whole. */
bool policy_makes_huge(enum pf_policy policy);

#endif

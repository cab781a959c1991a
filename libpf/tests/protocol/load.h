/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A load for a world: each host keeps some random operations with random peers in progress. Checked
 * are contents, those of puts before they complete too, guard bytes around and after transfers, order and number of messages, old values
 * of atomics, and addresses of faults.
 */
#ifndef PF_TESTS_NET_LOAD_H
#define PF_TESTS_NET_LOAD_H

#include "world.h"

struct load_settings {
	uint64_t packets; /* number after which nothing new is posted */
	unsigned depth;   /* operations of each host at a time */
	size_t longest;   /* longest transfer, bytes */
	uint32_t bad;     /* probability of an address that is not mapped, in 2^-32 */
	/* Mean time between events of each kind, over all hosts; 0: never. */
	uint64_t crash, stop, close;
	uint64_t cut, mtu; /* paths go down; the MTU changes */
};

struct load_result {
	uint64_t operations, messages, atomics, faults, lost_peers;
};

/* Size of the arena that hosts need. */
size_t load_arena(const struct load_settings *settings);
/* Size of the unmapped memory behind it, for bad addresses. */
size_t load_beyond(const struct load_settings *settings);
/* Return false after a failure, which has been printed. */
bool load_run(struct world *world, const struct load_settings *settings,
	      struct load_result *result);

#endif

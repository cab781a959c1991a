/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A load for a world: every host keeps some random operations with random peers
 * going, and every result is checked: contents, canaries around and after,
 * order and number of messages, old values of atomics, addresses of faults.
 */
#ifndef PF_TESTS_NET_LOAD_H
#define PF_TESTS_NET_LOAD_H

#include "world.h"

struct load_settings {
	uint64_t packets; /* after so many nothing new is posted */
	unsigned depth;   /* operations of each host at a time */
	size_t longest;   /* transfer */
	uint32_t bad;     /* operations on addresses that do not exist */
	/* Mean time between them, over all hosts; 0: never. */
	uint64_t crash, stop, close;
	uint64_t cut, mtu; /* of paths, changes of what passes */
};

struct load_result {
	uint64_t operations, messages, atomics, faults, lost_peers;
};

/* Arena that hosts need. */
size_t load_arena(const struct load_settings *settings);
/* And what addresses that do not exist are within, behind it. */
size_t load_beyond(const struct load_settings *settings);
/* False: something was wrong, which was said. */
bool load_run(struct world *world, const struct load_settings *settings,
	      struct load_result *result);

#endif

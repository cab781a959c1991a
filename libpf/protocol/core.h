/* SPDX-License-Identifier: BSD-3-Clause */
/* A core: associations by id and by index, and the schedule of turns. */
#ifndef PF_NET_CORE_H
#define PF_NET_CORE_H

#include "foresee.h"
#include "schedule.h"

#define CORE_IDS 256

struct net_core {
	struct shared shared;
	struct schedule schedule;
	struct foresight foresight;
	struct net_association *by_id[CORE_IDS];
	struct net_association **associations; /* by index - first */
	uint32_t first;                        /* first index of this process */
	uint32_t count, room, latest;          /* latest: the place given last */
};

_Static_assert(offsetof(struct net_core, shared) == 0, "an association finds its core by it");

static inline struct net_core *core_of(const struct net_association *association)
{
	return (struct net_core *)association->shared;
}

struct net_association *core_find(struct net_core *core, const uint8_t id[NET_ID_BYTES]);
struct net_association *core_index(struct net_core *core, uint32_t index);
/* Make an association in the tables; NULL: no memory. */
struct net_association *core_add(struct net_core *core, const uint8_t id[NET_ID_BYTES],
				 const void *info, size_t length);
/* Remove an association from the tables, and free it. */
void core_remove(struct net_core *core, struct net_association *association);
/* Set the time. A stop of this process counts as no silence of peers. */
void core_clock(struct net_core *core, uint64_t now);
/* After a change, schedule the association for output, and for its deadline. */
void core_settle(struct net_core *core, struct net_association *association);

#endif

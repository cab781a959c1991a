/* SPDX-License-Identifier: BSD-3-Clause */
/* A core: its associations, by id and by index, and when each gets its turn. */
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
	uint32_t first;                        /* index of this process */
	uint32_t count, room;
};

_Static_assert(offsetof(struct net_core, shared) == 0, "an association finds its core by it");

static inline struct net_core *core_of(const struct net_association *association)
{
	return (struct net_core *)association->shared;
}

struct net_association *core_find(struct net_core *core, const uint8_t id[NET_ID_BYTES]);
struct net_association *core_index(struct net_core *core, uint32_t index);
/* A new association, in the tables; NULL: no memory. */
struct net_association *core_add(struct net_core *core, const uint8_t id[NET_ID_BYTES],
				 const void *info, size_t length);
/* Take it out of the tables, and free it. */
void core_remove(struct net_core *core, struct net_association *association);
/* Set the time. Time in which this process did not run does not count as silence of peers. */
void core_clock(struct net_core *core, uint64_t now);
/* Something was done with an association: it gets its turn for what that asks for. */
void core_settle(struct net_core *core, struct net_association *association);

#endif

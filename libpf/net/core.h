/* SPDX-License-Identifier: BSD-3-Clause */
/* A core: its associations, which of them have something to send, and which are due next. */
#ifndef PF_NET_CORE_H
#define PF_NET_CORE_H

#include "association.h"

#define CORE_IDS 256
/* A core that waits for answers is looked at more often than this, unless its process stands still. */
#define CORE_LOOK 2000000000ull

struct net_core {
	struct net_options options;
	struct net_callbacks callbacks;
	struct net_statistics statistics;
	uint64_t now;
	uint8_t hello_key[AUTH_HASH_KEY];
	struct net_association *by_id[CORE_IDS];
	struct net_association **associations; /* by index - 1 */
	uint32_t count, room;
	struct net_association *ready, **ready_last;
	struct net_association *undelivered;
	/* A heap by deadline; the first entry is not used. */
	struct net_association **due;
	uint32_t due_count;
	uint32_t active; /* associations that are busy */
	uint32_t backup_used;
	uint32_t generation; /* of records */
	struct net_transfer *free_transfers;
	uint32_t free_count;
	struct net_association *latest; /* where data came last */
	/* The packets of this net_input that were not looked at yet. */
	struct net_packet *later;
	unsigned later_count;
	const uint8_t *payload; /* of the packet in hand: not to be read before core_stash */
	uint64_t received_at;   /* where it was received to */
	bool unreadable;        /* what is lost now, the system could not read */
	void *stash;            /* holds what lay where other bytes belong */
	uint8_t *gathered;      /* a packet in one piece */
};

struct net_association *core_find(struct net_core *core, const uint8_t id[NET_ID_BYTES]);
struct net_association *core_index(struct net_core *core, uint32_t index);
bool core_add(struct net_core *core, struct net_association *association);
void core_remove(struct net_core *core, struct net_association *association);
/* It is now; what time nobody looked in is not held against peers. */
void core_clock(struct net_core *core, uint64_t now);
/* Its deadline may have changed. */
void core_schedule(struct net_core *core, struct net_association *association);
/*
 * Payloads may lie in the user's memory, that of the packet in hand and of later
 * ones: before any is read, and before that memory is written to or the user's
 * again, they are copied from there. False: the one in hand is lost.
 */
bool core_stash(struct net_core *core);
/* Receive credit of one path now, as wire_charge counts. */
uint32_t core_credit(const struct net_core *core);

#endif

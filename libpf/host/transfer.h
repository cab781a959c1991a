/* SPDX-License-Identifier: BSD-3-Clause */
/* The record of a transfer, one put or get to a peer of this host. Progress owns the record. */
#ifndef PF_TRANSFER_H
#define PF_TRANSFER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "common/operation.h"
#include "memory/policy.h"
#include "peer.h"
#include "pf.h"
#include "share.h"

/*
 * Most blocks of one transfer that are RESOLVING at a time. The limit bounds the requests that wait
 * at the owner of the pages, and the blocks searched here; there are several for each of the
 * owner's RESOLVER_THREADS.
 */
#define TRANSFER_PARKED_MOST 32

TAILQ_HEAD(blocks, block);

struct transfer {
	struct operation operation;
	char *local;
	uint64_t remote;
	uint64_t length;
	uint64_t front;          /* end of the bytes claimed by this side */
	uint64_t run, run_end;   /* the claimed run in hand */
	struct blocks blocks;    /* blocks with a record; READY ones come first */
	unsigned moving, parked; /* number of blocks in MOVING and in RESOLVING */

	struct share *share; /* NULL: moved from this end only */
	unsigned slot, shift;
	uint32_t granules;
	bool alone;             /* not shared now: SHARE_BUSY_MAX */
	bool joined;            /* the peer took part */
	bool closed;            /* no more can be claimed */
	uint32_t peer_granules; /* claimed by the peer, once closed */
	bool by_ring;           /* some of the memory is hidden: the route stream moves the rest */
	bool failed;
	uint64_t failed_at;               /* offset of the error reported */
	struct resolve_window windows[3]; /* by enum pf_side */
};

static inline bool transfer_is_put(const struct transfer *transfer)
{
	return transfer->operation.kind == OPERATION_PUT;
}

static inline struct host_peer *transfer_peer(const struct transfer *transfer)
{
	return (struct host_peer *)transfer->operation.peer;
}

/* Return the address of the first byte on the side. */
static inline uint64_t transfer_address(const struct transfer *transfer, enum pf_side side)
{
	return side == PF_SIDE_REMOTE ? transfer->remote : (uint64_t)(uintptr_t)transfer->local;
}

/*
 * Do not start the rest of the transfer. Faults may be found and resolved in any order, but the
 * first address is reported: blocks before the fault still move.
 */
void transfer_fail(struct transfer *transfer, int status, enum pf_side side, uint64_t address);

#endif

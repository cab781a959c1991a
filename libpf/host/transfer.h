/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A transfer: one put or get, cut into blocks. Blocks are READY by being
 * ahead of the cursor, MOVING while a copy or message carries them, DONE by
 * being counted. A block gets a record of its own (block.h) only when it is on
 * its way through a ring or has met a fault.
 */
#ifndef PF_TRANSFER_H
#define PF_TRANSFER_H

#include "block.h"
#include "memory/policy.h"
#include "common/operation.h"
#include "channel.h"

struct transfer {
	struct operation operation;
	char *local;
	uint64_t remote;
	uint64_t length;
	uint64_t front;          /* bytes before it are claimed by this side */
	uint64_t run, run_end;   /* the claimed run in hand */
	struct block *blocks;    /* those with a record */
	unsigned recorded;       /* how many */
	unsigned moving, parked; /* of those, by where they are */

	struct share *share; /* NULL: moved from this end only */
	unsigned slot, shift;
	uint32_t granules;
	bool joined;            /* the peer took part */
	bool closed;            /* nobody can claim any more */
	uint32_t peer_granules; /* claimed by the peer, once closed */
	bool failed;
	uint64_t failed_at;       /* offset of the error reported */
	struct window windows[3]; /* by enum pf_side */
};

static inline bool transfer_is_put(const struct transfer *transfer)
{
	return transfer->operation.kind == OPERATION_PUT;
}

/* To a peer on this host: move what can be moved at once, and post the rest. As pf_put and pf_get. */
int transfer_post(pf_peer *peer, enum operation_kind kind, char *local, uint64_t remote,
		  size_t length, pf_complete_fn complete, void *arg);
/* Progress: offer the peer the back of a long transfer, and take the front half, if not done yet. */
void transfer_offer(pf_context *context, struct transfer *transfer);
/* Progress: does all that is left of it wait for pages? */
bool transfer_waits(const struct transfer *transfer);
/* Progress: do what can be done now; OPERATION_*. */
int transfer_advance(pf_context *context, struct transfer *transfer);
/* Progress: the peer is gone; forget what was on its way. */
void transfer_abandon(pf_context *context, struct transfer *transfer);
void transfer_release(struct transfer *transfer);

/* Progress: a block's answer came; data is its payload in the ring of from (gets). */
void block_answered(pf_context *context, struct block *block, int status, uint64_t address,
		    const struct channel *from, const uint8_t *data);

#endif

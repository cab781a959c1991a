/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A transfer moved from both ends: the initiator takes runs of granules from
 * the front, the peer from the back, until they meet. Each keeps its end of
 * the buffers in its own cache, and nobody waits for a slow partner longer
 * than for the run it has in hand. Handing out blocks from one counter
 * instead loses a quarter to cold caches.
 *
 * claim packs generation:24 | front:20 | back:20; granules [front, back) are
 * unclaimed, both ends claim by compare-and-swap. The generation changes with
 * every reuse of the slot, so a peer that comes late with an old offer cannot
 * claim from the new transfer.
 *
 * Lifetime: the initiator owns the slot, and reuses it only when every
 * granule the peer claimed is accounted for in moved or given back.
 */
#ifndef PF_SHARE_H
#define PF_SHARE_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define SHARE_GRANULES_MAX ((1u << 20) - 1)
#define SHARE_GRANULE_SHIFT 12
/* A claim costs two cache misses and a system call: below these it balances less than it costs. */
#define SHARE_FRONT_LEAST (64u << 10)
#define SHARE_BACK_LEAST (256u << 10)

struct share {
	alignas(128) _Atomic uint64_t claim;
	/* Written by the peer alone; in the line of the claim, for whoever looks at one wants both. */
	_Atomic uint64_t moved;    /* granules it finished */
	_Atomic uint64_t returned; /* start:32 | end:32, a claimed run it could not move */
};

struct granules {
	uint32_t start, end;
};

static inline uint32_t granules_count(struct granules run)
{
	return run.end - run.start;
}

/* Smallest shift at which length fits the claim word. */
static inline unsigned share_granule_shift(uint64_t length)
{
	unsigned shift = SHARE_GRANULE_SHIFT;

	while ((length - 1) >> shift >= SHARE_GRANULES_MAX)
		shift++;
	return shift;
}

/* Initiator: open the slot with [0, front) already claimed by itself. */
void share_open(struct share *share, uint32_t generation, uint32_t front, uint32_t back);

/* Initiator: claim at most most granules from the front; false when none are left. */
bool share_claim_front(struct share *share, uint32_t least, uint32_t most, struct granules *run);
/*
 * Peer: the same from the back; false also when the slot is not of this
 * generation any more. *last: nothing is left behind this run.
 */
bool share_claim_back(struct share *share, uint32_t generation, uint32_t least, uint32_t most,
		      struct granules *run, bool *last);

/* Initiator: close the rest; nobody can claim any more. Returns how many the peer claimed. */
uint32_t share_close(struct share *share, uint32_t total);
/* Initiator: has the peer claimed anything yet? */
bool share_joined(const struct share *share, uint32_t total);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A transfer that both processes move: the initiator claims runs of granules from the front, the
 * peer from the back, until both meet. Each process keeps its part of the buffers in its own cache,
 * and waits at the end for one run of the other at most. (Handing out blocks from one counter was a
 * quarter slower, because of cold caches.)
 *
 * The claim word packs generation:24 | front:20 | back:20. Granules [front, back) are unclaimed.
 * The generation changes whenever the slot is reused: a peer that handles an old offer late cannot
 * claim from the new transfer.
 *
 * Lifetime: the initiator owns the slot, and reuses the slot only when every granule that the peer
 * claimed is counted in moved or returned.
 *
 * Order of memory accesses, on x86 and arm64 alike:
 *   - claim: read-modify-write by both: each granule is claimed once. share_open stores
 *     claim last (release): a peer that claims (acquire) stores to moved and returned after
 *     both were cleared. Claims of the initiator are between the two, and need no order,
 *     because a read-modify-write continues the release sequence of the replaced store.
 *   - moved, returned: the peer stores both (release) after the copy; the initiator loads
 *     both (acquire) before the transfer completes or the slot is opened again. The peer
 *     stores moved before returned, and after returned nothing.
 *   - share_joined is a hint: relaxed.
 *
 * tests/host/test_weak.c runs the functions on a simulated weakly ordered machine, and shows the
 * need for each order.
 */
#ifndef PF_SHARE_H
#define PF_SHARE_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define SHARE_GRANULES_MAX ((1u << 20) - 1)
#define SHARE_GRANULE_SHIFT 12
/* Least bytes to claim: a claim costs two cache misses and a system call. */
#define SHARE_FRONT_LEAST (64u << 10)
#define SHARE_BACK_LEAST (256u << 10)
/*
 * Two processes with transfers gain nothing by moving half of each other's: each transfer then costs
 * two system calls and two pairs of caches, and looks up pages of sources and destinations, where twice
 * as many huge pages are needed (collapse.h). So a process claims no part of other transfers while there
 * are own transfers to copy, and tells so in the inbox (moving). And of transfers shorter than
 * SHARE_BUSY_MAX:
 *   - As long as the peer moves own transfers, the initiator copies run by run, and then offers the rest.
 *     Without a rest, up to run_max, the next SHARE_ALONE are not offered.
 *   - If the peer moves own transfers when an offered one is closed, the next SHARE_ALONE are not offered:
 *     a peer whose own transfer begins a moment after the offer helps first, and begins later.
 *   - After an offer without help SHARE_ALONE transfers are not offered, and twice as many each further
 *     time, up to SHARE_ALONE_MOST.
 * Two ranks that exchange 1 MiB, buffers of 64 MiB, after 2 s (benchmarks/promises, exchange-1M-later):
 * 85 us, all shared 127, btl/vader 133.
 */
#define SHARE_BUSY_MAX (8u << 20)
#define SHARE_ALONE 16
#define SHARE_ALONE_MOST 256

struct share {
	alignas(128) _Atomic uint64_t claim;
	/* Stored by the peer only; in the line of claim, because both are read together. */
	_Atomic uint64_t moved;    /* number of granules moved by the peer */
	_Atomic uint64_t returned; /* start:32 | end:32 of a run given back; 0: none */
};

/* [start, end) */
struct granules {
	uint32_t start, end;
};

static inline uint32_t granules_count(struct granules run)
{
	return run.end - run.start;
}

/* Return log2 of the size of a granule: the smallest size for a transfer of length bytes. */
static inline unsigned share_granule_shift(uint64_t length)
{
	unsigned shift = SHARE_GRANULE_SHIFT;

	while ((length - 1) >> shift >= SHARE_GRANULES_MAX)
		shift++;
	return shift;
}

/* Initiator: open the slot, with granules [0, front) of [0, back) claimed by itself. */
void share_open(struct share *share, uint32_t generation, uint32_t front, uint32_t back);

/*
 * Initiator: claim half of the rest, but at least least and at most most granules, from the front.
 * False when none are left.
 */
bool share_claim_front(struct share *share, uint32_t least, uint32_t most, struct granules *run);
/*
 * Peer: claim three quarters of the rest, within the limits of share_claim_front, from the back.
 * False when none are left or the slot has another generation. *last: none are left now.
 */
bool share_claim_back(struct share *share, uint32_t generation, uint32_t least, uint32_t most,
		      struct granules *run, bool *last);

/*
 * Initiator: claim the rest, and leave the peer nothing. Returns how many granules the peer has
 * claimed.
 */
uint32_t share_close(struct share *share, uint32_t total);
/* Initiator: whether the peer has claimed anything yet. */
bool share_joined(const struct share *share, uint32_t total);

/* Peer: count granules of a claimed run as moved. */
void share_add_moved(struct share *share, uint32_t count);
/* Peer: return the last claimed run, which the peer could not move. */
void share_return(struct share *share, struct granules run);
/*
 * Initiator, after share_close: return whether the peer is done with every claimed run. If done,
 * *rest is the run that the peer returned, for the initiator to move; mostly an empty run.
 */
bool share_finished(const struct share *share, uint32_t total, uint32_t claimed,
		    struct granules *rest);

#endif

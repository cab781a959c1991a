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
 * Two processes with transfers gain nothing by moving half of each other's: each transfer then
 * costs two system calls and two pairs of caches. A process that took an offer claims no part of
 * the transfer while there are transfers of its own to move. And:
 *   - A process ignores an offer shorter than SHARE_LATE_MAX from before the end of its own last
 *     unshared transfer: the offered transfer is nearly moved. Later offers are taken: messages to
 *     and fro, singly, are faster shared.
 *   - An initiator that got no help does not offer the next SHARE_ALONE transfers shorter than
 *     SHARE_BUSY_MAX with the peer, and twice as many after each further offer without help, up to
 *     SHARE_ALONE_MOST.
 * Two ranks whose processors are 25 ns apart, Open MPI 4.1, benchmarks/mpi: alltoall of 256 KiB,
 * 512 KiB and 1 MiB takes 28, 54 and 108 us; shared 30, 57 and 113. bibw of 256 KiB to 4 MiB
 * reaches 21 to 25 GB/s; shared 20 to 23. Always 16 alone cost bibw of 256 KiB 2 %.
 */
#define SHARE_LATE_MAX (256u << 10)
#define SHARE_BUSY_MAX (8u << 20)
#define SHARE_ALONE 16
#define SHARE_ALONE_MOST 256
/*
 * Apparent age of an offer, ns, above which the offering process has another clock
 * (time_namespaces(7)).
 */
#define SHARE_OFFER_AGE_MAX 1000000

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

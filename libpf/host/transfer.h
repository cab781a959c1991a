/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The record of a transfer to a peer of this host: a put or a get of pieces. The bytes of all
 * pieces are numbered in the order of the pieces; an offset is the number of a byte. Progress owns
 * the record.
 */
#ifndef PF_TRANSFER_H
#define PF_TRANSFER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "common/operation.h"
#include "memory/policy.h"
#include "peer.h"
#include <libpf/pf.h>
#include "share.h"

/*
 * Most blocks of one transfer that are RESOLVING at a time. The limit bounds the requests that wait
 * at the owner of the pages, and the blocks searched here; there are several for each of the
 * owner's RESOLVER_THREADS.
 */
#define TRANSFER_PARKED_MOST 32
/*
 * Pieces up to this length, bytes, of several transfers to a peer move together: by a single system
 * call, or in a message, which costs two system calls and an answer.
 */
#define TRANSFER_SHORT 1024

TAILQ_HEAD(blocks, block);

/*
 * A piece, at least one byte. A byte of the piece has the addresses local + offset and remote +
 * offset.
 */
struct transfer_piece {
	uint64_t local, remote;
	uint64_t end; /* offset behind the last byte */
};

struct atomic_operation;

struct transfer {
	struct operation operation;
	struct atomic_operation *signal; /* to follow the data of a put; NULL: none */
	uint64_t length;                 /* of all pieces */
	uint64_t front;                  /* end of the bytes claimed by this side */
	uint64_t run, run_end;           /* the claimed run in hand */
	struct blocks blocks;            /* blocks with a record; READY ones come first */
	unsigned moving, parked;         /* number of blocks in MOVING and in RESOLVING */

	struct share *share; /* NULL: moved from this end only */
	unsigned slot, shift;
	uint32_t granules;
	bool alone;             /* not shared: SHARE_BUSY_MAX */
	bool postponed;         /* not shared while the peer has own transfers */
	bool joined;            /* the peer took part */
	bool closed;            /* no more can be claimed */
	uint32_t peer_granules; /* claimed by the peer, once closed */
	bool by_ring;           /* some of the memory is hidden: the route stream moves the rest */
	bool failed;
	uint64_t failed_at;               /* offset of the error reported */
	struct resolve_window windows[3]; /* by enum pf_side */
	unsigned pieces_count;
	struct transfer_piece pieces[];
};

static inline bool transfer_is_put(const struct transfer *transfer)
{
	return transfer->operation.kind == OPERATION_PUT;
}

/* Is the transfer a single short piece? */
static inline bool transfer_is_short(const struct transfer *transfer)
{
	return transfer->pieces_count == 1 && transfer->length <= TRANSFER_SHORT;
}

static inline struct host_peer *transfer_peer(const struct transfer *transfer)
{
	return (struct host_peer *)transfer->operation.peer;
}

/*
 * Return the piece with the offset, less than the length. All pieces behind follow in the array.
 */
static inline const struct transfer_piece *transfer_piece_at(const struct transfer *transfer,
							     uint64_t offset)
{
	unsigned first = 0, last = transfer->pieces_count - 1, middle;

	while (first < last) {
		middle = (first + last) / 2;
		if (offset < transfer->pieces[middle].end)
			last = middle;
		else
			first = middle + 1;
	}
	return &transfer->pieces[first];
}

/* End the transfer with the status, without an address. The rest is not started. */
void transfer_fail(struct transfer *transfer, int status);
/*
 * End the transfer with PF_ERR_FAULT because of the byte at the offset. Faults may be found and
 * resolved in any order, but the first is reported: blocks before the fault still move.
 */
void transfer_fault(struct transfer *transfer, uint64_t offset, int status, enum pf_side side,
		    uint64_t address);

#endif

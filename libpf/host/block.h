/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A block of a transfer has a record only while a message or the device carries the block (MOVING),
 * or from a fault until the block was retransmitted:
 *
 *   READY -> MOVING -> the bytes are counted, the record is freed
 *     ^        |
 *     |     FAULTED -> RESOLVING
 *     +--retransmit------+
 *
 * The faulted block waits until the side that owns the page has resolved the page; all other blocks
 * keep moving. Everything here is progress's own.
 */
#ifndef PF_BLOCK_H
#define PF_BLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/fault.h"
#include "device/device.h"
#include <libpf/pf.h>
#include "transfer.h"

enum block_state { BLOCK_READY, BLOCK_MOVING, BLOCK_FAULTED, BLOCK_RESOLVING };

struct block {
	TAILQ_ENTRY(block) link;
	struct transfer *transfer;
	const struct transfer_piece *piece; /* contains the whole block */
	enum block_state state;
	uint64_t token;      /* MOVING through the ring, RESOLVING: of the request */
	struct block *along; /* MOVING through the ring: the next block in the same message */
	uint64_t offset, length;
	enum pf_side side; /* FAULTED, RESOLVING: the side that owns the page */
	uint64_t address;  /* FAULTED, RESOLVING: the address without access */
	unsigned retries;
	unsigned supplied;             /* times that a pager brought all pages, since the cut */
	bool hidden;                   /* some of the block's memory is hidden (FAULT_HIDDEN) */
	struct device_request request; /* MOVING by /dev/exanest */
	uint64_t noticed;              /* time at which the last fault was noticed, ns; 0: never */
	uint64_t started;              /* MOVING: since when, ns; 0: not traced */
};

/*
 * Return a READY block of a piece, or NULL without memory: then the transfer has failed. The offset
 * is the transfer's.
 */
struct block *block_new(struct transfer *transfer, const struct transfer_piece *piece,
			uint64_t offset, uint64_t length);
/*
 * Return a READY block from the start of the run in hand on, not longer than most and not beyond
 * the end of a piece, and take the block off the run. NULL as block_new.
 */
struct block *block_of_run(struct transfer *transfer, uint64_t most);
void block_free(struct block *block);
/* Count and record the bytes of the block as moved, and free the block. */
void block_moved(struct block *block, enum pf_stat stat);
/* Cut off the bytes behind length, as a READY block. False without memory, as block_new. */
bool block_cut(struct block *block, uint64_t length);
/* Return a READY block, or NULL. */
struct block *block_ready(struct transfer *transfer);
/* Change the state, except to READY. */
void block_set_state(struct block *block, enum block_state state);
/* READY once more. */
void block_set_ready(struct block *block);
/* The peer is gone: answers of the peer to this block will find nothing. */
void block_forget(struct host_state *host, struct block *block);
/* Return the address of the block's first byte on the side. */
uint64_t block_address(const struct block *block, enum pf_side side);
static inline void *block_pointer(const struct block *block)
{
	return (void *)(uintptr_t)(block->piece->local + block->offset);
}

/* Has the transfer failed before this block? */
bool block_given_up(const struct transfer *transfer, const struct block *block);
/*
 * Should a copy of the block wait for absent pages? Yes after the pages were brought in and were
 * gone again, more than once; and for hidden memory, whose pages cannot be brought in before.
 */
bool block_may_wait(const struct block *block);

/*
 * The block met a fault: FAULTED, then RESOLVING, by the side that owns the page. kind: the fault
 * as seen from here; the owner finds out the real kind. A block that was cut for /dev/exanest may
 * be as long as the transfer: the part behind the length that the policy resolves at once stays
 * READY.
 */
void block_fault(struct host_state *host, struct block *block, enum pf_side side, uint64_t address,
		 enum fault_kind kind);
/* The address, on the side, cannot be made accessible: end the transfer with PF_ERR_FAULT. */
void block_fail(struct block *block, enum pf_side side, uint64_t address);
/* The peer has not exposed the address: the transfer fails there. */
void block_refuse(struct block *block, uint64_t address);
/*
 * Progress: an answer, of the peer or, if NULL, of this process, to the request with the token. If the
 * request is open, the block is READY again, or the transfer has failed. False: none is open.
 */
bool block_resolved(struct host_state *host, const pf_peer *answerer, uint64_t token, int status,
		    uint64_t address, enum fault_kind kind);

#endif

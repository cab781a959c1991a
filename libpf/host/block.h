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
#include "pf.h"
#include "transfer.h"

enum block_state { BLOCK_READY, BLOCK_MOVING, BLOCK_FAULTED, BLOCK_RESOLVING };

struct block {
	TAILQ_ENTRY(block) link;
	struct transfer *transfer;
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
	uint64_t faulted;              /* time of the last fault, ns; 0: never */
	uint64_t started;              /* MOVING: since when, ns; 0: not traced */
};

/* Return a READY block, or NULL without memory: then the transfer has failed. */
struct block *block_new(struct transfer *transfer, uint64_t offset, uint64_t length);
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
/* The resolver is done with the fault: READY again, or the transfer has failed. */
void block_resolved(struct host_state *host, struct block *block, int status, uint64_t address,
		    enum fault_kind kind);

#endif

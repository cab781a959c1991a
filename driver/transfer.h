/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Transfers: submissions being carried out, and the blocks that they are cut
 * into. A transfer and its blocks come out of a table that its context has
 * from the start, so an engine allocates nothing.
 *
 * Blocks go to the engine in runs, which look like one long block until they
 * meet a fault: what lies before it has been moved by then, the block that met
 * it is parked, and what lies behind it is cut again.
 *
 * A block is READY (on its transfer's retry list, or not cut yet), MOVING (at
 * the engine), or parked: FAULTED (with the resolver of the side that it met
 * the fault on) or waiting for a pager. Only its current owner writes to
 * it; the owner changes under the lock of the list that the block goes to or
 * comes from. A transfer ends when no block of it has an owner.
 */
#ifndef EXANEST_TRANSFER_H
#define EXANEST_TRANSFER_H

#include <linux/list.h>
#include <linux/types.h>

#include "uapi/exanest.h"

#define EXANEST_BLOCK_SIZE 16384U
#define EXANEST_TRANSFER_MAX (1ULL << 40)
/* Transfers of one context in hand at a time, and blocks of one transfer. */
#define EXANEST_TRANSFERS_MAX 128U
#define EXANEST_TRANSFER_BLOCKS 8
/* Blocks that an engine is given at a time, as one, for as long as they meet no fault. */
#define EXANEST_RUN_SIZE (8 * EXANEST_BLOCK_SIZE)
/* What a context may have moved before it is the next one's turn: bytes, and runs. */
#define EXANEST_TURN_BYTES EXANEST_RUN_SIZE
#define EXANEST_TURN_RUNS 8

struct exanest_context;
struct exanest_engine;

struct exanest_block {
	struct list_head link;
	struct exanest_transfer *transfer;
	u64 offset; /* in the transfer, of what is still to be moved */
	u32 length;
	u32 retries;
	u32 forwards; /* to a pager */
	/* The fault that it met: */
	u32 side; /* enum exanest_side */
	bool write;
	bool counted;          /* as a fault, not as a miss of the translations */
	bool waits;            /* for a pager; under its lock, as are: */
	u64 ticket;            /* 0: the event is still to be sent */
	unsigned long expires; /* jiffies */
	u64 address, needs;    /* what the pager is asked for; address: of the fault */
	u64 detected;          /* ns */
};

struct exanest_transfer {
	struct list_head link; /* runnable, idle or fences of the context; or none */
	struct list_head retry;
	struct exanest_context *context; /* whose submission it is; counted while in use, as is */
	struct exanest_context *peer;    /* NULL: not in use */
	struct exanest_submission submission;
	u64 sequence;
	u64 next;        /* offset that no block was cut up to yet */
	u64 value;       /* of an atomic */
	u32 ahead[3];    /* pages that the resolver brought in ahead, by side */
	u32 waiting;     /* a fence: for so many transfers */
	u32 free_blocks; /* bitmap */
	s32 status;
	u32 fault_side;
	u64 fault_address;
	struct exanest_block blocks[EXANEST_TRANSFER_BLOCKS];
};

int exanest_transfers_alloc(struct exanest_context *context, unsigned int submissions);
void exanest_transfers_free(struct exanest_context *context);

/*
 * Give a context its turn: take submissions, have blocks moved, post
 * completions. One engine thread at a time for a context. Returns whether it
 * should have another turn.
 */
bool exanest_transfers_serve(struct exanest_engine *engine, struct exanest_context *context);

/* The address of what is still to be moved of a block, on one side. */
static inline u64 exanest_block_address(const struct exanest_block *block, u32 side)
{
	const struct exanest_submission *submission = &block->transfer->submission;

	return (side == EXANEST_SIDE_LOCAL ? submission->local : submission->remote) +
	       block->offset;
}

static inline bool exanest_block_writes(const struct exanest_block *block, u32 side)
{
	u16 op = block->transfer->submission.op;

	return side == (op == EXANEST_OP_GET ? EXANEST_SIDE_LOCAL : EXANEST_SIDE_REMOTE);
}

static inline struct exanest_context *exanest_block_owner(const struct exanest_block *block,
							  u32 side)
{
	return side == EXANEST_SIDE_LOCAL ? block->transfer->context : block->transfer->peer;
}

/*
 * How a block leaves an engine, in one of three ways, during
 * exanest_engine_operations.move or later; later, exanest_engine_ready follows.
 */
/* So much of it was moved; it is the engine's still, and offset and length are of the rest. */
void exanest_block_moved(struct exanest_block *block, u32 bytes);
/* All of it was moved. */
void exanest_block_done(struct exanest_block *block);
/*
 * What is still to be moved begins with a byte on that side that has no
 * translation, or none that may be written to.
 */
void exanest_block_fault(struct exanest_block *block, u32 side);

/* It was sent again, or to a pager, too often: its transfer is to end with -EBUSY. */
bool exanest_block_exhausted(const struct exanest_block *block);

/* How it leaves the resolver: to be sent again, or as the end of its transfer. */
void exanest_block_ready(struct exanest_block *block);
void exanest_block_fail(struct exanest_block *block, int status, u64 address);

#endif

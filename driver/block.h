/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Transfers, which are submissions being carried out, and the blocks that they are
 * cut into: what the layers above know of them. transfer.h says who owns them.
 *
 * Blocks go to the engine in runs, which look like one long block until they
 * meet a fault: what lies before it has been moved by then, the block that met
 * it is parked, and what lies behind it is cut again.
 */
#ifndef EXANEST_BLOCK_H
#define EXANEST_BLOCK_H

#include <linux/list.h>
#include <linux/types.h>

#include "page_fault.h"
#include "uapi/exanest.h"

#define EXANEST_BLOCK_SIZE 16384U
#define EXANEST_TRANSFER_MAX (1ULL << 40)
/* Transfers of one context in hand at a time, and blocks of one transfer. */
#define EXANEST_TRANSFERS_MAX 128U
#define EXANEST_TRANSFER_BLOCKS 8

struct exanest_port;

struct exanest_block {
	struct list_head link;
	struct exanest_transfer *transfer;
	u64 offset; /* in the transfer, of what is still to be moved */
	u32 length;
	bool returned; /* the engine did not take it: sent again without a fault */
	u32 side;      /* that it met the fault on, enum exanest_side */
	struct exanest_page_fault fault; /* counts how often it is sent again */
};

struct exanest_transfer {
	struct list_head link; /* runnable, idle or fences of the port; or none */
	struct list_head retry;
	struct exanest_port *port; /* whose submission it is; counted while in use, as is */
	struct exanest_port *peer; /* NULL: on another node */
	bool used;
	struct exanest_submission submission;
	u64 address; /* of port */
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

static inline struct exanest_port *exanest_block_owner(const struct exanest_block *block, u32 side)
{
	return side == EXANEST_SIDE_LOCAL ? block->transfer->port : block->transfer->peer;
}

#endif

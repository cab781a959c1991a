/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The messages inside a channel besides the user's. Offers let the peer move a transfer from its
 * end. The block messages carry transfers through the ring where single copy is not possible: the
 * initiator asks for or sends a block, the peer answers, and keeps no state between blocks.
 */
#ifndef PF_MESSAGE_H
#define PF_MESSAGE_H

#include <stdint.h>

#include "memory/atomic.h"
#include <libpf/pf.h>

/*
 * The payload of longer user messages, bytes, lies in the ring at the offset in a cache line that the
 * sender's memory has: a copy between equal offsets takes less time. glibc 2.36 on AMD EPYC, half a
 * round trip of 2500, 4096, 5000 and 8000 bytes: 0.65, 0.63, 0.68 and 1.1 us instead of 0.95, 1.4, 1.8
 * and 2.3; messages of 1500 bytes take longer in two pieces (benchmarks/mpi/latency). rep movsb on
 * Zen 5: a message of 32 KiB 2.8 instead of 3.4 us between processors without a common cache.
 */
#define MESSAGE_PIECES_LEAST (2u << 10)
#define MESSAGE_ALIGNMENT 64

enum message_kind {
	MESSAGE_USER = 1,      /* pf_send; the tag is the entry's */
	MESSAGE_PIECES,        /* MESSAGE_USER in two pieces: struct message_pieces, then both */
	MESSAGE_OFFER,         /* struct message_offer */
	MESSAGE_PUT_BLOCK,     /* struct message_block, then the bytes */
	MESSAGE_GET_BLOCK,     /* struct message_block */
	MESSAGE_ATOMIC,        /* struct message_atomic */
	MESSAGE_PUT_ANSWER,    /* struct message_answer */
	MESSAGE_GET_ANSWER,    /* struct message_answer, then the bytes unless it failed */
	MESSAGE_ATOMIC_ANSWER, /* struct message_answer */
	MESSAGE_PUT_BLOCKS,    /* struct message_blocks, that many message_piece, then the bytes */
	MESSAGE_COLLAPSE,      /* struct message_collapse; no answer */
	/* struct resolve: map the pages of a range, to be read, if the kernel has the pages. */
	MESSAGE_RESOLVE,
	MESSAGE_RESOLVED, /* the answer: struct resolve; PF_ERR_AGAIN: ask on the socket */
};

/* Only to a reader that takes pieces (channel_memory.pieces). */
struct message_pieces {
	uint32_t first; /* bytes of the first piece, as pf_receive_pieces_fn says */
	uint32_t gap;   /* bytes between the two, less than MESSAGE_ALIGNMENT */
};

/* Most bytes of the entry besides the message. */
#define MESSAGE_PIECES_EXTRA (sizeof(struct message_pieces) + MESSAGE_ALIGNMENT - 1)

struct message_offer {
	uint64_t initiator; /* address in the initiator */
	uint64_t target;    /* address in the peer */
	uint64_t length;
	uint32_t generation;
	uint16_t slot;
	uint8_t put;
	uint8_t shift; /* of a granule */
};

struct message_block {
	uint64_t token;
	uint64_t address; /* in the peer */
	uint64_t length;
	uint64_t may_wait; /* not 0: the copy waits for an absent page instead of answering with a fault */
};

/* Most blocks in a message: both sides move the blocks by one system call. */
#define MESSAGE_BLOCKS_MOST 64

/*
 * Only to a reader that takes blocks (channel_memory.blocks). The answer is MESSAGE_PUT_ANSWER. A
 * fault is in the first block that contains the address: blocks before were moved, blocks behind
 * were not.
 */
struct message_blocks {
	uint64_t token;
	uint32_t count;
	uint32_t unused;
};

struct message_piece {
	uint64_t address; /* in the peer */
	uint64_t length;
};

/* Single copies often look up pages of a range of the peer, which a huge page would save. */
struct message_collapse {
	uint64_t number; /* address, in units of the longest huge page */
};

/*
 * An op of message_atomic, besides those of pf_atomic: call pf_callbacks.notice with the address,
 * compare as the length, and operand as the value.
 */
#define MESSAGE_OP_NOTICE (PF_ATOMIC_COMPARE_SWAP + 1)

struct message_atomic {
	uint64_t token;
	struct atomic_request request;
};

struct message_answer {
	uint64_t token;
	uint64_t value; /* atomics: the value before; faults: the address */
	int32_t status; /* PF_ERR_REFUSED: the address is not exposed, or not with the right */
	uint32_t unused;
};

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The messages inside a channel besides the user's. Offers let the peer move
 * a transfer from its end. The block messages carry transfers through the
 * ring where single copy is not possible: the initiator asks for or sends one
 * block, the peer answers; it keeps no state between blocks.
 */
#ifndef PF_MESSAGE_H
#define PF_MESSAGE_H

#include <stdint.h>

#include "memory/atomic.h"

/*
 * User messages from this length on are written in pieces that the reader
 * draws into its cache while the next is written.
 */
#define MESSAGE_LONG_LEAST (8u << 10)
#define MESSAGE_PIECE (4u << 10)

enum message_kind {
	MESSAGE_USER = 1, /* pf_send; its tag is the entry's */
	MESSAGE_LONG,  /* the same, visible while it is written: _Atomic bytes written, then it */
	MESSAGE_OFFER, /* struct message_offer */
	MESSAGE_PUT_BLOCK,     /* struct message_block, then the bytes */
	MESSAGE_GET_BLOCK,     /* struct message_block */
	MESSAGE_ATOMIC,        /* struct message_atomic */
	MESSAGE_PUT_ANSWER,    /* struct message_answer */
	MESSAGE_GET_ANSWER,    /* struct message_answer, then the bytes unless it failed */
	MESSAGE_ATOMIC_ANSWER, /* struct message_answer */
};

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

struct message_atomic {
	uint64_t token;
	struct atomic_request request;
};

struct message_answer {
	uint64_t token;
	uint64_t value; /* atomics: the value before; faults: the address */
	int32_t status;
	uint32_t unused;
};

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/* The transfers of this node and their blocks: engine.md, sections 8 and 9.5. */
#ifndef MODEL_INITIATOR_H
#define MODEL_INITIATOR_H

#include "peer.h"
#include "translation.h"

#define TRANSFERS 128u /* open at a time */
#define TRANSFER_MAX (1u << 24)
#define TRANSFER_BLOCKS 8u

struct submission {
	uint8_t operation, atomic;
	uint32_t space;
	uint64_t tag, local, remote;
	uint32_t length;
	uint32_t remote_space, generation;
	uint64_t operand, compare;
};

struct transfer {
	TAILQ_ENTRY(transfer) link; /* free, cutting or ended */
	bool open, cutting;
	struct submission submission;
	struct peer *peer;
	uint32_t next; /* offset up to which blocks were cut */
	uint32_t outstanding;
	uint64_t value, address;
	uint32_t status, side;
};

enum block_state {
	BLOCK_FREE,
	BLOCK_SENDING,
	BLOCK_WAITING,
	BLOCK_PARKED,
	BLOCK_FAULTED,
	BLOCK_CANCELLING,
};

struct block {
	TAILQ_ENTRY(block) link; /* of those that have something to send */
	bool queued;
	bool sent; /* a packet of it, at least */
	bool ask; /* send a PUT without payload, CANCEL, or a GET or ATOMIC that NACK came before */
	uint8_t state;
	struct transfer *transfer;
	uint32_t offset, length; /* in the transfer */
	uint64_t sequence;
	uint64_t mask; /* PUT: granules to send; GET: that are missing; ATOMIC: 1 */
	uint32_t silent;
	uint64_t timer; /* when it ends, ns; UINT64_MAX: it does not run */
	struct fault fault;
};

struct initiator {
	struct translation *translation;
	struct space *spaces;
	struct faults *faults;
	uint32_t node;
	uint32_t payload; /* most bytes of a PUT */
	uint64_t timeout; /* ns */
	uint32_t retries;
	TAILQ_HEAD(transfer_list, transfer) free, cutting, ended;
	TAILQ_HEAD(block_list, block) sending;
	uint32_t open; /* transfers that are not free */
	struct transfer transfers[TRANSFERS];
	struct block blocks[BLOCK_SLOTS];
	uint64_t sequence[BLOCK_SLOTS];                      /* the last one of each slot */
	uint64_t bytes, blocks_done, blocks_again, timeouts; /* counters */
};

void initiator_start(struct initiator *initiator);

/* Begin a transfer that was checked. One of TRANSFERS is free (initiator->open). */
void initiator_submit(struct initiator *initiator, const struct submission *submission,
		      struct peer *peer);

/* Cut blocks from transfers, in turn, as long as there are slots. */
void initiator_cut(struct initiator *initiator, uint64_t now);

/* A transfer that ended, and its release; NULL: none. */
struct transfer *initiator_ended(struct initiator *initiator);
void initiator_release(struct initiator *initiator, struct transfer *transfer);

/* DATA, ACK, NACK or AGAIN of a peer. false: no block waits for it. */
bool initiator_receive(struct initiator *initiator, struct peer *peer, const struct packet *packet,
		       uint64_t now);

/* As target_transmit. */
bool initiator_transmit(struct initiator *initiator, struct packet *packet,
			uint8_t bytes[PACKET_MAX], struct peer **peer, uint64_t now);

/* Handle the timers that have ended. Returns when the next one will. */
uint64_t initiator_expire(struct initiator *initiator, uint64_t now);

/* The incarnation of a peer became known: blocks for it may be sent. */
void initiator_hello(struct initiator *initiator, struct peer *peer);

/* End all blocks for a peer. */
void initiator_forget(struct initiator *initiator, struct peer *peer, uint32_t status);

/* Abort all transfers of a space, or with a tag. false: there was none. */
bool initiator_detach(struct initiator *initiator, uint32_t space, uint64_t now);
bool initiator_abort(struct initiator *initiator, uint64_t tag, uint64_t now);

/* false: there is no such fault. */
bool initiator_resume(struct initiator *initiator, uint64_t fault);
bool initiator_reject(struct initiator *initiator, uint64_t fault, uint32_t status,
		      uint64_t address, uint64_t now);

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/* The state of the second engine. */
#ifndef SECOND_STATE_H
#define SECOND_STATE_H

#include <stdbool.h>
#include <sys/queue.h>

#include "interface.h"

/* What this engine offers; the register of each name tells it. */
#define FEATURES (FEATURE_ATOMICS | FEATURE_LARGE_PAGES)
#define BLOCKS 256
#define SPACES 256
#define PEERS 32
#define QUEUE_ENTRIES 1024
#define TRANSFER_MAX (1u << 24)
#define PAGE_SIZES (1u << 12 | 1u << 14 | 1u << 16)
#define ADDRESS_BITS 57
#define PHYSICAL_BITS 48
#define ATOMICS 0x003f003fu
#define DOORBELL_BASE 0
#define COMMAND_TIME 100000
#define TRANSFER_BLOCKS 8

/* The result of an access that met an absent page. The other results are of enum status. */
#define ACCESS_ABSENT 0x100u

#define NEVER UINT64_MAX

struct engine;
struct block;
struct record;
struct peer;

struct space {
	bool attached;
	u64 root;
	u64 key[2];
	u32 generation;
	u8 page_shift;
	u8 bits;
};

/* A page fault of a block or of a record, which contains it. */
struct fault {
	TAILQ_ENTRY(fault) link;
	u64 id; /* 0: there is no fault */
	u64 address;
	bool written; /* to the fault queue */
	struct block *block;
	struct record *record;
};

TAILQ_HEAD(faults, fault);

/* What may have packets to send: a block, a record, or a peer (HELLO), which contains it. */
struct sender {
	TAILQ_ENTRY(sender) link;
	bool queued;
	struct peer *peer;
	struct block *block;
	struct record *record;
};

TAILQ_HEAD(senders, sender);

enum record_state { RECORD_NONE, RECORD_RECEIVING, RECORD_FAULTED, RECORD_ENDED };

/* Section 9.6: what the target knows of the last block of a slot of a peer. */
struct record {
	struct sender sender;
	struct fault fault;
	enum record_state state;
	u32 slot;
	u64 sequence;
	u8 type;
	struct request request;
	u64 number; /* `request` of the fault entries */
	u64 mask;   /* PUT: granules that are not received; GET: granules to be sent */
	u8 atomic;
	u64 operand;
	u64 compare;
	u32 status; /* of the ACK, as are value and address */
	u64 value;
	u64 address;
};

struct peer {
	struct sender sender; /* of HELLO */
	bool set;
	bool self;
	u32 node;
	u64 incarnation; /* 0: not known */
	struct record records[PACKET_SLOTS];
};

/* An open transfer. */
struct transfer {
	TAILQ_ENTRY(transfer) link; /* in engine.uncut, if `queued` */
	bool queued;
	bool open;
	bool stopped; /* no further blocks are cut */
	struct submission submission;
	u64 key[2];
	struct peer *peer;
	u32 cut; /* bytes of which blocks were cut */
	u32 outstanding;
	struct completion result;
};

TAILQ_HEAD(transfers, transfer);

enum block_state {
	BLOCK_FREE,
	BLOCK_SENDING,
	BLOCK_WAITING,
	BLOCK_FAULTED,
	BLOCK_PARKED,
	BLOCK_CANCELLING,
};

/* A block at the initiator. Its slot is its number in engine.blocks. */
struct block {
	struct sender sender;
	struct fault fault;
	enum block_state state;
	u64 sequence; /* stays when the block ends */
	struct transfer *transfer;
	u32 offset; /* in the transfer */
	u32 length;
	u64 mask;     /* PUT: granules to be sent; GET: granules that are missing */
	bool ask;     /* not SENDING: one packet is to be sent */
	bool sent;    /* a packet of the block was sent */
	u64 deadline; /* of the timer, ns */
	u32 silent;
};

struct queue {
	u64 base;
	u32 entries;
	u32 entry_size;
	u32 producer;
	u32 consumer;
};

struct engine {
	u8 *ram;
	size_t size;
	_Alignas(8) u8 registers[REG_SIZE];
	u32 raised; /* vectors, since the adapter asked last */
	u64 now;    /* ns */

	/* Everything from here on is forgotten by a reset. */
	u32 due; /* vectors to be raised when the call ends */
	u32 node;
	u32 payload;
	u64 timeout; /* ns */
	u32 retries;
	u64 incarnation;
	u64 index_base;
	struct queue command;
	struct queue submission;
	struct queue completion;
	struct queue fault;
	u64 fault_id; /* the last one given */
	u64 request_number;
	u32 open;             /* transfers */
	struct faults faults; /* in the order of their numbers */
	struct senders remote_senders;
	struct senders local_senders; /* packets of this node to itself */
	struct transfers uncut;
	struct space spaces[SPACES];
	struct peer peers[1 + PEERS]; /* number 0 is this node */
	struct transfer transfers[QUEUE_ENTRIES];
	struct block blocks[BLOCKS];
};

#endif

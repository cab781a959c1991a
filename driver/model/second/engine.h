/* SPDX-License-Identifier: GPL-2.0 */
/* The state of the second engine, and what its parts call of each other. */
#ifndef SECOND_ENGINE_H
#define SECOND_ENGINE_H

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
	u32 status; /* CANCELLING: the result, as are side and address */
	u32 side;
	u64 address;
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

/* engine.c: registers and queues. */

/* Add to a counter. */
void count(struct engine *e, enum reg counter, u64 n);
/* Return whether the engine is READY: nothing may be accessed or sent otherwise. */
bool is_ready(const struct engine *e);
/* Return whether the engine is FAILED: no guest memory may be accessed. */
bool has_failed(const struct engine *e);
/* Record a page fault and write its entry, when there is room. */
void raise_fault(struct engine *e, struct fault *fault, u64 address);
/* Forget a page fault, if there is one. */
void clear_fault(struct engine *e, struct fault *fault);
/* Write a completion. There is room for it. */
void post_completion(struct engine *e, const struct completion *completion);

/* memory.c: spaces. All return enum status or ACCESS_ABSENT, and where the access failed. */

/* Return the memory at a physical address, or NULL if it is not all memory. */
void *physical(struct engine *e, u64 address, u64 length);
/* Translate a range of at most BLOCK_SIZE bytes, without an access. */
u32 check_memory(struct engine *e, const struct space *s, u64 address, u32 length, bool write,
		 u64 *failed);
u32 read_memory(struct engine *e, const struct space *s, u64 address, void *data, u32 length,
		u64 *failed);
/* Write all the bytes or none. */
u32 write_memory(struct engine *e, const struct space *s, u64 address, const void *data, u32 length,
		 u64 *failed);
/* Execute the atomic operation of a record, and set its value. */
u32 atomic_memory(struct engine *e, const struct space *s, struct record *r, u64 *failed);

/* link.c: blocks, records, packets. */

/* Open a transfer, whose submission was checked. */
void open_transfer(struct engine *e, const struct submission *s, struct peer *peer);
/* End the transfer with ABORTED. */
void abort_transfer(struct engine *e, struct transfer *t);
/* End the blocks and transfers to a peer, and forget its records. */
void forget_peer(struct engine *e, struct peer *peer, enum status status);
/* Make a peer, whose memory is zeros, ready for use. */
void init_peer(struct peer *peer);
/* End the records of a space with UNREACHABLE. */
void end_records(struct engine *e, u32 space);
/* Move the block or the record of a fault again. */
void resume(struct engine *e, struct fault *fault);
/* End the block or the record of a fault. */
void reject(struct engine *e, struct fault *fault, u32 status, u64 address);
/* Do all that waits neither for packets nor for time. */
void progress(struct engine *e);
/* Handle a packet of the link. */
void receive_packet(struct engine *e, const void *datagram, size_t length);
/* Make the next packet for the link; returns its length, 0: there is none. */
size_t make_packet(struct engine *e, struct packet *p);
/* Handle the time-outs that are due; returns when the next one is. */
u64 run_timers(struct engine *e);

/* The peer with a number, or NULL if it is not set. */
struct peer *find_peer(struct engine *e, u32 node);

#endif

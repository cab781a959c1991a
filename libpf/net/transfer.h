/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puts and gets on their way. An operation is what the user posted; it is cut
 * into transfers of up to 64 blocks, so that a word has a bit for each block,
 * and each block into 64 granules, so that a word has a bit for each of them.
 * A transfer has its record at both ends:
 *
 *   at the source (source.c), by block:
 *     READY (granules to send) -> sent ... lost -> READY
 *     READY -> PARKED (absent here) -> READY
 *     READY -> HELD (NACK from the destination) -> READY (AGAIN)
 *   at the destination (destination.c), by block:
 *     -> granules here -> DONE
 *     -> ABSENT (granules kept or dropped) -> granules here -> DONE
 *
 * It ends with DONE, which the destination says, or when the association does.
 */
#ifndef PF_NET_TRANSFER_H
#define PF_NET_TRANSFER_H

#include "wire.h"

#define TRANSFER_BLOCKS 64
#define TRANSFERS_MOST 256 /* open at a time of one kind in one direction */
#define ATOMICS_MOST 64
/* Bytes asked for by gets and not here yet. */
#define GET_BYTES_MOST ((uint64_t)16 << 20)

struct path;
struct sent;

/* What the user posted. */
struct operation_posted {
	struct operation_posted *next, *previous; /* all of the association; a ring */
	struct operation_posted *next_uncut;      /* those with bytes in no transfer yet */
	uint64_t local, remote, length;
	uint64_t cut;       /* bytes in transfers */
	uint64_t failed_at; /* offset of the error */
	uint32_t open;      /* transfers */
	bool get;
	int status;
	uint8_t side;
	uint64_t address;
	void *arg;
};

/* A packet kept for a block that is absent. */
struct kept {
	struct kept *next;
	uint32_t offset, length;
	uint8_t bytes[];
};

/* A block that is absent at its destination, until it is there and all has been asked for. */
struct absent {
	struct absent *next;
	uint8_t block;
	bool told;        /* NACK was sent */
	uint64_t dropped; /* granules to be asked for */
	uint64_t held;    /* granules kept */
	struct kept *kept;
};

enum transfer_tell { TELL_GET = 1, TELL_DONE = 2, TELL_CANCEL = 4, TELL_FAILED = 8 };

struct net_transfer {
	struct net_transfer *next_sending, *next_telling, *next_free;
	struct operation_posted *operation; /* NULL: the peer's */
	uint64_t local, remote;
	uint32_t id, length;
	uint32_t generation; /* of the record */
	uint8_t blocks;
	uint8_t limit; /* blocks before the first that is bad here; blocks, if none is */
	bool get, source;
	bool sending, telling; /* in those lists */
	bool finished;         /* only to be told about, then free */
	bool cancelled;        /* the source has given up */
	bool unforeseen;       /* its places cannot all be written */
	uint8_t tell;
	int status;
	uint64_t address; /* of the fault */
	/* Blocks. Source: */
	uint64_t ready;   /* with granules to send now */
	uint64_t parked;  /* absent here */
	uint64_t held;    /* the destination waits for its page */
	uint64_t checked; /* found ready to be read since their last fault */
	uint64_t suspect; /* could not be read when they were sent */
	uint64_t again;   /* with granules that were lost */
	uint64_t asked;   /* with granules that the destination asked for again */
	uint64_t dropped; /* of which the destination dropped some: see source_spurious */
	/* Destination: */
	uint64_t done;
	uint64_t absent;    /* waiting for their page */
	uint64_t predicted; /* found ready to be written */
	uint64_t before;    /* granules of the block at the limit that come before what is bad */
	uint64_t tell_nack, tell_again;
	struct absent *faults;
	/* Source: granules to send. Destination: granules here. */
	uint64_t granules[TRANSFER_BLOCKS];
};

struct net_atomic {
	struct net_atomic *next;
	struct wire_entry entry;
	void *arg;
	bool waiting; /* for its page */
	uint32_t generation;
	int status;
	uint64_t value;
};

/* Numbers in force while not busy. */
struct transfer_numbers {
	uint32_t put, get, atomic;                   /* next of ours */
	uint32_t finished;                           /* of the peer's puts: all before */
	uint64_t finished_bits[TRANSFERS_MOST / 64]; /* and these, by number modulo 256 */
};

struct transfers {
	struct operation_posted posted;                     /* head of a ring */
	struct operation_posted *uncut[2], **uncut_last[2]; /* puts, gets */
	struct net_transfer *sending, **sending_last;
	struct net_transfer *telling, **telling_last;
	struct net_transfer *ours[2][TRANSFERS_MOST], *peers[2][TRANSFERS_MOST]; /* by get */
	uint32_t oldest[2]; /* of ours that may be open */
	uint32_t open;      /* records */
	uint64_t get_bytes; /* asked for */
	struct net_atomic *atomics_uncut, **atomics_last;
	struct net_atomic *our_atomics[ATOMICS_MOST], *peer_atomics[ATOMICS_MOST];
	uint32_t oldest_atomic, atomics_open;
	uint64_t atomic_results; /* of the peer's, to be told */
	/* Where data came last: what comes next is predicted from it. */
	struct net_transfer *latest;
	uint32_t latest_end, latest_length;
};

void transfers_init(struct transfers *transfers, const struct transfer_numbers *numbers);
bool transfers_idle(const struct transfers *transfers);
/* All operations and atomics complete with this status; everything is freed. */
void transfers_abandon(struct net_association *association, int status);

struct net_transfer *transfer_new(struct net_association *association, bool get, bool source);
/* Forget the record. */
void transfer_free(struct net_association *association, struct net_transfer *transfer);
/* The record of a transfer, NULL if it has none any more. */
struct net_transfer *transfer_find(struct net_association *association, bool get, bool source,
				   uint32_t id);
/* An operation's transfer ended. */
void transfer_end(struct net_association *association, struct net_transfer *transfer, int status,
		  enum pf_side side, uint64_t address);
void transfer_tell(struct net_association *association, struct net_transfer *transfer,
		   uint8_t what);
/* Cut operations into transfers as far as windows allow. */
void transfer_cut_gets(struct net_association *association);
bool transfer_cut_put(struct net_association *association);
uint32_t transfer_block_length(const struct net_association *association,
			       const struct net_transfer *transfer, unsigned block);
/* All granules of a block. */
uint64_t transfer_block_granules(const struct net_association *association,
				 const struct net_transfer *transfer, unsigned block);
struct net_token transfer_token(const struct net_association *association,
				const struct net_transfer *transfer, unsigned block);

static inline uint64_t granule_mask(unsigned first, unsigned count)
{
	return (count < 64 ? (1ull << count) - 1 : ~0ull) << first;
}

/* Source. */
struct run {
	struct net_transfer *transfer;
	uint8_t block, granule, granules;
	uint32_t offset, length;
};

/* What to send next, at most so many granules; false: nothing now. */
bool source_next(struct net_association *association, unsigned most, struct run *run);
void source_sent(struct net_association *association, const struct run *run);
void source_start(struct net_association *association, struct net_transfer *transfer);
void source_lost(struct net_association *association, const struct sent *sent);
void source_spurious(struct net_association *association, const struct sent *sent);
void source_resolved(struct net_association *association, struct net_transfer *transfer,
		     unsigned block, int status, uint64_t bad);
void source_nack(struct net_association *association, const struct wire_entry *entry);
void source_again(struct net_association *association, const struct wire_entry *entry);
/* Copy the run's bytes. False: they are not there, and the run is not to be sent. */
bool source_fetch(struct net_association *association, const struct run *run, void *to);

/* Destination. The payload is core->payload. */
enum destination_result { DESTINATION_TAKEN, DESTINATION_REFUSED };
enum destination_result destination_data(struct net_association *association, bool get, uint32_t id,
					 const struct wire_data *data, uint32_t length);
void destination_resolved(struct net_association *association, struct net_transfer *transfer,
			  unsigned block, int status, uint64_t bad);
/* Is there a NACK, or an AGAIN for these granules, to be sent? It counts as sent. */
bool destination_nack(struct net_transfer *transfer, unsigned block);
bool destination_again(struct net_association *association, struct net_transfer *transfer,
		       unsigned block, uint64_t *granules);
/* The initiator of a put gives up. PF_OK, or PF_ERR_MEMORY: it is to be told again. */
int destination_cancel(struct net_association *association, uint32_t id);
void destination_free(struct net_association *association, struct net_transfer *transfer);
/* header: bytes before each payload. */
unsigned destination_predict(struct net_association *association, struct net_place *places,
			     unsigned most, uint32_t header);

/* Atomics (atomics.c). */
void atomics_abandon(struct net_association *association, int status);
/* Queue entries for the control stream while there is room. */
void atomics_output(struct net_association *association);
/* From the peer. PF_OK, PF_ERR_REFUSED: it broke the rules; PF_ERR_MEMORY: it is to be told again. */
int net_atomic_requested(struct net_association *association, const struct wire_entry *entry);
/* From the peer; false: it broke the rules. */
bool net_atomic_answered(struct net_association *association, const struct wire_entry *entry);
void net_atomic_resolved(struct net_association *association, struct net_token token, int status,
			 uint64_t bad);

#endif

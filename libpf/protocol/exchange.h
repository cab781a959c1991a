/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puts and gets on their way. An operation is what the user posted; it is cut
 * into transfers of up to 64 blocks, so that a word has a bit for each block,
 * and each block into 64 granules, so that a word has a bit for each of them.
 * A packet carries granules that follow each other, of one block or of several.
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
#ifndef PF_NET_EXCHANGE_H
#define PF_NET_EXCHANGE_H

#include "path.h"
#include "shared.h"
#include "stream.h"

#define TRANSFER_BLOCKS 64
#define TRANSFERS_MOST 256 /* open at a time of one kind in one direction */
#define ATOMICS_MOST 64
/* Bytes asked for by gets and not here yet. */
#define GET_BYTES_MOST ((uint64_t)16 << 20)
#define GRANULES 64             /* of a block */
#define CONTROL_RING (1u << 10) /* at first */
#define CONTROL_RING_MOST (16u << 10)
/* Bytes of messages that may be under way to a process that has taken none; rings at first. */
#define MESSAGE_RING (256u << 10)
/*
 * Most, where few associations share MESSAGE_RINGS: almost 64 messages of 64 KiB, so that neither
 * process waits for the other (benchmarks/mpi/bw: 2 to 3 times the bandwidth at 4 to 64 KiB).
 */
#define MESSAGE_RING_MOST (4u << 20)
/* What all grant together; a ring of a peer that ignores it grows to MESSAGE_RING_MOST. */
#define MESSAGE_RINGS (32u << 20)
#define MESSAGE_SPARE (NET_MESSAGE_MOST + 64)

_Static_assert(!(CONTROL_RING & (CONTROL_RING - 1)) && !(MESSAGE_RING & (MESSAGE_RING - 1)) &&
		       !(CONTROL_RING_MOST & (CONTROL_RING_MOST - 1)) &&
		       !(MESSAGE_RING_MOST & (MESSAGE_RING_MOST - 1)),
	       "rings are found by a mask");

enum { STREAM_CONTROL, STREAM_MESSAGE, STREAMS };

/* What the user posted. */
struct operation_posted {
	struct finished finished;             /* comes first: see net_take */
	TAILQ_ENTRY(operation_posted) posted; /* all of the association */
	TAILQ_ENTRY(operation_posted) uncut; /* those with bytes in no transfer yet: cut < length */
	uint64_t local, remote, length;
	uint64_t cut;       /* bytes in transfers */
	uint64_t failed_at; /* offset of the error */
	uint32_t open;      /* transfers */
	bool get;
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
	uint64_t unplaced; /* something taken could not be placed: all that is missing is asked for */
	struct absent *faults;
	/* Source: granules to send. Destination: granules here. */
	uint64_t granules[TRANSFER_BLOCKS];
};

struct net_atomic {
	struct finished finished; /* comes first: see net_take */
	struct net_atomic *next;
	struct wire_entry entry;
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

/*
 * Records by number, in a table whose size is a power of two. Those that are open differ by less
 * than TRANSFERS_MOST, so that a table of that size has room for all; most are much smaller.
 */
struct transfer_table {
	struct net_transfer **at; /* NULL: empty */
	uint32_t size;
};

TAILQ_HEAD(operations_posted, operation_posted);

struct transfers {
	/* An operation leaves either list at any time: others wait in it, any number of them. */
	struct operations_posted posted;
	struct operations_posted uncut[2];                  /* puts, gets */
	struct net_transfer *sending[2], **sending_last[2]; /* our puts, the peer's gets */
	bool gets_turn;                                     /* to be sent */
	struct net_transfer *telling, **telling_last;
	struct transfer_table ours[2], peers[2]; /* by get */
	uint32_t oldest[2];                      /* of ours that may be open */
	uint32_t open;                           /* records */
	uint32_t arriving;  /* those that are their destination, and not over */
	uint64_t get_bytes; /* asked for */
	struct net_atomic *atomics_uncut, **atomics_last;
	struct net_atomic *our_atomics[ATOMICS_MOST], *peer_atomics[ATOMICS_MOST];
	uint32_t oldest_atomic, atomics_open;
	uint64_t atomic_results; /* of the peer's, to be told */
	/*
	 * The get that data came for last, up to where, and the length of packets: where
	 * the next ones go is predicted from it. Of gets alone: the memory of a put's
	 * target may be polled meanwhile, and never holds a byte that is not the put's.
	 */
	struct net_transfer *latest;
	uint32_t latest_end, latest_length;
};

/* What stays of an exchange while its association is at rest. */
struct exchange_rest {
	uint64_t positions[2 * STREAMS]; /* of the streams: out, in */
	uint64_t message_limit;          /* up to which the peer has room */
	struct transfer_numbers numbers;
};

/*
 * What two processes exchange while something is under way: streams, transfers and
 * atomics in both directions. It knows neither its association nor its paths: what
 * these are to do about it is in "effects", which the association clears.
 */
struct exchange {
	struct shared *shared;
	struct net_association *association; /* that events name */
	struct exchange_rest *rest;
	uint32_t index; /* of the association, in tokens */
	uint32_t block_size;
	uint8_t effects;
	bool waiting; /* in the list of the same name */
	STAILQ_ENTRY(exchange) next_waiting;
	struct stream_out out[STREAMS];
	struct stream_in in[STREAMS];
	struct transfers transfers;
	uint32_t ahead;       /* bytes that messages are ahead of data that waits */
	uint64_t credit_told; /* end of the message stream last told to the peer */
	uint64_t credit_from; /* position of the first message taken in this use */
};

enum {
	EFFECT_OUTPUT = 1, /* there is something to send */
	EFFECT_CREDIT = 2, /* tell the peer of room for messages, now */
	EFFECT_EXPECT = 4, /* data of a get comes here now: see net_predict */
};

_Static_assert(TRANSFER_BLOCKS *GRANULES <= UINT16_MAX, "struct sent numbers them");

/* Granules of one block, some of a run of them. */
struct part {
	unsigned block, granule, granules;
};

/* The first part of the granules [first, end) of a transfer. */
static inline struct part run_part(unsigned first, unsigned end)
{
	unsigned granule = first % GRANULES, left = end - first;

	return (struct part){ first / GRANULES, granule,
			      left < GRANULES - granule ? left : GRANULES - granule };
}

static inline uint64_t granule_mask(unsigned first, unsigned count)
{
	return (count < 64 ? (1ull << count) - 1 : ~0ull) << first;
}

#endif

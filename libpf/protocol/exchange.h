/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puts and gets under way. The user posts an operation; the exchange cuts an operation
 * into transfers of up to 64 blocks, because a 64-bit word has a bit for each block,
 * and a block into 64 granules for an equal reason. A packet carries consecutive
 * granules, of one block or of several. A transfer has a record at both ends:
 *
 *   at the source (source.c), by block:
 *     READY (granules to send) -> sent ... lost -> READY
 *     READY -> PARKED (page absent here) -> READY
 *     READY -> HELD (NACK from the destination) -> READY (AGAIN)
 *   at the destination (destination.c), by block:
 *     -> granules here -> DONE
 *     -> ABSENT (page absent here; granules kept or dropped) -> granules here -> DONE
 *
 * A block ABSENT with dropped granules is HELD at the source from the NACK to the AGAIN.
 *
 * The signal of a put belongs to the put's last transfer, and is in each packet with the last byte:
 * a destination with all bytes knows the signal, and executes the signal before DONE. The number of the
 * transfer makes both happen once. If the put has more transfers, the source holds the last block
 * back until the rest has ended: the destination looks at a single transfer.
 *
 * A transfer ends with the entry DONE of the destination, or when the association ends.
 */
#ifndef PF_NET_EXCHANGE_H
#define PF_NET_EXCHANGE_H

#include "path.h"
#include "shared.h"
#include "stream.h"

#include "base/check.h"

#define TRANSFER_BLOCKS 64
#define TRANSFERS_MOST 256 /* open transfers of a kind in a direction */
#define ATOMICS_MOST 64
/* Bytes asked for by gets and not here yet. */
#define GET_BYTES_MOST ((uint64_t)16 << 20)
#define GRANULES 64             /* granules of a block */
#define CONTROL_RING (1u << 10) /* first size of the rings of the control stream, bytes */
#define CONTROL_RING_MOST (16u << 10)
/*
 * Bytes of messages that may be under way before the receiver takes a message, and
 * first size of the rings of the message stream.
 */
#define MESSAGE_RING (256u << 10)
/*
 * Largest ring, where few associations share MESSAGE_RINGS: almost 64 messages of 64 KiB, because
 * neither process should wait (benchmarks/mpi/bw: 2 to 3 times the bandwidth at 4 to 64 KiB).
 */
#define MESSAGE_RING_MOST (4u << 20)
/* Bytes granted by all associations; for a peer that sends more, a ring may grow to the largest. */
#define MESSAGE_RINGS (32u << 20)
#define MESSAGE_SPARE (NET_MESSAGE_MOST + 64)

_Static_assert(!(CONTROL_RING & (CONTROL_RING - 1)) && !(MESSAGE_RING & (MESSAGE_RING - 1)) &&
		       !(CONTROL_RING_MOST & (CONTROL_RING_MOST - 1)) &&
		       !(MESSAGE_RING_MOST & (MESSAGE_RING_MOST - 1)),
	       "rings are found by a mask");

enum { STREAM_CONTROL, STREAM_MESSAGE, STREAMS };

/*
 * Operation posted by the user. The bytes of all pieces are numbered in the order of the pieces; an
 * offset is the number of a byte. A transfer has bytes of one piece.
 */
struct operation_posted {
	struct finished finished;             /* first member: see net_take */
	TAILQ_ENTRY(operation_posted) posted; /* link of all operations of the association */
	TAILQ_ENTRY(operation_posted) uncut;  /* link of operations with piece < count */
	uint64_t length;    /* of all pieces; after an error, the bytes in transfers */
	uint64_t cut;       /* bytes in transfers */
	uint64_t failed_at; /* offset of the first error so far */
	uint32_t open;      /* transfers that have not ended */
	uint32_t piece;     /* the piece to cut next */
	uint32_t count;     /* of pieces; after an error, of cut pieces */
	uint64_t piece_cut; /* bytes of the piece in transfers */
	bool get, signalled;
	/*
	 * Of a put with a signal: the last transfer, with the last block HELD until the rest has
	 * ended; NULL: not cut yet, or no longer HELD.
	 */
	struct net_transfer *last;
	pf_signal signal;
	pf_piece pieces[]; /* none is empty, but a single one with a signal */
};

/* Packet in the backup ring, kept for an absent block. */
struct kept {
	struct kept *next;
	uint32_t offset, length;
	uint8_t bytes[];
};

/* Block absent at its destination, until the page is there and the AGAIN was written. */
struct absent {
	struct absent *next;
	uint8_t block;
	bool told;        /* the NACK was sent */
	uint64_t dropped; /* dropped granules: to be retransmitted */
	uint64_t kept;    /* granules in kept packets */
	struct kept *packets;
};

/* State of the signal of a put, in the last transfer. */
enum transfer_signal {
	SIGNAL_NONE,
	SIGNAL_CARRIED, /* at the source: the packet with the last byte has the signal */
	SIGNAL_KNOWN,   /* at the destination: signal and remote of the record are valid */
	SIGNAL_PARKED,  /* all data is here: waiting for the page of the word */
	SIGNAL_NOTED,   /* all data is here: in shared.finished until net_take */
	SIGNAL_TAKEN,   /* waiting for net_resolved after net_take */
};

enum transfer_tell { TELL_GET = 1, TELL_DONE = 2, TELL_CANCEL = 4, TELL_FAILED = 8 };

struct net_transfer {
	STAILQ_ENTRY(net_transfer) next_sending, next_telling;
	struct net_transfer *next_free;
	struct operation_posted *operation; /* NULL: of the peer */
	uint64_t offset;                    /* in the operation */
	uint64_t local, remote;
	uint32_t id, length;
	uint32_t generation; /* number of the use of this record */
	uint8_t blocks;
	uint8_t limit; /* number of blocks before the first bad block here; blocks, if none is bad */
	bool get, source;
	bool sending, telling; /* in transfers.sending, in transfers.telling */
	bool finished;         /* over, but for an entry to the peer; freed when written */
	bool cancelled;        /* the source has given up */
	bool unforeseen;       /* some of its places cannot be written by a receive call */
	uint8_t signalling;    /* enum transfer_signal */
	uint8_t tell;
	int status;
	uint64_t address; /* address of the fault */
	/* Blocks at the source: */
	uint64_t ready;   /* blocks with granules to send now */
	uint64_t parked;  /* blocks PARKED: waiting for a page here */
	uint64_t held;    /* blocks HELD: waiting for a page at the destination */
	uint64_t checked; /* blocks found readable since their last fault */
	uint64_t suspect; /* blocks not readable when they were sent */
	uint64_t again;   /* blocks with lost granules */
	uint64_t asked;   /* blocks with granules that the destination asked for again */
	uint64_t dropped; /* blocks with granules dropped by the destination: see source_spurious */
	/* Blocks at the destination: */
	uint64_t done;
	uint64_t absent;    /* blocks ABSENT: waiting for a page here */
	uint64_t predicted; /* blocks found writable */
	uint64_t before;    /* granules before the bad address, in the block at limit */
	uint64_t tell_nack, tell_again;
	uint64_t unplaced; /* blocks that lost accepted bytes: every missing granule is asked for */
	struct absent *faults;
	/* At the source: granules to send. At the destination: granules here. */
	uint64_t granules[TRANSFER_BLOCKS];
	/* Valid as signalling says. */
	pf_signal signal;
	struct exchange *exchange;
	struct finished noted;
};

struct net_atomic {
	struct finished finished;      /* first member: see net_take */
	STAILQ_ENTRY(net_atomic) next; /* in transfers.atomics_uncut */
	struct wire_entry entry;
	bool waiting; /* waits for a page */
	uint32_t generation;
	int status;
	uint64_t value;
};

/* Numbers that outlive the exchange, for the next use. */
struct transfer_numbers {
	uint32_t put, get, atomic; /* next numbers of this side */
	uint32_t finished;         /* all puts of the peer before are over */
	uint64_t finished_bits[TRANSFERS_MOST /
			       64]; /* later puts already over, by number modulo 256 */
};

/*
 * Records by number, in a table whose size is a power of two. Numbers of open transfers differ by
 * less than TRANSFERS_MOST: a table of TRANSFERS_MOST has room for all. Most tables are smaller.
 */
struct transfer_table {
	struct net_transfer **at; /* NULL: empty */
	uint32_t size;
};

TAILQ_HEAD(operations_posted, operation_posted);
STAILQ_HEAD(transfers_queue, net_transfer);
STAILQ_HEAD(atomics_queue, net_atomic);

struct transfers {
	/* Doubly linked: an operation leaves either list at any time, from any position. */
	struct operations_posted posted;
	struct operations_posted uncut[2]; /* puts, gets */
	struct transfers_queue sending[2]; /* own puts, the peer's gets */
	struct transfers_queue telling;
	struct atomics_queue atomics_uncut;
	bool gets_turn;                          /* the peer's gets send next */
	struct transfer_table ours[2], peers[2]; /* by get */
	uint32_t oldest[2]; /* lowest number of an own transfer that may be open, by get */
	uint32_t open;      /* records in use */
	uint32_t arriving;  /* transfers arriving here and not over */
	uint64_t get_bytes; /* bytes asked for by gets */
	struct net_atomic *our_atomics[ATOMICS_MOST], *peer_atomics[ATOMICS_MOST];
	uint32_t oldest_atomic, atomics_open;
	uint64_t atomic_results; /* results of the peer's atomics, to be written, by number modulo 64 */
	/*
	 * The get that last received data, the offset behind the data, and the length of
	 * payloads: the base of prediction. Never a put: programs may poll the target of a
	 * put, where no byte of another packet may lie at any time.
	 */
	struct net_transfer *latest;
	uint32_t latest_end, latest_length;
};

/* State kept of an exchange while the association is at rest. */
struct exchange_rest {
	uint64_t positions[2 * STREAMS]; /* ends of the streams: out, in */
	uint64_t message_limit;          /* end of the peer's room in the message stream */
	struct transfer_numbers numbers;
};

/*
 * Exchange of two processes while anything is under way: streams, transfers and
 * atomics in both directions. The exchange does not call the association or paths:
 * "effects" has the requests to them, and the association clears "effects".
 */
struct exchange {
	struct shared *shared;
	struct net_association *association; /* for events only */
	struct exchange_rest *rest;
	uint32_t index; /* index of the association, for tokens */
	uint32_t block_size;
	uint8_t effects;
	bool waiting; /* in shared.waiting */
	STAILQ_ENTRY(exchange) next_waiting;
	struct stream_out out[STREAMS];
	struct stream_in in[STREAMS];
	struct transfers transfers;
	uint32_t ahead;       /* lead of messages over waiting data, bytes */
	uint64_t credit_told; /* end of the message stream last told to the peer */
	uint64_t credit_from; /* position of the first message taken in this use */
};

enum {
	EFFECT_OUTPUT = 1, /* output may have something to send */
	EFFECT_CREDIT = 2, /* tell the peer of room for messages, now */
	EFFECT_EXPECT = 4, /* data of a get comes here now: see net_predict */
};

_Static_assert(TRANSFER_BLOCKS *GRANULES <= UINT16_MAX, "struct sent numbers them");

/* Consecutive granules of a single block. */
struct part {
	unsigned block, granule, granules;
};

/* The first part of the granules [first, end) of a transfer. */
static inline struct part run_part(unsigned first, unsigned end)
{
	unsigned granule = first % GRANULES, left = end - first;

	assert_that(first < end && end <= TRANSFER_BLOCKS * GRANULES);
	return (struct part){ first / GRANULES, granule,
			      left < GRANULES - granule ? left : GRANULES - granule };
}

static inline uint64_t granule_mask(unsigned first, unsigned count)
{
	assert_that(first < 64 && count <= 64 - first);
	return (count < 64 ? (1ull << count) - 1 : ~0ull) << first;
}

#endif

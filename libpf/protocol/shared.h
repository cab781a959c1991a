/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What all associations of a core share, for the files below the core. What
 * happened to them waits here until the user takes it (net_take).
 */
#ifndef PF_NET_SHARED_H
#define PF_NET_SHARED_H

#include <sys/queue.h>

#include "auth.h"
#include "mtu.h"
#include "senders.h"

/* That are left in the packets of one net_input: more go to the rings. */
#define RUNS_MOST 256

struct exchange;
struct stream_out;
struct net_transfer;

/* An operation that ended; the memory of what was posted, freed when it is taken. */
struct finished {
	STAILQ_ENTRY(finished) next;
	void *arg; /* the user's */
	struct net_completion completion;
};

/* Messages in the memory of a packet that came. One may go on in the next of these. */
struct message_run {
	struct net_association *association; /* NULL: closed meanwhile */
	uint8_t *bytes;
	uint32_t length;
};

/* The message at the end of the runs of which more is to come. */
struct open_message {
	struct exchange *exchange; /* NULL: there is none */
	uint64_t position;         /* in the stream, of its first byte */
	uint64_t next;             /* of the first byte that is to come */
	uint32_t missing;          /* bytes */
	uint32_t run, offset;      /* where it begins */
	uint32_t pieces;
};

/* Where the bytes belong of a piece that waits to be written, all in one block. */
struct placing {
	struct exchange *exchange;
	struct net_transfer *transfer;
	uint64_t granules;
	uint32_t offset;
};

/*
 * Payloads that were taken and are written together. They wait no longer than the
 * packets that they are in: net_input writes them before it returns.
 */
struct pieces {
	struct net_piece memory[NET_PIECES_MOST];
	struct placing of[NET_PIECES_MOST];
	unsigned count;
};

struct shared {
	struct net_options options;
	struct net_memory_operations memory;
	struct net_callbacks callbacks;
	struct net_statistics statistics;
	uint64_t now;
	const struct net_endpoint *from;  /* the packet in hand */
	struct net_endpoint dropped_from; /* the last one that was dropped, */
	enum net_drop dropped_why;
	uint8_t hello_key[AUTH_HASH_KEY];
	struct senders senders;
	struct mtu_sizes sizes;
	uint32_t busy;        /* associations that are */
	uint32_t blocked;     /* ... and have something to send that may not go yet */
	uint32_t arriving;    /* ... to which transfers do */
	uint32_t backup_used; /* bytes */
	uint32_t generation;  /* of records */
	struct net_transfer *free_transfers;
	uint32_t free_count;
	enum net_lent lent;                 /* the packet in hand */
	struct stream_out *lent_to;         /* by net_send_lent; NULL: none */
	struct message_run runs[RUNS_MOST]; /* those in [runs_first, runs_end) wait */
	uint32_t runs_first, runs_end;
	struct open_message open;
	struct pieces pieces;
	STAILQ_HEAD(, exchange) waiting; /* with whole messages in their rings */
	STAILQ_HEAD(, finished) finished;
	STAILQ_HEAD(, net_association) news; /* of them */
};

/* The packet in hand is not taken. */
static inline void drop_packet(struct shared *shared, enum net_drop why)
{
	shared->statistics.drops[why]++;
	shared->statistics.dropped++;
	shared->dropped_why = why;
	shared->dropped_from = *shared->from;
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * State shared by all associations of a core, for the files below the core. Events wait
 * here until the user takes the events (net_take).
 */
#ifndef PF_NET_SHARED_H
#define PF_NET_SHARED_H

#include <sys/queue.h>

#include "base/check.h"

#include "auth.h"
#include "mtu.h"
#include "senders.h"

/* Runs of messages in the packets of a single net_input; further messages go to the rings. */
#define RUNS_MOST 256

struct exchange;
struct stream_out;
struct net_transfer;

/*
 * An operation that ended: the start of the posted structure, which net_take frees. With status
 * PF_PENDING: a notice, and arg is the transfer.
 */
struct finished {
	STAILQ_ENTRY(finished) next;
	void *arg; /* of the user */
	struct net_completion completion;
};

/* Messages in the memory of a received packet. The last message may continue in the next run. */
struct message_run {
	struct net_association *association; /* NULL: closed since */
	uint8_t *bytes;
	uint32_t length;
};

/* The incomplete message at the end of the runs: more may come with the next packets. */
struct open_message {
	struct exchange *exchange; /* NULL: there is none */
	uint64_t position;         /* position of the first byte in the stream */
	uint64_t next;             /* position of the next byte to come */
	uint32_t missing;          /* bytes still to come */
	uint32_t run, offset;      /* first run, and offset of the message there */
	uint32_t pieces;           /* packets with bytes of the message */
};

/* The place in a transfer of a piece that waits to be written; a piece is within a block. */
struct placing {
	struct exchange *exchange;
	struct net_transfer *transfer;
	uint64_t granules; /* mask in the block */
	uint32_t offset;   /* bytes in the transfer */
};

/*
 * Payloads that were taken and are written together. net_input writes the payloads before
 * net_input returns, while the packets are still in memory.
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
	uint64_t now;                     /* time given by the user, ns */
	const struct net_endpoint *from;  /* sender of the packet in hand */
	struct net_endpoint dropped_from; /* sender of the last packet dropped */
	enum net_drop dropped_why;        /* reason of the last drop */
	uint8_t hello_key[AUTH_HASH_KEY]; /* key of tags of HELLO to this process */
	struct senders senders;
	struct mtu_sizes sizes;
	uint32_t busy;        /* number of busy associations */
	uint32_t blocked;     /* busy associations with something to send that may not go yet */
	uint32_t arriving;    /* busy associations that receive data of transfers */
	uint32_t backup_used; /* bytes in the backup ring */
	uint32_t generation;  /* of the next record */
	struct net_transfer *free_transfers; /* records for reuse, at most FREE_MOST */
	uint32_t free_count;                 /* records in free_transfers */
	enum net_lent lent;                  /* may messages stay in the packet in hand? */
	struct stream_out *lent_to;         /* stream with lent bytes (net_send_lent); NULL: none */
	struct message_run runs[RUNS_MOST]; /* runs in [runs_first, runs_end) wait */
	uint32_t runs_first, runs_end;
	struct open_message open;
	struct pieces pieces;
	STAILQ_HEAD(, exchange) waiting; /* exchanges with whole messages in rings */
	STAILQ_HEAD(, finished) finished;
	STAILQ_HEAD(, net_association) news; /* associations with net_association.news */
};

/* Count the packet in hand as dropped. */
static inline void drop_packet(struct shared *shared, enum net_drop why)
{
	assert_that(why < NET_DROPS && shared->from);
	shared->statistics.drops[why]++;
	shared->statistics.dropped++;
	shared->dropped_why = why;
	shared->dropped_from = *shared->from;
}

#endif

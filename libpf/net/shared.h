/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What all associations of a core share, for the files below the core. What
 * happened to them waits here until the user takes it (net_take).
 */
#ifndef PF_NET_SHARED_H
#define PF_NET_SHARED_H

#include <sys/queue.h>

#include "auth.h"

/* That are left in the packets of one net_input: more go to the rings. */
#define RUNS_MOST 256

struct exchange;
struct net_transfer;

/* An operation that ended; the memory of what was posted, freed when it is taken. */
struct finished {
	STAILQ_ENTRY(finished) next;
	void *arg; /* the user's */
	struct net_completion completion;
};

/* Whole messages, in the memory of a packet that came. */
struct message_run {
	struct net_association *association; /* NULL: closed meanwhile */
	uint8_t *bytes;
	uint32_t length;
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
	uint8_t hello_key[AUTH_HASH_KEY];
	uint32_t busy;        /* associations that are */
	uint32_t backup_used; /* bytes */
	uint32_t generation;  /* of records */
	struct net_transfer *free_transfers;
	uint32_t free_count;
	bool lent; /* the memory of the packet in hand stays until the messages in it were taken */
	struct message_run runs[RUNS_MOST]; /* those in [runs_first, runs_end) wait */
	uint32_t runs_first, runs_end;
	struct pieces pieces;
	STAILQ_HEAD(, exchange) waiting; /* with whole messages in their rings */
	STAILQ_HEAD(, finished) finished;
	STAILQ_HEAD(, net_association) gone;
};

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The nodes with which packets may be exchanged, and for each the records of
 * what it last asked for: engine.md, sections 9.4 and 9.6. Peer 0 is the own node.
 */
#ifndef MODEL_PEER_H
#define MODEL_PEER_H

#include "fault.h"
#include "packet.h"

#define PEERS 64u /* others */

enum record_state {
	RECORD_RECEIVING,
	RECORD_FAULTED,
	RECORD_ENDED,
};

/* A block at the target. */
struct record {
	struct peer *peer;        /* whose request it is */
	TAILQ_ENTRY(record) link; /* records that have something to send */
	bool queued;
	bool answer; /* an answer is due that the state alone does not show */
	uint8_t state, type;
	uint64_t sequence; /* 0: no request yet */
	struct request request;
	uint32_t ahead;
	uint64_t mask; /* PUT: granules received; GET: to be sent */
	uint8_t atomic;
	uint64_t operand, compare;
	uint32_t status; /* ENDED, as are: */
	uint64_t value, address;
	struct fault fault; /* FAULTED */
};

struct peer {
	uint32_t node;          /* 0: not in use */
	uint64_t incarnation;   /* 0: not known */
	bool hello;             /* is to be sent */
	struct record *records; /* BLOCK_SLOTS */
};

struct peers {
	struct peer peer[1 + PEERS];
};

/* The peer with that node number; NULL: none. Node 0 finds a free one. */
static inline struct peer *peer_find(struct peers *peers, uint32_t node)
{
	unsigned int i;

	for (i = 0; i <= PEERS; i++)
		if (peers->peer[i].node == node)
			return &peers->peer[i];
	return NULL;
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where the payloads of the next packets likely go, so that the receive call writes
 * them there; and what to do about those that belong elsewhere: they are copied
 * away before any of that memory is read for another purpose, or written to.
 */
#ifndef PF_NET_FORESEE_H
#define PF_NET_FORESEE_H

#include "association.h"

struct foresight {
	struct shared *shared;
	struct net_association *latest; /* where data came last, or is expected first */
	/* The packets received together that were not looked at yet, the one in hand first. */
	struct net_packet *packets;
	unsigned count;
	unsigned scattered; /* of them, up to the last with its payload in the user's memory */
	void *stash;        /* holds what lay where other bytes belong */
	uint8_t *gathered;  /* a packet in one piece */
};

/* These packets were received together. */
void foresee_begin(struct foresight *foresight, struct net_packet *packets, unsigned count);
/* The one in hand is done. */
void foresee_step(struct foresight *foresight);
/* All are done: forget their bytes. */
void foresee_end(struct foresight *foresight);
void foresee_destroy(struct foresight *foresight);

/* Does no payload lie in the user's memory any more? */
static inline bool foresee_apart(const struct foresight *foresight)
{
	return !foresight->scattered || foresight->stash;
}

/* Copy them all from there. False: the one in hand is lost. */
bool foresee_settle(struct foresight *foresight);
/* The payload of the packet in hand, if it lies in the user's memory, to the core's; false: lost. */
bool foresee_fetch(struct foresight *foresight, struct net_packet *packet, size_t at);
/* The same, with the header before it, in one piece. */
bool foresee_gather(struct foresight *foresight, struct net_packet *packet);

/* As net_foresees, net_predict and net_misplaced. */
bool foresee_possible(const struct foresight *foresight);
unsigned foresee_places(struct foresight *foresight, uint64_t now, struct net_place *places,
			unsigned most, uint32_t *header);
void foresee_misplaced(struct foresight *foresight);

#endif

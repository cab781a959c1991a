/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where the payloads of the next packets likely go, so that the receive call writes
 * them there; and what to do about those that belong elsewhere: they are copied
 * away before any of that memory is read for another purpose, or written to.
 * Places are only in the local memory of gets, which holds anything until they
 * complete; and only where no payload is hashed or decrypted before it is placed.
 * If several peers send at a time, other packets arrive than was foreseen, and each
 * costs one more copy: "trust" says whether it was right lately.
 */
#ifndef PF_NET_FORESEE_H
#define PF_NET_FORESEE_H

#include "association.h"

struct foresight {
	struct shared *shared;
	struct net_association *latest; /* where data of a get came last, or is expected first */
	/* The packets received together that were not looked at yet, the one in hand first. */
	struct net_packet *packets;
	unsigned count;
	unsigned scattered; /* of them, up to the last with its payload in the user's memory */
	uint8_t trust;      /* 0 to TRUST_MOST; it is foreseen from TRUST_LEAST on */
	bool offered;       /* places, for the packets received next */
	bool foreseen;      /* ... for those in hand */
	bool judged;        /* the packets received together say nothing of it any more */
	void *stash;        /* holds what lay where other bytes belong */
	uint8_t *gathered;  /* a packet in one piece */
};

void foresee_init(struct foresight *foresight, struct shared *shared);
/* These packets were received together. */
void foresee_begin(struct foresight *foresight, struct net_packet *packets, unsigned count);
/* The one in hand is done. */
void foresee_step(struct foresight *foresight);
/* All are done: forget their bytes. */
void foresee_end(struct foresight *foresight);
void foresee_destroy(struct foresight *foresight);

/* In hand is data, authentic and not taken yet: does the first of those received together come as foreseen? */
void foresee_judge(struct foresight *foresight, const struct net_association *association, bool get,
		   uint32_t transfer, uint32_t offset);

/* Does no payload lie in the user's memory any more? */
static inline bool foresee_apart(const struct foresight *foresight)
{
	return !foresight->scattered || foresight->stash;
}

/* Copy them all from there. False: the one in hand is lost. */
bool foresee_settle(struct foresight *foresight);
/* Copy the packet in hand, whose payload lies elsewhere, to one piece of the core's memory; false: lost. */
bool foresee_gather(struct foresight *foresight, struct net_packet *packet);

/* As net_foresees, net_predict and net_misplaced. */
bool foresee_possible(const struct foresight *foresight);
unsigned foresee_places(struct foresight *foresight, uint64_t now, struct net_place *places,
			unsigned most, uint32_t *header);
void foresee_misplaced(struct foresight *foresight);

#endif

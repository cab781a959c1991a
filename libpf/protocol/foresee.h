/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Prediction of where the payloads of the next packets belong. The receive call writes
 * payloads there. Misplaced payloads are copied away before the core reads or writes
 * the memory where they lie for another purpose.
 * Places are only in the local memory of gets, whose contents are undefined until the
 * gets complete, and only where no payload is hashed or decrypted before its placement.
 * If several peers send at a time, packets differ from the prediction, and each costs
 * one more copy: "trust" counts recent successes.
 */
#ifndef PF_NET_FORESEE_H
#define PF_NET_FORESEE_H

#include "association.h"

struct foresight {
	struct shared *shared;
	struct net_association *latest; /* with the get that received data last, or expects data */
	/* Packets received together and still to be handled; the first is in hand. */
	struct net_packet *packets;
	unsigned count;
	unsigned scattered; /* number of packets up to the last with a payload in user memory */
	uint8_t trust;      /* 0 to TRUST_MOST; places are predicted from TRUST_LEAST on */
	bool offered;       /* places were predicted for the next receive call */
	bool foreseen;      /* places were predicted for the packets in hand */
	bool judged;        /* the packets in hand have changed trust already */
	void *stash;        /* copies of misplaced payloads */
	uint8_t *gathered;  /* buffer for a packet in one piece */
};

void foresee_init(struct foresight *foresight, struct shared *shared);
/* Begin to handle packets received together. */
void foresee_begin(struct foresight *foresight, struct net_packet *packets, unsigned count);
/* Go on to the next packet. */
void foresee_step(struct foresight *foresight);
/* Forget the packets and the copies. */
void foresee_end(struct foresight *foresight);
void foresee_destroy(struct foresight *foresight);

/*
 * Judge the prediction by the packet in hand, authentic data and not accepted yet:
 * did the first data of the packets received together come where it was expected?
 */
void foresee_judge(struct foresight *foresight, const struct net_association *association, bool get,
		   uint32_t transfer, uint32_t offset);

/* Does no payload lie in the user's memory any more? */
static inline bool foresee_apart(const struct foresight *foresight)
{
	return !foresight->scattered || foresight->stash;
}

/* Copy all payloads out of the user's memory. False: the packet in hand is lost. */
bool foresee_settle(struct foresight *foresight);
/* Copy a packet with a separate payload to one piece of memory of the core; false: lost. */
bool foresee_gather(struct foresight *foresight, struct net_packet *packet);

/* Implement net_foresees, net_predict and net_misplaced. */
bool foresee_possible(const struct foresight *foresight);
unsigned foresee_places(struct foresight *foresight, uint64_t now, struct net_place *places,
			unsigned most, uint32_t *header);
void foresee_misplaced(struct foresight *foresight);

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/* What an engine is while it is READY, but for registers and queues. */
#ifndef MODEL_CORE_H
#define MODEL_CORE_H

#include "initiator.h"
#include "target.h"

#define SPACES 1024u

struct core_configuration {
	uint32_t node, payload, retries;
	uint64_t timeout; /* ns */
	uint64_t incarnation;
};

struct core {
	uint32_t node;
	uint64_t incarnation;
	struct translation translation;
	struct space spaces[SPACES];
	struct faults faults;
	struct peers peers;
	struct target target;
	struct initiator initiator;
	unsigned int turn; /* who sends next */
	uint64_t packets_sent, packets_received, packets_dropped;
	uint64_t resumes, rejects, invalidations;
};

/* core is zeroed memory. false: no memory. */
bool core_start(struct core *core, const struct memory *memory,
		const struct core_configuration *configuration);
void core_stop(struct core *core);

/* Make or remove a peer. core_peer_add returns false if there is no memory. */
bool core_peer_add(struct peer *peer, uint32_t node);
void core_peer_remove(struct core *core, struct peer *peer);

void core_receive(struct core *core, const uint8_t *bytes, size_t length, uint64_t now);

/*
 * The next packet for another node; its length, 0: there is none for now.
 * Packets of the node to itself are handled meanwhile, some at a time.
 */
size_t core_transmit(struct core *core, uint8_t bytes[PACKET_MAX], uint64_t now);

/* Is there anything to send? */
bool core_busy(const struct core *core);

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/* Serves the blocks of other initiators: engine.md, sections 9.6 and 10. */
#ifndef MODEL_TARGET_H
#define MODEL_TARGET_H

#include "peer.h"
#include "translation.h"

struct target {
	struct translation *translation;
	struct space *spaces;
	uint32_t spaces_count;
	struct faults *faults;
	struct peers *peers;
	uint32_t payload; /* most bytes of a DATA */
	TAILQ_HEAD(record_list, record) sending;
	uint64_t denied, atomics; /* counters */
};

/* A request or CANCEL of a peer. false: it is to be dropped. */
bool target_receive(struct target *target, struct peer *peer, const struct packet *packet);

/*
 * The next packet, without source and incarnations; payload is written to
 * bytes. *peer: to whom. false: there is none.
 */
bool target_transmit(struct target *target, struct packet *packet, uint8_t bytes[PACKET_MAX],
		     struct peer **peer);

/* Forget all records of a peer. */
void target_forget(struct target *target, struct peer *peer);

/* End all records of a space with UNREACHABLE. */
void target_detach(struct target *target, uint32_t space);

/* false: there is no such fault. */
bool target_resume(struct target *target, uint64_t fault);
bool target_reject(struct target *target, uint64_t fault, uint32_t status, uint64_t address);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Atomic operations: carried out by the peer's own processor inside its
 * pf_progress, or by a device's engine with the same instructions, so they are
 * atomic towards everything on that host.
 */
#ifndef PF_ATOMIC_H
#define PF_ATOMIC_H

#include <stdbool.h>

#include "common/operation.h"
#include "message.h"

struct atomic_operation {
	struct operation operation;
	struct message_atomic message;
	bool sent, answered;
	unsigned retries; /* of a device, whose page went away each time */
};

/* To a peer on this host; as pf_atomic. */
int atomic_post(pf_peer *peer, enum pf_atomic_op op, unsigned width, uint64_t remote,
		uint64_t operand, uint64_t compare, pf_complete_fn complete, void *arg);
int atomic_advance(pf_context *context, struct atomic_operation *atomic);
void atomic_abandon(pf_context *context, struct atomic_operation *atomic);
void atomic_answered(struct atomic_operation *atomic, int status, uint64_t value);

bool atomic_valid(unsigned op, unsigned width, uint64_t address);
/* On our own memory. PF_OK, or PF_ERR_FAULT with the address in *value. */
int atomic_execute(const struct message_atomic *message, uint64_t *value);

#endif

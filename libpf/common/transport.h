/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What libpf asks of a way to move bytes to a peer. Each peer has one, chosen
 * by its address.
 */
#ifndef PF_TRANSPORT_H
#define PF_TRANSPORT_H

#include <stdbool.h>

#include "operation.h"
#include "pf.h"

struct transport {
	const char *name;
	/* As pf_send, or pf_send_pack if pack is not NULL. */
	int (*send)(pf_peer *peer, uint8_t tag, const void *header, size_t header_length,
		    const void *payload, size_t length, pf_pack_fn pack, void *arg);
	/* As pf_put and pf_get; length is not 0, and no address overflows. */
	int (*transfer)(pf_peer *peer, enum operation_kind kind, char *local, uint64_t remote,
			size_t length, pf_complete_fn complete, void *arg);
	/* As pf_atomic, of arguments that are valid. */
	int (*atomic)(pf_peer *peer, enum pf_atomic_op op, unsigned width, uint64_t remote,
		      uint64_t operand, uint64_t compare, pf_complete_fn complete, void *arg);
	/* Progress, for operations that were posted: do what can be done now; OPERATION_*. */
	int (*advance)(pf_context *context, struct operation *operation);
	/* Progress: the peer is gone; forget what was on its way. */
	void (*abandon)(pf_context *context, struct operation *operation);
	/* What the operation has besides itself. */
	void (*release)(struct operation *operation);
};

extern const struct transport transport_host;
extern const struct transport transport_net;

#endif

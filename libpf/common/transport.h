/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of a transport: the questions of the API to a way to reach a peer. Each peer has one
 * transport, chosen by its address. Opening, polling and closing a transport is between the
 * transport and the context alone (host/host.h, net/network.h).
 */
#ifndef PF_TRANSPORT_H
#define PF_TRANSPORT_H

#include <stdbool.h>

#include "operation.h"
#include "pf.h"

struct transport {
	const char *name;
	/* Bytes of its peer record, of which struct pf_peer is the first member. */
	size_t peer_size;
	/* The record is zeroed, but for struct pf_peer. Both may be NULL. */
	void (*peer_init)(pf_peer *peer);
	void (*peer_destroy)(pf_peer *peer);
	/* Send as pf_send, or as pf_send_pack if pack is not NULL. */
	int (*send)(pf_peer *peer, uint8_t tag, const void *header, size_t header_length,
		    const void *payload, size_t length, pf_pack_fn pack, void *arg);
	/* Progress: would send take a message of this length, or fail for good? */
	bool (*has_room)(pf_peer *peer, size_t length);
	/* Post as pf_put and pf_get; length is not 0, and no address overflows. */
	int (*transfer)(pf_peer *peer, enum operation_kind kind, char *local, uint64_t remote,
			size_t length, pf_complete_fn complete, void *arg);
	/* Post as pf_atomic, with valid arguments. */
	int (*atomic)(pf_peer *peer, enum pf_atomic_op op, unsigned width, uint64_t remote,
		      uint64_t operand, uint64_t compare, pf_complete_fn complete, void *arg);
};

extern const struct transport transport_host;
extern const struct transport transport_net;

#endif

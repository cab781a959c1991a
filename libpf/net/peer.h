/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peers of the transport "net": operations of libpf in terms of the protocol core. The functions are
 * for the table of the transport (common/transport.h).
 */
#ifndef PF_NET_PEER_H
#define PF_NET_PEER_H

#include "common/peer.h"

void net_peer_forget(pf_peer *peer);
void net_peer_destroy(pf_peer *peer);
/* Implement pf_peer_contact. */
int net_peer_contact(pf_peer *peer, bool wait, const char **why);

int net_transport_send(pf_peer *peer, uint32_t tag, const void *header, size_t header_length,
		       const void *payload, size_t length, pf_pack_fn pack, void *arg);
bool net_transport_has_room(pf_peer *peer, size_t length);
int net_transport_transfer(pf_peer *peer, enum operation_kind kind, const pf_piece *pieces,
			   unsigned count, uint64_t length, pf_complete_fn complete, void *arg);
int net_transport_put_signal(pf_peer *peer, const pf_piece *piece, const pf_signal *signal,
			     pf_complete_fn complete, void *arg);
int net_transport_atomic(pf_peer *peer, enum pf_atomic_op op, unsigned width, uint64_t remote,
			 uint64_t operand, uint64_t compare, pf_complete_fn complete, void *arg);

#endif

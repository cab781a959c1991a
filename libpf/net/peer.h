/* SPDX-License-Identifier: BSD-3-Clause */
/* Peers that the network reaches: libpf's operations in the core's terms (transport_net). */
#ifndef PF_NET_PEER_H
#define PF_NET_PEER_H

#include "common/peer.h"

/* The application opens the peer: it may have called us before. */
void net_peer_meet(pf_peer *peer);
/* As pf_peer_contact. */
int net_peer_contact(pf_peer *peer, bool wait, const char **why);

#endif

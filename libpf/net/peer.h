/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transport "net": operations of libpf in terms of the protocol core (transport_net).
 */
#ifndef PF_NET_PEER_H
#define PF_NET_PEER_H

#include "common/peer.h"

/* Bind a peer that the application opens to its process, if the process has called before. */
void net_peer_meet(pf_peer *peer);
/* Implement pf_peer_contact. */
int net_peer_contact(pf_peer *peer, bool wait, const char **why);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Peers: pf.h documents every function here. */
#include "common/peer.h"

#include "context/context.h"

int pf_peer_open(pf_context *context, const void *bytes, size_t length, void *user, pf_peer **peer)
{
	uint8_t data[PF_DATA_MOST];
	struct address address;
	int status = address_parse(&address, data, bytes, length);

	return status == PF_OK ? context_peer_open(context, &address, data, user, peer) : status;
}

void pf_peer_close(pf_peer *peer)
{
	peers_close(&peer->context->peers, peer);
}

int pf_peer_contact(pf_peer *peer, int wait, const char **why)
{
	return context_peer_contact(peer, wait != 0, why);
}

void *pf_peer_user(const pf_peer *peer)
{
	return atomic_load_explicit(&((pf_peer *)peer)->user, memory_order_relaxed);
}

const void *pf_peer_data(const pf_peer *peer, size_t *length)
{
	*length = peer->data_length;
	return *length ? (const uint8_t *)peer + peer->transport->peer_size : NULL;
}

enum pf_peer_state pf_peer_state(const pf_peer *peer)
{
	return (enum pf_peer_state)peer_state(peer);
}

const char *pf_peer_path(const pf_peer *peer)
{
	return peer_path(peer);
}

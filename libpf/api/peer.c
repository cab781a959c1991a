/* SPDX-License-Identifier: BSD-3-Clause */
/* Peers: pf.h documents every function here. */
#include "common/peer.h"

#include "context/context.h"

int pf_peer_open(pf_context *context, const void *bytes, size_t length, void *user, pf_peer **peer)
{
	struct address address;
	int status = address_parse(&address, bytes, length);

	return status == PF_OK ? context_peer_open(context, &address, user, peer) : status;
}

void pf_peer_close(pf_peer *peer)
{
	struct peers *peers = &peer->context->peers;

	/*
	 * The record stays until pf_close: the peer's process may still write to the own process.
	 */
	peers_lock(peers);
	if (peer->count && !--peer->count)
		peer->user = NULL;
	peers_unlock(peers);
}

int pf_peer_contact(pf_peer *peer, int wait, const char **why)
{
	return context_peer_contact(peer, wait != 0, why);
}

void *pf_peer_user(const pf_peer *peer)
{
	return atomic_load_explicit(&((pf_peer *)peer)->user, memory_order_relaxed);
}

const char *pf_peer_path(const pf_peer *peer)
{
	return peer_path(peer);
}

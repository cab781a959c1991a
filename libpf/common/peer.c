/* SPDX-License-Identifier: BSD-3-Clause */
#include "peer.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

void peers_init(struct peers *peers, bool threads)
{
	peers->threads = threads;
	pthread_mutex_init(&peers->lock, NULL);
	TAILQ_INIT(&peers->refused);
}

static void peer_free(pf_peer *peer)
{
	peer_forget_address(peer);
	free(peer);
}

void peers_destroy(struct peers *peers)
{
	while (peers->first) {
		pf_peer *peer = peers->first;

		peers->first = peer->next;
		if (peer->transport->peer_destroy)
			peer->transport->peer_destroy(peer);
		peer_free(peer);
	}
	pthread_mutex_destroy(&peers->lock);
}

static pf_peer *peer_new(pf_context *context, const uint8_t id[ADDRESS_ID_BYTES],
			 const struct address *address, const struct transport *transport)
{
	pf_peer *peer = calloc(1, transport->peer_size);

	if (!peer)
		return NULL;
	if (address) {
		peer->address = malloc(sizeof(*peer->address));
		if (!peer->address) {
			free(peer);
			return NULL;
		}
		*peer->address = *address;
	}
	peer->context = context;
	peer->transport = transport;
	memcpy(peer->id, id, sizeof(peer->id));
	peer_set_path(peer, "not used yet");
	if (transport->peer_init)
		transport->peer_init(peer);
	return peer;
}

/* Under the lock. */
static pf_peer *look_up(const struct peers *peers, const uint8_t id[ADDRESS_ID_BYTES])
{
	pf_peer *peer = peers->first;

	assert_locked(&peers->lock, peers->threads);
	while (peer && memcmp(peer->id, id, sizeof(peer->id)) != 0)
		peer = peer->next;
	return peer;
}

pf_peer *peers_find(struct peers *peers, const uint8_t id[ADDRESS_ID_BYTES])
{
	pf_peer *peer;

	peers_lock(peers);
	peer = look_up(peers, id);
	peers_unlock(peers);
	return peer;
}

pf_peer *peers_get(struct peers *peers, pf_context *context, const uint8_t id[ADDRESS_ID_BYTES],
		   const struct address *address, const struct transport *transport)
{
	pf_peer *peer;

	assert_that(transport);
	peers_lock(peers);
	peer = look_up(peers, id);
	if (!peer) {
		peer = peer_new(context, id, address, transport);
		if (peer) {
			peer->next = peers->first;
			peers->first = peer;
		}
	}
	peers_unlock(peers);
	return peer;
}

void peer_forget_address(pf_peer *peer)
{
	if (peer->address)
		sodium_memzero(peer->address, sizeof(*peer->address));
	free(peer->address);
	peer->address = NULL;
}

void peer_set_gone(struct peers *peers, pf_peer *peer, int status, const char *why, bool farewell)
{
	assert_progress(peer->context);
	peer->gone_status = status;
	peer->farewell = farewell;
	peer_set_path(peer, why);
	peer_set_state(peer, PEER_GONE);
	peers->gone = true;
	atomic_store_explicit(&peers->news, true, memory_order_relaxed);
}

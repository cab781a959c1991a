/* SPDX-License-Identifier: BSD-3-Clause */
#include "turns.h"
#include "base/check.h"

static struct host_peer *operation_peer(const struct operation *operation)
{
	return (struct host_peer *)operation->peer;
}

static struct operation_queue *operation_queue(const struct operation *operation)
{
	struct host_peer *peer = operation_peer(operation);

	return operation->kind >= OPERATION_ATOMIC ? &peer->atomics : &peer->transfers;
}

static bool peer_has_ready(const struct host_peer *peer)
{
	return !TAILQ_EMPTY(&peer->atomics) || !TAILQ_EMPTY(&peer->transfers);
}

/* Before the first operation of the peer is added. */
static void peer_enter(struct host_peer *peer)
{
	if (!peer_has_ready(peer))
		TAILQ_INSERT_TAIL(&peer->peer.context->host->turns, peer, turn);
}

void operation_enter(struct operation *operation)
{
	assert_progress(operation->peer->context);
	peer_enter(operation_peer(operation));
	TAILQ_INSERT_TAIL(operation_queue(operation), operation, ready);
	operation->is_ready = true;
}

void operation_wake(struct operation *operation)
{
	assert_progress(operation->peer->context);
	if (operation->is_ready)
		return;
	peer_enter(operation_peer(operation));
	TAILQ_INSERT_HEAD(operation_queue(operation), operation, ready);
	operation->is_ready = true;
}

void operation_leave(struct operation *operation)
{
	struct host_peer *peer = operation_peer(operation);

	assert_progress(operation->peer->context);
	if (!operation->is_ready)
		return;
	TAILQ_REMOVE(operation_queue(operation), operation, ready);
	operation->is_ready = false;
	if (!peer_has_ready(peer))
		TAILQ_REMOVE(&peer->peer.context->host->turns, peer, turn);
}

void turns_pass(struct host_peer *peer)
{
	struct host_state *host = peer->peer.context->host;

	assert_progress(peer->peer.context);
	if (!peer_has_ready(peer))
		return;
	TAILQ_REMOVE(&host->turns, peer, turn);
	TAILQ_INSERT_TAIL(&host->turns, peer, turn);
}

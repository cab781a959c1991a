/* SPDX-License-Identifier: BSD-3-Clause */
#include "refused.h"

#include <stdlib.h>

#include "base/check.h"
#include "owners.h"

struct refused {
	TAILQ_ENTRY(refused) next;
	pf_peer *peer;
	enum refused_kind kind;
	size_t length; /* of the message */
	bool seen;     /* by refused_tell: refused in an earlier call of progress */
};

int refused_add(pf_peer *peer, enum refused_kind kind, size_t length)
{
	pf_context *context = peer->context;
	struct peers *peers = &context->peers;
	struct refused *refused = NULL;
	int status = PF_ERR_AGAIN;

	if (kind == REFUSED_MESSAGE)
		statistic_add(&context->statistics, PF_STAT_RING_FULL, 1);
	peers_lock(peers);
	if (!(peer->refused & kind)) {
		refused = malloc(sizeof(*refused));
		if (refused) {
			*refused = (struct refused){ .peer = peer, .kind = kind, .length = length };
			TAILQ_INSERT_TAIL(&peers->refused, refused, next);
			peer->refused |= (uint8_t)kind;
			atomic_store_explicit(&peers->news, true, memory_order_relaxed);
		} else {
			status = PF_ERR_MEMORY;
		}
	}
	peers_unlock(peers);
	/* Room comes without a message: a thread asleep in progress must look for room. */
	if (refused && context->posts_wake)
		context->wake(context);
	return status;
}

/* Would the refused call find room, or the error of a gone peer? */
static bool has_room(const struct refused *refused)
{
	pf_peer *peer = refused->peer;

	assert_progress(refused->peer->context);
	if (refused->kind == REFUSED_MESSAGE)
		return peer->transport->has_room(peer, refused->length);
	return peer_is_gone(peer) || operations_have_room(&peer->context->operations);
}

/* Under the lock. */
static void refused_remove(struct peers *peers, struct refused *refused)
{
	assert_locked(&peers->lock, true);
	TAILQ_REMOVE(&peers->refused, refused, next);
	refused->peer->refused &= (uint8_t)~refused->kind;
	free(refused);
}

/* Under the lock, which is released around the callback. */
static void refused_report(pf_context *context, struct refused *refused)
{
	struct peers *peers = &context->peers;
	pf_peer *peer = refused->peer;

	refused_remove(peers, refused);
	peers_unlock(peers);
	owners_tell_room(context, peer);
	peers_lock(peers);
}

/*
 * While the lock is released, other threads and the callback only append. New entries, theirs
 * included, wait for the next call: the present call ends, and no call of progress tells of a
 * refusal during the call.
 */
int refused_tell(pf_context *context)
{
	struct peers *peers = &context->peers;
	struct refused *refused, *next;
	int count = 0;
	bool room;

	assert_progress(context);
	peers_lock(peers);
	for (refused = TAILQ_FIRST(&peers->refused); refused; refused = next) {
		room = refused->seen;
		refused->seen = true;
		if (room) {
			peers_unlock(peers);
			room = has_room(refused);
			peers_lock(peers);
		}
		next = TAILQ_NEXT(refused, next);
		if (!room)
			continue;
		refused_report(context, refused);
		count++;
	}
	if (!TAILQ_EMPTY(&peers->refused))
		atomic_store_explicit(&peers->news, true, memory_order_relaxed);
	peers_unlock(peers);
	return count;
}

void refused_forget(pf_peer *peer)
{
	struct peers *peers = &peer->context->peers;
	struct refused *refused, *next;

	assert_progress(peer->context);
	peers_lock(peers);
	for (refused = TAILQ_FIRST(&peers->refused); refused && peer->refused; refused = next) {
		next = TAILQ_NEXT(refused, next);
		if (refused->peer == peer)
			refused_remove(peers, refused);
	}
	peers_unlock(peers);
}

void refused_destroy(pf_context *context)
{
	struct refused *refused;

	while ((refused = TAILQ_FIRST(&context->peers.refused))) {
		TAILQ_REMOVE(&context->peers.refused, refused, next);
		free(refused);
	}
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "owners.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

/* A message without an owner: a copy. */
struct unowned {
	STAILQ_ENTRY(unowned) next;
	pf_peer *from;
	uint32_t tag;
	uint32_t length;
	_Alignas(8) uint8_t bytes[];
};

void owners_init(struct owners *owners)
{
	STAILQ_INIT(&owners->waiting);
}

void owners_destroy(struct owners *owners)
{
	struct unowned *message;
	unsigned i;

	while ((message = STAILQ_FIRST(&owners->waiting))) {
		STAILQ_REMOVE_HEAD(&owners->waiting, next);
		free(message);
	}
	for (i = 0; i < PF_OWNERS_MOST; i++)
		free(owners->place[i]);
}

int owners_add(pf_context *context, uint32_t first, uint32_t last, const pf_callbacks *callbacks,
	       pf_owner **result)
{
	struct owners *owners = &context->owners;
	unsigned i, place = PF_OWNERS_MOST;
	struct pf_owner *owner;

	assert_progress(context);
	for (i = 0; i < PF_OWNERS_MOST; i++) {
		owner = owners->place[i];
		if (owner && first <= owner->last && owner->first <= last)
			return PF_ERR_ARGUMENT;
		if (!owner)
			place = i;
	}
	if (place == PF_OWNERS_MOST)
		return PF_ERR_MEMORY;
	owner = malloc(sizeof(*owner));
	if (!owner)
		return PF_ERR_MEMORY;
	*owner = (struct pf_owner){ context, first, last, place, *callbacks };
	owners->place[place] = owner;
	owners->count++;
	owners->added = !STAILQ_EMPTY(&owners->waiting);
	if (owners->added)
		atomic_store_explicit(&context->peers.news, true, memory_order_relaxed);
	*result = owner;
	return PF_OK;
}

void owners_remove(pf_owner *owner)
{
	pf_context *context = owner->context;

	assert_progress(context);
	assert_that(context->owners.place[owner->place] == owner);
	context->owners.place[owner->place] = NULL;
	context->owners.count--;
	peers_forget_user(&context->peers, owner->place);
	free(owner);
}

/* The callbacks for messages with the tag. */
static const pf_callbacks *callbacks_of(const pf_context *context, uint32_t tag)
{
	const struct owners *owners = &context->owners;
	unsigned i;

	for (i = 0; i < PF_OWNERS_MOST && owners->count; i++) {
		const struct pf_owner *owner = owners->place[i];

		if (owner && tag >= owner->first && tag <= owner->last)
			return &owner->callbacks;
	}
	return &context->callbacks;
}

static void pieces_gather(uint8_t *to, const struct iovec *pieces, unsigned count)
{
	unsigned i;

	for (i = 0; i < count; i++) {
		memcpy(to, pieces[i].iov_base, pieces[i].iov_len);
		to += pieces[i].iov_len;
	}
}

/* Copy a message into one piece, for the caller to free. NULL: no memory. */
static struct unowned *message_copy(pf_peer *from, uint32_t tag, const struct iovec *pieces,
				    unsigned count, size_t length)
{
	struct unowned *message = malloc(sizeof(*message) + length);

	if (!message)
		return NULL;
	message->from = from;
	message->tag = tag;
	message->length = (uint32_t)length;
	pieces_gather(message->bytes, pieces, count);
	return message;
}

static size_t waiting_bytes(const struct unowned *message)
{
	return sizeof(*message) + message->length;
}

static bool wait_for_owner(struct owners *owners, struct unowned *message)
{
	if (!message || message->from->waiting + waiting_bytes(message) > PF_UNOWNED_MOST) {
		free(message);
		return false;
	}
	message->from->waiting += (uint32_t)waiting_bytes(message);
	STAILQ_INSERT_TAIL(&owners->waiting, message, next);
	return true;
}

bool owners_receive(pf_context *context, pf_peer *from, uint32_t tag, const struct iovec *pieces,
		    unsigned count, size_t length)
{
	const pf_callbacks *callbacks;
	struct unowned *message;

	assert_progress(context);
	/* Before newer ones. */
	while (context->owners.added)
		(void)owners_give_waiting(context);
	callbacks = callbacks_of(context, tag);
	if (count > 1 && callbacks->receive_pieces) {
		callbacks->receive_pieces(context, from, tag, pieces, count, callbacks->arg);
		return true;
	}
	if (count == 1 && callbacks->receive) {
		callbacks->receive(context, from, tag, pieces->iov_base, length, callbacks->arg);
		return true;
	}
	message = message_copy(from, tag, pieces, count, length);
	if (!callbacks->receive)
		return wait_for_owner(&context->owners, message);
	/* In one piece for a library without receive_pieces. */
	if (message)
		callbacks->receive(context, from, tag, message->bytes, length, callbacks->arg);
	free(message);
	return message != NULL;
}

/* Take a message that waits out of the list. */
static void stop_waiting(struct owners *owners, struct unowned *message)
{
	STAILQ_REMOVE(&owners->waiting, message, unowned, next);
	message->from->waiting -= (uint32_t)waiting_bytes(message);
}

/* Until a callback adds an owner, perhaps of earlier messages: then the next call goes on. */
int owners_give_waiting(pf_context *context)
{
	struct owners *owners = &context->owners;
	struct unowned *message, *next;
	int count = 0;

	assert_progress(context);
	owners->added = false;
	for (message = STAILQ_FIRST(&owners->waiting); message && !owners->added; message = next) {
		const pf_callbacks *callbacks = callbacks_of(context, message->tag);

		next = STAILQ_NEXT(message, next);
		if (!callbacks->receive)
			continue;
		stop_waiting(owners, message);
		callbacks->receive(context, message->from, message->tag, message->bytes,
				   message->length, callbacks->arg);
		free(message);
		count++;
	}
	return count;
}

/* Drop the messages of a peer that has ended. */
static void forget_waiting(struct owners *owners, const pf_peer *peer)
{
	struct unowned *message, *next;

	for (message = STAILQ_FIRST(&owners->waiting); message && peer->waiting; message = next) {
		next = STAILQ_NEXT(message, next);
		if (message->from != peer)
			continue;
		stop_waiting(owners, message);
		free(message);
	}
}

static void tell_room(pf_context *context, const pf_callbacks *callbacks, pf_peer *peer)
{
	if (callbacks->room)
		callbacks->room(context, peer, callbacks->arg);
}

void owners_tell_room(pf_context *context, pf_peer *peer)
{
	struct owners *owners = &context->owners;
	unsigned i;

	assert_progress(context);
	tell_room(context, &context->callbacks, peer);
	for (i = 0; i < PF_OWNERS_MOST; i++) {
		if (owners->place[i])
			tell_room(context, &owners->place[i]->callbacks, peer);
	}
}

static void tell_end(pf_context *context, const pf_callbacks *callbacks, pf_peer *peer)
{
	if (callbacks->peer_event)
		callbacks->peer_event(context, peer, (enum pf_peer_state)peer_state(peer),
				      peer->gone_status, peer_path(peer), callbacks->arg);
}

void owners_tell_end(pf_context *context, pf_peer *peer)
{
	struct owners *owners = &context->owners;
	unsigned i;

	assert_progress(context);
	while (owners->added)
		(void)owners_give_waiting(context);
	forget_waiting(owners, peer);
	tell_end(context, &context->callbacks, peer);
	for (i = 0; i < PF_OWNERS_MOST; i++) {
		if (owners->place[i])
			tell_end(context, &owners->place[i]->callbacks, peer);
	}
}

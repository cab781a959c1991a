/* SPDX-License-Identifier: BSD-3-Clause */
#include "answer.h"

#include <assert.h>
#include <stdlib.h>

#include "atomic.h"
#include "base/allocate.h"
#include "base/check.h"
#include "message.h"
#include "request.h"
#include "resolve.h"
#include "route_stream.h"

struct answer {
	struct answer *next;
	struct host_peer *peer;
	uint8_t kind;
	struct message_answer message;
	uint64_t address, length; /* gets: the block to send along */
	bool may_wait;            /* for an absent page of the block */
};

/* A peer that keeps to the protocol is read, however much the peer has asked. */
static_assert(REQUESTS_MOST <= ANSWERS_MOST, "its requests never fill the answers");

void answers_init(struct answers *answers, pf_context *context)
{
	answers->context = context;
	answers->turn = 0;
	answers->first = NULL;
	answers->last = &answers->first;
}

bool answers_prepare(struct answers *answers)
{
	assert_progress(answers->context);
	if (__builtin_expect(!answers->spare, 0))
		answers->spare = malloc(sizeof(*answers->spare));
	return answers->spare != NULL;
}

void answers_destroy(struct answers *answers)
{
	free(answers->spare);
	while (answers->first) {
		struct answer *answer = answers->first;

		answers->first = answer->next;
		free(answer);
	}
	answers->last = &answers->first;
}

/*
 * Return whether the answer was sent. If not, the answer waits: for room, or, before the first
 * message to the peer, for a descriptor or memory for the channel. answers_forget drops the answer
 * if the peer is gone.
 */
static bool send_answer(pf_context *context, const struct answer *answer)
{
	struct host_peer *peer = answer->peer;
	uint64_t length = answer->message.status == PF_OK ? answer->length : 0, bad = 0;
	struct message_answer *message;
	/* Checked here, not on arrival: the answer may have waited for room. */
	bool permitted = exposure_permits(&context->memory.exposure, answer->address, length,
					  PF_EXPOSE_READ, &bad);
	int status;

	host_peer_lock(peer);
	message = (struct message_answer *)host_peer_reserve(
		peer, sizeof(*message) + (permitted ? length : 0), &status);
	if (message) {
		*message = answer->message;
		if (!permitted) {
			message->status = PF_ERR_REFUSED;
			message->value = bad;
			length = 0;
		}
		if (length) {
			size_t ready = memory_ready(&context->memory, answer->address, length,
						    false);
			size_t moved = ready < length && !answer->may_wait ?
					       ready :
					       channel_fill(&peer->out, (uint8_t *)(message + 1),
							    (void *)(uintptr_t)answer->address,
							    length);
			if (moved < length) {
				message->status = channel_can_copy(&peer->out, length) ?
							  PF_ERR_FAULT :
							  PF_ERR_MEMORY;
				message->value = answer->address + moved;
				length = 0;
			}
		}
		host_peer_commit(peer, sizeof(*message) + length, answer->kind, 0);
	}
	host_peer_unlock(peer);
	return message;
}

static bool answer_give(struct answers *answers, struct host_peer *peer,
			const struct answer *answer)
{
	struct answer *waiting;

	/* In order: a waiting answer is not overtaken, and none waits for ever. */
	if (!peer->answers_waiting && send_answer(answers->context, answer))
		return true;
	waiting = answers->spare;
	answers->spare = NULL;
	*waiting = *answer;
	waiting->next = NULL;
	*answers->last = waiting;
	answers->last = &waiting->next;
	peer->answers_waiting++;
	return true;
}

static bool put_block(struct answers *answers, struct incoming *incoming,
		      const struct ring_entry *entry)
{
	struct answer answer = { .peer = incoming->peer, .kind = MESSAGE_PUT_ANSWER };
	struct message_block block;

	if (entry->length < sizeof(block))
		return false;
	memcpy(&block, entry->payload, sizeof(block));
	if (!block.length || block.length != entry->length - sizeof(block))
		return false;
	answer.message.token = block.token;
	if (exposure_permits(&answers->context->memory.exposure, block.address, block.length,
			     PF_EXPOSE_WRITE, &answer.message.value))
		answer.message.status = stream_place(answers->context, &incoming->channel,
						     entry->payload + sizeof(block),
						     (void *)(uintptr_t)block.address, block.length,
						     block.may_wait, &answer.message.value);
	else
		answer.message.status = PF_ERR_REFUSED;
	return answer_give(answers, incoming->peer, &answer);
}

/* Place blocks up to the first not exposed for writing; the answer tells of the latter. */
static int blocks_place(pf_context *context, struct channel *from, const uint8_t *data,
			const struct iovec *to, unsigned count, uint64_t *address)
{
	uint64_t bad = 0;
	unsigned i;
	int status;

	for (i = 0; i < count; i++) {
		if (!exposure_permits(&context->memory.exposure, (uintptr_t)to[i].iov_base,
				      to[i].iov_len, PF_EXPOSE_WRITE, &bad))
			break;
	}
	status = i ? stream_place_all(context, from, data, to, i, address) : PF_OK;
	if (i == count || status != PF_OK)
		return status;
	*address = bad;
	return PF_ERR_REFUSED;
}

static bool put_blocks(struct answers *answers, struct incoming *incoming,
		       const struct ring_entry *entry)
{
	struct answer answer = { .peer = incoming->peer, .kind = MESSAGE_PUT_ANSWER };
	struct iovec to[MESSAGE_BLOCKS_MOST];
	struct message_blocks blocks;
	struct message_piece piece;
	uint64_t left = entry->length;
	uint8_t *at = entry->payload;
	uint32_t i;

	if (left < sizeof(blocks))
		return false;
	memcpy(&blocks, at, sizeof(blocks));
	at += sizeof(blocks);
	left -= sizeof(blocks);
	if (!blocks.count || blocks.count > MESSAGE_BLOCKS_MOST ||
	    left < blocks.count * sizeof(piece))
		return false;
	left -= blocks.count * sizeof(piece);
	for (i = 0; i < blocks.count; i++, at += sizeof(piece)) {
		memcpy(&piece, at, sizeof(piece));
		if (!piece.length || piece.length > left)
			return false;
		left -= piece.length;
		to[i] = (struct iovec){ (void *)(uintptr_t)piece.address, piece.length };
	}
	if (left)
		return false;
	answer.message.token = blocks.token;
	answer.message.status = blocks_place(answers->context, &incoming->channel, at, to,
					     blocks.count, &answer.message.value);
	return answer_give(answers, incoming->peer, &answer);
}

static bool get_block(struct answers *answers, struct incoming *incoming,
		      const struct ring_entry *entry)
{
	struct answer answer = { .peer = incoming->peer, .kind = MESSAGE_GET_ANSWER };
	struct message_block block;

	if (entry->length != sizeof(block))
		return false;
	memcpy(&block, entry->payload, sizeof(block));
	if (!block.length)
		return false;
	answer.message.token = block.token;
	answer.address = block.address;
	answer.length = block.length;
	answer.may_wait = block.may_wait;
	/*
	 * The rings of this process may be smaller than the peer's: answer how much the rings
	 * carry.
	 */
	if (block.length > stream_answer_most(answers->context)) {
		answer.message.status = PF_ERR_TOO_LONG;
		answer.message.value = stream_answer_most(answers->context);
	}
	return answer_give(answers, incoming->peer, &answer);
}

/*
 * An atomic of a peer, on an absent page. Progress does not wait for the page, the resolver does.
 * Progress executes the atomic once the page is present.
 */
struct parked_atomic {
	struct resolution resolution;
	struct host_state *host;
	struct host_peer *peer;
	struct message_atomic message;
};

/* Return as atomic_execute, or PF_ERR_AGAIN: the page has to be resolved first. */
static int try_atomic(struct memory *memory, const struct atomic_request *request, uint64_t *value)
{
	bool quick;
	int status;

	if (memory_ready(memory, request->address, request->width, true) < request->width ||
	    pager_lacks(&memory->pagers, request->address))
		return PF_ERR_AGAIN;
	status = atomic_execute(request, value);
	/* The application may evict a pager's page at any moment. */
	if (status == PF_ERR_FAULT && pager_owns(&memory->pagers, request->address, &quick))
		return PF_ERR_AGAIN;
	return status;
}

static bool atomic_is_permitted(struct memory *memory, const struct atomic_request *request,
				uint64_t *bad)
{
	return exposure_permits(&memory->exposure, request->address, request->width,
				EXPOSURE_ATOMIC, bad);
}

static bool answer_atomic(struct answers *answers, struct host_peer *peer, uint64_t token,
			  int status, uint64_t value)
{
	const struct answer answer = { .peer = peer,
				       .kind = MESSAGE_ATOMIC_ANSWER,
				       .message = {
					       .token = token, .status = status, .value = value } };

	return answer_give(answers, peer, &answer);
}

/* Any thread. */
static void atomic_resolved(struct resolution *resolution)
{
	struct parked_atomic *parked = (struct parked_atomic *)resolution;

	notices_report(&parked->host->notices,
		       &(struct notice){ .kind = NOTICE_ATOMIC, .atomic = parked });
}

static void park_atomic(struct answers *answers, struct parked_atomic *parked)
{
	const struct atomic_request *request = &parked->message.request;

	statistic_add(&answers->context->statistics, PF_STAT_LOCAL_FAULTS, 1);
	/* Not the number of a connection: numbers of connections are small. */
	parked->resolution = (struct resolution){ .asker = (uintptr_t)parked->peer,
						  .address = request->address,
						  .length = request->width,
						  .write = true,
						  .done = atomic_resolved };
	memory_resolve(&answers->context->memory, &parked->resolution);
}

static bool give_notice(struct answers *answers, struct host_peer *peer,
			const struct message_atomic *message)
{
	const struct atomic_request *request = &message->request;
	pf_context *context = answers->context;

	if (context->callbacks.notice)
		context->callbacks.notice(context, &peer->peer, request->address, request->compare,
					  request->operand, context->callbacks.arg);
	return answer_atomic(answers, peer, message->token, PF_OK, 0);
}

static bool do_atomic(struct answers *answers, struct incoming *incoming,
		      const struct ring_entry *entry)
{
	struct memory *memory = &answers->context->memory;
	struct host_peer *peer = incoming->peer;
	struct message_atomic message;
	struct parked_atomic *parked;
	uint64_t value = 0;
	int status;

	if (entry->length != sizeof(message))
		return false;
	memcpy(&message, entry->payload, sizeof(message));
	if (message.request.op == MESSAGE_OP_NOTICE)
		return give_notice(answers, peer, &message);
	if (!atomic_valid(message.request.op, message.request.width, message.request.address))
		return false;
	if (!atomic_is_permitted(memory, &message.request, &value))
		return answer_atomic(answers, peer, message.token, PF_ERR_REFUSED, value);
	status = try_atomic(memory, &message.request, &value);
	/* The resolver may be able to bring a page although the kernel reports no such page. */
	if (status == PF_ERR_AGAIN || status == PF_ERR_FAULT) {
		parked = calloc(1, sizeof(*parked));
		if (parked) {
			parked->host = answers->context->host;
			parked->peer = peer;
			parked->message = message;
			peer->atomics_parked++;
			park_atomic(answers, parked);
			return true;
		}
		/* Without memory progress waits for the page after all. */
		status = atomic_execute(&message.request, &value);
	}
	return answer_atomic(answers, peer, message.token, status, value);
}

void parked_atomic_free(struct parked_atomic *atomic)
{
	free(atomic);
}

void answers_atomic_resolved(struct answers *answers, struct parked_atomic *parked)
{
	const struct atomic_request *request = &parked->message.request;
	uint64_t value = parked->resolution.failed;
	int status = parked->resolution.status;
	struct host_peer *peer = parked->peer;

	assert_progress(answers->context);
	statistic_fault(&answers->context->statistics, PF_SIDE_LOCAL, parked->resolution.kind);
	if (peer_is_gone(&peer->peer)) {
		peer->atomics_parked--;
		free(parked);
		return;
	}
	/* Also of one that failed: why is the business of a permitted peer. */
	if (!atomic_is_permitted(&answers->context->memory, request, &value)) {
		status = PF_ERR_REFUSED;
	} else if (status == PF_OK) {
		status = try_atomic(&answers->context->memory, request, &value);
		if (status == PF_ERR_AGAIN) {
			park_atomic(answers, parked);
			return;
		}
	}
	if (!answers->spare)
		answers->spare = allocate_or_wait(sizeof(*answers->spare));
	answer_atomic(answers, peer, parked->message.token, status, value);
	peer->atomics_parked--;
	free(parked);
}

bool answer_request(struct answers *answers, struct incoming *incoming,
		    const struct ring_entry *entry)
{
	assert_progress(answers->context);
	activity_moved(&answers->context->activity);
	switch (entry->kind) {
	case MESSAGE_PUT_BLOCK:
		return put_block(answers, incoming, entry);
	case MESSAGE_PUT_BLOCKS:
		return put_blocks(answers, incoming, entry);
	case MESSAGE_GET_BLOCK:
		return get_block(answers, incoming, entry);
	case MESSAGE_ATOMIC:
		return do_atomic(answers, incoming, entry);
	default:
		return false;
	}
}

bool answer_resolved(struct host_state *host, struct host_peer *owner, const void *payload,
		     size_t length)
{
	struct resolve answer;
	bool first, late;

	if (length != sizeof(answer))
		return false;
	memcpy(&answer, payload, sizeof(answer));
	if (!resolve_answered(host, owner, &answer, &late))
		return true;
	first = block_resolved(host, &owner->peer, answer.token,
			       resolve_status_received(answer.status), answer.address,
			       fault_kind_received(answer.kind));
	resolve_judge(owner, first && !late);
	return true;
}

bool answer_arrived(struct host_state *host, struct incoming *incoming,
		    const struct ring_entry *entry)
{
	bool atomic = entry->kind == MESSAGE_ATOMIC_ANSWER;
	struct message_answer message;
	const uint8_t *data = NULL;
	struct block *block;
	void *object;

	assert_progress(host->context);
	if (entry->length < sizeof(message))
		return false;
	memcpy(&message, entry->payload, sizeof(message));
	if (message.status > PF_OK || message.status < PF_ERR_SYSTEM)
		return false;
	object = request_close(&host->requests, message.token,
			       atomic ? REQUEST_ATOMIC : REQUEST_BLOCK, &incoming->peer->peer);
	/* A token that was never given out, or was forgotten: ignore the answer. */
	if (!object)
		return true;
	if (atomic) {
		atomic_answered(object, message.status, message.value);
		return true;
	}
	block = object;
	if ((entry->kind == MESSAGE_PUT_ANSWER) != transfer_is_put(block->transfer)) {
		/* The bytes would go to the source of the put; a get would end without bytes. */
		message.status = PF_ERR_PROTOCOL;
	} else if (entry->kind == MESSAGE_GET_ANSWER && message.status == PF_OK) {
		if (entry->length - sizeof(message) != block->length)
			message.status = PF_ERR_PROTOCOL;
		data = entry->payload + sizeof(message);
	}
	stream_answered(host, block, message.status, message.value, &incoming->channel, data);
	return true;
}

int answers_advance(struct answers *answers)
{
	struct answer **link = &answers->first;
	int count = 0;

	assert_progress(answers->context);
	answers->turn++;
	/* A peer without room holds up the answers to that peer alone. */
	while (*link) {
		struct answer *answer = *link;

		if (answer->peer->answers_held == answers->turn ||
		    !send_answer(answers->context, answer)) {
			answer->peer->answers_held = answers->turn;
			link = &answer->next;
			continue;
		}
		*link = answer->next;
		answer->peer->answers_waiting--;
		free(answer);
		count++;
	}
	answers->last = link;
	return count;
}

void answers_forget(struct answers *answers, const struct host_peer *peer)
{
	struct answer **link = &answers->first;

	assert_progress(answers->context);
	answers->last = &answers->first;
	while (*link) {
		struct answer *answer = *link;

		if (answer->peer == peer) {
			*link = answer->next;
			answer->peer->answers_waiting--;
			free(answer);
		} else {
			link = &answer->next;
			answers->last = link;
		}
	}
}

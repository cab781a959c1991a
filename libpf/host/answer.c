/* SPDX-License-Identifier: BSD-3-Clause */
#include "answer.h"

#include <stdlib.h>

#include "atomic.h"
#include "context/context.h"
#include "memory/policy.h"
#include "message.h"
#include "common/peer.h"
#include "stream.h"
#include "transfer.h"

struct answer {
	struct answer *next;
	pf_peer *peer;
	uint8_t kind;
	struct message_answer message;
	uint64_t address, length; /* gets: the block to send along */
	bool patient;
};

void answers_init(struct answers *answers)
{
	answers->first = NULL;
	answers->last = &answers->first;
}

bool answers_prepare(struct answers *answers)
{
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

/* PF_OK: sent, or never will be. */
static int send_answer(pf_context *context, const struct answer *answer)
{
	pf_peer *peer = answer->peer;
	uint64_t length = answer->message.status == PF_OK ? answer->length : 0;
	struct message_answer *message;
	int status = PF_OK;

	peer_lock(peer);
	message = (struct message_answer *)peer_reserve(peer, sizeof(*message) + length, &status);
	if (message) {
		*message = answer->message;
		if (length) {
			size_t ready = policy_prepare(context, answer->address, length, false);
			size_t moved =
				ready < length && !answer->patient ?
					ready :
					channel_fill(&peer->host->out, (uint8_t *)(message + 1),
						     (void *)(uintptr_t)answer->address, length);
			if (moved < length) {
				message->status = PF_ERR_FAULT;
				message->value = answer->address + moved;
				length = 0;
			} else {
				statistic_add(&context->statistics, PF_STAT_STREAM_BYTES, length);
			}
		}
		peer_commit(peer, sizeof(*message) + length, answer->kind, 0);
	}
	peer_unlock(peer);
	return status;
}

static bool give(pf_context *context, struct incoming *incoming, const struct answer *answer)
{
	struct answers *answers = &context->answers;
	struct answer *waiting;

	/* In order: a waiting answer is not overtaken, so none waits for ever. */
	if (!incoming->peer->host->answers_waiting && send_answer(context, answer) != PF_ERR_AGAIN)
		return true;
	waiting = answers->spare;
	answers->spare = NULL;
	*waiting = *answer;
	waiting->next = NULL;
	*answers->last = waiting;
	answers->last = &waiting->next;
	incoming->peer->host->answers_waiting++;
	return true;
}

static bool put_block(pf_context *context, struct incoming *incoming,
		      const struct ring_entry *entry)
{
	struct answer answer = { .peer = incoming->peer, .kind = MESSAGE_PUT_ANSWER };
	struct message_block block;

	if (entry->length < sizeof(block))
		return false;
	memcpy(&block, entry->payload, sizeof(block));
	if (block.length != entry->length - sizeof(block))
		return false;
	answer.message.token = block.token;
	answer.message.status = stream_place(context, &incoming->channel,
					     entry->payload + sizeof(block),
					     (void *)(uintptr_t)block.address, block.length,
					     block.patient, &answer.message.value);
	return give(context, incoming, &answer);
}

static bool get_block(pf_context *context, struct incoming *incoming,
		      const struct ring_entry *entry)
{
	struct answer answer = { .peer = incoming->peer, .kind = MESSAGE_GET_ANSWER };
	struct message_block block;

	if (entry->length != sizeof(block))
		return false;
	memcpy(&block, entry->payload, sizeof(block));
	answer.message.token = block.token;
	answer.address = block.address;
	answer.length = block.length;
	answer.patient = block.patient;
	/* Our ring may be smaller than the asker's: say how much it carries. */
	if (block.length > stream_answer_most(context)) {
		answer.message.status = PF_ERR_TOO_LONG;
		answer.message.value = stream_answer_most(context);
	}
	return give(context, incoming, &answer);
}

static bool do_atomic(pf_context *context, struct incoming *incoming,
		      const struct ring_entry *entry)
{
	struct answer answer = { .peer = incoming->peer, .kind = MESSAGE_ATOMIC_ANSWER };
	struct message_atomic message;

	if (entry->length != sizeof(message))
		return false;
	memcpy(&message, entry->payload, sizeof(message));
	if (!atomic_valid(message.op, message.width, message.address))
		return false;
	answer.message.token = message.token;
	answer.message.status = atomic_execute(&message, &answer.message.value);
	return give(context, incoming, &answer);
}

bool answer_request(pf_context *context, struct incoming *incoming, const struct ring_entry *entry)
{
	context_moved(context);
	switch (entry->kind) {
	case MESSAGE_PUT_BLOCK:
		return put_block(context, incoming, entry);
	case MESSAGE_GET_BLOCK:
		return get_block(context, incoming, entry);
	case MESSAGE_ATOMIC:
		return do_atomic(context, incoming, entry);
	default:
		return false;
	}
}

bool answer_arrived(pf_context *context, struct incoming *incoming, const struct ring_entry *entry)
{
	bool atomic = entry->kind == MESSAGE_ATOMIC_ANSWER;
	struct message_answer message;
	const uint8_t *data = NULL;
	void *object;

	if (entry->length < sizeof(message))
		return false;
	memcpy(&message, entry->payload, sizeof(message));
	if (message.status > PF_OK || message.status < PF_ERR_SYSTEM)
		return false;
	object = request_close(&context->requests, message.token,
			       atomic ? REQUEST_ATOMIC : REQUEST_BLOCK, incoming->peer);
	/* A token that we never gave out, or gave up: not an error of ours. */
	if (!object)
		return true;
	if (atomic) {
		atomic_answered(object, message.status, message.value);
		return true;
	}
	if (entry->kind == MESSAGE_GET_ANSWER && message.status == PF_OK) {
		if (entry->length - sizeof(message) != ((struct block *)object)->length)
			message.status = PF_ERR_REFUSED;
		data = entry->payload + sizeof(message);
	}
	block_answered(context, object, message.status, message.value, &incoming->channel, data);
	return true;
}

int answers_advance(pf_context *context)
{
	struct answers *answers = &context->answers;
	struct answer **link = &answers->first;
	const pf_peer *full = NULL;
	int count = 0;

	/* A peer whose ring is full holds up its own answers, not those of others. */
	while (*link) {
		struct answer *answer = *link;

		if (answer->peer == full || send_answer(context, answer) == PF_ERR_AGAIN) {
			full = answer->peer;
			link = &answer->next;
			continue;
		}
		*link = answer->next;
		answer->peer->host->answers_waiting--;
		free(answer);
		count++;
	}
	answers->last = link;
	return count;
}

void answers_forget(pf_context *context, const pf_peer *peer)
{
	struct answers *answers = &context->answers;
	struct answer **link = &answers->first;

	answers->last = &answers->first;
	while (*link) {
		struct answer *answer = *link;

		if (answer->peer == peer) {
			*link = answer->next;
			answer->peer->host->answers_waiting--;
			free(answer);
		} else {
			link = &answer->next;
			answers->last = link;
		}
	}
}

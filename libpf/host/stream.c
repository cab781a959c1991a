/* SPDX-License-Identifier: BSD-3-Clause */
#include "stream.h"

#include "memory/policy.h"
#include "message.h"
#include "common/peer.h"

uint64_t stream_block_most(const pf_peer *peer, uint64_t block_size)
{
	uint64_t longest = stream_answer_most(peer->context);

	if (peer->host->block_most && peer->host->block_most < longest)
		longest = peer->host->block_most;
	return longest < block_size ? longest : block_size;
}

uint64_t stream_answer_most(const pf_context *context)
{
	return context->options.ring_size / 4;
}

int stream_put(pf_peer *peer, uint64_t token, const void *local, uint64_t remote, uint64_t length,
	       bool patient, uint64_t *address)
{
	uint64_t ready = policy_prepare(peer->context, (uint64_t)(uintptr_t)local, length, false);
	struct message_block *message;
	int status = PF_OK;
	size_t moved;

	if (ready < length && !patient) {
		*address = (uint64_t)(uintptr_t)local + ready;
		return PF_ERR_FAULT;
	}
	peer_lock(peer);
	message = (struct message_block *)peer_reserve(peer, sizeof(*message) + length, &status);
	if (message) {
		*message = (struct message_block){ token, remote, length, patient };
		moved = channel_fill(&peer->host->out, (uint8_t *)(message + 1), local, length);
		if (moved == length) {
			peer_commit(peer, sizeof(*message) + length, MESSAGE_PUT_BLOCK, 0);
		} else {
			/* Not committed: the space is simply used by the next message. */
			*address = (uint64_t)(uintptr_t)local + moved;
			status = PF_ERR_FAULT;
		}
	}
	peer_unlock(peer);
	return status;
}

int stream_get(pf_peer *peer, uint64_t token, uint64_t remote, uint64_t length, bool patient)
{
	struct message_block *message;
	int status = PF_OK;

	peer_lock(peer);
	message = (struct message_block *)peer_reserve(peer, sizeof(*message), &status);
	if (message) {
		*message = (struct message_block){ token, remote, length, patient };
		peer_commit(peer, sizeof(*message), MESSAGE_GET_BLOCK, 0);
	}
	peer_unlock(peer);
	return status;
}

int stream_place(pf_context *context, const struct channel *from, const uint8_t *data, void *local,
		 uint64_t length, bool patient, uint64_t *address)
{
	size_t ready = policy_prepare(context, (uint64_t)(uintptr_t)local, length, true);
	size_t moved = ready < length && !patient ? ready :
						    channel_place(from, data, local, length);

	if (moved == length)
		return PF_OK;
	*address = (uint64_t)(uintptr_t)local + moved;
	return PF_ERR_FAULT;
}

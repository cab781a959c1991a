/* SPDX-License-Identifier: BSD-3-Clause */
#include "route_stream.h"

#include "base/probe.h"
#include "message.h"
#include "route.h"
#include "turns.h"

/* Longest block that one message can carry, to this peer and back. */
static uint64_t block_most(const struct host_peer *peer)
{
	const pf_context *context = peer->peer.context;
	uint64_t longest = stream_answer_most(context);

	if (peer->block_most && peer->block_most < longest)
		longest = peer->block_most;
	return longest < context->options.block_size ? longest : context->options.block_size;
}

uint64_t stream_answer_most(const pf_context *context)
{
	return context->options.ring_size / 4;
}

/* Send a block. may_wait, *address: as for stream_place. PF_ERR_AGAIN: no room. */
static int send_put(struct host_peer *peer, uint64_t token, const void *local, uint64_t remote,
		    uint64_t length, bool may_wait, uint64_t *address)
{
	struct memory *memory = &peer->peer.context->memory;
	uint64_t ready = memory_ready(memory, (uint64_t)(uintptr_t)local, length, false);
	struct message_block *message;
	int status = PF_OK;
	size_t moved;

	if (ready < length && !may_wait) {
		*address = (uint64_t)(uintptr_t)local + ready;
		return PF_ERR_FAULT;
	}
	host_peer_lock(peer);
	message = (struct message_block *)message_reserve(peer, sizeof(*message) + length, &status);
	if (message) {
		*message = (struct message_block){ token, remote, length, may_wait };
		moved = channel_fill(&peer->out, (uint8_t *)(message + 1), local, length);
		if (moved == length) {
			message_commit(peer, sizeof(*message) + length, MESSAGE_PUT_BLOCK, 0);
		} else {
			/* Not committed: the next message uses the space. */
			*address = (uint64_t)(uintptr_t)local + moved;
			status = PF_ERR_FAULT;
		}
	}
	host_peer_unlock(peer);
	return status;
}

/* Ask for a block. PF_ERR_AGAIN: no room. */
static int send_get(struct host_peer *peer, uint64_t token, uint64_t remote, uint64_t length,
		    bool may_wait)
{
	struct message_block *message;
	int status = PF_OK;

	host_peer_lock(peer);
	message = (struct message_block *)message_reserve(peer, sizeof(*message), &status);
	if (message) {
		*message = (struct message_block){ token, remote, length, may_wait };
		message_commit(peer, sizeof(*message), MESSAGE_GET_BLOCK, 0);
	}
	host_peer_unlock(peer);
	return status;
}

int stream_place(pf_context *context, struct channel *from, const uint8_t *data, void *local,
		 uint64_t length, bool may_wait, uint64_t *address)
{
	size_t ready = memory_ready(&context->memory, (uint64_t)(uintptr_t)local, length, true);
	size_t moved = ready < length && !may_wait ? ready :
						     channel_place(from, data, local, length);

	if (moved == length)
		return PF_OK;
	*address = (uint64_t)(uintptr_t)local + moved;
	return PF_ERR_FAULT;
}

/* Send or ask for one block through the ring. */
static enum advanced stream_block(struct host_state *host, struct transfer *transfer)
{
	struct host_peer *peer = transfer_peer(transfer);
	struct block *block = block_ready(transfer);
	uint64_t most = block_most(peer), left = transfer->run_end - transfer->run;
	enum pf_side side = PF_SIDE_NONE;
	uint64_t address = 0, token;
	int status;

	if (transfer->moving >= STREAM_WINDOW)
		return ADVANCED_WAITS;
	if (peer->requests_waiting >= REQUESTS_MOST)
		return ADVANCED_BLOCKED;
	if (!block) {
		uint64_t length = left < most ? left : most;

		block = block_new(transfer, transfer->run, length);
		if (!block)
			return ADVANCED_LITTLE;
		transfer->run += length;
		activity_moved(&host->context->activity);
	} else if (block->length > most) {
		/* It was cut for single copy: the front of it goes now. */
		if (!block_cut(block, most))
			return ADVANCED_LITTLE;
	}
	token = request_open(&host->requests, REQUEST_BLOCK, block, &peer->peer,
			     &peer->requests_waiting);
	if (!token) {
		transfer_fail(transfer, PF_ERR_MEMORY, PF_SIDE_NONE, 0);
		block_free(block);
		return ADVANCED_LITTLE;
	}
	status = transfer_is_put(transfer) ?
			 send_put(peer, token, transfer->local + block->offset,
				  transfer->remote + block->offset, block->length,
				  block_may_wait(block), &address) :
			 send_get(peer, token, transfer->remote + block->offset, block->length,
				  block_may_wait(block));
	if (status == PF_OK) {
		block->token = token;
		block_set_state(block, BLOCK_MOVING);
		block->started = trace_time(host->context->trace);
		transfer->moving++;
		return ADVANCED_LITTLE;
	}
	request_close(&host->requests, token, REQUEST_BLOCK, &peer->peer);
	if (status == PF_ERR_AGAIN)
		return ADVANCED_BLOCKED;
	if (status == PF_ERR_FAULT) {
		side = PF_SIDE_LOCAL;
		block_fault(host, block, side, address, FAULT_MAJOR);
		return ADVANCED_LITTLE;
	}
	transfer_fail(transfer, status, side, 0);
	block_free(block);
	return ADVANCED_LITTLE;
}

const struct route route_stream = { .move = stream_block };

void stream_answered(struct host_state *host, struct block *block, int status, uint64_t address,
		     struct channel *from, const uint8_t *data)
{
	struct transfer *transfer = block->transfer;
	pf_context *context = host->context;
	enum pf_side side = PF_SIDE_REMOTE;

	if (!block->faulted)
		activity_moved(&context->activity);
	transfer->moving--;
	operation_wake(&transfer->operation);
	if (status == PF_ERR_TOO_LONG && address >= 1024 && address < block->length) {
		transfer_peer(transfer)->block_most = address;
		block_set_ready(block);
		return;
	}
	if (status == PF_OK && data && !block_given_up(transfer, block)) {
		status = stream_place(context, from, data, transfer->local + block->offset,
				      block->length, block_may_wait(block), &address);
		side = PF_SIDE_LOCAL;
	}
	if (status == PF_OK) {
		statistic_add(&context->statistics, PF_STAT_STREAM_BYTES, block->length);
		record_moved(context->trace, block->started, transfer, transfer_is_put(transfer),
			     block_address(block, PF_SIDE_LOCAL),
			     block_address(block, PF_SIDE_REMOTE), block->length,
			     transfer->operation.peer->id);
		block_free(block);
	} else if (status == PF_ERR_FAULT) {
		block_fault(host, block, side, address, FAULT_MAJOR);
	} else {
		transfer_fail(transfer, status, PF_SIDE_NONE, 0);
		block_free(block);
	}
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "route_stream.h"

#include "base/check.h"
#include "base/probe.h"
#include "message.h"
#include "route.h"
#include "turns.h"

/* Return the longest block that a message can carry, to this peer and back. */
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
	message = (struct message_block *)host_peer_reserve(peer, sizeof(*message) + length,
							    &status);
	if (message && !channel_can_copy(&peer->out, length)) {
		status = PF_ERR_MEMORY;
	} else if (message) {
		*message = (struct message_block){ token, remote, length, may_wait };
		moved = channel_fill(&peer->out, (uint8_t *)(message + 1), local, length);
		if (moved == length) {
			host_peer_commit(peer, sizeof(*message) + length, MESSAGE_PUT_BLOCK, 0);
		} else {
			/* Not committed: the next message uses the space. */
			*address = (uint64_t)(uintptr_t)local + moved;
			status = PF_ERR_FAULT;
		}
	}
	host_peer_unlock(peer);
	return status;
}

/* Puts that go along in one message. */
struct batch {
	struct transfer *transfers[MESSAGE_BLOCKS_MOST];
	unsigned count;
	uint64_t length; /* of the message */
};

/* Was nothing of the transfer sent yet, is the block short, and are all bytes present? */
static bool is_short_put(struct memory *memory, const struct transfer *transfer)
{
	return transfer_is_put(transfer) && transfer->length <= STREAM_SHORT && !transfer->run &&
	       TAILQ_EMPTY(&transfer->blocks) && !transfer->failed &&
	       memory_ready(memory, (uint64_t)(uintptr_t)transfer->local, transfer->length,
			    false) == transfer->length;
}

/* Collect first and the puts behind that the peer can take in one message. */
static void batch_collect(struct batch *batch, const struct host_peer *peer, struct transfer *first,
			  uint64_t most)
{
	struct memory *memory = &peer->peer.context->memory;
	struct operation *operation = &first->operation;
	struct transfer *transfer = first;
	uint64_t length;

	batch->count = 0;
	batch->length = sizeof(struct message_blocks);
	while (operation && batch->count < MESSAGE_BLOCKS_MOST) {
		transfer = (struct transfer *)operation;
		length = batch->length + sizeof(struct message_piece) + transfer->length;
		if (length > most || !is_short_put(memory, transfer))
			break;
		batch->transfers[batch->count++] = transfer;
		batch->length = length;
		operation = TAILQ_NEXT(operation, ready);
	}
}

/*
 * Make a block for each transfer. Without memory, transfers that lack a block are left out. Returns
 * the first.
 */
static struct block *batch_begin(struct batch *batch)
{
	struct block *first = NULL, **link = &first, *block;
	struct transfer *transfer;
	unsigned i;

	for (i = 0; i < batch->count; i++) {
		transfer = batch->transfers[i];
		block = block_new(transfer, 0, transfer->length);
		if (!block)
			break;
		transfer->front = transfer->run = transfer->run_end = transfer->length;
		*link = block;
		link = &block->along;
	}
	batch->count = i;
	return first;
}

/* Under the peer's lock: send the puts. False: not all bytes are present. */
static bool batch_fill(const struct batch *batch, struct host_peer *peer, uint8_t *entry,
		       uint64_t token)
{
	struct message_blocks *message = (struct message_blocks *)entry;
	struct message_piece *pieces = (struct message_piece *)(message + 1);
	struct iovec from[MESSAGE_BLOCKS_MOST];
	uint64_t length = 0;
	unsigned i;

	assert_locked(&peer->lock, peer->peer.context->threads);
	*message = (struct message_blocks){ .token = token, .count = batch->count };
	for (i = 0; i < batch->count; i++) {
		const struct transfer *transfer = batch->transfers[i];

		pieces[i] = (struct message_piece){ transfer->remote, transfer->length };
		from[i] = (struct iovec){ transfer->local, transfer->length };
		length += transfer->length;
	}
	if (channel_gather(&peer->out, (uint8_t *)(pieces + i), from, i, length) < length)
		return false;
	host_peer_commit(peer, sizeof(*message) + i * sizeof(*pieces) + length, MESSAGE_PUT_BLOCKS,
			 0);
	return true;
}

static void batch_end(struct host_state *host, struct block *block, uint64_t token, bool sent)
{
	uint64_t now = trace_time(host->context->trace);
	struct block *next;

	for (; block; block = next) {
		next = block->along;
		if (!sent) {
			block->along = NULL;
			continue;
		}
		block->token = token;
		block->started = now;
		block_set_state(block, BLOCK_MOVING);
		block->transfer->moving++;
		activity_moved(&host->context->activity);
	}
}

/* Send short puts along in one message. False: the puts have to be sent singly. */
static bool batch_send(struct host_state *host, struct transfer *transfer, uint64_t most,
		       enum advanced *advanced)
{
	struct host_peer *peer = transfer_peer(transfer);
	int status = PF_ERR_TOO_LONG;
	struct block *first = NULL;
	uint8_t *entry = NULL;
	struct batch batch;
	uint64_t token = 0;
	bool sent;

	batch_collect(&batch, peer, transfer, most);
	if (batch.count < 2)
		return false;
	host_peer_lock(peer);
	if (host_peer_takes_blocks(peer))
		entry = host_peer_reserve(peer, batch.length, &status);
	if (entry)
		first = batch_begin(&batch);
	if (first)
		token = request_open(&host->requests, REQUEST_BLOCK, first, &peer->peer,
				     &peer->requests_waiting);
	/* If bytes are absent, a put sent by itself finds the absent page. */
	sent = token && batch_fill(&batch, peer, entry, token);
	host_peer_unlock(peer);
	if (token && !sent)
		request_close(&host->requests, token, REQUEST_BLOCK, &peer->peer);
	batch_end(host, first, token, sent);
	*advanced = entry ? ADVANCED_LITTLE : ADVANCED_BLOCKED;
	/* Unread messages make room later. A ring without memory has room for one put. */
	return entry || (status == PF_ERR_AGAIN && peer->requests_waiting);
}

/* Ask for a block. PF_ERR_AGAIN: no room. */
static int send_get(struct host_peer *peer, uint64_t token, uint64_t remote, uint64_t length,
		    bool may_wait)
{
	struct message_block *message;
	int status = PF_OK;

	host_peer_lock(peer);
	message = (struct message_block *)host_peer_reserve(peer, sizeof(*message), &status);
	if (message) {
		*message = (struct message_block){ token, remote, length, may_wait };
		host_peer_commit(peer, sizeof(*message), MESSAGE_GET_BLOCK, 0);
	}
	host_peer_unlock(peer);
	return status;
}

int stream_place(pf_context *context, struct channel *from, const uint8_t *data, void *local,
		 uint64_t length, bool may_wait, uint64_t *address)
{
	size_t ready = memory_ready(&context->memory, (uint64_t)(uintptr_t)local, length, true);
	size_t moved;

	if (!channel_can_copy(from, length))
		return PF_ERR_MEMORY;
	moved = ready < length && !may_wait ? ready : channel_place(from, data, local, length);
	if (moved == length)
		return PF_OK;
	*address = (uint64_t)(uintptr_t)local + moved;
	return PF_ERR_FAULT;
}

int stream_place_all(pf_context *context, struct channel *from, const uint8_t *data,
		     const struct iovec *to, unsigned count, uint64_t *address)
{
	uint64_t length = 0, ready = 0, moved;
	unsigned i;

	if (!channel_can_copy(from, STREAM_SHORT))
		return PF_ERR_MEMORY;
	for (i = 0; i < count && ready == length; i++) {
		ready += memory_ready(&context->memory, (uint64_t)(uintptr_t)to[i].iov_base,
				      to[i].iov_len, true);
		length += to[i].iov_len;
	}
	/* Of the last block with a look, nothing is copied. */
	if (ready < length)
		length -= to[--i].iov_len;
	moved = channel_scatter(from, data, to, i, length);
	if (moved == length && i == count)
		return PF_OK;
	if (moved == length) {
		*address = (uint64_t)(uintptr_t)to[i].iov_base + ready - length;
		return PF_ERR_FAULT;
	}
	for (i = 0; moved >= to[i].iov_len; i++)
		moved -= to[i].iov_len;
	*address = (uint64_t)(uintptr_t)to[i].iov_base + moved;
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
	enum advanced advanced;
	int status;

	assert_progress(host->context);
	if (transfer->moving >= STREAM_WINDOW)
		return ADVANCED_WAITS;
	if (peer->requests_waiting >= REQUESTS_MOST)
		return ADVANCED_BLOCKED;
	if (!block && transfer->length <= STREAM_SHORT &&
	    batch_send(host, transfer, most, &advanced))
		return advanced;
	if (!block) {
		uint64_t length = left < most ? left : most;

		block = block_new(transfer, transfer->run, length);
		if (!block)
			return ADVANCED_LITTLE;
		transfer->run += length;
		activity_moved(&host->context->activity);
	} else if (block->length > most) {
		/* The block was cut for single copy: the front goes now. */
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

/* Handle the answer to one block. */
static void block_answered(struct host_state *host, struct block *block, int status,
			   uint64_t address, struct channel *from, const uint8_t *data)
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
		block_moved(block, PF_STAT_STREAM_BYTES);
	} else if (status == PF_ERR_FAULT) {
		block_fault(host, block, side, address, FAULT_MAJOR);
	} else {
		transfer_fail(transfer, status, PF_SIDE_NONE, 0);
		block_free(block);
	}
}

static bool block_contains(const struct block *block, uint64_t address)
{
	return address - block_address(block, PF_SIDE_REMOTE) < block->length;
}

/* Send the block by itself: each block that meets a fault waits for its own page. */
static void block_send_alone(struct block *block)
{
	block->transfer->moving--;
	operation_wake(&block->transfer->operation);
	block_set_ready(block);
}

void stream_answered(struct host_state *host, struct block *block, int status, uint64_t address,
		     struct channel *from, const uint8_t *data)
{
	bool behind = false, here;
	struct block *next;

	assert_progress(host->context);
	for (; block; block = next) {
		next = block->along;
		block->along = NULL;
		/* A fault outside of all blocks before is in the last block. */
		here = status != PF_ERR_FAULT || !next || block_contains(block, address);
		if (behind)
			block_send_alone(block);
		else
			block_answered(host, block, here ? status : PF_OK, address, from, data);
		behind |= here && status == PF_ERR_FAULT;
	}
}

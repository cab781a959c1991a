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

/* Return how many blocks of the transfer may be under way: more if the pieces are short. */
static unsigned stream_window(const struct transfer *transfer)
{
	const bool are_short = transfer->length <=
			       (uint64_t)TRANSFER_SHORT * transfer->pieces_count;

	return are_short ? STREAM_WINDOW_PIECES : STREAM_WINDOW;
}

/* Does the run in hand begin with a short piece, or the end of a piece? */
static bool run_is_short(const struct transfer *transfer)
{
	return transfer_piece_at(transfer, transfer->run)->end - transfer->run <= TRANSFER_SHORT;
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

/* Pieces of puts for a message. */
struct batch {
	struct batch_piece {
		struct transfer *transfer;
		const struct transfer_piece *piece;
		uint64_t offset, length;
	} pieces[MESSAGE_BLOCKS_MOST];
	unsigned count;
	uint64_t length; /* of the message */
};

/* Is there no block to send before the bytes behind the run in hand? */
static bool is_open_put(struct transfer *transfer)
{
	return transfer_is_put(transfer) && !transfer->share && !transfer->failed &&
	       transfer->moving < stream_window(transfer) && !block_ready(transfer);
}

/*
 * Collect short pieces of the put, with all bytes present, as far as the message has room. True:
 * all of the rest of the put.
 */
static bool batch_collect_put(struct batch *batch, struct memory *memory, struct transfer *transfer,
			      uint64_t most)
{
	const struct transfer_piece *piece;
	uint64_t offset = transfer->run, left, length;

	/* Not claimed yet: the run is empty, at the first byte to move. */
	if (transfer->run == transfer->run_end)
		offset = transfer->front;
	for (; offset < transfer->length; offset += left) {
		piece = batch->count && batch->pieces[batch->count - 1].transfer == transfer ?
				batch->pieces[batch->count - 1].piece + 1 :
				transfer_piece_at(transfer, offset);
		left = piece->end - offset;
		length = batch->length + sizeof(struct message_piece) + left;
		if (batch->count == MESSAGE_BLOCKS_MOST || left > TRANSFER_SHORT || length > most ||
		    memory_ready(memory, piece->local + offset, left, false) < left)
			return false;
		batch->pieces[batch->count++] = (struct batch_piece){ transfer, piece, offset,
								      left };
		batch->length = length;
	}
	return true;
}

/* Collect pieces of first, and of the puts behind. */
static void batch_collect(struct batch *batch, const struct host_peer *peer, struct transfer *first,
			  uint64_t most)
{
	struct memory *memory = &peer->peer.context->memory;
	struct operation *operation = &first->operation;

	batch->count = 0;
	batch->length = sizeof(struct message_blocks);
	while (operation && is_open_put((struct transfer *)operation) &&
	       batch_collect_put(batch, memory, (struct transfer *)operation, most))
		operation = TAILQ_NEXT(operation, ready);
}

/*
 * Make a block for each piece. Without memory, pieces without a block are left out. Returns the
 * first.
 */
static struct block *batch_begin(struct batch *batch)
{
	struct block *first = NULL, **link = &first, *block;
	struct transfer *transfer;
	unsigned i;

	for (i = 0; i < batch->count; i++) {
		const struct batch_piece *piece = &batch->pieces[i];

		transfer = piece->transfer;
		block = block_new(transfer, piece->piece, piece->offset, piece->length);
		if (!block)
			break;
		transfer->run = piece->offset + piece->length;
		transfer->front = transfer->run_end = transfer->length;
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
		const struct batch_piece *piece = &batch->pieces[i];

		pieces[i] = (struct message_piece){ piece->piece->remote + piece->offset,
						    piece->length };
		from[i] = (struct iovec){ (void *)(uintptr_t)(piece->piece->local + piece->offset),
					  piece->length };
		length += piece->length;
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

	if (!channel_can_copy(from, TRANSFER_SHORT))
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
	uint64_t most = block_most(peer);
	uint64_t address = 0, token;
	enum advanced advanced;
	int status;

	assert_progress(host->context);
	if (transfer->moving >= stream_window(transfer))
		return ADVANCED_WAITS;
	if (peer->requests_waiting >= REQUESTS_MOST)
		return ADVANCED_BLOCKED;
	if (!block && run_is_short(transfer) && batch_send(host, transfer, most, &advanced))
		return advanced;
	if (!block) {
		block = block_of_run(transfer, most);
		if (!block)
			return ADVANCED_LITTLE;
		activity_moved(&host->context->activity);
	} else if (block->length > most) {
		/* The block was cut for single copy: the front goes now. */
		if (!block_cut(block, most))
			return ADVANCED_LITTLE;
	}
	token = request_open(&host->requests, REQUEST_BLOCK, block, &peer->peer,
			     &peer->requests_waiting);
	if (!token) {
		transfer_fail(transfer, PF_ERR_MEMORY);
		block_free(block);
		return ADVANCED_LITTLE;
	}
	status = transfer_is_put(transfer) ?
			 send_put(peer, token, block_pointer(block),
				  block_address(block, PF_SIDE_REMOTE), block->length,
				  block_may_wait(block), &address) :
			 send_get(peer, token, block_address(block, PF_SIDE_REMOTE), block->length,
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
		block_fault(host, block, PF_SIDE_LOCAL, address, FAULT_MAJOR);
		return ADVANCED_LITTLE;
	}
	transfer_fail(transfer, status);
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

	if (!block->noticed)
		activity_moved(&context->activity);
	transfer->moving--;
	operation_wake(&transfer->operation);
	if (status == PF_ERR_TOO_LONG && address >= 1024 && address < block->length) {
		transfer_peer(transfer)->block_most = address;
		block_set_ready(block);
		return;
	}
	if (status == PF_OK && data && !block_given_up(transfer, block)) {
		status = stream_place(context, from, data, block_pointer(block), block->length,
				      block_may_wait(block), &address);
		side = PF_SIDE_LOCAL;
	}
	if (status == PF_OK) {
		block_moved(block, PF_STAT_STREAM_BYTES);
	} else if (status == PF_ERR_FAULT) {
		block_fault(host, block, side, address, FAULT_MAJOR);
	} else {
		if (status == PF_ERR_REFUSED)
			block_refuse(block, address);
		else
			transfer_fail(transfer, status);
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
	const bool fault = status == PF_ERR_FAULT || status == PF_ERR_REFUSED;
	bool behind = false, here;
	struct block *next;

	assert_progress(host->context);
	for (; block; block = next) {
		next = block->along;
		block->along = NULL;
		/* A fault outside of all blocks before is in the last block. */
		here = !fault || !next || block_contains(block, address);
		if (behind)
			block_send_alone(block);
		else
			block_answered(host, block, here ? status : PF_OK, address, from, data);
		behind |= here && fault;
	}
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "transfer.h"

#include <errno.h>
#include <stdlib.h>

#include "context/context.h"
#include "common/peer.h"
#include "copy.h"
#include "message.h"
#include "stream.h"
#include "common/transport.h"

/* Blocks of one transfer on their way through the ring at a time. */
#define STREAM_WINDOW 8
static uint64_t shorter(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* The kernel stopped at moved bytes into [offset, offset + length). */
static void copy_stopped(pf_context *context, struct transfer *transfer, struct block *block,
			 uint64_t offset, uint64_t length, int error)
{
	pf_peer *peer = transfer->operation.peer;
	char *local = transfer->local + offset;
	uint64_t remote = transfer->remote + offset;
	enum pf_side side;

	if (error == ENOMEM) {
		transfer_fail(transfer, PF_ERR_MEMORY, PF_SIDE_NONE, 0);
	} else if (error != EFAULT) {
		/* Permission lost: what is left goes through the ring. */
		peer_refuse_copy(peer, error);
		if (!block)
			block = block_new(transfer, offset, length);
		if (block)
			block->state = BLOCK_READY;
		return;
	}
	if (!block)
		block = block_new(transfer, offset, length);
	if (!block)
		return;
	if (pager_lacks(&context->pagers, (uint64_t)(uintptr_t)local))
		side = PF_SIDE_LOCAL;
	else
		side = copy_fault_side(peer->host->pid, transfer_is_put(transfer), local, remote);
	block_fault(context, block, side,
		    side == PF_SIDE_LOCAL ? (uint64_t)(uintptr_t)local : remote, FAULT_PERMISSION);
}

/* The pages there would have to be waited for: park them, and those behind them that likely are as well. */
static void park(pf_context *context, struct transfer *transfer, struct block *block,
		 enum pf_side side)
{
	if (!block) {
		uint64_t length = policy_window((enum pf_policy)context->options.policy,
						&transfer->windows[side], transfer->run,
						context->options.block_size, transfer->run_end);

		block = block_new(transfer, transfer->run, length);
		if (!block)
			return;
		transfer->run += length;
	}
	block_fault(context, block, side, block_address(block, side), FAULT_MAJOR);
}

/* Copy one run, or retransmit one block. */
static int copy_run(pf_context *context, struct transfer *transfer)
{
	struct block *block = block_ready(transfer);
	uint64_t offset = block ? block->offset : transfer->run;
	uint64_t left = block ? block->length : transfer->run_end - transfer->run;
	size_t length = shorter(left, context->options.run_max), moved;
	enum pf_side side;
	int error;

	if (!block || !block_is_patient(block)) {
		length = peer_ready(transfer->operation.peer, transfer_is_put(transfer),
				    transfer->local + offset, transfer->remote + offset, length,
				    &side);
		if (!length) {
			park(context, transfer, block, side);
			return OPERATION_MOVED;
		}
	}
	error = copy_process(transfer->operation.peer->host->pid, transfer_is_put(transfer),
			     transfer->local + offset, transfer->remote + offset, length, &moved);
	statistic_add(&context->statistics, PF_STAT_SINGLE_COPY_BYTES, moved);
	if (context->options.collapse && transfer->length <= COLLAPSE_TRANSFER_MOST)
		collapse_note(&context->collapse, context->service, context->options.collapse,
			      transfer->local + offset, moved);
	if (block) {
		block->offset += moved;
		block->length -= moved;
		if (moved)
			block->retries = 0;
		if (error)
			copy_stopped(context, transfer, block, block->offset, block->length, error);
		else if (!block->length)
			block_free(block);
		return OPERATION_COPIED;
	}
	context_moved(context);
	transfer->run += moved;
	if (error) {
		/* Park the rest of the block that stopped it; go on behind. */
		uint64_t size = context->options.block_size;
		uint64_t end = shorter((transfer->run / size + 1) * size, transfer->run_end);
		uint64_t start = transfer->run;

		transfer->run = end;
		copy_stopped(context, transfer, NULL, start, end - start, error);
	}
	return OPERATION_COPIED;
}

/* Send or ask for one block through the ring. */
static int stream_block(pf_context *context, struct transfer *transfer)
{
	pf_peer *peer = transfer->operation.peer;
	struct block *block = block_ready(transfer);
	uint64_t most = stream_block_most(peer, context->options.block_size);
	enum pf_side side = PF_SIDE_NONE;
	uint64_t address = 0, token;
	int status;

	if (transfer->moving >= STREAM_WINDOW || peer->host->requests_waiting >= REQUESTS_MOST)
		return OPERATION_IDLE;
	if (!block) {
		uint64_t length = shorter(transfer->run_end - transfer->run, most);

		block = block_new(transfer, transfer->run, length);
		if (!block)
			return OPERATION_MOVED;
		transfer->run += length;
		context_moved(context);
	} else if (block->length > most) {
		/* It was cut for single copy: the front of it goes now. */
		if (!block_new(transfer, block->offset + most, block->length - most))
			return OPERATION_MOVED;
		block->length = most;
	}
	token = request_open(&context->requests, REQUEST_BLOCK, block, peer);
	if (!token) {
		transfer_fail(transfer, PF_ERR_MEMORY, PF_SIDE_NONE, 0);
		block_free(block);
		return OPERATION_MOVED;
	}
	status = transfer_is_put(transfer) ?
			 stream_put(peer, token, transfer->local + block->offset,
				    transfer->remote + block->offset, block->length,
				    block_is_patient(block), &address) :
			 stream_get(peer, token, transfer->remote + block->offset, block->length,
				    block_is_patient(block));
	if (status == PF_OK) {
		block->state = BLOCK_MOVING;
		transfer->moving++;
		return OPERATION_MOVED;
	}
	request_close(&context->requests, token, REQUEST_BLOCK, peer);
	if (status == PF_ERR_AGAIN)
		return OPERATION_IDLE;
	if (status == PF_ERR_FAULT) {
		side = PF_SIDE_LOCAL;
		block_fault(context, block, side, address, FAULT_MAJOR);
		return OPERATION_MOVED;
	}
	transfer_fail(transfer, status, side, 0);
	block_free(block);
	return OPERATION_MOVED;
}

const struct route route_copy = { .move = copy_run, .shares = true };
const struct route route_stream = { .move = stream_block };

void block_answered(pf_context *context, struct block *block, int status, uint64_t address,
		    const struct channel *from, const uint8_t *data)
{
	struct transfer *transfer = block->transfer;
	enum pf_side side = PF_SIDE_REMOTE;

	if (!block->faulted)
		context_moved(context);
	transfer->moving--;
	if (status == PF_ERR_TOO_LONG && address >= 1024 && address < block->length) {
		transfer->operation.peer->host->block_most = address;
		block->state = BLOCK_READY;
		return;
	}
	if (status == PF_OK && data && !block_given_up(transfer, block)) {
		status = stream_place(context, from, data, transfer->local + block->offset,
				      block->length, block_is_patient(block), &address);
		side = PF_SIDE_LOCAL;
	}
	if (status == PF_OK) {
		statistic_add(&context->statistics, PF_STAT_STREAM_BYTES, block->length);
		block_free(block);
	} else if (status == PF_ERR_FAULT) {
		block_fault(context, block, side, address, FAULT_MAJOR);
	} else {
		transfer_fail(transfer, status, PF_SIDE_NONE, 0);
		block_free(block);
	}
}

void transfer_offer(pf_context *context, struct transfer *transfer)
{
	pf_peer *peer = transfer->operation.peer;
	struct message_offer *message;
	struct share *share;
	uint32_t front;
	int status;

	/* Who shares a core may lose it with a run in hand, and keep us waiting for that run. */
	if (context->sleepy)
		return;
	if (transfer->front || transfer->failed || transfer->length < context->options.share_min ||
	    peer_state(peer) != PEER_LINKED || !peer_route(peer)->shares ||
	    !peer->host->shares_free || peer->host->self)
		return;
	transfer->slot = (unsigned)__builtin_ctzll(peer->host->shares_free);
	transfer->shift = share_granule_shift(transfer->length);
	transfer->granules = (uint32_t)((transfer->length - 1) >> transfer->shift) + 1;
	share = &peer->host->out.memory->shares[transfer->slot];
	front = (transfer->granules + 1) / 2;
	if ((uint64_t)front << transfer->shift > context->options.run_max)
		front = (uint32_t)(context->options.run_max >> transfer->shift);
	if (!front)
		front = 1;

	peer_lock(peer);
	message = (struct message_offer *)peer_reserve(peer, sizeof(*message), &status);
	if (message) {
		peer->host->share_generation = (peer->host->share_generation + 1) & 0xffffff;
		share_open(share, peer->host->share_generation, front, transfer->granules);
		*message = (struct message_offer){
			.initiator = (uint64_t)(uintptr_t)transfer->local,
			.target = transfer->remote,
			.length = transfer->length,
			.generation = peer->host->share_generation,
			.slot = (uint16_t)transfer->slot,
			.put = transfer_is_put(transfer),
			.shift = (uint8_t)transfer->shift,
		};
		peer_commit(peer, sizeof(*message), MESSAGE_OFFER, 0);
	}
	peer_unlock(peer);
	if (!message)
		return;
	peer->host->shares_free &= ~(1ull << transfer->slot);
	transfer->share = share;
	transfer->run_end = shorter((uint64_t)front << transfer->shift, transfer->length);
	transfer->front = transfer->run_end;
}

static void take_granules(struct transfer *transfer, struct granules run)
{
	transfer->run = (uint64_t)run.start << transfer->shift;
	transfer->run_end = shorter((uint64_t)run.end << transfer->shift, transfer->length);
}

/* A run to move next; false when this side has none left. */
static bool claim(pf_context *context, struct transfer *transfer)
{
	struct granules run;

	if (transfer->failed)
		return false;
	if (transfer->share) {
		uint32_t most = (uint32_t)(context->options.run_max >> transfer->shift);
		uint32_t least = SHARE_FRONT_LEAST >> transfer->shift;

		if (transfer->closed)
			return false;
		/* A peer that has not come by now is not polling: no need to leave it half. */
		if (!transfer->joined) {
			transfer->joined = share_joined(transfer->share, transfer->granules);
			if (!transfer->joined)
				least = most;
		}
		if (!share_claim_front(transfer->share, least ? least : 1, most ? most : 1, &run))
			return false;
		/* The claim word is the peer's to scribble on too: stay inside the transfer. */
		if (run.end > transfer->granules) {
			transfer_fail(transfer, PF_ERR_REFUSED, PF_SIDE_NONE, 0);
			return false;
		}
		take_granules(transfer, run);
		return true;
	}
	if (transfer->front == transfer->length)
		return false;
	transfer->run = transfer->front;
	transfer->run_end = transfer->length;
	transfer->front = transfer->length;
	return true;
}

static void close_share(struct transfer *transfer)
{
	if (transfer->share)
		transfer->operation.peer->host->shares_free |= 1ull << transfer->slot;
	transfer->share = NULL;
	transfer->front = transfer->length;
}

/* Has the peer moved all that it claimed? It may hand back a run that it could not move. */
static bool peer_moved(struct transfer *transfer)
{
	struct granules run;
	uint64_t returned;
	uint64_t moved;

	if (!transfer->closed) {
		transfer->peer_granules = share_close(transfer->share, transfer->granules);
		transfer->closed = true;
	}
	moved = atomic_load_explicit(&transfer->share->moved, memory_order_acquire);
	if (moved >= transfer->peer_granules)
		return true;
	returned = atomic_load_explicit(&transfer->share->returned, memory_order_acquire);
	run = (struct granules){ (uint32_t)(returned >> 32), (uint32_t)returned };
	if (run.end <= run.start || run.end > transfer->granules ||
	    granules_count(run) > transfer->peer_granules - moved)
		return false;
	/* It hands back at most one run, its last. */
	moved = atomic_load_explicit(&transfer->share->moved, memory_order_acquire);
	if (moved + granules_count(run) < transfer->peer_granules)
		return false;
	transfer->peer_granules = (uint32_t)moved;
	if (!transfer->failed)
		take_granules(transfer, run);
	return true;
}

/* Then it is left alone: blocks may wait for their pages long after. */
static bool peer_finished(struct transfer *transfer)
{
	if (transfer->share && peer_moved(transfer))
		close_share(transfer);
	return !transfer->share;
}

bool transfer_waits(const struct transfer *transfer)
{
	return transfer->parked && transfer->recorded == transfer->parked &&
	       transfer->run >= transfer->run_end && !transfer->share &&
	       transfer->front == transfer->length;
}

int transfer_advance(pf_context *context, struct transfer *transfer)
{
	pf_peer *peer = transfer->operation.peer;
	int state = peer_state(peer), status;

	if (state != PEER_LINKED && state != PEER_GONE) {
		peer_lock(peer);
		status = peer_connect(peer);
		peer_unlock(peer);
		if (status == PF_OK || status == PF_ERR_AGAIN)
			return OPERATION_IDLE;
		transfer_fail(transfer, status, PF_SIDE_NONE, 0);
		return OPERATION_FINISHED;
	}
	transfer_offer(context, transfer);
	if (block_ready(transfer) || transfer->run < transfer->run_end ||
	    claim(context, transfer)) {
		if (state == PEER_GONE)
			goto lost;
		return peer_route(peer)->move(context, transfer);
	}
	if (peer_finished(transfer) && transfer->run >= transfer->run_end && !transfer->moving &&
	    !transfer->parked)
		return OPERATION_FINISHED;
	if (state == PEER_GONE)
		goto lost;
	return transfer->run < transfer->run_end ? OPERATION_MOVED : OPERATION_IDLE;

lost:
	/* It was not done when the peer ended, and so never will be. */
	transfer_fail(transfer, peer->gone_status, PF_SIDE_NONE, 0);
	transfer_abandon(context, transfer);
	return OPERATION_FINISHED;
}

void transfer_abandon(pf_context *context, struct transfer *transfer)
{
	/* Tokens of blocks under way stay open until their peer's answers are
	 * impossible, which is now: drop them. */
	struct block *block;

	for (block = transfer->blocks; block; block = block->next)
		request_forget(&context->requests, block);
	close_share(transfer);
}

void transfer_release(struct transfer *transfer)
{
	struct block *block;

	while ((block = transfer->blocks)) {
		transfer->blocks = block->next;
		free(block);
	}
}

int transfer_post(pf_peer *peer, enum operation_kind kind, char *local, uint64_t remote,
		  size_t length, pf_complete_fn complete, void *arg)
{
	pf_context *context = peer->context;
	struct transfer *transfer;
	enum pf_side side;
	size_t moved = 0;

	/* A short transfer to a peer that we may copy from is one system call: do it here. */
	if (length < peer_at_once(peer) && peer_state(peer) == PEER_LINKED &&
	    peer_ready(peer, kind == OPERATION_PUT, local, remote, length, &side) == length) {
		int error = copy_process(peer->host->pid, kind == OPERATION_PUT, local, remote,
					 length, &moved);

		context_moved(context);
		statistic_add(&context->statistics, PF_STAT_SINGLE_COPY_BYTES, moved);
		if (!error) {
			statistic_add(&context->statistics,
				      kind == OPERATION_PUT ? PF_STAT_PUTS : PF_STAT_GETS, 1);
			return PF_DONE;
		}
	} else if (peer_state(peer) == PEER_GONE) {
		return peer->gone_status;
	}
	if (kind == OPERATION_GET)
		policy_expect(context, (uint64_t)(uintptr_t)local, length);
	transfer = malloc(sizeof(*transfer));
	if (!transfer)
		return PF_ERR_MEMORY;
	*transfer = (struct transfer){
		.operation = { .kind = kind,
			       .peer = peer,
			       .complete = complete,
			       .completion.arg = arg },
		.local = local + moved,
		.remote = remote + moved,
		.length = length - moved,
	};
	operation_post(context, &transfer->operation);
	return PF_OK;
}

static int post(pf_peer *peer, enum operation_kind kind, char *local, uint64_t remote,
		size_t length, pf_complete_fn complete, void *arg)
{
	if (!length)
		return PF_DONE;
	if (remote + length < remote || (uint64_t)(uintptr_t)local + length < length)
		return PF_ERR_ARGUMENT;
	return peer->transport->transfer(peer, kind, local, remote, length, complete, arg);
}

int pf_put(pf_peer *peer, const void *local, uint64_t remote, size_t length,
	   pf_complete_fn complete, void *arg)
{
	return post(peer, OPERATION_PUT, (char *)(uintptr_t)local, remote, length, complete, arg);
}

int pf_get(pf_peer *peer, void *local, uint64_t remote, size_t length, pf_complete_fn complete,
	   void *arg)
{
	return post(peer, OPERATION_GET, local, remote, length, complete, arg);
}

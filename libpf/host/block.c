/* SPDX-License-Identifier: BSD-3-Clause */
#include "block.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/number.h"
#include "base/probe.h"
#include "resolve.h"
#include "turns.h"

/* After this many retries a block is copied even if the copy has to wait for the pages. */
#define RETRIES_PARKED 2
/* After a pager has brought all pages of a block this many times, single pages are asked for. */
#define SUPPLIED_WHOLE 4

bool block_given_up(const struct transfer *transfer, const struct block *block)
{
	return transfer->failed && block->offset >= transfer->failed_at;
}

struct block *block_new(struct transfer *transfer, const struct transfer_piece *piece,
			uint64_t offset, uint64_t length)
{
	struct block *block = calloc(1, sizeof(*block));

	assert_that(length <= piece->end - offset);
	if (!block) {
		transfer_fail(transfer, PF_ERR_MEMORY);
		return NULL;
	}
	block->transfer = transfer;
	block->piece = piece;
	block->offset = offset;
	block->length = length;
	TAILQ_INSERT_HEAD(&transfer->blocks, block, link);
	return block;
}

struct block *block_of_run(struct transfer *transfer, uint64_t most)
{
	const struct transfer_piece *piece = transfer_piece_at(transfer, transfer->run);
	uint64_t end = number_min(piece->end, transfer->run_end);
	uint64_t length = number_min(end - transfer->run, most);
	struct block *block = block_new(transfer, piece, transfer->run, length);

	if (block)
		transfer->run += length;
	return block;
}

void block_free(struct block *block)
{
	TAILQ_REMOVE(&block->transfer->blocks, block, link);
	free(block);
}

void block_moved(struct block *block, enum pf_stat stat)
{
	const struct transfer *transfer = block->transfer;
	const pf_peer *peer = transfer->operation.peer;

	assert_progress(peer->context);
	statistic_add(&peer->context->statistics, stat, block->length);
	record_moved(peer->context->trace, block->started, transfer, transfer_is_put(transfer),
		     block_address(block, PF_SIDE_LOCAL), block_address(block, PF_SIDE_REMOTE),
		     block->length, peer->id);
	block_free(block);
}

void block_set_state(struct block *block, enum block_state state)
{
	struct blocks *blocks = &block->transfer->blocks;

	if (block->state == BLOCK_READY) {
		TAILQ_REMOVE(blocks, block, link);
		TAILQ_INSERT_TAIL(blocks, block, link);
	}
	block->state = state;
}

void block_set_ready(struct block *block)
{
	struct blocks *blocks = &block->transfer->blocks;

	TAILQ_REMOVE(blocks, block, link);
	TAILQ_INSERT_HEAD(blocks, block, link);
	block->state = BLOCK_READY;
}

bool block_cut(struct block *block, uint64_t length)
{
	if (!block_new(block->transfer, block->piece, block->offset + length,
		       block->length - length))
		return false;
	block->length = length;
	return true;
}

uint64_t block_address(const struct block *block, enum pf_side side)
{
	const struct transfer_piece *piece = block->piece;

	return (side == PF_SIDE_REMOTE ? piece->remote : piece->local) + block->offset;
}

bool block_may_wait(const struct block *block)
{
	return block->hidden || block->retries >= RETRIES_PARKED;
}

void block_fail(struct block *block, enum pf_side side, uint64_t address)
{
	transfer_fault(block->transfer, block->offset + (address - block_address(block, side)),
		       PF_ERR_FAULT, side, address);
}

void block_refuse(struct block *block, uint64_t address)
{
	uint64_t before = address - block_address(block, PF_SIDE_REMOTE);

	transfer_fault(block->transfer, block->offset + before, PF_ERR_REFUSED, PF_SIDE_REMOTE,
		       address);
}

/* FAULTED -> RESOLVING: ask the side that owns the page. */
static void block_resolve(struct host_state *host, struct block *block)
{
	struct host_peer *owner = block->side == PF_SIDE_REMOTE ? transfer_peer(block->transfer) :
								  NULL;
	const pf_peer *answerer = owner ? &owner->peer : NULL;
	struct transfer *transfer = block->transfer;
	pf_context *context = host->context;
	/* Is this side the destination? */
	bool write = transfer_is_put(transfer) == (block->side == PF_SIDE_REMOTE);
	uint64_t start = block_address(block, block->side);
	uint64_t token;

	statistic_add(&context->statistics,
		      block->side == PF_SIDE_REMOTE ? PF_STAT_REMOTE_FAULTS : PF_STAT_LOCAL_FAULTS,
		      1);
	if (block_given_up(transfer, block)) {
		block_free(block);
		return;
	}
	if (block->retries++ >= context->options.fault_retries) {
		block_fail(block, block->side, block->address);
		block_free(block);
		return;
	}
	/* Not counted among the requests that fill rings: a ring with unread requests gets no more. */
	token = block->token = request_open(&host->requests, REQUEST_RESOLVE, block, answerer,
					    NULL);
	if (!token || resolve_request(host, owner, token, start, block->length, write) != PF_OK) {
		request_close(&host->requests, token, REQUEST_RESOLVE, answerer);
		transfer_fail(transfer, PF_ERR_MEMORY);
		block_free(block);
		return;
	}
	/*
	 * The peer, or a thread of the kernel that reads the page, may need the processor of
	 * progress.
	 */
	if (owner)
		pace_begin(&context->memory.pace);
	block_set_state(block, BLOCK_RESOLVING);
	transfer->parked++;
}

void block_fault(struct host_state *host, struct block *block, enum pf_side side, uint64_t address,
		 enum fault_kind kind)
{
	const pf_options *options = &host->context->options;
	uint64_t most = policy_window_most((enum pf_policy)options->policy, options->block_size);

	assert_progress(host->context);
	if (block->length > most)
		block_cut(block, most);
	block_set_state(block, BLOCK_FAULTED);
	block->side = side;
	block->address = address;
	block->noticed = clock_nanoseconds(CLOCK_MONOTONIC);
	probe_fault(host->context->trace, host->context, block->transfer, side, kind, address,
		    block_address(block, side) + block->length - address);
	block_resolve(host, block);
}

/*
 * The application may evict pages of a pager at any time: such retries do not count as failed. A
 * pager that holds fewer pages than the block has is asked for single pages after a while: the
 * block is cut.
 */
static void supplied_again(struct block *block, uint64_t start)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), front = page - start % page;

	block->retries = 0;
	if (++block->supplied > SUPPLIED_WHOLE && front < block->length && block_cut(block, front))
		block->supplied = 0;
}

bool block_resolved(struct host_state *host, const pf_peer *answerer, uint64_t token, int status,
		    uint64_t address, enum fault_kind kind)
{
	struct block *block = request_close(&host->requests, token, REQUEST_RESOLVE, answerer);
	struct statistics *statistics = &host->context->statistics;
	struct transfer *transfer;
	uint64_t start;

	assert_progress(host->context);
	/* A token that was never given out, or was spent by an earlier answer. */
	if (!block)
		return false;
	transfer = block->transfer;
	start = block_address(block, block->side);
	if (block->side == PF_SIDE_REMOTE)
		pace_end(&host->context->memory.pace);
	transfer->parked--;
	operation_wake(&transfer->operation);
	/* The address is behind this block: the page was resolved ahead along with the block. */
	if (status == PF_ERR_FAULT && address >= start + block->length)
		status = PF_OK;
	statistic_fault(statistics, block->side, kind);
	/* The ring moves hidden memory, unless the ring was tried before. */
	if (status == PF_ERR_FAULT && kind == FAULT_HIDDEN && !block->hidden) {
		block->hidden = transfer->by_ring = true;
		status = PF_OK;
	}
	if (status == PF_ERR_FAULT)
		block_fail(block, block->side, address);
	else if (status == PF_ERR_REFUSED)
		block_refuse(block, address);
	else if (status != PF_OK)
		transfer_fail(transfer, status);
	if (block_given_up(transfer, block) || status != PF_OK) {
		block_free(block);
		return true;
	}
	if (kind == FAULT_PAGER)
		supplied_again(block, start);
	else if (kind == FAULT_MINOR && block->side == PF_SIDE_REMOTE)
		host_peer_note_hole(transfer_peer(transfer), block->address);
	block_set_ready(block);
	statistic_resolved(statistics, clock_nanoseconds(CLOCK_MONOTONIC) - block->noticed);
	statistic_add(statistics, PF_STAT_RETRANSMITS, 1);
	probe_retransmit(host->context->trace, transfer, block_address(block, PF_SIDE_LOCAL),
			 block->offset, block->length);
	return true;
}

struct block *block_ready(struct transfer *transfer)
{
	struct block *block;

	while ((block = TAILQ_FIRST(&transfer->blocks)) && block->state == BLOCK_READY) {
		if (!block_given_up(transfer, block))
			return block;
		block_free(block);
	}
	return NULL;
}

void block_forget(struct host_state *host, struct block *block)
{
	const pf_peer *peer = block->transfer->operation.peer;
	bool moving = block->state == BLOCK_MOVING;

	assert_progress(host->context);
	if (request_close(&host->requests, block->token, moving ? REQUEST_BLOCK : REQUEST_RESOLVE,
			  moving || block->side == PF_SIDE_REMOTE ? peer : NULL) &&
	    !moving && block->side == PF_SIDE_REMOTE)
		pace_end(&host->context->memory.pace);
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "block.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "context/context.h"
#include "common/peer.h"
#include "base/probe.h"
#include "context/service.h"
#include "transfer.h"

/* A block whose pages are gone again so often is copied all the same, and may wait for them. */
#define RETRIES_PARKED 2
/* A pager brings all pages of a block so often before it is taken for one that cannot hold them. */
#define SUPPLIED_WHOLE 4

static uint64_t transfer_address(const struct transfer *transfer, enum pf_side side)
{
	return side == PF_SIDE_REMOTE ? transfer->remote : (uint64_t)(uintptr_t)transfer->local;
}

void transfer_fail(struct transfer *transfer, int status, enum pf_side side, uint64_t address)
{
	uint64_t offset = status == PF_ERR_FAULT ? address - transfer_address(transfer, side) : 0;

	if (!transfer->failed || offset < transfer->failed_at) {
		transfer->failed_at = offset;
		transfer->operation.completion.status = status;
		transfer->operation.completion.side = side;
		transfer->operation.completion.address = address;
	}
	transfer->failed = true;
	transfer->run = transfer->run_end;
}

bool block_given_up(const struct transfer *transfer, const struct block *block)
{
	return transfer->failed && block->offset >= transfer->failed_at;
}

struct block *block_new(struct transfer *transfer, uint64_t offset, uint64_t length)
{
	struct block *block = calloc(1, sizeof(*block));

	if (!block) {
		transfer_fail(transfer, PF_ERR_MEMORY, PF_SIDE_NONE, 0);
		return NULL;
	}
	block->transfer = transfer;
	block->offset = offset;
	block->length = length;
	block->next = transfer->blocks;
	transfer->blocks = block;
	transfer->recorded++;
	return block;
}

void block_free(struct block *block)
{
	struct block **link = &block->transfer->blocks;

	while (*link != block)
		link = &(*link)->next;
	*link = block->next;
	block->transfer->recorded--;
	free(block);
}

uint64_t block_address(const struct block *block, enum pf_side side)
{
	return transfer_address(block->transfer, side) + block->offset;
}

bool block_is_patient(const struct block *block)
{
	return block->retries >= RETRIES_PARKED;
}

/* FAULTED -> RESOLVING: ask the side that owns the page. */
static void block_resolve(pf_context *context, struct block *block)
{
	struct transfer *transfer = block->transfer;
	pf_peer *peer = transfer->operation.peer, *owner;
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
		transfer_fail(transfer, PF_ERR_FAULT, block->side, block->address);
		block_free(block);
		return;
	}
	owner = block->side == PF_SIDE_REMOTE ? peer : NULL;
	token = request_open(&context->requests, REQUEST_RESOLVE, block, owner);
	if (!token ||
	    service_resolve(context->service, owner, token, start, block->length, write) != PF_OK) {
		request_close(&context->requests, token, REQUEST_RESOLVE, owner);
		transfer_fail(transfer, PF_ERR_MEMORY, PF_SIDE_NONE, 0);
		block_free(block);
		return;
	}
	block->state = BLOCK_RESOLVING;
	transfer->parked++;
}

void block_fault(pf_context *context, struct block *block, enum pf_side side, uint64_t address,
		 enum fault_kind kind)
{
	block->state = BLOCK_FAULTED;
	block->side = side;
	block->address = address;
	block->faulted = clock_nanoseconds(CLOCK_MONOTONIC);
	probe_fault(context, block->transfer, side, kind, address);
	block_resolve(context, block);
}

/*
 * Pages that the application evicts again and again come again and again. A
 * pager that holds fewer of them than the block has gets it by the page.
 */
static void supplied_again(struct block *block, uint64_t start)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), front = page - start % page;

	block->retries = 0;
	if (++block->supplied <= SUPPLIED_WHOLE || front >= block->length ||
	    !block_new(block->transfer, block->offset + front, block->length - front))
		return;
	block->length = front;
	block->supplied = 0;
}

void block_resolved(pf_context *context, struct block *block, int status, uint64_t address,
		    enum fault_kind kind)
{
	struct transfer *transfer = block->transfer;
	uint64_t start = block_address(block, block->side);

	transfer->parked--;
	/* A fault further on, in what was resolved along with it. */
	if (status == PF_ERR_FAULT && address >= start + block->length)
		status = PF_OK;
	statistic_fault(&context->statistics, block->side, kind);
	if (status != PF_OK)
		transfer_fail(transfer, status, block->side, address);
	if (block_given_up(transfer, block) || status != PF_OK) {
		block_free(block);
		return;
	}
	if (kind == FAULT_PAGER)
		supplied_again(block, start);
	block->state = BLOCK_READY;
	statistic_resolved(&context->statistics,
			   clock_nanoseconds(CLOCK_MONOTONIC) - block->faulted);
	statistic_add(&context->statistics, PF_STAT_RETRANSMITS, 1);
	probe_retransmit(transfer, block->offset, block->length);
}

struct block *block_ready(struct transfer *transfer)
{
	struct block *block;

	/* Looked for at every poll, however many are parked. */
	if (transfer->recorded == transfer->moving + transfer->parked)
		return NULL;
	for (block = transfer->blocks; block; block = block->next) {
		if (block->state == BLOCK_READY && !block_given_up(transfer, block))
			return block;
	}
	return NULL;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocks by single copy: the kernel moves them between the two address spaces. */
#include <errno.h>

#include "base/check.h"
#include "base/number.h"
#include "block.h"
#include "copy.h"
#include "route.h"

/* The kernel stopped at moved bytes into [offset, offset + length). */
static void copy_stopped(struct host_state *host, struct transfer *transfer, struct block *block,
			 uint64_t offset, uint64_t length, int error)
{
	struct host_peer *peer = transfer_peer(transfer);
	char *local = transfer->local + offset;
	uint64_t remote = transfer->remote + offset;
	enum pf_side side;

	if (error == ENOMEM) {
		transfer_fail(transfer, PF_ERR_MEMORY, PF_SIDE_NONE, 0);
	} else if (error != EFAULT) {
		/*
		 * Permission lost, or the main thread of the peer has ended: the rest goes through
		 * the ring. ESRCH does not prove the death of the process; the service thread finds
		 * out.
		 */
		host_peer_refuse_copy(peer, error);
		if (!block)
			block = block_new(transfer, offset, length);
		if (block)
			block_set_ready(block);
		return;
	}
	if (!block)
		block = block_new(transfer, offset, length);
	if (!block)
		return;
	if (pager_lacks(&host->context->memory.pagers, (uint64_t)(uintptr_t)local))
		side = PF_SIDE_LOCAL;
	else
		side = copy_fault_side(peer->process, transfer_is_put(transfer), local, remote);
	block_fault(host, block, side, side == PF_SIDE_LOCAL ? (uint64_t)(uintptr_t)local : remote,
		    FAULT_PERMISSION);
}

/* A copy would wait for the pages there: park the pages, and as many behind as the policy says. */
static void block_park(struct host_state *host, struct transfer *transfer, struct block *block,
		       enum pf_side side)
{
	if (!block) {
		uint64_t length = policy_window(host->context->memory.policy,
						&transfer->windows[side], transfer->run,
						host->context->options.block_size,
						transfer->run_end);

		block = block_new(transfer, transfer->run, length);
		if (!block)
			return;
		transfer->run += length;
	}
	block_fault(host, block, side, block_address(block, side), FAULT_MAJOR);
}

/* Copy one run, or retransmit one block. */
static enum advanced copy_run(struct host_state *host, struct transfer *transfer)
{
	struct host_peer *peer = transfer_peer(transfer);
	pf_context *context = host->context;
	struct block *block = block_ready(transfer);
	uint64_t offset = block ? block->offset : transfer->run;
	uint64_t left = block ? block->length : transfer->run_end - transfer->run;
	size_t length = number_min(left, context->options.run_max), moved;
	enum pf_side side;
	int error;

	assert_progress(host->context);
	if (!block || !block_may_wait(block)) {
		length = host_peer_ready(peer, transfer_is_put(transfer), transfer->local + offset,
					 transfer->remote + offset, length, &side);
		if (!length) {
			block_park(host, transfer, block, side);
			return ADVANCED_LITTLE;
		}
	}
	error = copy_and_trace(context->trace, transfer, peer->process, peer->peer.id,
			       transfer_is_put(transfer), transfer->local + offset,
			       transfer->remote + offset, length, &moved);
	statistic_add(&context->statistics, PF_STAT_SINGLE_COPY_BYTES, moved);
	memory_moved(&context->memory, transfer->local + offset, moved, transfer->length);
	if (block) {
		block->offset += moved;
		block->length -= moved;
		if (moved)
			block->retries = 0;
		if (error)
			copy_stopped(host, transfer, block, block->offset, block->length, error);
		else if (!block->length)
			block_free(block);
		return ADVANCED_COPY;
	}
	activity_moved(&context->activity);
	transfer->run += moved;
	if (error) {
		/* Park the rest of the block where the copy stopped; go on behind. */
		uint64_t size = context->options.block_size;
		uint64_t end = number_min((transfer->run / size + 1) * size, transfer->run_end);
		uint64_t start = transfer->run;

		transfer->run = end;
		copy_stopped(host, transfer, NULL, start, end - start, error);
	}
	return ADVANCED_COPY;
}

const struct route route_copy = { .move = copy_run, .shares = true };

/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocks by single copy: the kernel moves them between the two address spaces. */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/number.h"
#include "block.h"
#include "copy.h"
#include "message.h"
#include "route.h"

/* The kernel stopped at offset; the bytes from there to offset + length are of one piece. */
static void copy_stopped(struct host_state *host, struct transfer *transfer, struct block *block,
			 const struct transfer_piece *piece, uint64_t offset, uint64_t length,
			 int error)
{
	struct host_peer *peer = transfer_peer(transfer);
	uint64_t local = piece->local + offset, remote = piece->remote + offset;
	enum pf_side side;

	if (error == ENOMEM) {
		transfer_fail(transfer, PF_ERR_MEMORY);
	} else if (error != EFAULT) {
		/*
		 * Permission lost, or the main thread of the peer has ended: the rest goes through
		 * the ring. ESRCH does not prove the death of the process; the service thread finds
		 * out.
		 */
		host_peer_refuse_copy(peer, error);
		if (!block)
			block = block_new(transfer, piece, offset, length);
		if (block)
			block_set_ready(block);
		return;
	}
	if (!block)
		block = block_new(transfer, piece, offset, length);
	if (!block)
		return;
	if (pager_lacks(&host->context->memory.pagers, local))
		side = PF_SIDE_LOCAL;
	else
		side = copy_fault_side(peer->process, transfer_is_put(transfer), local, remote);
	block_fault(host, block, side, side == PF_SIDE_LOCAL ? local : remote, FAULT_PERMISSION);
}

/* A copy would wait for the pages there: park the pages, and as many behind as the policy says. */
static void block_park(struct host_state *host, struct transfer *transfer, struct block *block,
		       enum pf_side side)
{
	if (!block)
		block = block_of_run(transfer,
				     policy_window(host->context->memory.policy,
						   &transfer->windows[side], transfer->run,
						   host->context->options.block_size,
						   transfer->run_end));
	if (block)
		block_fault(host, block, side, block_address(block, side), FAULT_MAJOR);
}

/* List the bytes of [offset, end), from a piece on, as far as the list has room. */
static void run_list(const struct transfer_piece *piece, uint64_t offset, uint64_t end,
		     struct copy_list *list)
{
	for (; offset < end && list->count < list->most; offset = piece++->end)
		copy_list_add(list, piece->local + offset, piece->remote + offset,
			      number_min(piece->end, end) - offset);
}

/* Ask the peer to make the range a huge page. Without room in the ring: at the next copy. */
static void ask_collapse(struct host_peer *peer, struct collapse_entry *range)
{
	struct message_collapse *message;
	int status;

	host_peer_lock(peer);
	message = (struct message_collapse *)host_peer_reserve(peer, sizeof(*message), &status);
	if (message) {
		message->number = range->number;
		host_peer_commit(peer, sizeof(*message), MESSAGE_COLLAPSE, 0);
		collapse_asked(range);
	}
	host_peer_unlock(peer);
}

void route_copy_note(struct host_peer *peer, uint64_t remote, uint64_t length)
{
	struct memory *memory = &peer->peer.context->memory;
	struct collapse_entry *worth;
	uint64_t owner;

	if (peer->self) {
		memory_looked_up(memory, remote, length, length);
		return;
	}
	/* Random bytes. */
	memcpy(&owner, peer->peer.id, sizeof(owner));
	worth = collapse_note(&memory->collapse, owner, remote, length);
	if (worth)
		ask_collapse(peer, worth);
}

/* Count the bytes from offset on: the copy has looked up pages of the peer. */
static void run_note(const struct memory *memory, const struct transfer *transfer,
		     const struct transfer_piece *piece, uint64_t offset, uint64_t moved)
{
	uint64_t end = offset + moved, length;

	if (!collapse_counts(&memory->collapse, transfer->length))
		return;
	for (; offset < end; offset += length, piece++) {
		length = number_min(piece->end, end) - offset;
		route_copy_note(transfer_peer(transfer), piece->remote + offset, length);
	}
}

/* Most short transfers that one system call copies. */
#define COPY_ALONG_MOST 64

/* Return the transfer behind, if short and not begun, else NULL. */
static struct transfer *transfer_along(struct transfer *transfer)
{
	struct transfer *next = (struct transfer *)TAILQ_NEXT(&transfer->operation, ready);

	return next && next->operation.kind == transfer->operation.kind &&
			       transfer_is_short(next) && !next->front && !next->failed ?
		       next :
		       NULL;
}

/* List the transfers behind the first, as far as the list has room. */
static void along_list(struct transfer *first, struct copy_list *list)
{
	struct transfer *transfer = first;

	while (list->count < list->most && (transfer = transfer_along(transfer)))
		copy_list_add(list, transfer->pieces[0].local, transfer->pieces[0].remote,
			      transfer->length);
}

/* Claim transfers behind the first, as far as the moved bytes reach. */
static void along_moved(struct transfer *first, uint64_t moved)
{
	struct transfer *transfer = first;

	for (; moved; moved -= transfer->run) {
		transfer = transfer_along(transfer);
		transfer->run = number_min(moved, transfer->length);
		transfer->run_end = transfer->front = transfer->length;
	}
}

/* Copy one run, or retransmit one block. */
static enum advanced copy_run(struct host_state *host, struct transfer *transfer)
{
	struct host_peer *peer = transfer_peer(transfer);
	pf_context *context = host->context;
	struct block *block = block_ready(transfer);
	uint64_t offset = block ? block->offset : transfer->run;
	uint64_t left = block ? block->length : transfer->run_end - transfer->run;
	uint64_t most = number_min(left, context->options.run_max), end = offset + most;
	const struct transfer_piece *piece = block ? block->piece :
						     transfer_piece_at(transfer, offset);
	uint64_t pieces = (uint64_t)(transfer->pieces + transfer->pieces_count - piece);
	struct copy_list list;
	enum pf_side side = PF_SIDE_LOCAL;
	size_t moved;
	bool along;
	int error;

	assert_progress(host->context);
	/* A trace shows each copy with its transfer. */
	along = !block && most <= TRANSFER_SHORT && end == transfer->length && !context->trace &&
		transfer_along(transfer);
	if (block)
		pieces = 1;
	else if (along)
		pieces = number_max(pieces, COPY_ALONG_MOST);
	copy_list_open(&list, (unsigned)pieces);
	run_list(piece, offset, end, &list);
	if (along)
		along_list(transfer, &list);
	if (!block || !block_may_wait(block))
		(void)host_peer_list_ready(peer, transfer_is_put(transfer), &list, &side);
	if (!list.count) {
		copy_list_close(&list);
		block_park(host, transfer, block, side);
		return ADVANCED_LITTLE;
	}
	error = copy_and_trace(context->trace, transfer, peer->process, peer->peer.id,
			       transfer_is_put(transfer), &list, &moved);
	copy_list_close(&list);
	statistic_add(&context->statistics, PF_STAT_SINGLE_COPY_BYTES, moved);
	if (moved > most) {
		along_moved(transfer, moved - most);
		moved = most;
	}
	/* The error of a transfer behind: its own copy meets the error again. */
	if (moved == most)
		error = 0;
	run_note(&context->memory, transfer, piece, offset, moved);
	if (block) {
		block->offset += moved;
		block->length -= moved;
		if (moved)
			block->retries = 0;
		if (error)
			copy_stopped(host, transfer, block, piece, block->offset, block->length,
				     error);
		else if (!block->length)
			block_free(block);
		return ADVANCED_COPY;
	}
	activity_moved(&context->activity);
	transfer->run += moved;
	if (error) {
		/* Park the rest of the block where the copy stopped; go on behind. */
		uint64_t size = context->options.block_size;
		uint64_t start = transfer->run;

		piece = transfer_piece_at(transfer, start);
		end = number_min((start / size + 1) * size,
				 number_min(piece->end, transfer->run_end));
		transfer->run = end;
		copy_stopped(host, transfer, NULL, piece, start, end - start, error);
	}
	return ADVANCED_COPY;
}

const struct route route_copy = { .move = copy_run, .shares = true };

/* SPDX-License-Identifier: BSD-3-Clause */
#include "transfer_advance.h"

#include <errno.h>
#include <stdlib.h>

#include "atomic.h"
#include "base/check.h"
#include "base/number.h"
#include "base/probe.h"
#include "base/tag.h"
#include "copy.h"
#include "message.h"
#include "route.h"

/* Short transfers of a row copied by the caller; the rest of the row waits for progress. */
#define ROW_LEAST 8
/*
 * From this many on the caller copies again: the program seems not to poll, and records of posted
 * transfers would take memory without bound. With operations_max there is a bound.
 */
#define ROW_MOST 1024

/* Does the peer copy own transfers now, by the inbox? */
static bool peer_is_moving(const struct host_peer *peer)
{
	const struct bell *bell = host_peer_bell(peer);

	return bell && inbox_is_moving(bell->inbox);
}

void host_say_moving(struct host_state *host, bool moving)
{
	if (host->moving == moving || context_is_sleepy(host->context))
		return;
	host->moving = moving;
	atomic_store_explicit(&host->inbox.memory->moving, moving, memory_order_relaxed);
}

void transfer_offer(struct host_state *host, struct transfer *transfer)
{
	struct host_peer *peer = transfer_peer(transfer);
	const pf_context *context = host->context;
	struct message_offer *message;
	uint32_t front, begun;
	struct share *share;
	int status;

	assert_progress(host->context);
	/*
	 * A process that shares a core may lose the core with a run in hand, and the peer waits for
	 * the run.
	 */
	if (context_is_sleepy(context))
		return;
	/* With the option expose, no peer moves bytes of the own memory. */
	if (context->options.expose)
		return;
	if (transfer->share || transfer->failed || transfer->by_ring ||
	    transfer->pieces_count > 1 || transfer->run < transfer->run_end ||
	    transfer->length - transfer->front < context->share_min[peer->distance] ||
	    peer_state(&peer->peer) != PF_PEER_CONNECTED || !host_peer_route(peer)->shares ||
	    !peer->shares_free || peer->self)
		return;
	if (transfer->length < SHARE_BUSY_MAX) {
		transfer->postponed = !peer->alone && peer_is_moving(peer);
		/* No rest to offer: spare the next looks, too, a cache line each. */
		if (transfer->postponed && transfer->length <= context->options.run_max)
			peer->alone = SHARE_ALONE;
		transfer->alone = peer->alone;
		if (transfer->alone || transfer->postponed)
			return;
	}
	transfer->slot = (unsigned)__builtin_ctzll(peer->shares_free);
	transfer->shift = share_granule_shift(transfer->length);
	transfer->granules = (uint32_t)((transfer->length - 1) >> transfer->shift) + 1;
	share = &peer->out.memory->shares[transfer->slot];
	/* A transfer begun alone goes on behind whole granules. */
	begun = (uint32_t)(transfer->front >> transfer->shift);
	front = (transfer->granules - begun + 1) / 2;
	if ((uint64_t)front << transfer->shift > context->options.run_max)
		front = (uint32_t)(context->options.run_max >> transfer->shift);
	front = begun + (front ? front : 1);
	if (front >= transfer->granules)
		return;

	host_peer_lock(peer);
	message = (struct message_offer *)host_peer_reserve(peer, sizeof(*message), &status);
	if (message) {
		peer->share_generation = (peer->share_generation + 1) & 0xffffff;
		share_open(share, peer->share_generation, front, transfer->granules);
		*message = (struct message_offer){
			.initiator = transfer->pieces[0].local,
			.target = transfer->pieces[0].remote,
			.length = transfer->length,
			.generation = peer->share_generation,
			.slot = (uint16_t)transfer->slot,
			.put = transfer_is_put(transfer),
			.shift = (uint8_t)transfer->shift,
		};
		host_peer_commit(peer, sizeof(*message), MESSAGE_OFFER, 0);
	}
	host_peer_unlock(peer);
	if (!message)
		return;
	peer->shares_free &= ~(1ull << transfer->slot);
	transfer->share = share;
	transfer->run_end = number_min((uint64_t)front << transfer->shift, transfer->length);
	transfer->front = transfer->run_end;
}

static void take_granules(struct transfer *transfer, struct granules run)
{
	transfer->run = (uint64_t)run.start << transfer->shift;
	transfer->run_end = number_min((uint64_t)run.end << transfer->shift, transfer->length);
}

/* Claim the next run to move; false when this side has none left. */
static bool transfer_claim(const pf_context *context, struct transfer *transfer)
{
	struct granules run;

	if (transfer->failed)
		return false;
	if (transfer->share) {
		uint32_t most = (uint32_t)(context->options.run_max >> transfer->shift);
		uint32_t least = SHARE_FRONT_LEAST >> transfer->shift;

		if (transfer->closed)
			return false;
		/*
		 * A peer that has claimed nothing by now does not poll: take as much as possible.
		 */
		if (!transfer->joined) {
			transfer->joined = share_joined(transfer->share, transfer->granules);
			if (!transfer->joined)
				least = most;
		}
		if (!share_claim_front(transfer->share, least ? least : 1, most ? most : 1, &run))
			return false;
		/* The peer can write anything to the claim word: stay inside the transfer. */
		if (run.end > transfer->granules) {
			transfer_fail(transfer, PF_ERR_PROTOCOL);
			return false;
		}
		take_granules(transfer, run);
		return true;
	}
	if (transfer->front == transfer->length)
		return false;
	transfer->run = transfer->front;
	transfer->run_end = transfer->length;
	/* After a run the rest may be offered. */
	if (transfer->postponed)
		transfer->run_end = number_min(transfer->run + context->options.run_max,
					       transfer->length);
	transfer->front = transfer->run_end;
	return true;
}

static void close_share(struct transfer *transfer)
{
	if (transfer->share)
		transfer_peer(transfer)->shares_free |= 1ull << transfer->slot;
	transfer->share = NULL;
	transfer->front = transfer->length;
}

/*
 * Record whether the peer helped with a transfer, now closed: how many of the next are not offered to the
 * peer.
 */
static void record_help(struct host_peer *peer, bool helped)
{
	unsigned next = peer->alone_next ? 2 * peer->alone_next : SHARE_ALONE;

	/* Also if the peer helped: the own transfer of the peer begins as much later. */
	if (peer_is_moving(peer)) {
		peer->alone = (unsigned)number_max(peer->alone, SHARE_ALONE);
		peer->alone_next = 0;
		return;
	}
	/* Of several transfers offered at the same time, one counts. */
	if (!helped && peer->alone)
		return;
	peer->alone_next = helped ? 0 : (unsigned)number_min(next, SHARE_ALONE_MOST);
	peer->alone = peer->alone_next;
}

/* Count the bytes claimed by the peer, from the end on: the peer looked up pages of this process. */
static void note_peer_granules(const struct transfer *transfer)
{
	pf_context *context = transfer_peer(transfer)->peer.context;
	uint64_t granules = number_min(transfer->peer_granules, transfer->granules);
	uint64_t start = (transfer->granules - granules) << transfer->shift;

	memory_looked_up(&context->memory, transfer->pieces[0].local + start,
			 transfer->length - number_min(start, transfer->length), transfer->length);
}

/* Has the peer moved every claimed run? The peer may return a run that could not be moved. */
static bool peer_moved(struct transfer *transfer)
{
	struct granules rest;

	if (!transfer->closed) {
		transfer->peer_granules = share_close(transfer->share, transfer->granules);
		transfer->closed = true;
		note_peer_granules(transfer);
		if (!transfer->failed && transfer->length < SHARE_BUSY_MAX)
			record_help(transfer_peer(transfer), transfer->peer_granules > 0);
	}
	if (!share_finished(transfer->share, transfer->granules, transfer->peer_granules, &rest))
		return false;
	if (granules_count(rest) && !transfer->failed)
		take_granules(transfer, rest);
	return true;
}

/* The share is closed as soon as the peer is done; blocks may wait for pages long after. */
static bool peer_finished(struct transfer *transfer)
{
	if (transfer->share && peer_moved(transfer))
		close_share(transfer);
	return !transfer->share;
}

/* The peer is gone; forget the requests under way. */
static void transfer_abandon(struct host_state *host, struct transfer *transfer)
{
	struct block *block;

	/* A peer that was given up may live, but must claim no more of the buffer. */
	if (transfer->share)
		share_close(transfer->share, transfer->granules);
	/* The peer's answers to requests under way cannot come any more. */
	TAILQ_FOREACH(block, &transfer->blocks, link)
		block_forget(host, block);
	close_share(transfer);
}

enum advanced transfer_advance(struct host_state *host, struct transfer *transfer)
{
	struct host_peer *peer = transfer_peer(transfer);
	int state = peer_state(&peer->peer), status;

	assert_progress(host->context);
	if (state != PF_PEER_CONNECTED && !peer_state_ended(state)) {
		host_peer_lock(peer);
		status = host_peer_connect(peer, true);
		host_peer_unlock(peer);
		if (status == PF_OK || status == PF_ERR_AGAIN)
			return ADVANCED_BLOCKED;
		transfer_fail(transfer, status);
		return ADVANCED_TO_END;
	}
	transfer_offer(host, transfer);
	/*
	 * A resolved block makes the transfer ready again; the peer goes on with the peer's end of
	 * a share.
	 */
	if (transfer->parked >= TRANSFER_PARKED_MOST && state == PF_PEER_CONNECTED)
		return ADVANCED_WAITS;
	if (block_ready(transfer) || transfer->run < transfer->run_end ||
	    transfer_claim(host->context, transfer)) {
		if (peer_state_ended(state))
			goto lost;
		return (transfer->by_ring ? &route_stream : host_peer_route(peer))
			->move(host, transfer);
	}
	if (peer_finished(transfer) && transfer->run >= transfer->run_end && !transfer->moving &&
	    !transfer->parked) {
		if (transfer->alone && peer->alone)
			peer->alone--;
		return ADVANCED_TO_END;
	}
	if (peer_state_ended(state))
		goto lost;
	if (transfer->run < transfer->run_end)
		return ADVANCED_LITTLE;
	/* A block that moves or is parked makes the transfer ready again. */
	return transfer->share ? ADVANCED_SHARED : ADVANCED_WAITS;

lost:
	/* A part that was not moved when the peer ended moves no more. */
	transfer_fail(transfer, peer->peer.gone_status);
	transfer_abandon(host, transfer);
	return ADVANCED_TO_END;
}

bool transfer_withdraw(struct transfer *transfer, int status)
{
	struct granules rest;

	assert_progress(transfer->operation.peer->context);
	/* A transfer with a share has a linked peer, and a linked peer has a process. */
	if (!transfer->share)
		return true;
	if (!transfer->closed) {
		transfer->peer_granules = share_close(transfer->share, transfer->granules);
		transfer->closed = true;
	}
	transfer_fail(transfer, status);
	return share_finished(transfer->share, transfer->granules, transfer->peer_granules,
			      &rest) ||
	       !process_lives(transfer_peer(transfer)->process);
}

/* Return the count of open transfers with the transfer. */
static _Atomic unsigned *open_count(const struct transfer *transfer)
{
	struct host_peer *peer = transfer_peer(transfer);

	return transfer_is_short(transfer) ? &peer->shorts : &peer->peer.context->host->longs;
}

void transfer_release(struct transfer *transfer)
{
	struct block *block;

	while ((block = TAILQ_FIRST(&transfer->blocks)))
		block_free(block);
	atomic_fetch_sub_explicit(open_count(transfer), 1, memory_order_relaxed);
	free(transfer->signal);
	free(transfer);
}

/* List all pieces. False: a copy would wait for a page, or there are too many for the list. */
static bool pieces_list(struct host_peer *peer, bool put, const pf_piece *pieces, unsigned count,
			struct copy_list *list)
{
	enum pf_side side;
	unsigned i;

	for (i = 0; i < count; i++) {
		if (!pieces[i].length)
			continue;
		if (list->count == list->most)
			return false;
		copy_list_add(list, tag_remove((uintptr_t)pieces[i].local),
			      tag_remove(pieces[i].remote), pieces[i].length);
	}
	return host_peer_list_ready(peer, put, list, &side);
}

/* Copy at once. True: all bytes were moved; else *moved bytes. */
static bool copy_at_once(struct host_peer *peer, bool put, const pf_piece *pieces, unsigned count,
			 size_t *moved)
{
	pf_context *context = peer->peer.context;
	struct copy_list list;
	int error = EAGAIN;

	if (!host_peer_enter(peer))
		return false;
	copy_list_open(&list, count);
	if (pieces_list(peer, put, pieces, count, &list)) {
		error = copy_and_trace(context->trace, NULL, peer->process, peer->peer.id, put,
				       &list, moved);
		activity_moved(&context->activity);
		statistic_add(&context->statistics, PF_STAT_SINGLE_COPY_BYTES, *moved);
	}
	copy_list_close(&list);
	host_peer_leave(peer);
	return !error;
}

/*
 * Is a transfer by single copy a system call of little time? Of several pieces, the average length
 * counts, and the call takes no longer than for a run.
 */
static bool is_short(const struct host_peer *peer, unsigned count, uint64_t length)
{
	uint64_t at_once = host_peer_at_once(peer);

	return length < at_once || (count > 1 && length <= peer->peer.context->options.run_max &&
				    length / count < at_once);
}

/*
 * Would operations_max refuse a short transfer to the peer in vain? While short transfers to the peer
 * are open, a poll makes room.
 */
static bool refuses_short(const struct host_peer *peer)
{
	return !operations_have_room(&peer->peer.context->operations) &&
	       !atomic_load_explicit(&peer->shorts, memory_order_relaxed);
}

/*
 * Count a short transfer. Does the transfer wait for progress, which copies many of a row by one
 * system call? Not with threads: progress may sleep in another thread. Not beside a transfer that is
 * not short, to any peer: a poll copies up to run_max bytes of such a transfer.
 */
static bool waits_for_more(struct host_peer *peer, unsigned count, uint64_t length)
{
	pf_context *context = peer->peer.context;
	unsigned before;

	if (count > 1 || length > TRANSFER_SHORT || context->threads || context->trace ||
	    host_peer_route(peer) != &route_copy)
		return false;
	before = operations_row(&context->operations, &peer->peer);
	return before >= ROW_LEAST && (before < ROW_MOST || context->options.operations_max) &&
	       !atomic_load_explicit(&context->host->longs, memory_order_relaxed) &&
	       !refuses_short(peer);
}

/* Return NULL without memory. Bytes moved already count as claimed. */
static struct transfer *transfer_allocate(pf_peer *peer, enum operation_kind kind,
					  const pf_piece *pieces, unsigned count, uint64_t moved)
{
	struct transfer *transfer = malloc(sizeof(*transfer) + count * sizeof(*transfer->pieces));
	uint64_t length = 0;
	unsigned i;

	if (!transfer)
		return NULL;
	*transfer = (struct transfer){ .operation = { .kind = kind, .peer = peer } };
	TAILQ_INIT(&transfer->blocks);
	for (i = 0; i < count; i++) {
		if (!pieces[i].length)
			continue;
		transfer->pieces[transfer->pieces_count++] = (struct transfer_piece){
			.local = (uintptr_t)tag_remove_pointer(pieces[i].local) - length,
			.remote = tag_remove(pieces[i].remote) - length,
			.end = length + pieces[i].length,
		};
		length += pieces[i].length;
	}
	transfer->length = length;
	transfer->front = transfer->run = transfer->run_end = moved;
	atomic_fetch_add_explicit(open_count(transfer), 1, memory_order_relaxed);
	return transfer;
}

/* Post the transfer, never refused if bytes were moved. From here on the caller has no transfer. */
static int transfer_hand_over(struct transfer *transfer)
{
	pf_context *context = transfer->operation.peer->context;
	int status;

	probe_transfer(context->trace, transfer, transfer_is_put(transfer),
		       transfer->pieces[0].local, transfer->pieces[0].remote, transfer->length,
		       transfer->operation.peer->id);
	status = host_post(context, &transfer->operation, !transfer->front);
	if (status < 0) {
		probe_transfer_done(context->trace, transfer, status);
		transfer_release(transfer);
	}
	return status;
}

/*
 * Would progress copy the transfer alone, in one run (share.h), with no long transfer open? Then the
 * caller copies, and spares the record. Once for each round of messages: in a call of progress many
 * callbacks may post transfers. Not with threads: the fields are progress's own.
 */
static bool is_alone(const struct host_peer *peer, unsigned count, uint64_t length)
{
	const pf_context *context = peer->peer.context;

	return !context->threads && peer->alone && count == 1 &&
	       length >= context->share_min[peer->distance] && length <= context->options.run_max &&
	       length < SHARE_BUSY_MAX && !context->host->copied_alone &&
	       host_peer_route(peer) == &route_copy &&
	       !atomic_load_explicit(&context->host->longs, memory_order_relaxed);
}

/* Copy a transfer that is_alone. True: all bytes were moved; else *moved bytes. */
static bool copy_by_caller(struct host_peer *peer, bool put, const pf_piece *piece, size_t *moved)
{
	struct memory *memory = &peer->peer.context->memory;
	struct host_state *host = peer->peer.context->host;
	bool copied;

	if (!put)
		memory_expect(memory, (uintptr_t)tag_remove_pointer(piece->local), piece->length);
	host->copied_alone = true;
	host_say_moving(host, true);
	copied = copy_at_once(peer, put, piece, 1, moved);
	host_say_moving(host, false);
	if (!copied)
		return false;
	peer->alone--;
	if (collapse_counts(&memory->collapse, piece->length))
		route_copy_note(peer, tag_remove(piece->remote), piece->length);
	return true;
}

int transfer_post(pf_peer *base, enum operation_kind kind, const pf_piece *pieces, unsigned count,
		  uint64_t length, pf_complete_fn complete, void *arg)
{
	struct host_peer *peer = (struct host_peer *)base;
	const bool put = kind == OPERATION_PUT;
	pf_context *context = base->context;
	struct transfer *transfer;
	size_t moved = 0;
	unsigned i;

	/* A short transfer by single copy is one system call: copy here. */
	if (is_short(peer, count, length) ?
		    !waits_for_more(peer, count, length) &&
			    copy_at_once(peer, put, pieces, count, &moved) :
		    is_alone(peer, count, length) && copy_by_caller(peer, put, pieces, &moved)) {
		statistic_add(&context->statistics, put ? PF_STAT_PUTS : PF_STAT_GETS, 1);
		return PF_OK;
	}
	if (peer_is_gone(base))
		return base->gone_status;
	transfer = transfer_allocate(base, kind, pieces, count, moved);
	if (!transfer)
		return PF_ERR_MEMORY;
	transfer->operation.complete = complete;
	transfer->operation.completion.arg = arg;
	for (i = 0; i < count && kind == OPERATION_GET; i++)
		memory_expect(&context->memory, (uintptr_t)tag_remove_pointer(pieces[i].local),
			      pieces[i].length);
	return transfer_hand_over(transfer);
}

/* Make the record of the signal of a put; NULL without memory. */
static struct atomic_operation *signal_allocate(pf_peer *peer, const pf_piece *piece,
						const pf_signal *signal, pf_complete_fn complete,
						void *arg)
{
	struct atomic_request request = { .address = signal->remote,
					  .operand = signal->value,
					  .width = sizeof(signal->value) };

	if (signal->op == PF_SIGNAL_NOTICE) {
		request.op = MESSAGE_OP_NOTICE;
		request.address = piece->remote;
		request.compare = piece->length;
	} else {
		request.op = signal->op == PF_SIGNAL_ADD ? PF_ATOMIC_ADD : PF_ATOMIC_SWAP;
	}
	return atomic_allocate(peer, OPERATION_SIGNAL, &request, complete, arg);
}

/*
 * Move the data of a short put now, if operations_max cannot refuse the signal afterwards. True: all
 * bytes were moved.
 */
static bool signal_copy_at_once(struct host_peer *peer, const pf_piece *piece, size_t *moved)
{
	return !piece->length ||
	       (!peer->peer.context->options.operations_max && is_short(peer, 1, piece->length) &&
		copy_at_once(peer, true, piece, 1, moved));
}

int transfer_post_signal(pf_peer *base, const pf_piece *piece, const pf_signal *signal,
			 pf_complete_fn complete, void *arg)
{
	pf_context *context = base->context;
	struct atomic_operation *follows;
	struct transfer *transfer;
	size_t moved = 0;
	int status;

	if (peer_is_gone(base))
		return base->gone_status;
	follows = signal_allocate(base, piece, signal, complete, arg);
	if (!follows)
		return PF_ERR_MEMORY;
	if (signal_copy_at_once((struct host_peer *)base, piece, &moved)) {
		status = host_post(context, &follows->operation, true);
		if (status < 0)
			free(follows);
		return status;
	}
	transfer = transfer_allocate(base, OPERATION_PUT, piece, 1, moved);
	if (!transfer) {
		free(follows);
		return PF_ERR_MEMORY;
	}
	transfer->signal = follows;
	transfer->operation.complete = complete;
	transfer->operation.completion.arg = arg;
	return transfer_hand_over(transfer);
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "source.h"

#include "transfer.h"

#include "base/check.h"

/* Queue the transfer for sending. */
static void start_sending(struct exchange *exchange, struct net_transfer *transfer)
{
	struct transfers *transfers = &exchange->transfers;

	exchange->effects |= EFFECT_OUTPUT;
	if (transfer->sending)
		return;
	transfer->sending = true;
	STAILQ_INSERT_TAIL(&transfers->sending[transfer->get], transfer, next_sending);
}

/* Make a block READY if the block has granules to send and nothing holds the block back. */
static void make_ready(struct exchange *exchange, struct net_transfer *transfer, unsigned block)
{
	uint64_t bit = 1ull << block;

	assert_that(transfer->source && block < transfer->blocks);
	if (!transfer->granules[block] || transfer->cancelled || block >= transfer->limit ||
	    (transfer->parked | transfer->held) & bit)
		return;
	transfer->ready |= bit;
	start_sending(exchange, transfer);
}

void source_start(struct exchange *exchange, struct net_transfer *transfer)
{
	unsigned block;

	assert_that(transfer->source && transfer->blocks && transfer->blocks <= TRANSFER_BLOCKS);
	for (block = 0; block < transfer->blocks; block++)
		transfer->granules[block] = ~0ull;
	block = transfer->blocks - 1u;
	transfer->granules[block] = transfer_block_granules(exchange, transfer, block);
	transfer->ready = granule_mask(0, transfer->blocks);
	if (transfer->signalling == SIGNAL_CARRIED && transfer->operation->open > 1) {
		transfer->held = granule_mask(block, 1);
		transfer->ready &= ~transfer->held;
		transfer->operation->last = transfer;
	}
	start_sending(exchange, transfer);
}

/* Give up a transfer with a bad block when all blocks before the bad block are sent. */
static void source_give_up(struct exchange *exchange, struct net_transfer *transfer)
{
	if (transfer->status == PF_OK || transfer->cancelled ||
	    transfer->ready | transfer->parked | transfer->held)
		return;
	transfer->cancelled = true;
	transfer_tell(exchange, transfer, transfer->operation ? TELL_CANCEL : TELL_FAILED);
}

/* Ask the user if the block can be read now. Returns as the callback source. */
static int source_look(struct exchange *exchange, struct net_transfer *transfer, unsigned block,
		       uint64_t *bad)
{
	struct shared *shared = exchange->shared;
	struct net_wait wait = transfer_wait(exchange, transfer, block);

	*bad = 0;
	if (!wait.length)
		return PF_OK;
	return shared->memory.source(shared->memory.user, &wait, wait.address,
				     (uint32_t)wait.length, bad);
}

/* The block is absent: send the block after net_resolved. */
static void source_park(struct exchange *exchange, struct net_transfer *transfer, unsigned block)
{
	uint64_t bit = 1ull << block;

	/* The user resolves a block exactly once: see net_memory_operations. */
	assert_that(!(transfer->parked & bit));
	transfer->ready &= ~bit;
	transfer->parked |= bit;
	exchange->shared->statistics.source_faults++;
}

/*
 * A block cannot be read. All blocks before the bad block are still sent: an earlier
 * block may be bad as well, and the address reported is the first. Check also the
 * blocks that count as sent, because the packet with the first bad byte may have been
 * lost before the system read the byte. Blocks still to be sent are checked before
 * sending: a transfer is given up before the system has read the last packets.
 */
static void source_fail(struct exchange *exchange, struct net_transfer *transfer, unsigned block,
			int status, uint64_t bad)
{
	unsigned limit = block;
	uint64_t before, earlier_bad;
	int earlier;

	if (transfer->cancelled || limit >= transfer->limit)
		return;
	for (block = 0; block < limit; block++) {
		transfer->suspect |= 1ull << block;
		transfer->checked &= ~(1ull << block);
		if ((transfer->parked | transfer->held) >> block & 1)
			continue;
		earlier = source_look(exchange, transfer, block, &earlier_bad);
		if (earlier == PF_ERR_AGAIN) {
			source_park(exchange, transfer, block);
		} else if (earlier != PF_OK) {
			status = earlier;
			bad = earlier_bad;
			break;
		}
	}
	before = granule_mask(0, block);
	transfer->limit = (uint8_t)block;
	transfer->ready &= before;
	transfer->parked &= before;
	transfer->held &= before;
	transfer->status = status;
	transfer->address = bad;
	source_give_up(exchange, transfer);
}

/* A block cannot be read now: wait for the block, or fail. */
static void source_park_or_fail(struct exchange *exchange, struct net_transfer *transfer,
				unsigned block, int status, uint64_t bad)
{
	if (status == PF_ERR_AGAIN)
		source_park(exchange, transfer, block);
	else
		source_fail(exchange, transfer, block, status, bad);
}

/* Can the block be read? If not, the block is no longer READY. */
static bool source_check(struct exchange *exchange, struct net_transfer *transfer, unsigned block)
{
	uint64_t bit = 1ull << block, bad;
	int status;

	if (transfer->checked & bit)
		return true;
	status = source_look(exchange, transfer, block, &bad);
	if (status != PF_OK) {
		source_park_or_fail(exchange, transfer, block, status, bad);
		return false;
	}
	if (!(exchange->shared->memory.asks_again && transfer->get))
		transfer->checked |= bit;
	transfer->suspect &= ~bit;
	return true;
}

bool source_fetch(struct exchange *exchange, const struct run *run, void *to)
{
	uint32_t offset = run->offset, end = run->offset + run->length, length;
	struct net_transfer *transfer = run->transfer;
	struct shared *shared = exchange->shared;
	uint8_t *bytes = to;

	for (; offset < end; offset += length, bytes += length) {
		unsigned block = offset / exchange->block_size;
		struct net_wait wait = transfer_wait(exchange, transfer, block);
		uint64_t bad = 0;
		int status;

		length = exchange->block_size - offset % exchange->block_size;
		if (length > end - offset)
			length = end - offset;
		status = shared->memory.fetch(shared->memory.user, &wait, transfer->local + offset,
					      bytes, length, &bad);
		if (status == PF_OK)
			continue;
		transfer->checked &= ~(1ull << block);
		source_park_or_fail(exchange, transfer, block, status, bad);
		return false;
	}
	return true;
}

static void start_put(struct exchange *exchange)
{
	struct net_transfer *transfer = transfer_cut(exchange, false);

	if (transfer)
		source_start(exchange, transfer);
}

/*
 * Return the next transfer with a block READY. Our puts and the gets of the peer take turns of a
 * transfer each: neither kind waits for ever. A put is cut when the turn of the put comes.
 */
static struct net_transfer *next_transfer(struct exchange *exchange)
{
	struct transfers *transfers = &exchange->transfers;
	struct net_transfer *transfer;
	unsigned without = 0; /* kinds that have nothing to send, one after the other */

	while (without < 2) {
		bool get = transfers->gets_turn;

		if (STAILQ_EMPTY(&transfers->sending[get]) && !get)
			start_put(exchange);
		transfer = STAILQ_FIRST(&transfers->sending[get]);
		if (transfer && transfer->ready)
			return transfer;
		transfers->gets_turn = !get;
		without++;
		if (!transfer)
			continue;
		without = 0;
		STAILQ_REMOVE_HEAD(&transfers->sending[get], next_sending);
		transfer->sending = false;
	}
	return NULL;
}

/* Return the number of granules to send from first on, without a gap. */
static unsigned granules_gapless(uint64_t granules, unsigned first)
{
	uint64_t gaps = ~(granules >> first);

	return gaps ? (unsigned)__builtin_ctzll(gaps) : GRANULES;
}

/*
 * Measure the run of granules to send next, at most most granules. False: a block of the
 * run cannot be read; the transfer may have changed.
 */
static bool source_measure(struct exchange *exchange, struct net_transfer *transfer, unsigned most,
			   struct run *run)
{
	unsigned block = (unsigned)__builtin_ctzll(transfer->ready), count = 0, first;

	first = (unsigned)__builtin_ctzll(transfer->granules[block]);
	run->transfer = transfer;
	run->granule = (uint16_t)(block * GRANULES + first);
	/* A block joins the run if READY, and if the run has the block before up to the end. */
	for (; count < most && block < transfer->blocks && transfer->ready >> block & 1; block++) {
		unsigned more = granules_gapless(transfer->granules[block], first);

		if (!more)
			break;
		if (!source_check(exchange, transfer, block))
			return false;
		count += more;
		if (first + more < GRANULES)
			break;
		first = 0;
	}
	run->granules = (uint16_t)(count < most ? count : most);
	return true;
}

/* Packets are as long as possible: a single system call sends packets of equal length. */
bool source_next(struct exchange *exchange, unsigned most, struct run *run)
{
	uint32_t granule = exchange->block_size / GRANULES, end;
	struct net_transfer *transfer;

	assert_that(most);
	do {
		transfer = next_transfer(exchange);
		if (!transfer)
			return false;
	} while (!source_measure(exchange, transfer, most, run));
	run->offset = run->granule * granule;
	end = run->offset + run->granules * granule;
	run->length = (end < transfer->length ? end : transfer->length) - run->offset;
	assert_that(run->granules && (run->length || transfer->signalling) &&
		    run->length <= transfer->length);
	return true;
}

bool source_carries_signal(const struct run *run)
{
	const struct net_transfer *transfer = run->transfer;

	return transfer->signalling == SIGNAL_CARRIED &&
	       run->offset + run->length == transfer->length;
}

void source_shorten(const struct exchange *exchange, struct run *run)
{
	assert_that(run->granules > 1);
	run->granules--;
	run->length = run->granules * (exchange->block_size / GRANULES);
}

void source_sent(struct exchange *exchange, const struct run *run)
{
	struct net_statistics *statistics = &exchange->shared->statistics;
	struct net_transfer *transfer = run->transfer;
	unsigned first = run->granule, end = first + run->granules;
	uint64_t blocks = 0, sent = 0;

	assert_that(transfer->source && end <= transfer->blocks * GRANULES);
	while (first < end) {
		struct part part = run_part(first, end);

		blocks |= 1ull << part.block;
		transfer->granules[part.block] &= ~granule_mask(part.granule, part.granules);
		if (!transfer->granules[part.block])
			sent |= 1ull << part.block;
		first += part.granules;
	}
	statistics->data_sent++;
	statistics->data_again += (transfer->again & blocks) != 0;
	statistics->asked_again += (transfer->asked & blocks) != 0;
	if (!sent)
		return;
	transfer_trace(exchange, transfer, sent, NET_BLOCK_SENT);
	transfer->ready &= ~sent;
	transfer->checked &= ~sent;
	transfer->again &= ~sent;
	transfer->asked &= ~sent;
	source_give_up(exchange, transfer);
}

/* Send no more of a transfer; the operation has an error already, in an earlier transfer. */
static void source_abandon(struct net_transfer *transfer)
{
	transfer->limit = 0;
	transfer->ready = transfer->parked = transfer->held = 0;
	transfer->status = PF_ERR_FAULT;
}

void source_release(struct exchange *exchange, struct operation_posted *operation)
{
	struct net_transfer *transfer = operation->last;
	unsigned block;

	if (!transfer || (operation->open > 1 && operation->finished.completion.status == PF_OK))
		return;
	operation->last = NULL;
	block = transfer->blocks - 1u;
	transfer->held &= ~(1ull << block);
	if (operation->finished.completion.status == PF_OK)
		make_ready(exchange, transfer, block);
	else
		source_abandon(transfer);
	source_give_up(exchange, transfer);
}

static struct net_transfer *sent_transfer(struct exchange *exchange, const struct sent *sent)
{
	struct net_transfer *transfer = transfer_find(exchange, sent->kind == SENT_DATA_GET, true,
						      sent->transfer);

	return transfer && sent->granule + sent->granules <= transfer->blocks * GRANULES ?
		       transfer :
		       NULL;
}

void source_lost(struct exchange *exchange, const struct sent *sent, bool unreadable)
{
	struct net_transfer *transfer = sent_transfer(exchange, sent);
	unsigned first = sent->granule, end = first + sent->granules;

	while (transfer && first < end) {
		struct part part = run_part(first, end);
		uint64_t bit = 1ull << part.block;

		transfer->granules[part.block] |= granule_mask(part.granule, part.granules);
		transfer->again |= bit;
		transfer_trace(exchange, transfer, bit, NET_BLOCK_LOST);
		transfer->checked &= ~bit;
		if (unreadable)
			transfer->suspect |= bit;
		make_ready(exchange, transfer, part.block);
		first += part.granules;
	}
}

void source_spurious(struct exchange *exchange, const struct sent *sent)
{
	struct net_transfer *transfer = sent_transfer(exchange, sent);
	unsigned first = sent->granule, end = first + sent->granules;

	while (transfer && first < end) {
		struct part part = run_part(first, end);
		uint64_t bit = 1ull << part.block;

		first += part.granules;
		/*
		 * The destination may have dropped a granule because the page was absent, and
		 * asked for the granule since: the arrival of the packet says nothing.
		 */
		if (transfer->dropped & bit)
			continue;
		transfer->granules[part.block] &= ~granule_mask(part.granule, part.granules);
		if (!transfer->granules[part.block]) {
			transfer->ready &= ~bit;
			transfer->again &= ~bit;
			source_give_up(exchange, transfer);
		}
	}
}

void source_resolved(struct exchange *exchange, struct net_token token, int status, uint64_t bad)
{
	struct net_transfer *transfer = transfer_of_token(exchange, token);
	unsigned block = token.block;
	uint64_t bit = 1ull << block;

	if (!transfer || !(transfer->parked & bit))
		return;
	transfer->parked &= ~bit;
	if (status != PF_OK) {
		source_fail(exchange, transfer, block, PF_ERR_FAULT, bad);
		return;
	}
	make_ready(exchange, transfer, block);
	/* The granules to send may have arrived meanwhile. */
	source_give_up(exchange, transfer);
}

void source_nack(struct exchange *exchange, const struct wire_entry *entry)
{
	struct net_transfer *transfer = transfer_find(exchange, entry->get, true, entry->transfer);

	if (!transfer || entry->block >= transfer->blocks)
		return;
	transfer->ready &= ~(1ull << entry->block);
	if (entry->block < transfer->limit)
		transfer->held |= 1ull << entry->block;
}

void source_again(struct exchange *exchange, const struct wire_entry *entry)
{
	struct net_transfer *transfer = transfer_find(exchange, entry->get, true, entry->transfer);
	uint64_t all, bit = 1ull << entry->block;

	if (!transfer || entry->block >= transfer->blocks)
		return;
	all = transfer_block_granules(exchange, transfer, entry->block);
	transfer->held &= ~bit;
	transfer->granules[entry->block] |= entry->address & all;
	transfer->asked |= bit;
	transfer->dropped |= bit;
	make_ready(exchange, transfer, entry->block);
	source_give_up(exchange, transfer);
}

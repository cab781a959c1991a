/* SPDX-License-Identifier: BSD-3-Clause */
#include "lifetime.h"

#include "atomics.h"
#include "destination.h"
#include "message.h"
#include "transfer.h"

#include "base/check.h"

void exchange_init(struct exchange *exchange, struct shared *shared,
		   struct net_association *association, uint32_t index, uint32_t block_size,
		   struct exchange_rest *rest)
{
	static const uint32_t size[STREAMS] = { CONTROL_RING, MESSAGE_RING };
	static const uint32_t spare[STREAMS] = { 2 * WIRE_ENTRY_MOST, MESSAGE_SPARE };
	unsigned i;

	assert_that(block_size >= 4096 && block_size <= 65536 && !(block_size & (block_size - 1)));
	exchange->shared = shared;
	exchange->association = association;
	exchange->rest = rest;
	exchange->index = index;
	exchange->block_size = block_size;
	exchange->effects = 0;
	exchange->waiting = false;
	exchange->ahead = 0;
	for (i = 0; i < STREAMS; i++) {
		stream_out_init(&exchange->out[i], size[i], spare[i], rest->positions[i]);
		stream_in_init(&exchange->in[i], size[i], spare[i], rest->positions[STREAMS + i]);
	}
	exchange->out[STREAM_CONTROL].limit = NET_NEVER;
	exchange->out[STREAM_MESSAGE].limit = rest->message_limit;
	transfers_init(&exchange->transfers, &rest->numbers);
	exchange->credit_from = exchange->in[STREAM_MESSAGE].taken;
	exchange->credit_told = exchange->in[STREAM_MESSAGE].taken + MESSAGE_RING;
}

void exchange_destroy(struct exchange *exchange)
{
	struct exchange_rest *rest = exchange->rest;
	unsigned i;

	/* The association is idle, or exchange_abandon freed all records. */
	assert_that(transfers_idle(&exchange->transfers) && !exchange->transfers.arriving);
	messages_forget(exchange);
	transfers_destroy(&exchange->transfers);
	rest->message_limit = exchange->out[STREAM_MESSAGE].limit;
	if (exchange->shared->lent_to == &exchange->out[STREAM_MESSAGE])
		exchange->shared->lent_to = NULL;
	for (i = 0; i < STREAMS; i++) {
		rest->positions[i] = exchange->out[i].end;
		rest->positions[STREAMS + i] = exchange->in[i].taken;
		stream_out_destroy(&exchange->out[i]);
		stream_in_destroy(&exchange->in[i]);
	}
	if (exchange->waiting)
		STAILQ_REMOVE(&exchange->shared->waiting, exchange, exchange, next_waiting);
	exchange->waiting = false;
}

static void abandon_records(struct exchange *exchange, const struct transfer_table *table)
{
	unsigned i;

	for (i = 0; i < table->size; i++) {
		struct net_transfer *transfer = table->at[i];

		if (!transfer)
			continue;
		if (!transfer->source)
			destination_free(exchange, transfer);
		transfer_free(exchange, transfer);
	}
}

void exchange_abandon(struct exchange *exchange, int status)
{
	struct transfers *transfers = &exchange->transfers;
	struct net_transfer *transfer;
	unsigned get;

	destination_forget(exchange);
	exchange->shared->arriving -= transfers->arriving != 0;
	transfers->arriving = 0;
	for (get = 0; get < 2; get++) {
		abandon_records(exchange, &transfers->ours[get]);
		abandon_records(exchange, &transfers->peers[get]);
	}
	/* Freeing unlinks each transfer, unseen by the analyzer. */
	while ((transfer = STAILQ_FIRST(&transfers->telling)))
		transfer_free(exchange, transfer); /* NOLINT(clang-analyzer-unix.Malloc) */
	transfers_abandon(exchange, status);
	atomics_abandon(exchange, status);
	assert_that(transfers_idle(transfers));
}

bool exchange_is_idle(const struct exchange *exchange)
{
	unsigned i;

	if (!transfers_idle(&exchange->transfers) || exchange->waiting)
		return false;
	for (i = 0; i < STREAMS; i++) {
		const struct stream_in *in = &exchange->in[i];

		if (in->taken != in->next || in->ahead.count)
			return false;
	}
	return true;
}

bool exchange_has_unacknowledged(const struct exchange *exchange)
{
	unsigned i;

	for (i = 0; i < STREAMS; i++) {
		if (!stream_out_empty(&exchange->out[i]))
			return true;
	}
	return false;
}

uint64_t exchange_unacknowledged(const struct exchange *exchange)
{
	const struct stream_out *out = &exchange->out[STREAM_MESSAGE];

	assert_that(out->base <= out->sent && out->sent <= out->end);
	return out->end - out->base;
}

size_t exchange_memory(const struct exchange *exchange)
{
	size_t bytes = exchange->transfers.open * sizeof(struct net_transfer) +
		       transfers_memory(&exchange->transfers);
	unsigned i;

	for (i = 0; i < STREAMS; i++) {
		if (exchange->out[i].ring)
			bytes += exchange->out[i].size + (size_t)exchange->out[i].spare;
		if (exchange->in[i].ring)
			bytes += exchange->in[i].size + (size_t)exchange->in[i].spare;
	}
	return bytes;
}

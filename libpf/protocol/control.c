/* SPDX-License-Identifier: BSD-3-Clause */
#include "control.h"

#include "atomics.h"
#include "destination.h"
#include "source.h"
#include "transfer.h"

#include "base/check.h"

/* Is there room for another entry? The ring exists, and may grow. */
static bool control_has_room(struct exchange *exchange)
{
	struct stream_out *out = &exchange->out[STREAM_CONTROL];

	/* The peer took all acknowledged entries from its ring, but for a piece of an entry. */
	return out->end - out->base + 2 * WIRE_ENTRY_MOST <= out->size ||
	       (out->size < CONTROL_RING_MOST && stream_out_grow(out));
}

static void write_entry(struct exchange *exchange, const struct wire_entry *entry)
{
	struct stream_out *out = &exchange->out[STREAM_CONTROL];
	bool memory;
	uint8_t *bytes = stream_out_reserve(out, WIRE_ENTRY_MOST, &memory);

	/* control_has_room returned true. */
	assert_that(bytes);
	stream_out_commit(out, wire_put_entry(bytes, entry));
}

/* Write NACK and AGAIN of blocks. False: no room for all. */
static bool tell_blocks(struct exchange *exchange, struct net_transfer *transfer)
{
	struct wire_entry entry = { .get = transfer->get, .transfer = transfer->id };
	unsigned block;

	assert_that(!(transfer->tell_nack | transfer->tell_again) ||
		    (!transfer->source && !transfer->finished));
	/* A block with a page resolved meanwhile needs no NACK any more. */
	transfer->tell_nack &= ~(transfer->tell_again & ~transfer->absent);
	while (transfer->tell_nack && control_has_room(exchange)) {
		block = (unsigned)__builtin_ctzll(transfer->tell_nack);
		if (!destination_nack(transfer, block))
			continue;
		entry.type = ENTRY_NACK;
		entry.block = (uint8_t)block;
		write_entry(exchange, &entry);
		exchange->shared->statistics.nacks_sent++;
	}
	while (transfer->tell_again && control_has_room(exchange)) {
		block = (unsigned)__builtin_ctzll(transfer->tell_again);
		if (!destination_again(exchange, transfer, block, &entry.address))
			continue;
		entry.type = ENTRY_AGAIN;
		entry.block = (uint8_t)block;
		write_entry(exchange, &entry);
	}
	return !transfer->tell_nack && !transfer->tell_again;
}

static bool control_report_transfer(struct exchange *exchange, struct net_transfer *transfer)
{
	struct wire_entry entry = { .get = transfer->get,
				    .status = transfer->status,
				    .transfer = transfer->id };

	if (!control_has_room(exchange))
		return false;
	if (transfer->tell & TELL_GET) {
		entry.type = ENTRY_GET;
		entry.address = transfer->remote;
		entry.length = transfer->length;
	} else if (transfer->tell & TELL_DONE) {
		entry.type = ENTRY_DONE;
		entry.address = transfer->address;
	} else if (transfer->tell & TELL_CANCEL) {
		entry.type = ENTRY_CANCEL;
	} else if (transfer->tell & TELL_FAILED) {
		entry.type = ENTRY_FAILED;
		entry.address = transfer->address;
	}
	if (entry.type)
		write_entry(exchange, &entry);
	transfer->tell = 0;
	return tell_blocks(exchange, transfer);
}

void control_output(struct exchange *exchange)
{
	struct transfers *transfers = &exchange->transfers;
	struct stream_out *out = &exchange->out[STREAM_CONTROL];
	struct net_transfer *transfer;
	struct wire_entry entry;
	bool memory;

	destination_start(exchange);
	if (STAILQ_EMPTY(&transfers->telling) && !transfers->atomic_results &&
	    STAILQ_EMPTY(&transfers->atomics_uncut))
		return;
	/* Without memory for the ring, the next call tries again. */
	if (!stream_out_reserve(out, 0, &memory))
		return;
	while ((transfer = STAILQ_FIRST(&transfers->telling))) {
		assert_that(transfer->telling);
		if (!control_report_transfer(exchange, transfer))
			break;
		STAILQ_REMOVE_HEAD(&transfers->telling, next_telling);
		transfer->telling = false;
		if (transfer->finished)
			transfer_free(exchange, transfer);
	}
	while (control_has_room(exchange) && atomics_next(exchange, &entry))
		write_entry(exchange, &entry);
}

/* Start the transfer of a get of the peer, with this process as the source. */
static int get_requested(struct exchange *exchange, const struct wire_entry *entry)
{
	struct net_transfer *transfer;
	int status;

	if (transfer_find(exchange, true, true, entry->transfer) || !entry->length ||
	    entry->length > exchange->block_size * TRANSFER_BLOCKS ||
	    entry->address + entry->length < entry->address)
		return PF_ERR_REFUSED;
	status = transfer_new(exchange, true, true, entry->transfer, &transfer);
	if (status != PF_OK)
		return status;
	transfer->local = entry->address;
	transfer->length = entry->length;
	transfer->blocks = transfer_blocks(exchange, transfer->length);
	transfer->limit = transfer->blocks;
	source_start(exchange, transfer);
	return PF_OK;
}

static void entry_done(struct exchange *exchange, const struct wire_entry *entry)
{
	struct net_transfer *transfer = transfer_find(exchange, entry->get, true, entry->transfer);
	int status = entry->status;

	if (!transfer)
		return;
	if (!entry->get) {
		struct operation_posted *operation = transfer->operation;
		enum pf_side side = status == PF_OK ? PF_SIDE_NONE : PF_SIDE_REMOTE;
		uint64_t address = status == PF_OK ? 0 : entry->address;

		/* The destination may have had all data before the CANCEL. */
		if (transfer->cancelled && status != PF_OK) {
			status = transfer->status;
			side = PF_SIDE_LOCAL;
			address = transfer->address;
		}
		if (operation->last == transfer)
			operation->last = NULL;
		transfer_end(exchange, transfer, status, side, address);
		if (operation->last)
			source_release(exchange, operation);
	}
	transfer_free(exchange, transfer);
}

static int entry_handle(struct exchange *exchange, const struct wire_entry *entry)
{
	exchange->shared->statistics.wanted += entry->type == ENTRY_GET ||
					       entry->type == ENTRY_NACK ||
					       entry->type == ENTRY_AGAIN ||
					       entry->type == ENTRY_ATOMIC;
	switch (entry->type) {
	case ENTRY_GET:
		return get_requested(exchange, entry);
	case ENTRY_DONE:
		entry_done(exchange, entry);
		return PF_OK;
	case ENTRY_NACK:
		source_nack(exchange, entry);
		return PF_OK;
	case ENTRY_AGAIN:
		source_again(exchange, entry);
		return PF_OK;
	case ENTRY_CANCEL:
		return destination_cancel(exchange, entry->transfer);
	case ENTRY_FAILED:
		destination_failed(exchange, entry->transfer, entry->status, entry->address);
		return PF_OK;
	case ENTRY_ATOMIC:
		return atomics_requested(exchange, entry);
	default:
		return atomics_answered(exchange, entry) ? PF_OK : PF_ERR_REFUSED;
	}
}

int control_arrived(struct exchange *exchange)
{
	struct stream_in *in = &exchange->in[STREAM_CONTROL];
	struct wire_entry entry;

	while (in->taken < in->next) {
		uint64_t here = in->next - in->taken;
		int length, status;

		if (here > WIRE_ENTRY_MOST)
			here = WIRE_ENTRY_MOST;
		length = wire_get_entry(stream_in_peek(in, here), here, &entry);
		if (!length)
			return PF_OK;
		if (length < 0)
			return PF_ERR_REFUSED;
		status = entry_handle(exchange, &entry);
		if (status != PF_OK)
			return status;
		assert_that((uint64_t)length <= here);
		in->taken += (unsigned)length;
	}
	return PF_OK;
}

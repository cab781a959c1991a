/* SPDX-License-Identifier: BSD-3-Clause */
#include "control.h"

#include "core.h"

bool control_room(const struct net_association *association)
{
	const struct stream_out *out = &association->busy->out[STREAM_CONTROL];

	/* What is acknowledged was taken from the peer's ring, but for a piece of an entry. */
	return out->end - out->base + 2 * WIRE_ENTRY_MOST <= out->size;
}

void control_write(struct net_association *association, const struct wire_entry *entry)
{
	struct stream_out *out = &association->busy->out[STREAM_CONTROL];
	bool memory;
	uint8_t *bytes = stream_out_reserve(out, WIRE_ENTRY_MOST, &memory);

	stream_out_commit(out, wire_put_entry(bytes, entry));
}

/* False: no room for all of it. */
static bool tell_blocks(struct net_association *association, struct net_transfer *transfer)
{
	struct wire_entry entry = { .get = transfer->get, .transfer = transfer->id };
	unsigned block;

	/* A block whose page came meanwhile needs no NACK any more. */
	transfer->tell_nack &= ~(transfer->tell_again & ~transfer->absent);
	while (transfer->tell_nack && control_room(association)) {
		block = (unsigned)__builtin_ctzll(transfer->tell_nack);
		if (!destination_nack(transfer, block))
			continue;
		entry.type = ENTRY_NACK;
		entry.block = (uint8_t)block;
		control_write(association, &entry);
		association->core->statistics.nacks_sent++;
	}
	while (transfer->tell_again && control_room(association)) {
		block = (unsigned)__builtin_ctzll(transfer->tell_again);
		if (!destination_again(association, transfer, block, &entry.address))
			continue;
		entry.type = ENTRY_AGAIN;
		entry.block = (uint8_t)block;
		control_write(association, &entry);
	}
	return !transfer->tell_nack && !transfer->tell_again;
}

static bool tell(struct net_association *association, struct net_transfer *transfer)
{
	struct wire_entry entry = { .get = transfer->get,
				    .status = transfer->status,
				    .transfer = transfer->id };

	if (!control_room(association))
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
		control_write(association, &entry);
	transfer->tell = 0;
	return tell_blocks(association, transfer);
}

void control_output(struct net_association *association)
{
	struct transfers *transfers = &association->busy->transfers;
	struct stream_out *out = &association->busy->out[STREAM_CONTROL];
	struct net_transfer *transfer;
	bool memory;

	transfer_cut_gets(association);
	if (!transfers->telling && !transfers->atomic_results && !transfers->atomics_uncut)
		return;
	/* Without memory for the ring it is tried again at the next call. */
	if (!stream_out_reserve(out, 0, &memory))
		return;
	while ((transfer = transfers->telling)) {
		if (!tell(association, transfer))
			break;
		transfers->telling = transfer->next_telling;
		if (!transfers->telling)
			transfers->telling_last = &transfers->telling;
		transfer->telling = false;
		if (transfer->finished)
			transfer_free(association, transfer);
	}
	atomics_output(association);
}

/* A get that the peer asks for: we are its source. */
static int get_requested(struct net_association *association, const struct wire_entry *entry)
{
	struct net_transfer **slot =
		&association->busy->transfers.peers[1][entry->transfer % TRANSFERS_MOST];
	struct net_transfer *transfer;

	if (*slot || !entry->length || entry->length > association->block_size * TRANSFER_BLOCKS ||
	    entry->address + entry->length < entry->address)
		return PF_ERR_REFUSED;
	transfer = transfer_new(association, true, true);
	if (!transfer)
		return PF_ERR_MEMORY;
	transfer->id = entry->transfer;
	transfer->local = entry->address;
	transfer->length = entry->length;
	transfer->blocks =
		(uint8_t)((entry->length + association->block_size - 1) / association->block_size);
	transfer->limit = transfer->blocks;
	*slot = transfer;
	source_start(association, transfer);
	return PF_OK;
}

static void done(struct net_association *association, const struct wire_entry *entry)
{
	struct net_transfer *transfer = transfer_find(association, entry->get, true,
						      entry->transfer);
	int status = entry->status;

	if (!transfer)
		return;
	if (!entry->get) {
		enum pf_side side = status == PF_OK ? PF_SIDE_NONE : PF_SIDE_REMOTE;
		uint64_t address = status == PF_OK ? 0 : entry->address;

		if (transfer->cancelled) {
			status = transfer->status;
			side = PF_SIDE_LOCAL;
			address = transfer->address;
		}
		transfer_end(association, transfer, status, side, address);
	}
	transfer_free(association, transfer);
}

static void failed(struct net_association *association, const struct wire_entry *entry)
{
	struct net_transfer *transfer = transfer_find(association, true, false, entry->transfer);
	enum pf_side side = PF_SIDE_REMOTE;
	uint64_t address = entry->address;

	if (!transfer)
		return;
	/* Both sides have a bad page: the first counts. */
	if (transfer->status != PF_OK &&
	    transfer->address - transfer->local < address - transfer->remote) {
		side = PF_SIDE_LOCAL;
		address = transfer->address;
	}
	destination_free(association, transfer);
	transfer->finished = true;
	transfer->tell = 0;
	transfer->absent = transfer->tell_nack = transfer->tell_again = 0;
	if (association->busy->transfers.latest == transfer)
		association->busy->transfers.latest = NULL;
	transfer_tell(association, transfer, TELL_DONE);
	transfer_end(association, transfer, PF_ERR_FAULT, side, address);
}

static int handle(struct net_association *association, const struct wire_entry *entry)
{
	switch (entry->type) {
	case ENTRY_GET:
		return get_requested(association, entry);
	case ENTRY_DONE:
		done(association, entry);
		return PF_OK;
	case ENTRY_NACK:
		source_nack(association, entry);
		return PF_OK;
	case ENTRY_AGAIN:
		source_again(association, entry);
		return PF_OK;
	case ENTRY_CANCEL:
		return destination_cancel(association, entry->transfer);
	case ENTRY_FAILED:
		failed(association, entry);
		return PF_OK;
	case ENTRY_ATOMIC:
		return net_atomic_requested(association, entry);
	default:
		return net_atomic_answered(association, entry) ? PF_OK : PF_ERR_REFUSED;
	}
}

int control_arrived(struct net_association *association)
{
	struct stream_in *in = &association->busy->in[STREAM_CONTROL];
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
		status = handle(association, &entry);
		if (association->state == GONE)
			return PF_OK;
		if (status != PF_OK)
			return status;
		in->taken += (unsigned)length;
	}
	return PF_OK;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The destination of a transfer's data: where bytes are placed, or wait for their page. */
#include <stdlib.h>

#include "core.h"

static struct absent *find_absent(const struct net_transfer *transfer, unsigned block)
{
	struct absent *absent;

	for (absent = transfer->faults; absent && absent->block != block; absent = absent->next)
		;
	return absent;
}

static void free_kept(struct net_core *core, struct absent *absent)
{
	struct kept *kept = absent->kept;

	absent->kept = kept->next;
	core->backup_used -= (uint32_t)sizeof(*kept) + kept->length;
	free(kept);
}

static void free_absent(struct net_core *core, struct net_transfer *transfer, struct absent *absent)
{
	struct absent **at = &transfer->faults;

	while (*at != absent)
		at = &(*at)->next;
	*at = absent->next;
	while (absent->kept)
		free_kept(core, absent);
	free(absent);
}

void destination_free(struct net_association *association, struct net_transfer *transfer)
{
	while (transfer->faults)
		free_absent(association->core, transfer, transfer->faults);
}

static void note_finished(struct transfer_numbers *numbers, uint32_t id)
{
	numbers->finished_bits[id % TRANSFERS_MOST / 64] |= 1ull << id % 64;
	while (numbers->finished_bits[numbers->finished % TRANSFERS_MOST / 64] >>
		       numbers->finished % 64 &
	       1) {
		numbers->finished_bits[numbers->finished % TRANSFERS_MOST / 64] &=
			~(1ull << numbers->finished % 64);
		numbers->finished++;
	}
}

/* Nothing more is needed: of the record remains what the source has to be told. */
static void finish(struct net_association *association, struct net_transfer *transfer, int status,
		   uint64_t bad)
{
	struct transfers *transfers = &association->busy->transfers;

	destination_free(association, transfer);
	transfer->finished = true;
	transfer->status = status;
	transfer->address = bad;
	transfer->absent = transfer->tell_nack = transfer->tell_again = 0;
	transfer->tell = 0;
	if (transfers->latest == transfer)
		transfers->latest = NULL;
	transfer_tell(association, transfer, TELL_DONE);
	if (transfer->get) {
		transfer_end(association, transfer, status,
			     status == PF_OK ? PF_SIDE_NONE : PF_SIDE_LOCAL, bad);
	} else {
		transfers->peers[0][transfer->id % TRANSFERS_MOST] = NULL;
		note_finished(&association->numbers, transfer->id);
	}
}

/* Has all come that is wanted? Then it is over. */
static bool settle(struct net_association *association, struct net_transfer *transfer)
{
	if (~transfer->done & granule_mask(0, transfer->limit) ||
	    (transfer->before && ~transfer->granules[transfer->limit] & transfer->before))
		return false;
	finish(association, transfer, transfer->status, transfer->address);
	return true;
}

/* Granules that came. True: that was the last of the transfer. */
static bool have(struct net_association *association, struct net_transfer *transfer, unsigned block,
		 uint64_t granules)
{
	transfer->granules[block] |= granules;
	if (transfer->granules[block] == transfer_block_granules(association, transfer, block))
		transfer->done |= 1ull << block;
	return settle(association, transfer);
}

/*
 * A block cannot be written. What comes before it is waited for all the same:
 * the address that is reported is the first, in whatever order packets come.
 */
static void fail(struct net_association *association, struct net_transfer *transfer, unsigned block,
		 uint64_t bad, uint64_t granules)
{
	uint64_t before = granule_mask(0, block);
	struct absent **at = &transfer->faults;

	transfer->limit = (uint8_t)block;
	transfer->before = granules;
	transfer->status = PF_ERR_FAULT;
	transfer->address = bad;
	transfer->absent &= before;
	transfer->predicted &= before;
	transfer->tell_nack &= before;
	transfer->tell_again &= before;
	while (*at) {
		if ((*at)->block >= block)
			free_absent(association->core, transfer, *at);
		else
			at = &(*at)->next;
	}
	settle(association, transfer);
}

static struct net_wait wait_for(const struct net_association *association,
				const struct net_transfer *transfer, unsigned block)
{
	return (struct net_wait){
		.token = transfer_token(association, transfer, block),
		.address = transfer->local + (uint64_t)block * association->block_size,
		.length = transfer_block_length(association, transfer, block),
		.end = transfer->local + transfer->length,
		.write = true,
	};
}

/* A put's record is made by the first of its packets to come. *taken: it had one, and is over. */
static struct net_transfer *put_record(struct net_association *association, uint32_t id,
				       const struct wire_data *data, bool *taken)
{
	const struct transfer_numbers *numbers = &association->numbers;
	uint32_t ahead = id - numbers->finished;
	struct net_transfer *transfer;

	*taken = false;
	if (ahead >= TRANSFERS_MOST) {
		*taken = (int32_t)ahead < 0;
		return NULL;
	}
	if (numbers->finished_bits[id % TRANSFERS_MOST / 64] >> id % 64 & 1) {
		*taken = true;
		return NULL;
	}
	transfer = association->busy->transfers.peers[0][id % TRANSFERS_MOST];
	if (transfer)
		return transfer;
	transfer = transfer_new(association, false, false);
	if (!transfer)
		return NULL;
	transfer->id = id;
	transfer->local = data->address;
	transfer->length = data->length;
	transfer->blocks =
		(uint8_t)((data->length + association->block_size - 1) / association->block_size);
	transfer->limit = transfer->blocks;
	memset(transfer->granules, 0, transfer->blocks * sizeof(transfer->granules[0]));
	association->busy->transfers.peers[0][id % TRANSFERS_MOST] = transfer;
	return transfer;
}

static bool sound(const struct net_association *association, const struct wire_data *data,
		  uint32_t length)
{
	uint32_t block_size = association->block_size, granule = block_size / GRANULES;

	return data->length && data->length <= block_size * TRANSFER_BLOCKS &&
	       data->address + data->length >= data->address && length &&
	       data->offset % granule == 0 && data->offset < data->length &&
	       length <= data->length - data->offset &&
	       length <= block_size - data->offset % block_size &&
	       (length % granule == 0 || data->offset + length == data->length);
}

/* The page is absent: keep the packet, or drop it and say so. */
static bool postpone(struct net_association *association, struct net_transfer *transfer,
		     unsigned block, uint64_t granules, uint32_t offset, uint32_t length)
{
	struct net_core *core = association->core;
	struct absent *absent = find_absent(transfer, block);
	struct kept *kept = NULL;

	if (!absent) {
		absent = calloc(1, sizeof(*absent));
		if (!absent)
			return false;
		absent->block = (uint8_t)block;
		absent->next = transfer->faults;
		transfer->faults = absent;
	}
	granules &= ~(absent->held | absent->dropped);
	if (!granules)
		return true;
	if (core->options.fault_mode == NET_FAULT_BACKUP) {
		if (core->backup_used + sizeof(*kept) + length <= core->options.backup_ring)
			kept = malloc(sizeof(*kept) + length);
		if (!kept)
			core->statistics.backup_full++;
		if (kept && !core_stash(core)) {
			free(kept);
			return false;
		}
	}
	if (kept) {
		kept->offset = offset;
		kept->length = length;
		memcpy(kept->bytes, core->payload, length);
		kept->next = absent->kept;
		absent->kept = kept;
		absent->held |= granules;
		core->backup_used += (uint32_t)sizeof(*kept) + length;
		core->statistics.backup_held++;
		return true;
	}
	absent->dropped |= granules;
	if (!absent->told) {
		transfer->tell_nack |= 1ull << block;
		transfer_tell(association, transfer, 0);
	}
	return true;
}

/* Write the granules given of a piece of a block: PF_OK or what place says. *done: those written. */
static int place(struct net_association *association, struct net_transfer *transfer, unsigned block,
		 uint64_t granules, uint32_t offset, const uint8_t *bytes, uint32_t length,
		 uint64_t *done, uint64_t *bad)
{
	uint32_t granule = association->block_size / GRANULES;
	uint32_t start = block * association->block_size;
	struct net_core *core = association->core;
	struct net_wait wait = wait_for(association, transfer, block);
	int result, failed = PF_OK;
	uint64_t before;

	*done = 0;
	while (granules) {
		unsigned first = (unsigned)__builtin_ctzll(granules);
		uint64_t rest = ~(granules >> first);
		unsigned count = rest ? (unsigned)__builtin_ctzll(rest) : 64;
		uint32_t from = start + first * granule, to = from + count * granule;

		if (to > offset + length)
			to = offset + length;
		result = core->callbacks.place(core->callbacks.user, &wait, transfer->local + from,
					       bytes + (from - offset), to - from, bad);
		if (result == PF_OK) {
			*done |= granule_mask(first, count);
			granules &= ~granule_mask(first, count);
			continue;
		}
		/* What comes before a bad address goes to its place all the same. */
		before = (*bad - transfer->local - from) / granule;
		if (result == PF_ERR_AGAIN || *bad < transfer->local + from || before >= count)
			return result;
		failed = result;
		granules &= granule_mask(first, (unsigned)before);
	}
	return failed;
}

/* What of a block comes before a bad address that one of its packets met. */
static uint64_t granules_before(const struct net_association *association,
				const struct net_transfer *transfer, unsigned block, uint64_t bad)
{
	uint64_t offset = bad - transfer->local - (uint64_t)block * association->block_size;

	/* Resolved a moment ago, it has granules that the source still has to be asked for. */
	if (find_absent(transfer, block) || offset >= association->block_size)
		return 0;
	return granule_mask(0, (unsigned)(offset / (association->block_size / GRANULES)));
}

/*
 * Can the block be written without waiting? PF_OK, once for all its packets;
 * PF_ERR_AGAIN: it is absent from now on, and being resolved.
 */
static int look(struct net_association *association, struct net_transfer *transfer, unsigned block)
{
	struct net_core *core = association->core;
	struct net_wait wait = wait_for(association, transfer, block);
	uint64_t bit = 1ull << block, bad;
	int status;

	if (transfer->predicted & bit)
		return PF_OK;
	status = core->callbacks.destination(core->callbacks.user, &wait, wait.address,
					     (uint32_t)wait.length, &bad);
	if (status == PF_OK)
		transfer->predicted |= bit;
	if (status == PF_ERR_AGAIN) {
		transfer->absent |= bit;
		core->statistics.destination_faults++;
	}
	return status;
}

static enum destination_result arrive(struct net_association *association,
				      struct net_transfer *transfer, unsigned block,
				      uint64_t granules, uint32_t offset, uint32_t length)
{
	struct net_core *core = association->core;
	uint64_t bit = 1ull << block, done, bad = 0;
	bool foreseen = transfer->predicted & bit && core->received_at == transfer->local + offset;
	int status;

	/* A bad address is place's to tell: it has the first, and writes what is before it. */
	if (transfer->absent & bit || look(association, transfer, block) == PF_ERR_AGAIN)
		return postpone(association, transfer, block, granules, offset, length) ?
			       DESTINATION_TAKEN :
			       DESTINATION_REFUSED;
	if (foreseen) {
		core->statistics.data_in_place++;
		have(association, transfer, block, granules);
		return DESTINATION_TAKEN;
	}
	if (!core_stash(core))
		return DESTINATION_REFUSED;
	status = place(association, transfer, block, granules, offset, core->payload, length, &done,
		       &bad);
	if (done && have(association, transfer, block, done))
		return DESTINATION_TAKEN;
	if (status == PF_OK)
		return DESTINATION_TAKEN;
	/* As if it had been lost: it comes again. */
	if (status == PF_ERR_MEMORY)
		return DESTINATION_REFUSED;
	if (status != PF_ERR_AGAIN) {
		fail(association, transfer, block, bad,
		     granules_before(association, transfer, block, bad));
		return DESTINATION_TAKEN;
	}
	transfer->absent |= bit;
	transfer->predicted &= ~bit;
	core->statistics.destination_faults++;
	return postpone(association, transfer, block, granules & ~done, offset, length) ?
		       DESTINATION_TAKEN :
		       DESTINATION_REFUSED;
}

enum destination_result destination_data(struct net_association *association, bool get, uint32_t id,
					 const struct wire_data *data, uint32_t length)
{
	struct transfers *transfers = &association->busy->transfers;
	struct net_core *core = association->core;
	uint32_t granule = association->block_size / GRANULES, whole;
	struct net_transfer *transfer;
	unsigned block, first;
	uint64_t granules;
	bool taken = true;

	if (!sound(association, data, length))
		return DESTINATION_REFUSED;
	transfer = get ? transfer_find(association, true, false, id) :
			 put_record(association, id, data, &taken);
	if (!transfer) {
		core->statistics.data_duplicate += taken;
		return taken ? DESTINATION_TAKEN : DESTINATION_REFUSED;
	}
	if (transfer->length != data->length || (!get && transfer->local != data->address))
		return DESTINATION_REFUSED;
	block = data->offset / association->block_size;
	first = data->offset % association->block_size / granule;
	whole = (length + granule - 1) / granule;
	granules = granule_mask(first, whole);
	core->latest = association;
	transfers->latest = transfer;
	transfers->latest_end = data->offset + length;
	/* In whole granules: of a part of one nobody could say whether it is there. */
	if (whole * granule > transfers->latest_length ||
	    (first + whole < GRANULES && data->offset + length < data->length))
		transfers->latest_length = whole * granule;
	granules &= ~transfer->granules[block];
	if (!granules) {
		core->statistics.data_duplicate++;
		return DESTINATION_TAKEN;
	}
	if (block >= transfer->limit) {
		granules &= block == transfer->limit ? transfer->before : 0;
		if (!granules)
			return DESTINATION_TAKEN;
	}
	return arrive(association, transfer, block, granules, data->offset, length);
}

/* As if it had never been kept: the source is asked for it. */
static void drop_kept(struct net_core *core, struct absent *absent)
{
	absent->dropped |= absent->held;
	absent->held = 0;
	while (absent->kept)
		free_kept(core, absent);
}

/* What was kept goes to its place. False: it cannot, and nothing is kept any more. */
static bool place_kept(struct net_association *association, struct net_transfer *transfer,
		       struct absent *absent)
{
	uint32_t granule = association->block_size / GRANULES;
	struct net_core *core = association->core;
	uint64_t done, bad = 0, granules;
	unsigned block = absent->block;
	struct kept *kept;
	int status;

	while ((kept = absent->kept)) {
		granules = granule_mask(kept->offset % association->block_size / granule,
					(kept->length + granule - 1) / granule);
		granules &= absent->held & ~transfer->granules[block];
		status = place(association, transfer, block, granules, kept->offset, kept->bytes,
			       kept->length, &done, &bad);
		absent->held &= ~done;
		if (status == PF_ERR_AGAIN) {
			transfer->granules[block] |= done;
			transfer->absent |= 1ull << block;
			core->statistics.destination_faults++;
			return true;
		}
		/* Memory of this system is wanting, not the address wrong. */
		if (status == PF_ERR_MEMORY) {
			transfer->granules[block] |= done;
			drop_kept(core, absent);
			return true;
		}
		if (status != PF_OK) {
			fail(association, transfer, block, bad, 0);
			return false;
		}
		free_kept(core, absent);
		/* finish would free absent: the last ones are reported behind the loop. */
		transfer->granules[block] |= done;
	}
	return true;
}

void destination_resolved(struct net_association *association, struct net_transfer *transfer,
			  unsigned block, int status, uint64_t bad)
{
	struct net_core *core = association->core;
	uint64_t bit = 1ull << block;
	struct absent *absent;

	if (transfer->finished || !(transfer->absent & bit))
		return;
	if (status != PF_OK) {
		fail(association, transfer, block, bad, 0);
		return;
	}
	transfer->absent &= ~bit;
	/* Should it go again at once, what comes waits for it: somebody has to get on. */
	transfer->predicted |= bit;
	absent = find_absent(transfer, block);
	if (!absent)
		return;
	if (!place_kept(association, transfer, absent) || transfer->absent & bit)
		return;
	if (absent->dropped) {
		transfer->tell_again |= bit;
		transfer_tell(association, transfer, 0);
	} else {
		free_absent(core, transfer, absent);
	}
	have(association, transfer, block, 0);
}

bool destination_again(struct net_association *association, struct net_transfer *transfer,
		       unsigned block, uint64_t *granules)
{
	struct absent *absent = find_absent(transfer, block);
	uint64_t bit = 1ull << block;

	transfer->tell_again &= ~bit;
	if (!absent || transfer->absent & bit)
		return false;
	transfer->tell_nack &= ~bit;
	*granules = absent->dropped & ~transfer->granules[block];
	free_absent(association->core, transfer, absent);
	return true;
}

bool destination_nack(struct net_transfer *transfer, unsigned block)
{
	struct absent *absent = find_absent(transfer, block);

	transfer->tell_nack &= ~(1ull << block);
	if (!absent || absent->told)
		return false;
	absent->told = true;
	return true;
}

int destination_cancel(struct net_association *association, uint32_t id)
{
	struct wire_data data = { .length = 1 };
	struct net_transfer *transfer;
	bool taken;

	/* An initiator that keeps to the rules has no more than TRANSFERS_MOST of them open. */
	if (id - association->numbers.finished >= TRANSFERS_MOST &&
	    (int32_t)(id - association->numbers.finished) > 0)
		return PF_ERR_REFUSED;
	transfer = put_record(association, id, &data, &taken);
	if (transfer)
		finish(association, transfer, PF_ERR_FAULT, 0);
	return transfer || taken ? PF_OK : PF_ERR_MEMORY;
}

unsigned destination_predict(struct net_association *association, struct net_place *places,
			     unsigned most, uint32_t header)
{
	struct transfers *transfers = &association->busy->transfers;
	struct net_transfer *transfer = transfers->latest;
	uint32_t granule = association->block_size / GRANULES, offset, length, bytes = 0;
	unsigned count = 0, block, first;
	uint64_t granules;

	if (transfer->unforeseen || !transfers->latest_length)
		return 0;
	for (offset = transfers->latest_end;
	     count < most && offset < transfer->length && bytes < NET_BATCH_BYTES;
	     offset += length, bytes += header + length) {
		block = offset / association->block_size;
		length = transfer_block_length(association, transfer, block) -
			 offset % association->block_size;
		if (length > transfers->latest_length)
			length = transfers->latest_length;
		first = offset % association->block_size / granule;
		granules = granule_mask(first, (length + granule - 1) / granule);
		if (block >= transfer->limit || transfer->granules[block] & granules ||
		    transfer->absent >> block & 1 || find_absent(transfer, block))
			break;
		if (look(association, transfer, block) != PF_OK)
			break;
		places[count].address = (void *)(uintptr_t)(transfer->local + offset);
		places[count++].length = length;
		if (length < transfers->latest_length)
			break;
	}
	return count;
}

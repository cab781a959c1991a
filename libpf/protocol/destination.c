/* SPDX-License-Identifier: BSD-3-Clause */
#include "destination.h"

#include <stdlib.h>

#include "transfer.h"

#include "base/check.h"

static struct absent *destination_find_absent(const struct net_transfer *transfer, unsigned block)
{
	struct absent *absent;

	for (absent = transfer->faults; absent && absent->block != block; absent = absent->next)
		;
	return absent;
}

static void free_kept(struct shared *shared, struct absent *absent)
{
	struct kept *kept = absent->packets;

	assert_that(shared->backup_used >= sizeof(*kept) + kept->length);
	absent->packets = kept->next;
	shared->backup_used -= (uint32_t)sizeof(*kept) + kept->length;
	free(kept);
}

static void free_absent(struct shared *shared, struct net_transfer *transfer, struct absent *absent)
{
	struct absent **at = &transfer->faults;

	while (*at != absent)
		at = &(*at)->next;
	*at = absent->next;
	while (absent->packets)
		free_kept(shared, absent);
	free(absent);
}

void destination_free(struct exchange *exchange, struct net_transfer *transfer)
{
	while (transfer->faults)
		free_absent(exchange->shared, transfer, transfer->faults);
}

static void note_finished(struct transfer_numbers *numbers, uint32_t id)
{
	assert_that(id - numbers->finished < TRANSFERS_MOST);
	numbers->finished_bits[id % TRANSFERS_MOST / 64] |= 1ull << id % 64;
	while (numbers->finished_bits[numbers->finished % TRANSFERS_MOST / 64] >>
		       numbers->finished % 64 &
	       1) {
		numbers->finished_bits[numbers->finished % TRANSFERS_MOST / 64] &=
			~(1ull << numbers->finished % 64);
		numbers->finished++;
	}
}

static void begin_arriving(struct exchange *exchange)
{
	if (!exchange->transfers.arriving++)
		exchange->shared->arriving++;
}

/* Free everything about the blocks: the record stays until DONE is written for the source. */
static void forget_blocks(struct exchange *exchange, struct net_transfer *transfer)
{
	assert_that(!transfer->source && !transfer->finished && exchange->transfers.arriving);
	destination_free(exchange, transfer);
	transfer->finished = true;
	transfer->absent = transfer->tell_nack = transfer->tell_again = 0;
	transfer->tell = 0;
	if (exchange->transfers.latest == transfer)
		exchange->transfers.latest = NULL;
	if (!--exchange->transfers.arriving)
		exchange->shared->arriving--;
	transfer_tell(exchange, transfer, TELL_DONE);
}

static void destination_finish(struct exchange *exchange, struct net_transfer *transfer, int status,
			       uint64_t bad)
{
	transfer->status = status;
	transfer->address = bad;
	forget_blocks(exchange, transfer);
	if (transfer->get) {
		transfer_end(exchange, transfer, status,
			     status == PF_OK ? PF_SIDE_NONE : PF_SIDE_LOCAL, bad);
	} else {
		transfer_leave(exchange, transfer);
		note_finished(&exchange->rest->numbers, transfer->id);
	}
}

static struct net_token signal_token(const struct exchange *exchange,
				     const struct net_transfer *transfer)
{
	return (struct net_token){ .association = exchange->index,
				   .transfer = transfer->id,
				   .side = NET_SIGNAL,
				   .generation = transfer->generation };
}

/* All data is here: execute the signal, and then finish the transfer, now or later. */
static void signal_execute(struct exchange *exchange, struct net_transfer *transfer)
{
	struct shared *shared = exchange->shared;
	const pf_signal *signal = &transfer->signal;
	uint64_t value, bad = 0;
	struct net_wait wait = { .token = signal_token(exchange, transfer),
				 .address = signal->remote,
				 .length = sizeof(signal->value),
				 .end = signal->remote + sizeof(signal->value),
				 .write = true,
				 .foreign = true };
	int status;

	if (signal->op == PF_SIGNAL_NOTICE) {
		transfer->signalling = SIGNAL_NOTED;
		transfer->exchange = exchange;
		transfer->noted = (struct finished){ .arg = transfer,
						     .completion.status = PF_PENDING };
		STAILQ_INSERT_TAIL(&shared->finished, &transfer->noted, next);
		return;
	}
	status = shared->memory.atomic(shared->memory.user, &wait,
				       signal->op == PF_SIGNAL_ADD ? PF_ATOMIC_ADD : PF_ATOMIC_SWAP,
				       sizeof(signal->value), signal->value, 0, &value, &bad);
	if (status == PF_ERR_AGAIN) {
		transfer->signalling = SIGNAL_PARKED;
		shared->statistics.destination_faults++;
		return;
	}
	if (status != PF_OK && status != PF_ERR_REFUSED)
		status = PF_ERR_FAULT;
	destination_finish(exchange, transfer, status, status == PF_OK ? 0 : bad);
}

static struct net_transfer *signal_transfer(struct exchange *exchange, struct net_token token)
{
	struct net_transfer *transfer = transfer_find(exchange, false, false, token.transfer);

	return transfer && transfer->generation == token.generation ? transfer : NULL;
}

void destination_signal_resolved(struct exchange *exchange, struct net_token token, int status,
				 uint64_t bad)
{
	struct net_transfer *transfer = signal_transfer(exchange, token);

	if (!transfer)
		return;
	if (transfer->signalling == SIGNAL_PARKED && status == PF_OK)
		signal_execute(exchange, transfer);
	else if (transfer->signalling == SIGNAL_PARKED || transfer->signalling == SIGNAL_TAKEN)
		destination_finish(exchange, transfer, status, bad);
}

void destination_take_notice(struct net_transfer *transfer, struct net_event *event)
{
	assert_that(transfer->signalling == SIGNAL_NOTED);
	transfer->signalling = SIGNAL_TAKEN;
	event->kind = NET_NOTICE;
	event->association = transfer->exchange->association;
	event->token = signal_token(transfer->exchange, transfer);
	event->remote = transfer->signal.remote;
	event->length = transfer->local + transfer->length - transfer->signal.remote;
	event->value = transfer->signal.value;
}

/*
 * Finish the transfer if all wanted granules are here, and the signal, if any, was executed. Return
 * whether no more granules can arrive.
 */
static bool destination_settle(struct exchange *exchange, struct net_transfer *transfer)
{
	assert_that(transfer->limit <= transfer->blocks && transfer->blocks <= TRANSFER_BLOCKS);
	if (~transfer->done & granule_mask(0, transfer->limit) ||
	    (transfer->before && ~transfer->granules[transfer->limit] & transfer->before))
		return false;
	if (transfer->signalling && transfer->status == PF_OK) {
		if (transfer->signalling == SIGNAL_KNOWN)
			signal_execute(exchange, transfer);
		return true;
	}
	destination_finish(exchange, transfer, transfer->status, transfer->address);
	return true;
}

/* Record granules as placed. True: the transfer ended. */
static bool granules_arrived(struct exchange *exchange, struct net_transfer *transfer,
			     unsigned block, uint64_t granules)
{
	assert_that(block < transfer->blocks);
	assert_that(!(granules & ~transfer_block_granules(exchange, transfer, block)));
	transfer->granules[block] |= granules;
	if (transfer->granules[block] == transfer_block_granules(exchange, transfer, block)) {
		transfer->done |= 1ull << block;
		transfer_trace(exchange, transfer, 1ull << block, NET_BLOCK_ARRIVED);
	}
	return destination_settle(exchange, transfer);
}

/*
 * A block cannot be written. Still wait for all granules before the bad address: a
 * transfer reports its first bad address, independently of the order of packets.
 */
static void destination_fail(struct exchange *exchange, struct net_transfer *transfer,
			     unsigned block, int status, uint64_t bad, uint64_t granules)
{
	uint64_t before = granule_mask(0, block), bit = 1ull << block;
	struct absent **at = &transfer->faults;
	/* Accepted granules before the bad address may not have been placed: ask for them again. */
	bool asks = granules &&
		    (transfer->unplaced & bit || destination_find_absent(transfer, block));

	assert_that(block <= transfer->limit && block < transfer->blocks);
	transfer->limit = (uint8_t)block;
	transfer->before = granules;
	transfer->status = status == PF_ERR_REFUSED ? PF_ERR_REFUSED : PF_ERR_FAULT;
	transfer->address = bad;
	transfer->absent &= before;
	transfer->predicted &= before;
	transfer->tell_nack &= before;
	transfer->tell_again &= before;
	transfer->unplaced &= before;
	while (*at) {
		if ((*at)->block >= block)
			free_absent(exchange->shared, transfer, *at);
		else
			at = &(*at)->next;
	}
	if (asks) {
		transfer->unplaced |= bit;
		transfer->tell_again |= bit;
		transfer_tell(exchange, transfer, 0);
	}
	destination_settle(exchange, transfer);
}

/* Find or make the record of a put: the first packet makes the record. *taken: the put is over. */
static struct net_transfer *put_record(struct exchange *exchange, uint32_t id,
				       const struct wire_data *data, bool *taken)
{
	const struct transfer_numbers *numbers = &exchange->rest->numbers;
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
	transfer = transfer_find(exchange, false, false, id);
	if (transfer)
		return transfer;
	if (transfer_new(exchange, false, false, id, &transfer) != PF_OK)
		return NULL;
	transfer->local = data->address;
	transfer->length = data->length;
	transfer->blocks = transfer_blocks(exchange, data->length);
	transfer->limit = transfer->blocks;
	memset(transfer->granules, 0, transfer->blocks * sizeof(transfer->granules[0]));
	begin_arriving(exchange);
	return transfer;
}

static inline __attribute__((always_inline)) bool
data_is_valid(const struct exchange *exchange, const struct wire_data *data, uint32_t length)
{
	uint32_t block_size = exchange->block_size, granule = block_size / GRANULES;

	return data->length && data->length <= block_size * TRANSFER_BLOCKS &&
	       data->address + data->length >= data->address && length &&
	       data->offset % granule == 0 && data->offset < data->length &&
	       length <= data->length - data->offset &&
	       (length % granule == 0 || data->offset + length == data->length);
}

/* The page is absent: keep the packet, or drop it and have a NACK sent. */
static enum destination_result granules_postpone(struct exchange *exchange,
						 struct net_transfer *transfer, unsigned block,
						 uint64_t granules, uint32_t offset,
						 const struct payload *payload)
{
	struct shared *shared = exchange->shared;
	struct absent *absent = destination_find_absent(transfer, block);
	uint32_t length = payload->length;
	struct kept *kept = NULL;

	assert_that(transfer->absent >> block & 1);
	if (!absent) {
		absent = calloc(1, sizeof(*absent));
		if (!absent)
			return DESTINATION_REFUSED;
		absent->block = (uint8_t)block;
		absent->next = transfer->faults;
		transfer->faults = absent;
	}
	granules &= ~(absent->kept | absent->dropped);
	if (!granules)
		return DESTINATION_TAKEN;
	if (shared->options.fault_mode == NET_FAULT_BACKUP) {
		if (!payload->apart)
			return DESTINATION_NEEDS_BYTES;
		if (shared->backup_used + sizeof(*kept) + length <= shared->options.backup_ring)
			kept = malloc(sizeof(*kept) + length);
		shared->statistics.backup_full += !kept;
	}
	if (kept) {
		kept->offset = offset;
		kept->length = length;
		memcpy(kept->bytes, payload->bytes, length);
		kept->next = absent->packets;
		absent->packets = kept;
		absent->kept |= granules;
		shared->backup_used += (uint32_t)sizeof(*kept) + length;
		shared->statistics.backup_kept++;
		return DESTINATION_TAKEN;
	}
	absent->dropped |= granules;
	if (!absent->told) {
		transfer->tell_nack |= 1ull << block;
		transfer_tell(exchange, transfer, 0);
	}
	return DESTINATION_TAKEN;
}

/*
 * Place granules of a piece of a block. Return PF_OK or the error of place. *done: granules
 * written.
 */
static int granules_place(struct exchange *exchange, struct net_transfer *transfer, unsigned block,
			  uint64_t granules, uint32_t offset, const uint8_t *bytes, uint32_t length,
			  uint64_t *done, uint64_t *bad)
{
	uint32_t granule = exchange->block_size / GRANULES;
	uint32_t start = block * exchange->block_size;
	struct shared *shared = exchange->shared;
	struct net_wait wait = transfer_wait(exchange, transfer, block);
	int result, failed = PF_OK;
	uint64_t before;

	/* The piece is within the block. */
	assert_that(offset >= start && offset + length <= start + exchange->block_size);
	*done = 0;
	while (granules) {
		unsigned first = (unsigned)__builtin_ctzll(granules);
		uint64_t rest = ~(granules >> first);
		unsigned count = rest ? (unsigned)__builtin_ctzll(rest) : 64;
		uint32_t from = start + first * granule, to = from + count * granule;

		if (to > offset + length)
			to = offset + length;
		result = shared->memory.place(shared->memory.user, &wait, transfer->local + from,
					      bytes + (from - offset), to - from, bad);
		if (result == PF_OK) {
			*done |= granule_mask(first, count);
			granules &= ~granule_mask(first, count);
			continue;
		}
		/* Place the granules before the bad address nevertheless. */
		before = (*bad - transfer->local - from) / granule;
		if ((result != PF_ERR_FAULT && result != PF_ERR_REFUSED) ||
		    *bad < transfer->local + from || before >= count)
			return result;
		failed = result;
		granules &= granule_mask(first, (unsigned)before);
	}
	return failed;
}

/* Granules of a block before a bad address found in the block; 0: the address is elsewhere. */
static uint64_t granules_before(const struct exchange *exchange,
				const struct net_transfer *transfer, unsigned block, uint64_t bad)
{
	uint64_t offset = bad - transfer->local - (uint64_t)block * exchange->block_size;

	if (offset >= exchange->block_size)
		return 0;
	return granule_mask(0, (unsigned)(offset / (exchange->block_size / GRANULES)));
}

/*
 * Can the block be written without waiting? The question is asked once for all packets
 * of a block. PF_ERR_AGAIN: the block is absent from now on, and being resolved.
 */
static int destination_look(struct exchange *exchange, struct net_transfer *transfer,
			    unsigned block)
{
	struct shared *shared = exchange->shared;
	uint64_t bit = 1ull << block, bad;
	struct net_wait wait;
	int status;

	assert_that(!transfer->source && !(transfer->absent & bit));
	if (transfer->predicted & bit)
		return PF_OK;
	wait = transfer_wait(exchange, transfer, block);
	status = shared->memory.destination(shared->memory.user, &wait, wait.address,
					    (uint32_t)wait.length, &bad);
	if (status == PF_OK)
		transfer->predicted |= bit;
	if (status == PF_ERR_AGAIN) {
		transfer->absent |= bit;
		shared->statistics.destination_faults++;
	}
	return status;
}

/* Write a single piece of a block. */
static enum destination_result write_now(struct exchange *exchange, struct net_transfer *transfer,
					 unsigned block, uint64_t granules, uint32_t offset,
					 const struct payload *payload)
{
	struct shared *shared = exchange->shared;
	uint64_t bit = 1ull << block, done, bad = 0;
	int status;

	if (transfer->absent & bit)
		return granules_postpone(exchange, transfer, block, granules, offset, payload);
	status = granules_place(exchange, transfer, block, granules, offset, payload->bytes,
				payload->length, &done, &bad);
	if (done && granules_arrived(exchange, transfer, block, done))
		return DESTINATION_TAKEN;
	if (status == PF_OK)
		return DESTINATION_TAKEN;
	/* The source retransmits the packet. */
	if (status == PF_ERR_MEMORY)
		return DESTINATION_REFUSED;
	if (status != PF_ERR_AGAIN) {
		destination_fail(exchange, transfer, block, status, bad,
				 granules_before(exchange, transfer, block, bad));
		return DESTINATION_TAKEN;
	}
	transfer->absent |= bit;
	transfer->predicted &= ~bit;
	shared->statistics.destination_faults++;
	return granules_postpone(exchange, transfer, block, granules & ~done, offset, payload);
}

/* Add a piece of a ready block to the pieces to be written together. False: no room. */
static bool write_later(struct exchange *exchange, struct net_transfer *transfer, uint64_t granules,
			uint32_t offset, const struct payload *payload)
{
	struct pieces *pieces = &exchange->shared->pieces;

	if (pieces->count == NET_PIECES_MOST)
		return false;
	assert_that(offset + payload->length <= transfer->length && payload->apart);
	pieces->of[pieces->count] = (struct placing){ exchange, transfer, granules, offset };
	pieces->memory[pieces->count++] = (struct net_piece){ transfer->local + offset,
							      payload->bytes, payload->length,
							      !transfer->get };
	return true;
}

static enum destination_result granules_arrive(struct exchange *exchange,
					       struct net_transfer *transfer, unsigned block,
					       uint64_t granules, uint32_t offset,
					       const struct payload *payload, bool *in_place)
{
	uint64_t bit = 1ull << block;
	bool foreseen = transfer->predicted & bit &&
			payload->received_at == transfer->local + offset;
	int status = transfer->absent & bit ? PF_ERR_AGAIN :
					      destination_look(exchange, transfer, block);

	if (status == PF_ERR_AGAIN)
		return granules_postpone(exchange, transfer, block, granules, offset, payload);
	if (foreseen) {
		*in_place = true;
		granules_arrived(exchange, transfer, block, granules);
		return DESTINATION_TAKEN;
	}
	if (!payload->apart)
		return DESTINATION_NEEDS_BYTES;
	if (status == PF_OK && write_later(exchange, transfer, granules, offset, payload))
		return DESTINATION_TAKEN;
	/* place reports a bad address: it finds the first, and writes the bytes before. */
	return write_now(exchange, transfer, block, granules, offset, payload);
}

/* Return the granules that are wanted and not here. */
static uint64_t granules_wanted(const struct net_transfer *transfer, unsigned block,
				uint64_t granules)
{
	granules &= ~transfer->granules[block];
	if (block < transfer->limit)
		return granules;
	return block == transfer->limit ? granules & transfer->before : 0;
}

/* place_many did not write this piece, although its packet counts as accepted at the source. */
static void write_alone(const struct placing *of, const struct net_piece *memory)
{
	struct exchange *exchange = of->exchange;
	struct net_transfer *transfer = of->transfer;
	unsigned block = of->offset / exchange->block_size;
	struct payload payload = { .bytes = memory->bytes,
				   .length = memory->length,
				   .apart = true };
	uint64_t granules = granules_wanted(transfer, block, of->granules), bit = 1ull << block;

	if (!granules || write_now(exchange, transfer, block, granules, of->offset, &payload) ==
				 DESTINATION_TAKEN)
		return;
	transfer->unplaced |= bit;
	if (transfer->absent & bit)
		return;
	transfer->tell_again |= bit;
	transfer_tell(exchange, transfer, 0);
}

void destination_flush(struct shared *shared)
{
	struct pieces *pieces = &shared->pieces;
	unsigned count = pieces->count, written, i;

	if (!count)
		return;
	pieces->count = 0;
	written = shared->memory.place_many(shared->memory.user, pieces->memory, count);
	assert_that(written <= count);
	for (i = 0; i < count; i++) {
		const struct placing *of = &pieces->of[i];

		if (of->transfer->finished)
			continue;
		if (i < written)
			granules_arrived(of->exchange, of->transfer,
					 of->offset / of->exchange->block_size, of->granules);
		else
			write_alone(of, &pieces->memory[i]);
	}
}

void destination_forget(struct exchange *exchange)
{
	struct pieces *pieces = &exchange->shared->pieces;
	unsigned i, left = 0;

	for (i = 0; i < pieces->count; i++) {
		if (pieces->of[i].exchange == exchange)
			continue;
		pieces->of[left] = pieces->of[i];
		pieces->memory[left++] = pieces->memory[i];
	}
	pieces->count = left;
}

/* Expect the next data in a get, from an offset on. */
static void destination_expect(struct exchange *exchange, struct net_transfer *transfer,
			       uint32_t offset)
{
	/* Never a put: programs may poll the target. */
	assert_that(transfer->get && !transfer->source && offset <= transfer->length);
	exchange->transfers.latest = transfer;
	exchange->transfers.latest_end = offset;
	exchange->effects |= EFFECT_EXPECT;
}

bool destination_signal(struct exchange *exchange, uint32_t id, const struct wire_data *data,
			uint32_t length, const pf_signal *signal, bool *alone)
{
	struct net_transfer *transfer;
	bool taken;

	*alone = !data->length && !data->offset && !length;
	if ((!*alone && !data_is_valid(exchange, data, length)) ||
	    data->offset + length != data->length ||
	    (signal->op == PF_SIGNAL_NOTICE && signal->remote > data->address))
		return false;
	transfer = put_record(exchange, id, data, &taken);
	if (!transfer) {
		exchange->shared->statistics.data_duplicate += taken && *alone;
		return taken;
	}
	if (transfer->length != data->length || transfer->local != data->address)
		return false;
	/* All packets with the last byte have an equal signal. */
	if (transfer->signalling)
		return true;
	transfer->signalling = SIGNAL_KNOWN;
	transfer->signal = *signal;
	if (*alone)
		granules_arrived(exchange, transfer, 0, 1);
	return true;
}

enum destination_result destination_data(struct exchange *exchange, bool get, uint32_t id,
					 const struct wire_data *data,
					 const struct payload *payload)
{
	struct transfers *transfers = &exchange->transfers;
	struct net_statistics *statistics = &exchange->shared->statistics;
	uint32_t granule = exchange->block_size / GRANULES, length = payload->length, whole;
	enum destination_result result = DESTINATION_TAKEN;
	unsigned first, end;
	struct net_transfer *transfer;
	bool taken = true, news = false, in_place = false;

	if (!data_is_valid(exchange, data, length))
		return DESTINATION_REFUSED;
	transfer = get ? transfer_find(exchange, true, false, id) :
			 put_record(exchange, id, data, &taken);
	if (!transfer) {
		statistics->data_duplicate += taken;
		return taken ? DESTINATION_TAKEN : DESTINATION_REFUSED;
	}
	if (transfer->length != data->length || (!get && transfer->local != data->address))
		return DESTINATION_REFUSED;
	assert_that(!transfer->source && transfer->get == get);
	first = data->offset / granule;
	whole = (length + granule - 1) / granule;
	if (get)
		destination_expect(exchange, transfer, data->offset + length);
	/* Count whole granules: a granule, not a part of it, is recorded as present. */
	if (whole * granule > transfers->latest_length || data->offset + length < data->length)
		transfers->latest_length = whole * granule;
	/* Handle the part of each block; the last wanted granule may end the transfer. */
	for (end = first + whole; first < end && !transfer->finished;) {
		struct part part = run_part(first, end);
		uint64_t granules = granule_mask(part.granule, part.granules);
		uint32_t start = first * granule - data->offset;
		struct payload piece = { .bytes = payload->bytes + start,
					 .length = part.granules * granule,
					 .received_at = payload->received_at + start,
					 .apart = payload->apart };
		enum destination_result here;

		first += part.granules;
		if (piece.length > length - start)
			piece.length = length - start;
		news |= (granules & ~transfer->granules[part.block]) != 0;
		granules = granules_wanted(transfer, part.block, granules);
		if (!granules)
			continue;
		here = granules_arrive(exchange, transfer, part.block, granules,
				       data->offset + start, &piece, &in_place);
		/* Handle later parts in any case: the packet comes again, or its bytes do. */
		if (here != DESTINATION_TAKEN)
			result = here;
	}
	statistics->data_duplicate += !news;
	statistics->data_in_place += in_place;
	return result;
}

void destination_start(struct exchange *exchange)
{
	struct transfers *transfers = &exchange->transfers;
	struct net_transfer *transfer;

	while (transfers->get_bytes < GET_BYTES_MOST && (transfer = transfer_cut(exchange, true))) {
		transfers->get_bytes += transfer->length;
		begin_arriving(exchange);
		memset(transfer->granules, 0, transfer->blocks * sizeof(transfer->granules[0]));
		transfer_tell(exchange, transfer, TELL_GET);
		if (!transfers->latest)
			destination_expect(exchange, transfer, 0);
	}
}

/* Place the kept packets of a block. False: a bad address, and all kept packets are freed. */
static bool place_kept(struct exchange *exchange, struct net_transfer *transfer,
		       struct absent *absent)
{
	uint32_t granule = exchange->block_size / GRANULES;
	struct shared *shared = exchange->shared;
	uint64_t done, bad = 0, granules;
	unsigned block = absent->block;
	struct kept *kept;
	int status;

	while ((kept = absent->packets)) {
		granules = granule_mask(kept->offset % exchange->block_size / granule,
					(kept->length + granule - 1) / granule);
		granules &= absent->kept & ~transfer->granules[block];
		status = granules_place(exchange, transfer, block, granules, kept->offset,
					kept->bytes, kept->length, &done, &bad);
		assert_that(!(done & ~granules));
		absent->kept &= ~done;
		if (status == PF_ERR_AGAIN) {
			transfer->granules[block] |= done;
			transfer->absent |= 1ull << block;
			shared->statistics.destination_faults++;
			return true;
		}
		if (status == PF_ERR_MEMORY) {
			transfer->unplaced |= 1ull << block;
		} else if (status != PF_OK) {
			destination_fail(exchange, transfer, block, status, bad, 0);
			return false;
		}
		free_kept(shared, absent);
		/* granules_arrived could free absent: the caller reports these granules. */
		transfer->granules[block] |= done;
	}
	return true;
}

void destination_resolved(struct exchange *exchange, struct net_token token, int status,
			  uint64_t bad)
{
	struct net_transfer *transfer = transfer_of_token(exchange, token);
	unsigned block = token.block;
	uint64_t bit = 1ull << block;
	struct absent *absent;

	if (!transfer || transfer->finished || !(transfer->absent & bit))
		return;
	if (status != PF_OK) {
		destination_fail(exchange, transfer, block, status, bad, 0);
		return;
	}
	transfer->absent &= ~bit;
	/*
	 * Look no more: if a page of the block goes again at once, arriving bytes wait for the
	 * page in place. Otherwise the transfer might make no progress.
	 */
	transfer->predicted |= bit;
	transfer_trace(exchange, transfer, bit, NET_BLOCK_RESOLVED);
	absent = destination_find_absent(transfer, block);
	if (!absent && !(transfer->unplaced & bit))
		return;
	if (absent && (!place_kept(exchange, transfer, absent) || transfer->absent & bit))
		return;
	if (transfer->unplaced & bit || absent->dropped) {
		transfer->tell_again |= bit;
		transfer_tell(exchange, transfer, 0);
	} else {
		free_absent(exchange->shared, transfer, absent);
	}
	granules_arrived(exchange, transfer, block, 0);
}

bool destination_again(struct exchange *exchange, struct net_transfer *transfer, unsigned block,
		       uint64_t *granules)
{
	struct absent *absent = destination_find_absent(transfer, block);
	uint64_t bit = 1ull << block;
	bool unplaced = transfer->unplaced & bit;

	assert_that(block < transfer->blocks && !transfer->finished);
	transfer->tell_again &= ~bit;
	if ((!absent && !unplaced) || transfer->absent & bit)
		return false;
	transfer->tell_nack &= ~bit;
	transfer->unplaced &= ~bit;
	*granules = unplaced ? transfer_block_granules(exchange, transfer, block) : absent->dropped;
	*granules = granules_wanted(transfer, block, *granules);
	if (absent)
		free_absent(exchange->shared, transfer, absent);
	return true;
}

bool destination_nack(struct net_transfer *transfer, unsigned block)
{
	struct absent *absent = destination_find_absent(transfer, block);

	transfer->tell_nack &= ~(1ull << block);
	if (!absent || absent->told)
		return false;
	absent->told = true;
	return true;
}

int destination_cancel(struct exchange *exchange, uint32_t id)
{
	const struct transfer_numbers *numbers = &exchange->rest->numbers;
	struct wire_data data = { .length = 1 };
	struct net_transfer *transfer;
	bool taken;

	/* An initiator that keeps the rules has at most TRANSFERS_MOST puts open. */
	if (id - numbers->finished >= TRANSFERS_MOST && (int32_t)(id - numbers->finished) > 0)
		return PF_ERR_REFUSED;
	transfer = put_record(exchange, id, &data, &taken);
	/* With all data here, the signal happens. */
	if (transfer && transfer->signalling < SIGNAL_PARKED)
		destination_finish(exchange, transfer, PF_ERR_FAULT, 0);
	return transfer || taken ? PF_OK : PF_ERR_MEMORY;
}

void destination_failed(struct exchange *exchange, uint32_t id, int status, uint64_t address)
{
	struct net_transfer *transfer = transfer_find(exchange, true, false, id);
	enum pf_side side = PF_SIDE_REMOTE;

	if (!transfer)
		return;
	/* Both sides have a bad page: report the first. */
	if (transfer->status != PF_OK &&
	    transfer->address - transfer->local < address - transfer->remote) {
		side = PF_SIDE_LOCAL;
		status = transfer->status;
		address = transfer->address;
	}
	forget_blocks(exchange, transfer);
	transfer_end(exchange, transfer, status == PF_OK ? PF_ERR_FAULT : status, side, address);
}

/* Is no byte of the range here yet, and can a receive call write the range? */
static bool is_free(struct exchange *exchange, struct net_transfer *transfer, uint32_t offset,
		    uint32_t length)
{
	uint32_t granule = exchange->block_size / GRANULES;
	unsigned first = offset / granule, end = first + (length + granule - 1) / granule;

	while (first < end) {
		struct part part = run_part(first, end);

		first += part.granules;
		if (part.block >= transfer->limit || transfer->absent >> part.block & 1 ||
		    transfer->granules[part.block] & granule_mask(part.granule, part.granules) ||
		    destination_find_absent(transfer, part.block) ||
		    destination_look(exchange, transfer, part.block) != PF_OK)
			return false;
	}
	return true;
}

bool destination_expects(const struct exchange *exchange, uint32_t get, uint32_t offset)
{
	const struct transfers *transfers = &exchange->transfers;

	return transfers->latest && transfers->latest->id == get && transfers->latest_end == offset;
}

unsigned destination_predict(struct exchange *exchange, struct net_place *places, unsigned most,
			     uint32_t header)
{
	struct transfers *transfers = &exchange->transfers;
	struct net_transfer *transfer = transfers->latest;
	uint32_t offset, length, bytes = 0;
	unsigned count = 0;

	assert_that(transfer && transfer->get && !transfer->finished);
	if (transfer->unforeseen || !transfers->latest_length)
		return 0;
	for (offset = transfers->latest_end;
	     count < most && offset < transfer->length && bytes < NET_BATCH_BYTES;
	     offset += length, bytes += header + length) {
		length = transfer->length - offset;
		if (length > transfers->latest_length)
			length = transfers->latest_length;
		if (!is_free(exchange, transfer, offset, length))
			break;
		places[count].address = (void *)(uintptr_t)(transfer->local + offset);
		places[count++].length = length;
		if (length < transfers->latest_length)
			break;
	}
	return count;
}

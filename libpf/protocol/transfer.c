/* SPDX-License-Identifier: BSD-3-Clause */
#include "transfer.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/number.h"
#include "base/tag.h"

#define FREE_MOST 1024 /* records kept for reuse */
#define TABLE_FIRST 8  /* slots of a new table */

void transfers_init(struct transfers *transfers, const struct transfer_numbers *numbers)
{
	unsigned i;

	*transfers = (struct transfers){ 0 };
	TAILQ_INIT(&transfers->posted);
	for (i = 0; i < 2; i++) {
		TAILQ_INIT(&transfers->uncut[i]);
		STAILQ_INIT(&transfers->sending[i]);
	}
	STAILQ_INIT(&transfers->telling);
	STAILQ_INIT(&transfers->atomics_uncut);
	transfers->oldest[0] = numbers->put;
	transfers->oldest[1] = numbers->get;
	transfers->oldest_atomic = numbers->atomic;
}

bool transfers_idle(const struct transfers *transfers)
{
	return !transfers->open && TAILQ_EMPTY(&transfers->posted) && !transfers->atomics_open &&
	       STAILQ_EMPTY(&transfers->atomics_uncut);
}

/* Return the table of a transfer: ours if this end posted the operation. */
static struct transfer_table *table_of(struct exchange *exchange, bool get, bool source)
{
	struct transfers *transfers = &exchange->transfers;

	return get != source ? &transfers->ours[get] : &transfers->peers[get];
}

static struct net_transfer **transfer_slot(const struct transfer_table *table, uint32_t id)
{
	/* A record is found by a mask. */
	assert_that(table->at && !(table->size & (table->size - 1)));
	return &table->at[id & (table->size - 1)];
}

static struct net_transfer *transfer_table_find(const struct transfer_table *table, uint32_t id)
{
	struct net_transfer *transfer = table->at ? *transfer_slot(table, id) : NULL;

	return transfer && transfer->id == id ? transfer : NULL;
}

static bool transfer_table_grow(struct transfer_table *table)
{
	struct transfer_table old = *table;
	uint32_t i;

	table->size = old.size ? 2 * old.size : TABLE_FIRST;
	table->at = calloc(table->size, sizeof(struct net_transfer *));
	if (!table->at) {
		*table = old;
		return false;
	}
	/* Records in different slots stay in different slots. */
	for (i = 0; i < old.size; i++) {
		if (old.at[i])
			*transfer_slot(table, old.at[i]->id) = old.at[i];
	}
	free(old.at);
	return true;
}

/* Enter the transfer into the table, to be found by number. */
static int transfer_enter(struct exchange *exchange, struct net_transfer *transfer)
{
	struct transfer_table *table = table_of(exchange, transfer->get, transfer->source);

	while (!table->at || *transfer_slot(table, transfer->id)) {
		if (table->size == TRANSFERS_MOST)
			return PF_ERR_REFUSED;
		if (!transfer_table_grow(table))
			return PF_ERR_MEMORY;
	}
	*transfer_slot(table, transfer->id) = transfer;
	return PF_OK;
}

void transfer_leave(struct exchange *exchange, struct net_transfer *transfer)
{
	struct transfer_table *table = table_of(exchange, transfer->get, transfer->source);

	if (table->at && *transfer_slot(table, transfer->id) == transfer)
		*transfer_slot(table, transfer->id) = NULL;
}

struct net_transfer *transfer_find(struct exchange *exchange, bool get, bool source, uint32_t id)
{
	return transfer_table_find(table_of(exchange, get, source), id);
}

size_t transfers_memory(const struct transfers *transfers)
{
	size_t count = 0;
	unsigned get;

	for (get = 0; get < 2; get++)
		count += transfers->ours[get].size + transfers->peers[get].size;
	return count * sizeof(struct net_transfer *);
}

void transfers_destroy(struct transfers *transfers)
{
	unsigned get;

	assert_that(!transfers->open && STAILQ_EMPTY(&transfers->sending[0]) &&
		    STAILQ_EMPTY(&transfers->sending[1]) && STAILQ_EMPTY(&transfers->telling));
	for (get = 0; get < 2; get++) {
		free(transfers->ours[get].at);
		free(transfers->peers[get].at);
	}
}

int transfer_new(struct exchange *exchange, bool get, bool source, uint32_t id,
		 struct net_transfer **result)
{
	struct shared *shared = exchange->shared;
	struct net_transfer *transfer = shared->free_transfers;
	int status;

	if (transfer) {
		shared->free_transfers = transfer->next_free;
		shared->free_count--;
	} else {
		transfer = malloc(sizeof(*transfer));
		if (!transfer)
			return PF_ERR_MEMORY;
	}
	memset(transfer, 0, offsetof(struct net_transfer, granules));
	transfer->id = id;
	transfer->get = get;
	transfer->source = source;
	transfer->generation = shared->generation++;
	exchange->transfers.open++;
	status = transfer_enter(exchange, transfer);
	if (status == PF_OK)
		*result = transfer;
	else
		transfer_free(exchange, transfer);
	return status;
}

void transfer_free(struct exchange *exchange, struct net_transfer *transfer)
{
	struct transfers *transfers = &exchange->transfers;
	struct shared *shared = exchange->shared;

	assert_that(transfers->open && (transfer->source || !transfer->faults));
	assert_that(!transfer->sending || !STAILQ_EMPTY(&transfers->sending[transfer->get]));
	assert_that(!transfer->telling || !STAILQ_EMPTY(&transfers->telling));
	transfer_leave(exchange, transfer);
	if (transfer->sending)
		STAILQ_REMOVE(&transfers->sending[transfer->get], transfer, net_transfer,
			      next_sending);
	if (transfer->telling)
		STAILQ_REMOVE(&transfers->telling, transfer, net_transfer, next_telling);
	if (transfers->latest == transfer)
		transfers->latest = NULL;
	if (transfer->signalling == SIGNAL_NOTED)
		STAILQ_REMOVE(&shared->finished, &transfer->noted, finished, next);
	transfers->open--;
	if (shared->free_count == FREE_MOST) {
		free(transfer);
		return;
	}
	transfer->next_free = shared->free_transfers;
	shared->free_transfers = transfer;
	shared->free_count++;
}

void transfer_tell(struct exchange *exchange, struct net_transfer *transfer, uint8_t what)
{
	struct transfers *transfers = &exchange->transfers;

	transfer->tell |= what;
	exchange->effects |= EFFECT_OUTPUT;
	if (transfer->telling)
		return;
	transfer->telling = true;
	STAILQ_INSERT_TAIL(&transfers->telling, transfer, next_telling);
}

/* Give up bytes of the operation that are in no transfer yet. */
static void operation_shorten(struct transfers *transfers, struct operation_posted *operation)
{
	if (operation->piece == operation->count)
		return;
	TAILQ_REMOVE(&transfers->uncut[operation->get], operation, uncut);
	operation->length = operation->cut;
	operation->count = operation->piece;
}

static void operation_complete(struct exchange *exchange, struct operation_posted *operation)
{
	struct transfers *transfers = &exchange->transfers;

	operation_shorten(transfers, operation);
	TAILQ_REMOVE(&transfers->posted, operation, posted);
	STAILQ_INSERT_TAIL(&exchange->shared->finished, &operation->finished, next);
}

void transfer_end(struct exchange *exchange, struct net_transfer *transfer, int status,
		  enum pf_side side, uint64_t address)
{
	struct transfers *transfers = &exchange->transfers;
	struct operation_posted *operation = transfer->operation;
	struct net_completion *completion = &operation->finished.completion;
	uint64_t offset = transfer->offset;
	bool get = transfer->get;
	uint32_t next = get ? exchange->rest->numbers.get : exchange->rest->numbers.put;

	assert_that(operation->open && operation->cut <= operation->length);
	assert_that(!get || transfers->get_bytes >= transfer->length);
	transfer->operation = NULL;
	transfer_leave(exchange, transfer);
	while (transfers->oldest[get] != next &&
	       !transfer_table_find(&transfers->ours[get], transfers->oldest[get]))
		transfers->oldest[get]++;
	if (get)
		transfers->get_bytes -= transfer->length;
	if (status != PF_OK && (completion->status == PF_OK || offset < operation->failed_at)) {
		completion->status = status;
		completion->side = side;
		completion->address = address;
		operation->failed_at = offset;
		operation_shorten(transfers, operation);
	}
	operation->open--;
	exchange->effects |= EFFECT_OUTPUT;
	if (!operation->open && operation->piece == operation->count)
		operation_complete(exchange, operation);
}

/*
 * Return the bytes of the first transfer of a put with a signal: the rest of whole transfers. The
 * last transfer is long, and all earlier transfers have ended before the turn of the last block.
 */
static uint64_t signal_cut_first(const struct exchange *exchange, uint64_t length, uint64_t most)
{
	uint64_t rest = length % most;

	if (length <= most || !rest)
		return number_min(length, most);
	return (rest + exchange->block_size - 1) / exchange->block_size * exchange->block_size;
}

struct net_transfer *transfer_cut(struct exchange *exchange, bool get)
{
	struct transfers *transfers = &exchange->transfers;
	uint32_t *next = get ? &exchange->rest->numbers.get : &exchange->rest->numbers.put;
	uint64_t most = (uint64_t)TRANSFER_BLOCKS * exchange->block_size, length;
	struct net_transfer *transfer;
	struct operation_posted *operation = TAILQ_FIRST(&transfers->uncut[get]);
	const pf_piece *piece;

	if (!operation || *next - transfers->oldest[get] >= TRANSFERS_MOST)
		return NULL;
	assert_that(operation->piece < operation->count);
	piece = &operation->pieces[operation->piece];
	length = number_min(piece->length - operation->piece_cut, most);
	if (operation->signalled && !operation->cut)
		length = signal_cut_first(exchange, piece->length, most);
	if (transfer_new(exchange, get, !get, *next, &transfer) != PF_OK)
		return NULL;
	++*next;
	transfer->operation = operation;
	transfer->offset = operation->cut;
	transfer->local = (uintptr_t)piece->local + operation->piece_cut;
	transfer->remote = piece->remote + operation->piece_cut;
	transfer->length = (uint32_t)length;
	transfer->blocks = transfer_blocks(exchange, transfer->length);
	transfer->limit = transfer->blocks;
	operation->open++;
	operation->cut += length;
	operation->piece_cut += length;
	if (operation->piece_cut == piece->length) {
		operation->piece++;
		operation->piece_cut = 0;
		if (operation->signalled)
			transfer->signalling = SIGNAL_CARRIED;
	}
	/* Operations take turns: move the operation to the end. */
	TAILQ_REMOVE(&transfers->uncut[get], operation, uncut);
	if (operation->piece < operation->count)
		TAILQ_INSERT_TAIL(&transfers->uncut[get], operation, uncut);
	return transfer;
}

/* Return the bytes of a block. */
static uint32_t transfer_block_length(const struct exchange *exchange,
				      const struct net_transfer *transfer, unsigned block)
{
	uint32_t start = block * exchange->block_size;

	assert_that(start < transfer->length || !transfer->length);
	return transfer->length - start < exchange->block_size ? transfer->length - start :
								 exchange->block_size;
}

uint64_t transfer_block_granules(const struct exchange *exchange,
				 const struct net_transfer *transfer, unsigned block)
{
	uint32_t granule = exchange->block_size / GRANULES;

	/* An empty transfer has a granule, too. */
	if (__builtin_expect(!transfer->length, 0))
		return 1;
	return granule_mask(0, (transfer_block_length(exchange, transfer, block) + granule - 1) /
				       granule);
}

/* Return the token of a block. */
static struct net_token transfer_token(const struct exchange *exchange,
				       const struct net_transfer *transfer, unsigned block)
{
	return (struct net_token){ .association = exchange->index,
				   .transfer = transfer->id,
				   .block = (uint16_t)block,
				   .side = transfer->source ? NET_SOURCE : NET_DESTINATION,
				   .served = transfer->get,
				   .generation = transfer->generation };
}

struct net_wait transfer_wait(const struct exchange *exchange, const struct net_transfer *transfer,
			      unsigned block)
{
	return (struct net_wait){
		.token = transfer_token(exchange, transfer, block),
		.address = transfer->local + (uint64_t)block * exchange->block_size,
		.length = transfer_block_length(exchange, transfer, block),
		.end = transfer->local + transfer->length,
		.write = !transfer->source,
		.suspect = transfer->suspect >> block & 1,
		.foreign = transfer->get == transfer->source,
	};
}

void transfer_trace(const struct exchange *exchange, const struct net_transfer *transfer,
		    uint64_t blocks, enum net_block what)
{
	const struct net_memory_operations *memory = &exchange->shared->memory;

	if (__builtin_expect(!memory->trace, 1))
		return;
	for (; blocks; blocks &= blocks - 1) {
		struct net_wait wait = transfer_wait(exchange, transfer,
						     (unsigned)__builtin_ctzll(blocks));

		memory->trace(memory->user, &wait, what);
	}
}

struct net_transfer *transfer_of_token(struct exchange *exchange, struct net_token token)
{
	struct net_transfer *transfer = transfer_find(exchange, token.served,
						      token.side == NET_SOURCE, token.transfer);

	if (!transfer || transfer->generation != token.generation ||
	    token.block >= transfer->blocks)
		return NULL;
	return transfer;
}

int transfers_post(struct exchange *exchange, bool get, const pf_piece *pieces, unsigned count,
		   const pf_signal *signal, void *arg)
{
	struct transfers *transfers = &exchange->transfers;
	struct operation_posted *operation;
	unsigned i, used = 0;

	operation = malloc(sizeof(*operation) + count * sizeof(*pieces));
	if (!operation)
		return PF_ERR_MEMORY;
	*operation = (struct operation_posted){ .finished = { .arg = arg }, .get = get };
	if (signal) {
		assert_that(!get && count == 1);
		operation->signalled = true;
		operation->signal = *signal;
		if (signal->op == PF_SIGNAL_NOTICE)
			operation->signal.remote = tag_remove(pieces[0].remote);
	}
	for (i = 0; i < count; i++) {
		if (!pieces[i].length && !signal)
			continue;
		operation->pieces[used++] = (pf_piece){
			.local = tag_remove_pointer(pieces[i].local),
			.remote = tag_remove(pieces[i].remote),
			.length = pieces[i].length,
		};
		operation->length += pieces[i].length;
	}
	operation->count = used;
	assert_that(operation->length || signal);
	TAILQ_INSERT_TAIL(&transfers->posted, operation, posted);
	TAILQ_INSERT_TAIL(&transfers->uncut[get], operation, uncut);
	exchange->effects |= EFFECT_OUTPUT;
	return PF_PENDING;
}

void transfers_abandon(struct exchange *exchange, int status)
{
	struct transfers *transfers = &exchange->transfers;
	struct operation_posted *operation;

	while ((operation = TAILQ_FIRST(&transfers->posted))) {
		/* Drop an address found: a fault in an earlier part may be unknown. */
		operation->finished.completion = (struct net_completion){ .status = status };
		operation_complete(exchange, operation);
	}
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "transfer.h"

#include <stdlib.h>

#define FREE_MOST 1024

void transfers_init(struct transfers *transfers, const struct transfer_numbers *numbers)
{
	unsigned i;

	*transfers = (struct transfers){ 0 };
	transfers->posted.next = transfers->posted.previous = &transfers->posted;
	for (i = 0; i < 2; i++)
		transfers->uncut_last[i] = &transfers->uncut[i];
	transfers->sending_last = &transfers->sending;
	transfers->telling_last = &transfers->telling;
	transfers->atomics_last = &transfers->atomics_uncut;
	transfers->oldest[0] = numbers->put;
	transfers->oldest[1] = numbers->get;
	transfers->oldest_atomic = numbers->atomic;
}

bool transfers_idle(const struct transfers *transfers)
{
	return !transfers->open && transfers->posted.next == &transfers->posted &&
	       !transfers->atomics_open && !transfers->atomics_uncut;
}

/* Where the record of a transfer is found by its number. */
static struct net_transfer **slot(struct exchange *exchange, bool get, bool source, uint32_t id)
{
	struct transfers *transfers = &exchange->transfers;
	bool ours = get != source;

	return ours ? &transfers->ours[get][id % TRANSFERS_MOST] :
		      &transfers->peers[get][id % TRANSFERS_MOST];
}

struct net_transfer *transfer_find(struct exchange *exchange, bool get, bool source, uint32_t id)
{
	struct net_transfer *transfer = *slot(exchange, get, source, id);

	return transfer && transfer->id == id ? transfer : NULL;
}

struct net_transfer *transfer_new(struct exchange *exchange, bool get, bool source)
{
	struct shared *shared = exchange->shared;
	struct net_transfer *transfer = shared->free_transfers;

	if (transfer) {
		shared->free_transfers = transfer->next_free;
		shared->free_count--;
	} else {
		transfer = malloc(sizeof(*transfer));
		if (!transfer)
			return NULL;
	}
	memset(transfer, 0, offsetof(struct net_transfer, granules));
	transfer->get = get;
	transfer->source = source;
	transfer->generation = shared->generation++;
	exchange->transfers.open++;
	return transfer;
}

static void unlink_sending(struct transfers *transfers, struct net_transfer *transfer)
{
	struct net_transfer **at = &transfers->sending;

	while (*at != transfer)
		at = &(*at)->next_sending;
	*at = transfer->next_sending;
	if (!*at)
		transfers->sending_last = at;
	transfer->sending = false;
}

static void unlink_telling(struct transfers *transfers, struct net_transfer *transfer)
{
	struct net_transfer **at = &transfers->telling;

	while (*at != transfer)
		at = &(*at)->next_telling;
	*at = transfer->next_telling;
	if (!*at)
		transfers->telling_last = at;
	transfer->telling = false;
}

void transfer_free(struct exchange *exchange, struct net_transfer *transfer)
{
	struct transfers *transfers = &exchange->transfers;
	struct shared *shared = exchange->shared;
	struct net_transfer **here = slot(exchange, transfer->get, transfer->source, transfer->id);

	if (*here == transfer)
		*here = NULL;
	if (transfer->sending)
		unlink_sending(transfers, transfer);
	if (transfer->telling)
		unlink_telling(transfers, transfer);
	if (transfers->latest == transfer)
		transfers->latest = NULL;
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
	transfer->next_telling = NULL;
	*transfers->telling_last = transfer;
	transfers->telling_last = &transfer->next_telling;
}

static void forget_uncut(struct transfers *transfers, struct operation_posted *operation)
{
	struct operation_posted **at = &transfers->uncut[operation->get];

	for (; *at; at = &(*at)->next_uncut) {
		if (*at == operation) {
			*at = operation->next_uncut;
			if (!*at)
				transfers->uncut_last[operation->get] = at;
			return;
		}
	}
}

static void complete(struct exchange *exchange, struct operation_posted *operation)
{
	forget_uncut(&exchange->transfers, operation);
	operation->previous->next = operation->next;
	operation->next->previous = operation->previous;
	STAILQ_INSERT_TAIL(&exchange->shared->finished, &operation->finished, next);
}

void transfer_end(struct exchange *exchange, struct net_transfer *transfer, int status,
		  enum pf_side side, uint64_t address)
{
	struct transfers *transfers = &exchange->transfers;
	struct operation_posted *operation = transfer->operation;
	struct net_completion *completion = &operation->finished.completion;
	uint64_t offset = transfer->local - operation->local;
	bool get = transfer->get;
	uint32_t next = get ? exchange->rest->numbers.get : exchange->rest->numbers.put;

	transfer->operation = NULL;
	transfers->ours[get][transfer->id % TRANSFERS_MOST] = NULL;
	while (transfers->oldest[get] != next &&
	       !transfers->ours[get][transfers->oldest[get] % TRANSFERS_MOST])
		transfers->oldest[get]++;
	if (get)
		transfers->get_bytes -= transfer->length;
	if (status != PF_OK && (completion->status == PF_OK || offset < operation->failed_at)) {
		completion->status = status;
		completion->side = side;
		completion->address = address;
		operation->failed_at = offset;
	}
	operation->open--;
	exchange->effects |= EFFECT_OUTPUT;
	if (!operation->open &&
	    (operation->cut == operation->length || completion->status != PF_OK))
		complete(exchange, operation);
}

struct net_transfer *transfer_cut(struct exchange *exchange, bool get)
{
	struct transfers *transfers = &exchange->transfers;
	uint32_t *next = get ? &exchange->rest->numbers.get : &exchange->rest->numbers.put;
	uint64_t most = (uint64_t)TRANSFER_BLOCKS * exchange->block_size, length;
	struct operation_posted *operation;
	struct net_transfer *transfer;

	while ((operation = transfers->uncut[get]) &&
	       operation->finished.completion.status != PF_OK)
		forget_uncut(transfers, operation);
	if (!operation || *next - transfers->oldest[get] >= TRANSFERS_MOST)
		return NULL;
	length = operation->length - operation->cut;
	if (length > most)
		length = most;
	transfer = transfer_new(exchange, get, !get);
	if (!transfer)
		return NULL;
	transfer->operation = operation;
	transfer->id = (*next)++;
	transfer->local = operation->local + operation->cut;
	transfer->remote = operation->remote + operation->cut;
	transfer->length = (uint32_t)length;
	transfer->blocks = (uint8_t)((length + exchange->block_size - 1) / exchange->block_size);
	transfer->limit = transfer->blocks;
	transfers->ours[get][transfer->id % TRANSFERS_MOST] = transfer;
	operation->open++;
	operation->cut += length;
	/* Operations take turns. */
	forget_uncut(transfers, operation);
	if (operation->cut < operation->length) {
		operation->next_uncut = NULL;
		*transfers->uncut_last[get] = operation;
		transfers->uncut_last[get] = &operation->next_uncut;
	}
	return transfer;
}

uint32_t transfer_block_length(const struct exchange *exchange, const struct net_transfer *transfer,
			       unsigned block)
{
	uint32_t start = block * exchange->block_size;

	return transfer->length - start < exchange->block_size ? transfer->length - start :
								 exchange->block_size;
}

uint64_t transfer_block_granules(const struct exchange *exchange,
				 const struct net_transfer *transfer, unsigned block)
{
	uint32_t granule = exchange->block_size / GRANULES;

	return granule_mask(0, (transfer_block_length(exchange, transfer, block) + granule - 1) /
				       granule);
}

struct net_token transfer_token(const struct exchange *exchange,
				const struct net_transfer *transfer, unsigned block)
{
	return (struct net_token){ .association = exchange->index,
				   .transfer = transfer->id,
				   .block = (uint16_t)block,
				   .side = transfer->source ? NET_SOURCE : NET_DESTINATION,
				   .served = transfer->get,
				   .generation = transfer->generation };
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

int transfers_post(struct exchange *exchange, bool get, uint64_t local, uint64_t remote,
		   uint64_t length, void *arg)
{
	struct transfers *transfers = &exchange->transfers;
	struct operation_posted *operation, *last;

	if (!length || remote + length < remote || local + length < local)
		return PF_ERR_ARGUMENT;
	operation = malloc(sizeof(*operation));
	if (!operation)
		return PF_ERR_MEMORY;
	*operation = (struct operation_posted){
		.finished = { .arg = arg },
		.local = local,
		.remote = remote,
		.length = length,
		.get = get,
	};
	last = transfers->posted.previous;
	operation->previous = last;
	operation->next = &transfers->posted;
	last->next = transfers->posted.previous = operation;
	*transfers->uncut_last[get] = operation;
	transfers->uncut_last[get] = &operation->next_uncut;
	exchange->effects |= EFFECT_OUTPUT;
	return PF_OK;
}

void transfers_abandon(struct exchange *exchange, int status)
{
	struct transfers *transfers = &exchange->transfers;

	while (transfers->posted.next != &transfers->posted) {
		struct operation_posted *operation = transfers->posted.next;

		if (operation->finished.completion.status == PF_OK)
			operation->finished.completion.status = status;
		complete(exchange, operation);
	}
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "transfer.h"

#include <stdlib.h>

#include "core.h"

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
static struct net_transfer **slot(struct net_association *association, bool get, bool source,
				  uint32_t id)
{
	struct transfers *transfers = &association->busy->transfers;
	bool ours = get != source;

	return ours ? &transfers->ours[get][id % TRANSFERS_MOST] :
		      &transfers->peers[get][id % TRANSFERS_MOST];
}

struct net_transfer *transfer_find(struct net_association *association, bool get, bool source,
				   uint32_t id)
{
	struct net_transfer *transfer;

	if (!association->busy)
		return NULL;
	transfer = *slot(association, get, source, id);
	return transfer && transfer->id == id ? transfer : NULL;
}

struct net_transfer *transfer_new(struct net_association *association, bool get, bool source)
{
	struct net_core *core = association->core;
	struct net_transfer *transfer = core->free_transfers;

	if (transfer) {
		core->free_transfers = transfer->next_free;
		core->free_count--;
	} else {
		transfer = malloc(sizeof(*transfer));
		if (!transfer)
			return NULL;
	}
	memset(transfer, 0, offsetof(struct net_transfer, granules));
	transfer->get = get;
	transfer->source = source;
	transfer->generation = core->generation++;
	association->busy->transfers.open++;
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

void transfer_free(struct net_association *association, struct net_transfer *transfer)
{
	struct transfers *transfers = &association->busy->transfers;
	struct net_core *core = association->core;
	struct net_transfer **here = slot(association, transfer->get, transfer->source,
					  transfer->id);

	if (*here == transfer)
		*here = NULL;
	if (transfer->sending)
		unlink_sending(transfers, transfer);
	if (transfer->telling)
		unlink_telling(transfers, transfer);
	if (transfers->latest == transfer)
		transfers->latest = NULL;
	transfers->open--;
	if (core->free_count == FREE_MOST) {
		free(transfer);
		return;
	}
	transfer->next_free = core->free_transfers;
	core->free_transfers = transfer;
	core->free_count++;
}

void transfer_tell(struct net_association *association, struct net_transfer *transfer, uint8_t what)
{
	struct transfers *transfers = &association->busy->transfers;

	transfer->tell |= what;
	association_wake(association);
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

static void complete(struct net_association *association, struct operation_posted *operation)
{
	struct net_core *core = association->core;
	struct net_completion completion = { .status = operation->status,
					     .side = (enum pf_side)operation->side,
					     .address = operation->address };
	void *arg = operation->arg;

	forget_uncut(&association->busy->transfers, operation);
	operation->previous->next = operation->next;
	operation->next->previous = operation->previous;
	free(operation);
	/* Before all of it came: later packets may lie in its memory, which is the user's now. */
	if (completion.status != PF_OK)
		core_stash(core);
	core->callbacks.complete(core->callbacks.user, association, arg, &completion);
}

void transfer_end(struct net_association *association, struct net_transfer *transfer, int status,
		  enum pf_side side, uint64_t address)
{
	struct transfers *transfers = &association->busy->transfers;
	struct operation_posted *operation = transfer->operation;
	uint64_t offset = transfer->local - operation->local;
	bool get = transfer->get;
	uint32_t next = get ? association->numbers.get : association->numbers.put;

	transfer->operation = NULL;
	transfers->ours[get][transfer->id % TRANSFERS_MOST] = NULL;
	while (transfers->oldest[get] != next &&
	       !transfers->ours[get][transfers->oldest[get] % TRANSFERS_MOST])
		transfers->oldest[get]++;
	if (get)
		transfers->get_bytes -= transfer->length;
	if (status != PF_OK && (operation->status == PF_OK || offset < operation->failed_at)) {
		operation->status = status;
		operation->side = (uint8_t)side;
		operation->address = address;
		operation->failed_at = offset;
	}
	operation->open--;
	association_wake(association);
	if (!operation->open && (operation->cut == operation->length || operation->status != PF_OK))
		complete(association, operation);
}

/* The next transfer of an operation of this kind; NULL: none, or not now. */
static struct net_transfer *cut(struct net_association *association, bool get)
{
	struct transfers *transfers = &association->busy->transfers;
	uint32_t *next = get ? &association->numbers.get : &association->numbers.put;
	uint64_t most = (uint64_t)TRANSFER_BLOCKS * association->block_size, length;
	struct operation_posted *operation;
	struct net_transfer *transfer;

	while ((operation = transfers->uncut[get]) && operation->status != PF_OK)
		forget_uncut(transfers, operation);
	if (!operation || *next - transfers->oldest[get] >= TRANSFERS_MOST)
		return NULL;
	length = operation->length - operation->cut;
	if (length > most)
		length = most;
	transfer = transfer_new(association, get, !get);
	if (!transfer)
		return NULL;
	transfer->operation = operation;
	transfer->id = (*next)++;
	transfer->local = operation->local + operation->cut;
	transfer->remote = operation->remote + operation->cut;
	transfer->length = (uint32_t)length;
	transfer->blocks =
		(uint8_t)((length + association->block_size - 1) / association->block_size);
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

bool transfer_cut_put(struct net_association *association)
{
	struct net_transfer *transfer = cut(association, false);

	if (!transfer)
		return false;
	source_start(association, transfer);
	return true;
}

void transfer_cut_gets(struct net_association *association)
{
	struct transfers *transfers = &association->busy->transfers;
	struct net_transfer *transfer;

	while (transfers->get_bytes < GET_BYTES_MOST && (transfer = cut(association, true))) {
		transfers->get_bytes += transfer->length;
		memset(transfer->granules, 0, transfer->blocks * sizeof(transfer->granules[0]));
		transfer_tell(association, transfer, TELL_GET);
		if (transfers->latest)
			continue;
		transfers->latest = transfer;
		transfers->latest_end = 0;
		association->core->latest = association;
	}
}

uint32_t transfer_block_length(const struct net_association *association,
			       const struct net_transfer *transfer, unsigned block)
{
	uint32_t start = block * association->block_size;

	return transfer->length - start < association->block_size ? transfer->length - start :
								    association->block_size;
}

uint64_t transfer_block_granules(const struct net_association *association,
				 const struct net_transfer *transfer, unsigned block)
{
	uint32_t granule = association->block_size / GRANULES;

	return granule_mask(0, (transfer_block_length(association, transfer, block) + granule - 1) /
				       granule);
}

struct net_token transfer_token(const struct net_association *association,
				const struct net_transfer *transfer, unsigned block)
{
	return (struct net_token){ .association = association->index,
				   .transfer = transfer->id,
				   .block = (uint16_t)block,
				   .side = transfer->source ? NET_SOURCE : NET_DESTINATION,
				   .served = transfer->get,
				   .generation = transfer->generation };
}

static int post(struct net_association *association, bool get, uint64_t local, uint64_t remote,
		uint64_t length, void *arg)
{
	struct operation_posted *operation, *last;
	struct transfers *transfers;
	int status;

	if (!length || remote + length < remote || local + length < local)
		return PF_ERR_ARGUMENT;
	status = association_use(association);
	if (status != PF_OK)
		return status;
	transfers = &association->busy->transfers;
	operation = malloc(sizeof(*operation));
	if (!operation)
		return PF_ERR_MEMORY;
	*operation = (struct operation_posted){
		.local = local, .remote = remote, .length = length, .get = get, .arg = arg
	};
	last = transfers->posted.previous;
	operation->previous = last;
	operation->next = &transfers->posted;
	last->next = transfers->posted.previous = operation;
	*transfers->uncut_last[get] = operation;
	transfers->uncut_last[get] = &operation->next_uncut;
	association_wake(association);
	return PF_OK;
}

int net_put(struct net_association *association, uint64_t local, uint64_t remote, uint64_t length,
	    void *arg)
{
	return post(association, false, local, remote, length, arg);
}

int net_get(struct net_association *association, uint64_t local, uint64_t remote, uint64_t length,
	    void *arg)
{
	return post(association, true, local, remote, length, arg);
}

static void abandon_records(struct net_association *association, struct net_transfer **table)
{
	unsigned i;

	for (i = 0; i < TRANSFERS_MOST; i++) {
		struct net_transfer *transfer = table[i];

		if (!transfer)
			continue;
		if (!transfer->source)
			destination_free(association, transfer);
		transfer_free(association, transfer);
	}
}

void transfers_abandon(struct net_association *association, int status)
{
	struct transfers *transfers = &association->busy->transfers;
	struct net_transfer *transfer;
	unsigned get;

	/* Callbacks post nothing new: the association is GONE. */
	for (get = 0; get < 2; get++) {
		abandon_records(association, transfers->ours[get]);
		abandon_records(association, transfers->peers[get]);
	}
	/* The analyzer does not see that freeing takes them off their lists. */
	while ((transfer = transfers->telling))
		transfer_free(association, transfer); /* NOLINT(clang-analyzer-unix.Malloc) */
	while (transfers->posted.next != &transfers->posted) {
		struct operation_posted *operation = transfers->posted.next;

		if (operation->status == PF_OK) /* NOLINT(clang-analyzer-unix.Malloc) */
			operation->status = status;
		complete(association, operation);
	}
	atomics_abandon(association, status);
}

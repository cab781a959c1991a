/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Atomics. The control stream hands each out once; its result is kept until it
 * is written to the stream of the other direction, which delivers it once.
 */
#include <stdlib.h>

#include "control.h"
#include "core.h"

int net_atomic(struct net_association *association, enum pf_atomic_op op, unsigned width,
	       uint64_t remote, uint64_t operand, uint64_t compare, void *arg)
{
	struct transfers *transfers;
	struct net_atomic *atomic;
	int status;

	if ((unsigned)op > PF_COMPARE_SWAP || (width != 4 && width != 8) || remote % width)
		return PF_ERR_ARGUMENT;
	status = association_use(association);
	if (status != PF_OK)
		return status;
	atomic = malloc(sizeof(*atomic));
	if (!atomic)
		return PF_ERR_MEMORY;
	*atomic = (struct net_atomic){ .entry = { .type = ENTRY_ATOMIC,
						  .op = (uint8_t)op,
						  .width = (uint8_t)width,
						  .address = remote,
						  .operand = operand,
						  .compare = compare },
				       .arg = arg };
	transfers = &association->busy->transfers;
	*transfers->atomics_last = atomic;
	transfers->atomics_last = &atomic->next;
	association_wake(association);
	return PF_OK;
}

void atomics_output(struct net_association *association)
{
	struct transfers *transfers = &association->busy->transfers;
	struct net_atomic *atomic;

	while (transfers->atomic_results && control_room(association)) {
		unsigned i = (unsigned)__builtin_ctzll(transfers->atomic_results);

		atomic = transfers->peer_atomics[i];
		control_write(association, &(struct wire_entry){ .type = ENTRY_RESULT,
								 .status = atomic->status,
								 .transfer = atomic->entry.transfer,
								 .address = atomic->value });
		transfers->atomic_results &= ~(1ull << i);
		transfers->peer_atomics[i] = NULL;
		transfers->atomics_open--;
		free(atomic);
	}
	while ((atomic = transfers->atomics_uncut) && control_room(association) &&
	       association->numbers.atomic - transfers->oldest_atomic < ATOMICS_MOST) {
		transfers->atomics_uncut = atomic->next;
		if (!atomic->next)
			transfers->atomics_last = &transfers->atomics_uncut;
		atomic->entry.transfer = association->numbers.atomic++;
		transfers->our_atomics[atomic->entry.transfer % ATOMICS_MOST] = atomic;
		transfers->atomics_open++;
		control_write(association, &atomic->entry);
	}
}

static void execute(struct net_association *association, struct net_atomic *atomic)
{
	struct net_core *core = association->core;
	const struct wire_entry *entry = &atomic->entry;
	uint64_t value = 0, bad = 0;
	struct net_wait wait = {
		.token = { .association = association->index,
			   .transfer = entry->transfer,
			   .side = NET_ATOMIC,
			   .generation = atomic->generation },
		.address = entry->address,
		.length = entry->width,
		.end = entry->address + entry->width,
		.write = true,
	};
	int status = core->callbacks.atomic(core->callbacks.user, &wait,
					    (enum pf_atomic_op)entry->op, entry->width,
					    entry->operand, entry->compare, &value, &bad);

	atomic->waiting = status == PF_ERR_AGAIN;
	if (atomic->waiting) {
		core->statistics.destination_faults++;
		return;
	}
	atomic->status = status == PF_OK ? PF_OK : PF_ERR_FAULT;
	atomic->value = status == PF_OK ? value : bad;
	association->busy->transfers.atomic_results |= 1ull << entry->transfer % ATOMICS_MOST;
	association_wake(association);
}

int net_atomic_requested(struct net_association *association, const struct wire_entry *entry)
{
	struct transfers *transfers = &association->busy->transfers;
	struct net_atomic **slot = &transfers->peer_atomics[entry->transfer % ATOMICS_MOST];
	struct net_atomic *atomic;

	if (*slot || entry->op > PF_COMPARE_SWAP || (entry->width != 4 && entry->width != 8) ||
	    entry->address % entry->width)
		return PF_ERR_REFUSED;
	atomic = malloc(sizeof(*atomic));
	if (!atomic)
		return PF_ERR_MEMORY;
	*atomic = (struct net_atomic){ .entry = *entry,
				       .generation = association->core->generation++ };
	*slot = atomic;
	transfers->atomics_open++;
	execute(association, atomic);
	return PF_OK;
}

void net_atomic_resolved(struct net_association *association, struct net_token token, int status,
			 uint64_t bad)
{
	struct transfers *transfers = &association->busy->transfers;
	struct net_atomic *atomic = transfers->peer_atomics[token.transfer % ATOMICS_MOST];

	if (!atomic || atomic->generation != token.generation || !atomic->waiting)
		return;
	if (status == PF_OK) {
		execute(association, atomic);
		return;
	}
	atomic->waiting = false;
	atomic->status = PF_ERR_FAULT;
	atomic->value = bad;
	transfers->atomic_results |= 1ull << token.transfer % ATOMICS_MOST;
	association_wake(association);
}

static void complete(struct net_association *association, struct net_atomic *atomic, int status,
		     uint64_t value)
{
	struct net_core *core = association->core;
	struct net_completion completion = { .status = status };
	void *arg = atomic->arg;

	if (status == PF_OK) {
		completion.value = value;
	} else if (status == PF_ERR_FAULT) {
		completion.side = PF_SIDE_REMOTE;
		completion.address = value;
	}
	free(atomic);
	core->callbacks.complete(core->callbacks.user, association, arg, &completion);
}

bool net_atomic_answered(struct net_association *association, const struct wire_entry *entry)
{
	struct transfers *transfers = &association->busy->transfers;
	struct net_atomic *atomic = transfers->our_atomics[entry->transfer % ATOMICS_MOST];

	if (!atomic || atomic->entry.transfer != entry->transfer)
		return false;
	transfers->our_atomics[entry->transfer % ATOMICS_MOST] = NULL;
	transfers->atomics_open--;
	while (transfers->oldest_atomic != association->numbers.atomic &&
	       !transfers->our_atomics[transfers->oldest_atomic % ATOMICS_MOST])
		transfers->oldest_atomic++;
	association_wake(association);
	complete(association, atomic, entry->status, entry->address);
	return true;
}

void atomics_abandon(struct net_association *association, int status)
{
	struct transfers *transfers = &association->busy->transfers;
	struct net_atomic *atomic;
	unsigned i;

	for (i = 0; i < ATOMICS_MOST; i++) {
		free(transfers->peer_atomics[i]);
		transfers->peer_atomics[i] = NULL;
	}
	transfers->atomic_results = 0;
	for (i = 0; i < ATOMICS_MOST; i++) {
		atomic = transfers->our_atomics[(transfers->oldest_atomic + i) % ATOMICS_MOST];
		transfers->our_atomics[(transfers->oldest_atomic + i) % ATOMICS_MOST] = NULL;
		if (atomic)
			complete(association, atomic, status, 0);
	}
	while ((atomic = transfers->atomics_uncut)) {
		transfers->atomics_uncut = atomic->next;
		complete(association, atomic, status, 0);
	}
	transfers->atomics_last = &transfers->atomics_uncut;
	transfers->atomics_open = 0;
}

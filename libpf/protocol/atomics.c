/* SPDX-License-Identifier: BSD-3-Clause */
#include "atomics.h"

#include <stdlib.h>

#include "base/check.h"

int atomics_post(struct exchange *exchange, enum pf_atomic_op op, unsigned width, uint64_t remote,
		 uint64_t operand, uint64_t compare, void *arg)
{
	struct transfers *transfers = &exchange->transfers;
	struct net_atomic *atomic;

	if ((unsigned)op > PF_ATOMIC_COMPARE_SWAP || (width != 4 && width != 8) || remote % width)
		return PF_ERR_ARGUMENT;
	atomic = malloc(sizeof(*atomic));
	if (!atomic)
		return PF_ERR_MEMORY;
	*atomic = (struct net_atomic){
		.finished = { .arg = arg },
		.entry = { .type = ENTRY_ATOMIC,
			   .op = (uint8_t)op,
			   .width = (uint8_t)width,
			   .address = remote,
			   .operand = operand,
			   .compare = compare },
	};
	STAILQ_INSERT_TAIL(&transfers->atomics_uncut, atomic, next);
	exchange->effects |= EFFECT_OUTPUT;
	return PF_PENDING;
}

static void take_result(struct transfers *transfers, struct wire_entry *entry)
{
	unsigned i = (unsigned)__builtin_ctzll(transfers->atomic_results);
	struct net_atomic *atomic = transfers->peer_atomics[i];

	/* A result is of an executed atomic, which the peer waits for. */
	assert_that(i < ATOMICS_MOST && atomic && !atomic->waiting && transfers->atomics_open);
	*entry = (struct wire_entry){ .type = ENTRY_RESULT,
				      .status = atomic->status,
				      .transfer = atomic->entry.transfer,
				      .address = atomic->value };
	transfers->atomic_results &= ~(1ull << i);
	transfers->peer_atomics[i] = NULL;
	transfers->atomics_open--;
	free(atomic);
}

bool atomics_next(struct exchange *exchange, struct wire_entry *entry)
{
	struct transfers *transfers = &exchange->transfers;
	struct net_atomic *atomic = STAILQ_FIRST(&transfers->atomics_uncut);
	uint32_t *number = &exchange->rest->numbers.atomic;

	if (transfers->atomic_results) {
		take_result(transfers, entry);
		return true;
	}
	if (!atomic || *number - transfers->oldest_atomic >= ATOMICS_MOST)
		return false;
	STAILQ_REMOVE_HEAD(&transfers->atomics_uncut, next);
	atomic->entry.transfer = (*number)++;
	assert_that(!transfers->our_atomics[atomic->entry.transfer % ATOMICS_MOST]);
	transfers->our_atomics[atomic->entry.transfer % ATOMICS_MOST] = atomic;
	transfers->atomics_open++;
	*entry = atomic->entry;
	return true;
}

static void atomic_execute_here(struct exchange *exchange, struct net_atomic *atomic)
{
	struct shared *shared = exchange->shared;
	const struct wire_entry *entry = &atomic->entry;
	uint64_t value = 0, bad = 0;
	struct net_wait wait = {
		.token = { .association = exchange->index,
			   .transfer = entry->transfer,
			   .side = NET_ATOMIC,
			   .generation = atomic->generation },
		.address = entry->address,
		.length = entry->width,
		.end = entry->address + entry->width,
		.write = true,
		.foreign = true,
	};
	int status = shared->memory.atomic(shared->memory.user, &wait, (enum pf_atomic_op)entry->op,
					   entry->width, entry->operand, entry->compare, &value,
					   &bad);

	assert_that(exchange->transfers.peer_atomics[entry->transfer % ATOMICS_MOST] == atomic);
	atomic->waiting = status == PF_ERR_AGAIN;
	if (atomic->waiting) {
		shared->statistics.destination_faults++;
		return;
	}
	atomic->status = status == PF_OK || status == PF_ERR_REFUSED ? status : PF_ERR_FAULT;
	atomic->value = status == PF_OK ? value : bad;
	exchange->transfers.atomic_results |= 1ull << entry->transfer % ATOMICS_MOST;
	exchange->effects |= EFFECT_OUTPUT;
}

int atomics_requested(struct exchange *exchange, const struct wire_entry *entry)
{
	struct transfers *transfers = &exchange->transfers;
	struct net_atomic **slot = &transfers->peer_atomics[entry->transfer % ATOMICS_MOST];
	struct net_atomic *atomic;

	if (*slot || entry->op > PF_ATOMIC_COMPARE_SWAP ||
	    (entry->width != 4 && entry->width != 8) || entry->address % entry->width)
		return PF_ERR_REFUSED;
	atomic = malloc(sizeof(*atomic));
	if (!atomic)
		return PF_ERR_MEMORY;
	*atomic = (struct net_atomic){ .entry = *entry,
				       .generation = exchange->shared->generation++ };
	*slot = atomic;
	transfers->atomics_open++;
	atomic_execute_here(exchange, atomic);
	return PF_OK;
}

void atomics_resolved(struct exchange *exchange, struct net_token token, int status, uint64_t bad)
{
	struct transfers *transfers = &exchange->transfers;
	struct net_atomic *atomic = transfers->peer_atomics[token.transfer % ATOMICS_MOST];

	if (!atomic || atomic->generation != token.generation || !atomic->waiting)
		return;
	if (status == PF_OK) {
		atomic_execute_here(exchange, atomic);
		return;
	}
	atomic->waiting = false;
	atomic->status = PF_ERR_FAULT;
	atomic->value = bad;
	transfers->atomic_results |= 1ull << token.transfer % ATOMICS_MOST;
	exchange->effects |= EFFECT_OUTPUT;
}

/* side: PF_SIDE_REMOTE if the peer has answered; then a failed atomic has the address as value. */
static void atomic_complete(struct exchange *exchange, struct net_atomic *atomic, int status,
			    enum pf_side side, uint64_t value)
{
	struct net_completion *completion = &atomic->finished.completion;

	completion->status = status;
	if (status == PF_OK) {
		completion->value = value;
	} else {
		completion->side = side;
		completion->address = value;
	}
	STAILQ_INSERT_TAIL(&exchange->shared->finished, &atomic->finished, next);
}

bool atomics_answered(struct exchange *exchange, const struct wire_entry *entry)
{
	struct transfers *transfers = &exchange->transfers;
	struct net_atomic *atomic = transfers->our_atomics[entry->transfer % ATOMICS_MOST];

	if (!atomic || atomic->entry.transfer != entry->transfer)
		return false;
	assert_that(transfers->atomics_open);
	transfers->our_atomics[entry->transfer % ATOMICS_MOST] = NULL;
	transfers->atomics_open--;
	while (transfers->oldest_atomic != exchange->rest->numbers.atomic &&
	       !transfers->our_atomics[transfers->oldest_atomic % ATOMICS_MOST])
		transfers->oldest_atomic++;
	exchange->effects |= EFFECT_OUTPUT;
	atomic_complete(exchange, atomic, entry->status, PF_SIDE_REMOTE, entry->address);
	return true;
}

void atomics_abandon(struct exchange *exchange, int status)
{
	struct transfers *transfers = &exchange->transfers;
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
			atomic_complete(exchange, atomic, status, PF_SIDE_NONE, 0);
	}
	while ((atomic = STAILQ_FIRST(&transfers->atomics_uncut))) {
		STAILQ_REMOVE_HEAD(&transfers->atomics_uncut, next);
		atomic_complete(exchange, atomic, status, PF_SIDE_NONE, 0);
	}
	transfers->atomics_open = 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "share.h"

#define FIELD ((1u << 20) - 1)

static uint64_t pack(uint32_t generation, uint32_t front, uint32_t back)
{
	return (uint64_t)generation << 40 | (uint64_t)front << 20 | back;
}

static uint32_t generation_of(uint64_t claim)
{
	return (uint32_t)(claim >> 40);
}

static uint32_t front_of(uint64_t claim)
{
	return claim >> 20 & FIELD;
}

static uint32_t back_of(uint64_t claim)
{
	return claim & FIELD;
}

static uint32_t between(uint32_t value, uint32_t least, uint32_t most)
{
	if (value < least)
		value = least;
	return value < most ? value : most;
}

void share_open(struct share *share, uint32_t generation, uint32_t front, uint32_t back)
{
	atomic_store_explicit(&share->moved, 0, memory_order_relaxed);
	atomic_store_explicit(&share->returned, 0, memory_order_relaxed);
	atomic_store_explicit(&share->claim, pack(generation & 0xffffff, front, back),
			      memory_order_release);
}

bool share_claim_front(struct share *share, uint32_t least, uint32_t most, struct granules *run)
{
	uint64_t claim = atomic_load_explicit(&share->claim, memory_order_acquire);
	uint32_t front, back, take;

	do {
		front = front_of(claim);
		back = back_of(claim);
		if (front >= back)
			return false;
		/* Half of what is left: the last runs are short, so both finish together. */
		take = between((back - front) / 2, least, most);
		if (take > back - front)
			take = back - front;
	} while (!atomic_compare_exchange_weak_explicit(
		&share->claim, &claim, pack(generation_of(claim), front + take, back),
		memory_order_acq_rel, memory_order_acquire));
	*run = (struct granules){ front, front + take };
	return true;
}

bool share_claim_back(struct share *share, uint32_t generation, uint32_t least, uint32_t most,
		      struct granules *run, bool *last)
{
	uint64_t claim = atomic_load_explicit(&share->claim, memory_order_acquire);
	uint32_t front, back, take;

	do {
		front = front_of(claim);
		back = back_of(claim);
		if (generation_of(claim) != (generation & 0xffffff) || front >= back)
			return false;
		/* The initiator claimed half with its offer; most of the rest makes both
		 * finish at the same time. */
		take = between((back - front) / 4 * 3, least, most);
		if (take > back - front)
			take = back - front;
	} while (!atomic_compare_exchange_weak_explicit(
		&share->claim, &claim, pack(generation_of(claim), front, back - take),
		memory_order_acq_rel, memory_order_acquire));
	*run = (struct granules){ back - take, back };
	*last = take == back - front;
	return true;
}

uint32_t share_close(struct share *share, uint32_t total)
{
	uint64_t claim = atomic_load_explicit(&share->claim, memory_order_acquire);

	while (front_of(claim) != back_of(claim) &&
	       !atomic_compare_exchange_weak_explicit(&share->claim, &claim,
						      pack(generation_of(claim), back_of(claim),
							   back_of(claim)),
						      memory_order_acq_rel, memory_order_acquire))
		;
	return total - back_of(claim);
}

bool share_joined(const struct share *share, uint32_t total)
{
	return back_of(atomic_load_explicit(&share->claim, memory_order_relaxed)) < total;
}

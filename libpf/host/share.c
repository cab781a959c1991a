/* SPDX-License-Identifier: BSD-3-Clause */
#include "share.h"

#define FIELD ((1u << 20) - 1)

static uint64_t claim_pack(uint32_t generation, uint32_t front, uint32_t back)
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

static uint32_t granules_clamp(uint32_t value, uint32_t least, uint32_t most)
{
	if (value < least)
		value = least;
	return value < most ? value : most;
}

void share_open(struct share *share, uint32_t generation, uint32_t front, uint32_t back)
{
	atomic_store_explicit(&share->moved, 0, memory_order_relaxed);
	atomic_store_explicit(&share->returned, 0, memory_order_relaxed);
	atomic_store_explicit(&share->claim, claim_pack(generation & 0xffffff, front, back),
			      memory_order_release);
}

bool share_claim_front(struct share *share, uint32_t least, uint32_t most, struct granules *run)
{
	uint64_t claim = atomic_load_explicit(&share->claim, memory_order_relaxed);
	uint32_t front, back, take;

	do {
		front = front_of(claim);
		back = back_of(claim);
		if (front >= back)
			return false;
		/* Half of the rest: the last runs are short, and both processes finish together. */
		take = granules_clamp((back - front) / 2, least, most);
		if (take > back - front)
			take = back - front;
	} while (!atomic_compare_exchange_weak_explicit(
		&share->claim, &claim, claim_pack(generation_of(claim), front + take, back),
		memory_order_relaxed, memory_order_relaxed));
	*run = (struct granules){ front, front + take };
	return true;
}

bool share_claim_back(struct share *share, uint32_t generation, uint32_t least, uint32_t most,
		      struct granules *run, bool *last)
{
	uint64_t claim = atomic_load_explicit(&share->claim, memory_order_relaxed);
	uint32_t front, back, take;

	do {
		front = front_of(claim);
		back = back_of(claim);
		if (generation_of(claim) != (generation & 0xffffff) || front >= back)
			return false;
		/*
		 * The initiator claimed half with the offer; most of the rest makes both finish at
		 * the same time.
		 */
		take = granules_clamp((back - front) / 4 * 3, least, most);
		if (take > back - front)
			take = back - front;
	} while (!atomic_compare_exchange_weak_explicit(
		&share->claim, &claim, claim_pack(generation_of(claim), front, back - take),
		memory_order_acquire, memory_order_relaxed));
	*run = (struct granules){ back - take, back };
	*last = take == back - front;
	return true;
}

uint32_t share_close(struct share *share, uint32_t total)
{
	uint64_t claim = atomic_load_explicit(&share->claim, memory_order_relaxed);

	while (front_of(claim) != back_of(claim) &&
	       !atomic_compare_exchange_weak_explicit(&share->claim, &claim,
						      claim_pack(generation_of(claim),
								 back_of(claim), back_of(claim)),
						      memory_order_relaxed, memory_order_relaxed))
		;
	return total - back_of(claim);
}

bool share_joined(const struct share *share, uint32_t total)
{
	return back_of(atomic_load_explicit(&share->claim, memory_order_relaxed)) < total;
}

void share_add_moved(struct share *share, uint32_t count)
{
	uint64_t before = atomic_load_explicit(&share->moved, memory_order_relaxed);

	atomic_store_explicit(&share->moved, before + count, memory_order_release);
}

void share_return(struct share *share, struct granules run)
{
	atomic_store_explicit(&share->returned, (uint64_t)run.start << 32 | run.end,
			      memory_order_release);
}

bool share_finished(const struct share *share, uint32_t total, uint32_t claimed,
		    struct granules *rest)
{
	struct share *read_only = (struct share *)(uintptr_t)share;
	uint64_t returned, moved;

	*rest = (struct granules){ 0, 0 };
	moved = atomic_load_explicit(&read_only->moved, memory_order_acquire);
	if (moved >= claimed)
		return true;
	returned = atomic_load_explicit(&read_only->returned, memory_order_acquire);
	*rest = (struct granules){ (uint32_t)(returned >> 32), (uint32_t)returned };
	if (rest->end <= rest->start || rest->end > total ||
	    granules_count(*rest) > claimed - moved)
		return false;
	/*
	 * The peer returns at most one run, the last, and stores no more: the acquire above also
	 * covers this load.
	 */
	moved = atomic_load_explicit(&read_only->moved, memory_order_relaxed);
	return moved + granules_count(*rest) >= claimed;
}

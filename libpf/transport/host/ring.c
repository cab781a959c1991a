/* SPDX-License-Identifier: BSD-3-Clause */
#include "ring.h"

static bool grow(struct ring *ring)
{
	int64_t more = (int64_t)ring->lap;

	if (atomic_fetch_sub_explicit(ring->allowance, more, memory_order_relaxed) < more) {
		atomic_fetch_add_explicit(ring->allowance, more, memory_order_relaxed);
		return false;
	}
	ring->lap *= 2;
	return true;
}

bool ring_turn(struct ring *ring)
{
	uint64_t offset = ring->position & (ring->size - 1);
	uint64_t tail = atomic_load_explicit(ring->tail, memory_order_acquire);
	uint64_t unread = ring->position - tail;
	uint64_t end = ring->position - offset + ring->size;
	bool behind = unread > ring->lap / 2;

	/* The last lap that doubles is the whole ring, which turns by itself. */
	if (grow(ring))
		return true;
	if (behind)
		return false;
	ring->tail_seen = tail;
	atomic_store_explicit(ring_header(ring, end), 0, memory_order_relaxed);
	atomic_store_explicit(ring_header(ring, ring->position),
			      (ring->size - offset - RING_HEADER) | (uint64_t)RING_SKIP << 32,
			      memory_order_release);
	ring->position = end;
	return true;
}

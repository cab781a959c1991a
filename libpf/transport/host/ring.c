/* SPDX-License-Identifier: BSD-3-Clause */
#include "ring.h"

void ring_turn(struct ring *ring)
{
	uint64_t offset = ring->position & (ring->size - 1);
	uint64_t tail = atomic_load_explicit(ring->tail, memory_order_acquire);
	uint64_t unread = ring->position - tail;
	uint64_t end = ring->position - offset + ring->size;

	/* This lap goes on. */
	if (unread > ring->lap / 2 || ++ring->laps == RING_LAPS) {
		ring->laps = 0;
		ring->lap = ring->lap * 2 < ring->size ? ring->lap * 2 : ring->size;
		return;
	}
	ring->tail_seen = tail;
	atomic_store_explicit(ring_header(ring, end), 0, memory_order_relaxed);
	atomic_store_explicit(ring_header(ring, ring->position),
			      (ring->size - offset - RING_HEADER) | (uint64_t)RING_SKIP << 32,
			      memory_order_release);
	ring->position = end;
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "ring.h"

/* Double the lap; false if the allowance is used up. */
static bool grow(struct ring *ring)
{
	int64_t more = ring->lap < RING_LAP_FREE ? 0 : (int64_t)ring->lap;

	if (more && atomic_fetch_sub_explicit(ring->allowance, more, memory_order_relaxed) < more) {
		atomic_fetch_add_explicit(ring->allowance, more, memory_order_relaxed);
		return false;
	}
	ring->lap *= 2;
	ring->wraps = 0;
	return true;
}

bool ring_wrap_or_grow(struct ring *ring, size_t length)
{
	uint64_t offset = ring->position & (ring->size - 1);
	uint64_t tail = atomic_load_explicit(ring->tail, memory_order_acquire);
	uint64_t unread = ring->position - tail;
	uint64_t end = ring->position - offset + ring->size;

	/* A lap of the whole ring never gets here: its positions wrap by themselves. */
	if (unread > ring->lap / 2)
		return grow(ring);
	if ((unread >= 2 * RING_PUBLISH_EMPTY || length > ring->short_most) &&
	    /* Behind a very long entry the pages are in use already. */
	    (++ring->wraps >= RING_WRAPS || offset >= 2 * ring->lap) && grow(ring))
		return true;
	ring->tail_seen = tail;
	atomic_store_explicit(ring_header(ring, end), 0, memory_order_relaxed);
	atomic_store_explicit(ring_header(ring, ring->position),
			      (ring->size - offset - RING_HEADER) | (uint64_t)RING_SKIP << 32,
			      memory_order_release);
	ring->position = end;
	return true;
}

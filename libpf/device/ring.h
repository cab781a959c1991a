/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A ring shared with /dev/exanest, from the side of the process; the kernel is the opposite side.
 * See "How the rings are driven" in driver/README.md. One thread at a time may use a ring; the
 * caller ensures this rule.
 *
 * Memory order, on any processor: each side publishes an entry, or a free slot, by a store of its
 * counter with release, and reads the counter of the opposite side with acquire. Therefore an entry
 * is read only after the write, and overwritten only after the read.
 */
#ifndef PF_DEVICE_RING_H
#define PF_DEVICE_RING_H

#include <stdbool.h>
#include <stdint.h>

#include "../driver/uapi/exanest.h"

struct device_ring {
	struct exanest_ring_head *head; /* counters and flags */
	void *entries;                  /* array of "count" entries; the type depends on the ring */
	uint32_t count;                 /* number of entries, a power of two */
	/* Counter of this side: producer of submissions, consumer of the other rings. */
	uint32_t own;
};

static inline bool device_ring_full(const struct device_ring *ring)
{
	return ring->own - __atomic_load_n(&ring->head->consumer, __ATOMIC_ACQUIRE) >= ring->count;
}

/* Return false if the ring is full. */
static inline bool device_ring_put(struct device_ring *ring,
				   const struct exanest_submission *submission)
{
	struct exanest_submission *entries = ring->entries;

	if (device_ring_full(ring))
		return false;
	entries[ring->own & (ring->count - 1)] = *submission;
	__atomic_store_n(&ring->head->producer, ++ring->own, __ATOMIC_RELEASE);
	return true;
}

/* After device_ring_put: does the engine sleep and need the doorbell? */
static inline bool device_ring_asleep(const struct device_ring *ring)
{
	/*
	 * Store producer, fence, load flags here; store flags, fence, load producer in the engine
	 * before its sleep. With both fences at least one side sees the store of the opposite side.
	 */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return __atomic_load_n(&ring->head->flags, __ATOMIC_RELAXED) & EXANEST_RING_NEED_DOORBELL;
}

static inline bool device_ring_empty(const struct device_ring *ring)
{
	return __atomic_load_n(&ring->head->producer, __ATOMIC_ACQUIRE) == ring->own;
}

/* Return false if the ring is empty. */
static inline bool device_ring_take_completion(struct device_ring *ring,
					       struct exanest_completion *completion)
{
	const struct exanest_completion *entries = ring->entries;

	if (device_ring_empty(ring))
		return false;
	*completion = entries[ring->own & (ring->count - 1)];
	__atomic_store_n(&ring->head->consumer, ++ring->own, __ATOMIC_RELEASE);
	return true;
}

static inline bool device_ring_take_fault(struct device_ring *ring, struct exanest_fault *fault)
{
	const struct exanest_fault *entries = ring->entries;

	if (device_ring_empty(ring))
		return false;
	*fault = entries[ring->own & (ring->count - 1)];
	__atomic_store_n(&ring->head->consumer, ++ring->own, __ATOMIC_RELEASE);
	return true;
}

#endif

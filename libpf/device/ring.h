/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One ring shared with /dev/exanest, from the side of its user (the kernel
 * is the other): driver/README.md, "How the rings are driven". Whoever calls
 * sees to it that one thread at a time uses a ring.
 */
#ifndef PF_DEVICE_RING_H
#define PF_DEVICE_RING_H

#include <stdbool.h>
#include <stdint.h>

#include "../driver/uapi/exanest.h"

struct device_ring {
	struct exanest_ring_head *head;
	void *entries;
	uint32_t count; /* a power of two */
	uint32_t own;   /* our counter: producer of submissions, consumer of the rest */
};

static inline bool device_ring_full(const struct device_ring *ring)
{
	return ring->own - __atomic_load_n(&ring->head->consumer, __ATOMIC_ACQUIRE) >= ring->count;
}

/* False: there is no room. */
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

/* After device_ring_put: does the engine sleep? */
static inline bool device_ring_asleep(const struct device_ring *ring)
{
	/* The engine sets the flag before it looks for submissions a last time: one of us sees the other. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return __atomic_load_n(&ring->head->flags, __ATOMIC_RELAXED) & EXANEST_RING_NEED_DOORBELL;
}

static inline bool device_ring_empty(const struct device_ring *ring)
{
	return __atomic_load_n(&ring->head->producer, __ATOMIC_ACQUIRE) == ring->own;
}

/* False: there is none. */
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

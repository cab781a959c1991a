/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which pages of an address space, ours or a peer's, a copy would have to wait
 * for: pages in swap, pages of a file not mapped yet. The kernel that copies
 * them sleeps until they are there, and the caller with it, so they are looked
 * for before the copy (PAGEMAP_SCAN, or /proc/pid/pagemap before Linux 6.7).
 *
 * A look costs about as much as the copy of a page, so memory that was found
 * present is trusted for a while, by hints for 64 KiB each. A hint may be wrong,
 * and a page may go between the look and the copy: then the copy waits, and is
 * correct all the same.
 */
#ifndef PF_RESIDENCY_H
#define PF_RESIDENCY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#define RESIDENCY_SHIFT 21
#define RESIDENCY_PIECE_SHIFT 16
#define RESIDENCY_HINTS 256
/* Time is counted in units of so many nanoseconds, modulo 2^32 (19 hours). */
#define RESIDENCY_TICK 16384

struct residency {
	pid_t pid;
	int pagemap, maps; /* -1: cannot be looked at, and is taken to be present */
	uint32_t lifetime; /* of a hint, ticks */
	struct {
		_Atomic uint64_t trust;  /* range:32 | until:32 */
		_Atomic uint32_t pieces; /* of the range, a bit each */
	} hints[RESIDENCY_HINTS];
};

/* microseconds: how long a hint is trusted. A process that cannot be looked at is not an error. */
void residency_open(struct residency *residency, pid_t pid, uint64_t microseconds);
void residency_close(struct residency *residency);

/*
 * Any thread: how many bytes from address on, up to length, can be copied
 * without waiting. *cold: how many of them the kernel has yet to give memory
 * to, for they were never touched, which it does without waiting.
 */
uint64_t residency_look(struct residency *residency, uint64_t address, uint64_t length,
			uint64_t *cold);

static inline uint32_t residency_now(void)
{
	struct timespec now;

	/* A tick of the kernel's clock is precise enough, and a quarter of the price. */
	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return (uint32_t)(((uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec) /
			  RESIDENCY_TICK);
}

/* The pieces of a range that [address, end) touches, a bit each. */
static inline uint32_t residency_pieces(uint64_t range, uint64_t address, uint64_t end)
{
	uint64_t start = range << RESIDENCY_SHIFT, size = (uint64_t)1 << RESIDENCY_SHIFT;
	unsigned first = address > start ? (address - start) >> RESIDENCY_PIECE_SHIFT : 0;
	unsigned last = end < start + size ? (end - 1 - start) >> RESIDENCY_PIECE_SHIFT : 31;

	return UINT32_MAX << first & UINT32_MAX >> (31 - last);
}

static inline bool residency_trusted(struct residency *residency, uint64_t address, uint64_t length)
{
	uint64_t range = address >> RESIDENCY_SHIFT, end = address + length;
	uint32_t now = residency_now();

	for (; range <= (end - 1) >> RESIDENCY_SHIFT; range++) {
		unsigned i = range % RESIDENCY_HINTS;
		uint64_t trust = atomic_load_explicit(&residency->hints[i].trust,
						      memory_order_relaxed);
		uint32_t wanted = residency_pieces(range, address, end);

		/* With a lifetime of 0 nothing is: the difference is at least that. */
		if (trust >> 32 != (uint32_t)range ||
		    (uint32_t)trust - now - 1 >= residency->lifetime ||
		    wanted & ~atomic_load_explicit(&residency->hints[i].pieces,
						   memory_order_relaxed))
			return false;
	}
	return true;
}

#endif

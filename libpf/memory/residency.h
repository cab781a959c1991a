/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which pages of an address space, ours or a peer's, a copy would have to wait
 * for: pages in swap, pages of a file not mapped yet. The kernel that copies
 * them sleeps until they are there, and the caller with it, so they are looked
 * for before the copy (PAGEMAP_SCAN, or /proc/pid/pagemap before Linux 6.7).
 *
 * A look costs about as much as the copy of a page, so memory that was found
 * present is trusted for a while, page by page. A hint may be wrong, and a page
 * may go between the look and the copy: then the copy waits, and is correct all
 * the same.
 */
#ifndef PF_RESIDENCY_H
#define PF_RESIDENCY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#define RESIDENCY_PIECE_SHIFT 16
#define RESIDENCY_PIECE ((uint64_t)1 << RESIDENCY_PIECE_SHIFT)
#define RESIDENCY_HINTS 1024

struct residency {
	pid_t pid;
	int pagemap, maps; /* -1: cannot be looked at, and is taken to be present */
	uint16_t lifetime; /* of a hint, milliseconds */
	/*
	 * For 64 KiB each, piece:32 | until:16 | pages:16, a bit for each 4 KiB. Time
	 * is in milliseconds modulo 2^16: one hint in some thousands that is as old
	 * as that is taken for new.
	 */
	_Atomic uint64_t hints[RESIDENCY_HINTS];
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

/* Of our own memory: bytes from address on, up to length, that the page cache holds or page tables have. */
uint64_t residency_cached(uint64_t address, uint64_t length);

static inline uint16_t residency_now(void)
{
	struct timespec now;

	/* A tick of the kernel's clock is precise enough, and a quarter of the price. */
	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return (uint16_t)((uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000);
}

/* The 4 KiB pages of a piece that [address, end) touches, a bit each. */
static inline uint16_t residency_pages(uint64_t piece, uint64_t address, uint64_t end)
{
	uint64_t start = piece << RESIDENCY_PIECE_SHIFT;
	unsigned first = address > start ? (unsigned)(address - start) >> 12 : 0;
	unsigned last = end - start < RESIDENCY_PIECE ? (unsigned)(end - 1 - start) >> 12 : 15;

	return (uint16_t)(0xffffu << first & 0xffffu >> (15 - last));
}

static inline bool residency_is_current(const struct residency *residency, uint64_t hint,
					uint64_t piece, uint16_t now)
{
	return hint >> 32 == (uint32_t)piece &&
	       (uint16_t)((uint16_t)(hint >> 16) - now - 1) < residency->lifetime;
}

static inline bool residency_trusted(struct residency *residency, uint64_t address, uint64_t length)
{
	uint64_t piece = address >> RESIDENCY_PIECE_SHIFT, end = address + length;
	uint16_t now = residency_now();

	for (; piece <= (end - 1) >> RESIDENCY_PIECE_SHIFT; piece++) {
		uint64_t hint = atomic_load_explicit(&residency->hints[piece % RESIDENCY_HINTS],
						     memory_order_relaxed);

		if (!residency_is_current(residency, hint, piece, now) ||
		    residency_pages(piece, address, end) & ~hint)
			return false;
	}
	return true;
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which pages of an address space, this process's or a peer's, a copy would have to wait for:
 * pages in swap, and pages of a file that are not mapped yet. The kernel suspends the thread
 * that copies such a page. So the page tables are read before the copy (PAGEMAP_SCAN, or
 * /proc/PID/pagemap before Linux 6.7), and such pages are resolved first.
 *
 * Reading them costs about as much as copying a page, so a page that was found present counts
 * as present for some milliseconds: a hint. A hint may be wrong, and a page may go between the
 * look and the copy. Then the copy waits; it is correct all the same.
 */
#ifndef PF_RESIDENCY_H
#define PF_RESIDENCY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

/* A hint is about a piece of 64 KiB, with a bit for each 4 KiB of it, whatever the page size. */
#define RESIDENCY_PIECE_SHIFT 16
#define RESIDENCY_PIECE ((uint64_t)1 << RESIDENCY_PIECE_SHIFT)
#define RESIDENCY_UNIT_SHIFT 12
#define RESIDENCY_HINTS 1024
/* Pieces that were resolved and look absent all the same; see residency_believe. */
#define RESIDENCY_BELIEFS 256
#define RESIDENCY_BELIEF_LIFETIME 1000 /* ms */

struct residency {
	int pagemap, maps; /* of /proc/PID; -1: not readable, so all pages count as present */
	uint16_t lifetime; /* of a hint, ms; 0: none is used */
	/*
	 * Bits 63-32: number of the piece, modulo 2^32. Bits 31-16: end of the lifetime, ms of
	 * CLOCK_MONOTONIC modulo 2^16. Bits 15-0: units known to be present. A hint that is older
	 * than 2^16 ms may count as new; it is then wrong as any hint may be. Any thread reads
	 * and writes: a hint is one word that refers to no other data, so relaxed order is
	 * enough, on arm64 too.
	 */
	_Atomic uint64_t hints[RESIDENCY_HINTS];     /* by the number of the piece */
	_Atomic uint64_t beliefs[RESIDENCY_BELIEFS]; /* in the format of hints */
};

/*
 * microseconds: lifetime of a hint. It is no error if the page tables of the process cannot be
 * read.
 */
void residency_open(struct residency *residency, pid_t pid, uint64_t microseconds);
void residency_close(struct residency *residency);

/*
 * Any thread: how many of the length bytes at address a copy reaches without waiting. *cold:
 * how many of these were never touched; the kernel provides memory for them without waiting.
 * cold NULL: a copy is not to reach those either.
 */
uint64_t residency_look(struct residency *residency, uint64_t address, uint64_t length,
			uint64_t *cold);

/*
 * Any thread: the range was resolved and looks absent all the same, so do not look at it for
 * RESIDENCY_BELIEF_LIFETIME. What the kernel tells can be wrong for good: mappings of drivers, DAX,
 * emulators and sandboxes that make up pagemap or ignore madvise. Of a long range only the front is
 * recorded: it has the block that waits.
 */
void residency_believe(struct residency *residency, uint64_t address, uint64_t length);

/*
 * Any thread: how many of the length bytes at address in this process are mapped, or in the
 * page cache, where the kernel only has to map them.
 */
uint64_t residency_cached(uint64_t address, uint64_t length);

/*
 * Any thread: is the address mapped, with permission to read, or to write, there? *anonymous: the
 * mapping has no file. False, too, if the mappings cannot be read.
 */
bool residency_permits(struct residency *residency, uint64_t address, bool write, bool *anonymous);

static inline uint16_t residency_now(void)
{
	struct timespec now;

	/* Precise to a tick of the kernel, which is enough, at a quarter of the cost. */
	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return (uint16_t)((uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000);
}

/* The units of a piece that [address, end) touches, a bit each. */
static inline uint16_t residency_units(uint64_t piece, uint64_t address, uint64_t end)
{
	uint64_t start = piece << RESIDENCY_PIECE_SHIFT;
	unsigned first = address > start ? (unsigned)(address - start) >> RESIDENCY_UNIT_SHIFT : 0;
	unsigned last = end - start < RESIDENCY_PIECE ?
				(unsigned)(end - 1 - start) >> RESIDENCY_UNIT_SHIFT :
				15;

	return (uint16_t)(0xffffu << first & 0xffffu >> (15 - last));
}

/* Is the hint about this piece, and is its lifetime (ms) not over? */
static inline bool residency_is_current(uint64_t hint, uint64_t piece, uint16_t now,
					uint16_t lifetime)
{
	return hint >> 32 == (uint32_t)piece &&
	       (uint16_t)((uint16_t)(hint >> 16) - now - 1) < lifetime;
}

/* Any thread: do hints say that all of the range is present? length is not 0. */
static inline bool residency_is_trusted(struct residency *residency, uint64_t address,
					uint64_t length)
{
	uint64_t piece = address >> RESIDENCY_PIECE_SHIFT, end = address + length;
	uint16_t now = residency_now();

	for (; piece <= (end - 1) >> RESIDENCY_PIECE_SHIFT; piece++) {
		uint64_t hint = atomic_load_explicit(&residency->hints[piece % RESIDENCY_HINTS],
						     memory_order_relaxed);

		if (!residency_is_current(hint, piece, now, residency->lifetime) ||
		    residency_units(piece, address, end) & ~hint)
			return false;
	}
	return true;
}

#endif

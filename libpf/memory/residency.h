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

#include "mapping.h"

/* A hint is about a piece of 64 KiB, with a bit for each 4 KiB of it, whatever the page size. */
#define RESIDENCY_PIECE_SHIFT 16
#define RESIDENCY_PIECE ((uint64_t)1 << RESIDENCY_PIECE_SHIFT)
#define RESIDENCY_UNIT_SHIFT 12
#define RESIDENCY_HINTS 1024
/* Pieces that were resolved and look absent all the same; see residency_believe. */
#define RESIDENCY_BELIEFS 256
#define RESIDENCY_BELIEF_LIFETIME 1000 /* ms */
/* Files of which something is known. */
#define RESIDENCY_FILES 16

struct residency {
	int pagemap; /* /proc/PID/pagemap; -1: not readable, so all pages count as present */
	struct mappings *mappings; /* NULL: not readable, so absent pages may be in a file */
	uint16_t lifetime;         /* of a hint, ms; 0: none is used */
	/*
	 * Bits 63-32: number of the piece, modulo 2^32. Bits 31-16: end of the lifetime, ms of
	 * CLOCK_MONOTONIC modulo 2^16. Bits 15-0: units known to be present. A hint that is older
	 * than 2^16 ms may count as new; it is then wrong as any hint may be. Any thread reads
	 * and writes: a hint is one word that refers to no other data, so relaxed order is
	 * enough, on arm64 too.
	 */
	_Atomic uint64_t hints[RESIDENCY_HINTS]; /* by the number of the piece */
	_Atomic uint64_t renewal_due;   /* time before which residency_renew does nothing, ns */
	_Atomic unsigned renewals_vain; /* in a row; see renewal_rest */
	_Atomic uint64_t beliefs[RESIDENCY_BELIEFS]; /* in the format of hints */
	_Atomic uint64_t holes[RESIDENCY_FILES];     /* see residency_note_hole */
	_Atomic uint64_t files[RESIDENCY_FILES];     /* see residency_learn */
};

/*
 * microseconds: lifetime of a hint. It is no error if the page tables of the process cannot be
 * read. service: as for mappings_open.
 */
void residency_open(struct residency *residency, pid_t pid, uint64_t microseconds,
		    struct service *service);
void residency_close(struct residency *residency);

/*
 * Any thread: how many of the length bytes at address a copy reaches without waiting. *cold:
 * how many of these were never touched; the kernel provides memory for them without waiting.
 * cold NULL: a copy is not to reach those either.
 */
uint64_t residency_look(struct residency *residency, uint64_t address, uint64_t length,
			uint64_t *cold);

/*
 * Any thread: look at the range, unless a range was looked at shortly before now (ns), and replace the hints
 * about it: they may be about an earlier mapping there. Returns whether a page was found absent.
 */
bool residency_renew(struct residency *residency, uint64_t now, uint64_t address, uint64_t length);

/*
 * Any thread: the range was resolved and looks absent all the same, so do not look at it for
 * RESIDENCY_BELIEF_LIFETIME. What the kernel tells can be wrong for good: mappings of drivers, DAX,
 * emulators and sandboxes that make up pagemap or ignore madvise. Of a long range only the front is
 * recorded: it has the block that waits.
 */
void residency_believe(struct residency *residency, uint64_t address, uint64_t length);

/*
 * Any thread: how many of the length bytes at address in this process are mapped, or in the
 * page cache, where the kernel only has to map them. Pages of a file of which the kernel does not
 * tell this process count as absent, and so do those of a file that only residency_learn can ask about.
 */
uint64_t residency_cached(struct residency *residency, uint64_t address, uint64_t length);
/* A thread that may wait for a disk: find out whether residency_cached may ask about this memory. */
void residency_learn(struct residency *residency, uint64_t address);

/*
 * Any thread: is the page at the address in this process neither mapped nor in the page cache? False
 * also where the kernel does not tell.
 */
bool residency_lacks(uint64_t address);
/*
 * Any thread: an absent page of shared memory was a hole, which had not to be read from swap. No call
 * of the kernel tells which of the two an absent page is, so for the lifetime of a hint all of this
 * memory counts as holes: a copy provides them.
 */
void residency_note_hole(struct residency *residency, uint64_t address);

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

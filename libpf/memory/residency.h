/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pages of an address space, own or of a peer, for which a copy would have to wait: pages in
 * swap, and pages of a file not mapped yet. The kernel suspends a thread that copies an absent
 * page. Therefore the page tables are read before the copy (PAGEMAP_SCAN, or /proc/PID/pagemap
 * before Linux 6.7), and absent pages are resolved first.
 *
 * Reading the page tables costs about as much as copying a page, hence a page found present
 * counts as present for some milliseconds: a hint. A hint may be wrong, and a page may go between
 * the look and the copy. Then the copy waits, and is correct all the same.
 */
#ifndef PF_RESIDENCY_H
#define PF_RESIDENCY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>

#include "base/check.h"
#include "mapping.h"

/* A hint is about a piece of 64 KiB, with a bit for each unit of 4 KiB, whatever the page size. */
#define RESIDENCY_PIECE_SHIFT 16
#define RESIDENCY_PIECE ((uint64_t)1 << RESIDENCY_PIECE_SHIFT)
#define RESIDENCY_UNIT_SHIFT 12
#define RESIDENCY_HINTS 1024
/* Number of pieces resolved that look absent all the same; see residency_believe. */
#define RESIDENCY_BELIEFS 256
#define RESIDENCY_BELIEF_LIFETIME 1000 /* ms */
/*
 * Looks of short accesses in a row without an absent page before a question about the whole mapping.
 * The answer is for short accesses, up to RESIDENCY_STEADY_MOST bytes, alone: more pages never touched
 * are faster resolved before the copy than by the copy.
 */
#define RESIDENCY_STEADY_LOOKS 16
#define RESIDENCY_STEADY_MOST 4096
/* Number of files with a known fact. */
#define RESIDENCY_FILES 16

struct residency {
	int pagemap; /* /proc/PID/pagemap; -1: not readable, hence all pages count as present */
	struct mappings *mappings; /* NULL: not readable, hence absent pages may be in a file */
	uint16_t lifetime;         /* of a hint, ms; 0: no hint is used */
	/*
	 * Bits 63-32: number of the piece, modulo 2^32. Bits 31-16: end of the lifetime, ms of
	 * CLOCK_MONOTONIC modulo 2^16. Bits 15-0: units known to be present. A hint older than
	 * 2^16 ms may count as new, and is then wrong as any hint may be. Any thread reads and
	 * writes: a hint is a single word without reference to other data, hence relaxed order is
	 * enough, on arm64 too.
	 */
	_Atomic uint64_t hints[RESIDENCY_HINTS]; /* by the number of the piece */
	/*
	 * A mapping of anonymous memory, and the end of its lifetime as in a hint: no swap was in use,
	 * so that no page waits for a disk. If two threads write at once, start and end may be of two
	 * mappings: wrong, as any hint may be.
	 */
	_Atomic uint64_t steady_start, steady_end;
	_Atomic uint16_t steady_until;
	_Atomic unsigned looks;         /* in a row without an absent page */
	_Atomic uint64_t renewal_due;   /* time before which residency_renew does nothing, ns */
	_Atomic unsigned renewals_vain; /* renewals in a row without an absent page */
	_Atomic uint64_t beliefs[RESIDENCY_BELIEFS]; /* in the format of hints */
	_Atomic uint64_t holes[RESIDENCY_FILES];     /* see residency_note_hole */
	_Atomic uint64_t files[RESIDENCY_FILES];     /* see residency_learn */
};

/*
 * microseconds: lifetime of a hint. Unreadable page tables of the process are no error. service:
 * as for mappings_open.
 */
void residency_open(struct residency *residency, pid_t pid, uint64_t microseconds,
		    struct service *service);
void residency_close(struct residency *residency);

/*
 * Any thread: return how many of the length bytes at address a copy reaches without waiting.
 * *cold: bytes of the result never touched; the kernel provides memory for cold bytes without
 * waiting. cold NULL: a copy is not to reach cold bytes either.
 */
uint64_t residency_look(struct residency *residency, uint64_t address, uint64_t length,
			uint64_t *cold);

/*
 * Any thread: look for hints at the first of count ranges, and at ranges behind in its piece of
 * 64 KiB: a look at all pages of a piece costs little more than a look at a page.
 */
void residency_look_ahead(struct residency *residency, const struct iovec *ranges, unsigned count);

/*
 * Any thread: look at the range, unless a look came shortly before now (ns), and replace the
 * hints about the range: old hints may be about an earlier mapping there. Returns whether a page
 * was absent.
 */
bool residency_renew(struct residency *residency, uint64_t now, uint64_t address, uint64_t length);

/*
 * Any thread: the range was resolved and looks absent all the same: skip looks at the range for
 * RESIDENCY_BELIEF_LIFETIME. The answer of the kernel can be wrong for good: mappings of drivers,
 * DAX, emulators and sandboxes that make up pagemap or ignore madvise. Of a long range only the
 * front is recorded: the waiting block lies there.
 */
void residency_believe(struct residency *residency, uint64_t address, uint64_t length);

/*
 * Any thread: return how many of the length bytes at address in the own process are mapped, or in
 * the page cache, where the kernel only has to map the pages. Pages of a file hidden by the
 * kernel from the process count as absent, and likewise pages of a file that only residency_learn
 * can ask about.
 */
uint64_t residency_cached(struct residency *residency, uint64_t address, uint64_t length);
/*
 * Any thread: are the length bytes, of a file on a disk, all in the page cache? Then a load does
 * not wait for the disk, nor for a userfaultfd as in shared memory and tmpfs.
 */
bool residency_maps_cache(struct residency *residency, uint64_t address, uint64_t length);
/* A thread that may wait for a disk: find out whether residency_cached may ask about the memory. */
void residency_learn(struct residency *residency, uint64_t address);

/*
 * Any thread: is the page at the address in the own process neither mapped nor in the page cache?
 * False also where the kernel does not tell.
 */
bool residency_lacks(uint64_t address);
/*
 * Any thread: an absent page of shared memory was a hole, not a page in swap. No call of the
 * kernel tells the two apart, hence for the lifetime of a hint all memory of the file counts as
 * holes: a copy provides holes with memory.
 */
void residency_note_hole(struct residency *residency, uint64_t address);

/*
 * Any thread: is the address mapped, with permission to read, or to write? *anonymous: the
 * mapping has no file. False, too, if the mappings cannot be read.
 */
bool residency_permits(struct residency *residency, uint64_t address, bool write, bool *anonymous);

static inline uint16_t residency_now(void)
{
	struct timespec now;

	/*
	 * The clock is precise to a tick of the kernel, which is enough, at a quarter of the
	 * cost.
	 */
	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return (uint16_t)((uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000);
}

/* Return the units of a piece touched by [address, end), a bit each. */
static inline uint16_t residency_units(uint64_t piece, uint64_t address, uint64_t end)
{
	uint64_t start = piece << RESIDENCY_PIECE_SHIFT;
	unsigned first = address > start ? (unsigned)(address - start) >> RESIDENCY_UNIT_SHIFT : 0;
	unsigned last = end - start < RESIDENCY_PIECE ?
				(unsigned)(end - 1 - start) >> RESIDENCY_UNIT_SHIFT :
				15;

	return (uint16_t)(0xffffu << first & 0xffffu >> (15 - last));
}

/* Is the hint about the piece, and is its lifetime (ms) not over? */
static inline bool residency_is_current(uint64_t hint, uint64_t piece, uint16_t now,
					uint16_t lifetime)
{
	return hint >> 32 == (uint32_t)piece &&
	       (uint16_t)((uint16_t)(hint >> 16) - now - 1) < lifetime;
}

/*
 * Any thread: is all of the range present, by the hints? length is not 0. now: as of
 * residency_now.
 */
static inline bool residency_is_trusted(struct residency *residency, uint64_t address,
					uint64_t length, uint16_t now)
{
	uint64_t piece = address >> RESIDENCY_PIECE_SHIFT, end = address + length;

	assert_that(length);
	for (; piece <= (end - 1) >> RESIDENCY_PIECE_SHIFT; piece++) {
		uint64_t hint = atomic_load_explicit(&residency->hints[piece % RESIDENCY_HINTS],
						     memory_order_relaxed);

		if (!residency_is_current(hint, piece, now, residency->lifetime) ||
		    residency_units(piece, address, end) & ~hint)
			return false;
	}
	return true;
}

/*
 * Any thread: is all of a short range in memory that does not wait for a disk? A page may be cold.
 * length is not 0. now: as of residency_now.
 */
static inline bool residency_is_steady(const struct residency *residency, uint64_t address,
				       uint64_t length, uint16_t now)
{
	uint64_t start = atomic_load_explicit(&residency->steady_start, memory_order_relaxed);
	uint64_t end = atomic_load_explicit(&residency->steady_end, memory_order_relaxed);
	uint16_t until = atomic_load_explicit(&residency->steady_until, memory_order_relaxed);

	return length <= RESIDENCY_STEADY_MOST && address >= start && address < end &&
	       length <= end - address && (uint16_t)(until - now - 1) < residency->lifetime;
}

/*
 * Any thread: may a copy to or from the range go without a look? cold: the copy may reach pages never
 * touched. length is not 0. now: as of residency_now.
 */
static inline bool residency_may_skip(struct residency *residency, uint64_t address,
				      uint64_t length, bool cold, uint16_t now)
{
	return residency_is_trusted(residency, address, length, now) ||
	       (cold && residency_is_steady(residency, address, length, now));
}

#endif

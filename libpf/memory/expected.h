/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Huge pages for memory that a transfer is about to write. Where such memory was never touched, one
 * huge page is provided at a tenth of the cost of its small pages. MADV_HUGEPAGE would mark the
 * mapping for good: it splits the mapping, overrides MADV_NOHUGEPAGE, and later faults of the program
 * get huge pages that it did not ask for. So one page is touched, and MADV_COLLAPSE (Linux 6.1), which
 * leaves no mark, does the rest. Before Linux 6.1 there are no huge pages for new memory.
 */
#ifndef PF_EXPECTED_H
#define PF_EXPECTED_H

#include <pthread.h>
#include <stdint.h>

#include "pager.h"
#include "residency.h"

/* Bytes for which one call makes huge pages, at most: 1.1 ms (benchmarks of one page: 70 us). */
#define EXPECTED_AT_ONCE ((uint64_t)32 << 20)

struct expected {
	struct residency *residency; /* of this process */
	struct pagers *pagers;
	uint64_t size; /* bytes of a huge page, a power of two; 0: none are made */
	pthread_mutex_t lock;
	/* Under the lock: */
	uint64_t start, end; /* memory of the last long transfer that has not had its turn */
	uint16_t until;      /* for so long, ms as residency_now */
};

/* The residency and the pagers are borrowed. */
void expected_init(struct expected *expected, struct residency *residency, struct pagers *pagers,
		   uint64_t size);
void expected_destroy(struct expected *expected);
/*
 * Any thread: all of the memory is about to be written, from both ends. Makes the first and the last
 * EXPECTED_AT_ONCE / 2 bytes huge where that is possible.
 */
void expected_begin(struct expected *expected, uint64_t address, uint64_t length);
/* Any thread: a copy is about to write at the address, to absent memory. Goes on with what is left. */
void expected_reach(struct expected *expected, uint64_t address);

#endif

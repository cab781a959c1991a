/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Huge pages for memory of a transfer about to write. Where the memory was never touched, a huge
 * page is provided at a tenth of the cost of its small pages. MADV_HUGEPAGE would mark the
 * mapping for good: the mark splits the mapping, overrides MADV_NOHUGEPAGE, and later faults of
 * the program would get huge pages without a request. Instead one page is touched, and
 * MADV_COLLAPSE (Linux 6.1), which leaves no mark, does the rest. Before Linux 6.1 there are no
 * huge pages for new memory.
 */
#ifndef PF_EXPECTED_H
#define PF_EXPECTED_H

#include <pthread.h>
#include <stdint.h>

#include "pager.h"
#include "residency.h"

/* Bytes made huge by one call, at most: 1.1 ms (benchmarks of a single page: 70 us). */
#define EXPECTED_AT_ONCE ((uint64_t)32 << 20)

struct expected {
	struct residency *residency; /* of the own address space */
	struct pagers *pagers;
	uint64_t size; /* bytes of a huge page, a power of two; 0: none are made */
	pthread_mutex_t lock;
	/* Under the lock: */
	uint64_t start, end; /* addresses of the last long transfer without huge pages yet */
	uint16_t until;      /* end of the validity of the range, ms as residency_now */
	bool asked;          /* permitted is known for the range */
	bool permitted;      /* the setting leaves huge pages to programs */
};

/* The residency and the pagers are borrowed. */
void expected_init(struct expected *expected, struct residency *residency, struct pagers *pagers,
		   uint64_t size);
void expected_destroy(struct expected *expected);
/*
 * Any thread: all of the memory is about to be written, from both ends. Make the first and the
 * last EXPECTED_AT_ONCE / 2 bytes huge where the kernel permits.
 */
void expected_begin(struct expected *expected, uint64_t address, uint64_t length);
/*
 * Any thread: a copy is about to write at the address, to absent memory. Continue with the range
 * left.
 */
void expected_reach(struct expected *expected, uint64_t address);

#endif

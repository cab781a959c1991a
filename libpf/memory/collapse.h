/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Huge pages for buffers in repeated use. Two thirds of the cost of a single copy is the kernel's
 * look-up of 4 KiB pages; a huge page needs one look-up. Progress counts the bytes moved in each
 * range of the size of a huge page, and the service thread collapses a range into a huge page
 * (MADV_COLLAPSE, Linux 6.1) once enough bytes were moved there. Only ranges whose pages are all
 * present, private and mapped by no further process are collapsed, because the use of memory must
 * not grow.
 */
#ifndef PF_COLLAPSE_H
#define PF_COLLAPSE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/service.h"
#include "base/statistics.h"

/*
 * Bytes of the longest huge page made. With pages of 64 KiB, as in some kernels for arm64, a huge
 * page has 512 MiB, and copying 512 MiB stops all page faults of the process for 0.1 s.
 */
#define COLLAPSE_SIZE_MAX ((uint64_t)32 << 20)
/* Ranges counted at a time. */
#define COLLAPSE_RANGES 128
/*
 * Bytes of the longest transfer counted: the speed of memory, not the look-up of pages, limits
 * longer transfers.
 */
#define COLLAPSE_TRANSFER_MAX (4ull << 20)

struct collapse {
	uint64_t threshold; /* bytes moved in a range before it is collapsed; 0: never */
	unsigned shift;     /* log2 of the bytes of a range */
	struct service *service;
	struct statistics *statistics;
	/* Progress's own. Ranges share an entry if they are equal modulo COLLAPSE_RANGES. */
	struct {
		uint64_t range;     /* address >> shift */
		uint64_t bytes;     /* bytes moved there */
		uint64_t requested; /* nonzero: given to the service thread, once */
	} ranges[COLLAPSE_RANGES];
};

/* Permission of the administrator and of the program. MADV_COLLAPSE itself asks neither. */
enum collapse_setting {
	COLLAPSE_NEVER,
	COLLAPSE_MADVISE, /* to programs with MADV_HUGEPAGE */
	COLLAPSE_ALWAYS,  /* the kernel provides huge pages by itself */
};
enum collapse_setting collapse_setting(void);

/*
 * size: bytes of a huge page, a power of two; above COLLAPSE_SIZE_MAX nothing is collapsed. The
 * service and the statistics are borrowed; both must outlive the collapse and its tasks.
 */
void collapse_init(struct collapse *collapse, uint64_t threshold, uint64_t size,
		   struct service *service, struct statistics *statistics);
/*
 * Progress: count length bytes of own memory as moved. Costs an increment for each range touched.
 * Not to be called with a threshold of 0.
 */
void collapse_note(struct collapse *collapse, const void *address, uint64_t length);
/*
 * Any thread: collapse the range of size bytes at address, a multiple of size, if the memory use
 * does not grow. Returns whether the range is a huge page now.
 */
bool collapse_range(uint64_t address, uint64_t size);
/*
 * Any thread: collapse the range, in which at least one page is present, whatever the cost. The
 * kernel refuses mappings with MADV_NOHUGEPAGE. Returns whether the range is a huge page now.
 */
bool collapse_pages(uint64_t address, uint64_t size);

#endif

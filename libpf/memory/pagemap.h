/* SPDX-License-Identifier: BSD-3-Clause */
/* /proc/PID/pagemap: one entry per page (Documentation/admin-guide/mm/pagemap.rst). */
#ifndef PF_PAGEMAP_H
#define PF_PAGEMAP_H

#include <stddef.h>
#include <stdint.h>

#define PAGEMAP_PRESENT (1ull << 63)
#define PAGEMAP_SWAPPED (1ull << 62)
#define PAGEMAP_FILE (1ull << 61)      /* page of a file or of shared memory */
#define PAGEMAP_EXCLUSIVE (1ull << 56) /* page mapped by a single process */

/* Entries of one read. */
#define PAGEMAP_BATCH 512

/*
 * Read the entries of the whole pages of [start, end), PAGEMAP_BATCH at most. Returns the number
 * of entries read; 0 on any error.
 */
size_t pagemap_read(int fd, uint64_t start, uint64_t end, uint64_t entries[PAGEMAP_BATCH]);

#endif

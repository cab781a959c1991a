/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory for the columns of a graph whose absent pages come from the compressed file, and of
 * which a limited part is resident. The columns are read in order, again and again. Then what was
 * brought last is needed last: the first blocks stay, and only the last PAGING_RECENT places are
 * taken again, which are enough for what is in use. The caller notices page faults and installs
 * the pages.
 */
#ifndef BENCHMARK_PAGING_H
#define BENCHMARK_PAGING_H

#include <pthread.h>

#include "graph_file.h"

/* Blocks that are kept decompressed, where less than a block is supplied at once. */
#define PAGING_KEPT 16

/* Twice what COLUMNS_AHEAD pieces of COLUMNS_PIECE take up in blocks of the usual size. */
#define PAGING_RECENT 64

struct paging {
	const struct graph_file *file;
	uint8_t *mapping;
	uint8_t *memory; /* file->length bytes of it, aligned by blocks; absent at first */
	pthread_mutex_t lock;
	uint32_t *resident;   /* the block of each place */
	size_t most, count;   /* places; those that are taken */
	size_t recent, turn;  /* when all are: the last recent ones are taken again, in turn */
	uint8_t *is_resident; /* by block */
	/* Block number kept_number[i] is in kept + i * file->block; SIZE_MAX: none. */
	uint8_t *kept;
	size_t kept_number[PAGING_KEPT];
	/* Calls of paging_supply, blocks read, blocks evicted. */
	uint64_t supplied, read, evicted;
};

/* resident: bytes, 0 for all. Returns 0, or -1 after an error message; then, too, close it. */
int paging_open(struct paging *paging, const struct graph_file *file, size_t resident);
/*
 * Write the length bytes that belong at address to page, and evict other blocks if too many
 * are resident. length is that of a page or of a block. Ends the process if the file cannot be
 * read: the thread that waits for the page could not go on. Thread safe.
 */
void paging_supply(struct paging *paging, uint64_t address, void *page, size_t length);
/* Evict everything. */
void paging_forget(struct paging *paging);
void paging_close(struct paging *paging);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
#include "paging.h"

#include <err.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "cost.h"

/* Fewer could evict a block before the access that brought it is repeated. */
#define RESIDENT_LEAST 4

int paging_open(struct paging *paging, const struct graph_file *file, size_t resident)
{
	size_t blocks = file->length / file->block, i;

	memset(paging, 0, sizeof(*paging));
	pthread_mutex_init(&paging->lock, NULL);
	paging->file = file;
	paging->most = resident ? resident / file->block : blocks;
	if (paging->most > blocks)
		paging->most = blocks;
	if (paging->most < RESIDENT_LEAST && paging->most < blocks) {
		warnx("at least %zu bytes must be resident", RESIDENT_LEAST * file->block);
		return -1;
	}
	paging->recent = paging->most < PAGING_RECENT ? paging->most : PAGING_RECENT;
	for (i = 0; i < PAGING_KEPT; i++)
		paging->kept_number[i] = SIZE_MAX;
	paging->mapping = cost_untouched(file->length + file->block);
	paging->resident = calloc(paging->most, sizeof(*paging->resident));
	paging->is_resident = calloc(blocks, sizeof(*paging->is_resident));
	paging->kept = malloc(PAGING_KEPT * file->block);
	if (!paging->mapping || !paging->resident || !paging->is_resident || !paging->kept) {
		warn("memory for a graph");
		return -1;
	}
	paging->memory = paging->mapping + file->block - (uintptr_t)paging->mapping % file->block;
	return 0;
}

/* Under the lock. The pages are dropped: the file has their contents. */
static void evict(struct paging *paging, size_t block)
{
	if (madvise(paging->memory + block * paging->file->block, paging->file->block,
		    MADV_DONTNEED))
		err(1, "MADV_DONTNEED");
	paging->is_resident[block] = false;
	paging->evicted++;
}

/* Under the lock: the block gets pages. */
static void enter(struct paging *paging, size_t block)
{
	size_t place;

	if (paging->is_resident[block])
		return;
	if (paging->count < paging->most) {
		place = paging->count++;
	} else {
		place = paging->most - paging->recent + paging->turn++ % paging->recent;
		evict(paging, paging->resident[place]);
	}
	paging->resident[place] = (uint32_t)block;
	paging->is_resident[block] = true;
}

static void read_block(struct paging *paging, size_t block, void *columns)
{
	if (graph_file_read_block(paging->file, block, columns))
		exit(1);
}

/* Under the lock. */
static const uint8_t *keep(struct paging *paging, size_t block)
{
	size_t place = block % PAGING_KEPT;
	uint8_t *columns = paging->kept + place * paging->file->block;

	if (paging->kept_number[place] != block) {
		read_block(paging, block, columns);
		paging->kept_number[place] = block;
		paging->read++;
	}
	return columns;
}

void paging_supply(struct paging *paging, uint64_t address, void *page, size_t length)
{
	size_t size = paging->file->block, at = address - (uint64_t)(uintptr_t)paging->memory;
	size_t block = at / size;

	pthread_mutex_lock(&paging->lock);
	enter(paging, block);
	paging->supplied++;
	if (length < size)
		memcpy(page, keep(paging, block) + at % size, length);
	else
		paging->read++;
	pthread_mutex_unlock(&paging->lock);
	if (length == size)
		read_block(paging, block, page);
}

void paging_forget(struct paging *paging)
{
	size_t i;

	pthread_mutex_lock(&paging->lock);
	while (paging->count)
		evict(paging, paging->resident[--paging->count]);
	paging->turn = 0;
	/* Also a block that another thread evicted before its supply had installed it. */
	if (madvise(paging->memory, paging->file->length, MADV_DONTNEED))
		err(1, "MADV_DONTNEED");
	for (i = 0; i < PAGING_KEPT; i++)
		paging->kept_number[i] = SIZE_MAX;
	paging->supplied = paging->read = paging->evicted = 0;
	pthread_mutex_unlock(&paging->lock);
}

void paging_close(struct paging *paging)
{
	if (paging->mapping)
		munmap(paging->mapping, paging->file->length + paging->file->block);
	free(paging->resident);
	free(paging->is_resident);
	free(paging->kept);
	pthread_mutex_destroy(&paging->lock);
}

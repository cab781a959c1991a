/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Spaces, their page tables, and the translation cache: engine.md, section 6.
 *
 * Each function translates, accesses memory and returns: no translation is in
 * use between two calls. So translation_invalidate has only to empty the cache.
 */
#ifndef MODEL_TRANSLATION_H
#define MODEL_TRANSLATION_H

#include "memory.h"

#define TRANSLATION_CACHE 256u   /* entries */
#define TRANSLATION_ACCESS 4096u /* bytes, at most, of one access */
#define TRANSLATION_ADDRESS_BITS 57u
#define TRANSLATION_PHYSICAL_BITS 52u

enum access {
	ACCESS_DONE,
	ACCESS_ABSENT, /* a page fault */
	ACCESS_RANGE,  /* the address is beyond the bits of the space */
	ACCESS_MEMORY, /* malformed page table, or the bus reported an error */
};

struct space {
	bool attached;
	uint8_t page_shift, bits;
	uint32_t generation;
	uint64_t root;
	uint64_t key[2];
};

struct translation_cache_entry {
	const struct space *space; /* NULL: not in use */
	uint64_t page;             /* virtual address of the page, of its smallest size */
	uint64_t physical;
	uint64_t first, last; /* virtual addresses that the entry of the table covers */
	bool write, dirty;
};

struct translation {
	const struct memory *memory;
	struct translation_cache_entry cache[TRANSLATION_CACHE];
	uint64_t hits, misses;
};

/* Read or write, all or nothing. *bad: the first address without access. */
enum access translation_read(struct translation *translation, const struct space *space,
			     uint64_t address, void *bytes, size_t length, uint64_t *bad);
enum access translation_write(struct translation *translation, const struct space *space,
			      uint64_t address, const void *bytes, size_t length, uint64_t *bad);
/* operation: enum exanest_atomic. width: 4 or 8, of which address is a multiple. */
enum access translation_atomic(struct translation *translation, const struct space *space,
			       uint64_t address, unsigned int width, unsigned int operation,
			       uint64_t operand, uint64_t compare, uint64_t *value);

/* Forget what overlaps the addresses from first to last. */
void translation_invalidate(struct translation *translation, const struct space *space,
			    uint64_t first, uint64_t last);

#endif

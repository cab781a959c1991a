// SPDX-License-Identifier: GPL-2.0
#include "translation.h"

#include <endian.h>
#include <string.h>

#include "../registers.h"
#include "../uapi/exanest.h"

/* An entry that keeps changing while it is walked counts as absent after so many walks. */
#define WALKS_MAX 64

/* A physically contiguous part of an access. */
struct piece {
	uint64_t physical;
	size_t length;
};

#define PIECES_MAX 2 /* TRANSLATION_ACCESS is no longer than the smallest page */

static struct translation_cache_entry *cache_slot(struct translation *translation,
						  const struct space *space, uint64_t page)
{
	uint64_t number = page >> space->page_shift;

	/* Neighbouring pages, and the same page of neighbouring spaces, do not collide. */
	return &translation->cache[(number + space->generation * 61u) % TRANSLATION_CACHE];
}

/* Set the flags in the entry at physical address place. *entry: as it was read; set anew if it changed. */
static enum access set_flags(struct translation *translation, uint64_t place, uint64_t *entry,
			     uint64_t flags, bool *changed)
{
	uint64_t before = *entry;

	*changed = false;
	if ((*entry & flags) == flags)
		return ACCESS_DONE;
	if (!translation->memory->compare_swap(translation->memory->context, place, 8, entry,
					       before | flags))
		return ACCESS_MEMORY;
	*changed = *entry != before;
	return ACCESS_DONE;
}

/* Is an entry that is valid well-formed? covers: bytes that a page would have at its level. */
static bool well_formed(uint64_t entry, unsigned int level, unsigned int table_shift,
			uint64_t covers)
{
	uint64_t address = entry & EXANEST_PTE_ADDRESS;

	if (entry & EXANEST_PTE_RESERVED)
		return false;
	if (entry & EXANEST_PTE_LEAF)
		return level <= 1 && !(address & (covers - 1));
	return level > 0 && !(address & ((1ull << table_shift) - 1)) &&
	       !(entry & (EXANEST_PTE_WRITE | EXANEST_PTE_ACCESSED | EXANEST_PTE_DIRTY));
}

/* From the root to the page. *again: the entry changed. */
static enum access walk_once(struct translation *translation, const struct space *space,
			     uint64_t address, bool write, struct translation_cache_entry *found,
			     bool *again)
{
	unsigned int bits = space->page_shift - 3u;
	unsigned int level = (space->bits - space->page_shift + bits - 1) / bits;
	uint64_t table = space->root, entry, place, covers, flags = EXANEST_PTE_ACCESSED;
	enum access result;

	*again = false;
	while (level--) {
		covers = 1ull << (space->page_shift + level * bits);
		place = table + 8 * (address / covers & ((1ull << bits) - 1));
		if (!translation->memory->read(translation->memory->context, place, &entry, 8))
			return ACCESS_MEMORY;
		entry = le64toh(entry);
		if (!(entry & EXANEST_PTE_VALID))
			return ACCESS_ABSENT;
		if (!well_formed(entry, level, space->page_shift, covers))
			return ACCESS_MEMORY;
		table = entry & EXANEST_PTE_ADDRESS;
		if (!(entry & EXANEST_PTE_LEAF))
			continue;
		if (write && !(entry & EXANEST_PTE_WRITE))
			return ACCESS_ABSENT;
		if (write)
			flags |= EXANEST_PTE_DIRTY;
		result = set_flags(translation, place, &entry, flags, again);
		if (result != ACCESS_DONE || *again)
			return result;
		found->space = space;
		found->page = address >> space->page_shift << space->page_shift;
		found->first = address & ~(covers - 1);
		found->last = found->first + (covers - 1);
		found->physical = table + (found->page - found->first);
		found->write = entry & EXANEST_PTE_WRITE;
		found->dirty = write || entry & EXANEST_PTE_DIRTY;
		return ACCESS_DONE;
	}
	return ACCESS_MEMORY;
}

static enum access walk(struct translation *translation, const struct space *space,
			uint64_t address, bool write, struct translation_cache_entry *found)
{
	enum access result;
	unsigned int walks;
	bool again;

	for (walks = 0; walks < WALKS_MAX; walks++) {
		translation->misses++;
		result = walk_once(translation, space, address, write, found, &again);
		if (!again)
			return result;
	}
	return ACCESS_ABSENT;
}

/* The page of an address, from the cache or the table. */
static enum access look_up(struct translation *translation, const struct space *space,
			   uint64_t address, bool write, uint64_t *physical)
{
	uint64_t mask = (1ull << space->page_shift) - 1;
	struct translation_cache_entry *entry = cache_slot(translation, space, address);
	struct translation_cache_entry found = { .space = NULL };
	enum access result;

	if (entry->space == space && entry->page == (address & ~mask) &&
	    (!write || (entry->write && entry->dirty))) {
		translation->hits++;
	} else {
		result = walk(translation, space, address, write, &found);
		if (result != ACCESS_DONE)
			return result;
		*entry = found;
	}
	*physical = entry->physical + (address & mask);
	return ACCESS_DONE;
}

/* Cut an access at page boundaries and translate it. */
static enum access translate(struct translation *translation, const struct space *space,
			     uint64_t address, size_t length, bool write,
			     struct piece pieces[PIECES_MAX], unsigned int *count, uint64_t *bad)
{
	uint64_t page = 1ull << space->page_shift, limit = 1ull << space->bits;
	enum access result;
	size_t part;

	for (*count = 0; length; ++*count) {
		*bad = address;
		if (address >= limit)
			return ACCESS_RANGE;
		result = look_up(translation, space, address, write, &pieces[*count].physical);
		if (result != ACCESS_DONE)
			return result;
		part = page - (address & (page - 1));
		if (part > length)
			part = length;
		pieces[*count].length = part;
		address += part;
		length -= part;
	}
	return ACCESS_DONE;
}

enum access translation_read(struct translation *translation, const struct space *space,
			     uint64_t address, void *bytes, size_t length, uint64_t *bad)
{
	const struct memory *memory = translation->memory;
	struct piece pieces[PIECES_MAX];
	unsigned int count, i;
	uint8_t *to = bytes;
	enum access result;

	result = translate(translation, space, address, length, false, pieces, &count, bad);
	if (result != ACCESS_DONE)
		return result;
	for (i = 0; i < count; i++) {
		*bad = address + (uint64_t)(to - (uint8_t *)bytes);
		if (!memory->read(memory->context, pieces[i].physical, to, pieces[i].length))
			return ACCESS_MEMORY;
		to += pieces[i].length;
	}
	return ACCESS_DONE;
}

enum access translation_write(struct translation *translation, const struct space *space,
			      uint64_t address, const void *bytes, size_t length, uint64_t *bad)
{
	const struct memory *memory = translation->memory;
	struct piece pieces[PIECES_MAX];
	const uint8_t *from = bytes;
	unsigned int count, i;
	enum access result;

	result = translate(translation, space, address, length, true, pieces, &count, bad);
	if (result != ACCESS_DONE)
		return result;
	for (i = 0; i < count; i++) {
		*bad = address + (uint64_t)(from - (const uint8_t *)bytes);
		if (!memory->write(memory->context, pieces[i].physical, from, pieces[i].length))
			return ACCESS_MEMORY;
		from += pieces[i].length;
	}
	return ACCESS_DONE;
}

static uint64_t operate(unsigned int operation, uint64_t value, uint64_t operand, uint64_t compare)
{
	switch (operation) {
	case EXANEST_ATOMIC_ADD:
		return value + operand;
	case EXANEST_ATOMIC_AND:
		return value & operand;
	case EXANEST_ATOMIC_OR:
		return value | operand;
	case EXANEST_ATOMIC_XOR:
		return value ^ operand;
	case EXANEST_ATOMIC_SWAP:
		return operand;
	default:
		return value == compare ? operand : value;
	}
}

enum access translation_atomic(struct translation *translation, const struct space *space,
			       uint64_t address, unsigned int width, unsigned int operation,
			       uint64_t operand, uint64_t compare, uint64_t *value)
{
	uint64_t mask = width == 4 ? UINT32_MAX : UINT64_MAX, expected = 0, wanted, bad;
	const struct memory *memory = translation->memory;
	struct piece pieces[PIECES_MAX] = { { 0 } };
	enum access result;
	unsigned int count;

	result = translate(translation, space, address, width, true, pieces, &count, &bad);
	if (result != ACCESS_DONE)
		return result;
	do {
		*value = expected;
		wanted = operate(operation, *value, operand & mask, compare & mask) & mask;
		if (!memory->compare_swap(memory->context, pieces[0].physical, width, &expected,
					  wanted))
			return ACCESS_MEMORY;
	} while (expected != *value);
	return ACCESS_DONE;
}

void translation_invalidate(struct translation *translation, const struct space *space,
			    uint64_t first, uint64_t last)
{
	struct translation_cache_entry *entry;
	unsigned int i;

	for (i = 0; i < TRANSLATION_CACHE; i++) {
		entry = &translation->cache[i];
		if (entry->space == space && entry->first <= last && entry->last >= first)
			entry->space = NULL;
	}
}

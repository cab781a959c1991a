// SPDX-License-Identifier: GPL-2.0
/* Physical memory, page tables and accesses to spaces: section 6 of engine.md. */
#include <string.h>

#include "memory.h"
#include "registers.h"

/* The most pages of a block: 16 KiB that begin within a page of 4 KiB. */
#define PIECES_MAX 5

/* Walks of one access before an entry that keeps changing is reported as absent. */
#define WALKS_MAX 16

struct piece {
	u8 *memory;
	u32 length;
};

void *physical(struct engine *e, u64 address, u64 length)
{
	if (has_failed(e) || address > e->size || length > e->size - address)
		return NULL;
	return e->ram + address;
}

static bool is_malformed(const struct space *s, u64 entry, unsigned int level)
{
	unsigned int shift = s->page_shift;
	u64 address = entry & ENTRY_ADDRESS;

	if (entry & ENTRY_RESERVED)
		return true;
	if (entry & ENTRY_LEAF) {
		if (level > 1 || (level == 1 && !(FEATURES & FEATURE_LARGE_PAGES)))
			return true;
		shift += level * (s->page_shift - 3);
	} else if (level == 0 || (entry & (ENTRY_WRITE | ENTRY_ACCESSED | ENTRY_DIRTY))) {
		return true;
	}
	return address & ((1ull << shift) - 1) || address >> PHYSICAL_BITS;
}

/*
 * Translate an address by one walk. The physical address is that of the byte; `end` is the
 * virtual address behind the page. Returns false if the entry changed: walk again.
 */
static bool walk(struct engine *e, const struct space *s, u64 address, bool write, u64 *result,
		 u64 *end, u32 *status)
{
	unsigned int n = s->page_shift - 3;
	unsigned int level = (s->bits - s->page_shift + n - 1) / n;
	u64 table = s->root;

	count(e, REG_CACHE_MISSES, 1);
	for (;;) {
		unsigned int shift = s->page_shift + --level * n;
		u64 index = address >> shift & ((1ull << n) - 1);
		u64 *pointer = physical(e, table + index * sizeof(u64), sizeof(u64));
		u64 entry, wanted;

		*status = STATUS_MEMORY;
		if (!pointer)
			return true;
		entry = __atomic_load_n(pointer, __ATOMIC_ACQUIRE);
		if (!(entry & ENTRY_VALID)) {
			*status = ACCESS_ABSENT;
			return true;
		}
		if (is_malformed(s, entry, level))
			return true;
		if (!(entry & ENTRY_LEAF)) {
			table = entry & ENTRY_ADDRESS;
			continue;
		}
		if (write && !(entry & ENTRY_WRITE)) {
			*status = ACCESS_ABSENT;
			return true;
		}
		wanted = entry | ENTRY_ACCESSED | (write ? ENTRY_DIRTY : 0);
		if (wanted != entry &&
		    !__atomic_compare_exchange_n(pointer, &entry, wanted, false, __ATOMIC_SEQ_CST,
						 __ATOMIC_RELAXED))
			return false;
		*result = (entry & ENTRY_ADDRESS) + (address & ((1ull << shift) - 1));
		*end = ((address >> shift) + 1) << shift;
		*status = STATUS_OK;
		return true;
	}
}

/* Translate a range to pieces of memory, in the order of addresses. */
static u32 translate(struct engine *e, const struct space *s, u64 address, u32 length, bool write,
		     struct piece pieces[PIECES_MAX], u64 *failed)
{
	while (length) {
		u64 result = 0, end = 0;
		u32 status = ACCESS_ABSENT;

		*failed = address;
		if (address >> s->bits)
			return STATUS_FAULT;
		for (int i = 0; i < WALKS_MAX; i++)
			if (walk(e, s, address, write, &result, &end, &status))
				break;
		if (status)
			return status;
		pieces->length = end - address < length ? end - address : length;
		pieces->memory = physical(e, result, pieces->length);
		if (!pieces->memory)
			return STATUS_MEMORY;
		address += pieces->length;
		length -= pieces->length;
		pieces++;
	}
	return STATUS_OK;
}

u32 check_memory(struct engine *e, const struct space *s, u64 address, u32 length, bool write,
		 u64 *failed)
{
	struct piece pieces[PIECES_MAX];

	return translate(e, s, address, length, write, pieces, failed);
}

u32 read_memory(struct engine *e, const struct space *s, u64 address, void *data, u32 length,
		u64 *failed)
{
	struct piece pieces[PIECES_MAX];
	u32 status = translate(e, s, address, length, false, pieces, failed);
	u32 done = 0;

	for (int i = 0; !status && done < length; done += pieces[i++].length)
		memcpy((u8 *)data + done, pieces[i].memory, pieces[i].length);
	return status;
}

u32 write_memory(struct engine *e, const struct space *s, u64 address, const void *data, u32 length,
		 u64 *failed)
{
	struct piece pieces[PIECES_MAX];
	u32 status = translate(e, s, address, length, true, pieces, failed);
	u32 done = 0;

	for (int i = 0; !status && done < length; done += pieces[i++].length)
		memcpy(pieces[i].memory, (const u8 *)data + done, pieces[i].length);
	return status;
}

static u64 combine(const struct record *r, u64 value, u64 compare)
{
	switch (r->atomic) {
	case ATOMIC_ADD:
		return value + r->operand;
	case ATOMIC_AND:
		return value & r->operand;
	case ATOMIC_OR:
		return value | r->operand;
	case ATOMIC_XOR:
		return value ^ r->operand;
	case ATOMIC_SWAP:
		return r->operand;
	default:
		return value == compare ? r->operand : value;
	}
}

u32 atomic_memory(struct engine *e, const struct space *s, struct record *r, u64 *failed)
{
	struct piece pieces[PIECES_MAX];
	u32 status = translate(e, s, r->request.address, r->request.length, true, pieces, failed);

	if (status)
		return status;
	/* The address is a multiple of the length, so there is one piece, and it is aligned. */
	if (r->request.length == sizeof(u32)) {
		u32 *memory = (u32 *)pieces[0].memory;
		u32 old = __atomic_load_n(memory, __ATOMIC_SEQ_CST);

		while (!__atomic_compare_exchange_n(memory, &old,
						    (u32)combine(r, old, (u32)r->compare), false,
						    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
			;
		r->value = old;
	} else {
		u64 *memory = (u64 *)pieces[0].memory;
		u64 old = __atomic_load_n(memory, __ATOMIC_SEQ_CST);

		while (!__atomic_compare_exchange_n(memory, &old, combine(r, old, r->compare),
						    false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
			;
		r->value = old;
	}
	count(e, REG_ATOMICS_DONE, 1);
	return STATUS_OK;
}

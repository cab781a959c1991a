// SPDX-License-Identifier: GPL-2.0
#include <linux/io.h>
#include <linux/mm.h>

#include "compat.h"
#include "engine.h"
#include "move.h"
#include "translation.h"

/* A stretch of one side within one span. */
struct stretch {
	struct exanest_translation *translation;
	unsigned int offset;     /* in the span */
	unsigned int first, end; /* pages */
	bool write;
};

static bool stretch_find(struct stretch *stretch, struct exanest_space *space, u64 address,
			 u32 length)
{
	stretch->translation = exanest_translation_find(space, address);
	stretch->offset = address & (EXANEST_SPAN_SIZE - 1);
	stretch->first = stretch->offset >> PAGE_SHIFT;
	stretch->end = ((stretch->offset + length - 1) >> PAGE_SHIFT) + 1;
	return stretch->translation;
}

/* Its lock is held. How many bytes of it, from its beginning on, are there. */
static u32 stretch_present(const struct stretch *stretch, u32 length)
{
	unsigned int page = exanest_translation_missing(stretch->translation, stretch->first,
							stretch->end, stretch->write);

	if (page == stretch->end)
		return length;
	return page == stretch->first ? 0 : (page << PAGE_SHIFT) - stretch->offset;
}

/* All memory is mapped (compat.h), so a page frame number is as good as an address. */
static void *entry_page(unsigned long entry)
{
	return phys_to_virt(PFN_PHYS(entry & ~HMM_PFN_FLAGS));
}

static const unsigned long *stretch_entry(const struct stretch *stretch, unsigned int offset)
{
	return &stretch->translation->entries[offset >> PAGE_SHIFT];
}

static void *stretch_at(const struct stretch *stretch, unsigned int offset)
{
	return entry_page(*stretch_entry(stretch, offset)) + offset_in_page(offset);
}

static void stretch_copy(const struct stretch *to, const struct stretch *from, unsigned int length)
{
	const unsigned long *to_entry = stretch_entry(to, to->offset);
	const unsigned long *from_entry = stretch_entry(from, from->offset);
	unsigned int to_offset = to->offset, from_offset = from->offset, bytes;

	/* Where pages of both sides begin together, whole ones have the architecture's own copy. */
	if (!offset_in_page(to_offset | from_offset)) {
		for (; length >= PAGE_SIZE; length -= PAGE_SIZE)
			copy_page(entry_page(*to_entry++), entry_page(*from_entry++));
		to_offset += (to_entry - stretch_entry(to, to->offset)) << PAGE_SHIFT;
		from_offset += (from_entry - stretch_entry(from, from->offset)) << PAGE_SHIFT;
	}
	for (; length; length -= bytes, to_offset += bytes, from_offset += bytes) {
		bytes = PAGE_SIZE - max(offset_in_page(to_offset), offset_in_page(from_offset));
		bytes = min(bytes, length);
		memcpy(stretch_at(to, to_offset), stretch_at(from, from_offset), bytes);
	}
}

/* The process's own processors may change the same word at the same time. */
static u64 atomic_32(u32 *word, const struct exanest_descriptor *d)
{
	switch (d->atomic) {
	case EXANEST_ATOMIC_ADD:
		return (u32)atomic_fetch_add((u32)d->operand, (atomic_t *)word);
	case EXANEST_ATOMIC_AND:
		return (u32)atomic_fetch_and((u32)d->operand, (atomic_t *)word);
	case EXANEST_ATOMIC_OR:
		return (u32)atomic_fetch_or((u32)d->operand, (atomic_t *)word);
	case EXANEST_ATOMIC_XOR:
		return (u32)atomic_fetch_xor((u32)d->operand, (atomic_t *)word);
	case EXANEST_ATOMIC_SWAP:
		return xchg(word, (u32)d->operand);
	default:
		return cmpxchg(word, (u32)d->compare, (u32)d->operand);
	}
}

static u64 atomic_64(u64 *word, const struct exanest_descriptor *d)
{
	switch (d->atomic) {
	case EXANEST_ATOMIC_ADD:
		return atomic64_fetch_add(d->operand, (atomic64_t *)word);
	case EXANEST_ATOMIC_AND:
		return atomic64_fetch_and(d->operand, (atomic64_t *)word);
	case EXANEST_ATOMIC_OR:
		return atomic64_fetch_or(d->operand, (atomic64_t *)word);
	case EXANEST_ATOMIC_XOR:
		return atomic64_fetch_xor(d->operand, (atomic64_t *)word);
	case EXANEST_ATOMIC_SWAP:
		return xchg(word, d->operand);
	default:
		return cmpxchg(word, d->compare, d->operand);
	}
}

static u64 stretch_atomic(const struct stretch *stretch, const struct exanest_descriptor *d)
{
	void *word = stretch_at(stretch, stretch->offset);

	return d->length == 4 ? atomic_32(word, d) : atomic_64(word, d);
}

static u32 to_end_of_span(u64 address, u32 length)
{
	return min_t(u64, length, EXANEST_SPAN_SIZE - (address & (EXANEST_SPAN_SIZE - 1)));
}

static void stretch_mark(const struct stretch *stretch, u32 length)
{
	exanest_translation_mark(stretch->translation, stretch->offset, length, stretch->write);
}

/* The remote side is held. Returns the bytes moved; 0: the local side's first is not there. */
static u32 move_local(const struct exanest_descriptor *d, u32 done, const struct stretch *remote,
		      u32 length)
{
	struct stretch local = { .write = !remote->write };

	if (!stretch_find(&local, d->local->space, d->local_address + done, length))
		return 0;
	if (!read_trylock(&local.translation->lock))
		return 0;
	length = stretch_present(&local, length);
	if (length) {
		if (remote->write)
			stretch_copy(remote, &local, length);
		else
			stretch_copy(&local, remote, length);
		stretch_mark(&local, length);
	}
	read_unlock(&local.translation->lock);
	return length;
}

/* Of what both sides have within one span each. Returns the bytes moved; 0: fault, on side. */
static u32 move_sides(const struct exanest_descriptor *d, u32 length, struct exanest_result *result)
{
	struct stretch remote = { .write = d->op != EXANEST_OP_GET };

	result->side = EXANEST_SIDE_REMOTE;
	if (!stretch_find(&remote, d->remote->space, d->remote_address + result->moved, length))
		return 0;
	if (!read_trylock(&remote.translation->lock))
		return 0;
	length = stretch_present(&remote, length);
	if (length) {
		result->side = EXANEST_SIDE_LOCAL;
		if (d->op == EXANEST_OP_ATOMIC)
			result->value = stretch_atomic(&remote, d);
		else
			length = move_local(d, result->moved, &remote, length);
		if (length)
			stretch_mark(&remote, length);
	}
	read_unlock(&remote.translation->lock);
	return length;
}

/*
 * RCU keeps the translations, which eviction may be about to free, until their
 * locks are held; eviction takes these for writing before it frees.
 */
void exanest_move(const struct exanest_descriptor *d, struct exanest_result *result)
{
	u32 length;

	*result = (struct exanest_result){ .status = 0 };
	while (result->moved < d->length) {
		length = to_end_of_span(d->remote_address + result->moved,
					d->length - result->moved);
		if (d->op != EXANEST_OP_ATOMIC)
			length = to_end_of_span(d->local_address + result->moved, length);
		rcu_read_lock();
		length = move_sides(d, length, result);
		rcu_read_unlock();
		if (!length) {
			result->status = -EFAULT;
			return;
		}
		result->moved += length;
	}
}

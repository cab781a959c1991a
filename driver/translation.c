// SPDX-License-Identifier: GPL-2.0
#include <linux/fs.h>
#include <linux/magic.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "compat.h"
#include "trace.h"
#include "translation.h"

/* Tries of one look-up before the caller is told that the range does not keep still. */
#define FILL_TRIES 8

/* Fewer spans than this, and two sides of one transfer could push each other out for ever. */
#define TRANSLATIONS_MIN 64U

static uint translations_max = 8192;
module_param(translations_max, uint, 0644);
MODULE_PARM_DESC(translations_max, "2 MiB ranges that one context may keep translations of");

static unsigned long span_start(const struct exanest_translation *translation)
{
	return translation->notifier.interval_tree.start;
}

/*
 * The lock is held for writing, or the caller alone has the translation. accessed is
 * cleared bit by bit elsewhere at the same time: at worst a page looks young
 * once more.
 */
static void translation_clear(struct exanest_translation *translation, unsigned int first,
			      unsigned int count)
{
	memset(&translation->entries[first], 0, count * sizeof(translation->entries[0]));
	bitmap_clear(translation->accessed, first, count);
	bitmap_clear(translation->dirty, first, count);
}

/*
 * The kernel is about to change something in the range. Where it must not
 * block (the OOM reaper), waiting for the lock is still right: it is a
 * spinning one, and held for one block.
 */
static bool translation_invalidate(struct mmu_interval_notifier *notifier,
				   const struct mmu_notifier_range *range, unsigned long sequence)
{
	struct exanest_translation *translation = container_of(notifier, struct exanest_translation,
							       notifier);
	unsigned long start = max(range->start, span_start(translation));
	unsigned long end = min(range->end, span_start(translation) + EXANEST_SPAN_SIZE);
	unsigned int first = (start & (EXANEST_SPAN_SIZE - 1)) >> PAGE_SHIFT;
	unsigned int count = DIV_ROUND_UP(end - start, PAGE_SIZE);

	write_lock(&translation->lock);
	mmu_interval_set_seq(notifier, sequence);
	translation_clear(translation, first, count);
	write_unlock(&translation->lock);

	exanest_count(translation->space->counters, EXANEST_INVALIDATIONS, 1);
	trace_exanest_invalidate(start, end, range->event);
	return true;
}

static const struct mmu_interval_notifier_ops translation_ops = {
	.invalidate = translation_invalidate,
};

/*
 * The kernel asks whether pages were in use, as it asks the processor's page
 * tables. Called under page table locks.
 */
static bool space_young(struct exanest_space *space, unsigned long start, unsigned long end,
			bool clear)
{
	struct exanest_translation *translation;
	unsigned long address, page;
	bool young = false;

	rcu_read_lock();
	for (address = start; address < end; address += PAGE_SIZE) {
		translation = exanest_translation_find(space, address);
		if (!translation) {
			address |= EXANEST_SPAN_SIZE - PAGE_SIZE;
			continue;
		}
		page = (address & (EXANEST_SPAN_SIZE - 1)) >> PAGE_SHIFT;
		if (!test_bit(page, translation->accessed))
			continue;
		young = true;
		if (clear)
			clear_bit(page, translation->accessed);
	}
	rcu_read_unlock();
	return young;
}

static int space_clear_young(struct mmu_notifier *notifier, struct mm_struct *mm,
			     unsigned long start, unsigned long end)
{
	return space_young(container_of(notifier, struct exanest_space, notifier), start, end,
			   true);
}

static int space_test_young(struct mmu_notifier *notifier, struct mm_struct *mm,
			    unsigned long address)
{
	return space_young(container_of(notifier, struct exanest_space, notifier), address,
			   address + PAGE_SIZE, false);
}

/* The last user of the mm is gone: exit, or exec, while the descriptor lives on. */
static void space_release(struct mmu_notifier *notifier, struct mm_struct *mm)
{
	struct exanest_space *space = container_of(notifier, struct exanest_space, notifier);

	exanest_space_invalidate(space);
	space->on_gone(space);
}

static const struct mmu_notifier_ops space_ops = {
	.release = space_release,
	.clear_flush_young = space_clear_young,
	.clear_young = space_clear_young,
	.test_young = space_test_young,
};

int exanest_space_open(struct exanest_space *space, struct exanest_counters *counters,
		       void (*on_gone)(struct exanest_space *space))
{
	int error;

	xa_init_flags(&space->spans, XA_FLAGS_ACCOUNT);
	space->counters = counters;
	space->on_gone = on_gone;
	space->buffer = kmalloc_array(EXANEST_SPAN_PAGES, sizeof(*space->buffer),
				      GFP_KERNEL_ACCOUNT);
	if (!space->buffer)
		return -ENOMEM;
	space->mm = current->mm;
	space->notifier.ops = &space_ops;
	error = mmu_notifier_register(&space->notifier, space->mm);
	if (error) {
		kfree(space->buffer);
		return error;
	}
	mmgrab(space->mm);
	return 0;
}

/*
 * A span that is not seen here was stored after gone was set, and so the one
 * who stored it sees gone before it fills it: the barriers order the two
 * stores with the two loads.
 */
void exanest_space_invalidate(struct exanest_space *space)
{
	struct exanest_translation *translation;
	unsigned long index;

	WRITE_ONCE(space->gone, true);
	smp_mb();
	rcu_read_lock();
	xa_for_each(&space->spans, index, translation) {
		write_lock(&translation->lock);
		translation_clear(translation, 0, EXANEST_SPAN_PAGES);
		write_unlock(&translation->lock);
	}
	rcu_read_unlock();
}

static void translation_free(struct rcu_head *rcu)
{
	struct exanest_translation *translation = container_of(rcu, struct exanest_translation,
							       rcu);

	kfree(translation->entries);
	kfree(translation);
}

/*
 * Its entries are cleared first: an engine may still have it in hand, and
 * exanest_space_invalidate, which does not find it any more, relies on that.
 * Only the resolver, whose this is, would fill them again.
 */
static void translation_remove(struct exanest_translation *translation)
{
	struct exanest_space *space = translation->space;

	write_lock(&translation->lock);
	translation_clear(translation, 0, EXANEST_SPAN_PAGES);
	write_unlock(&translation->lock);
	xa_erase(&space->spans, span_start(translation) >> EXANEST_SPAN_SHIFT);
	space->count--;
	mmu_interval_notifier_remove(&translation->notifier);
	call_rcu(&translation->rcu, translation_free);
}

void exanest_space_close(struct exanest_space *space)
{
	struct exanest_translation *translation;
	unsigned long index;

	xa_for_each(&space->spans, index, translation) {
		translation_remove(translation);
		cond_resched();
	}
	xa_destroy(&space->spans);
	mmu_notifier_unregister(&space->notifier, space->mm);
	mmdrop(space->mm);
	kfree(space->buffer);
	space->buffer = NULL;
}

/* Second chance: the first span from the hand on that was not used since the hand came by. */
static void space_evict(struct exanest_space *space)
{
	struct exanest_translation *translation;
	unsigned int rounds = 2 * space->count + 2;

	while (rounds--) {
		translation = xa_find(&space->spans, &space->hand, ULONG_MAX, XA_PRESENT);
		if (!translation) {
			space->hand = 0;
			continue;
		}
		space->hand++;
		if (READ_ONCE(translation->used)) {
			WRITE_ONCE(translation->used, false);
			continue;
		}
		translation_remove(translation);
		return;
	}
}

/* Charged to whom the resolver works for. */
static struct exanest_translation *translation_alloc(void)
{
	struct exanest_translation *translation;

	translation = kzalloc(sizeof(*translation), GFP_KERNEL_ACCOUNT);
	if (!translation)
		return NULL;
	translation->entries = kcalloc(EXANEST_SPAN_PAGES, sizeof(*translation->entries),
				       GFP_KERNEL_ACCOUNT);
	if (!translation->entries) {
		kfree(translation);
		return NULL;
	}
	return translation;
}

struct exanest_translation *exanest_translation_get(struct exanest_space *space,
						    unsigned long address)
{
	unsigned long index = address >> EXANEST_SPAN_SHIFT;
	struct exanest_translation *translation = xa_load(&space->spans, index);
	int error;

	if (translation)
		return translation;
	while (space->count >= max(READ_ONCE(translations_max), TRANSLATIONS_MIN))
		space_evict(space);

	translation = translation_alloc();
	if (!translation)
		return ERR_PTR(-ENOMEM);
	rwlock_init(&translation->lock);
	translation->space = space;
	translation->used = true;
	error = mmu_interval_notifier_insert(&translation->notifier, space->mm,
					     index << EXANEST_SPAN_SHIFT, EXANEST_SPAN_SIZE,
					     &translation_ops);
	if (error)
		goto free;
	error = xa_err(xa_store(&space->spans, index, translation, GFP_KERNEL_ACCOUNT));
	if (error)
		goto remove;
	space->count++;
	smp_mb(); /* see exanest_space_invalidate */
	return translation;

remove:
	mmu_interval_notifier_remove(&translation->notifier);
free:
	kfree(translation->entries);
	kfree(translation);
	return ERR_PTR(error);
}

/*
 * What hmm_range_fault finds in page tables, but the engine must not touch
 * through the kernel's own mapping: secret memory is not in that, device
 * memory may go without notice, and shadow stacks are writable to the
 * processor's call instruction only. mmap_lock is held. Returns whether there
 * was such a page.
 */
static bool fill_exclude(struct exanest_space *space, const struct hmm_range *range)
{
	unsigned long address = range->start, end, keep, *entry;
	struct vm_area_struct *vma;
	bool excluded = false;

	while (address < range->end) {
		vma = find_vma(space->mm, address);
		if (!vma || vma->vm_start >= range->end)
			break;
		address = max(address, vma->vm_start);
		end = min(range->end, vma->vm_end);
		keep = ~0UL;
		if (vma->vm_flags & VM_SHADOW_STACK)
			keep = ~HMM_PFN_WRITE;
		if (vma->vm_file &&
		    (vma_is_dax(vma) || file_inode(vma->vm_file)->i_sb->s_magic == SECRETMEM_MAGIC))
			keep = 0;
		for (; address < end; address += PAGE_SIZE) {
			entry = &range->hmm_pfns[(address - range->start) >> PAGE_SHIFT];
			if (!(*entry & HMM_PFN_VALID))
				continue;
			if (is_zone_device_page(hmm_pfn_to_page(*entry)))
				keep = 0;
			excluded |= *entry & ~keep & EXANEST_ENTRY_WRITE;
			*entry &= keep;
		}
	}
	return excluded;
}

/* Enter what was found, unless the kernel changed it meanwhile. */
static bool fill_enter(struct exanest_translation *translation, const struct hmm_range *range)
{
	struct exanest_space *space = translation->space;
	unsigned int first = (range->start - span_start(translation)) >> PAGE_SHIFT;
	unsigned int count = (range->end - range->start) >> PAGE_SHIFT;
	bool entered = false;
	unsigned int i;

	write_lock(&translation->lock);
	if (READ_ONCE(space->gone) ||
	    mmu_interval_read_retry(&translation->notifier, range->notifier_seq))
		goto unlock;
	for (i = 0; i < count; i++) {
		unsigned long entry = range->hmm_pfns[i];

		if (entry & HMM_PFN_ERROR || !(entry & HMM_PFN_VALID))
			entry = 0;
		translation->entries[first + i] = entry;
	}
	entered = true;
unlock:
	write_unlock(&translation->lock);
	return entered;
}

int exanest_translation_fill(struct exanest_translation *translation, unsigned int first,
			     unsigned int count, unsigned long request)
{
	struct exanest_space *space = translation->space;
	struct hmm_range range = {
		.notifier = &translation->notifier,
		.start = span_start(translation) + ((unsigned long)first << PAGE_SHIFT),
		.hmm_pfns = space->buffer,
		.default_flags = request,
	};
	int tries, error;
	bool excluded;

	range.end = range.start + ((unsigned long)count << PAGE_SHIFT);
	for (tries = 0; tries < FILL_TRIES; tries++) {
		range.notifier_seq = mmu_interval_read_begin(range.notifier);
		memset(range.hmm_pfns, 0, count * sizeof(*range.hmm_pfns));
		mmap_read_lock(space->mm);
		error = hmm_range_fault(&range);
		excluded = !error && fill_exclude(space, &range);
		mmap_read_unlock(space->mm);
		if (error == -EBUSY)
			continue;
		if (error)
			return error;
		if (request && excluded)
			return -EFAULT;
		if (fill_enter(translation, &range)) {
			exanest_count(space->counters, EXANEST_TRANSLATION_FILLS, count);
			return 0;
		}
		if (READ_ONCE(space->gone))
			return -ESRCH;
	}
	return -EBUSY;
}

unsigned int exanest_translation_missing(struct exanest_translation *translation,
					 unsigned int first, unsigned int end, bool write)
{
	unsigned long want = write ? EXANEST_ENTRY_WRITE : HMM_PFN_VALID;

	while (first < end && (READ_ONCE(translation->entries[first]) & want) == want)
		first++;
	return first;
}

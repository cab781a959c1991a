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

/* Of a span that is on its way out. */
#define HOLDERS_REMOVED (-1)

/* Fewer spans than this, and two sides of one transfer could push each other out for ever. */
#define TRANSLATIONS_MIN 64U

static uint translations_max = 8192;
module_param(translations_max, uint, 0644);
MODULE_PARM_DESC(translations_max, "2 MiB ranges that one process may keep translations of");

static LIST_HEAD(spaces);
static DEFINE_MUTEX(spaces_lock);

/*
 * The lock is held for writing, or the caller alone has the translation. accessed is
 * cleared bit by bit elsewhere at the same time: at worst a page looks young
 * once more.
 */
static void translation_clear(struct exanest_translation *translation, unsigned int first,
			      unsigned int count)
{
	unsigned int page;

	/* The page frame stays, for exanest_translation_mark. */
	for (page = first; page < first + count; page++)
		translation->entries[page] &= ~HMM_PFN_FLAGS;
	bitmap_clear(translation->accessed, first, count);
	bitmap_clear(translation->dirty, first, count);
}

static bool space_invalidate(struct exanest_space *space, unsigned long start, unsigned long end,
			     bool may_block)
{
	const struct exanest_space_operations *operations = space->operations;

	return !operations->invalidate || operations->invalidate(space, start, end, may_block);
}

/*
 * The kernel is about to change something in the range. Where it must not
 * block (the OOM reaper), waiting for the lock is still right: it is a
 * spinning one, and held for one block. An engine may have to refuse: then the
 * kernel leaves the pages alone.
 */
static bool translation_invalidate(struct mmu_interval_notifier *notifier,
				   const struct mmu_notifier_range *range, unsigned long sequence)
{
	struct exanest_translation *translation = container_of(notifier, struct exanest_translation,
							       notifier);
	unsigned long start = max(range->start, exanest_translation_start(translation));
	unsigned long end = min(range->end,
				exanest_translation_start(translation) + EXANEST_SPAN_SIZE);
	unsigned int first = (start & (EXANEST_SPAN_SIZE - 1)) >> PAGE_SHIFT;
	unsigned int count = DIV_ROUND_UP(end - start, PAGE_SIZE);

	write_lock(&translation->lock);
	mmu_interval_set_seq(notifier, sequence);
	translation_clear(translation, first, count);
	write_unlock(&translation->lock);

	atomic64_inc(&translation->space->invalidations);
	trace_exanest_invalidate(start, end, range->event);
	return space_invalidate(translation->space, start, end,
				mmu_notifier_range_blockable(range));
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

static exanest_young space_clear_young(struct mmu_notifier *notifier, struct mm_struct *mm,
				       unsigned long start, unsigned long end)
{
	return space_young(container_of(notifier, struct exanest_space, notifier), start, end,
			   true);
}

static exanest_young space_test_young(struct mmu_notifier *notifier, struct mm_struct *mm,
				      unsigned long address)
{
	return space_young(container_of(notifier, struct exanest_space, notifier), address,
			   address + PAGE_SIZE, false);
}

/* The last user of the mm is gone: exit, or exec, while the descriptor lives on. */
static void space_release(struct mmu_notifier *notifier, struct mm_struct *mm)
{
	struct exanest_space *space = container_of(notifier, struct exanest_space, notifier);
	struct exanest_space_user *user;

	mutex_lock(&space->users_lock);
	list_for_each_entry(user, &space->users, link)
		user->gone(user);
	mutex_unlock(&space->users_lock);
}

static const struct mmu_notifier_ops space_ops = {
	.release = space_release,
	.clear_flush_young = space_clear_young,
	.clear_young = space_clear_young,
	.test_young = space_test_young,
};

/* spaces_lock is held. */
static struct exanest_space *space_find(const struct mm_struct *mm, const void *engine)
{
	struct exanest_space *space;

	list_for_each_entry(space, &spaces, link)
		if (space->mm == mm && space->engine == engine && space->joined)
			return space;
	return NULL;
}

/* spaces_lock, and the mm's lock for writing, are held. */
static struct exanest_space *space_create(const struct exanest_space_operations *operations,
					  void *engine)
{
	struct exanest_space *space = kzalloc(sizeof(*space), GFP_KERNEL_ACCOUNT);
	int error;

	if (!space)
		return ERR_PTR(-ENOMEM);
	INIT_LIST_HEAD(&space->users);
	mutex_init(&space->users_lock);
	mutex_init(&space->lock);
	xa_init_flags(&space->spans, XA_FLAGS_ACCOUNT);
	space->mm = current->mm;
	space->operations = operations;
	space->engine = engine;
	error = operations->attach ? operations->attach(space) : 0;
	if (error)
		goto free;
	space->attached = true;
	space->notifier.ops = &space_ops;
	error = __mmu_notifier_register(&space->notifier, space->mm);
	if (error)
		goto detach;
	mmgrab(space->mm);
	list_add(&space->link, &spaces);
	return space;

detach:
	if (operations->detach)
		operations->detach(space);
free:
	kfree(space);
	return ERR_PTR(error == -EINTR ? -ERESTARTNOINTR : error);
}

int exanest_space_join(struct exanest_space_user *user,
		       const struct exanest_space_operations *operations, void *engine)
{
	struct mm_struct *mm = current->mm;
	struct exanest_space *space;

	/*
	 * First, and killable: a thread of this process can hold it for as long as it likes, for
	 * example in a page fault that a file system of its own serves, and others need spaces_lock.
	 */
	if (mmap_write_lock_killable(mm))
		return -EINTR;
	mutex_lock(&spaces_lock);
	space = space_find(mm, engine);
	if (!space)
		space = space_create(operations, engine);
	if (!IS_ERR(space))
		space->joined++;
	mutex_unlock(&spaces_lock);
	mmap_write_unlock(mm);
	if (IS_ERR(space))
		return PTR_ERR(space);
	user->space = space;
	/* Not under spaces_lock: a process that ends holds it until its blocks have come back. */
	mutex_lock(&space->users_lock);
	list_add(&user->link, &space->users);
	mutex_unlock(&space->users_lock);
	return 0;
}

static void translation_free(struct rcu_head *rcu)
{
	struct exanest_translation *translation = container_of(rcu, struct exanest_translation,
							       rcu);

	kfree(translation->entries);
	kfree(translation);
}

/*
 * The lock of the space is held, or nothing else uses it. The entries are cleared
 * first: an engine may still have the span in hand.
 */
static void translation_remove(struct exanest_translation *translation)
{
	struct exanest_space *space = translation->space;
	unsigned long start = exanest_translation_start(translation);

	write_lock(&translation->lock);
	translation_clear(translation, 0, EXANEST_SPAN_PAGES);
	write_unlock(&translation->lock);
	space_invalidate(space, start, start + EXANEST_SPAN_SIZE, true);
	xa_erase(&space->spans, start >> EXANEST_SPAN_SHIFT);
	space->count--;
	mmu_interval_notifier_remove(&translation->notifier);
	call_rcu(&translation->rcu, translation_free);
}

/* spaces_lock is held. */
static void space_detach(struct exanest_space *space)
{
	if (space->attached && space->operations->detach)
		space->operations->detach(space);
	space->attached = false;
}

static void space_destroy(struct exanest_space *space)
{
	struct exanest_translation *translation;
	unsigned long index;

	xa_for_each(&space->spans, index, translation) {
		translation_remove(translation);
		cond_resched();
	}
	xa_destroy(&space->spans);
	mutex_lock(&spaces_lock);
	space_detach(space);
	list_del(&space->link);
	mutex_unlock(&spaces_lock);
	mmu_notifier_unregister(&space->notifier, space->mm);
	mmdrop(space->mm);
	kfree(space);
}

void exanest_space_quit(struct exanest_space_user *user)
{
	struct exanest_space *space = user->space;
	bool last;

	mutex_lock(&space->users_lock);
	list_del(&user->link);
	mutex_unlock(&space->users_lock);
	mutex_lock(&spaces_lock);
	last = !--space->joined;
	mutex_unlock(&spaces_lock);
	if (last) /* it is found no more, except by exanest_spaces_detach */
		space_destroy(space);
}

void exanest_spaces_detach(const void *engine)
{
	struct exanest_space *space;

	mutex_lock(&spaces_lock);
	list_for_each_entry(space, &spaces, link)
		if (space->engine == engine)
			space_detach(space);
	mutex_unlock(&spaces_lock);
}

/*
 * Second chance: the first span from the hand on that was not used since the hand came by,
 * and that no resolver works on. false: there is none.
 */
static bool space_evict(struct exanest_space *space)
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
		if (atomic_cmpxchg(&translation->holders, 0, HOLDERS_REMOVED))
			continue;
		translation_remove(translation);
		return true;
	}
	return false;
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

/* The lock of the space is held. */
static struct exanest_translation *translation_create(struct exanest_space *space,
						      unsigned long index)
{
	struct exanest_translation *translation;
	int error;

	while (space->count >= max(READ_ONCE(translations_max), TRANSLATIONS_MIN) &&
	       space_evict(space))
		continue;

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
	return translation;

remove:
	mmu_interval_notifier_remove(&translation->notifier);
free:
	kfree(translation->entries);
	kfree(translation);
	return ERR_PTR(error);
}

struct exanest_translation *exanest_translation_get(struct exanest_space *space,
						    unsigned long address)
{
	unsigned long index = address >> EXANEST_SPAN_SHIFT;
	struct exanest_translation *translation;
	bool held;

	rcu_read_lock();
	translation = xa_load(&space->spans, index);
	held = translation && atomic_inc_unless_negative(&translation->holders);
	rcu_read_unlock();
	if (held)
		return translation;

	mutex_lock(&space->lock);
	translation = xa_load(&space->spans, index);
	if (!translation)
		translation = translation_create(space, index);
	if (!IS_ERR(translation))
		atomic_inc(&translation->holders);
	mutex_unlock(&space->lock);
	return translation;
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

/*
 * hmm_range_fault says -EFAULT, too, where there was no memory for a page. The page fault
 * is repeated to learn its reason. 0: memory was given back meanwhile, or hmm_range_fault has a
 * reason of its own. mmap_lock is held. Without FAULT_FLAG_ALLOW_RETRY it waits for no
 * process (userfaultfd).
 */
static int fill_fault_again(const struct hmm_range *range, struct mm_struct *mm)
{
	struct vm_area_struct *vma = vma_lookup(mm, range->start);
	unsigned int flags = FAULT_FLAG_REMOTE;

	if (!vma || vma->vm_flags & (VM_IO | VM_PFNMAP))
		return -EFAULT;
	if (range->default_flags & HMM_PFN_REQ_WRITE)
		flags |= FAULT_FLAG_WRITE;
	return fixup_user_fault(mm, range->start, flags, NULL);
}

/* Enter what was found, unless the kernel changed it meanwhile: then -EAGAIN. */
static int fill_enter(struct exanest_translation *translation, const struct hmm_range *range)
{
	const struct exanest_space_operations *operations = translation->space->operations;
	unsigned int first = (range->start - exanest_translation_start(translation)) >> PAGE_SHIFT;
	unsigned int count = (range->end - range->start) >> PAGE_SHIFT;
	int error = -EAGAIN;
	unsigned int i;

	write_lock(&translation->lock);
	if (mmu_interval_read_retry(&translation->notifier, range->notifier_seq))
		goto unlock;
	for (i = 0; i < count; i++) {
		unsigned long entry = range->hmm_pfns[i];

		if (entry & HMM_PFN_ERROR || !(entry & HMM_PFN_VALID))
			entry = 0;
		translation->entries[first + i] = entry;
	}
	/* An engine may have marked pages after they were cleared here. */
	bitmap_clear(translation->dirty, first, count);
	error = operations->map ? operations->map(translation, first, count) : 0;
	if (error)
		translation_clear(translation, first, count);
unlock:
	write_unlock(&translation->lock);
	return error;
}

int exanest_translation_fill(struct exanest_translation *translation, unsigned int first,
			     unsigned int count, unsigned long request, unsigned long *buffer)
{
	struct exanest_space *space = translation->space;
	struct hmm_range range = {
		.notifier = &translation->notifier,
		.start = exanest_translation_start(translation) +
			 ((unsigned long)first << PAGE_SHIFT),
		.hmm_pfns = buffer,
		.default_flags = request,
	};
	int tries, reason, error;
	bool excluded;

	range.end = range.start + ((unsigned long)count << PAGE_SHIFT);
	for (tries = 0; tries < FILL_TRIES; tries++) {
		range.notifier_seq = mmu_interval_read_begin(range.notifier);
		memset(range.hmm_pfns, 0, count * sizeof(*range.hmm_pfns));
		mmap_read_lock(space->mm);
		error = hmm_range_fault(&range);
		excluded = !error && fill_exclude(space, &range);
		reason = error == -EFAULT && count == 1 ? fill_fault_again(&range, space->mm) :
							  error;
		mmap_read_unlock(space->mm);
		if (error && (!reason || reason == -EBUSY))
			continue;
		if (error)
			return reason;
		if (request && excluded)
			return -EFAULT;
		error = fill_enter(translation, &range);
		if (error != -EAGAIN)
			return error;
		error = -EBUSY;
	}
	return error;
}

unsigned int exanest_translation_missing(struct exanest_translation *translation,
					 unsigned int first, unsigned int end, bool write)
{
	unsigned long want = write ? EXANEST_ENTRY_WRITE : HMM_PFN_VALID;
	const unsigned long *entries = translation->entries;

	/* As a rule all are there: four at a time. */
	while (first + 4 <= end &&
	       (READ_ONCE(entries[first]) & READ_ONCE(entries[first + 1]) &
		READ_ONCE(entries[first + 2]) & READ_ONCE(entries[first + 3]) & want) == want)
		first += 4;
	while (first < end && (READ_ONCE(entries[first]) & want) == want)
		first++;
	return first;
}

void exanest_translation_mark(struct exanest_translation *translation, unsigned int offset,
			      unsigned int length, bool write)
{
	unsigned long page = offset >> PAGE_SHIFT;
	unsigned long end = ((offset + length - 1) >> PAGE_SHIFT) + 1;

	/* In a buffer in use, all of these bits are set. */
	if (!READ_ONCE(translation->used))
		WRITE_ONCE(translation->used, true);
	for_each_clear_bit_from(page, translation->accessed, end)
		set_bit(page, translation->accessed);
	if (!write)
		return;
	page = offset >> PAGE_SHIFT;
	for_each_clear_bit_from(page, translation->dirty, end) {
		set_bit(page, translation->dirty);
		folio_mark_dirty(page_folio(hmm_pfn_to_page(translation->entries[page])));
	}
}

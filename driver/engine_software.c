// SPDX-License-Identifier: GPL-2.0
/*
 * The software engine: kernel threads that copy between the pages of both
 * sides, through the kernel's own mapping of all memory.
 */
#include <linux/cpumask.h>
#include <linux/highmem.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/wait.h>

#include "compat.h"
#include "context.h"
#include "engine.h"
#include "transfer.h"
#include "translation.h"

#define THREADS_MAX 64U

static uint engine_threads;
module_param(engine_threads, uint, 0444);
MODULE_PARM_DESC(engine_threads, "Threads that move blocks; 0: one for two processors, at most 8");

static char *engine_cpus = "";
module_param(engine_cpus, charp, 0444);
MODULE_PARM_DESC(engine_cpus, "List of processors that they are bound to in turn; empty: none");

static struct task_struct *threads[THREADS_MAX];
static DECLARE_WAIT_QUEUE_HEAD(threads_wait);

/* A stretch of one side within one span, its translation held for reading. */
struct stretch {
	struct exanest_translation *translation;
	u32 side;
	unsigned int offset; /* in the span */
	unsigned int first, end; /* pages */
	bool write;
};

/* Returns whether it is held and all of it is there; else *missing is the first byte that is not. */
static bool stretch_hold(struct stretch *stretch, struct exanest_context *owner, u64 address,
			 u32 length, u64 *missing)
{
	struct exanest_translation *translation = exanest_translation_find(&owner->space, address);
	unsigned int page;

	*missing = address;
	if (!translation || !read_trylock(&translation->lock))
		return false;
	stretch->translation = translation;
	stretch->offset = address & (EXANEST_SPAN_SIZE - 1);
	stretch->first = stretch->offset >> PAGE_SHIFT;
	stretch->end = ((stretch->offset + length - 1) >> PAGE_SHIFT) + 1;
	page = exanest_translation_missing(translation, stretch->first, stretch->end,
					   stretch->write);
	if (page == stretch->end)
		return true;
	*missing = max(address, (address & ~(EXANEST_SPAN_SIZE - 1)) + ((u64)page << PAGE_SHIFT));
	read_unlock(&translation->lock);
	return false;
}

/* Bits are looked at before they are set: in a buffer in use they are. */
static void stretch_release(struct stretch *stretch)
{
	struct exanest_translation *translation = stretch->translation;
	unsigned int page;

	if (!READ_ONCE(translation->used))
		WRITE_ONCE(translation->used, true);
	for (page = stretch->first; page < stretch->end; page++) {
		if (!test_bit(page, translation->accessed))
			set_bit(page, translation->accessed);
		if (stretch->write && !test_bit(page, translation->dirty)) {
			set_bit(page, translation->dirty);
			folio_mark_dirty(page_folio(hmm_pfn_to_page(translation->entries[page])));
		}
	}
	read_unlock(&translation->lock);
}

/* Bytes from an offset in the span on that lie in one piece of memory, at most most. */
static unsigned int stretch_contiguous(const struct stretch *stretch, unsigned int offset,
				       unsigned int most)
{
	unsigned int page = offset >> PAGE_SHIFT;
	unsigned int bytes = PAGE_SIZE - offset_in_page(offset);
	unsigned long pfn = stretch->translation->entries[page] & ~HMM_PFN_FLAGS;

	while (bytes < most &&
	       (stretch->translation->entries[++page] & ~HMM_PFN_FLAGS) == ++pfn)
		bytes += PAGE_SIZE;
	return min(bytes, most);
}

static void *stretch_map(const struct stretch *stretch, unsigned int offset)
{
	return kmap_local_page(hmm_pfn_to_page(
		       stretch->translation->entries[offset >> PAGE_SHIFT])) +
	       offset_in_page(offset);
}

/* Whole pages have a copy of their own, the best that the architecture knows. */
static void copy(void *to, const void *from, unsigned int length)
{
	if (offset_in_page(to) | offset_in_page(from)) {
		memcpy(to, from, length);
		return;
	}
	for (; length >= PAGE_SIZE; length -= PAGE_SIZE) {
		copy_page(to, (void *)from);
		to += PAGE_SIZE;
		from += PAGE_SIZE;
	}
	memcpy(to, from, length);
}

/*
 * A mapping made for the first page of a piece serves all of it: a 64-bit
 * kernel maps what is contiguous in memory contiguously (see compat.h).
 */
static void stretch_copy(const struct stretch *to, const struct stretch *from, unsigned int length)
{
	unsigned int done, bytes;
	void *destination, *source;

	for (done = 0; done < length; done += bytes) {
		bytes = stretch_contiguous(from, from->offset + done, length - done);
		bytes = stretch_contiguous(to, to->offset + done, bytes);
		source = stretch_map(from, from->offset + done);
		destination = stretch_map(to, to->offset + done);
		copy(destination, source, bytes);
		kunmap_local(destination);
		kunmap_local(source);
	}
}

/* The process's own processors may change the same word at the same time. */
static u64 atomic_32(u32 *word, const struct exanest_submission *s)
{
	switch (s->atomic) {
	case EXANEST_ATOMIC_ADD:
		return (u32)atomic_fetch_add((u32)s->operand, (atomic_t *)word);
	case EXANEST_ATOMIC_AND:
		return (u32)atomic_fetch_and((u32)s->operand, (atomic_t *)word);
	case EXANEST_ATOMIC_OR:
		return (u32)atomic_fetch_or((u32)s->operand, (atomic_t *)word);
	case EXANEST_ATOMIC_XOR:
		return (u32)atomic_fetch_xor((u32)s->operand, (atomic_t *)word);
	case EXANEST_ATOMIC_SWAP:
		return xchg(word, (u32)s->operand);
	default:
		return cmpxchg(word, (u32)s->compare, (u32)s->operand);
	}
}

static u64 atomic_64(u64 *word, const struct exanest_submission *s)
{
	switch (s->atomic) {
	case EXANEST_ATOMIC_ADD:
		return atomic64_fetch_add(s->operand, (atomic64_t *)word);
	case EXANEST_ATOMIC_AND:
		return atomic64_fetch_and(s->operand, (atomic64_t *)word);
	case EXANEST_ATOMIC_OR:
		return atomic64_fetch_or(s->operand, (atomic64_t *)word);
	case EXANEST_ATOMIC_XOR:
		return atomic64_fetch_xor(s->operand, (atomic64_t *)word);
	case EXANEST_ATOMIC_SWAP:
		return xchg(word, s->operand);
	default:
		return cmpxchg(word, s->compare, s->operand);
	}
}

static void stretch_atomic(const struct stretch *stretch, struct exanest_transfer *transfer)
{
	void *word = stretch_map(stretch, stretch->offset);

	if (transfer->submission.length == 4)
		transfer->value = atomic_32(word, &transfer->submission);
	else
		transfer->value = atomic_64(word, &transfer->submission);
	kunmap_local(word);
}

static u32 to_end_of_span(u64 address, u32 length)
{
	return min_t(u64, length, EXANEST_SPAN_SIZE - (address & (EXANEST_SPAN_SIZE - 1)));
}

/*
 * Move what both sides have within one span each. RCU keeps the translations,
 * which eviction may be about to free, until their locks are held, and they
 * cannot be freed then. Returns the bytes moved; 0: fault.
 */
static u32 move_stretch(struct exanest_block *block)
{
	struct exanest_transfer *transfer = block->transfer;
	bool put = exanest_block_writes(block, EXANEST_SIDE_REMOTE);
	struct stretch local = { .side = EXANEST_SIDE_LOCAL, .write = !put };
	struct stretch remote = { .side = EXANEST_SIDE_REMOTE, .write = put };
	bool atomic = transfer->submission.op == EXANEST_OP_ATOMIC;
	u64 here = exanest_block_address(block, EXANEST_SIDE_LOCAL);
	u64 there = exanest_block_address(block, EXANEST_SIDE_REMOTE);
	u32 length = to_end_of_span(there, block->length);
	u32 side = EXANEST_SIDE_REMOTE;
	u64 missing;

	if (!atomic)
		length = to_end_of_span(here, length);

	rcu_read_lock();
	if (!stretch_hold(&remote, transfer->peer, there, length, &missing))
		goto fault;
	if (atomic) {
		stretch_atomic(&remote, transfer);
		goto moved;
	}
	if (!stretch_hold(&local, transfer->context, here, length, &missing)) {
		read_unlock(&remote.translation->lock);
		side = EXANEST_SIDE_LOCAL;
		goto fault;
	}
	if (put)
		stretch_copy(&remote, &local, length);
	else
		stretch_copy(&local, &remote, length);
	stretch_release(&local);
moved:
	stretch_release(&remote);
	rcu_read_unlock();
	return length;

fault:
	rcu_read_unlock();
	exanest_block_fault(block, side, missing);
	return 0;
}

static void software_move(struct exanest_engine *engine, struct exanest_block *block)
{
	u32 total = block->length, moved;

	while (block->length) {
		moved = move_stretch(block);
		if (!moved)
			return;
		block->offset += moved;
		block->length -= moved;
	}
	exanest_block_done(block, total);
}

static int software_thread(void *data)
{
	struct exanest_engine *engine = data;

	while (!kthread_should_stop()) {
		if (exanest_engine_serve(engine)) {
			cond_resched();
			continue;
		}
		wait_event_idle_exclusive(threads_wait,
					  !exanest_engine_idle(engine) || kthread_should_stop());
	}
	return 0;
}

static void software_wake(struct exanest_engine *engine)
{
	wake_up(&threads_wait);
}

static void software_stop(struct exanest_engine *engine)
{
	unsigned int i;

	for (i = 0; i < THREADS_MAX && threads[i]; i++) {
		kthread_stop(threads[i]);
		threads[i] = NULL;
	}
}

static int software_start(struct exanest_engine *engine)
{
	unsigned int count = engine_threads, cpu = -1, i;
	struct task_struct *thread;
	cpumask_var_t cpus;
	int error;

	if (!count)
		count = clamp(num_online_cpus() / 2, 1U, 8U);
	count = min(count, THREADS_MAX);
	if (!zalloc_cpumask_var(&cpus, GFP_KERNEL))
		return -ENOMEM;
	error = cpulist_parse(engine_cpus, cpus);
	if (!error && !cpumask_empty(cpus) && !cpumask_subset(cpus, cpu_online_mask))
		error = -EINVAL;
	if (error) {
		pr_err("exanest: engine_cpus=%s is no list of online processors\n", engine_cpus);
		goto free;
	}

	for (i = 0; i < count; i++) {
		thread = kthread_create(software_thread, engine, "exanest/%u", i);
		if (IS_ERR(thread)) {
			error = PTR_ERR(thread);
			software_stop(engine);
			goto free;
		}
		if (!cpumask_empty(cpus)) {
			cpu = cpumask_next(cpu, cpus);
			if (cpu >= nr_cpu_ids)
				cpu = cpumask_first(cpus);
			kthread_bind(thread, cpu);
		}
		threads[i] = thread;
		wake_up_process(thread);
	}
free:
	free_cpumask_var(cpus);
	return error;
}

const struct exanest_engine_operations exanest_software_engine = {
	.name = "software",
	.features = EXANEST_FEATURE_ATOMICS,
	.start = software_start,
	.stop = software_stop,
	.wake = software_wake,
	.move = software_move,
};

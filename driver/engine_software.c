// SPDX-License-Identifier: GPL-2.0
/*
 * The software engine: kernel threads that copy between the pages of both
 * sides, through the kernel's own mapping of all memory.
 */
#include <linux/cpumask.h>
#include <linux/io.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/wait.h>

#include "compat.h"
#include "context.h"
#include "engine.h"
#include "priority.h"
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

/* A stretch of one side within one span. */
struct stretch {
	struct exanest_translation *translation;
	unsigned int offset;     /* in the span */
	unsigned int first, end; /* pages */
	bool write;
};

static bool stretch_find(struct stretch *stretch, struct exanest_context *owner, u64 address,
			 u32 length)
{
	stretch->translation = exanest_translation_find(&owner->space, address);
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

/* Its lock is held. In a buffer in use, all of these bits are set. */
static void stretch_mark(const struct stretch *stretch, u32 length)
{
	struct exanest_translation *translation = stretch->translation;
	unsigned long end = ((stretch->offset + length - 1) >> PAGE_SHIFT) + 1, page;

	if (!READ_ONCE(translation->used))
		WRITE_ONCE(translation->used, true);
	page = stretch->first;
	for_each_clear_bit_from(page, translation->accessed, end)
		set_bit(page, translation->accessed);
	if (!stretch->write)
		return;
	page = stretch->first;
	for_each_clear_bit_from(page, translation->dirty, end) {
		set_bit(page, translation->dirty);
		folio_mark_dirty(page_folio(hmm_pfn_to_page(translation->entries[page])));
	}
}

/* All memory is mapped (compat.h), so a page frame number is as good as an address. */
static void *stretch_at(const struct stretch *stretch, unsigned int offset)
{
	unsigned long entry = stretch->translation->entries[offset >> PAGE_SHIFT];

	return phys_to_virt(PFN_PHYS(entry & ~HMM_PFN_FLAGS)) + offset_in_page(offset);
}

static void stretch_copy(const struct stretch *to, const struct stretch *from, unsigned int length)
{
	unsigned int done = 0, bytes, rest;

	/* Where pages of both sides begin together, whole ones have the architecture's own copy. */
	if (!offset_in_page(to->offset | from->offset))
		for (; done + PAGE_SIZE <= length; done += PAGE_SIZE)
			copy_page(stretch_at(to, to->offset + done),
				  stretch_at(from, from->offset + done));
	for (; done < length; done += bytes) {
		rest = PAGE_SIZE -
		       max(offset_in_page(to->offset + done), offset_in_page(from->offset + done));
		bytes = min(length - done, rest);
		memcpy(stretch_at(to, to->offset + done), stretch_at(from, from->offset + done),
		       bytes);
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
	void *word = stretch_at(stretch, stretch->offset);

	if (transfer->submission.length == 4)
		transfer->value = atomic_32(word, &transfer->submission);
	else
		transfer->value = atomic_64(word, &transfer->submission);
}

static u32 to_end_of_span(u64 address, u32 length)
{
	return min_t(u64, length, EXANEST_SPAN_SIZE - (address & (EXANEST_SPAN_SIZE - 1)));
}

/* The remote side is held. Returns the bytes moved; 0: the local side's first is not there. */
static u32 move_local(const struct exanest_block *block, const struct stretch *remote, u32 length)
{
	struct stretch local = { .write = !remote->write };

	if (!stretch_find(&local, block->transfer->context,
			  exanest_block_address(block, EXANEST_SIDE_LOCAL), length))
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

/* Of what both sides have within one span each. Returns the bytes moved; 0: fault, on *side. */
static u32 move_sides(const struct exanest_block *block, u32 length, u32 *side)
{
	struct exanest_transfer *transfer = block->transfer;
	struct stretch remote = { .write = exanest_block_writes(block, EXANEST_SIDE_REMOTE) };

	*side = EXANEST_SIDE_REMOTE;
	if (!stretch_find(&remote, transfer->peer,
			  exanest_block_address(block, EXANEST_SIDE_REMOTE), length))
		return 0;
	if (!read_trylock(&remote.translation->lock))
		return 0;
	length = stretch_present(&remote, length);
	if (length) {
		*side = EXANEST_SIDE_LOCAL;
		if (transfer->submission.op == EXANEST_OP_ATOMIC)
			stretch_atomic(&remote, transfer);
		else
			length = move_local(block, &remote, length);
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
static void software_move(struct exanest_engine *engine, struct exanest_block *block)
{
	bool atomic = block->transfer->submission.op == EXANEST_OP_ATOMIC;
	u32 total = 0, length, side;

	while (block->length) {
		length = to_end_of_span(exanest_block_address(block, EXANEST_SIDE_REMOTE),
					block->length);
		if (!atomic)
			length = to_end_of_span(exanest_block_address(block, EXANEST_SIDE_LOCAL),
						length);
		rcu_read_lock();
		length = move_sides(block, length, &side);
		rcu_read_unlock();
		if (!length)
			break;
		block->offset += length;
		block->length -= length;
		total += length;
	}
	exanest_block_moved(block, total);
	if (block->length)
		exanest_block_fault(block, side);
	else
		exanest_block_done(block);
}

static int software_thread(void *data)
{
	struct exanest_engine *engine = data;
	struct exanest_priority priority;

	exanest_priority_start(&priority);
	while (!kthread_should_stop()) {
		if (exanest_engine_serve(engine)) {
			exanest_priority_spend(&priority);
			cond_resched();
			continue;
		}
		exanest_priority_sleep(&priority);
		wait_event_idle_exclusive(threads_wait,
					  !exanest_engine_idle(engine) || kthread_should_stop());
		exanest_priority_wake(&priority);
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

// SPDX-License-Identifier: GPL-2.0
#include <linux/interval_tree.h>
#include <linux/jiffies.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "context.h"
#include "pager.h"
#include "ring.h"
#include "trace.h"
#include "transfer.h"

#define RANGES_MAX 1024

static uint pager_timeout_ms = 10000;
module_param(pager_timeout_ms, uint, 0644);
MODULE_PARM_DESC(pager_timeout_ms, "How long, ms, a process may take to answer a fault event");

static unsigned long timeout_jiffies(void)
{
	return msecs_to_jiffies(clamp(READ_ONCE(pager_timeout_ms), 1U, 3600U * MSEC_PER_SEC));
}

/* lock is held. The block is the caller's from here on. */
static void waiting_remove(struct exanest_block *block)
{
	list_del_init(&block->link);
	block->waits = false;
}

/* lock is held. Moves all that wait, or those whose time is up, to list. */
static void waiting_take(struct exanest_pagers *pager, bool all, struct list_head *list)
{
	struct exanest_block *block, *next;

	list_for_each_entry_safe(block, next, &pager->waiting, link) {
		if (!all && time_before(jiffies, block->expires))
			break;
		waiting_remove(block);
		list_add_tail(&block->link, list);
	}
}

/* lock is held. The context is counted for the work. */
static void timeout_arm(struct exanest_context *context, unsigned long delay)
{
	exanest_context_get(context);
	if (!queue_delayed_work(exanest_workqueue, &context->pager.timeout, delay))
		exanest_context_put(context);
}

static void pager_timeout(struct work_struct *work)
{
	struct exanest_pagers *pager = container_of(to_delayed_work(work), struct exanest_pagers,
						    timeout);
	struct exanest_context *context = container_of(pager, struct exanest_context, pager);
	struct exanest_block *block, *next;
	LIST_HEAD(late);

	spin_lock(&pager->lock);
	waiting_take(pager, false, &late);
	block = list_first_entry_or_null(&pager->waiting, struct exanest_block, link);
	if (block)
		timeout_arm(context, block->expires - jiffies + 1);
	spin_unlock(&pager->lock);

	list_for_each_entry_safe(block, next, &late, link) {
		list_del_init(&block->link);
		exanest_count(&context->counters, EXANEST_FAULTS_FAILED, 1);
		exanest_block_fail(block, -ETIMEDOUT, block->address);
	}
	exanest_context_put(context);
}

void exanest_pagers_init(struct exanest_pagers *pager)
{
	spin_lock_init(&pager->lock);
	pager->ranges = RB_ROOT_CACHED;
	INIT_LIST_HEAD(&pager->waiting);
	INIT_DELAYED_WORK(&pager->timeout, pager_timeout);
}

unsigned long exanest_pager_end(struct exanest_context *context, unsigned long address)
{
	struct exanest_pagers *pager = &context->pager;
	struct interval_tree_node *range;
	unsigned long end;

	if (!READ_ONCE(pager->range_count))
		return 0;
	spin_lock(&pager->lock);
	range = interval_tree_iter_first(&pager->ranges, address, address);
	end = range ? range->last + 1 : 0;
	spin_unlock(&pager->lock);
	return end;
}

/* lock is held. Send the events that there was no room for, oldest first. */
static void events_send(struct exanest_context *context)
{
	struct exanest_pagers *pager = &context->pager;
	struct exanest_block *block;

	list_for_each_entry(block, &pager->waiting, link) {
		struct exanest_fault fault = {
			.address = block->address & PAGE_MASK,
			.length = block->needs,
			.ticket = pager->ticket + 1,
			.write = block->write,
		};

		if (block->ticket)
			continue;
		if (!exanest_fault_post(context, &fault))
			return;
		block->ticket = ++pager->ticket;
	}
}

bool exanest_pager_forward(struct exanest_context *context, struct exanest_block *block,
			   unsigned long address, unsigned long length)
{
	struct exanest_pagers *pager = &context->pager;
	bool gone;

	exanest_count(&context->counters, EXANEST_FAULTS_PAGER, 1);
	spin_lock(&pager->lock);
	gone = exanest_context_gone(context);
	if (!gone) {
		block->address = max_t(u64, block->address, address);
		block->needs = length;
		block->ticket = 0;
		block->forwards++;
		block->expires = jiffies + timeout_jiffies();
		block->waits = true;
		if (list_empty(&pager->waiting))
			timeout_arm(context, timeout_jiffies() + 1);
		list_add_tail(&block->link, &pager->waiting);
		trace_exanest_forward(block);
		events_send(context);
	}
	spin_unlock(&pager->lock);
	return !gone;
}

bool exanest_pager_cancel(struct exanest_context *context, struct exanest_block *block)
{
	bool waits;

	spin_lock(&context->pager.lock);
	waits = block->waits;
	if (waits)
		waiting_remove(block);
	spin_unlock(&context->pager.lock);
	return waits;
}

/* Blocks that waited go on to the resolver, to see what has become of their pages. */
static void resolve_all(struct list_head *blocks)
{
	struct exanest_block *block, *next;

	list_for_each_entry_safe(block, next, blocks, link) {
		list_del_init(&block->link);
		exanest_fault_queue(block);
	}
}

void exanest_pagers_gone(struct exanest_context *context)
{
	LIST_HEAD(blocks);

	spin_lock(&context->pager.lock);
	waiting_take(&context->pager, true, &blocks);
	spin_unlock(&context->pager.lock);
	resolve_all(&blocks);
	/* Nothing waits any more, and nothing will: the timer is armed under the lock. */
	if (cancel_delayed_work(&context->pager.timeout))
		exanest_context_put(context);
}

static int range_add(struct exanest_pagers *pager, struct interval_tree_node *range)
{
	int error = 0;

	spin_lock(&pager->lock);
	if (pager->range_count == RANGES_MAX)
		error = -ENOSPC;
	else if (interval_tree_iter_first(&pager->ranges, range->start, range->last))
		error = -EEXIST;
	if (!error) {
		interval_tree_insert(range, &pager->ranges);
		WRITE_ONCE(pager->range_count, pager->range_count + 1);
	}
	spin_unlock(&pager->lock);
	return error;
}

static int range_remove(struct exanest_context *context, unsigned long start, unsigned long last)
{
	struct exanest_pagers *pager = &context->pager;
	struct interval_tree_node *range;
	LIST_HEAD(blocks);

	spin_lock(&pager->lock);
	range = interval_tree_iter_first(&pager->ranges, start, last);
	if (range && range->start == start && range->last == last) {
		interval_tree_remove(range, &pager->ranges);
		WRITE_ONCE(pager->range_count, pager->range_count - 1);
		waiting_take(pager, true, &blocks);
	} else {
		range = NULL;
	}
	spin_unlock(&pager->lock);
	if (!range)
		return -ENOENT;
	kfree(range);
	resolve_all(&blocks);
	return 0;
}

void exanest_pagers_free(struct exanest_pagers *pager)
{
	struct interval_tree_node *range;

	while ((range = interval_tree_iter_first(&pager->ranges, 0, ULONG_MAX))) {
		interval_tree_remove(range, &pager->ranges);
		kfree(range);
	}
}

long exanest_pager_ioctl(struct exanest_context *context, void __user *argument)
{
	struct exanest_ring_set *rings = smp_load_acquire(&context->rings);
	struct interval_tree_node *range;
	struct exanest_pager request;
	long error;

	error = exanest_copy_in(&request, sizeof(request), argument);
	if (error)
		return error;
	if (request.enable > 1 || !request.length ||
	    !PAGE_ALIGNED(request.address | request.length) ||
	    request.address + request.length < request.address)
		return -EINVAL;
	if (!rings || !rings->fault.entries)
		return -ENXIO;
	if (!request.enable)
		return range_remove(context, request.address, request.address + request.length - 1);

	range = kzalloc(sizeof(*range), GFP_KERNEL_ACCOUNT);
	if (!range)
		return -ENOMEM;
	range->start = request.address;
	range->last = request.address + request.length - 1;
	error = range_add(&context->pager, range);
	if (error)
		kfree(range);
	return error;
}

long exanest_resolved_ioctl(struct exanest_context *context, void __user *argument)
{
	struct exanest_ring_set *rings = smp_load_acquire(&context->rings);
	struct exanest_pagers *pager = &context->pager;
	struct exanest_block *block, *found = NULL;
	struct exanest_resolved answer;
	long error;

	error = exanest_copy_in(&answer, sizeof(answer), argument);
	if (error)
		return error;
	if (answer.status > 0 || !answer.ticket)
		return -EINVAL;
	if (!rings || !rings->fault.entries)
		return -ENXIO;

	spin_lock(&pager->lock);
	list_for_each_entry(block, &pager->waiting, link) {
		if (block->ticket == answer.ticket) {
			found = block;
			waiting_remove(found);
			break;
		}
	}
	events_send(context);
	spin_unlock(&pager->lock);
	if (!found)
		return -ENOENT;

	if (!answer.status) {
		exanest_fault_queue(found);
		return 0;
	}
	exanest_count(&context->counters, EXANEST_FAULTS_FAILED, 1);
	exanest_block_fail(found, -EFAULT, found->address);
	return 0;
}

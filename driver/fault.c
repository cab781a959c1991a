// SPDX-License-Identifier: GPL-2.0
#include <linux/cred.h>
#include <linux/ktime.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/sched/mm.h>
#include <linux/string.h>

#include "context.h"
#include "domain.h"
#include "engine.h"
#include "fault.h"
#include "pager.h"
#include "trace.h"
#include "transfer.h"
#include "translation.h"

static const char *const policy_names[] = {
	[EXANEST_POLICY_TOUCH] = "touch",
	[EXANEST_POLICY_AHEAD] = "ahead",
	[EXANEST_POLICY_HUGE] = "huge",
};

static int policy_default = EXANEST_POLICY_AHEAD;

static int policy_set(const char *value, const struct kernel_param *param)
{
	int policy;

	for (policy = EXANEST_POLICY_TOUCH; policy <= EXANEST_POLICY_HUGE; policy++) {
		if (sysfs_streq(value, policy_names[policy])) {
			WRITE_ONCE(policy_default, policy);
			return 0;
		}
	}
	return -EINVAL;
}

static int policy_get(char *buffer, const struct kernel_param *param)
{
	return sysfs_emit(buffer, "%s\n", policy_names[READ_ONCE(policy_default)]);
}

static const struct kernel_param_ops policy_operations = {
	.set = policy_set,
	.get = policy_get,
};
module_param_cb(policy, &policy_operations, NULL, 0644);
MODULE_PARM_DESC(policy, "How absent pages are brought in: touch, ahead or huge");

/* What one block needs, and what its transfer will, of the span that it met its fault in. */
struct need {
	struct exanest_translation *translation;
	u64 span;                      /* address of the span */
	unsigned int first, end, last; /* pages of the block: [first, end); its transfer's: last */
	unsigned int ahead;            /* up to which to bring in after the block is ready */
	bool write;
};

/* What is to become of the block; else a negative errno ends its transfer. */
enum { READY, FORWARDED };

static unsigned int span_pages_up_to(const struct need *need, u64 address)
{
	return DIV_ROUND_UP(min_t(u64, address - need->span, EXANEST_SPAN_SIZE), PAGE_SIZE);
}

static u64 page_address_in(const struct need *need, unsigned int page)
{
	return need->span + ((u64)page << PAGE_SHIFT);
}

/*
 * A pager may have room for less than a block, and take its first page away for
 * its last. After so many tries a page at a time is resolved, and moved.
 */
#define FORWARD_WHOLE 2

static void need_init(struct need *need, const struct exanest_block *block)
{
	const struct exanest_transfer *transfer = block->transfer;
	u64 start = exanest_block_address(block, block->side);
	u64 end = start + block->length;

	need->span = block->address & ~((u64)EXANEST_SPAN_SIZE - 1);
	need->first = (block->address - need->span) >> PAGE_SHIFT;
	need->end = span_pages_up_to(need, end);
	if (block->forwards > FORWARD_WHOLE)
		need->end = min(need->end, need->first + 1);
	need->last = span_pages_up_to(need, start - block->offset + transfer->submission.length);
	need->ahead = need->end;
	need->write = block->write;
}

/* How far beyond the block to bring pages in. */
static unsigned int need_ahead(const struct need *need, const struct exanest_context *owner,
			       struct exanest_block *block)
{
	u32 policy = owner->policy ? owner->policy : READ_ONCE(policy_default);
	u32 *window = &block->transfer->ahead[block->side];

	if (policy == EXANEST_POLICY_TOUCH)
		return need->end;
	if (policy == EXANEST_POLICY_HUGE)
		return need->last;
	*window = *window ? min(2 * *window, EXANEST_SPAN_PAGES) :
			    DIV_ROUND_UP(EXANEST_BLOCK_SIZE, PAGE_SIZE);
	return min(need->end + *window, need->last);
}

static unsigned long need_request(const struct need *need)
{
	return HMM_PFN_REQ_FAULT | (need->write ? HMM_PFN_REQ_WRITE : 0);
}

static unsigned int need_missing(const struct need *need, unsigned int from)
{
	return exanest_translation_missing(need->translation, from, need->end, need->write);
}

/* Bring pages in. An error is that of page *bad. */
static int need_bring_in(const struct need *need, unsigned int first, unsigned int end,
			 unsigned int *bad)
{
	int error = exanest_translation_fill(need->translation, first, end - first,
					     need_request(need));

	for (*bad = first; error && error != -EBUSY && *bad < end; ++*bad) {
		error = exanest_translation_fill(need->translation, *bad, 1, need_request(need));
		if (error && error != -EBUSY)
			return error;
	}
	return 0; /* what is still missing, because it was taken away again, is met again */
}

static bool need_absent(const struct need *need, unsigned int page)
{
	return !(READ_ONCE(need->translation->entries[page]) & HMM_PFN_VALID);
}

/* The process provides the page, and what is absent behind it, up to limit; up to which page. */
static unsigned int need_forward(const struct need *need, unsigned int page, u64 limit)
{
	do
		page++;
	while (page < need->end && page_address_in(need, page) < limit && need_absent(need, page));
	return page;
}

/* Resolve what the page tables do not have. */
static int need_resolve(struct need *need, struct exanest_context *owner,
			struct exanest_block *block, u64 *address)
{
	unsigned int page, end, bad;
	u64 limit;
	int error;

	for (page = need_missing(need, need->first); page < need->end;
	     page = need_missing(need, end)) {
		limit = exanest_pager_end(owner, page_address_in(need, page));
		if (limit && need_absent(need, page)) {
			end = need_forward(need, page, limit);
			*address = page_address_in(need, page);
			if (exanest_block_exhausted(block))
				return -EBUSY;
			if (exanest_pager_forward(owner, block, *address,
						  page_address_in(need, end) - *address))
				return FORWARDED;
			return -ECONNRESET;
		}
		/* One by one where a process provides some of the pages and the kernel others. */
		end = READ_ONCE(owner->pager.range_count) ? page + 1 : need->end;
		error = need_bring_in(need, page, end, &bad);
		if (error && !(limit && need_absent(need, page))) {
			*address = page_address_in(need, bad);
			return error == -ESRCH ? -ECONNRESET : error == -ENOMEM ? -ENOMEM : -EFAULT;
		}
	}
	return READY;
}

static int resolve(struct need *need, struct exanest_context *owner, struct exanest_block *block,
		   u64 *address)
{
	int error;

	*address = block->address;
	if (need->span >= owner->space.mm->task_size)
		return -EFAULT;
	need->translation = exanest_translation_get(&owner->space, need->span);
	if (IS_ERR(need->translation))
		return PTR_ERR(need->translation);

	if (need_missing(need, need->first) == need->end)
		return READY; /* an earlier block's fault brought them in */
	/* The device's page walk. What is there needs no fault. */
	error = exanest_translation_fill(need->translation, need->first, need->end - need->first,
					 0);
	if (error == -ESRCH)
		return -ECONNRESET;
	if (need_missing(need, need->first) == need->end) {
		exanest_count(&owner->counters, EXANEST_TRANSLATION_MISSES, 1);
		if (need->last > need->end)
			exanest_translation_fill(need->translation, need->end,
						 need->last - need->end, 0);
		return READY;
	}
	if (!block->counted) {
		block->counted = true;
		exanest_count(&owner->counters, EXANEST_FAULTS, 1);
	}
	trace_exanest_fault(block);
	need->ahead = need_ahead(need, owner, block);
	return need_resolve(need, owner, block, address);
}

/*
 * mmget keeps the address space while the resolver is in it; the last mmput
 * may be the one here. After exanest_block_ready the block is not ours any
 * more, but owner is (by its work) and the translation is (only the resolver
 * frees it): the pages ahead come in while the block is moved.
 */
static void fault_resolve(struct exanest_context *owner, struct exanest_block *block)
{
	struct mem_cgroup *memcg, *previous;
	u64 address = block->address, took;
	struct need need;
	int result;

	const struct cred *cred;

	need_init(&need, block);
	if (exanest_context_gone(owner) || exanest_context_gone(block->transfer->context) ||
	    !mmget_not_zero(owner->space.mm)) {
		exanest_block_fail(block, -ECONNRESET, address);
		return;
	}
	/* Quotas, limits and charges are the owner's: its faults are charged to it here, too. */
	cred = override_creds(owner->cred);
	memcg = get_mem_cgroup_from_mm(owner->space.mm);
	previous = set_active_memcg(memcg);
	result = resolve(&need, owner, block, &address);
	if (result == FORWARDED)
		goto put;
	if (result == READY) {
		took = ktime_get_ns() - block->detected;
		if (block->counted)
			exanest_count(&owner->counters, EXANEST_RESOLVE_NS, took);
		trace_exanest_resolved(block, took);
		exanest_block_ready(block);
	} else {
		exanest_count(&owner->counters, EXANEST_FAULTS_FAILED, 1);
		exanest_block_fail(block, result, max(address, block->address));
	}
	if (result == READY && need.ahead > need.end && !READ_ONCE(owner->pager.range_count))
		exanest_translation_fill(need.translation, need.end, need.ahead - need.end,
					 need_request(&need));
put:
	set_active_memcg(previous);
	mem_cgroup_put(memcg);
	revert_creds(cred);
	mmput(owner->space.mm);
}

static struct exanest_block *fault_take(struct exanest_faults *faults)
{
	struct exanest_block *block;

	spin_lock(&faults->lock);
	block = list_first_entry_or_null(&faults->blocks, struct exanest_block, link);
	if (block)
		list_del_init(&block->link);
	spin_unlock(&faults->lock);
	return block;
}

static void faults_work(struct work_struct *work)
{
	struct exanest_faults *faults = container_of(work, struct exanest_faults, work);
	struct exanest_context *owner = container_of(faults, struct exanest_context, faults);
	struct exanest_block *block;

	while ((block = fault_take(faults))) {
		fault_resolve(owner, block);
		cond_resched();
	}
	if (smp_load_acquire(&faults->closing) && !faults->closed) {
		faults->closed = true;
		exanest_space_close(&owner->space);
	}
	exanest_context_put(owner);
}

void exanest_faults_init(struct exanest_faults *faults)
{
	spin_lock_init(&faults->lock);
	INIT_LIST_HEAD(&faults->blocks);
	INIT_WORK(&faults->work, faults_work);
}

static void faults_queue_work(struct exanest_context *owner)
{
	struct workqueue_struct *queue = exanest_workqueue;

	if (owner->domain)
		queue = exanest_domain_resolver(owner->domain);
	exanest_context_get(owner);
	if (!queue_work(queue, &owner->faults.work))
		exanest_context_put(owner);
}

void exanest_fault_queue(struct exanest_block *block)
{
	struct exanest_context *owner = exanest_block_owner(block, block->side);

	/* Once it is in the list its transfer may end, and with it what keeps the owner. */
	exanest_context_get(owner);
	spin_lock(&owner->faults.lock);
	list_add_tail(&block->link, &owner->faults.blocks);
	spin_unlock(&owner->faults.lock);
	faults_queue_work(owner);
	exanest_context_put(owner);
}

void exanest_faults_close(struct exanest_context *context)
{
	smp_store_release(&context->faults.closing, true);
	faults_queue_work(context);
}

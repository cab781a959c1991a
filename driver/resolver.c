// SPDX-License-Identifier: GPL-2.0
#include <linux/cgroup.h>
#include <linux/cred.h>
#include <linux/kthread.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "block.h"
#include "counters.h"
#include "page_fault.h"
#include "pager.h"
#include "resolver.h"
#include "trace.h"
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

static unsigned int span_pages_up_to(const struct exanest_need *need, u64 address)
{
	return DIV_ROUND_UP(min_t(u64, address - need->span, EXANEST_SPAN_SIZE), PAGE_SIZE);
}

static u64 page_address_in(const struct exanest_need *need, unsigned int page)
{
	return need->span + ((u64)page << PAGE_SHIFT);
}

/*
 * A pager may have room for less than a block, and take its first page away for
 * its last. After so many tries a page at a time is resolved, and moved.
 */
#define FORWARD_WHOLE 2

static void need_init(struct exanest_need *need, const struct exanest_page_fault *fault)
{
	need->translation = NULL;
	need->fault = false;
	need->identity.io = NULL;
	need->address = fault->address;
	need->span = fault->address & ~((u64)EXANEST_SPAN_SIZE - 1);
	need->first = (fault->address - need->span) >> PAGE_SHIFT;
	need->end = span_pages_up_to(need, fault->end);
	if (fault->forwards > FORWARD_WHOLE)
		need->end = min(need->end, need->first + 1);
	need->last = span_pages_up_to(need, fault->last);
	need->ahead = need->end;
	need->write = fault->write;
}

/* How far beyond the block to bring pages in. */
static unsigned int need_ahead(const struct exanest_need *need,
			       const struct exanest_resolver *resolver, u32 *window)
{
	u32 policy = resolver->policy ? resolver->policy : READ_ONCE(policy_default);
	u32 pages;

	if (policy == EXANEST_POLICY_TOUCH)
		return need->end;
	if (policy == EXANEST_POLICY_HUGE)
		return need->last;
	pages = READ_ONCE(*window);
	pages = pages ? min(2 * pages, EXANEST_SPAN_PAGES) :
			DIV_ROUND_UP(EXANEST_BLOCK_SIZE, PAGE_SIZE);
	WRITE_ONCE(*window, pages);
	return min(need->end + pages, need->last);
}

static unsigned long need_request(const struct exanest_need *need)
{
	return HMM_PFN_REQ_FAULT | (need->write ? HMM_PFN_REQ_WRITE : 0);
}

static unsigned int need_missing(const struct exanest_need *need, unsigned int from)
{
	return exanest_translation_missing(need->translation, from, need->end, need->write);
}

/* Look pages [first, end) up, and with a request bring them in. */
static int need_fill(const struct exanest_need *need, const struct exanest_resolver *resolver,
		     unsigned int first, unsigned int end, unsigned long request)
{
	int error = exanest_translation_fill(need->translation, first, end - first, request,
					     resolver->buffer);

	if (!error)
		exanest_count(resolver->counters, EXANEST_TRANSLATION_FILLS, end - first);
	return error;
}

/*
 * Bring pages in. An error is that of page *bad. What is still missing afterwards,
 * because it was taken away again, is met again.
 */
static int need_bring_in(const struct exanest_need *need, const struct exanest_resolver *resolver,
			 unsigned int first, unsigned int end, unsigned int *bad)
{
	int error = need_fill(need, resolver, first, end, need_request(need));

	if (!error || error == -EBUSY)
		return 0;
	for (*bad = first; *bad < end; ++*bad) {
		error = need_fill(need, resolver, *bad, *bad + 1, need_request(need));
		if (error && error != -EBUSY)
			return error;
	}
	return 0;
}

static bool need_absent(const struct exanest_need *need, unsigned int page)
{
	return !(READ_ONCE(need->translation->entries[page]) & HMM_PFN_VALID);
}

/* The process provides the page, and what is absent behind it, up to limit; up to which page. */
static unsigned int need_forward(const struct exanest_need *need, unsigned int page, u64 limit)
{
	do
		page++;
	while (page < need->end && page_address_in(need, page) < limit && need_absent(need, page));
	return page;
}

/* Act as the owner: credentials, memory cgroup, and I/O cgroup. */
static void identity_assume(const struct exanest_resolver *resolver,
			    struct exanest_identity *identity)
{
	identity->cred = override_creds(resolver->cred);
	identity->memcg = get_mem_cgroup_from_mm(resolver->space->mm);
	identity->previous = set_active_memcg(identity->memcg);
#if defined(CONFIG_MEMCG) && defined(CONFIG_BLK_CGROUP)
	/* A worker is in the root group itself. */
	if (identity->memcg && identity->memcg->css.parent) {
		identity->io = cgroup_get_e_css(identity->memcg->css.cgroup, &io_cgrp_subsys);
		kthread_associate_blkcg(identity->io);
	}
#endif
}

static void identity_restore(struct exanest_identity *identity)
{
#if defined(CONFIG_MEMCG) && defined(CONFIG_BLK_CGROUP)
	if (identity->io) {
		kthread_associate_blkcg(NULL);
		css_put(identity->io);
	}
#endif
	set_active_memcg(identity->previous);
	mem_cgroup_put(identity->memcg);
	revert_creds(identity->cred);
}

/* Resolve what the page tables do not have. */
static int need_resolve(struct exanest_need *need, struct exanest_resolver *resolver)
{
	unsigned int page, end, bad;
	u64 limit;
	int error;

	for (page = need_missing(need, need->first); page < need->end;
	     page = need_missing(need, end)) {
		limit = exanest_pager_end(resolver->pagers, page_address_in(need, page));
		if (limit && need_absent(need, page)) {
			end = need_forward(need, page, limit);
			need->address = page_address_in(need, page);
			need->length = page_address_in(need, end) - need->address;
			return EXANEST_FORWARD;
		}
		/* One by one where a process provides some of the pages and the kernel others. */
		end = exanest_pager_has_ranges(resolver->pagers) ? page + 1 : need->end;
		error = need_bring_in(need, resolver, page, end, &bad);
		if (error && !(limit && need_absent(need, page))) {
			need->address = page_address_in(need, bad);
			return error == -ENOMEM ? -ENOMEM : -EFAULT;
		}
	}
	return EXANEST_READY;
}

static int resolve(struct exanest_need *need, struct exanest_resolver *resolver,
		   const struct exanest_page_fault *fault)
{
	if (need->span >= resolver->space->mm->task_size)
		return -EFAULT;
	need->translation = exanest_translation_get(resolver->space, need->span);
	if (IS_ERR(need->translation))
		return PTR_ERR(need->translation);

	/*
	 * An earlier block's fault brought them in. A block that was sent again because of that and
	 * met the fault once more: a reset emptied the engine's tables, so map what is there.
	 */
	if (need_missing(need, need->first) == need->end && !fault->retries)
		return EXANEST_READY;
	/* The device's page walk. What is there needs no fault. */
	need_fill(need, resolver, need->first, need->end, 0);
	if (need_missing(need, need->first) == need->end) {
		exanest_count(resolver->counters, EXANEST_TRANSLATION_MISSES, 1);
		if (need->last > need->end)
			need_fill(need, resolver, need->end, need->last, 0);
		return EXANEST_READY;
	}
	need->fault = true;
	trace_exanest_fault(fault);
	need->ahead = need_ahead(need, resolver, fault->ahead);
	return need_resolve(need, resolver);
}

int exanest_resolve(struct exanest_resolver *resolver, const struct exanest_page_fault *fault,
		    struct exanest_need *need)
{
	need_init(need, fault);
	/* The address space stays while the resolver is in it; the last mmput may be the one here. */
	need->entered = mmget_not_zero(resolver->space->mm);
	if (!need->entered)
		return -ECONNRESET;
	identity_assume(resolver, &need->identity);
	return resolve(need, resolver, fault);
}

void exanest_resolve_end(struct exanest_resolver *resolver, struct exanest_need *need, bool more)
{
	if (!need->entered)
		return;
	if (more && need->ahead > need->end && !exanest_pager_has_ranges(resolver->pagers))
		need_fill(need, resolver, need->end, need->ahead, need_request(need));
	if (!IS_ERR_OR_NULL(need->translation))
		exanest_translation_put(need->translation);
	identity_restore(&need->identity);
	mmput(resolver->space->mm);
}

int exanest_resolver_init(struct exanest_resolver *resolver)
{
	resolver->buffer = kmalloc_array(EXANEST_SPAN_PAGES, sizeof(*resolver->buffer),
					 GFP_KERNEL_ACCOUNT);
	return resolver->buffer ? 0 : -ENOMEM;
}

void exanest_resolver_free(struct exanest_resolver *resolver)
{
	kfree(resolver->buffer);
}

// SPDX-License-Identifier: GPL-2.0
#include <linux/interval_tree.h>
#include <linux/jiffies.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "page_fault.h"
#include "pager.h"
#include "ring.h"

#define RANGES_MAX 1024

/* lock is held. The fault behind it, or NULL. */
static struct exanest_page_fault *waiting_next(struct exanest_pagers *pager,
					       struct exanest_page_fault *fault)
{
	return list_is_last(&fault->link, &pager->waiting) ? NULL : list_next_entry(fault, link);
}

/* lock is held. The fault is the caller's from here on. */
static void waiting_remove(struct exanest_pagers *pager, struct exanest_page_fault *fault)
{
	if (fault->ticket)
		rb_erase(&fault->node, &pager->sent);
	else if (pager->unsent == fault)
		pager->unsent = waiting_next(pager, fault);
	list_del_init(&fault->link);
	fault->pager = NULL;
}

/* lock is held. Moves all that wait, or those whose time is up, to list. */
static void waiting_take(struct exanest_pagers *pager, bool all, struct list_head *list)
{
	struct exanest_page_fault *fault, *next;

	list_for_each_entry_safe(fault, next, &pager->waiting, link) {
		if (!all && time_before(jiffies, fault->expires))
			break;
		waiting_remove(pager, fault);
		list_add_tail(&fault->link, list);
	}
}

void exanest_pagers_init(struct exanest_pagers *pager)
{
	spin_lock_init(&pager->lock);
	pager->ranges = RB_ROOT_CACHED;
	INIT_LIST_HEAD(&pager->waiting);
	pager->sent = RB_ROOT;
}

unsigned long exanest_pager_end(struct exanest_pagers *pager, unsigned long address)
{
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

static bool ticket_less(struct rb_node *a, const struct rb_node *b)
{
	return rb_entry(a, struct exanest_page_fault, node)->ticket <
	       rb_entry(b, struct exanest_page_fault, node)->ticket;
}

static int ticket_compare(const void *ticket, const struct rb_node *node)
{
	u64 wanted = *(const u64 *)ticket,
	    has = rb_entry(node, struct exanest_page_fault, node)->ticket;

	return wanted < has ? -1 : wanted > has;
}

/* lock is held. Send the events that there was no room for, oldest first. */
static void events_send(struct exanest_pagers *pager)
{
	struct exanest_page_fault *fault;

	for (; (fault = pager->unsent); pager->unsent = waiting_next(pager, fault)) {
		struct exanest_fault event = {
			.address = fault->address & PAGE_MASK,
			.length = fault->needs,
			.ticket = pager->ticket + 1,
			.write = fault->write,
		};

		if (!exanest_fault_post(pager->rings, &event))
			return;
		fault->ticket = ++pager->ticket;
		rb_add(&fault->node, &pager->sent, ticket_less);
	}
}

bool exanest_pager_add(struct exanest_pagers *pager, struct exanest_page_fault *fault,
		       unsigned long length, unsigned long time)
{
	bool refused;

	spin_lock(&pager->lock);
	/*
	 * The submitter is said to be gone before its faults are cancelled, each under this lock:
	 * either the cancel comes later and finds this one, or dropped is seen.
	 */
	refused = pager->closed || READ_ONCE(*fault->dropped);
	if (!refused) {
		fault->needs = length;
		fault->ticket = 0;
		fault->expires = jiffies + time;
		fault->pager = pager;
		list_add_tail(&fault->link, &pager->waiting);
		if (!pager->unsent)
			pager->unsent = fault;
		events_send(pager);
	}
	spin_unlock(&pager->lock);
	return !refused;
}

struct exanest_page_fault *exanest_pager_answer(struct exanest_pagers *pager, u64 ticket)
{
	struct exanest_page_fault *fault = NULL;
	struct rb_node *node;

	spin_lock(&pager->lock);
	node = rb_find(&ticket, &pager->sent, ticket_compare);
	if (node) {
		fault = rb_entry(node, struct exanest_page_fault, node);
		waiting_remove(pager, fault);
	}
	events_send(pager);
	spin_unlock(&pager->lock);
	return fault;
}

/* Whose lock fault->pager changes under is only known if it is this one. */
bool exanest_pager_cancel(struct exanest_pagers *pager, struct exanest_page_fault *fault)
{
	bool waits;

	spin_lock(&pager->lock);
	waits = READ_ONCE(fault->pager) == pager;
	if (waits)
		waiting_remove(pager, fault);
	spin_unlock(&pager->lock);
	return waits;
}

unsigned long exanest_pager_expire(struct exanest_pagers *pager, struct list_head *list)
{
	struct exanest_page_fault *fault;
	unsigned long time = 0;

	spin_lock(&pager->lock);
	waiting_take(pager, false, list);
	fault = list_first_entry_or_null(&pager->waiting, struct exanest_page_fault, link);
	if (fault)
		time = max(1L, (long)(fault->expires - jiffies) + 1);
	spin_unlock(&pager->lock);
	return time;
}

void exanest_pager_close(struct exanest_pagers *pager, struct list_head *list)
{
	spin_lock(&pager->lock);
	pager->closed = true;
	waiting_take(pager, true, list);
	spin_unlock(&pager->lock);
}

static int range_add(struct exanest_pagers *pager, struct interval_tree_node *range)
{
	int error = 0;

	if (pager->range_count == RANGES_MAX)
		error = -ENOSPC;
	else if (interval_tree_iter_first(&pager->ranges, range->start, range->last))
		error = -EEXIST;
	if (!error) {
		interval_tree_insert(range, &pager->ranges);
		WRITE_ONCE(pager->range_count, pager->range_count + 1);
	}
	return error;
}

int exanest_pager_take(struct exanest_pagers *pager, struct exanest_ring_set *rings,
		       unsigned long start, unsigned long last)
{
	struct interval_tree_node *range = kzalloc(sizeof(*range), GFP_KERNEL_ACCOUNT);
	int error;

	if (!range)
		return -ENOMEM;
	range->start = start;
	range->last = last;
	spin_lock(&pager->lock);
	pager->rings = rings;
	error = range_add(pager, range);
	spin_unlock(&pager->lock);
	if (error)
		kfree(range);
	return error;
}

int exanest_pager_give_back(struct exanest_pagers *pager, unsigned long start, unsigned long last,
			    struct list_head *list)
{
	struct interval_tree_node *range;

	spin_lock(&pager->lock);
	range = interval_tree_iter_first(&pager->ranges, start, last);
	if (range && range->start == start && range->last == last) {
		interval_tree_remove(range, &pager->ranges);
		WRITE_ONCE(pager->range_count, pager->range_count - 1);
		waiting_take(pager, true, list);
	} else {
		range = NULL;
	}
	spin_unlock(&pager->lock);
	if (!range)
		return -ENOENT;
	kfree(range);
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

// SPDX-License-Identifier: GPL-2.0
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/sched.h>

#include "counters.h"
#include "memory.h"
#include "page_fault.h"
#include "trace.h"

static uint retries = 1000;
module_param(retries, uint, 0644);
MODULE_PARM_DESC(retries, "Times that a block is sent again, or to a pager, before -EBUSY");

static uint pager_timeout_ms = 10000;
module_param(pager_timeout_ms, uint, 0644);
MODULE_PARM_DESC(pager_timeout_ms, "How long, ms, a process may take to answer a fault event");

/* For works that are no domain's. */
static struct workqueue_struct *workqueue;

static void memory_get(struct exanest_memory *memory)
{
	kref_get(memory->reference);
}

static void memory_put(struct exanest_memory *memory)
{
	kref_put(memory->reference, memory->release);
}

bool exanest_page_fault_exhausted(const struct exanest_page_fault *fault)
{
	return fault->retries + fault->forwards > READ_ONCE(retries);
}

void exanest_memory_park(struct exanest_memory *memory, struct exanest_page_fault *fault)
{
	struct workqueue_struct *resolvers = READ_ONCE(memory->resolvers) ?: workqueue;

	/* Once it is in the list it may be settled, and with it what keeps the memory. */
	memory_get(memory);
	spin_lock(&memory->parked_lock);
	list_add_tail(&fault->link, &memory->parked);
	spin_unlock(&memory->parked_lock);
	if (!queue_work(resolvers, &memory->resolve))
		memory_put(memory);
}

/* Blocks that waited go on to the resolver, to see what has become of their pages. */
static void park_all(struct exanest_memory *memory, struct list_head *faults)
{
	struct exanest_page_fault *fault, *next;

	list_for_each_entry_safe(fault, next, faults, link) {
		list_del_init(&fault->link);
		exanest_memory_park(memory, fault);
	}
}

static void fault_fail(struct exanest_memory *memory, struct exanest_page_fault *fault, int status)
{
	exanest_count(memory->counters, EXANEST_FAULTS_FAILED, 1);
	fault->settle(fault, status);
}

static unsigned long pager_time(void)
{
	return msecs_to_jiffies(clamp(READ_ONCE(pager_timeout_ms), 1U, 3600U * MSEC_PER_SEC));
}

static void expire_arm(struct exanest_memory *memory, unsigned long delay)
{
	memory_get(memory);
	if (!queue_delayed_work(workqueue, &memory->expire, delay))
		memory_put(memory);
	/* exanest_memory_end says so before it cancels. */
	if (READ_ONCE(memory->gone) && cancel_delayed_work(&memory->expire))
		memory_put(memory);
}

/* The fault is its pager's, or at its end. */
static void fault_forward(struct exanest_memory *memory, struct exanest_page_fault *fault,
			  const struct exanest_need *need)
{
	fault->address = max(fault->address, need->address);
	if (exanest_page_fault_exhausted(fault)) {
		fault_fail(memory, fault, -EBUSY);
		return;
	}
	exanest_count(memory->counters, EXANEST_FAULTS_PAGER, 1);
	fault->forwards++;
	trace_exanest_forward(fault);
	if (exanest_pager_add(&memory->pagers, fault, need->length, pager_time()))
		expire_arm(memory, pager_time() + 1);
	else
		fault->settle(fault, -ECONNRESET);
}

static void fault_resolve(struct exanest_memory *memory, struct exanest_page_fault *fault)
{
	struct exanest_need need;
	int verdict;
	u64 took;

	if (READ_ONCE(memory->gone) || READ_ONCE(*fault->dropped)) {
		fault->settle(fault, -ECONNRESET);
		return;
	}
	verdict = exanest_resolve(&memory->resolver, fault, &need);
	if (need.fault && !fault->counted) {
		fault->counted = true;
		exanest_count(memory->counters, EXANEST_FAULTS, 1);
	}
	switch (verdict) {
	case EXANEST_READY:
		took = ktime_get_ns() - fault->detected;
		if (fault->counted)
			exanest_count(memory->counters, EXANEST_RESOLVE_NS, took);
		trace_exanest_resolved(fault, took);
		fault->settle(fault, 0);
		break;
	case EXANEST_FORWARD:
		fault_forward(memory, fault, &need);
		break;
	default:
		fault->address = max(need.address, fault->address);
		fault_fail(memory, fault, verdict);
	}
	/* The fault is not ours any more: pages ahead come in while its block is moved. */
	exanest_resolve_end(&memory->resolver, &need, verdict == EXANEST_READY);
}

static struct exanest_page_fault *parked_take(struct exanest_memory *memory)
{
	struct exanest_page_fault *fault;

	spin_lock(&memory->parked_lock);
	fault = list_first_entry_or_null(&memory->parked, struct exanest_page_fault, link);
	if (fault)
		list_del_init(&fault->link);
	spin_unlock(&memory->parked_lock);
	return fault;
}

static void memory_resolve(struct work_struct *work)
{
	struct exanest_memory *memory = container_of(work, struct exanest_memory, resolve);
	struct exanest_page_fault *fault;

	while ((fault = parked_take(memory))) {
		fault_resolve(memory, fault);
		cond_resched_tasks_rcu_qs();
	}
	memory_put(memory);
}

static void memory_expire(struct work_struct *work)
{
	struct exanest_memory *memory = container_of(to_delayed_work(work), struct exanest_memory,
						     expire);
	struct exanest_page_fault *fault, *next;
	unsigned long delay;
	LIST_HEAD(late);

	delay = exanest_pager_expire(&memory->pagers, &late);
	if (delay)
		expire_arm(memory, delay);
	list_for_each_entry_safe(fault, next, &late, link) {
		list_del_init(&fault->link);
		fault_fail(memory, fault, -ETIMEDOUT);
	}
	memory_put(memory);
}

int exanest_memory_take_range(struct exanest_memory *memory, struct exanest_ring_set *rings,
			      unsigned long start, unsigned long last)
{
	return exanest_pager_take(&memory->pagers, rings, start, last);
}

int exanest_memory_give_back_range(struct exanest_memory *memory, unsigned long start,
				   unsigned long last)
{
	LIST_HEAD(faults);
	int error;

	error = exanest_pager_give_back(&memory->pagers, start, last, &faults);
	park_all(memory, &faults);
	return error;
}

int exanest_memory_answer(struct exanest_memory *memory, u64 ticket, bool provided)
{
	struct exanest_page_fault *fault = exanest_pager_answer(&memory->pagers, ticket);

	if (!fault)
		return -ENOENT;
	if (provided)
		exanest_memory_park(memory, fault);
	else
		fault_fail(memory, fault, -EFAULT);
	return 0;
}

void exanest_memory_end(struct exanest_memory *memory)
{
	LIST_HEAD(faults);

	WRITE_ONCE(memory->gone, true);
	smp_mb(); /* see expire_arm, and block_moves in transfer.c */
	exanest_pager_close(&memory->pagers, &faults);
	park_all(memory, &faults);
	if (cancel_delayed_work(&memory->expire))
		memory_put(memory);
}

int exanest_memory_init(struct exanest_memory *memory)
{
	spin_lock_init(&memory->parked_lock);
	INIT_LIST_HEAD(&memory->parked);
	INIT_WORK(&memory->resolve, memory_resolve);
	INIT_DELAYED_WORK(&memory->expire, memory_expire);
	exanest_pagers_init(&memory->pagers);
	memory->resolver.pagers = &memory->pagers;
	memory->resolver.counters = memory->counters;
	return exanest_resolver_init(&memory->resolver);
}

void exanest_memory_free(struct exanest_memory *memory)
{
	exanest_pagers_free(&memory->pagers);
	exanest_resolver_free(&memory->resolver);
}

int exanest_memories_start(void)
{
	workqueue = alloc_workqueue("exanest", WQ_UNBOUND | WQ_FREEZABLE, 0);
	return workqueue ? 0 : -ENOMEM;
}

void exanest_memories_stop(void)
{
	destroy_workqueue(workqueue);
}

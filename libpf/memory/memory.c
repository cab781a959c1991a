/* SPDX-License-Identifier: BSD-3-Clause */
#include "memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/page.h"
#include "base/probe.h"
#include "touch.h"

void memory_init(struct memory *memory, pf_context *context, const pf_options *options,
		 struct statistics *statistics, struct trace *trace, struct service *service,
		 const struct activity *activity)
{
	memory->context = context;
	memory->statistics = statistics;
	memory->trace = trace;
	memory->policy = (enum pf_policy)options->policy;
	memory->huge_size = huge_page_size(HUGE_PAGE_FILE);
	residency_open(&memory->residency, getpid(), options->residency, service);
	pagers_init(&memory->pagers, context, service);
	pace_init(&memory->pace, options->resolve_share, activity);
	resolver_init(&memory->resolver, &memory->pagers, &memory->residency, &memory->pace,
		      memory->policy, trace);
	collapse_init(&memory->collapse, options->collapse, memory->huge_size, service, statistics);
	registrations_init(&memory->registrations, (enum pf_mode)options->mode, statistics);
}

void memory_stop(struct memory *memory)
{
	resolver_destroy(&memory->resolver);
}

void memory_destroy(struct memory *memory)
{
	registrations_destroy(&memory->registrations);
	pace_destroy(&memory->pace);
	pagers_destroy(&memory->pagers);
	residency_close(&memory->residency);
}

void memory_expect(struct memory *memory, uint64_t address, uint64_t length)
{
	uint64_t size = memory->huge_size, cold;
	uint64_t start = (address + size - 1) & ~(size - 1);
	uint64_t end = (address + length) & ~(size - 1);

	if (!policy_makes_huge(memory->policy) || start >= end)
		return;
	residency_look(&memory->residency, start, end - start, &cold);
	/* All of it will be written, so that huge pages do not use more memory. */
	if (cold >= size)
		madvise((void *)(uintptr_t)start, end - start, MADV_HUGEPAGE);
}

uint64_t memory_ready(struct memory *memory, uint64_t address, uint64_t length, bool write)
{
	uint64_t cold, failed;
	uint64_t ready = residency_look(&memory->residency, address, length, &cold);
	bool quick;

	/* Pages of a file that are in the page cache only have to be mapped. */
	if (ready < length)
		ready += residency_cached(&memory->residency, address + ready, length - ready);
	/* The copy itself finds the absent pages of a pager: it fails with EFAULT. */
	if (!cold || pager_owns(&memory->pagers, address, &quick))
		return ready;
	statistic_fault(memory->statistics, PF_SIDE_LOCAL, FAULT_MINOR);
	probe_fault(memory->trace, memory->context, NULL, PF_SIDE_LOCAL, FAULT_MINOR, address,
		    ready);
	pagers_fill(&memory->pagers, address, ready);
	/* For a read the kernel maps its one page of zeros everywhere, at almost no cost. */
	if (write && ready && memory->policy != PF_POLICY_TOUCH)
		touch_range(address, ready, true, &failed);
	return ready;
}

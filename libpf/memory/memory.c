/* SPDX-License-Identifier: BSD-3-Clause */
#include "memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/probe.h"
#include "touch.h"

#define HUGE_SIZE (2ull << 20)

void memory_init(struct memory *memory, pf_context *context, const pf_options *options,
		 struct statistics *statistics, struct service *service,
		 const struct activity *activity)
{
	memory->context = context;
	memory->statistics = statistics;
	memory->policy = (enum pf_policy)options->policy;
	residency_open(&memory->residency, getpid(), options->residency);
	pagers_init(&memory->pagers, context, service);
	pace_init(&memory->pace, options->resolve_share, activity);
	resolver_init(&memory->resolver, &memory->pagers, &memory->residency, &memory->pace,
		      memory->policy);
	collapse_init(&memory->collapse, options->collapse, service, statistics);
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
	uint64_t start = (address + HUGE_SIZE - 1) & ~(HUGE_SIZE - 1);
	uint64_t end = (address + length) & ~(HUGE_SIZE - 1);
	uint64_t cold;

	if (memory->policy < PF_POLICY_HUGE || start >= end)
		return;
	residency_look(&memory->residency, start, end - start, &cold);
	/* It only says how the kernel may back pages that are going to be written anyway. */
	if (cold >= HUGE_SIZE)
		madvise((void *)(uintptr_t)start, end - start, MADV_HUGEPAGE);
}

uint64_t memory_ready(struct memory *memory, uint64_t address, uint64_t length, bool write)
{
	uint64_t cold, failed;
	uint64_t ready = residency_look(&memory->residency, address, length, &cold);
	bool quick;

	/* Pages of a file that are in the page cache need only be mapped. */
	if (ready < length)
		ready += residency_cached(address + ready, length - ready);
	/* Absent pages of a pager are found by the copy itself. */
	if (!cold || pager_owns(&memory->pagers, address, &quick))
		return ready;
	statistic_fault(memory->statistics, PF_SIDE_LOCAL, FAULT_MINOR);
	probe_fault(memory->context, NULL, PF_SIDE_LOCAL, FAULT_MINOR, address);
	pagers_fill(&memory->pagers, address, ready);
	/* For what is only read the kernel maps one page of zeros, at next to no cost. */
	if (write && ready && memory->policy != PF_POLICY_TOUCH)
		touch_range(address, ready, true, &failed);
	return ready;
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "policy.h"

#include <sys/mman.h>

#include "context/context.h"
#include "pager.h"
#include "base/probe.h"
#include "residency.h"
#include "resolver.h"

#define HUGE_SIZE (2ull << 20)

uint64_t policy_window(enum pf_policy policy, struct window *window, uint64_t offset,
		       uint64_t block, uint64_t length)
{
	uint64_t size = block;

	if (policy == PF_POLICY_AHEAD || policy == PF_POLICY_ADAPTIVE) {
		if (offset == window->next && window->size)
			size = 2 * window->size;
		if (size > POLICY_WINDOW_MOST)
			size = POLICY_WINDOW_MOST;
		window->size = size;
		window->next = offset + size;
	}
	return size < length - offset ? size : length - offset;
}

void policy_expect(pf_context *context, uint64_t address, uint64_t length)
{
	uint64_t start = (address + HUGE_SIZE - 1) & ~(HUGE_SIZE - 1);
	uint64_t end = (address + length) & ~(HUGE_SIZE - 1);
	uint64_t cold;

	if (context->options.policy < PF_POLICY_HUGE || start >= end)
		return;
	residency_look(&context->residency, start, end - start, &cold);
	/* It only ever says how the kernel may back pages that are going to be written anyway. */
	if (cold >= HUGE_SIZE)
		madvise((void *)(uintptr_t)start, end - start, MADV_HUGEPAGE);
}

uint64_t policy_prepare(pf_context *context, uint64_t address, uint64_t length, bool write)
{
	uint64_t cold, failed;
	uint64_t ready = residency_look(&context->residency, address, length, &cold);
	bool quick;

	/* Pages of a file that are in memory already have to be mapped, and no more. */
	if (ready < length)
		ready += residency_cached(address + ready, length - ready);
	/* The copy finds out about a pager's pages by itself. */
	if (!cold || pager_owns(&context->pagers, address, &quick))
		return ready;
	statistic_fault(&context->statistics, PF_SIDE_LOCAL, FAULT_MINOR);
	probe_fault(context, NULL, PF_SIDE_LOCAL, FAULT_MINOR, address);
	/* For what is only read the kernel has one page of zeros, at no cost to speak of. */
	if (write && ready && context->options.policy != PF_POLICY_TOUCH)
		resolver_touch(address, ready, true, &failed);
	return ready;
}

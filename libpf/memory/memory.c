/* SPDX-License-Identifier: BSD-3-Clause */
#include "memory.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/allocate.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/page.h"
#include "base/probe.h"
#include "touch.h"

/*
 * Bytes of the shortest transfer worth a look: a shorter transfer costs less than the look could
 * save.
 */
#define EXPECT_LENGTH_LEAST ((uint64_t)256 << 10)

/* A unit of a pager needed by a load or store, or likely to be needed soon. */
struct deferred_load {
	struct resolution resolution;
	struct deferred_unit *unit;
};

/*
 * Called on a resolver thread, or on the thread that submits the resolution or closes the
 * context.
 */
static void load_resolved(struct resolution *resolution)
{
	struct deferred_load *load = (struct deferred_load *)resolution;

	pagers_supplied(load->unit, resolution->status);
	free(load);
}

/* Service thread. */
static void load_defer(void *arg, uint64_t page, struct deferred_unit *unit)
{
	struct deferred_load *load = allocate_or_wait(sizeof(*load));

	assert_service(((struct memory *)arg)->pagers.service);
	*load = (struct deferred_load){
		.resolution = { .address = page, .length = 1, .done = load_resolved },
		.unit = unit,
	};
	memory_resolve(arg, &load->resolution);
}

void memory_init(struct memory *memory, pf_context *context, const pf_options *options,
		 struct statistics *statistics, struct trace *trace, struct service *service,
		 const struct activity *activity)
{
	uint64_t size = huge_page_size(HUGE_PAGE_FILE);

	memory->context = context;
	memory->statistics = statistics;
	memory->trace = trace;
	memory->policy = (enum pf_policy)options->policy;
	residency_open(&memory->residency, getpid(), options->residency, service);
	pagers_init(&memory->pagers, context, service);
	pace_init(&memory->pace, options->resolve_share, activity);
	resolver_init(&memory->resolver, &memory->pagers, &memory->residency, &memory->pace,
		      memory->policy, trace);
	collapse_init(&memory->collapse, options->collapse, size, service, statistics);
	expected_init(&memory->expected, &memory->residency, &memory->pagers,
		      policy_makes_huge(memory->policy) && size <= COLLAPSE_SIZE_MAX ? size : 0);
	exposure_init(&memory->exposure, options->expose, statistics);
	pagers_defer(&memory->pagers, load_defer, memory);
}

void memory_stop(struct memory *memory)
{
	resolver_destroy(&memory->resolver);
}

void memory_destroy(struct memory *memory)
{
	pace_destroy(&memory->pace);
	pagers_destroy(&memory->pagers);
	expected_destroy(&memory->expected);
	collapse_destroy(&memory->collapse);
	exposure_destroy(&memory->exposure);
	residency_close(&memory->residency);
}

void memory_expect(struct memory *memory, uint64_t address, uint64_t length)
{
	if (length >= EXPECT_LENGTH_LEAST &&
	    residency_renew(&memory->residency, clock_nanoseconds(CLOCK_MONOTONIC), address,
			    length))
		expected_begin(&memory->expected, address, length);
}

void memory_looked_up(struct memory *memory, uint64_t address, uint64_t length,
		      uint64_t transfer_length)
{
	struct collapse *collapse = &memory->collapse;
	struct collapse_entry *worth;

	assert_progress(memory->context);
	if (!collapse_counts(collapse, transfer_length))
		return;
	worth = collapse_note(collapse, COLLAPSE_OWN, address, length);
	if (worth && collapse_request(collapse, worth->number << collapse->shift))
		collapse_asked(worth);
}

uint64_t memory_ready(struct memory *memory, uint64_t address, uint64_t length, bool write)
{
	uint64_t cold, failed, ready;
	bool quick;

	if (residency_may_skip(&memory->residency, address, length, !write, residency_now()))
		return length;
	ready = residency_look(&memory->residency, address, length, &cold);
	/* Pages of a file in the page cache only have to be mapped. */
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
	if (write && ready && policy_fills_destination(memory->policy)) {
		expected_reach(&memory->expected, address);
		touch_range(address, ready, true, &failed);
	}
	return ready;
}

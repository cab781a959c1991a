/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory of the process, for transports: parts ready to be copied without waiting, and the
 * ways to make absent pages present. No transport is known here. The arguments of memory_init
 * (options, statistics, service, activity) are borrowed and must outlive the memory.
 */
#ifndef PF_MEMORY_H
#define PF_MEMORY_H

#include "base/check.h"
#include "base/service.h"
#include "base/statistics.h"
#include "collapse.h"
#include "expected.h"
#include "exposure.h"
#include "pace.h"
#include "pager.h"
#include <libpf/pf.h>
#include "policy.h"
#include "residency.h"
#include "resolver.h"

struct memory {
	const pf_context *context; /* argument of probes */
	struct statistics *statistics;
	struct trace *trace; /* NULL: none */
	enum pf_policy policy;
	struct residency residency;
	struct pagers pagers;
	struct pace pace;
	struct resolver resolver;
	struct collapse collapse;
	struct expected expected;
	struct exposure exposure;
};

/* context: argument of probes and of the callbacks of pagers. */
void memory_init(struct memory *memory, pf_context *context, const pf_options *options,
		 struct statistics *statistics, struct trace *trace, struct service *service,
		 const struct activity *activity);
/*
 * End the resolver threads, after service_stop. Resolutions not begun are reported as
 * PF_ERR_FAULT; no further resolution may be submitted.
 */
void memory_stop(struct memory *memory);
void memory_destroy(struct memory *memory);

/*
 * Any thread, before a copy from own memory, or to own memory (write): return how many of the
 * length bytes at address can be copied without waiting for a page. Memory never touched counts
 * as ready, because the kernel provides it without waiting; for a write the memory is made
 * present here, all at once, if the policy fills destinations (policy_fills_destination). The
 * result is a hint: a page may go before the copy.
 */
uint64_t memory_ready(struct memory *memory, uint64_t address, uint64_t length, bool write);
/*
 * Any thread: all of the memory is about to be written. If the range is long, look at the pages
 * now and then whatever the hints say: a program may have mapped the range anew. With a policy
 * that includes huge pages, make huge pages where the memory was never touched.
 */
void memory_expect(struct memory *memory, uint64_t address, uint64_t length);

/*
 * Any thread: have a range made present. resolution->done is called, on the calling thread before
 * memory_resolve returns, or on a resolver thread.
 */
static inline void memory_resolve(struct memory *memory, struct resolution *resolution)
{
	resolver_submit(&memory->resolver, resolution);
}

/* Any thread: the same, only if no page has to be made or read: see resolver_map. */
static inline bool memory_map(struct memory *memory, struct resolution *resolution)
{
	return resolver_map(&memory->resolver, resolution);
}

/*
 * Progress: a peer copied from or to length bytes of own memory, for a transfer of transfer_length
 * bytes.
 */
void memory_looked_up(struct memory *memory, uint64_t address, uint64_t length,
		      uint64_t transfer_length);

#endif

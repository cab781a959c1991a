/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This process's memory, as transports see it: which of it can be copied
 * without waiting, and how absent pages are made present. It knows no
 * transport. What it is given at its creation (options, statistics, the service
 * thread, the activity) belongs to the caller and lives longer.
 */
#ifndef PF_MEMORY_H
#define PF_MEMORY_H

#include "base/service.h"
#include "base/statistics.h"
#include "collapse.h"
#include "pace.h"
#include "pager.h"
#include "pf.h"
#include "policy.h"
#include "registration.h"
#include "residency.h"
#include "resolver.h"

struct memory {
	const pf_context *context; /* for probes */
	struct statistics *statistics;
	enum pf_policy policy;
	struct residency residency;
	struct pagers pagers;
	struct pace pace;
	struct resolver resolver;
	struct collapse collapse;
	struct registrations registrations;
};

/* context: handed to probes and to the callbacks of pagers. */
void memory_init(struct memory *memory, pf_context *context, const pf_options *options,
		 struct statistics *statistics, struct service *service,
		 const struct activity *activity);
/*
 * After service_stop: end the resolver threads. What is not resolved yet is reported
 * as PF_ERR_FAULT; nothing may be submitted any more.
 */
void memory_stop(struct memory *memory);
void memory_destroy(struct memory *memory);

/*
 * Any thread, before a copy from or to (write) this memory: how many bytes from
 * address on can be copied without waiting for a page. Memory never touched is
 * brought in here, in one go, where the policy is more than touch.
 */
uint64_t memory_ready(struct memory *memory, uint64_t address, uint64_t length, bool write);
/* Any thread: all of this memory will be written. Asks for huge pages, where the policy does. */
void memory_expect(struct memory *memory, uint64_t address, uint64_t length);

/* Any thread: have a range made present; resolution->done is called, here or on another thread. */
static inline void memory_resolve(struct memory *memory, struct resolution *resolution)
{
	resolver_submit(&memory->resolver, resolution);
}

/* Progress: length bytes of this memory were moved, for a transfer of that length. */
static inline void memory_moved(struct memory *memory, const void *address, uint64_t length,
				uint64_t transfer_length)
{
	if (memory->collapse.threshold && transfer_length <= COLLAPSE_TRANSFER_MOST)
		collapse_note(&memory->collapse, address, length);
}

#endif

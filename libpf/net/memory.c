/* SPDX-License-Identifier: BSD-3-Clause */
#include "memory.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/allocate.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/number.h"
#include "base/probe.h"
#include "common/context.h"
#include "memory/atomic.h"

/*
 * Times that the page of a packet is supplied here, on the driving thread, only to be evicted by
 * the application before the access. After EVICTED_ROUNDS the packet waits until the core is told
 * of the next supply, and further packets have their turn.
 */
#define EVICTED_ROUNDS 4

/* A range being resolved for the core, and then the result. */
struct net_resolution {
	struct resolution resolution;
	struct net_memory *memory;
	struct net_resolution *next;
	struct net_token token;
	uint64_t length;  /* bytes of the block; a bad address behind the block is no failure */
	uint64_t noticed; /* time at which the page fault was noticed, ns */
	/* The bytes will be copied, so hidden memory is fine (FAULT_HIDDEN); false: an atomic. */
	bool copied;
	/*
	 * Used by the submitting thread alone: is the submission still going on, and was the range
	 * resolved meanwhile?
	 */
	pthread_t thread;
	bool asking, here;
};

/* Any thread: hand a finished resolution to the driving thread. */
static void net_resolution_done(struct resolution *resolution)
{
	struct net_resolution *resolved = (struct net_resolution *)resolution;
	struct net_memory *memory = resolved->memory;

	/* The submitting thread may also be the thread that ends the resolver. */
	if (pthread_equal(resolved->thread, pthread_self()) && resolved->asking) {
		resolved->here = true;
		return;
	}
	resolved->next = atomic_load_explicit(&memory->resolved, memory_order_relaxed);
	while (!atomic_compare_exchange_weak_explicit(&memory->resolved, &resolved->next, resolved,
						      memory_order_seq_cst, memory_order_relaxed))
		;
	memory->notify(memory);
}

static bool net_memory_is_hidden(const struct net_memory *memory, uint64_t address, uint64_t length)
{
	unsigned i;

	for (i = 0; i < NET_HIDDEN_RANGES; i++) {
		if (address >= memory->hidden[i].start && address + length <= memory->hidden[i].end)
			return true;
	}
	return false;
}

static void net_memory_note_hidden(struct net_memory *memory, uint64_t start, uint64_t end)
{
	struct net_hidden *range;
	unsigned i;

	for (i = 0; i < NET_HIDDEN_RANGES; i++) {
		range = &memory->hidden[i];
		if (start <= range->end && end >= range->start) {
			range->start = number_min(start, range->start);
			range->end = number_max(end, range->end);
			return;
		}
	}
	memory->hidden[memory->hidden_next++ % NET_HIDDEN_RANGES] = (struct net_hidden){ start,
											 end };
}

/* Take and free the result of a resolution. Return PF_OK, or PF_ERR_FAULT with *bad. */
static int net_resolution_conclude(struct net_memory *memory, struct net_resolution *resolved,
				   uint64_t *bad)
{
	struct statistics *statistics = &memory->context->statistics;
	int status = resolved->resolution.status;

	*bad = resolved->resolution.failed;
	/*
	 * A bad address behind the block. A comparison with the end of the block would fail at the
	 * end of the address space, where the end is 0.
	 */
	if (status != PF_OK && *bad - resolved->resolution.address >= resolved->length)
		status = PF_OK;
	if (status == PF_ERR_FAULT && resolved->resolution.kind == FAULT_HIDDEN &&
	    resolved->copied) {
		net_memory_note_hidden(memory, resolved->resolution.address,
				       resolved->resolution.address + resolved->length);
		status = PF_OK;
	}
	statistic_fault(statistics, PF_SIDE_LOCAL, resolved->resolution.kind);
	if (status == PF_OK)
		statistic_resolved(statistics,
				   clock_nanoseconds(CLOCK_MONOTONIC) - resolved->noticed);
	free(resolved);
	return status;
}

/* May bytes behind the block be out of bounds, because the peer names addresses? */
static bool wait_is_limited(const struct net_memory *memory, const struct net_wait *wait)
{
	return memory->context->memory.exposure.limited && wait->foreign;
}

/*
 * Resolve a block, and more behind it as the policy wants; window NULL: an atomic. Return
 * PF_ERR_AGAIN if the core will be told. Return PF_OK, possible only with here, if a quick pager
 * has supplied the page already, or the page only had to be mapped; the page may go again. Return
 * PF_ERR_FAULT with *bad.
 */
static int net_memory_resolve(struct net_memory *memory, const struct net_wait *wait,
			      struct resolve_window *window, bool here, uint64_t *bad)
{
	pf_context *context = memory->context;
	uint64_t length = wait->length;
	struct net_resolution *resolved;

	assert_that(wait->length);
	/* Wait until there is memory: its lack is no fault of the application. */
	resolved = allocate_or_wait(sizeof(*resolved));
	if (window && wait->end > wait->address + wait->length && !wait_is_limited(memory, wait)) {
		length = policy_window(context->memory.policy, window, wait->address, wait->length,
				       wait->end);
		if (length < wait->length)
			length = wait->length;
	}
	*resolved = (struct net_resolution){
		.resolution = { .address = wait->address,
				.length = length,
				.write = wait->write,
				.done = net_resolution_done },
		.memory = memory,
		.token = wait->token,
		.length = wait->length,
		.noticed = clock_nanoseconds(CLOCK_MONOTONIC),
		.copied = window != NULL,
		.thread = pthread_self(),
		.asking = here,
	};
	statistic_add_concurrent(&context->statistics, PF_STAT_LOCAL_FAULTS, 1);
	probe_fault(context->trace, context, NULL, PF_SIDE_LOCAL, FAULT_MAJOR, wait->address,
		    wait->length);
	memory_resolve(&context->memory, &resolved->resolution);
	if (!here)
		return PF_ERR_AGAIN;
	/* Another thread leaves the resolution to the driving thread, the present one, to be freed. */
	resolved->asking = false;
	return resolved->here ? net_resolution_conclude(memory, resolved, bad) : PF_ERR_AGAIN;
}

unsigned net_memory_tell(struct net_memory *memory, struct net_core *core)
{
	struct net_resolution *resolved = NULL, *deferred = NULL, *next;
	unsigned count = 0;

	if (memory->progress && memory->deferred) {
		deferred = memory->deferred;
		memory->deferred = NULL;
	}
	if (atomic_load_explicit(&memory->resolved, memory_order_relaxed))
		resolved = atomic_exchange_explicit(&memory->resolved, NULL, memory_order_acquire);
	for (; resolved; resolved = next, count++) {
		struct net_token token = resolved->token;
		uint64_t address = resolved->resolution.address;
		uint64_t length = resolved->length, bad;
		int status;

		next = resolved->next;
		status = net_resolution_conclude(memory, resolved, &bad);
		if (status == PF_OK) {
			statistic_add_concurrent(&memory->context->statistics, PF_STAT_RETRANSMITS,
						 1);
			probe_retransmit(memory->context->trace, NULL, address, 0, length);
		}
		net_resolved(core, token, status, bad);
	}
	for (; deferred; deferred = next, count++) {
		next = deferred->next;
		net_resolved(core, deferred->token, PF_OK, 0);
		free(deferred);
	}
	return count;
}

static void net_resolutions_free(struct net_resolution *resolved)
{
	struct net_resolution *next;

	for (; resolved; resolved = next) {
		next = resolved->next;
		free(resolved);
	}
}

void net_memory_open(struct net_memory *memory, pf_context *context,
		     void (*notify)(struct net_memory *memory))
{
	memory->context = context;
	memory->notify = notify;
	access_open(&memory->access);
}

void net_memory_close(struct net_memory *memory)
{
	net_resolutions_free(atomic_exchange(&memory->resolved, NULL));
	net_resolutions_free(memory->deferred);
	access_close(&memory->access);
}

static bool net_memory_is_paged(const struct net_memory *memory, uint64_t address)
{
	struct pagers *pagers = &memory->context->memory.pagers;
	bool quick;

	return pager_owns(pagers, address, &quick) || pagers_fill(pagers, address, 1);
}

/*
 * After an access that ended with *status, and at *bad after PF_ERR_FAULT: return true to repeat
 * the access, because a pager supplied the page meanwhile, or to access the memory by the file.
 * Otherwise *status is the result.
 */
static bool net_memory_access_again(struct net_memory *memory, const struct net_wait *wait,
				    struct resolve_window *window, int *round, int *status,
				    uint64_t *bad)
{
	bool by_file = memory->access.by_file;

	memory->access.by_file = false;
	/* The file cannot be opened: the first way has failed with a fault before. */
	if (by_file && *status == PF_ERR_MEMORY)
		*status = PF_ERR_FAULT;
	if (*status != PF_ERR_FAULT)
		return false;
	if (net_memory_is_paged(memory, *bad)) {
		*status = net_memory_resolve(memory, wait, window, ++*round < EVICTED_ROUNDS, bad);
		return *status == PF_OK;
	}
	/* The memory may be hidden from the first way (FAULT_HIDDEN). */
	memory->access.by_file = !by_file;
	/*
	 * Only a thread that may wait finds out whether the page belongs to a userfaultfd for user
	 * mode only.
	 */
	if (by_file && !net_memory_is_hidden(memory, *bad, 1))
		*status = net_memory_resolve(memory, wait, window, false, bad);
	return !by_file;
}

/*
 * Return the bytes to look at, and to touch, together with a block: the following bytes of the
 * transfer in the block's piece of the hints, because a look at a single block costs nearly as much
 * as a look at four. If pages of a pager follow, the pages before are touched: the kernel stops at
 * the first page of a pager, to be supplied by the pager.
 */
static uint64_t wait_look_length(const struct net_memory *memory, const struct net_wait *wait,
				 uint64_t address, uint32_t length)
{
	uint64_t end = number_min((address | (RESIDENCY_PIECE - 1)) + 1, wait->end);

	if (__builtin_expect(wait_is_limited(memory, wait), 0))
		return length;

	return number_max(end, address + length) - address;
}

/* May the access happen? Of own operations, always. PF_OK or PF_ERR_REFUSED. */
static int net_memory_permit(const struct net_memory *memory, bool foreign, uint64_t address,
			     uint64_t length, unsigned rights, uint64_t *bad)
{
	struct exposure *exposure = &memory->context->memory.exposure;

	return !foreign || exposure_permits(exposure, address, length, rights, bad) ?
		       PF_OK :
		       PF_ERR_REFUSED;
}

/*
 * Return the range to resolve for an absent page: the whole block, or the permitted part of a block
 * of which no other part may be touched for the peer. *part: room for the result.
 */
static const struct net_wait *wait_part(const struct net_memory *memory,
					const struct net_wait *wait, uint64_t address,
					uint32_t length, struct net_wait *part)
{
	if (__builtin_expect(!wait_is_limited(memory, wait), 1))
		return wait;
	*part = *wait;
	part->address = address;
	part->length = length;
	return part;
}

static int net_memory_source(void *user, const struct net_wait *wait, uint64_t address,
			     uint32_t length, uint64_t *bad)
{
	struct net_memory *memory = user;
	uint64_t look = wait_look_length(memory, wait, address, length);
	struct net_wait part;
	int status, round = 0;

	status = net_memory_permit(memory, wait->foreign, address, length, PF_EXPOSE_READ, bad);
	if (__builtin_expect(status != PF_OK, 0))
		return status;
	wait = wait_part(memory, wait, address, length, &part);
	if (memory_ready(&memory->context->memory, address, look, false) < length &&
	    !net_memory_is_hidden(memory, address, length))
		return net_memory_resolve(memory, wait, &memory->source_window, true, bad);
	if (__builtin_expect(!wait->suspect, 1)) {
		record_block(memory->context->trace, TRACE_BLOCK, true, address, length);
		return PF_OK;
	}
	do {
		status = net_memory_permit(memory, wait->foreign, address, length, PF_EXPOSE_READ,
					   bad);
		if (status != PF_OK)
			return status;
		status = access_look(&memory->access, address, length, bad);
	} while (net_memory_access_again(memory, wait, &memory->source_window, &round, &status,
					 bad));
	return status;
}

static int net_memory_destination(void *user, const struct net_wait *wait, uint64_t address,
				  uint32_t length, uint64_t *bad)
{
	struct net_memory *memory = user;
	uint64_t look = wait_look_length(memory, wait, address, length);
	int status = net_memory_permit(memory, wait->foreign, address, length, PF_EXPOSE_WRITE,
				       bad);
	struct net_wait part;

	if (__builtin_expect(status != PF_OK, 0))
		return status;
	wait = wait_part(memory, wait, address, length, &part);
	/*
	 * Pages of a pager may be evicted at any moment. A packet received into an evicted page
	 * would be lost, and the access could stop the very thread that answers pagers. Only
	 * net_memory_place writes to such memory.
	 */
	if (pagers_own(&memory->context->memory.pagers, address, length))
		return PF_ERR_REFUSED;
	if (memory_ready(&memory->context->memory, address, look, true) < length &&
	    !net_memory_is_hidden(memory, address, length))
		status = net_memory_resolve(memory, wait, &memory->destination_window, true, bad);
	if (status == PF_OK)
		record_block(memory->context->trace, TRACE_BLOCK, false, address, length);
	return status;
}

static void net_memory_trace(void *user, const struct net_wait *wait, enum net_block what)
{
	static const enum trace_kind kinds[] = {
		[NET_BLOCK_SENT] = TRACE_BLOCK_DONE,
		[NET_BLOCK_LOST] = TRACE_LOST,
		[NET_BLOCK_RESOLVED] = TRACE_BLOCK,
		[NET_BLOCK_ARRIVED] = TRACE_BLOCK_DONE,
	};
	const struct net_memory *memory = user;

	record_block(memory->context->trace, kinds[what], !wait->write, wait->address,
		     wait->length);
}

static int net_memory_place(void *user, const struct net_wait *wait, uint64_t address,
			    const void *data, uint32_t length, uint64_t *bad)
{
	struct net_memory *memory = user;
	int status, round = 0;
	struct net_wait part;

	wait = wait_part(memory, wait, address, length, &part);
	/* The functions of a pager, which run between two rounds, may withdraw the range. */
	do {
		status = net_memory_permit(memory, wait->foreign, address, length, PF_EXPOSE_WRITE,
					   bad);
		if (__builtin_expect(status != PF_OK, 0))
			return status;
		status = access_write(&memory->access, address, data, length, bad);
	} while (net_memory_access_again(memory, wait, &memory->destination_window, &round, &status,
					 bad));
	return status;
}

/* Append a range to count vectors, or extend the last vector. Return the new count. */
static unsigned vectors_extend(struct iovec *vectors, unsigned count, uint64_t start, size_t length)
{
	if (count && (uintptr_t)vectors[count - 1].iov_base + vectors[count - 1].iov_len == start) {
		vectors[count - 1].iov_len += length;
		return count;
	}
	vectors[count] = (struct iovec){ (void *)(uintptr_t)start, length };
	return count + 1;
}

static unsigned net_memory_place_many(void *user, const struct net_piece *pieces, unsigned count)
{
	struct iovec from[NET_PIECES_MOST] = { 0 }, to[NET_PIECES_MOST] = { 0 };
	unsigned from_count = 0, to_count = 0, i;
	struct net_memory *memory = user;
	size_t written;
	uint64_t bad;

	assert_that(count <= NET_PIECES_MOST);
	for (i = 0; i < count; i++) {
		if (net_memory_permit(memory, pieces[i].foreign, pieces[i].address,
				      pieces[i].length, PF_EXPOSE_WRITE, &bad) != PF_OK)
			break;
		from_count = vectors_extend(from, from_count, (uintptr_t)pieces[i].bytes,
					    pieces[i].length);
		to_count = vectors_extend(to, to_count, pieces[i].address, pieces[i].length);
	}
	count = i;
	if (!count)
		return 0;
	written = access_scatter(&memory->access, from, from_count, to, to_count);
	for (i = 0; i < count && written >= pieces[i].length; i++)
		written -= pieces[i].length;
	return i;
}

static int net_memory_fetch(void *user, const struct net_wait *wait, uint64_t address, void *bytes,
			    uint32_t length, uint64_t *bad)
{
	struct net_memory *memory = user;
	int status, round = 0;
	struct net_wait part;

	wait = wait_part(memory, wait, address, length, &part);
	do {
		status = net_memory_permit(memory, wait->foreign, address, length, PF_EXPOSE_READ,
					   bad);
		if (__builtin_expect(status != PF_OK, 0))
			return status;
		status = access_read(&memory->access, address, bytes, length, bad);
	} while (net_memory_access_again(memory, wait, &memory->source_window, &round, &status,
					 bad));
	return status;
}

bool net_memory_gather(void *user, const struct iovec *from, unsigned count, void *to)
{
	struct net_memory *memory = user;

	int status = access_gather(&memory->access, from, count, to);

	/* No pager owns the memory: net_memory_destination refuses pages of pagers. */
	memory->access.by_file = status == PF_ERR_FAULT;
	if (memory->access.by_file)
		status = access_gather(&memory->access, from, count, to);
	memory->access.by_file = false;
	return status == PF_OK;
}

/* Leave an atomic to progress. Progress is woken if asleep. */
static int net_memory_defer(struct net_memory *memory, const struct net_wait *wait)
{
	struct net_resolution *resolved = allocate_or_wait(sizeof(*resolved));

	resolved->token = wait->token;
	resolved->next = memory->deferred;
	memory->deferred = resolved;
	return PF_ERR_AGAIN;
}

static int net_memory_atomic(void *user, const struct net_wait *wait, enum pf_atomic_op op,
			     unsigned width, uint64_t operand, uint64_t compare, uint64_t *value,
			     uint64_t *bad)
{
	const struct atomic_request request = { .address = wait->address,
						.operand = operand,
						.compare = compare,
						.op = (uint8_t)op,
						.width = (uint8_t)width };
	struct net_memory *memory = user;
	int status, round = 0;

	if (!atomic_valid(op, width, wait->address))
		return PF_ERR_ARGUMENT;
	if (net_memory_permit(memory, wait->foreign, wait->address, width, EXPOSURE_ATOMIC, bad) !=
	    PF_OK)
		return PF_ERR_REFUSED;
	/*
	 * The processor executes an atomic, on a page perhaps evicted by then. The service thread
	 * would have to bring the page, and must not be the thread in need of the page.
	 */
	if (!memory->progress && net_memory_is_paged(memory, wait->address))
		return net_memory_defer(memory, wait);
	if (memory_ready(&memory->context->memory, wait->address, width, true) < width) {
		status = net_memory_resolve(memory, wait, NULL, true, bad);
		if (status != PF_OK)
			return status;
	}
	do {
		if (net_memory_permit(memory, wait->foreign, wait->address, width, EXPOSURE_ATOMIC,
				      bad) != PF_OK)
			return PF_ERR_REFUSED;
		status = atomic_execute(&request, value);
		*bad = *value;
	} while (net_memory_access_again(memory, wait, NULL, &round, &status, bad));
	return status;
}

struct net_memory_operations net_memory_functions(struct net_memory *memory)
{
	return (struct net_memory_operations){
		.source = net_memory_source,
		.destination = net_memory_destination,
		.place = net_memory_place,
		.place_many = net_memory_place_many,
		.fetch = net_memory_fetch,
		.gather = net_memory_gather,
		.atomic = net_memory_atomic,
		.trace = memory->context->trace ? net_memory_trace : NULL,
		.asks_again = memory->context->memory.exposure.limited,
		.user = memory,
	};
}

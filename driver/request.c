// SPDX-License-Identifier: GPL-2.0
#include <linux/kref.h>
#include <linux/ktime.h>
#include <linux/slab.h>

#include "engine.h"
#include "memory.h"
#include "page_fault.h"
#include "request.h"

/* Settled requests that are kept, so that the page faults of a block are counted. */
#define SETTLED_MAX 256
/* Requests of one memory that are not settled: those of 16 nodes with 256 blocks each. */
#define OPEN_MAX 4096

struct exanest_request {
	struct exanest_page_fault fault;
	struct exanest_requests *requests;
	struct exanest_engine *engine;
	struct list_head link; /* settled */
	struct hlist_node hash;
	struct exanest_remote_fault what;
};

static const bool never; /* an engine's page fault is resolved as long as there is the memory */

static u64 block_key(const struct exanest_remote_fault *what)
{
	return what->node << EXANEST_ADDRESS_NODE_SHIFT ^ what->request;
}

/* The lock is held. */
static struct exanest_request *settled_find(struct exanest_requests *requests,
					    const struct exanest_remote_fault *what)
{
	struct exanest_request *request;

	hash_for_each_possible(requests->blocks, request, hash, block_key(what))
		if (request->what.node == what->node && request->what.request == what->request)
			return request;
	return NULL;
}

/* The lock is held. */
static void settled_remove(struct exanest_requests *requests, struct exanest_request *request)
{
	list_del(&request->link);
	hash_del(&request->hash);
	requests->settled_count--;
}

/* One that met a page fault before, or a new one. NULL: too many, or no memory, which is not reclaimed here. */
static struct exanest_request *request_get(struct exanest_requests *requests,
					   const struct exanest_remote_fault *what)
{
	struct exanest_request *request;

	spin_lock(&requests->lock);
	request = settled_find(requests, what);
	if (request) {
		settled_remove(requests, request);
		request->fault.retries++;
	} else if (requests->open < OPEN_MAX) {
		/* The initiator forgets blocks without a notice, so it may have more page faults than blocks. */
		request = kzalloc(sizeof(*request), GFP_NOWAIT);
	}
	requests->open += !!request;
	spin_unlock(&requests->lock);
	return request;
}

/* The request is not the caller's any more. */
static void request_keep(struct exanest_request *request)
{
	struct exanest_requests *requests = request->requests;
	struct exanest_request *oldest = NULL;

	spin_lock(&requests->lock);
	requests->open--;
	list_add_tail(&request->link, &requests->settled);
	hash_add(requests->blocks, &request->hash, block_key(&request->what));
	if (++requests->settled_count > SETTLED_MAX) {
		oldest = list_first_entry(&requests->settled, struct exanest_request, link);
		settled_remove(requests, oldest);
	}
	spin_unlock(&requests->lock);
	kfree(oldest);
}

static void request_settle(struct exanest_page_fault *fault, int status)
{
	struct exanest_request *request = container_of(fault, struct exanest_request, fault);
	struct exanest_requests *requests = request->requests;
	struct exanest_memory *memory = requests->memory;
	struct exanest_engine *engine = request->engine;
	struct exanest_remote_fault what = request->what;
	u64 address = fault->address;

	/* Before the engine is told: then the block may meet its next one. */
	request_keep(request);
	/* The context is at its end: the export is retracted, which ends the block. */
	if (status != -ECONNRESET)
		exanest_engine_settle(engine, &what, status, address);
	kref_put(memory->reference, memory->release);
}

/*
 * How many pages were brought in ahead for the block's transfer. Its blocks meet their page faults
 * together, before the first is resolved: so they share the number. It is 0 again for a block that
 * is not behind all others: another transfer to the same place begins. The entry may be reused
 * while a block waits: then more or less is brought in ahead, nothing else.
 */
static u32 *incoming_ahead(struct exanest_requests *requests,
			   const struct exanest_remote_fault *what)
{
	struct exanest_incoming *incoming;
	unsigned int i;

	spin_lock(&requests->lock);
	for (i = 0; i < EXANEST_INCOMING_MAX; i++) {
		incoming = &requests->incoming[i];
		if (incoming->node == what->node && incoming->last == what->last)
			break;
	}
	if (i == EXANEST_INCOMING_MAX)
		incoming = &requests->incoming[requests->incoming_next++ % EXANEST_INCOMING_MAX];
	if (i == EXANEST_INCOMING_MAX || what->start <= incoming->first) {
		incoming->node = what->node;
		incoming->last = what->last;
		incoming->first = what->start;
		WRITE_ONCE(incoming->ahead, 0);
	}
	spin_unlock(&requests->lock);
	return &incoming->ahead;
}

static void request_describe(struct exanest_request *request,
			     const struct exanest_remote_fault *what)
{
	struct exanest_page_fault *fault = &request->fault;

	request->what = *what;
	fault->settle = request_settle;
	fault->dropped = &never;
	fault->start = what->start;
	fault->end = what->end;
	fault->last = what->last;
	fault->address = what->address;
	fault->detected = ktime_get_ns();
	fault->ahead = incoming_ahead(request->requests, what);
	fault->write = what->write;
	fault->context = what->node << EXANEST_ADDRESS_NODE_SHIFT;
	fault->sequence = what->request;
	fault->owner = request->requests->export->address;
}

void exanest_request_fault(struct exanest_requests *requests, struct exanest_engine *engine,
			   const struct exanest_remote_fault *what)
{
	struct exanest_request *request = request_get(requests, what);

	if (!request) {
		exanest_engine_settle(engine, what, -EBUSY, what->address);
		return;
	}
	kref_get(requests->memory->reference);
	request->requests = requests;
	request->engine = engine;
	request_describe(request, what);
	if (exanest_page_fault_exhausted(&request->fault))
		request_settle(&request->fault, -EBUSY);
	else
		exanest_memory_park(requests->memory, &request->fault);
}

void exanest_requests_init(struct exanest_requests *requests, struct exanest_memory *memory,
			   const struct exanest_export *export)
{
	requests->memory = memory;
	requests->export = export;
	spin_lock_init(&requests->lock);
	INIT_LIST_HEAD(&requests->settled);
	hash_init(requests->blocks);
}

void exanest_requests_free(struct exanest_requests *requests)
{
	struct exanest_request *request, *next;

	list_for_each_entry_safe(request, next, &requests->settled, link)
		kfree(request);
}

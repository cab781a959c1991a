/* SPDX-License-Identifier: BSD-3-Clause */
#include "operation.h"

#include <stdlib.h>

#include "context/context.h"
#include "peer.h"
#include "host/transfer.h"
#include "transport.h"

#define OFFERS_AHEAD 4

static void ring_init(struct operation *head)
{
	head->next = head;
	head->previous = head;
}

static void append(struct operation *head, struct operation *operation)
{
	operation->next = head;
	operation->previous = head->previous;
	head->previous->next = operation;
	head->previous = operation;
}

static void detach(struct operation *operation)
{
	operation->previous->next = operation->next;
	operation->next->previous = operation->previous;
}

static bool is_transfer(const struct operation *operation)
{
	return operation->kind != OPERATION_ATOMIC;
}

void operations_init(struct operations *operations)
{
	ring_init(&operations->active);
	ring_init(&operations->posted);
	ring_init(&operations->away);
}

static void release(struct operation *operation)
{
	operation->peer->transport->release(operation);
	free(operation);
}

static void release_all(struct operation *head)
{
	while (head->next != head) {
		struct operation *operation = head->next;

		/* Unlinked by hand: the analyzer does not follow detach around the ring. */
		head->next = operation->next;
		head->next->previous = head;
		release(operation);
	}
}

void operations_destroy(struct operations *operations)
{
	release_all(&operations->active);
	release_all(&operations->posted);
	release_all(&operations->away);
}

void operation_post(pf_context *context, struct operation *operation)
{
	context_lock(context);
	operation->sequence = ++context->operations.sequence;
	append(&context->operations.posted, operation);
	atomic_store_explicit(&context->operations.waiting, true, memory_order_relaxed);
	context_unlock(context);
	/* Another thread may be asleep in pf_progress, and nobody else gets in before it wakes. */
	if (context->threads && context->sleepy)
		inbox_wake(context->inbox.memory, INBOX_SLEEPS_AT_ONCE);
}

void operation_send_away(pf_context *context, struct operation *operation)
{
	context_lock(context);
	operation->sequence = ++context->operations.sequence;
	append(&context->operations.away, operation);
	context_unlock(context);
}

void operation_take_back(pf_context *context, struct operation *operation)
{
	context_lock(context);
	detach(operation);
	context_unlock(context);
	free(operation);
}

int operations_collect(pf_context *context)
{
	struct operations *operations = &context->operations;
	struct operation *operation;
	int count = 0;

	if (!atomic_load_explicit(&operations->waiting, memory_order_relaxed))
		return 0;
	context_lock(context);
	while ((operation = operations->posted.next) != &operations->posted) {
		detach(operation);
		append(&operations->active, operation);
		count++;
	}
	atomic_store_explicit(&operations->waiting, false, memory_order_relaxed);
	context_unlock(context);
	return count;
}

void operation_finish(pf_context *context, struct operation *operation)
{
	static const enum pf_stat finished[] = { PF_STAT_PUTS, PF_STAT_GETS, PF_STAT_ATOMICS };

	if (operation->completion.status == PF_OK)
		statistic_add(&context->statistics, finished[operation->kind], 1);
	else if (operation->completion.status == PF_ERR_FAULT)
		statistic_add(&context->statistics, PF_STAT_FAULT_ERRORS, 1);
	if (operation->complete)
		operation->complete(context, &operation->completion);
	/* Only now, for other threads in pf_flush wait for the callback too. */
	context_lock(context);
	detach(operation);
	context_unlock(context);
	release(operation);
}

/* So that a peer done with its end of one transfer finds the next without waiting for us. */
static void offer_ahead(pf_context *context)
{
	struct operation *head = &context->operations.active;
	struct operation *operation;
	unsigned ahead = 0;

	for (operation = head->next; operation != head && ahead < OFFERS_AHEAD;
	     operation = operation->next) {
		/* One that waits for its pages is in nobody's way. */
		if (is_transfer(operation) && transfer_waits((struct transfer *)operation))
			continue;
		if (is_transfer(operation))
			transfer_offer(context, (struct transfer *)operation);
		ahead++;
	}
}

int operations_advance(pf_context *context)
{
	struct operation *head = &context->operations.active;
	struct operation *operation, *next;
	int count = 0;

	offer_ahead(context);
	for (operation = head->next; operation != head; operation = next) {
		int happened = operation->peer->transport->advance(context, operation);

		/* Only now: a completion may have posted, but nothing else detaches. */
		next = operation->next;
		if (happened == OPERATION_FINISHED)
			operation_finish(context, operation);
		count += happened != 0;
		/*
		 * One copied run is enough for one call: messages may be waiting.
		 * The oldest transfer goes first, so both ends are in the same one.
		 */
		if (happened == OPERATION_COPIED)
			break;
	}
	return count;
}

void operations_fail(pf_context *context, pf_peer *peer, int status)
{
	struct operation *head = &context->operations.active;
	struct operation *operation, *next;

	operations_collect(context);
	for (operation = head->next; operation != head; operation = next) {
		next = operation->next;
		if (operation->peer != peer)
			continue;
		operation->completion.status = status;
		operation->peer->transport->abandon(context, operation);
		operation_finish(context, operation);
	}
}

bool operations_on_device(pf_context *context)
{
	struct operation *head = &context->operations.active, *operation;

	for (operation = head->next; operation != head; operation = operation->next) {
		if (peer_route(operation->peer) != &route_device)
			return false;
	}
	return context->device.in_flight;
}

static bool pending_in(const struct operation *head, const pf_peer *peer, uint64_t sequence)
{
	const struct operation *operation;

	for (operation = head->next; operation != head; operation = operation->next) {
		if (operation->sequence <= sequence && (!peer || operation->peer == peer))
			return true;
	}
	return false;
}

bool operations_pending(pf_context *context, const pf_peer *peer, uint64_t sequence)
{
	bool pending;

	context_lock(context);
	pending = pending_in(&context->operations.active, peer, sequence) ||
		  pending_in(&context->operations.posted, peer, sequence) ||
		  pending_in(&context->operations.away, peer, sequence);
	context_unlock(context);
	return pending;
}

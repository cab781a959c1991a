/* SPDX-License-Identifier: BSD-3-Clause */
#include "operation.h"

#include "base/check.h"
#include "base/probe.h"
#include "peer.h"

static void operations_lock(struct operations *operations)
{
	if (operations->threads)
		pthread_mutex_lock(&operations->lock);
}

static void operations_unlock(struct operations *operations)
{
	if (operations->threads)
		pthread_mutex_unlock(&operations->lock);
}

static void ring_init(struct operation *head)
{
	head->next = head;
	head->previous = head;
}

static void operation_append(struct operation *head, struct operation *operation)
{
	operation->next = head;
	operation->previous = head->previous;
	head->previous->next = operation;
	head->previous = operation;
}

static void operation_detach(struct operation *operation)
{
	operation->previous->next = operation->next;
	operation->next->previous = operation->previous;
}

void operations_init(struct operations *operations, pf_context *context,
		     struct statistics *statistics, struct trace *trace, const pf_options *options)
{
	operations->context = context;
	operations->statistics = statistics;
	operations->trace = trace;
	operations->threads = options->threads;
	operations->most = options->operations_max;
	pthread_mutex_init(&operations->lock, NULL);
	ring_init(&operations->active);
	ring_init(&operations->posted);
	ring_init(&operations->away);
}

void operations_destroy(struct operations *operations)
{
	assert_that(operations->active.next == &operations->active);
	assert_that(operations->posted.next == &operations->posted);
	assert_that(operations->away.next == &operations->away);
	pthread_mutex_destroy(&operations->lock);
}

struct operation *operations_drop(struct operation *head)
{
	struct operation *operation = head->next;

	if (operation == head)
		return NULL;
	operation_detach(operation);
	return operation;
}

/* Under the lock. */
static bool is_full(const struct operations *operations)
{
	assert_locked(&operations->lock, operations->threads);
	return operations->most && operations->open >= operations->most;
}

static bool operation_add(struct operations *operations, struct operation *head,
			  struct operation *operation, bool refusable)
{
	bool full;

	operations_lock(operations);
	full = refusable && is_full(operations);
	if (!full) {
		operation->sequence = ++operations->sequence;
		operation_append(head, operation);
		operations->open++;
		if (head == &operations->posted)
			atomic_store_explicit(&operations->waiting, true, memory_order_relaxed);
	}
	operations_unlock(operations);
	return !full;
}

bool operation_post(struct operations *operations, struct operation *operation, bool refusable)
{
	return operation_add(operations, &operations->posted, operation, refusable);
}

bool operation_send_away(struct operations *operations, struct operation *operation)
{
	return operation_add(operations, &operations->away, operation, true);
}

static void operations_uncount(struct operations *operations)
{
	if (!operations->most)
		return;
	operations_lock(operations);
	operations->open--;
	operations_unlock(operations);
}

void operation_take_back(struct operations *operations, struct operation *operation)
{
	operations_uncount(operations);
	operations_lock(operations);
	operation_detach(operation);
	operations_unlock(operations);
}

bool operations_have_room(struct operations *operations)
{
	bool full;

	operations_lock(operations);
	full = is_full(operations);
	operations_unlock(operations);
	return !full;
}

void operations_take_posted(struct operations *operations)
{
	struct operation *operation;

	assert_progress(operations->context);
	operations_lock(operations);
	while ((operation = operations_drop(&operations->posted))) {
		operation_append(&operations->active, operation);
		if (!operations->first_new)
			operations->first_new = operation;
	}
	atomic_store_explicit(&operations->waiting, false, memory_order_relaxed);
	operations_unlock(operations);
}

struct operation *operations_next_new(struct operations *operations)
{
	struct operation *operation = operations->first_new;

	assert_progress(operations->context);
	if (operation)
		operations->first_new = operation->next == &operations->active ? NULL :
										 operation->next;
	return operation;
}

void operation_replace(struct operations *operations, struct operation *old, struct operation *with)
{
	assert_progress(operations->context);
	assert_that(operations->first_new != old);
	operations_lock(operations);
	with->sequence = old->sequence;
	with->next = old->next;
	with->previous = old->previous;
	with->next->previous = with;
	with->previous->next = with;
	operations_unlock(operations);
}

/* Under the lock: note an error for the next flush, unless an earlier error is noted. */
static void failure_note(struct operations *operations, pf_peer *peer, int status)
{
	assert_locked(&operations->lock, operations->threads);
	statistic_add(operations->statistics, PF_STAT_FLUSH_ERRORS, 1);
	if (peer->failure != PF_OK)
		return;
	peer->failure = (int8_t)status;
	peer->failure_number = operations->failures++;
	operations->failed = true;
}

int operations_take_failure(struct operations *operations, struct peers *peers, pf_peer *peer)
{
	uint32_t oldest;
	int status;
	bool failed;

	operations_lock(operations);
	failed = operations->failed;
	operations_unlock(operations);
	if (!failed)
		return PF_OK;
	if (peer) {
		operations_lock(operations);
		status = (int)peer->failure;
		peer->failure = PF_OK;
		operations_unlock(operations);
		return status;
	}
	peers_lock(peers);
	operations_lock(operations);
	status = (int)operations->failure;
	oldest = status == PF_OK ? UINT32_MAX : operations->failure_number;
	operations->failure = PF_OK;
	operations->failed = false;
	while ((peer = peers_next(peers, peer))) {
		if (peer->failure != PF_OK && peer->failure_number <= oldest) {
			oldest = peer->failure_number;
			status = (int)peer->failure;
		}
		peer->failure = PF_OK;
	}
	operations_unlock(operations);
	peers_unlock(peers);
	return status;
}

void operations_keep_failure(struct operations *operations, const pf_peer *peer)
{
	operations_lock(operations);
	if (peer->failure != PF_OK &&
	    (operations->failure == PF_OK || peer->failure_number < operations->failure_number)) {
		operations->failure = peer->failure;
		operations->failure_number = peer->failure_number;
		/* A flush may have looked between the peer's removal and this. */
		operations->failed = true;
	}
	operations_unlock(operations);
}

/* A refusal with an address is a fault: of memory not exposed. */
static void completion_explain(pf_completion *completion)
{
	if (completion->status == PF_ERR_REFUSED && completion->side != PF_SIDE_NONE) {
		completion->status = PF_ERR_FAULT;
		completion->reason = PF_REASON_NOT_EXPOSED;
	} else if (completion->status == PF_ERR_FAULT) {
		completion->reason = PF_REASON_UNRESOLVED;
	}
}

void operation_finish(struct operations *operations, struct operation *operation)
{
	static const enum pf_stat finished[] = {
		[OPERATION_PUT] = PF_STAT_PUTS,
		[OPERATION_GET] = PF_STAT_GETS,
		[OPERATION_ATOMIC] = PF_STAT_ATOMICS,
		[OPERATION_SIGNAL] = PF_STAT_PUTS,
	};

	assert_progress(operations->context);
	completion_explain(&operation->completion);
	if (operation->completion.status == PF_OK)
		statistic_add(operations->statistics, finished[operation->kind], 1);
	else if (operation->completion.status == PF_ERR_FAULT)
		statistic_add(operations->statistics, PF_STAT_FAULT_ERRORS, 1);
	if (operation->kind < OPERATION_ATOMIC)
		probe_transfer_done(operations->trace, operation, operation->completion.status);
	/* Uncount before the callback, which may post a new operation in the freed place. */
	operations_uncount(operations);
	if (operation->complete)
		operation->complete(operations->context, &operation->completion);
	/*
	 * Take off only after the callback: threads in pf_flush wait for the callback, too. Note
	 * the error under the lock: a flush that finds the operation complete finds the error.
	 */
	operations_lock(operations);
	operation_detach(operation);
	if (!operation->complete && operation->completion.status < 0)
		failure_note(operations, operation->peer, operation->completion.status);
	operations_unlock(operations);
	operations_end_row(operations);
}

static bool operation_is_pending(const struct operation *head, const pf_peer *peer,
				 uint64_t sequence)
{
	const struct operation *operation;

	for (operation = head->next; operation != head && operation->sequence <= sequence;
	     operation = operation->next) {
		if (!peer || operation->peer == peer)
			return true;
	}
	return false;
}

bool operations_pending(struct operations *operations, const pf_peer *peer, uint64_t sequence)
{
	bool pending;

	operations_lock(operations);
	pending = operation_is_pending(&operations->active, peer, sequence) ||
		  operation_is_pending(&operations->posted, peer, sequence) ||
		  operation_is_pending(&operations->away, peer, sequence);
	operations_unlock(operations);
	return pending;
}

uint64_t operations_last(struct operations *operations)
{
	uint64_t sequence;

	operations_lock(operations);
	sequence = operations->sequence;
	operations_unlock(operations);
	return sequence;
}

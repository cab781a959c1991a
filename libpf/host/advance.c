/* SPDX-License-Identifier: BSD-3-Clause */
#include "advance.h"

#include <stdlib.h>
#include <unistd.h>

#include "atomic.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/memcheck.h"
#include "base/probe.h"
#include "transfer_advance.h"
#include "turns.h"

/* Transfers offered to a peer before they are advanced; see peer_offer_ahead. */
#define OFFERS_AHEAD 4
/* Time between two looks at the runs that peers still move: less than most copies of a run take. */
#define LINGER_POLL_MICROSECONDS 20

/* Is the record a struct atomic_operation? */
static bool is_atomic(const struct operation *operation)
{
	return operation->kind >= OPERATION_ATOMIC;
}

static void operation_release(struct operation *operation)
{
	if (!is_atomic(operation))
		transfer_release((struct transfer *)operation);
	else
		free(operation);
}

/* Tell memcheck that a get has written its destination. */
static void transfer_mark_defined(const struct transfer *transfer)
{
	uint64_t start = 0;
	unsigned i;

	for (i = 0; i < transfer->pieces_count; i++) {
		const struct transfer_piece *piece = &transfer->pieces[i];

		memcheck_defined((void *)(uintptr_t)(piece->local + start), piece->end - start);
		start = piece->end;
	}
}

/*
 * The data of a put is in place: the signal of the put, if any, takes the place of the put. False:
 * the operation ends.
 */
static bool operation_signal(struct host_state *host, struct operation *operation)
{
	struct transfer *transfer = (struct transfer *)operation;
	struct atomic_operation *signal = transfer->signal;

	if (!signal || operation->completion.status != PF_OK)
		return false;
	if (peer_is_gone(operation->peer)) {
		operation->completion.status = (int)operation->peer->gone_status;
		return false;
	}
	transfer->signal = NULL;
	probe_transfer_done(host->context->trace, operation, PF_OK);
	operation_leave(operation);
	operation_replace(&host->context->operations, operation, &signal->operation);
	operation_enter(&signal->operation);
	operation_release(operation);
	return true;
}

static void operation_end(struct host_state *host, struct operation *operation)
{
	if (operation->kind == OPERATION_PUT && operation_signal(host, operation))
		return;
	/* The peer may have written a part of the buffer. */
	if (operation->kind == OPERATION_GET && operation->completion.status >= 0)
		transfer_mark_defined((struct transfer *)operation);
	operation_leave(operation);
	operation_finish(&host->context->operations, operation);
	operation_release(operation);
}

/* Give turns to the operations posted since the last call. */
static void take_new_operations(struct host_state *host)
{
	struct operations *operations = &host->context->operations;
	struct operation *operation;

	while ((operation = operations_next_new(operations)))
		operation_enter(operation);
}

/*
 * Does this process copy the peer's transfers? Not where the peer, a ring or an engine moves them.
 */
static bool peer_is_copied(const struct host_peer *peer)
{
	return peer_state(&peer->peer) == PF_PEER_CONNECTED && host_peer_route(peer)->shares;
}

bool operations_moving(const struct host_state *host)
{
	const struct host_peer *peer;

	/* An operation just posted is likely to be a transfer to copy. */
	if (atomic_load_explicit(&host->context->operations.waiting, memory_order_relaxed))
		return true;
	TAILQ_FOREACH(peer, &host->turns, turn) {
		if (!TAILQ_EMPTY(&peer->transfers) && peer_is_copied(peer))
			return true;
	}
	return false;
}

static enum advanced operation_advance_kind(struct host_state *host, struct operation *operation)
{
	return is_atomic(operation) ? atomic_advance(host, (struct atomic_operation *)operation) :
				      transfer_advance(host, (struct transfer *)operation);
}

/* Advance a ready operation, and end the operation, or let the operation wait for an event. */
static enum advanced operation_advance(struct host_state *host, struct operation *operation)
{
	enum advanced advanced = operation_advance_kind(host, operation);

	if (advanced == ADVANCED_TO_END)
		operation_end(host, operation);
	else if (advanced == ADVANCED_WAITS)
		operation_leave(operation);
	return advanced;
}

/* Return the operation that was posted first. Either may be NULL. */
static struct operation *older_operation(struct operation *one, struct operation *other)
{
	if (!one || !other)
		return one ? one : other;
	return one->sequence < other->sequence ? one : other;
}

/*
 * Advance operations that need no copy by this process, until there is no room towards the peer:
 * operations behind would find no room either. Returns how many things happened.
 */
static int peer_advance_requests(struct host_state *host, struct host_peer *peer)
{
	struct operation *atomic = TAILQ_FIRST(&peer->atomics), *operation;
	struct operation *transfer = peer_is_copied(peer) ? NULL : TAILQ_FIRST(&peer->transfers);
	enum advanced advanced;
	int count = 0;

	while ((operation = older_operation(atomic, transfer))) {
		if (operation == atomic)
			atomic = TAILQ_NEXT(atomic, ready);
		else
			transfer = TAILQ_NEXT(transfer, ready);
		advanced = operation_advance(host, operation);
		if (advanced == ADVANCED_BLOCKED)
			break;
		count += advanced > ADVANCED_SHARED;
	}
	return count;
}

/*
 * Offer transfers early: a peer that is done with its end of a transfer finds the next without
 * waiting.
 */
static void peer_offer_ahead(struct host_state *host, struct host_peer *peer)
{
	struct operation *operation;
	unsigned ahead = 0;

	TAILQ_FOREACH(operation, &peer->transfers, ready) {
		if (ahead++ == OFFERS_AHEAD)
			break;
		transfer_offer(host, (struct transfer *)operation);
	}
}

/*
 * Copy one run of the oldest transfer of the peer that has a run, for both ends to work on one
 * transfer. Adds to *count how many things happened. False: there is no run to copy.
 */
static bool peer_copy(struct host_state *host, struct host_peer *peer, int *count)
{
	struct operation *operation = TAILQ_FIRST(&peer->transfers), *next;
	enum advanced advanced = ADVANCED_WAITS;

	/* The route may be lost in a copy. */
	for (; operation && peer_is_copied(peer) && advanced != ADVANCED_COPY; operation = next) {
		next = TAILQ_NEXT(operation, ready);
		advanced = operation_advance(host, operation);
		*count += advanced > ADVANCED_SHARED;
	}
	return advanced == ADVANCED_COPY;
}

int operations_advance(struct host_state *host)
{
	struct host_peer *peer, *next;
	bool copied = false;
	int count = 0;

	assert_progress(host->context);
	take_new_operations(host);
	host_say_moving(host, operations_moving(host));
	for (peer = TAILQ_FIRST(&host->turns); peer; peer = next) {
		next = TAILQ_NEXT(peer, turn);
		if (peer_is_copied(peer))
			peer_offer_ahead(host, peer);
		count += peer_advance_requests(host, peer);
	}
	/* One copied run is enough for a call: messages may be waiting. */
	for (peer = TAILQ_FIRST(&host->turns); peer && !copied; peer = next) {
		next = TAILQ_NEXT(peer, turn);
		copied = peer_copy(host, peer, &count);
		if (copied)
			turns_pass(peer);
	}
	if (host->moving)
		host_say_moving(host, operations_moving(host));
	return count;
}

bool operations_withdraw(struct host_state *host, const struct host_peer *peer, int status)
{
	struct operation *head = &host->context->operations.active, *operation;
	bool done = true;

	assert_progress(host->context);
	for (operation = head->next; operation != head; operation = operation->next) {
		if (!is_atomic(operation) && (!peer || operation->peer == &peer->peer))
			done &= transfer_withdraw((struct transfer *)operation, status);
	}
	return done;
}

void operations_fail(struct host_state *host, struct host_peer *peer, int status)
{
	struct operation *head = &host->context->operations.active;
	struct operation *operation, *next;

	assert_progress(host->context);
	operations_collect(&host->context->operations);
	take_new_operations(host);
	for (operation = head->next; operation != head; operation = next) {
		next = operation->next;
		if (operation->peer != &peer->peer)
			continue;
		/*
		 * A transfer is complete if the peer has answered or moved every block, and fails
		 * otherwise.
		 */
		if (operation_advance_kind(host, operation) != ADVANCED_TO_END) {
			operation->completion.status = status;
			atomic_abandon(host, (struct atomic_operation *)operation);
		}
		operation_end(host, operation);
	}
	host_say_moving(host, operations_moving(host));
}

/*
 * Will an event wake this process for the next step of the peer's ready operations, after a poll
 * that did nothing?
 */
static bool peer_waits(const struct host_peer *peer)
{
	/* A peer that moves its end of a transfer sends no message at the end. */
	if (!TAILQ_EMPTY(&peer->transfers) && peer_is_copied(peer))
		return false;
	/*
	 * Events: the peer answers the call, or is gone (a notice); the peer answers a request (a
	 * message).
	 */
	if (peer_state(&peer->peer) == PF_PEER_CONNECTING ||
	    peer->requests_waiting >= REQUESTS_MOST)
		return true;
	/* There is room when the device completes something. Room in a ring comes without a word. */
	return host_peer_route(peer) == &route_device && peer->peer.context->device.in_flight;
}

bool operations_wait(struct host_state *host)
{
	const struct device *device = &host->context->device;
	const struct host_peer *peer;

	assert_progress(host->context);
	TAILQ_FOREACH(peer, &host->turns, turn) {
		if (!peer_waits(peer))
			return false;
	}
	return !device->in_flight || device->may_sleep;
}

void operations_linger(struct host_state *host)
{
	uint64_t end = clock_nanoseconds(CLOCK_MONOTONIC) + OPERATIONS_LINGER_NANOSECONDS;

	assert_progress(host->context);
	while (!operations_withdraw(host, NULL, PF_ERR_PEER) &&
	       clock_nanoseconds(CLOCK_MONOTONIC) < end)
		usleep(LINGER_POLL_MICROSECONDS);
}

void operations_release(struct host_state *host)
{
	struct operations *operations = &host->context->operations;
	struct operation *operation;

	assert_progress(host->context);
	while ((operation = operations_drop(&operations->active)) ||
	       (operation = operations_drop(&operations->posted)))
		operation_release(operation);
}

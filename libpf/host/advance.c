/* SPDX-License-Identifier: BSD-3-Clause */
#include "advance.h"

#include <stdlib.h>
#include <unistd.h>

#include "atomic.h"
#include "base/clock.h"
#include "route_stream.h"
#include "transfer.h"

/* Transfers offered to peers before they are advanced; see offer_ahead. */
#define OFFERS_AHEAD 4
/* Between two looks at what peers still move: less than most copies of a run take. */
#define LINGER_POLL_MICROSECONDS 20

static bool is_atomic(const struct operation *operation)
{
	return operation->kind == OPERATION_ATOMIC;
}

static void release(struct operation *operation)
{
	if (!is_atomic(operation))
		transfer_release((struct transfer *)operation);
	free(operation);
}

static void finish(struct host_state *host, struct operation *operation)
{
	operation_finish(&host->context->operations, operation);
	release(operation);
}

/* So that a peer that is done with its end of one transfer finds the next without waiting. */
static void offer_ahead(struct host_state *host)
{
	struct operation *head = &host->context->operations.active;
	struct operation *operation;
	unsigned ahead = 0;

	for (operation = head->next; operation != head && ahead < OFFERS_AHEAD;
	     operation = operation->next) {
		/* A transfer that waits for its pages does not hold up others. */
		if (!is_atomic(operation)) {
			if (transfer_waits((struct transfer *)operation))
				continue;
			transfer_offer(host, (struct transfer *)operation);
		}
		ahead++;
	}
}

/* Does this process move it, and can go on? Not what the peer or an engine moves. */
static bool is_moving(const struct operation *operation)
{
	return !is_atomic(operation) && peer_state(operation->peer) == PEER_LINKED &&
	       host_peer_route((const struct host_peer *)operation->peer)->shares &&
	       !transfer_waits((const struct transfer *)operation);
}

bool operations_moving(const struct host_state *host)
{
	const struct operations *operations = &host->context->operations;
	const struct operation *operation;

	/* What was just posted is likely to be one. */
	if (atomic_load_explicit(&operations->waiting, memory_order_relaxed))
		return true;
	for (operation = operations->active.next; operation != &operations->active;
	     operation = operation->next) {
		if (is_moving(operation))
			return true;
	}
	return false;
}

static enum advanced advance(struct host_state *host, struct operation *operation)
{
	return is_atomic(operation) ? atomic_advance(host, (struct atomic_operation *)operation) :
				      transfer_advance(host, (struct transfer *)operation);
}

int operations_advance(struct host_state *host)
{
	struct operation *head = &host->context->operations.active;
	struct operation *operation, *next;
	int count = 0;

	offer_ahead(host);
	for (operation = head->next; operation != head; operation = next) {
		enum advanced advanced = advance(host, operation);

		/* Only now: it may have posted to this list, but nothing else takes from it. */
		next = operation->next;
		if (advanced == ADVANCED_TO_END)
			finish(host, operation);
		count += advanced != ADVANCED_NOTHING;
		/*
		 * One copied run is enough for one call: messages may be waiting. The
		 * oldest transfer goes first, so both ends work on the same one.
		 */
		if (advanced == ADVANCED_COPY)
			break;
	}
	return count;
}

void operations_fail(struct host_state *host, struct host_peer *peer, int status)
{
	struct operation *head = &host->context->operations.active;
	struct operation *operation, *next;

	operations_collect(&host->context->operations);
	for (operation = head->next; operation != head; operation = next) {
		next = operation->next;
		if (operation->peer != &peer->peer)
			continue;
		/* What the peer has answered or moved is complete. A transfer that is not fails. */
		if (advance(host, operation) != ADVANCED_TO_END) {
			operation->completion.status = status;
			atomic_abandon(host, (struct atomic_operation *)operation);
		}
		finish(host, operation);
	}
}

/* Is all of it on its way, or parked? Else what is left waits for room in the ring. */
static bool all_started(const struct transfer *transfer)
{
	return transfer->failed ||
	       (transfer->front == transfer->length && transfer->run >= transfer->run_end &&
		transfer->recorded == transfer->moving + transfer->parked);
}

/* Will something wake this process for the next step of an operation with which nothing can be done? */
static bool waits(struct host_state *host, const struct operation *operation)
{
	const struct host_peer *peer = (struct host_peer *)operation->peer;
	const struct device *device = &host->context->device;
	const struct transfer *transfer = (const struct transfer *)operation;

	/* A peer that moves its end of a transfer does not tell when it is done. */
	if (!is_atomic(operation) && transfer->share)
		return false;
	/* It answers the call, or is gone: a notice. It answers a request: a message. */
	if (peer_state(&peer->peer) == PEER_OPEN || peer->requests_waiting >= REQUESTS_MOST)
		return true;
	if (host_peer_route(peer) == &route_device && device->in_flight)
		return device->may_sleep;
	if (is_atomic(operation))
		return ((const struct atomic_operation *)operation)->sent;
	return transfer->moving >= STREAM_WINDOW || all_started(transfer);
}

bool operations_wait(struct host_state *host)
{
	struct operation *head = &host->context->operations.active, *operation;

	for (operation = head->next; operation != head; operation = operation->next) {
		if (!waits(host, operation))
			return false;
	}
	return true;
}

void operations_linger(struct host_state *host)
{
	struct operation *head = &host->context->operations.active, *operation;
	uint64_t end = clock_nanoseconds(CLOCK_MONOTONIC) + OPERATIONS_LINGER_NANOSECONDS;
	bool moving;

	for (;;) {
		moving = false;
		for (operation = head->next; operation != head; operation = operation->next)
			moving |= !is_atomic(operation) &&
				  !transfer_withdraw((struct transfer *)operation);
		if (!moving || clock_nanoseconds(CLOCK_MONOTONIC) >= end)
			break;
		usleep(LINGER_POLL_MICROSECONDS);
	}
}

void operations_release(struct host_state *host)
{
	struct operations *operations = &host->context->operations;
	struct operation *operation;

	while ((operation = operations_drop(&operations->active)) ||
	       (operation = operations_drop(&operations->posted)))
		release(operation);
}

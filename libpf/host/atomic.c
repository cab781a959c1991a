/* SPDX-License-Identifier: BSD-3-Clause */
#include "atomic.h"

#include <stdlib.h>

#include "base/check.h"
#include "turns.h"

enum advanced atomic_advance(struct host_state *host, struct atomic_operation *atomic)
{
	struct host_peer *peer = atomic_peer(atomic);
	const struct route *route = host_peer_route(peer);
	int status = PF_OK;
	uint8_t *payload;

	assert_progress(host->context);
	if (atomic->answered)
		return ADVANCED_TO_END;
	if (!atomic->sent && route && route->atomic &&
	    atomic->message.request.op != MESSAGE_OP_NOTICE)
		return route->atomic(host, atomic);
	if (atomic->sent)
		return ADVANCED_WAITS;
	if (peer->requests_waiting >= REQUESTS_MOST)
		return ADVANCED_BLOCKED;
	atomic->message.token = request_open(&host->requests, REQUEST_ATOMIC, atomic, &peer->peer,
					     &peer->requests_waiting);
	if (!atomic->message.token) {
		atomic->operation.completion.status = PF_ERR_MEMORY;
		return ADVANCED_TO_END;
	}
	host_peer_lock(peer);
	payload = host_peer_reserve(peer, sizeof(atomic->message), &status);
	if (payload) {
		memcpy(payload, &atomic->message, sizeof(atomic->message));
		host_peer_commit(peer, sizeof(atomic->message), MESSAGE_ATOMIC, 0);
	}
	host_peer_unlock(peer);
	if (payload) {
		atomic->sent = true;
		return ADVANCED_LITTLE;
	}
	request_close(&host->requests, atomic->message.token, REQUEST_ATOMIC, &peer->peer);
	if (status == PF_ERR_AGAIN)
		return ADVANCED_BLOCKED;
	atomic->operation.completion.status = status;
	return ADVANCED_TO_END;
}

void atomic_abandon(struct host_state *host, struct atomic_operation *atomic)
{
	assert_progress(host->context);
	request_close(&host->requests, atomic->message.token, REQUEST_ATOMIC,
		      atomic->operation.peer);
}

void atomic_answered(struct atomic_operation *atomic, int status, uint64_t value)
{
	pf_completion *completion = &atomic->operation.completion;

	assert_progress(atomic->operation.peer->context);
	operation_wake(&atomic->operation);
	atomic->answered = true;
	completion->status = status;
	if (status == PF_OK) {
		completion->value = value;
	} else if (status == PF_ERR_FAULT || status == PF_ERR_REFUSED) {
		completion->side = PF_SIDE_REMOTE;
		completion->address = value;
	}
}

struct atomic_operation *atomic_allocate(pf_peer *peer, enum operation_kind kind,
					 const struct atomic_request *request,
					 pf_complete_fn complete, void *arg)
{
	struct atomic_operation *atomic = calloc(1, sizeof(*atomic));

	if (!atomic)
		return NULL;
	atomic->operation.kind = kind;
	atomic->operation.peer = peer;
	atomic->operation.complete = complete;
	atomic->operation.completion.arg = arg;
	atomic->message.request = *request;
	return atomic;
}

int atomic_post(pf_peer *peer, enum pf_atomic_op op, unsigned width, uint64_t remote,
		uint64_t operand, uint64_t compare, pf_complete_fn complete, void *arg)
{
	const struct atomic_request request = { .address = remote,
						.operand = operand,
						.compare = compare,
						.op = (uint8_t)op,
						.width = (uint8_t)width };
	struct atomic_operation *atomic;
	int status;

	assert_that(width == 4 || width == 8);
	if (peer_is_gone(peer))
		return peer->gone_status;
	atomic = atomic_allocate(peer, OPERATION_ATOMIC, &request, complete, arg);
	if (!atomic)
		return PF_ERR_MEMORY;
	status = host_post(peer->context, &atomic->operation, true);
	if (status < 0)
		free(atomic);
	return status;
}

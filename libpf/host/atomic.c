/* SPDX-License-Identifier: BSD-3-Clause */
#include "atomic.h"

#include <stdlib.h>

#include "context/context.h"
#include "memory/resolver.h"
#include "common/peer.h"
#include "common/transport.h"

int atomic_advance(pf_context *context, struct atomic_operation *atomic)
{
	pf_peer *peer = atomic->operation.peer;
	const struct route *route = peer_route(peer);
	int status = PF_OK;
	uint8_t *payload;

	if (atomic->answered)
		return OPERATION_FINISHED;
	if (!atomic->sent && route && route->atomic)
		return route->atomic(context, atomic);
	if (atomic->sent || peer->host->requests_waiting >= REQUESTS_MOST)
		return OPERATION_IDLE;
	atomic->message.token = request_open(&context->requests, REQUEST_ATOMIC, atomic, peer);
	if (!atomic->message.token) {
		atomic->operation.completion.status = PF_ERR_MEMORY;
		return OPERATION_FINISHED;
	}
	peer_lock(peer);
	payload = peer_reserve(peer, sizeof(atomic->message), &status);
	if (payload) {
		memcpy(payload, &atomic->message, sizeof(atomic->message));
		peer_commit(peer, sizeof(atomic->message), MESSAGE_ATOMIC, 0);
	}
	peer_unlock(peer);
	if (payload) {
		atomic->sent = true;
		return OPERATION_MOVED;
	}
	request_close(&context->requests, atomic->message.token, REQUEST_ATOMIC, peer);
	if (status == PF_ERR_AGAIN)
		return OPERATION_IDLE;
	atomic->operation.completion.status = status;
	return OPERATION_FINISHED;
}

void atomic_abandon(pf_context *context, struct atomic_operation *atomic)
{
	request_forget(&context->requests, atomic);
}

void atomic_answered(struct atomic_operation *atomic, int status, uint64_t value)
{
	pf_completion *completion = &atomic->operation.completion;

	atomic->answered = true;
	completion->status = status;
	if (status == PF_OK) {
		completion->value = value;
	} else if (status == PF_ERR_FAULT) {
		completion->side = PF_SIDE_REMOTE;
		completion->address = value;
	}
}

bool atomic_valid(unsigned op, unsigned width, uint64_t address)
{
	return op <= PF_COMPARE_SWAP && (width == 4 || width == 8) && !(address & (width - 1));
}

#define EXECUTE(type)                                                                              \
	static type execute_##type(type *target, unsigned op, type operand, type compare)          \
	{                                                                                          \
		switch (op) {                                                                      \
		case PF_ADD:                                                                       \
			return __atomic_fetch_add(target, operand, __ATOMIC_SEQ_CST);              \
		case PF_AND:                                                                       \
			return __atomic_fetch_and(target, operand, __ATOMIC_SEQ_CST);              \
		case PF_OR:                                                                        \
			return __atomic_fetch_or(target, operand, __ATOMIC_SEQ_CST);               \
		case PF_XOR:                                                                       \
			return __atomic_fetch_xor(target, operand, __ATOMIC_SEQ_CST);              \
		case PF_SWAP:                                                                      \
			return __atomic_exchange_n(target, operand, __ATOMIC_SEQ_CST);             \
		default:                                                                           \
			__atomic_compare_exchange_n(target, &compare, operand, false,              \
						    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);           \
			return compare;                                                            \
		}                                                                                  \
	}
EXECUTE(uint32_t)
EXECUTE(uint64_t)

int atomic_execute(const struct message_atomic *message, uint64_t *value)
{
	void *target = (void *)(uintptr_t)message->address;
	int status;

	/* Ask the kernel first: a peer's bad address must not become our signal. */
	status = resolver_touch(message->address, message->width, true, value);
	if (status != PF_OK)
		return status;
	if (message->width == 4)
		*value = execute_uint32_t(target, message->op, (uint32_t)message->operand,
					  (uint32_t)message->compare);
	else
		*value = execute_uint64_t(target, message->op, message->operand, message->compare);
	return PF_OK;
}

int atomic_post(pf_peer *peer, enum pf_atomic_op op, unsigned width, uint64_t remote,
		uint64_t operand, uint64_t compare, pf_complete_fn complete, void *arg)
{
	struct atomic_operation *atomic;

	if (peer_state(peer) == PEER_GONE)
		return peer->gone_status;
	atomic = calloc(1, sizeof(*atomic));
	if (!atomic)
		return PF_ERR_MEMORY;
	atomic->operation.kind = OPERATION_ATOMIC;
	atomic->operation.peer = peer;
	atomic->operation.complete = complete;
	atomic->operation.completion.arg = arg;
	atomic->message = (struct message_atomic){
		.address = remote,
		.operand = operand,
		.compare = compare,
		.op = (uint8_t)op,
		.width = (uint8_t)width,
	};
	operation_post(peer->context, &atomic->operation);
	return PF_OK;
}

int pf_atomic(pf_peer *peer, enum pf_atomic_op op, unsigned width, int fetch, uint64_t remote,
	      uint64_t operand, uint64_t compare, pf_complete_fn complete, void *arg)
{
	(void)fetch; /* the answer tells of completion and has room for the value anyway */
	if (!atomic_valid(op, width, remote))
		return PF_ERR_ARGUMENT;
	return peer->transport->atomic(peer, op, width, remote, operand, compare, complete, arg);
}

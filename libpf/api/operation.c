/* SPDX-License-Identifier: BSD-3-Clause */
/* Put, get, send and atomics: pf.h documents every function here. */
#include "base/tag.h"
#include "common/context.h"
#include "memory/atomic.h"

static inline int operation_transfer(pf_peer *peer, enum operation_kind kind, const void *buffer,
				     uint64_t remote, size_t length, pf_complete_fn complete,
				     void *arg)
{
	char *local = tag_remove_pointer(buffer);

	if (!length)
		return PF_DONE;
	remote = tag_remove(remote);
	if (remote + length < remote || (uint64_t)(uintptr_t)local + length < length)
		return PF_ERR_ARGUMENT;
	return peer->transport->transfer(peer, kind, local, remote, length, complete, arg);
}

int pf_put(pf_peer *peer, const void *local, uint64_t remote, size_t length,
	   pf_complete_fn complete, void *arg)
{
	return operation_transfer(peer, OPERATION_PUT, local, remote, length, complete, arg);
}

int pf_get(pf_peer *peer, void *local, uint64_t remote, size_t length, pf_complete_fn complete,
	   void *arg)
{
	return operation_transfer(peer, OPERATION_GET, local, remote, length, complete, arg);
}

int pf_atomic(pf_peer *peer, enum pf_atomic_op op, unsigned width, int fetch, uint64_t remote,
	      uint64_t operand, uint64_t compare, pf_complete_fn complete, void *arg)
{
	remote = tag_remove(remote);
	(void)fetch; /* the answer reports completion and has room for the value anyway */
	if (!atomic_valid(op, width, remote))
		return PF_ERR_ARGUMENT;
	return peer->transport->atomic(peer, op, width, remote, operand, compare, complete, arg);
}

static inline int send_message(pf_peer *peer, uint8_t tag, const void *header, size_t header_length,
			       const void *payload, size_t length, pf_pack_fn pack, void *arg)
{
	size_t most = peer->context->send_max;

	if (__builtin_expect(header_length > most || length > most - header_length, 0))
		return PF_ERR_TOO_LONG;
	if (__builtin_expect((header_length && !header) || (length && !payload && !pack), 0))
		return PF_ERR_ARGUMENT;
	return peer->transport->send(peer, tag, header, header_length, payload, length, pack, arg);
}

int pf_send(pf_peer *peer, uint8_t tag, const void *header, size_t header_length,
	    const void *payload, size_t payload_length)
{
	return send_message(peer, tag, header, header_length, payload, payload_length, NULL, NULL);
}

int pf_send_pack(pf_peer *peer, uint8_t tag, const void *header, size_t header_length,
		 size_t length, pf_pack_fn pack, void *arg)
{
	return send_message(peer, tag, header, header_length, NULL, length, pack, arg);
}

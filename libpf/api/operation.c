/* SPDX-License-Identifier: BSD-3-Clause */
/* Put, get, send and atomics: pf.h documents every function here. */
#include "base/tag.h"
#include "common/context.h"
#include "memory/atomic.h"

static inline bool range_valid(uint64_t address, uint64_t length)
{
	address = tag_remove(address);
	return address + length >= address;
}

static inline int operation_transfer(pf_peer *peer, enum operation_kind kind,
				     const pf_piece *pieces, unsigned count,
				     pf_complete_fn complete, void *arg)
{
	uint64_t length = 0;
	unsigned i;

	if (count > PF_VECTOR_MOST)
		return PF_ERR_ARGUMENT;
	for (i = 0; i < count; i++) {
		const pf_piece *piece = &pieces[i];

		length += piece->length;
		if (!range_valid((uintptr_t)piece->local, piece->length) ||
		    !range_valid(piece->remote, piece->length) || length < piece->length)
			return PF_ERR_ARGUMENT;
	}
	if (!length)
		return PF_OK;
	return peer->transport->transfer(peer, kind, pieces, count, length, complete, arg);
}

/* PF_PUT_UNREAD permits what no transport does yet. */
static bool flags_valid(unsigned flags)
{
	return !(flags & ~PF_PUT_UNREAD);
}

int pf_put(pf_peer *peer, const void *local, uint64_t remote, size_t length, unsigned flags,
	   pf_complete_fn complete, void *arg)
{
	const pf_piece piece = { (void *)(uintptr_t)local, remote, length };

	if (!flags_valid(flags))
		return PF_ERR_ARGUMENT;
	return operation_transfer(peer, OPERATION_PUT, &piece, 1, complete, arg);
}

int pf_get(pf_peer *peer, void *local, uint64_t remote, size_t length, pf_complete_fn complete,
	   void *arg)
{
	const pf_piece piece = { local, remote, length };

	return operation_transfer(peer, OPERATION_GET, &piece, 1, complete, arg);
}

int pf_putv(pf_peer *peer, const pf_piece *pieces, unsigned count, unsigned flags,
	    pf_complete_fn complete, void *arg)
{
	if (!flags_valid(flags))
		return PF_ERR_ARGUMENT;
	return operation_transfer(peer, OPERATION_PUT, pieces, count, complete, arg);
}

int pf_getv(pf_peer *peer, const pf_piece *pieces, unsigned count, pf_complete_fn complete,
	    void *arg)
{
	return operation_transfer(peer, OPERATION_GET, pieces, count, complete, arg);
}

int pf_put_signal(pf_peer *peer, const void *local, uint64_t remote, size_t length,
		  const pf_signal *signal, unsigned flags, pf_complete_fn complete, void *arg)
{
	const pf_piece piece = { tag_remove_pointer(local), tag_remove(remote), length };
	pf_signal own;

	if (!flags_valid(flags) || !signal || !range_valid((uintptr_t)local, length) ||
	    !range_valid(remote, length))
		return PF_ERR_ARGUMENT;
	own = *signal;
	own.remote = tag_remove(own.remote);
	if ((unsigned)own.op > PF_SIGNAL_NOTICE ||
	    (own.op != PF_SIGNAL_NOTICE && own.remote % sizeof(own.value)))
		return PF_ERR_ARGUMENT;
	return peer->transport->put_signal(peer, &piece, &own, complete, arg);
}

int pf_atomic(pf_peer *peer, enum pf_atomic_op op, unsigned width, uint64_t remote,
	      uint64_t operand, uint64_t compare, pf_complete_fn complete, void *arg)
{
	remote = tag_remove(remote);
	if (!atomic_valid(op, width, remote))
		return PF_ERR_ARGUMENT;
	return peer->transport->atomic(peer, op, width, remote, operand, compare, complete, arg);
}

static inline int send_message(pf_peer *peer, uint32_t tag, const void *header,
			       size_t header_length, const void *payload, size_t length,
			       pf_pack_fn pack, void *arg)
{
	size_t most = peer->context->send_max;

	if (__builtin_expect(header_length > most || length > most - header_length, 0))
		return PF_ERR_TOO_LONG;
	if (__builtin_expect((header_length && !header) || (length && !payload && !pack), 0))
		return PF_ERR_ARGUMENT;
	return peer->transport->send(peer, tag, header, header_length, payload, length, pack, arg);
}

int pf_send(pf_peer *peer, uint32_t tag, const void *header, size_t header_length,
	    const void *payload, size_t payload_length)
{
	return send_message(peer, tag, header, header_length, payload, payload_length, NULL, NULL);
}

int pf_send_pack(pf_peer *peer, uint32_t tag, const void *header, size_t header_length,
		 size_t length, pf_pack_fn pack, void *arg)
{
	return send_message(peer, tag, header, header_length, NULL, length, pack, arg);
}

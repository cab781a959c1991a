/* SPDX-License-Identifier: BSD-3-Clause */
/* The transport to processes of this host, from its parts. */
#include <string.h>

#include "atomic.h"
#include "context/context.h"
#include "message.h"
#include "common/peer.h"
#include "transfer.h"
#include "common/transport.h"

/* Make it visible first, then write it piece by piece. */
static void write_long(uint8_t *destination, const void *header, size_t header_length,
		       const char *payload, size_t length)
{
	_Atomic uint64_t *written = (_Atomic uint64_t *)destination;
	size_t done = 0, piece;

	destination += sizeof(*written);
	if (header_length)
		memcpy(destination, header, header_length);
	destination += header_length;
	while (done < length) {
		piece = length - done < MESSAGE_PIECE ? length - done : MESSAGE_PIECE;
		memcpy(destination + done, payload + done, piece);
		done += piece;
		atomic_store_explicit(written, header_length + done, memory_order_release);
	}
}

static int host_send(pf_peer *peer, uint8_t tag, const void *header, size_t header_length,
		     const void *payload, size_t length, pf_pack_fn pack, void *arg)
{
	struct statistics *statistics = &peer->context->statistics;
	bool in_pieces = length >= MESSAGE_LONG_LEAST && !pack;
	size_t total = header_length + length;
	int status = PF_DONE;
	uint8_t *destination;

	peer_lock(peer);
	destination = peer_reserve(peer, in_pieces ? total + sizeof(uint64_t) : total, &status);
	if (__builtin_expect(!destination, 0)) {
		peer_unlock(peer);
		if (status == PF_ERR_AGAIN)
			statistic_add(statistics, PF_STAT_RING_FULL, 1);
		return status;
	}
	if (in_pieces) {
		atomic_store_explicit((_Atomic uint64_t *)destination, 0, memory_order_relaxed);
		peer_commit(peer, total + sizeof(uint64_t), MESSAGE_LONG, tag);
		write_long(destination, header, header_length, payload, length);
		peer_unlock(peer);
		goto sent;
	}
	if (header_length)
		memcpy(destination, header, header_length);
	if (pack)
		pack(destination + header_length, length, arg);
	else if (length)
		memcpy(destination + header_length, payload, length);
	peer_commit(peer, total, MESSAGE_USER, tag);
	peer_unlock(peer);
sent:
	context_moved(peer->context);
	statistic_add(statistics, PF_STAT_SENDS, 1);
	statistic_add(statistics, PF_STAT_SEND_BYTES, total);
	return PF_DONE;
}

static int host_advance(pf_context *context, struct operation *operation)
{
	return operation->kind == OPERATION_ATOMIC ?
		       atomic_advance(context, (struct atomic_operation *)operation) :
		       transfer_advance(context, (struct transfer *)operation);
}

static void host_abandon(pf_context *context, struct operation *operation)
{
	if (operation->kind == OPERATION_ATOMIC)
		atomic_abandon(context, (struct atomic_operation *)operation);
	else
		transfer_abandon(context, (struct transfer *)operation);
}

static void host_release(struct operation *operation)
{
	if (operation->kind != OPERATION_ATOMIC)
		transfer_release((struct transfer *)operation);
}

const struct transport transport_host = {
	.name = "host",
	.send = host_send,
	.transfer = transfer_post,
	.atomic = atomic_post,
	.advance = host_advance,
	.abandon = host_abandon,
	.release = host_release,
};

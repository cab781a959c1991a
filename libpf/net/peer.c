/* SPDX-License-Identifier: BSD-3-Clause */
#include "peer.h"

#include <sodium.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/probe.h"
#include "base/tag.h"
#include "common/refused.h"
#include "network.h"
#include "offload.h"

/* Bytes: copying a shorter payload costs less than sending from the payload's own memory. */
#define LEND_LEAST 2048

_Static_assert(sizeof(struct address) + PF_DATA_MOST <= NET_INFO_MOST, "a HELLO has the address");

static const char not_tried[] = "no answer expected (another process of its host did not answer)";

/*
 * Open the association with a peer, which has not called. Return NULL without memory, or with the
 * reason in *status.
 */
static struct net_association *net_peer_open(struct net_peer *peer, int *status)
{
	struct network *network = peer->peer.context->network;
	const struct address *address = peer->peer.address;
	struct net_endpoint paths[NET_PATHS_MOST];
	struct net_association *association;
	uint8_t info[sizeof(struct address) + PF_DATA_MOST];
	struct address own;
	size_t length;
	unsigned count, i;

	assert_locked(&network->lock, true);
	count = net_process_paths(&network->processes, address, paths);
	if (!count) {
		*status = PF_ERR_UNREACHABLE;
		return NULL;
	}
	/* The own address is not secret, except for the key. */
	own = context_address(peer->peer.context);
	sodium_memzero(own.key, sizeof(own.key));
	length = address_write(info, &own, peer->peer.context->data);
	association = net_open(network->core, peer->peer.id, address->key, &paths[0], info, length,
			       peer);
	if (!association) {
		/* The process has ended: its first record is being forgotten. */
		if (net_knows(network->core, peer->peer.id))
			*status = PF_ERR_PEER;
		return NULL;
	}
	for (i = 1; i < count; i++)
		net_path_add(association, &paths[i]);
	peer->engine = address->engine;
	net_peer_bind(&network->processes, peer, association);
	return association;
}

/*
 * Under network.lock: return the association with a peer, opened here if there is none. NULL: see
 * *status.
 */
static struct net_association *net_peer_associate(pf_peer *peer, int *status)
{
	struct net_association *association = net_peer(peer)->association;

	assert_locked(&peer->context->network->lock, true);
	*status = PF_ERR_MEMORY;
	if (peer_is_gone(peer)) {
		*status = (int)peer->gone_status;
		return NULL;
	}
	return association ? association : net_peer_open(net_peer(peer), status);
}

/*
 * Under network.lock: begin a contact, or end a contact. Return PF_ERR_AGAIN until the answer is
 * known.
 */
static int net_peer_begin_contact(struct network *network, pf_peer *peer, bool wait)
{
	struct net_peer *contacted = net_peer(peer);
	struct net_association *association;
	bool neighbour;
	int status;

	assert_locked(&network->lock, true);
	association = net_peer_associate(peer, &status);
	if (!association)
		return status;
	if (net_is_open(association))
		return PF_OK;
	/*
	 * A host is waited for once, though a port of another process there may be open: with many
	 * processes the waits would add up. All processes of the host come to equal results, as
	 * explained below.
	 */
	neighbour = net_peer_neighbour_is_silent(&network->processes, contacted);
	if (net_is_silent(association) || neighbour) {
		contacted->contacting = true;
		net_give_up(association, net_is_silent(association) ? NULL : not_tried);
	} else {
		contacted->contacting |= wait;
	}
	status = net_contact(association);
	if (status == PF_OK)
		return PF_ERR_AGAIN;
	net_peer_explain(&network->processes, contacted);
	return status;
}

/*
 * Both ends of a contact come to equal results. An association opens here only if packets arrive in
 * both directions. An association that was given up is not opened by later HELLOs of the peer,
 * because the peer gives up as well, after an own wait.
 */
int net_peer_contact(pf_peer *peer, bool wait, const char **why)
{
	struct network *network = peer->context->network;
	struct network_waiter waiter = { 0 };
	int status;

	for (;;) {
		network_lock(network);
		status = net_peer_begin_contact(network, peer, wait);
		*why = peer_path(peer);
		/* Send the packets of the contact. */
		network_post(network, false, 0);
		if (status != PF_ERR_AGAIN || !wait)
			break;
		if (!network_wait(network, &waiter)) {
			/* The result is unknown: report the contact like any first contact. */
			network_lock(network);
			if (!net_is_silent(net_peer(peer)->association))
				net_peer(peer)->contacting = false;
			network_unlock(network);
			break;
		}
	}
	return status;
}

void net_peer_forget(pf_peer *base)
{
	struct network *network = base->context->network;
	struct net_peer *peer = net_peer(base);

	assert_progress(base->context);
	network_lock(network);
	if (peer->association)
		net_close(peer->association);
	peer->association = NULL;
	network_unlock(network);
}

void net_peer_destroy(pf_peer *peer)
{
	if (net_peer(peer)->explained)
		free(net_peer(peer)->why);
}

/* After a post to the core: send, and release network.lock, held by the caller. */
static void network_posted(struct network *network, bool message, size_t length)
{
	pf_context *context = network->context;

	assert_locked(&network->lock, true);
	network_post(network, message, length);
	/* The next poll sends coalesced posts: wake progress, like host_post. */
	if (context->posts_wake)
		context->wake(context);
}

/*
 * Does a pager own a part of the memory? A page of a pager may be absent, and the sender must wait
 * for the page without network.lock, because all threads need the lock.
 */
static bool memory_is_paged(pf_context *context, const void *memory, size_t length)
{
	return pagers_own(&context->memory.pagers, (uint64_t)(uintptr_t)memory, length);
}

/* Copy header and payload into one piece. Return NULL without memory. */
static uint8_t *message_gather(const void *header, size_t header_length, const void *payload,
			       size_t length)
{
	uint8_t *message = malloc(header_length + length);

	if (!message)
		return NULL;
	if (header_length)
		memcpy(message, header, header_length);
	if (length)
		memcpy(message + header_length, payload, length);
	return message;
}

int net_transport_send(pf_peer *peer, uint32_t tag, const void *header, size_t header_length,
		       const void *payload, size_t length, pf_pack_fn pack, void *arg)
{
	struct statistics *statistics = &peer->context->statistics;
	struct network *network = peer->context->network;
	struct net_association *association;
	int status = PF_ERR_MEMORY;
	uint8_t *gathered = NULL;

	if (!pack && (memory_is_paged(peer->context, header, header_length) ||
		      memory_is_paged(peer->context, payload, length))) {
		gathered = message_gather(header, header_length, payload, length);
		if (!gathered)
			return PF_ERR_MEMORY;
		payload = gathered + header_length;
		header = gathered;
	}
	/*
	 * The core calls pack only when there is room, hence under the lock. If pack meets an
	 * absent page of a pager, the service thread, which waits for no lock, brings the page.
	 */
	network_lock(network);
	association = net_peer_associate(peer, &status);
	if (!association)
		;
	else if (pack)
		status = net_send_pack(association, tag, header, header_length, length, pack, arg);
	else if (length >= LEND_LEAST)
		status = net_send_lent(association, tag, header, header_length, payload, length);
	else
		status = net_send(association, tag, header, header_length, payload, length);
	network_posted(network, true, status == PF_OK ? header_length + length : 0);
	free(gathered);
	if (status == PF_OK) {
		statistic_add(statistics, PF_STAT_SENDS, 1);
		statistic_add(statistics, PF_STAT_SEND_BYTES, header_length + length);
	} else if (status == PF_ERR_AGAIN) {
		status = refused_add(peer, REFUSED_MESSAGE, header_length + length);
	}
	return status;
}

bool net_transport_has_room(pf_peer *peer, size_t length)
{
	struct network *network = peer->context->network;
	struct net_association *association;
	int status;
	bool room;

	network_lock(network);
	association = net_peer_associate(peer, &status);
	room = !association || net_has_room(association, length);
	network_unlock(network);
	return room;
}

/* Make an operation, listed in operations.away. Return PF_OK with *operation, or the reason. */
static int offload_start(pf_peer *peer, enum operation_kind kind, pf_complete_fn complete,
			 void *arg, struct offload **operation)
{
	struct offload *offload;
	struct operation *made;

	if (peer_is_gone(peer))
		return peer->gone_status;
	offload = calloc(1, sizeof(*offload));
	if (!offload)
		return PF_ERR_MEMORY;
	made = &offload->operation;
	made->kind = kind;
	made->peer = peer;
	made->complete = complete;
	made->completion.arg = arg;
	if (!operation_send_away(&peer->context->operations, made)) {
		free(offload);
		return refused_add(peer, REFUSED_OPERATION, 0);
	}
	*operation = offload;
	return PF_OK;
}

/*
 * End a post with a status, and release network.lock, held by the caller. After PF_PENDING the core
 * owns the operation; otherwise the operation is freed.
 */
static int operation_finish_post(struct network *network, struct operation *operation, int status)
{
	assert_locked(&network->lock, true);
	if (status == PF_PENDING) {
		network_posted(network, false, 0);
		return PF_PENDING;
	}
	network_unlock(network);
	if (operation->kind != OPERATION_ATOMIC)
		probe_transfer_done(network->context->trace, operation, status);
	operation_take_back(&network->context->operations, operation);
	free(operation);
	return status;
}

/*
 * Under network.lock: post an operation to the core: the pieces of a transfer, or a described
 * atomic. PF_PENDING, or the reason.
 */
static int offload_post_packets(struct offload *offload, const pf_piece *pieces, unsigned count)
{
	const struct exanest_submission *what = &offload->submission;
	struct operation *operation = &offload->operation;
	struct net_association *association;
	int status;

	assert_locked(&offload->operation.peer->context->network->lock, true);
	association = net_peer_associate(operation->peer, &status);
	if (!association)
		return status;
	switch (operation->kind) {
	case OPERATION_PUT:
		return net_put(association, pieces, count, operation);
	case OPERATION_GET:
		return net_get(association, pieces, count, operation);
	default:
		return net_atomic(association, offload->atomic, (unsigned)what->length,
				  what->remote, what->operand, what->compare, operation);
	}
}

/*
 * Under network.lock: return the address of the peer at the engine of /dev/exanest; 0: the engine
 * does not reach the peer. *status: PF_OK, or an error of the peer.
 */
static uint64_t net_peer_engine(pf_peer *peer, int *status)
{
	pf_context *context = peer->context;

	assert_locked(&context->network->lock, true);
	if (!net_peer_associate(peer, status))
		return 0;
	*status = PF_OK;
	return device_node_address(&context->device) ? net_peer_engine_address(net_peer(peer)) : 0;
}

/* Implement offload.again. */
static int offload_post_again(struct offload *offload, bool lost)
{
	const struct exanest_submission *what = &offload->submission;
	const pf_piece piece = { (void *)(uintptr_t)what->local, what->remote, what->length };
	pf_peer *peer = offload->operation.peer;
	struct network *network = peer->context->network;
	int status;

	assert_progress(network->context);
	network_lock(network);
	if (lost)
		net_peer_lose_engine(net_peer(peer));
	status = offload_post_packets(offload, &piece, 1);
	if (status == PF_PENDING)
		network_posted(network, false, 0);
	else
		network_unlock(network);
	return status;
}

/* Give an operation to the engine, and release network.lock, held by the caller. */
static int offload_give(struct network *network, struct offload *offload)
{
	pf_context *context = network->context;

	assert_locked(&network->lock, true);
	network_unlock(network);
	offload->again = offload_post_again;
	offload_post(&network->offloads, offload);
	if (context->posts_wake)
		context->wake(context);
	return PF_PENDING;
}

/*
 * The engine gets transfers of a single piece: a submission is a piece, with a completion. Packets
 * carry vectors.
 */
int net_transport_transfer(pf_peer *peer, enum operation_kind kind, const pf_piece *pieces,
			   unsigned count, uint64_t length, pf_complete_fn complete, void *arg)
{
	uint64_t local = (uintptr_t)tag_remove_pointer(pieces[0].local), engine = 0;
	uint64_t remote = tag_remove(pieces[0].remote);
	struct network *network = peer->context->network;
	struct offload *offload;
	struct operation *operation;
	int status = offload_start(peer, kind, complete, arg, &offload);
	unsigned i;

	if (status != PF_OK)
		return status;
	operation = &offload->operation;
	probe_transfer(peer->context->trace, operation, kind == OPERATION_PUT, local, remote,
		       length, peer->id);
	for (i = 0; i < count && kind == OPERATION_GET; i++)
		memory_expect(&peer->context->memory,
			      (uintptr_t)tag_remove_pointer(pieces[i].local), pieces[i].length);
	network_lock(network);
	if (count == 1)
		engine = net_peer_engine(peer, &status);
	if (engine) {
		offload_describe_transfer(offload, engine, local, remote, length);
		return offload_give(network, offload);
	}
	if (status == PF_OK)
		status = offload_post_packets(offload, pieces, count);
	return operation_finish_post(network, operation, status);
}

/* The engine knows no signals: packets carry the data, too. */
int net_transport_put_signal(pf_peer *peer, const pf_piece *piece, const pf_signal *signal,
			     pf_complete_fn complete, void *arg)
{
	struct network *network = peer->context->network;
	struct net_association *association;
	struct offload *offload;
	struct operation *operation;
	int status = offload_start(peer, OPERATION_PUT, complete, arg, &offload);

	if (status != PF_OK)
		return status;
	operation = &offload->operation;
	probe_transfer(peer->context->trace, operation, true, (uintptr_t)piece->local,
		       piece->remote, piece->length, peer->id);
	network_lock(network);
	association = net_peer_associate(peer, &status);
	if (association)
		status = net_put_signal(association, piece, signal, operation);
	if (status != PF_PENDING)
		return operation_finish_post(network, operation, status);
	/* Like a message: from a callback, together with all that is due. */
	network_posted(network, true, piece->length);
	return PF_PENDING;
}

int net_transport_atomic(pf_peer *peer, enum pf_atomic_op op, unsigned width, uint64_t remote,
			 uint64_t operand, uint64_t compare, pf_complete_fn complete, void *arg)
{
	struct network *network = peer->context->network;
	struct offload *offload;
	uint64_t engine;
	int status = offload_start(peer, OPERATION_ATOMIC, complete, arg, &offload);

	if (status != PF_OK)
		return status;
	network_lock(network);
	engine = net_peer_engine(peer, &status);
	offload->atomic = op;
	offload_describe_atomic(offload, engine, op, width, remote, operand, compare);
	if (engine)
		return offload_give(network, offload);
	if (status == PF_OK)
		status = offload_post_packets(offload, NULL, 0);
	return operation_finish_post(network, &offload->operation, status);
}

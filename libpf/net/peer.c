/* SPDX-License-Identifier: BSD-3-Clause */
#include "peer.h"

#include <sodium.h>
#include <stdlib.h>

#include "base/probe.h"
#include "common/refused.h"
#include "engine.h"
#include "node.h"

/* Bytes: a shorter payload costs less to copy first than to send from where it lies. */
#define LEND_LEAST 2048

static const char not_tried[] = "no answer expected (another process of its host did not answer)";

void net_peer_meet(pf_peer *peer)
{
	struct engine *engine = peer->context->engine;
	struct link *link;

	engine_lock(engine);
	link = link_of_id(&engine->links, peer->id);
	if (link && !link->peer)
		link_bind(link, peer);
	engine_unlock(engine);
}

/* The first use of a peer that has not called us. NULL: no memory, or why not in *status. */
static struct link *link_open(const pf_peer *peer, int *status)
{
	struct engine *engine = peer->context->engine;
	struct net_endpoint paths[NET_PATHS_MOST];
	struct net_association *association;
	struct address own;
	struct link *link;
	unsigned count, i;

	count = link_paths(&engine->links, peer->address, paths);
	if (!count) {
		*status = PF_ERR_UNREACHABLE;
		return NULL;
	}
	link = calloc(1, sizeof(*link));
	if (!link)
		return NULL;
	/* What we say of ourselves is not secret; the key is. */
	own = context_address(peer->context);
	sodium_memzero(own.key, sizeof(own.key));
	association = net_open(engine->core, peer->id, peer->address->key, &paths[0], &own,
			       sizeof(own), link);
	if (!association) {
		free(link);
		return NULL;
	}
	for (i = 1; i < count; i++)
		net_path_add(association, &paths[i]);
	link->engine = peer->address->engine;
	link_add(&engine->links, link, association);
	return link;
}

/* Under the engine's lock: the association, opened if there is none. NULL with *status. */
static struct net_association *association_of(pf_peer *peer, int *status)
{
	struct link *link = net_peer(peer)->link;

	*status = PF_ERR_MEMORY;
	if (peer_state(peer) == PEER_GONE) {
		*status = peer->gone_status;
		return NULL;
	}
	if (!link)
		link = link_of_id(&peer->context->engine->links, peer->id);
	if (!link)
		link = link_open(peer, status);
	if (!link)
		return NULL;
	if (!link->peer)
		link_bind(link, peer);
	return link->association;
}

/* Under the lock: begin the contact, or end it. PF_ERR_AGAIN: the answer is not known yet. */
static int engine_contact(struct engine *engine, pf_peer *peer, bool wait)
{
	struct net_association *association;
	const struct link *neighbour;
	struct link *link;
	int status;

	association = association_of(peer, &status);
	if (!association)
		return status;
	if (net_is_open(association))
		return PF_OK;
	link = net_peer(peer)->link;
	/*
	 * One wait for each host, though a port of its other processes may be open: with
	 * many of them the waits would add up. Those come to the same result, see below.
	 */
	neighbour = link_silent_neighbour(&engine->links, link);
	if (net_is_silent(association) || neighbour) {
		link->contacting = true;
		net_give_up(association, net_is_silent(association) ? NULL : not_tried);
	} else {
		link->contacting |= wait;
	}
	status = net_contact(association);
	if (status == PF_OK)
		return PF_ERR_AGAIN;
	link_explain(&engine->links, link);
	return status;
}

/*
 * Both ends come to the same result. An association is open here only if the peer's
 * packets arrive here, and ours there. One that was given up is not opened by the peer's
 * HELLOs later: the peer gives it up as well, after its own wait.
 */
int net_peer_contact(pf_peer *peer, bool wait, const char **why)
{
	struct engine *engine = peer->context->engine;
	struct engine_waiter waiter = { 0 };
	int status;

	for (;;) {
		engine_lock(engine);
		status = engine_contact(engine, peer, wait);
		*why = peer_path(peer);
		/* Sends what that has to say. */
		engine_post(engine, false, 0);
		if (status != PF_ERR_AGAIN || !wait)
			break;
		if (!engine_wait(engine, &waiter)) {
			/* Nothing is known: it is reported like any other first contact. */
			engine_lock(engine);
			if (!net_is_silent(net_peer(peer)->link->association))
				net_peer(peer)->link->contacting = false;
			engine_unlock(engine);
			break;
		}
	}
	return status;
}

/* With the lock, which it gives back, after posting to the core. */
static void engine_posted(struct engine *engine, bool message, size_t length)
{
	pf_context *context = engine->context;

	engine_post(engine, message, length);
	/* The next poll sends what is coalesced: as in host_post. */
	if (context->posts_wake)
		context->wake(context);
}

/*
 * Does some of it belong to a pager? Then a page may be absent, and the sender must
 * wait for it without the lock, which all others need.
 */
static bool is_paged(pf_context *context, const void *memory, size_t length)
{
	return pagers_own(&context->memory.pagers, (uint64_t)(uintptr_t)memory, length);
}

/* In one piece; NULL: no memory. */
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

static int net_transport_send(pf_peer *peer, uint8_t tag, const void *header, size_t header_length,
			      const void *payload, size_t length, pf_pack_fn pack, void *arg)
{
	struct statistics *statistics = &peer->context->statistics;
	struct engine *engine = peer->context->engine;
	struct net_association *association;
	int status = PF_ERR_MEMORY;
	uint8_t *gathered = NULL;

	if (!pack && (is_paged(peer->context, header, header_length) ||
		      is_paged(peer->context, payload, length))) {
		gathered = message_gather(header, header_length, payload, length);
		if (!gathered)
			return PF_ERR_MEMORY;
		payload = gathered + header_length;
		header = gathered;
	}
	/*
	 * pack is called under the lock, for it is called only if there is room. If it
	 * meets a pager's absent page, the service thread, which waits for no lock, brings it.
	 */
	engine_lock(engine);
	association = association_of(peer, &status);
	if (!association)
		;
	else if (pack)
		status = net_send_pack(association, tag, header, header_length, length, pack, arg);
	else if (length >= LEND_LEAST)
		status = net_send_lent(association, tag, header, header_length, payload, length);
	else
		status = net_send(association, tag, header, header_length, payload, length);
	engine_posted(engine, true, status == PF_DONE ? header_length + length : 0);
	free(gathered);
	if (status == PF_DONE) {
		statistic_add(statistics, PF_STAT_SENDS, 1);
		statistic_add(statistics, PF_STAT_SEND_BYTES, header_length + length);
	} else if (status == PF_ERR_AGAIN) {
		status = refused_add(peer, REFUSED_MESSAGE, header_length + length);
	}
	return status;
}

static bool net_transport_has_room(pf_peer *peer, size_t length)
{
	struct engine *engine = peer->context->engine;
	struct net_association *association;
	int status;
	bool room;

	engine_lock(engine);
	association = association_of(peer, &status);
	room = !association || net_has_room(association, length);
	engine_unlock(engine);
	return room;
}

/* *operation: recorded as away. PF_OK, or why not. */
static int operation_start(pf_peer *peer, enum operation_kind kind, pf_complete_fn complete,
			   void *arg, struct node_operation **operation)
{
	struct node_operation *record;
	struct operation *made;

	if (peer_state(peer) == PEER_GONE)
		return peer->gone_status;
	record = calloc(1, sizeof(*record));
	if (!record)
		return PF_ERR_MEMORY;
	made = &record->operation;
	made->kind = kind;
	made->peer = peer;
	made->complete = complete;
	made->completion.arg = arg;
	if (!operation_send_away(&peer->context->operations, made)) {
		free(record);
		return refused_add(peer, REFUSED_OPERATION, 0);
	}
	*operation = record;
	return PF_OK;
}

/* With the lock, which it gives back: the core has the operation, or the status says why not. */
static int finish_post(struct engine *engine, struct operation *operation, int status)
{
	if (status == PF_OK) {
		engine_posted(engine, false, 0);
		return PF_OK;
	}
	engine_unlock(engine);
	if (operation->kind != OPERATION_ATOMIC)
		probe_transfer_done(engine->context->trace, operation, status);
	operation_take_back(&engine->context->operations, operation);
	free(operation);
	return status;
}

/* With the lock: give the core an operation that was described. PF_OK, or why not. */
static int post_packets(struct node_operation *record)
{
	const struct exanest_submission *what = &record->submission;
	struct operation *operation = &record->operation;
	struct net_association *association;
	int status;

	association = association_of(operation->peer, &status);
	if (!association)
		return status;
	switch (operation->kind) {
	case OPERATION_PUT:
		return net_put(association, what->local, what->remote, what->length, operation);
	case OPERATION_GET:
		return net_get(association, what->local, what->remote, what->length, operation);
	default:
		return net_atomic(association, record->atomic, (unsigned)what->length, what->remote,
				  what->operand, what->compare, operation);
	}
}

/*
 * With the lock: the peer's address at the engine of /dev/exanest; 0: that does not reach it.
 * *status: PF_OK, or an error of the peer.
 */
static uint64_t engine_address(pf_peer *peer, int *status)
{
	pf_context *context = peer->context;
	struct link *link;

	if (!association_of(peer, status))
		return 0;
	*status = PF_OK;
	link = net_peer(peer)->link;
	return link && device_node_address(&context->device) ? link_engine(link) : 0;
}

/* See struct node_operation. */
static int post_again(struct node_operation *record, bool lost)
{
	pf_peer *peer = record->operation.peer;
	struct engine *engine = peer->context->engine;
	int status;

	engine_lock(engine);
	if (lost && net_peer(peer)->link)
		link_lose_engine(net_peer(peer)->link);
	status = post_packets(record);
	if (status == PF_OK)
		engine_posted(engine, false, 0);
	else
		engine_unlock(engine);
	return status;
}

/* With the lock, which it gives back. */
static int post_to_node(struct engine *engine, struct node_operation *operation)
{
	pf_context *context = engine->context;

	engine_unlock(engine);
	operation->again = post_again;
	node_post(&engine->nodes, operation);
	if (context->posts_wake)
		context->wake(context);
	return PF_OK;
}

static int net_transport_transfer(pf_peer *peer, enum operation_kind kind, char *local,
				  uint64_t remote, size_t length, pf_complete_fn complete,
				  void *arg)
{
	uint64_t here = (uint64_t)(uintptr_t)local, node;
	struct engine *engine = peer->context->engine;
	struct node_operation *record;
	struct operation *operation;
	int status;

	status = operation_start(peer, kind, complete, arg, &record);
	if (status != PF_OK)
		return status;
	operation = &record->operation;
	probe_transfer(peer->context->trace, operation, kind == OPERATION_PUT, here, remote, length,
		       peer->id);
	if (kind == OPERATION_GET)
		memory_expect(&peer->context->memory, here, length);
	engine_lock(engine);
	node = engine_address(peer, &status);
	/* Also if packets are sent: it says what. */
	node_describe_transfer(record, node, here, remote, length);
	if (node)
		return post_to_node(engine, record);
	if (status == PF_OK)
		status = post_packets(record);
	return finish_post(engine, operation, status);
}

static int net_transport_atomic(pf_peer *peer, enum pf_atomic_op op, unsigned width,
				uint64_t remote, uint64_t operand, uint64_t compare,
				pf_complete_fn complete, void *arg)
{
	struct engine *engine = peer->context->engine;
	struct node_operation *record;
	uint64_t node;
	int status;

	status = operation_start(peer, OPERATION_ATOMIC, complete, arg, &record);
	if (status != PF_OK)
		return status;
	engine_lock(engine);
	node = engine_address(peer, &status);
	record->atomic = op;
	node_describe_atomic(record, node, op, width, remote, operand, compare);
	if (node)
		return post_to_node(engine, record);
	if (status == PF_OK)
		status = post_packets(record);
	return finish_post(engine, &record->operation, status);
}

/* Its operations are never in the active list: the protocol core completes them all. */
const struct transport transport_net = {
	.name = "net",
	.peer_size = sizeof(struct net_peer),
	.send = net_transport_send,
	.has_room = net_transport_has_room,
	.transfer = net_transport_transfer,
	.atomic = net_transport_atomic,
};

/* SPDX-License-Identifier: BSD-3-Clause */
#include "peer.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "memory/policy.h"
#include "base/probe.h"
#include "context/service.h"
#include "host/route_device.h"
#include "host/copy.h"
#include "net/link.h"
#include "transport.h"

static const char path_unused[] = "not used yet";
static const char path_opening[] =
	"messages through the ring; transfers wait for the peer's answer";
static const char path_single[] = "single copy, long transfers from both ends";
static const char path_disabled[] = "through the ring: single_copy is 0";
static const char path_device[] = "by the engine of /dev/exanest";
static const char path_device_copy[] =
	"by the engine of /dev/exanest, short transfers by single copy";
static const char path_no_device[] =
	"none: transport is device, and /dev/exanest does not reach the peer";
static const char path_gone[] = "none: the peer's process is gone";

static void set_path(pf_peer *peer, const char *path)
{
	atomic_store_explicit(&peer->path, path, memory_order_relaxed);
}

static void set_state(pf_peer *peer, enum peer_state state)
{
	atomic_store_explicit(&peer->state, state, memory_order_release);
}

const struct transport *peer_transport(const pf_context *context, const struct address *address,
				       const char **why)
{
	const char *remote = address_unreachable(&context->address, address);

	*why = "on this host";
	if (!remote && (context->options.network != PF_NETWORK_ALWAYS || !context->engine ||
			address_same(address, &context->address)))
		return &transport_host;
	*why = remote;
	if (!context->engine) {
		if (context->no_network)
			*why = context->no_network;
		return NULL;
	}
	*why = link_unreachable(context->engine, address);
	if (*why)
		return NULL;
	*why = "over the network";
	return &transport_net;
}

void peer_net_linked(pf_peer *peer, const char *path)
{
	set_path(peer, path);
	set_state(peer, PEER_LINKED);
}

const struct transport *peer_transport_back(const pf_context *context,
					    const struct address *address)
{
	const char *why;
	const struct transport *transport = peer_transport(context, address, &why);

	if (transport)
		return transport;
	/* It reached us: then it is for the network to say that we do not reach it. */
	return address_unreachable(&context->address, address) ? &transport_net : &transport_host;
}

/* address: NULL for one that nobody will have to look for. */
static pf_peer *peer_new(pf_context *context, const uint8_t id[ADDRESS_ID_BYTES],
			 const struct address *address, const struct transport *transport)
{
	bool on_host = transport == &transport_host;
	pf_peer *peer = calloc(1, sizeof(*peer) + (on_host ? sizeof(peer->host[0]) : 0));

	if (!peer)
		return NULL;
	if (address) {
		peer->address = malloc(sizeof(*peer->address));
		if (!peer->address) {
			free(peer);
			return NULL;
		}
		*peer->address = *address;
	}
	peer->context = context;
	peer->transport = transport;
	memcpy(peer->id, id, sizeof(peer->id));
	set_path(peer, path_unused);
	if (!on_host)
		return peer;
	peer->host->self = !memcmp(id, context->address.id, sizeof(peer->id));
	peer->host->shares_free = ~0ull;
	peer->host->slot = INBOX_NO_SLOT;
	pthread_mutex_init(&peer->host->lock, NULL);
	return peer;
}

/* Under the context's lock. */
static pf_peer *look_up(const pf_context *context, const uint8_t id[ADDRESS_ID_BYTES])
{
	pf_peer *peer = context->peers;

	while (peer && memcmp(peer->id, id, sizeof(peer->id)) != 0)
		peer = peer->next;
	return peer;
}

static pf_peer *find(pf_context *context, const uint8_t id[ADDRESS_ID_BYTES],
		     const struct address *address, const struct transport *transport)
{
	pf_peer *peer;

	context_lock(context);
	peer = look_up(context, id);
	if (!peer) {
		peer = peer_new(context, id, address, transport);
		if (peer) {
			peer->next = context->peers;
			context->peers = peer;
		}
	}
	context_unlock(context);
	return peer;
}

pf_peer *peer_known(pf_context *context, const uint8_t id[ADDRESS_ID_BYTES])
{
	pf_peer *peer;

	context_lock(context);
	peer = look_up(context, id);
	context_unlock(context);
	return peer;
}

pf_peer *peer_find(pf_context *context, const struct address *address)
{
	return find(context, address->id, address, peer_transport_back(context, address));
}

pf_peer *peer_find_caller(pf_context *context, const uint8_t id[ADDRESS_ID_BYTES])
{
	return find(context, id, NULL, &transport_net);
}

static void drop_mappings(pf_peer *peer)
{
	if (peer->host->out.memory)
		channel_destroy(&peer->host->out);
	if (peer->host->inbox)
		inbox_destroy(&(struct inbox){ .memory = peer->host->inbox, .fd = -1 });
	peer->host->inbox = NULL;
}

void peer_destroy(pf_peer *peer)
{
	if (peer->transport == &transport_host) {
		drop_mappings(peer);
		if (peer->host->residency) {
			residency_close(peer->host->residency);
			free(peer->host->residency);
		}
		pthread_mutex_destroy(&peer->host->lock);
	}
	peer_forget_address(peer);
	free(peer);
}

void peer_forget_address(pf_peer *peer)
{
	/* There is a key in it. */
	if (peer->address)
		sodium_memzero(peer->address, sizeof(*peer->address));
	free(peer->address);
	peer->address = NULL;
}

int peer_connect(pf_peer *peer)
{
	int status;

	if (peer_state(peer) == PEER_GONE)
		return peer->gone_status;
	if (peer->host->out.memory)
		return PF_OK;
	status = channel_create(&peer->host->out, peer->context->options.ring_size,
				&peer->context->ring_allowance);
	if (status != PF_OK)
		return status;
	if (peer->context->sleepy)
		peer->host->out.ring.short_most = UINT64_MAX;
	status = service_connect(peer->context->service, peer);
	if (status != PF_OK) {
		channel_destroy(&peer->host->out);
		/* Progress draws the consequences; whoever tries again before learns the same. */
		if (status == PF_ERR_PEER)
			events_tell_gone(&peer->context->events, peer, status);
		return status;
	}
	statistic_add(&peer->context->statistics, PF_STAT_PEERS, 1);
	set_path(peer, path_opening);
	set_state(peer, PEER_OPEN);
	return PF_OK;
}

static void set_route(pf_peer *peer, const struct route *route, uint64_t at_once, const char *path)
{
	atomic_store_explicit(&peer->host->route, route, memory_order_relaxed);
	atomic_store_explicit(&peer->host->at_once, at_once, memory_order_relaxed);
	set_path(peer, path);
}

static void choose_route(pf_peer *peer)
{
	const pf_options *options = &peer->context->options;
	const char *why = atomic_load(&peer->context->device.why);
	bool copies = options->single_copy && !peer->host->copy_error;

	if (peer->host->engine && device_engine(&peer->context->device)) {
		/* Less than a block is copied sooner than an engine is woken. */
		if (options->transport == PF_TRANSPORT_AUTO && copies)
			set_route(peer, &route_device, options->block_size, path_device_copy);
		else
			set_route(peer, &route_device, 0, path_device);
	} else if (options->transport == PF_TRANSPORT_DEVICE) {
		set_route(peer, &route_none, 0, why ? why : path_no_device);
	} else if (copies) {
		set_route(peer, &route_copy, options->share_min, path_single);
	} else {
		set_route(peer, &route_stream, 0,
			  options->single_copy ? copy_refusal(peer->host->copy_error) :
						 path_disabled);
	}
}

void peer_link(pf_peer *peer, struct inbox_memory *inbox, uint32_t slot, pid_t pid, int copy_error,
	       uint64_t engine)
{
	peer_lock(peer);
	if (peer_state(peer) != PEER_OPEN) {
		peer_unlock(peer);
		inbox_destroy(&(struct inbox){ .memory = inbox, .fd = -1 });
		return;
	}
	peer->host->slot = slot;
	peer->host->sleeper = inbox->sleeper;
	peer->host->pid = pid;
	peer->host->inbox = inbox;
	peer->host->engine = engine;
	peer->host->copy_error = copy_error;
	choose_route(peer);
	set_state(peer, PEER_LINKED);
	peer_unlock(peer);
	/* What was written before we could ring or wake it. */
	inbox_ring(inbox, slot);
	inbox_wake(inbox, INBOX_SLEEPS_AT_ONCE);
}

/* Opened by whoever comes first. NULL without memory: then it is taken to be all there. */
static struct residency *remote_residency(pf_peer *peer)
{
	struct residency *residency = atomic_load_explicit(&peer->host->residency,
							   memory_order_acquire);
	struct residency *expected = NULL;

	if (residency || peer->host->self)
		return peer->host->self ? &peer->context->residency : residency;
	residency = malloc(sizeof(*residency));
	if (!residency)
		return NULL;
	residency_open(residency, peer->host->pid, peer->context->options.residency);
	if (atomic_compare_exchange_strong_explicit(&peer->host->residency, &expected, residency,
						    memory_order_acq_rel, memory_order_acquire))
		return residency;
	residency_close(residency);
	free(residency);
	return expected;
}

uint64_t peer_ready(pf_peer *peer, bool put, const void *local, uint64_t remote, uint64_t length,
		    enum pf_side *side)
{
	pf_context *context = peer->context;
	uint64_t ready = policy_prepare(context, (uint64_t)(uintptr_t)local, length, !put);
	struct residency *residency;
	uint64_t cold;

	*side = PF_SIDE_LOCAL;
	if (!ready)
		return 0;
	*side = PF_SIDE_REMOTE;
	residency = remote_residency(peer);
	if (!residency)
		return ready;
	ready = residency_look(residency, remote, ready, &cold);
	if (cold) {
		statistic_fault(&context->statistics, PF_SIDE_REMOTE, FAULT_MINOR);
		probe_fault(context, NULL, PF_SIDE_REMOTE, FAULT_MINOR, remote);
	}
	return ready;
}

void peer_refuse_copy(pf_peer *peer, int error)
{
	peer->host->copy_error = error;
	choose_route(peer);
}

void peer_lose_device(pf_peer *peer)
{
	if (peer->transport != &transport_host)
		return;
	peer->host->engine = 0;
	if (peer_state(peer) == PEER_LINKED && peer_route(peer) == &route_device)
		choose_route(peer);
}

static void set_gone(pf_peer *peer, int status)
{
	peer->gone_status = status;
	set_state(peer, PEER_GONE);
}

static void host_gone(pf_peer *peer, int status)
{
	pf_context *context = peer->context;

	/* Answers that it sent before it ended complete what they answer. */
	if (peer->host->incoming)
		incoming_drop(context, peer->host->incoming);
	peer_lock(peer);
	set_gone(peer, status);
	set_route(peer, &route_none, 0, path_gone);
	peer_unlock(peer);
	/* What its engine still moves must not outlive the transfers that end here. */
	device_drain(context, peer);
	operations_advance(context);
	operations_fail(context, peer, status);
	answers_forget(context, peer);
	peer_lock(peer);
	drop_mappings(peer);
	peer_unlock(peer);
}

void peer_gone(pf_peer *peer, int status, bool farewell)
{
	pf_context *context = peer->context;

	if (peer_state(peer) == PEER_GONE)
		return;
	if (peer->transport == &transport_host) {
		host_gone(peer, status);
	} else {
		set_gone(peer, status);
		set_path(peer, path_gone);
	}
	if (context->error && !farewell)
		context->error(context, peer, status, pf_strerror(status), context->error_arg);
}

int pf_peer_open(pf_context *context, const void *bytes, size_t length, void *user,
		 pf_peer **result)
{
	struct address address;
	int status = address_parse(&address, bytes, length);
	const char *why;
	pf_peer *peer;

	if (status != PF_OK)
		return status;
	if (!peer_transport(context, &address, &why))
		return PF_ERR_UNREACHABLE;
	peer = peer_find(context, &address);
	if (!peer)
		return PF_ERR_MEMORY;
	context_lock(context);
	peer->count++;
	if (user)
		peer->user = user;
	context_unlock(context);
	if (peer->transport == &transport_net)
		link_meet(peer);
	*result = peer;
	return PF_OK;
}

void pf_peer_close(pf_peer *peer)
{
	/* The record stays until pf_close: its process may still write to us. */
	context_lock(peer->context);
	if (peer->count && !--peer->count)
		peer->user = NULL;
	context_unlock(peer->context);
}

void *pf_peer_user(const pf_peer *peer)
{
	return atomic_load_explicit(&((pf_peer *)peer)->user, memory_order_relaxed);
}

const char *pf_peer_path(const pf_peer *peer)
{
	return atomic_load_explicit(&((pf_peer *)peer)->path, memory_order_relaxed);
}

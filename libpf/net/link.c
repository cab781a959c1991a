/* SPDX-License-Identifier: BSD-3-Clause */
#include "link.h"

#include <arpa/inet.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/context.h"

/* With an association at rest 1 KiB, README.md says; association.c has the other part. */
_Static_assert(sizeof(struct net_peer) + sizeof(struct link) <= 136, "each peer costs it");

static const char path_net[] = "packets over the network (UDP)";

static void to_socket_address(const struct address_endpoint *endpoint,
			      union interface_address *address)
{
	memset(address, 0, sizeof(*address));
	if (endpoint->family == 4) {
		address->in.sin_family = AF_INET;
		address->in.sin_port = endpoint->port;
		memcpy(&address->in.sin_addr, endpoint->address, 4);
	} else {
		address->in6.sin6_family = AF_INET6;
		address->in6.sin6_port = endpoint->port;
		memcpy(&address->in6.sin6_addr, endpoint->address, 16);
	}
}

static bool same_address(const union interface_address *a, const union interface_address *b)
{
	if (a->any.sa_family != b->any.sa_family)
		return false;
	return a->any.sa_family == AF_INET ?
		       a->in.sin_addr.s_addr == b->in.sin_addr.s_addr :
		       !memcmp(&a->in6.sin6_addr, &b->in6.sin6_addr, sizeof(a->in6.sin6_addr));
}

/*
 * A network inside each host, as of its virtual machines, has the same addresses
 * on all of them: what is sent there would come to us.
 */
static bool is_ours(const struct engine *engine, const union interface_address *address)
{
	unsigned i;

	for (i = 0; i < engine->count; i++) {
		if (same_address(&engine->interfaces[i].address, address))
			return true;
	}
	return false;
}

static bool is_loopback(const union interface_address *address)
{
	if (address->any.sa_family == AF_INET)
		return (ntohl(address->in.sin_addr.s_addr) >> 24) == 127;
	return IN6_IS_ADDR_LOOPBACK(&address->in6.sin6_addr);
}

static bool is_link_local(const union interface_address *address)
{
	return address->any.sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&address->in6.sin6_addr);
}

/* Can packets leave by that interface for an address of the peer? Sets its scope. */
static bool leads_to(const struct engine *engine, const struct interface *interface,
		     union interface_address *there, bool same_host, bool routed)
{
	if (interface->loopback || is_loopback(there)) {
		if (!same_host || !interface->loopback || !is_loopback(there))
			return false;
	}
	if (!same_host && is_ours(engine, there))
		return false;
	/* Such an address is one on a link, and which link is for each host to say. */
	if (is_link_local(there)) {
		there->in6.sin6_scope_id = interface->index;
		routed = false;
	}
	return routed || interface_reaches(interface, there);
}

/* Has one of these paths the same interface, by another address of it? That is the same cable. */
static bool is_used(const struct engine *engine, const struct interface *interface,
		    const struct net_endpoint *paths, unsigned count)
{
	struct endpoint endpoint;
	unsigned i;

	for (i = 0; i < count; i++) {
		memcpy(&endpoint, &paths[i], sizeof(endpoint));
		if (engine->interfaces[endpoint.socket].index == interface->index)
			return true;
	}
	return false;
}

/*
 * Paths of one family: each interface of ours with the first address of the
 * peer in the same network that no other has taken; routed, if there is none.
 */
static unsigned paths_of(const struct engine *engine, const struct address *address, uint8_t family,
			 bool routed, struct net_endpoint *paths)
{
	const sa_family_t wanted = family == 4 ? AF_INET : AF_INET6;
	bool same_host = !address_unreachable(&engine->context->address, address);
	union interface_address there;
	unsigned count = 0, i, j;
	uint32_t taken = 0;

	for (i = 0; i < engine->count && count < NET_PATHS_MOST; i++) {
		const struct interface *interface = &engine->interfaces[i];

		if (interface->address.any.sa_family != wanted ||
		    is_used(engine, interface, paths, count))
			continue;
		for (j = 0; j < address->endpoints_count; j++) {
			if (address->endpoints[j].family != family || taken >> j & 1)
				continue;
			to_socket_address(&address->endpoints[j], &there);
			if (!leads_to(engine, interface, &there, same_host, routed))
				continue;
			taken |= 1u << j;
			endpoint_make(&paths[count++], (uint8_t)i, &there);
			break;
		}
	}
	return count;
}

/* IPv4 or IPv6, not both, which would be the same cables. */
unsigned link_paths(const struct engine *engine, const struct address *address,
		    struct net_endpoint paths[NET_PATHS_MOST])
{
	unsigned count = 0, way;

	for (way = 0; way < 4 && !count; way++)
		count = paths_of(engine, address, way % 2 ? 6 : 4, way >= 2, paths);
	return count;
}

const char *link_unreachable(const struct engine *engine, const struct address *address)
{
	struct net_endpoint paths[NET_PATHS_MOST];

	if (address->auth != engine->context->address.auth)
		return "the option auth differs there";
	if (!address->endpoints_count)
		return "it offers no network address (see its options network, if_include and port_min)";
	if (!link_paths(engine, address, paths))
		return "no network interface used here leads to one that it uses "
		       "(see if_include)";
	return NULL;
}

static struct link *link_of_id(struct engine *engine, const uint8_t id[NET_ID_BYTES])
{
	struct link *link = engine->links;

	while (link && memcmp(net_association_id(link->association), id, NET_ID_BYTES) != 0)
		link = link->next;
	return link;
}

static void link_add(struct engine *engine, struct link *link, struct net_association *association)
{
	unsigned i;

	link->association = association;
	link->next = engine->links;
	engine->links = link;
	/* No socket has been unheard for long before the first link. */
	for (i = 0; !engine->links->next && i < engine->count; i++)
		engine->sockets[i].heard = activity_read(&engine->context->activity.polls);
	atomic_store_explicit(&engine->active, true, memory_order_relaxed);
	statistic_add_concurrent(&engine->context->statistics, PF_STAT_PEERS, 1);
}

/* ---- in words ---- */

/* "10.77.0.2, UDP port 41234, over eth0 (from 10.77.0.1)" */
static size_t describe_path(const struct engine *engine, const struct net_endpoint *to, char *text,
			    size_t size)
{
	char there[INET6_ADDRSTRLEN] = "?", here[INET6_ADDRSTRLEN] = "?";
	const struct interface *interface;
	struct endpoint endpoint;
	int family, length;

	memcpy(&endpoint, to, sizeof(endpoint));
	interface = &engine->interfaces[endpoint.socket];
	family = interface->address.any.sa_family;
	inet_ntop(family, endpoint.address, there, sizeof(there));
	inet_ntop(family,
		  family == AF_INET ? (const void *)&interface->address.in.sin_addr :
				      (const void *)&interface->address.in6.sin6_addr,
		  here, sizeof(here));
	length = snprintf(text, size, "%s, UDP port %u, over %s (from %s)", there,
			  ntohs(endpoint.port), interface->name, here);
	return length < 0 ? 0 : (size_t)length;
}

#define DESCRIPTION 768 /* bytes for all paths of a peer */

/* "why PATH and PATH" */
static void describe(const struct engine *engine, const struct net_association *association,
		     const char *why, char text[DESCRIPTION])
{
	size_t used = (size_t)snprintf(text, DESCRIPTION, "%s ", why);
	const char *word = "";
	struct net_endpoint to;
	unsigned i;

	for (i = 0; i < NET_PATHS_MOST && used < DESCRIPTION; i++) {
		if (!net_path_endpoint(association, i, &to))
			continue;
		used += (size_t)snprintf(text + used, DESCRIPTION - used, "%s", word);
		if (used < DESCRIPTION)
			used += describe_path(engine, &to, text + used, DESCRIPTION - used);
		word = " and ";
	}
}

/* ---- what the core tells ---- */

bool link_accept(void *user, struct net_association *association, const uint8_t id[NET_ID_BYTES],
		 const void *info, size_t length, void **peer)
{
	struct engine *engine = user;
	struct address address;
	struct link *link;

	/* Who it says that it is must be who it has proved to be. */
	if (address_parse(&address, info, length) != PF_OK ||
	    memcmp(address.id, id, sizeof(address.id)) != 0)
		return false;
	/* The option network differs there: what we have for it goes another way. */
	if (engine->context->transport_back(engine->context, &address) != &transport_net)
		return false;
	/* To the application a peer that is gone stays so. */
	if (link_of_id(engine, id))
		return false;
	link = calloc(1, sizeof(*link));
	if (!link)
		return false;
	link_add(engine, link, association);
	atomic_store_explicit(&engine->untold, true, memory_order_release);
	*peer = link;
	return true;
}

/* Under the engine's lock. */
static void bind_peer(struct link *link, pf_peer *peer)
{
	link->peer = peer;
	/* Its address, unlike its call, said that it is on this host: it is reached that way. */
	if (peer->transport != &transport_net || net_peer(peer)->link)
		return;
	net_peer(peer)->link = link;
	peer_forget_address(peer);
	peer_set_path(peer, path_net);
	peer_set_state(peer, PEER_LINKED);
}

void link_meet(pf_peer *peer)
{
	struct engine *engine = peer->context->engine;
	struct link *link;

	engine_lock(engine);
	link = link_of_id(engine, peer->id);
	if (link && !link->peer)
		bind_peer(link, peer);
	engine_unlock(engine);
}

/* Progress, without the lock: the peer of a link, made for one that only ever called us. */
static pf_peer *peer_of(struct engine *engine, struct link *link)
{
	pf_peer *peer;

	engine_lock(engine);
	peer = link->peer;
	engine_unlock(engine);
	if (peer)
		return peer;
	peer = peers_get(&engine->context->peers, engine->context,
			 net_association_id(link->association), NULL, &transport_net);
	if (!peer)
		return NULL;
	engine_lock(engine);
	bind_peer(link, peer);
	engine_unlock(engine);
	return peer;
}

bool link_deliver(void *user, struct net_association *from, uint8_t tag, void *data, size_t length)
{
	struct link *link = net_association_user(from);
	struct engine *engine = user;
	pf_context *context = engine->context;
	pf_peer *peer = link->peer;

	if (!engine->calling) {
		engine->undelivered = true;
		atomic_store_explicit(&engine->untold, true, memory_order_release);
		return false;
	}
	engine->told++;
	engine_unlock(engine);
	if (__builtin_expect(!peer, 0))
		peer = peer_of(engine, link);
	if (peer) {
		statistic_add(&context->statistics, PF_STAT_RECEIVES, 1);
		statistic_add(&context->statistics, PF_STAT_RECEIVE_BYTES, length);
		if (context->receive)
			context->receive(context, peer, tag, data, length, context->receive_arg);
	}
	engine_lock(engine);
	engine->undelivered |= !peer;
	return peer != NULL;
}

static void finish(struct engine *engine, struct operation *operation,
		   const struct net_completion *completion)
{
	operation->completion.status = completion->status;
	operation->completion.side = completion->side;
	operation->completion.address = completion->address;
	operation->completion.value = completion->value;
	operation_finish(&engine->context->operations, operation);
	free(operation);
}

static bool is_end(int status)
{
	return status == PF_ERR_PEER || status == PF_ERR_UNREACHABLE || status == PF_ERR_TIMEOUT ||
	       status == PF_ERR_PROTOCOL;
}

void link_complete(void *user, struct net_association *association, void *arg,
		   const struct net_completion *completion)
{
	struct engine *engine = user;
	struct net_operation *operation = arg;
	struct finished *finished;

	(void)association;
	/* That of a peer that ends waits for link_gone, which knows the reason. */
	if (engine->calling && !is_end(completion->status)) {
		engine->told++;
		engine_unlock(engine);
		finish(engine, &operation->operation, completion);
		engine_lock(engine);
		return;
	}
	/* Inside the operation, so that no memory can be wanting. */
	finished = &operation->finished;
	finished->next = NULL;
	finished->operation = &operation->operation;
	finished->completion = *completion;
	*engine->finished_last = finished;
	engine->finished_last = &finished->next;
	atomic_store_explicit(&engine->untold, true, memory_order_release);
}

/* Are the paths to both the same, but for the ports there? Then they are on one host. */
static bool same_host(const struct link *a, const struct link *b)
{
	struct net_endpoint one, other;
	struct endpoint x, y;
	unsigned i;

	for (i = 0; i < NET_PATHS_MOST; i++) {
		if (!net_path_endpoint(a->association, i, &one) ||
		    !net_path_endpoint(b->association, i, &other))
			continue;
		memcpy(&x, &one, sizeof(x));
		memcpy(&y, &other, sizeof(y));
		x.port = y.port = 0;
		return !memcmp(&x, &y, sizeof(x));
	}
	return false;
}

/* It has not answered so far, or never did. */
static bool is_silent(const struct link *link)
{
	if (link->gone)
		return link->status == PF_ERR_UNREACHABLE;
	return link->unanswered && !net_is_open(link->association);
}

/* Another peer of its host that did not answer. */
static const struct link *silent_neighbour(const struct engine *engine, const struct link *link)
{
	const struct link *other;

	for (other = engine->links; other; other = other->next) {
		if (other != link && is_silent(other) && same_host(other, link))
			return other;
	}
	return NULL;
}

static const char *why_gone(const struct link *link)
{
	return link->why ? link->why : pf_strerror(link->status);
}

void link_gone(void *user, struct net_association *association, int status, const char *why)
{
	struct link *link = net_association_user(association);
	struct engine *engine = user;
	char text[DESCRIPTION], lead[160];

	snprintf(lead, sizeof(lead), "%s from", why);
	if (status == PF_ERR_UNREACHABLE && !link->unanswered && silent_neighbour(engine, link))
		snprintf(lead, sizeof(lead),
			 "not tried, as another process of its host did not answer:");
	if (status == PF_OK)
		snprintf(text, sizeof(text), "%s", why);
	else
		describe(engine, association, lead, text);
	link->why = strdup(text);
	/* What waits for the peer completes before the application is told that it is gone. */
	if (link->peer && link->peer->transport == &transport_net &&
	    net_peer(link->peer)->link == link)
		peer_set_path(link->peer, why_gone(link));
	link->gone = true;
	link->status = status;
	link->next_gone = engine->gone;
	engine->gone = link;
	atomic_store_explicit(&engine->untold, true, memory_order_release);
}

void link_unanswered(void *user, struct net_association *association, const char *why)
{
	struct link *link = net_association_user(association);
	struct engine *engine = user;

	(void)why;
	link->unanswered = true;
	/* Once for each host. */
	link->warn = !link->contacting && !silent_neighbour(engine, link);
	engine->warns |= link->warn;
	if (link->warn)
		atomic_store_explicit(&engine->untold, true, memory_order_release);
}

/* Progress, without the lock: warn of this link, if that is due. */
static unsigned warn(struct engine *engine, struct link *link)
{
	pf_context *context = engine->context;
	char text[DESCRIPTION], lead[64];
	pf_peer *peer = NULL;

	engine_lock(engine);
	/* It may have answered by now, or its end be told. */
	if (link->warn && !link->gone && !net_is_open(link->association)) {
		peer = link->peer;
		snprintf(lead, sizeof(lead), "no answer for %llu s from",
			 (unsigned long long)context->options.contact_timeout);
		describe(engine, link->association, lead, text);
	}
	link->warn = false;
	engine_unlock(engine);
	if (peer && context->warning)
		context->warning(context, peer, text, context->warning_arg);
	return peer != NULL;
}

/* Did link_contact tell that it does not answer? */
static bool is_known(const struct link *link)
{
	return link->contacting && link->status == PF_ERR_UNREACHABLE;
}

/* Without memory for the peer it is to be told later. */
static void tell_gone(struct engine *engine, struct link *link)
{
	pf_peer *peer = peer_of(engine, link);

	if (peer && (peer->transport != &transport_net || net_peer(peer)->link != link))
		return;
	if (peer) {
		if (peer_state(peer) != PEER_GONE)
			peer_set_gone(&engine->context->peers, peer,
				      link->status == PF_OK ? PF_ERR_PEER : link->status,
				      why_gone(link), link->status == PF_OK || is_known(link));
		return;
	}
	engine_lock(engine);
	link->next_gone = engine->gone;
	engine->gone = link;
	engine_unlock(engine);
	atomic_store_explicit(&engine->untold, true, memory_order_release);
}

/*
 * Under the engine's lock: which of those that called us lately had the
 * application opened? The context's lock is taken inside the engine's, which
 * nobody does the other way round.
 */
static void meet_callers(struct engine *engine)
{
	struct link *link;
	pf_peer *peer;

	for (link = engine->links; link != engine->met; link = link->next) {
		if (link->peer)
			continue;
		peer = peers_find(&engine->context->peers, net_association_id(link->association));
		if (peer)
			bind_peer(link, peer);
	}
	engine->met = engine->links;
}

unsigned link_tell(struct engine *engine)
{
	struct link *gone, *next_gone, *warned;
	struct finished *finished, *next;
	unsigned count = 0;

	/* At one moment, so that what a peer left unfinished is finished before it is gone. */
	engine_lock(engine);
	finished = engine->finished;
	engine->finished = NULL;
	engine->finished_last = &engine->finished;
	/* Its last messages come first, with the next poll. */
	gone = engine->undelivered ? NULL : engine->gone;
	if (gone)
		engine->gone = NULL;
	else if (engine->gone)
		atomic_store_explicit(&engine->untold, true, memory_order_release);
	meet_callers(engine);
	/* Links are only ever added, and before the first. */
	warned = engine->warns ? engine->links : NULL;
	engine->warns = false;
	engine_unlock(engine);
	for (; finished; finished = next, count++) {
		struct net_completion completion = finished->completion;

		next = finished->next;
		finish(engine, finished->operation, &completion);
	}
	for (; gone; gone = next_gone, count++) {
		next_gone = gone->next_gone;
		tell_gone(engine, gone);
	}
	for (; warned; warned = warned->next)
		count += warn(engine, warned);
	return count;
}

/* ---- what libpf asks ---- */

/* The first use of a peer that has not called us. NULL: no memory, or why not in *status. */
static struct link *link_open(const pf_peer *peer, int *status)
{
	struct engine *engine = peer->context->engine;
	struct net_endpoint paths[NET_PATHS_MOST];
	struct net_association *association;
	struct address own;
	struct link *link;
	unsigned count, i;

	count = link_paths(engine, peer->address, paths);
	if (!count) {
		*status = PF_ERR_UNREACHABLE;
		return NULL;
	}
	link = calloc(1, sizeof(*link));
	if (!link)
		return NULL;
	/* What we say of ourselves is not secret; the key is. */
	own = peer->context->address;
	sodium_memzero(own.key, sizeof(own.key));
	association = net_open(engine->core, peer->id, peer->address->key, &paths[0], &own,
			       sizeof(own), link);
	if (!association) {
		free(link);
		return NULL;
	}
	for (i = 1; i < count; i++)
		net_path_add(association, &paths[i]);
	link_add(engine, link, association);
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
		link = link_of_id(peer->context->engine, peer->id);
	if (!link)
		link = link_open(peer, status);
	if (!link)
		return NULL;
	if (!link->peer)
		bind_peer(link, peer);
	if (link->gone) {
		*status = link->status == PF_OK ? PF_ERR_PEER : link->status;
		return NULL;
	}
	return link->association;
}

void link_free(struct link *link)
{
	free(link->why);
	free(link);
}

/* Under the lock: begin the contact, or end it. PF_ERR_AGAIN: the answer is not known yet. */
static int contact(struct engine *engine, pf_peer *peer, bool wait)
{
	struct net_association *association;
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
	if (link->unanswered || silent_neighbour(engine, link)) {
		link->contacting = true;
		net_give_up(association);
		return PF_ERR_UNREACHABLE;
	}
	link->contacting |= wait;
	status = net_contact(association);
	return status == PF_OK ? PF_ERR_AGAIN : status;
}

/*
 * Both ends come to the same result. An association is open here only if the peer's
 * packets arrive here, and ours there. One that was given up is not opened by the peer's
 * HELLOs later: the peer gives it up as well, after its own wait.
 */
int link_contact(pf_peer *peer, bool wait, const char **why)
{
	struct engine *engine = peer->context->engine;
	struct engine_waiter waiter = { 0 };
	int status;

	for (;;) {
		engine_lock(engine);
		status = contact(engine, peer, wait);
		*why = pf_peer_path(peer);
		/* Sends what that has to say. */
		engine_post(engine);
		if (status != PF_ERR_AGAIN || !wait)
			break;
		if (!engine_wait(engine, &waiter)) {
			/* Nothing is known: it is reported like any other first contact. */
			engine_lock(engine);
			if (!net_peer(peer)->link->gone)
				net_peer(peer)->link->contacting = false;
			engine_unlock(engine);
			break;
		}
	}
	return status;
}

/* With the lock, which it gives back, after posting to the core. */
static void posted(struct engine *engine)
{
	pf_context *context = engine->context;

	engine_post(engine);
	/* What waits for company goes with the next poll: another thread may be asleep in it. */
	if (context->threads && context->sleepy)
		context->wake(context);
}

/*
 * Is some of it a pager's? Then a page may be absent, and whoever sends it is to
 * wait for that without the lock, which all others need.
 */
static bool is_paged(pf_context *context, const void *memory, size_t length)
{
	return pagers_own(&context->memory.pagers, (uint64_t)(uintptr_t)memory, length);
}

/* In one piece; NULL: no memory. */
static uint8_t *gather(const void *header, size_t header_length, const void *payload, size_t length)
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
		gathered = gather(header, header_length, payload, length);
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
	if (association)
		status = pack ? net_send_pack(association, tag, header, header_length, length, pack,
					      arg) :
				net_send(association, tag, header, header_length, payload, length);
	posted(engine);
	free(gathered);
	if (status == PF_DONE) {
		statistic_add(statistics, PF_STAT_SENDS, 1);
		statistic_add(statistics, PF_STAT_SEND_BYTES, header_length + length);
	} else if (status == PF_ERR_AGAIN) {
		statistic_add(statistics, PF_STAT_RING_FULL, 1);
		atomic_store_explicit(&peer->context->refused_room, true, memory_order_relaxed);
	}
	return status;
}

static struct net_operation *operation_new(pf_peer *peer, enum operation_kind kind,
					   pf_complete_fn complete, void *arg)
{
	struct net_operation *operation = calloc(1, sizeof(*operation));

	if (!operation)
		return NULL;
	operation->operation.kind = kind;
	operation->operation.peer = peer;
	operation->operation.complete = complete;
	operation->operation.completion.arg = arg;
	return operation;
}

static int net_transport_transfer(pf_peer *peer, enum operation_kind kind, char *local,
				  uint64_t remote, size_t length, pf_complete_fn complete,
				  void *arg)
{
	struct net_operation *operation = operation_new(peer, kind, complete, arg);
	uint64_t here = (uint64_t)(uintptr_t)local;
	struct engine *engine = peer->context->engine;
	struct net_association *association;
	int status;

	if (!operation)
		return PF_ERR_MEMORY;
	if (kind == OPERATION_GET)
		memory_expect(&peer->context->memory, here, length);
	operation_send_away(&peer->context->operations, &operation->operation);
	engine_lock(engine);
	association = association_of(peer, &status);
	if (association)
		status = kind == OPERATION_PUT ?
				 net_put(association, here, remote, length, operation) :
				 net_get(association, here, remote, length, operation);
	if (status == PF_OK) {
		posted(engine);
		return PF_OK;
	}
	engine_unlock(engine);
	operation_take_back(&peer->context->operations, &operation->operation);
	free(operation);
	return status;
}

static int net_transport_atomic(pf_peer *peer, enum pf_atomic_op op, unsigned width,
				uint64_t remote, uint64_t operand, uint64_t compare,
				pf_complete_fn complete, void *arg)
{
	struct net_operation *operation = operation_new(peer, OPERATION_ATOMIC, complete, arg);
	struct engine *engine = peer->context->engine;
	struct net_association *association;
	int status;

	if (!operation)
		return PF_ERR_MEMORY;
	operation_send_away(&peer->context->operations, &operation->operation);
	engine_lock(engine);
	association = association_of(peer, &status);
	if (association)
		status = net_atomic(association, op, width, remote, operand, compare, operation);
	if (status == PF_OK) {
		posted(engine);
		return PF_OK;
	}
	engine_unlock(engine);
	operation_take_back(&peer->context->operations, &operation->operation);
	free(operation);
	return status;
}

/* Its operations are never in the active list: the protocol core completes them all. */
const struct transport transport_net = {
	.name = "net",
	.peer_size = sizeof(struct net_peer),
	.send = net_transport_send,
	.transfer = net_transport_transfer,
	.atomic = net_transport_atomic,
};

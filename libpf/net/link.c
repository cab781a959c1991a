/* SPDX-License-Identifier: BSD-3-Clause */
#include "link.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "base/clock.h"

/* With an association at rest 1 KiB, README.md says; association.c has the other part. */
_Static_assert(sizeof(struct net_peer) + sizeof(struct link) <= 128, "each peer costs it");

/* Between two lines about packets that were dropped, ns. */
#define DROPS_PERIOD 10000000000ull

static const char path_net[] = "packets over the network (UDP)";
static const char path_engine[] =
	"by the engine of /dev/exanest and its link; messages in packets over the network (UDP)";

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
static bool is_ours(const struct links *links, const union interface_address *address)
{
	unsigned i;

	for (i = 0; i < links->interfaces_count; i++) {
		if (same_address(&links->interfaces[i].address, address))
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

static bool address_is_link_local(const union interface_address *address)
{
	return address->any.sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&address->in6.sin6_addr);
}

/* Can packets leave by that interface for an address of the peer? Sets its scope. */
static bool leads_to(const struct links *links, const struct interface *interface,
		     union interface_address *there, bool same_host, bool routed)
{
	if (interface->loopback || is_loopback(there)) {
		if (!same_host || !interface->loopback || !is_loopback(there))
			return false;
	}
	if (!same_host && is_ours(links, there))
		return false;
	/* Such an address is one on a link, and which link is for each host to say. */
	if (address_is_link_local(there)) {
		there->in6.sin6_scope_id = interface->index;
		routed = false;
	}
	return routed || interface_reaches(interface, there);
}

/* Has one of these paths the same interface, by another address of it? That is the same cable. */
static bool is_used(const struct links *links, const struct interface *interface,
		    const struct net_endpoint *paths, unsigned count)
{
	struct endpoint endpoint;
	unsigned i;

	for (i = 0; i < count; i++) {
		memcpy(&endpoint, &paths[i], sizeof(endpoint));
		if (links->interfaces[endpoint.socket].index == interface->index)
			return true;
	}
	return false;
}

/*
 * Paths of one family: each interface of ours with the first address of the
 * peer in the same network that no other has taken; routed, if there is none.
 */
static unsigned paths_of(const struct links *links, const struct address *address, uint8_t family,
			 bool routed, struct net_endpoint *paths)
{
	const sa_family_t wanted = family == 4 ? AF_INET : AF_INET6;
	bool same_host = !address_unreachable(&links->context->address, address);
	union interface_address there;
	unsigned count = 0, i, j;
	uint32_t taken = 0;

	for (i = 0; i < links->interfaces_count && count < NET_PATHS_MOST; i++) {
		const struct interface *interface = &links->interfaces[i];

		if (interface->address.any.sa_family != wanted ||
		    is_used(links, interface, paths, count))
			continue;
		for (j = 0; j < address->endpoints_count; j++) {
			if (address->endpoints[j].family != family || taken >> j & 1)
				continue;
			to_socket_address(&address->endpoints[j], &there);
			if (!leads_to(links, interface, &there, same_host, routed))
				continue;
			taken |= 1u << j;
			endpoint_make(&paths[count++], (uint8_t)i, &there);
			break;
		}
	}
	return count;
}

/* IPv4 or IPv6, not both, which would be the same cables. */
unsigned link_paths(const struct links *links, const struct address *address,
		    struct net_endpoint paths[NET_PATHS_MOST])
{
	unsigned count = 0, way;

	for (way = 0; way < 4 && !count; way++)
		count = paths_of(links, address, way % 2 ? 6 : 4, way >= 2, paths);
	return count;
}

const char *link_unreachable(const struct links *links, const struct address *address)
{
	struct net_endpoint paths[NET_PATHS_MOST];

	if (address->auth != links->context->address.auth)
		return "the option auth differs there";
	if (!address->endpoints_count)
		return "it offers no network address (see its options network, if_include and port_min)";
	if (!link_paths(links, address, paths))
		return "no network interface used here leads to one that it uses "
		       "(see if_include)";
	return NULL;
}

struct link *link_of_id(const struct links *links, const uint8_t id[NET_ID_BYTES])
{
	struct link *link = links->list;

	while (link && memcmp(net_association_id(link->association), id, NET_ID_BYTES) != 0)
		link = link->next;
	return link;
}

void link_add(struct links *links, struct link *link, struct net_association *association)
{
	link->association = association;
	link->next = links->list;
	links->list = link;
	atomic_store_explicit(&links->active, true, memory_order_relaxed);
	statistic_add_concurrent(&links->context->statistics, PF_STAT_PEERS, 1);
}

bool link_accept(struct links *links, struct net_association *association,
		 const uint8_t id[NET_ID_BYTES], const void *info, size_t length, void **peer)
{
	struct address address;
	struct link *link;

	/* The id that it claims is that of the address which it gives; neither is proved (doc/wire.md). */
	if (address_parse(&address, info, length) != PF_OK ||
	    memcmp(address.id, id, sizeof(address.id)) != 0)
		return false;
	/* The option network differs there: what we have for it goes another way. */
	if (links->context->transport_back(links->context, &address) != &transport_net)
		return false;
	/* To the application a peer that is gone stays so. */
	if (link_of_id(links, id))
		return false;
	link = calloc(1, sizeof(*link));
	if (!link)
		return false;
	link->engine = address.engine;
	link_add(links, link, association);
	*peer = link;
	return true;
}

void link_lose_engine(struct link *link)
{
	if (link->explained)
		return;
	link->engine = 0;
	if (link->peer && peer_state(link->peer) == PEER_LINKED)
		peer_set_path(link->peer, path_net);
}

void link_bind(struct link *link, pf_peer *peer)
{
	link->peer = peer;
	/* Its address, unlike its call, said that it is on this host: it is reached that way. */
	if (peer->transport != &transport_net || net_peer(peer)->link)
		return;
	net_peer(peer)->link = link;
	peer_forget_address(peer);
	peer_set_path(peer, link_engine(link) && device_node_address(&peer->context->device) ?
				    path_engine :
				    path_net);
	peer_set_state(peer, PEER_LINKED);
}

/* ---- in words ---- */

/* "10.77.0.2, UDP port 41234, over eth0 (from 10.77.0.1)" */
static size_t describe_path(const struct links *links, const struct net_endpoint *to, char *text,
			    size_t size)
{
	char there[INET6_ADDRSTRLEN] = "?", here[INET6_ADDRSTRLEN] = "?";
	const struct interface *interface;
	struct endpoint endpoint;
	int family, length;

	memcpy(&endpoint, to, sizeof(endpoint));
	interface = &links->interfaces[endpoint.socket];
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

/* "WHY from PATH and PATH" */
static void link_describe(const struct links *links, const struct net_association *association,
			  const char *why, char text[DESCRIPTION])
{
	size_t used = (size_t)snprintf(text, DESCRIPTION, "%s from ", why);
	const char *word = "";
	struct net_endpoint to;
	unsigned i;

	for (i = 0; i < NET_PATHS_MOST && used < DESCRIPTION; i++) {
		if (!net_path_endpoint(association, i, &to))
			continue;
		used += (size_t)snprintf(text + used, DESCRIPTION - used, "%s", word);
		if (used < DESCRIPTION)
			used += describe_path(links, &to, text + used, DESCRIPTION - used);
		word = " and ";
	}
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

const struct link *link_silent_neighbour(const struct links *links, const struct link *link)
{
	const struct link *other;

	for (other = links->list; other; other = other->next) {
		if (other != link && net_is_silent(other->association) && same_host(other, link))
			return other;
	}
	return NULL;
}

static bool is_net_peer(const pf_peer *peer)
{
	return peer->transport == &transport_net;
}

static const char *why_gone(const struct link *link, int status)
{
	return link->explained ? link->why : pf_strerror(status);
}

void link_explain(struct links *links, struct link *link)
{
	char text[DESCRIPTION];
	const char *why;
	char *copy;
	int status = net_association_status(link->association, &why);

	if (!why || link->explained)
		return;
	if (status == PF_OK)
		snprintf(text, sizeof(text), "%s", why);
	else
		link_describe(links, link->association, why, text);
	copy = strdup(text);
	if (copy) {
		link->why = copy;
		link->explained = true;
	}
	if (link->peer && is_net_peer(link->peer) && net_peer(link->peer)->link == link)
		peer_set_path(link->peer, why_gone(link, status));
}

/* ---- events, told by progress ---- */

static void links_lock(struct links *links)
{
	pthread_mutex_lock(links->lock);
}

static void links_unlock(struct links *links)
{
	pthread_mutex_unlock(links->lock);
}

/* Without the lock: the peer of a link, made for one that only ever called us. */
static pf_peer *link_peer(struct links *links, struct link *link)
{
	pf_context *context = links->context;
	unsigned tries = 0;
	pf_peer *peer;

	links_lock(links);
	peer = link->peer;
	links_unlock(links);
	if (peer)
		return peer;
	/* Lack of memory is waited out: what the peer sent is not to be lost. */
	while (!(peer = peers_get(&context->peers, context, net_association_id(link->association),
				  NULL, &transport_net)))
		allocate_wait(&tries);
	links_lock(links);
	link_bind(link, peer);
	links_unlock(links);
	return peer;
}

static void tell_message(struct links *links, const struct net_event *event)
{
	struct link *link = net_association_user(event->association);
	pf_context *context = links->context;
	pf_peer *peer = link->peer;

	links_unlock(links);
	if (__builtin_expect(!peer, 0))
		peer = link_peer(links, link);
	statistic_add(&context->statistics, PF_STAT_RECEIVES, 1);
	statistic_add(&context->statistics, PF_STAT_RECEIVE_BYTES, event->length);
	if (event->pieces > 1)
		context->receive_pieces(context, peer, event->tag, event->piece, event->pieces,
					context->receive_pieces_arg);
	else if (context->receive)
		context->receive(context, peer, event->tag, event->data, event->length,
				 context->receive_arg);
	links_lock(links);
}

static void tell_completion(struct links *links, const struct net_event *event)
{
	struct operation *operation = event->arg;

	/* Of a peer that is gone: the application may ask why before it is told. */
	if (event->completion.status != PF_OK && is_net_peer(operation->peer) &&
	    net_peer(operation->peer)->link)
		link_explain(links, net_peer(operation->peer)->link);
	links_unlock(links);
	operation->completion.status = event->completion.status;
	operation->completion.side = event->completion.side;
	operation->completion.address = event->completion.address;
	operation->completion.value = event->completion.value;
	operation_finish(&links->context->operations, operation);
	free(operation);
	links_lock(links);
}

static void tell_gone(struct links *links, const struct net_event *event)
{
	struct link *link = net_association_user(event->association);
	const char *why;
	int status = net_association_status(event->association, &why);
	bool known = link->contacting && status == PF_ERR_UNREACHABLE;
	pf_peer *peer;

	link_explain(links, link);
	links_unlock(links);
	peer = link_peer(links, link);
	if (is_net_peer(peer) && net_peer(peer)->link == link && peer_state(peer) != PEER_GONE)
		peer_set_gone(&links->context->peers, peer, status == PF_OK ? PF_ERR_PEER : status,
			      why_gone(link, status), status == PF_OK || known);
	links_lock(links);
}

/* Was the application told already that a process of this host does not answer? */
static bool is_host_known(const struct links *links, const struct link *link)
{
	const struct link *other;

	for (other = links->list; other; other = other->next) {
		if ((other->warned || other->contacting) && net_is_silent(other->association) &&
		    (other == link || same_host(other, link)))
			return true;
	}
	return false;
}

/* Once for each host. */
static void tell_unanswered(struct links *links, const struct net_event *event)
{
	struct link *link = net_association_user(event->association);
	pf_context *context = links->context;
	char text[DESCRIPTION], lead[64];
	pf_peer *peer = link->peer;

	if (!peer || !context->warning || is_host_known(links, link))
		return;
	link->warned = true;
	snprintf(lead, sizeof(lead), "no answer for %llu s",
		 (unsigned long long)context->options.contact_timeout);
	link_describe(links, link->association, lead, text);
	links_unlock(links);
	context->warning(context, peer, text, context->warning_arg);
	links_lock(links);
}

/* Drops that a network which repeats or delays packets can cause are counted, not told. */
static bool is_usual(enum net_drop why)
{
	return why == NET_DROP_UNKNOWN || why == NET_DROP_UNEXPECTED || why == NET_DROP_REPLAYED;
}

/* Packets were dropped: once in a while, one line that says how many and which. */
static void tell_drops(struct links *links, const struct net_core *core)
{
	const struct net_statistics *statistics = net_statistics(core);
	const pf_stat_info *drops = pf_stat_table() + PF_STAT_NET_MALFORMED;
	uint64_t now = (uint64_t)clock_nanoseconds(CLOCK_MONOTONIC);
	pf_context *context = links->context;
	char text[DESCRIPTION];
	struct net_endpoint from;
	bool unusual = false;
	size_t used = 0;
	enum net_drop why;

	if (now < links->drops_due || !context->warning)
		return;
	for (why = 0; why < NET_DROPS; why++)
		unusual |= !is_usual(why) && statistics->drops[why] != links->drops[why];
	links->dropped = statistics->dropped;
	if (!unusual)
		return;
	links->drops_due = now + DROPS_PERIOD;
	for (why = 0; why < NET_DROPS; why++) {
		uint64_t count = statistics->drops[why] - links->drops[why];

		if (count && used < sizeof(text))
			used += (size_t)snprintf(text + used, sizeof(text) - used, "%llu %s; ",
						 (unsigned long long)count, drops[why].help);
		links->drops[why] = statistics->drops[why];
	}
	why = net_last_drop(core, &from);
	/* It may be one of the others, whose sender did nothing wrong. */
	if (!is_usual(why) && used < sizeof(text)) {
		used += (size_t)snprintf(text + used, sizeof(text) - used,
					 "the last one (%s) from ", drops[why].name);
		if (used < sizeof(text))
			describe_path(links, &from, text + used, sizeof(text) - used);
	}
	links_unlock(links);
	context->warning(context, NULL, text, context->warning_arg);
	links_lock(links);
}

/*
 * Which of those that called us lately had the application opened? The context's
 * lock is taken inside the engine's, which no thread does the other way round.
 */
static void meet_callers(struct links *links)
{
	struct link *link;
	pf_peer *peer;

	for (link = links->list; link != links->met; link = link->next) {
		if (link->peer)
			continue;
		peer = peers_find(&links->context->peers, net_association_id(link->association));
		if (peer)
			link_bind(link, peer);
	}
	links->met = links->list;
}

unsigned links_tell(struct links *links, struct net_core *core)
{
	struct net_event event;
	unsigned count = 0;

	if (links->met != links->list)
		meet_callers(links);
	for (; net_take(core, &event); count++) {
		if (event.kind == NET_MESSAGE)
			tell_message(links, &event);
		else if (event.kind == NET_COMPLETION)
			tell_completion(links, &event);
		else if (event.kind == NET_UNANSWERED)
			tell_unanswered(links, &event);
		else
			tell_gone(links, &event);
	}
	links->told += count;
	if (net_statistics(core)->dropped != links->dropped)
		tell_drops(links, core);
	return count;
}

void links_destroy(struct links *links)
{
	struct link *link;

	while ((link = links->list)) {
		links->list = link->next;
		if (link->explained)
			free(link->why);
		free(link);
	}
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "process.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "base/check.h"
#include "base/clock.h"

/*
 * README.md promises 1 KiB for a peer with an association at rest; association.c asserts the rest
 * of the promise.
 */
_Static_assert(sizeof(struct net_peer) + sizeof(struct net_process) <= 128, "each peer costs it");

/* Time between two reports of dropped packets, ns. */
#define DROPS_PERIOD 10000000000ull

static const char path_net[] = "packets over the network (UDP)";
static const char path_engine[] =
	"by the engine of /dev/exanest and its link; messages in packets over the network (UDP)";

static void endpoint_to_address(const struct address_endpoint *endpoint,
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

static bool address_equals(const union interface_address *a, const union interface_address *b)
{
	if (a->any.sa_family != b->any.sa_family)
		return false;
	return a->any.sa_family == AF_INET ?
		       a->in.sin_addr.s_addr == b->in.sin_addr.s_addr :
		       !memcmp(&a->in6.sin6_addr, &b->in6.sin6_addr, sizeof(a->in6.sin6_addr));
}

/*
 * Is the address an own address? A network inside each host, like a network of virtual machines,
 * has equal addresses on all hosts, and packets to an equal address would come back.
 */
static bool address_is_ours(const struct net_processes *processes,
			    const union interface_address *address)
{
	unsigned i;

	for (i = 0; i < processes->interfaces_count; i++) {
		if (address_equals(&processes->interfaces[i].address, address))
			return true;
	}
	return false;
}

static bool address_is_loopback(const union interface_address *address)
{
	if (address->any.sa_family == AF_INET)
		return (ntohl(address->in.sin_addr.s_addr) >> 24) == 127;
	return IN6_IS_ADDR_LOOPBACK(&address->in6.sin6_addr);
}

static bool address_is_link_local(const union interface_address *address)
{
	return address->any.sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&address->in6.sin6_addr);
}

/*
 * Can packets leave by the interface for an address of the peer? Sets the scope of a link-local
 * address.
 */
static bool interface_leads_to(const struct net_processes *processes,
			       const struct interface *interface, union interface_address *there,
			       bool same_host, bool routed)
{
	if (interface->loopback || address_is_loopback(there)) {
		if (!same_host || !interface->loopback || !address_is_loopback(there))
			return false;
	}
	if (!same_host && address_is_ours(processes, there))
		return false;
	/* A link-local address needs a link on the way, and each host numbers the links anew. */
	if (address_is_link_local(there)) {
		there->in6.sin6_scope_id = interface->index;
		routed = false;
	}
	return routed || interface_reaches(interface, there);
}

/* Does a path use the interface already, by another address? Both addresses would share a cable. */
static bool interface_is_used(const struct net_processes *processes,
			      const struct interface *interface, const struct net_endpoint *paths,
			      unsigned count)
{
	struct endpoint endpoint;
	unsigned i;

	for (i = 0; i < count; i++) {
		memcpy(&endpoint, &paths[i], sizeof(endpoint));
		if (processes->interfaces[endpoint.socket].index == interface->index)
			return true;
	}
	return false;
}

/*
 * Find paths of a family. Each interface gets the first address of the peer in the interface's
 * network, not taken by an earlier interface; with routed, the first free address of any network.
 */
static unsigned paths_of_family(const struct net_processes *processes,
				const struct address *address, uint8_t family, bool routed,
				struct net_endpoint *paths)
{
	const sa_family_t wanted = family == 4 ? AF_INET : AF_INET6;
	bool same_host = !address_unreachable(&processes->context->address, address);
	union interface_address there;
	unsigned count = 0, i, j;
	uint32_t taken = 0;

	for (i = 0; i < processes->interfaces_count && count < NET_PATHS_MOST; i++) {
		const struct interface *interface = &processes->interfaces[i];

		if (interface->address.any.sa_family != wanted ||
		    interface_is_used(processes, interface, paths, count))
			continue;
		for (j = 0; j < address->endpoints_count; j++) {
			if (address->endpoints[j].family != family || taken >> j & 1)
				continue;
			endpoint_to_address(&address->endpoints[j], &there);
			if (!interface_leads_to(processes, interface, &there, same_host, routed))
				continue;
			taken |= 1u << j;
			endpoint_make(&paths[count++], (uint8_t)i, &there);
			break;
		}
	}
	return count;
}

/* Use IPv4 or IPv6, not both: both would share the cables. */
unsigned net_process_paths(const struct net_processes *processes, const struct address *address,
			   struct net_endpoint paths[NET_PATHS_MOST])
{
	unsigned count = 0, way;

	for (way = 0; way < 4 && !count; way++)
		count = paths_of_family(processes, address, way % 2 ? 6 : 4, way >= 2, paths);
	return count;
}

const char *net_process_unreachable(const struct net_processes *processes,
				    const struct address *address)
{
	struct net_endpoint paths[NET_PATHS_MOST];

	if (address->auth != processes->context->address.auth)
		return "the option auth differs there";
	if (!address->endpoints_count)
		return "it offers no network address (see its options network, if_include and port_min)";
	if (!net_process_paths(processes, address, paths))
		return "no network interface used here leads to one that it uses "
		       "(see if_include)";
	return NULL;
}

struct net_process *net_process_of_id(const struct net_processes *processes,
				      const uint8_t id[NET_ID_BYTES])
{
	struct net_process *process = processes->list;

	assert_locked(processes->lock, true);
	while (process && memcmp(net_association_id(process->association), id, NET_ID_BYTES) != 0)
		process = process->next;
	return process;
}

void net_process_add(struct net_processes *processes, struct net_process *process,
		     struct net_association *association)
{
	assert_locked(processes->lock, true);
	process->association = association;
	process->next = processes->list;
	processes->list = process;
	atomic_store_explicit(&processes->active, true, memory_order_relaxed);
	atomic_store_explicit(&processes->context->polled, true, memory_order_relaxed);
	statistic_add_concurrent(&processes->context->statistics, PF_STAT_PEERS, 1);
}

bool net_process_accept(struct net_processes *processes, struct net_association *association,
			const uint8_t id[NET_ID_BYTES], const void *info, size_t length,
			void **peer)
{
	struct address address;
	struct net_process *process;

	assert_locked(processes->lock, true);
	/* The address must have the id claimed by the caller. Neither is proved (doc/wire.md). */
	if (address_parse(&address, info, length) != PF_OK ||
	    memcmp(address.id, id, sizeof(address.id)) != 0)
		return false;
	/* The option network differs there: operations to the process go another way. */
	if (processes->context->transport_back(processes->context, &address) != &transport_net)
		return false;
	/* A peer once gone stays gone for the application. */
	if (net_process_of_id(processes, id))
		return false;
	process = calloc(1, sizeof(*process));
	if (!process)
		return false;
	process->engine = address.engine;
	net_process_add(processes, process, association);
	*peer = process;
	return true;
}

void net_process_lose_engine(struct net_process *process)
{
	if (process->explained)
		return;
	process->engine = 0;
	if (process->peer && peer_state(process->peer) == PEER_LINKED)
		peer_set_path(process->peer, path_net);
}

void net_process_bind(struct net_process *process, pf_peer *peer)
{
	process->peer = peer;
	/*
	 * A peer with another transport gave an address on the present host, although the call came
	 * by the network: the transport host reaches the peer.
	 */
	if (peer->transport != &transport_net || net_peer(peer)->process)
		return;
	net_peer(peer)->process = process;
	peer_forget_address(peer);
	peer_set_path(peer,
		      net_process_engine(process) && device_node_address(&peer->context->device) ?
			      path_engine :
			      path_net);
	peer_set_state(peer, PEER_LINKED);
}

/* ---- descriptions ---- */

/* Example: "10.77.0.2, UDP port 41234, over eth0 (from 10.77.0.1)". */
static size_t path_describe(const struct net_processes *processes, const struct net_endpoint *to,
			    char *text, size_t size)
{
	char there[INET6_ADDRSTRLEN] = "?", here[INET6_ADDRSTRLEN] = "?";
	const struct interface *interface;
	struct endpoint endpoint;
	int family, length;

	memcpy(&endpoint, to, sizeof(endpoint));
	interface = &processes->interfaces[endpoint.socket];
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

/* Result: "WHY from PATH and PATH". */
static void net_process_describe(const struct net_processes *processes,
				 const struct net_association *association, const char *why,
				 char text[DESCRIPTION])
{
	size_t used = (size_t)snprintf(text, DESCRIPTION, "%s from ", why);
	const char *word = "";
	struct net_endpoint to;
	unsigned i;

	assert_locked(processes->lock, true);
	for (i = 0; i < NET_PATHS_MOST && used < DESCRIPTION; i++) {
		if (!net_path_endpoint(association, i, &to))
			continue;
		used += (size_t)snprintf(text + used, DESCRIPTION - used, "%s", word);
		if (used < DESCRIPTION)
			used += path_describe(processes, &to, text + used, DESCRIPTION - used);
		word = " and ";
	}
}

/*
 * Are the first common paths of both equal, except for the remote ports? Then both are on one host.
 */
static bool net_process_shares_host(const struct net_process *a, const struct net_process *b)
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

const struct net_process *net_process_silent_neighbour(const struct net_processes *processes,
						       const struct net_process *process)
{
	const struct net_process *other;

	assert_locked(processes->lock, true);
	for (other = processes->list; other; other = other->next) {
		if (other != process && net_is_silent(other->association) &&
		    net_process_shares_host(other, process))
			return other;
	}
	return NULL;
}

static bool peer_is_net(const pf_peer *peer)
{
	return peer->transport == &transport_net;
}

static const char *net_process_why_gone(const struct net_process *process, int status)
{
	return process->explained ? process->why : pf_strerror(status);
}

void net_process_explain(struct net_processes *processes, struct net_process *process)
{
	char text[DESCRIPTION];
	const char *why;
	char *copy;
	int status = net_association_status(process->association, &why);

	assert_locked(processes->lock, true);
	if (!why || process->explained)
		return;
	if (status == PF_OK)
		snprintf(text, sizeof(text), "%s", why);
	else
		net_process_describe(processes, process->association, why, text);
	copy = strdup(text);
	if (copy) {
		process->why = copy;
		process->explained = true;
	}
	if (process->peer && peer_is_net(process->peer) &&
	    net_peer(process->peer)->process == process)
		peer_set_path(process->peer, net_process_why_gone(process, status));
}

/* ---- events, told by progress ---- */

static void net_processes_lock(struct net_processes *processes)
{
	pthread_mutex_lock(processes->lock);
}

static void net_processes_unlock(struct net_processes *processes)
{
	assert_locked(processes->lock, true);
	pthread_mutex_unlock(processes->lock);
}

/* Without the lock: return the peer of a process, made now if the process called first. */
static pf_peer *net_process_peer(struct net_processes *processes, struct net_process *process)
{
	pf_context *context = processes->context;
	unsigned tries = 0;
	pf_peer *peer;

	assert_progress(processes->context);
	net_processes_lock(processes);
	peer = process->peer;
	net_processes_unlock(processes);
	if (peer)
		return peer;
	/* Wait until there is memory: events of the peer must not be lost. */
	while (!(peer = peers_get(&context->peers, context,
				  net_association_id(process->association), NULL, &transport_net)))
		allocate_wait(&tries);
	net_processes_lock(processes);
	net_process_bind(process, peer);
	net_processes_unlock(processes);
	return peer;
}

static void net_process_tell_message(struct net_processes *processes, const struct net_event *event)
{
	struct net_process *process = net_association_user(event->association);
	pf_context *context = processes->context;
	pf_peer *peer = process->peer;

	assert_locked(processes->lock, true);
	assert_progress(processes->context);
	assert_that(event->kind == NET_MESSAGE);
	net_processes_unlock(processes);
	if (__builtin_expect(!peer, 0))
		peer = net_process_peer(processes, process);
	statistic_add(&context->statistics, PF_STAT_RECEIVES, 1);
	statistic_add(&context->statistics, PF_STAT_RECEIVE_BYTES, event->length);
	if (event->pieces > 1)
		context->receive_pieces(context, peer, event->tag, event->piece, event->pieces,
					context->receive_pieces_arg);
	else if (context->receive)
		context->receive(context, peer, event->tag, event->data, event->length,
				 context->receive_arg);
	net_processes_lock(processes);
}

static void net_process_tell_completion(struct net_processes *processes,
					const struct net_event *event)
{
	struct operation *operation = event->arg;

	assert_locked(processes->lock, true);
	assert_progress(processes->context);
	/* After a failure of the peer: the application may ask for the reason before NET_GONE. */
	if (event->completion.status != PF_OK && peer_is_net(operation->peer) &&
	    net_peer(operation->peer)->process)
		net_process_explain(processes, net_peer(operation->peer)->process);
	net_processes_unlock(processes);
	operation->completion.status = event->completion.status;
	operation->completion.side = event->completion.side;
	operation->completion.address = event->completion.address;
	operation->completion.value = event->completion.value;
	operation_finish(&processes->context->operations, operation);
	free(operation);
	net_processes_lock(processes);
}

static void net_process_tell_gone(struct net_processes *processes, const struct net_event *event)
{
	struct net_process *process = net_association_user(event->association);
	const char *why;
	int status = net_association_status(event->association, &why);
	bool known = process->contacting && status == PF_ERR_UNREACHABLE;
	pf_peer *peer;

	assert_locked(processes->lock, true);
	assert_progress(processes->context);
	net_process_explain(processes, process);
	net_processes_unlock(processes);
	peer = net_process_peer(processes, process);
	if (peer_is_net(peer) && net_peer(peer)->process == process &&
	    peer_state(peer) != PEER_GONE)
		peer_set_gone(&processes->context->peers, peer,
			      status == PF_OK ? PF_ERR_PEER : status,
			      net_process_why_gone(process, status), status == PF_OK || known);
	net_processes_lock(processes);
}

/* Was the application told already that a process of the host does not answer? */
static bool net_process_host_is_known(const struct net_processes *processes,
				      const struct net_process *process)
{
	const struct net_process *other;

	assert_locked(processes->lock, true);
	for (other = processes->list; other; other = other->next) {
		if ((other->warned || other->contacting) && net_is_silent(other->association) &&
		    (other == process || net_process_shares_host(other, process)))
			return true;
	}
	return false;
}

/* Warn of a process without an answer, once for each host. */
static void net_process_tell_unanswered(struct net_processes *processes,
					const struct net_event *event)
{
	struct net_process *process = net_association_user(event->association);
	pf_context *context = processes->context;
	char text[DESCRIPTION], lead[64];
	pf_peer *peer = process->peer;

	assert_locked(processes->lock, true);
	assert_progress(processes->context);
	if (!peer || !context->warning || net_process_host_is_known(processes, process))
		return;
	process->warned = true;
	snprintf(lead, sizeof(lead), "no answer for %llu s",
		 (unsigned long long)context->options.contact_timeout);
	net_process_describe(processes, process->association, lead, text);
	net_processes_unlock(processes);
	context->warning(context, peer, text, context->warning_arg);
	net_processes_lock(processes);
}

/* Is the drop counted but not told? Repeated and delayed packets cause usual drops. */
static bool drop_is_usual(enum net_drop why)
{
	return why == NET_DROP_UNKNOWN || why == NET_DROP_UNEXPECTED || why == NET_DROP_REPLAYED;
}

/* Report dropped packets, from time to time: a single line with numbers and reasons. */
static void net_processes_tell_drops(struct net_processes *processes, const struct net_core *core)
{
	const struct net_statistics *statistics = net_statistics(core);
	const pf_stat_info *drops = pf_stat_table() + PF_STAT_NET_MALFORMED;
	uint64_t now = (uint64_t)clock_nanoseconds(CLOCK_MONOTONIC);
	pf_context *context = processes->context;
	char text[DESCRIPTION];
	struct net_endpoint from;
	bool unusual = false;
	size_t used = 0;
	enum net_drop why;

	assert_locked(processes->lock, true);
	assert_progress(processes->context);
	if (now < processes->drops_due || !context->warning)
		return;
	for (why = 0; why < NET_DROPS; why++)
		unusual |= !drop_is_usual(why) && statistics->drops[why] != processes->drops[why];
	processes->dropped = statistics->dropped;
	if (!unusual)
		return;
	processes->drops_due = now + DROPS_PERIOD;
	for (why = 0; why < NET_DROPS; why++) {
		uint64_t count = statistics->drops[why] - processes->drops[why];

		if (count && used < sizeof(text))
			used += (size_t)snprintf(text + used, sizeof(text) - used, "%llu %s; ",
						 (unsigned long long)count, drops[why].help);
		processes->drops[why] = statistics->drops[why];
	}
	why = net_last_drop(core, &from);
	/* The last drop may be a usual drop, of a sender without fault. */
	if (!drop_is_usual(why) && used < sizeof(text)) {
		used += (size_t)snprintf(text + used, sizeof(text) - used,
					 "the last one (%s) from ", drops[why].name);
		if (used < sizeof(text))
			path_describe(processes, &from, text + used, sizeof(text) - used);
	}
	net_processes_unlock(processes);
	context->warning(context, NULL, text, context->warning_arg);
	net_processes_lock(processes);
}

/*
 * Bind processes with recent calls to peers opened by the application. peers.lock is taken inside
 * network.lock; no thread takes the two in the opposite order.
 */
static void net_processes_meet_callers(struct net_processes *processes)
{
	struct net_process *process;
	pf_peer *peer;

	assert_locked(processes->lock, true);
	assert_progress(processes->context);
	for (process = processes->list; process != processes->met; process = process->next) {
		if (process->peer)
			continue;
		peer = peers_find(&processes->context->peers,
				  net_association_id(process->association));
		if (peer)
			net_process_bind(process, peer);
	}
	processes->met = processes->list;
}

unsigned net_processes_tell(struct net_processes *processes, struct net_core *core)
{
	struct net_event event;
	unsigned count = 0;

	assert_locked(processes->lock, true);
	assert_progress(processes->context);
	if (processes->met != processes->list)
		net_processes_meet_callers(processes);
	for (; net_take(core, &event); count++) {
		if (event.kind == NET_MESSAGE)
			net_process_tell_message(processes, &event);
		else if (event.kind == NET_COMPLETION)
			net_process_tell_completion(processes, &event);
		else if (event.kind == NET_UNANSWERED)
			net_process_tell_unanswered(processes, &event);
		else
			net_process_tell_gone(processes, &event);
	}
	processes->told += count;
	if (net_statistics(core)->dropped != processes->dropped)
		net_processes_tell_drops(processes, core);
	return count;
}

void net_processes_destroy(struct net_processes *processes)
{
	struct net_process *process;

	assert_progress(processes->context);
	while ((process = processes->list)) {
		processes->list = process->next;
		if (process->explained)
			free(process->why);
		free(process);
	}
}

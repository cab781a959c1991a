/* SPDX-License-Identifier: BSD-3-Clause */
#include "process.h"

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

unsigned net_process_paths(const struct net_processes *processes, const struct address *address,
			   struct net_endpoint paths[NET_PATHS_MOST])
{
	const struct carrier *carrier = processes->carrier;

	return carrier->operations->find(
		carrier, address, !address_unreachable(&processes->context->address, address),
		paths);
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

#define DESCRIPTION 768 /* bytes for all paths of a peer */

/* Result: "WHY from PATH and PATH". */
static void net_process_describe(const struct net_processes *processes,
				 const struct net_association *association, const char *why,
				 char text[DESCRIPTION])
{
	size_t used = (size_t)snprintf(text, DESCRIPTION, "%s from ", why);
	const struct carrier *carrier = processes->carrier;
	const char *word = "";
	struct net_endpoint to;
	unsigned i;

	assert_locked(processes->lock, true);
	for (i = 0; i < NET_PATHS_MOST && used < DESCRIPTION; i++) {
		if (!net_path_endpoint(association, i, &to))
			continue;
		used += (size_t)snprintf(text + used, DESCRIPTION - used, "%s", word);
		if (used < DESCRIPTION)
			used += carrier->operations->describe(carrier, &to, text + used,
							      DESCRIPTION - used);
		word = " and ";
	}
}

/* Do the first common paths of both lead to one host? */
static bool net_process_shares_host(const struct net_processes *processes,
				    const struct net_process *a, const struct net_process *b)
{
	struct net_endpoint one, other;
	unsigned i;

	assert_locked(processes->lock, true);
	for (i = 0; i < NET_PATHS_MOST; i++) {
		if (!net_path_endpoint(a->association, i, &one) ||
		    !net_path_endpoint(b->association, i, &other))
			continue;
		return processes->carrier->operations->same_host(&one, &other);
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
		    net_process_shares_host(processes, other, process))
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
		    (other == process || net_process_shares_host(processes, other, process)))
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
	const struct carrier *carrier = processes->carrier;
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
			carrier->operations->describe(carrier, &from, text + used,
						      sizeof(text) - used);
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

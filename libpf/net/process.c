/* SPDX-License-Identifier: BSD-3-Clause */
#include "process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "common/owners.h"
#include "common/path.h"

/*
 * README.md promises 1 KiB for a peer with an association at rest; association.c asserts the rest
 * of the promise.
 */
_Static_assert(sizeof(struct net_peer) <= 136, "each peer costs it");

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
	if (address->endpoints_count &&
	    !net_version_shared(address->wire_oldest, address->wire_newest))
		return "its version of libpf shares no version of the wire with this one";
	if (!address->endpoints_count)
		return "it offers no network address (see its options network, if_include and port_min)";
	if (!net_process_paths(processes, address, paths))
		return "no network interface used here leads to one that it uses "
		       "(see if_include)";
	return NULL;
}

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

/* Say by which addresses and interfaces the peer is reached. */
static void net_peer_log(const struct net_processes *processes, struct net_peer *peer)
{
	struct log *log = &processes->context->log;
	char text[DESCRIPTION];

	if (!log_wants(log, PF_LOG_INFO))
		return;
	net_process_describe(processes, peer->association, "packets to and", text);
	log_add(log, &peer->peer, PF_LOG_INFO, "%s", text);
}

void net_peer_bind(struct net_processes *processes, struct net_peer *peer,
		   struct net_association *association)
{
	assert_locked(processes->lock, true);
	assert_that(!peer->association);
	peer->association = association;
	peer_forget_address(&peer->peer);
	path_set(&peer->peer,
		 net_peer_engine_address(peer) && device_node_address(&processes->context->device) ?
			 path_engine :
			 path_net);
	peer_set_state(&peer->peer, PF_PEER_CONNECTED);
	atomic_store_explicit(&processes->active, true, memory_order_relaxed);
	atomic_store_explicit(&processes->context->polled, true, memory_order_relaxed);
	statistic_add_concurrent(&processes->context->statistics, PF_STAT_PEERS, 1);
	net_peer_log(processes, peer);
}

/*
 * By a thread that need not be progress: progress frees only peers that are gone, and a peer without
 * an association, as this one, does not become gone while this thread has network.lock.
 */
bool net_process_accept(struct net_processes *processes, struct net_association *association,
			const uint8_t id[NET_ID_BYTES], const void *info, size_t length,
			void **user)
{
	pf_context *context = processes->context;
	uint8_t data[PF_DATA_MOST];
	struct address address;
	pf_peer *peer;

	assert_locked(processes->lock, true);
	/* The address must have the id claimed by the caller. Neither is proved (doc/wire.md). */
	if (address_parse(&address, data, info, length) != PF_OK ||
	    memcmp(address.id, id, sizeof(address.id)) != 0)
		return false;
	/* The option network differs there: operations to the process go another way. */
	if (context->transport_back(context, &address) != &transport_net)
		return false;
	/*
	 * A peer once gone stays gone for the application. And the application may have an address of
	 * the process by which another transport reaches the process.
	 */
	peer = peers_get_caller(&context->peers, context, &address, data, &transport_net);
	if (!peer)
		return false;
	net_peer(peer)->engine = address.engine;
	net_peer_bind(processes, net_peer(peer), association);
	*user = peer;
	return true;
}

void net_peer_lose_engine(struct net_peer *peer)
{
	if (peer->explained)
		return;
	peer->engine = 0;
	if (peer_state(&peer->peer) == PF_PEER_CONNECTED)
		path_set(&peer->peer, path_net);
}

/* ---- descriptions ---- */

/* Do the first common paths of both lead to one host? */
static bool net_peers_share_host(const struct net_processes *processes, const struct net_peer *a,
				 const struct net_peer *b)
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

/*
 * Does a peer on the host of this one not answer? known: only one of which the application has
 * learnt that, which may be this peer.
 */
static bool host_is_silent(const struct net_processes *processes, const struct net_peer *peer,
			   bool known)
{
	struct peers *peers = &processes->context->peers;
	bool silent = false;
	pf_peer *base = NULL;

	assert_locked(processes->lock, true);
	peers_lock(peers);
	while (!silent && (base = peers_next(peers, base))) {
		const struct net_peer *other = net_peer(base);

		if (base->transport != &transport_net || !other->association ||
		    !net_is_silent(other->association))
			continue;
		if (other == peer)
			silent = known && (other->warned || other->contacting);
		else
			silent = (!known || other->warned || other->contacting) &&
				 net_peers_share_host(processes, other, peer);
	}
	peers_unlock(peers);
	return silent;
}

bool net_peer_neighbour_is_silent(const struct net_processes *processes,
				  const struct net_peer *peer)
{
	return host_is_silent(processes, peer, false);
}

static const char *net_peer_why_gone(const struct net_peer *peer, int status)
{
	return peer->explained ? peer->why : pf_strerror(status);
}

void net_peer_explain(struct net_processes *processes, struct net_peer *peer)
{
	char text[DESCRIPTION];
	const char *why;
	char *copy;
	int status = net_association_status(peer->association, &why);

	assert_locked(processes->lock, true);
	if (!why || peer->explained)
		return;
	if (status == PF_OK)
		snprintf(text, sizeof(text), "%s", why);
	else
		net_process_describe(processes, peer->association, why, text);
	copy = strdup(text);
	if (copy) {
		peer->why = copy;
		peer->explained = true;
	}
	path_set(&peer->peer, net_peer_why_gone(peer, status));
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

static void net_process_tell_message(struct net_processes *processes, const struct net_event *event)
{
	pf_peer *peer = net_association_user(event->association);
	const struct iovec whole = { event->data, event->length };
	pf_context *context = processes->context;
	bool received;

	assert_locked(processes->lock, true);
	assert_progress(processes->context);
	assert_that(event->kind == NET_MESSAGE);
	if (net_peer(peer)->refused)
		return;
	net_processes_unlock(processes);
	statistic_add(&context->statistics, PF_STAT_RECEIVES, 1);
	statistic_add(&context->statistics, PF_STAT_RECEIVE_BYTES, event->length);
	received = owners_receive(context, peer, event->tag,
				  event->pieces > 1 ? event->piece : &whole, event->pieces,
				  event->length);
	net_processes_lock(processes);
	if (received)
		return;
	net_peer(peer)->refused = true;
	net_fail(event->association, PF_ERR_MEMORY, OWNERS_REFUSED);
}

static void net_process_tell_notice(struct net_processes *processes, struct net_core *core,
				    const struct net_event *event)
{
	pf_peer *peer = net_association_user(event->association);
	pf_context *context = processes->context;

	assert_locked(processes->lock, true);
	assert_progress(processes->context);
	net_processes_unlock(processes);
	if (context->callbacks.notice)
		context->callbacks.notice(context, peer, event->remote, event->length, event->value,
					  context->callbacks.arg);
	net_processes_lock(processes);
	net_resolved(core, event->token, PF_OK, 0);
	processes->noticed = true;
}

static void net_process_tell_completion(struct net_processes *processes,
					const struct net_event *event)
{
	struct operation *operation = event->arg;

	assert_locked(processes->lock, true);
	assert_progress(processes->context);
	/* After a failure of the peer: the application may ask for the reason before NET_GONE. */
	if (event->completion.status != PF_OK)
		net_peer_explain(processes, net_peer(operation->peer));
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
	struct net_peer *peer = net_association_user(event->association);
	const char *why;
	int status = net_association_status(event->association, &why);

	assert_locked(processes->lock, true);
	assert_progress(processes->context);
	net_peer_explain(processes, peer);
	path_set(&peer->peer, net_peer_why_gone(peer, status));
	net_processes_unlock(processes);
	peer_set_gone(&processes->context->peers, &peer->peer,
		      status == PF_OK ? PF_ERR_PEER : status, net_peer_why_gone(peer, status),
		      status == PF_OK);
	net_processes_lock(processes);
}

/* Warn of a process without an answer, once for each host. */
static void net_process_tell_unanswered(struct net_processes *processes,
					const struct net_event *event)
{
	struct net_peer *peer = net_association_user(event->association);
	pf_context *context = processes->context;
	char text[DESCRIPTION], lead[64];

	assert_locked(processes->lock, true);
	assert_progress(processes->context);
	if (!log_wants(&context->log, PF_LOG_WARNING) || host_is_silent(processes, peer, true))
		return;
	peer->warned = true;
	snprintf(lead, sizeof(lead), "no answer for %llu s",
		 (unsigned long long)context->options.contact_timeout);
	net_process_describe(processes, peer->association, lead, text);
	log_add(&context->log, &peer->peer, PF_LOG_WARNING, "%s", text);
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
	if (now < processes->drops_due || !log_wants(&context->log, PF_LOG_WARNING))
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
	log_add(&context->log, NULL, PF_LOG_WARNING, "%s", text);
}

unsigned net_processes_tell(struct net_processes *processes, struct net_core *core)
{
	struct net_event event;
	unsigned count = 0;

	assert_locked(processes->lock, true);
	assert_progress(processes->context);
	for (; net_take(core, &event); count++) {
		if (event.kind == NET_MESSAGE)
			net_process_tell_message(processes, &event);
		else if (event.kind == NET_NOTICE)
			net_process_tell_notice(processes, core, &event);
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

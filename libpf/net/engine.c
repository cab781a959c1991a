/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "common/context.h"

/* Receive calls for one socket before the others, and sending, get their turn. */
#define RECEIVES_MOST 8
/* Rounds of receiving and sending in one drive: messages of other transports may be waiting. */
#define ROUNDS_POLL 2
#define ROUNDS_SERVE 64
/*
 * A poll looks at the sockets, which is a system call, only if since the last look as much time has
 * passed as a LOOK_SHARE of the time for which nothing came and nothing was posted, or
 * LOOK_BETWEEN_MOST ns, and then since the end of the last look, which may take as long. So what is
 * waited for is late by no more than that, and a program that tests for messages while it computes
 * makes few calls.
 */
#define LOOK_SHARE 64
#define LOOK_BETWEEN_MOST 2000
/* Without a packet, one look in LOOKS_ADVANCE sends what has become due; all if they are rare. */
#define LOOKS_ADVANCE 8
/* Likewise, a socket without a packet for LOOKS_UNHEARD looks is read in one in LOOKS_ELSEWHERE. */
#define LOOKS_UNHEARD 4096
#define LOOKS_ELSEWHERE 16
/* A peer whose packets are so many calls in a row all that came is connected. */
#define RECEIVES_ALONE 256
/* So many times in a row, all that is to be sent may come back; then it waits for a moment. */
#define RETURNS_MOST 64
#define SECOND 1000000000ull
#define MILLISECOND 1000000ull
/* For so long after a look, posts count as looks: a thread that only posts does not receive, ns. */
#define POSTING (SECOND / 250)
/* More than the longest messages, and than the window that a path begins with. */
#define PACKETS_MANY 64
/* The service thread's timer is not moved to a deadline that is later by less. */
#define EARLY_MOST MILLISECOND
/*
 * A thread that waits for packets looks for what the service thread received first after
 * WAIT_FIRST, then after twice as long each time, as many may wait for few processors.
 */
#define WAIT_FIRST (SECOND / 4000)
#define WAIT_MOST (SECOND / 125)
/* It gives up when a callback of another thread has taken so long. */
#define STALLED (SECOND / 50)
/*
 * A context that closes waits so long for what it sent to be acknowledged; while messages are among it,
 * so long for the next of them: their receiver may compute, and make room for more when it polls.
 */
#define LINGER (SECOND / 2)
#define LINGER_MESSAGES (2 * SECOND)
/* ... and so long for room in its sockets for each GOODBYE. */
#define GOODBYES (SECOND / 20)

static uint64_t engine_now(void)
{
	return (uint64_t)clock_nanoseconds(CLOCK_MONOTONIC);
}

/* ---- making it ---- */

static bool accept_link(void *user, struct net_association *association,
			const uint8_t id[NET_ID_BYTES], const void *info, size_t length,
			void **peer)
{
	struct engine *engine = user;

	return link_accept(&engine->links, association, id, info, length, peer);
}

static size_t engine_packet_max(void *user, const struct net_endpoint *to)
{
	struct engine *engine = user;
	struct endpoint endpoint;

	memcpy(&endpoint, to, sizeof(endpoint));
	return endpoint.socket < engine->count ?
		       socket_packet_most(&engine->interfaces[endpoint.socket]) :
		       NET_PACKET_LEAST;
}

static void random_bytes(void *user, void *bytes, size_t length)
{
	(void)user;
	randombytes_buf(bytes, length);
}

static void engine_publish(struct engine *engine, struct address *address)
{
	unsigned i;

	for (i = 0; i < engine->count; i++) {
		const struct interface *interface = &engine->interfaces[i];
		struct address_endpoint *endpoint = &address->endpoints[i];
		bool version6 = interface->address.any.sa_family == AF_INET6;

		endpoint->family = version6 ? 6 : 4;
		endpoint->prefix = (uint8_t)interface->prefix;
		endpoint->port = engine->sockets[i].port;
		if (version6)
			memcpy(endpoint->address, &interface->address.in6.sin6_addr, 16);
		else
			memcpy(endpoint->address, &interface->address.in.sin_addr, 4);
	}
	address->endpoints_count = (uint8_t)engine->count;
}

/* Returns why there is no socket, if there is none. */
static const char *open_sockets(struct engine *engine, const struct interface *found,
				unsigned count)
{
	const pf_options *options = &engine->context->options;
	struct socket_ports ports = { .least = (unsigned)options->port_min,
				      .most = (unsigned)options->port_max };
	pf_context *context = engine->context;
	bool taken = false;
	unsigned i;
	int status;

	/* Not in order: the last packets to a process that has ended are not for the next one. */
	if (ports.least)
		ports.first = ports.least + randombytes_uniform(ports.most - ports.least + 1);
	/* An address that cannot be bound is one that is just going away. */
	for (i = 0; i < count; i++) {
		status = socket_open(&engine->sockets[engine->count], (uint8_t)engine->count,
				     &found[i], ports, (uint32_t)options->socket_buffer);
		taken |= status == PF_ERR_AGAIN;
		if (status == PF_OK)
			engine->interfaces[engine->count++] = found[i];
	}
	for (i = 0; i < engine->count; i++)
		socket_open_second(&engine->sockets[engine->count + i], &engine->sockets[i],
				   (uint32_t)options->socket_buffer);
	if (!taken)
		return "shared memory does not reach it, and no UDP socket could be opened here";
	snprintf(context->no_ports, sizeof(context->no_ports),
		 "all UDP ports from %u to %u (port_min, port_max) are taken here; each process "
		 "of a host needs one",
		 ports.least, ports.most);
	return context->no_ports;
}

/* The least of any socket: wire_charge counts half of what the kernel charges. */
static uint32_t engine_credit(const struct engine *engine)
{
	uint32_t least = UINT32_MAX;
	unsigned i;

	for (i = 0; i < engine->count; i++) {
		if (engine->sockets[i].receive_buffer / 2 < least)
			least = engine->sockets[i].receive_buffer / 2;
	}
	return least;
}

static int create_core(struct engine *engine)
{
	const pf_options *options = &engine->context->options;
	struct net_memory_operations memory = memory_operations(&engine->memory);
	struct net_callbacks callbacks = {
		.accept = accept_link,
		.packet_most = engine_packet_max,
		.random = random_bytes,
		.user = engine,
	};
	struct net_options net;

	net_options_init(&net);
	memcpy(net.id, engine->context->address.id, sizeof(net.id));
	memcpy(net.key, engine->context->address.key, sizeof(net.key));
	net.auth = (enum net_auth)options->auth;
	net.fault_mode = (enum net_fault_mode)options->net_fault;
	if (options->block_size >= 4096 && options->block_size <= 65536)
		net.block_size = (uint32_t)options->block_size;
	net.backup_ring = (uint32_t)(options->backup_ring < UINT32_MAX ? options->backup_ring :
									 UINT32_MAX);
	net.receive_buffer = engine_credit(engine);
	net.peer_timeout = options->peer_timeout * SECOND;
	net.contact_timeout = options->contact_timeout * SECOND;
	engine->core = net_create(&net, &memory, &callbacks);
	sodium_memzero(&net, sizeof(net));
	return engine->core ? PF_OK : PF_ERR_MEMORY;
}

static int create_batches(struct engine *engine)
{
	const size_t room = NET_BATCH_BYTES + 2048;
	unsigned i;

	engine->batches = calloc(SEND_BATCHES, sizeof(*engine->batches));
	if (!engine->batches)
		return PF_ERR_MEMORY;
	if (engine->context->options.auth == PF_AUTH_HEADER)
		return PF_OK;
	engine->rooms = malloc(SEND_BATCHES * room);
	if (!engine->rooms)
		return PF_ERR_MEMORY;
	for (i = 0; i < SEND_BATCHES; i++)
		engine->batches[i].room = engine->rooms + i * room;
	return PF_OK;
}

static void engine_destroy(struct engine *engine)
{
	unsigned i;

	if (engine->core)
		net_destroy(engine->core);
	links_destroy(&engine->links);
	nodes_destroy(&engine->nodes);
	for (i = 0; i < engine_sockets(engine); i++)
		socket_close(&engine->sockets[i]);
	receiver_destroy(engine->receiver);
	free(engine->batches);
	free(engine->rooms);
	if (engine->wake >= 0)
		close(engine->wake);
	if (engine->timer >= 0)
		close(engine->timer);
	if (engine->grace_timer >= 0)
		close(engine->grace_timer);
	if (engine->readable >= 0)
		close(engine->readable);
	net_memory_close(&engine->memory);
	pthread_mutex_destroy(&engine->attending);
	pthread_mutex_destroy(&engine->lock);
	free(engine);
}

/* A page was resolved. Progress finds that by itself; the service thread may sleep. */
static void wake_driver(struct net_memory *memory)
{
	struct engine *engine =
		(struct engine *)(void *)((char *)memory - offsetof(struct engine, memory));
	const uint64_t one = 1;

	/* It can only fail when the counter is full, and the thread awake. */
	if (atomic_load_explicit(&engine->attended, memory_order_seq_cst) &&
	    write(engine->wake, &one, sizeof(one)) < 0)
		return;
}

/*
 * This thread stores sleeps and then loads attended, the service thread the other way round (look() in
 * watch.c): so this one finds that it has to wake the thread, or that one sees that it must not leave.
 */
void engine_sleeps(struct engine *engine, bool sleeps)
{
	const uint64_t one = 1;

	atomic_store_explicit(&engine->sleeps, sleeps, memory_order_seq_cst);
	if (!sleeps)
		atomic_store_explicit(&engine->woke, engine_now(), memory_order_relaxed);
	/* It can only fail when the counter is full, and the thread awake. */
	if (sleeps && !atomic_load_explicit(&engine->attended, memory_order_seq_cst) &&
	    write(engine->wake, &one, sizeof(one)) < 0)
		return;
}

static void set_timer(int timer, uint64_t time)
{
	const struct itimerspec end = { .it_value = { .tv_sec = (time_t)(time / SECOND),
						      .tv_nsec = (long)(time % SECOND) } };

	/* It can only fail for a descriptor or a time that is none. */
	(void)timerfd_settime(timer, TFD_TIMER_ABSTIME, &end, NULL);
}

/*
 * With engine.attending. False: there is no memory for it. If they are not watched they are not in "readable":
 * a packet takes 0.4 us longer to a socket that any epoll has.
 */
static bool watch_sockets(struct engine *engine, bool watched)
{
	struct epoll_event event = { .events = EPOLLIN };
	bool done = true;
	unsigned i;

	for (i = 0; i < engine_sockets(engine); i++) {
		if (engine->sockets[i].fd >= 0 &&
		    epoll_ctl(engine->readable, watched ? EPOLL_CTL_ADD : EPOLL_CTL_DEL,
			      engine->sockets[i].fd, &event))
			done = false;
	}
	return done;
}

bool engine_attend(struct engine *engine)
{
	uint64_t time = engine_now();
	bool attended;

	pthread_mutex_lock(&engine->attending);
	attended = atomic_load_explicit(&engine->attended, memory_order_relaxed);
	if (!attended && !watch_sockets(engine, true)) {
		(void)watch_sockets(engine, false);
		set_timer(engine->grace_timer,
			  grace_begin(&engine->grace, time, ENGINE_RETRY, true));
	} else {
		atomic_store_explicit(&engine->attended, true, memory_order_seq_cst);
		grace_away(&engine->grace);
	}
	pthread_mutex_unlock(&engine->attending);
	return !attended;
}

uint64_t engine_seen(const struct engine *engine)
{
	uint64_t looked = grace_read(&engine->looked), used = grace_read(&engine->used);

	return used > looked && used - looked <= POSTING ? used : looked;
}

void engine_renew_grace(struct engine *engine, uint64_t time, const uint64_t *used)
{
	struct grace *grace = &engine->grace;
	uint64_t left;

	pthread_mutex_lock(&engine->attending);
	/* The application may have begun another one. */
	if (grace_runs(grace, time, &left) && !left) {
		if (used)
			grace_note(grace, time,
				   atomic_load_explicit(&grace->thread, memory_order_relaxed),
				   *used);
		set_timer(engine->grace_timer, grace_renew(grace, time));
	}
	pthread_mutex_unlock(&engine->attending);
}

int engine_open(pf_context *context, struct engine **result, const char **why)
{
	struct interface found[INTERFACES_MOST];
	const pf_options *options = &context->options;
	const char *why_none;
	struct engine *engine;
	unsigned count;
	int status = PF_OK, error = 0;

	*result = NULL;
	*why = "shared memory does not reach it, and the option network is off";
	if (options->network == PF_NETWORK_OFF)
		return PF_OK;
	count = interfaces_find(found, INTERFACES_MOST, options->if_include, options->if_exclude,
				&context->address.location, why);
	if (!count)
		return PF_OK;
	engine = calloc(1, sizeof(*engine));
	if (!engine)
		return PF_ERR_MEMORY;
	engine->context = context;
	pthread_mutex_init(&engine->lock, NULL);
	pthread_mutex_init(&engine->attending, NULL);
	nodes_init(&engine->nodes, &context->device, &context->statistics);
	net_memory_open(&engine->memory, context, wake_driver);
	engine->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	engine->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	engine->grace_timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	engine->readable = epoll_create1(EPOLL_CLOEXEC);
	if (engine->wake < 0 || engine->timer < 0 || engine->grace_timer < 0 ||
	    engine->readable < 0) {
		status = PF_ERR_SYSTEM;
		error = errno;
	}
	why_none = open_sockets(engine, found, count);
	engine->links = (struct links){ .context = context,
					.lock = &engine->lock,
					.interfaces = engine->interfaces,
					.interfaces_count = engine->count };
	if (status == PF_OK && !engine->count) {
		*why = why_none;
		engine_destroy(engine);
		return PF_OK;
	}
	engine->receiver = receiver_create(memory_gather, &engine->memory);
	if (status == PF_OK && !engine->receiver)
		status = PF_ERR_MEMORY;
	if (status == PF_OK)
		status = create_batches(engine);
	if (status == PF_OK)
		status = create_core(engine);
	if (status != PF_OK) {
		engine_destroy(engine);
		errno = error;
		return status;
	}
	context->address.auth = (uint8_t)options->auth;
	engine_publish(engine, &context->address);
	*result = engine;
	return PF_OK;
}

/* ---- driving: with the lock, by one at a time ---- */

static void hear_complaints(struct engine *engine, struct socket *socket)
{
	struct socket_complaint complaint;

	while (socket_complaint(socket, &complaint)) {
		if (complaint.refused)
			net_refused(engine->core, &complaint.to, complaint.refusal);
		if (complaint.most)
			net_too_big(engine->core, &complaint.to, complaint.most);
	}
}

static bool is_unheard(const struct engine *engine, const struct socket *socket)
{
	return engine->looks - socket->heard >= LOOKS_UNHEARD;
}

/* Each look is a system call, and most jobs have more addresses than ways that packets come. */
static bool is_due(const struct engine *engine, const struct socket *socket)
{
	return socket->bound &&
	       (!engine->calling || !is_unheard(engine, socket) || engine->heard == socket ||
		engine->rare || engine->looks % LOOKS_ELSEWHERE == 0);
}

/* The service thread receives the next packets before the application takes a message. */
static enum net_lent engine_lent(const struct engine *engine)
{
	if (!engine->calling)
		return NET_NOT_LENT;
	return engine->context->receive_pieces ? NET_LENT_PIECES : NET_LENT;
}

/*
 * A peer that alone sends for long gets a connected socket: the kernel looks up no route
 * for its packets, in either direction, which is a ninth of the latency of a short message.
 * Each interface has one, because each is polled. Of the packets that a call receives
 * only the first one's sender counts.
 */
static void note_sender(struct engine *engine, struct socket *socket,
			const struct net_endpoint *from)
{
	struct socket *second = &engine->sockets[engine->count + socket->number];

	if (memcmp(&socket->from, from, sizeof(*from))) {
		socket->from = *from;
		socket->from_count = 0;
	}
	if (socket == second || ++socket->from_count < RECEIVES_ALONE ||
	    (second->connected && !is_unheard(engine, second)))
		return;
	socket->from_count = 0;
	/* Poll it each time from now on, and leave it to this peer. */
	if (socket_connect(second, socket, from))
		second->heard = engine->looks;
}

/*
 * So many packets came to an application that was away. wanted: the core's counter before. Peers that
 * send much may have used up their windows, and wait for acknowledgements.
 */
static void note_late(struct engine *engine, unsigned count, uint64_t wanted)
{
	engine->late += count;
	if (net_statistics(engine->core)->wanted != wanted || engine->late >= PACKETS_MANY)
		engine->grace.needed = true;
}

static unsigned engine_receive(struct engine *engine, struct socket *socket)
{
	struct net_place places[NET_BATCH_MOST];
	struct net_packet *packets = engine->receiver->packets;
	unsigned calls, total = 0, predicted, most = 1;
	uint64_t told = engine->links.told, wanted;
	uint32_t header = 0, waited;
	int count;

	for (calls = 0; calls < RECEIVES_MOST; calls++) {
		predicted = net_foresees(engine->core) ?
				    net_predict(engine->core, engine_now(), places, NET_BATCH_MOST,
						&header) :
				    0;
		count = socket_receive(socket, engine->receiver, most, places, predicted, header);
		if (count > 0) {
			note_sender(engine, socket, packets[0].from);
			waited = packets[0].waited;
			wanted = net_statistics(engine->core)->wanted;
			net_input(engine->core, engine_now(), packets, (unsigned)count,
				  engine_lent(engine));
			if (engine->calling)
				links_tell(&engine->links, engine->core);
			if (!engine->calling || (engine->away && waited >= GRACE_LEAST))
				note_late(engine, (unsigned)count, wanted);
			total += (unsigned)count;
			/* What it may have waited for is more urgent than what else there is. */
			if (engine->links.told != told)
				break;
			most = RECEIVE_MESSAGES;
			continue;
		}
		if (count == PF_ERR_FAULT) {
			net_misplaced(engine->core);
			continue;
		}
		break;
	}
	if (socket->complaining)
		hear_complaints(engine, socket);
	if (total) {
		socket->heard = engine->looks;
		engine->heard = socket;
	}
	return total;
}

static uint8_t interface_of(const struct net_batch *batch)
{
	struct endpoint endpoint;

	memcpy(&endpoint, &batch->to, sizeof(endpoint));
	return endpoint.socket;
}

static struct socket *socket_of(struct engine *engine, const struct net_batch *batch)
{
	uint8_t number = interface_of(batch);
	struct socket *second = &engine->sockets[engine->count + number];

	return second->connected && !memcmp(&second->peer, &batch->to, sizeof(batch->to)) ?
		       second :
		       &engine->sockets[number];
}

/* The core takes a batch back that is too long to be sent. False: it is lost. */
static bool engine_shorten(struct engine *engine, const struct net_batch *batch)
{
	struct interface *interface = &engine->interfaces[interface_of(batch)];
	size_t most;

	interface->mtu = interface_mtu(interface);
	/* A probe has its answer by being lost; so have packets that every path should carry. */
	if (batch->probe || batch->segment <= NET_PACKET_LEAST)
		return false;
	/* The way to that peer may be by another interface, of which we do not know. */
	most = socket_packet_most(interface);
	if (most > batch->segment - 8)
		most = batch->segment - 8;
	net_unsent(engine->core, batch, false);
	net_too_big(engine->core, &batch->to, most > NET_PACKET_LEAST ? most : NET_PACKET_LEAST);
	return true;
}

/* Send count batches, in runs of the same socket. Returns how many the core took back. */
static unsigned send_batches(struct engine *engine, unsigned count, bool *full)
{
	struct net_batch *run[SEND_BATCHES], *batch;
	enum socket_sent stopped;
	unsigned at = 0, returned = 0, length, sent;

	while (at < count) {
		struct socket *socket = socket_of(engine, &engine->batches[at]);

		for (length = 0; at + length < count; length++) {
			if (socket_of(engine, &engine->batches[at + length]) != socket)
				break;
			run[length] = &engine->batches[at + length];
		}
		if (*full) {
			net_unsent(engine->core, &engine->batches[at++], false);
			returned++;
			continue;
		}
		sent = socket_send(socket, run, length, &stopped);
		at += sent;
		if (sent == length)
			continue;
		batch = &engine->batches[at++];
		if (stopped == SOCKET_TOO_LONG) {
			returned += engine_shorten(engine, batch);
			continue;
		}
		*full = stopped == SOCKET_FULL;
		net_unsent(engine->core, batch, stopped == SOCKET_FAULT);
		returned++;
	}
	return returned;
}

static unsigned engine_transmit(struct engine *engine, uint64_t time)
{
	unsigned count, most, returned, barren = 0, total = 0;
	bool full = false;

	atomic_store_explicit(&engine->posted, false, memory_order_relaxed);
	/* The first goes at once: what else there is is looked for while it is on its way. */
	for (most = 1;; time = engine_now(), most = SEND_BATCHES) {
		for (count = 0; count < most; count++) {
			if (!net_output(engine->core, time, &engine->batches[count]))
				break;
		}
		returned = send_batches(engine, count, &full);
		total += count - returned;
		barren = returned < count ? 0 : barren + 1;
		if (full || barren == RETURNS_MOST || (count < most && !returned))
			break;
	}
	engine->held = returned != 0;
	return total;
}

static void statistic_add_growth(struct statistics *to, enum pf_stat stat, uint64_t now,
				 uint64_t before)
{
	if (now != before)
		statistic_add_concurrent(to, stat, now - before);
}

/* What the core counts goes into the context's statistics. */
static void engine_add_counts(struct engine *engine)
{
	const struct net_statistics *statistics = net_statistics(engine->core);
	struct statistics *to = &engine->context->statistics;
	struct net_statistics *before = &engine->counted;
	uint64_t dropped = 0;
	unsigned i;

	statistic_add_growth(to, PF_STAT_NET_SENT, statistics->packets_sent, before->packets_sent);
	statistic_add_growth(to, PF_STAT_NET_RECEIVED, statistics->packets_received,
			     before->packets_received);
	statistic_add_growth(to, PF_STAT_NET_BYTES, statistics->bytes_sent, before->bytes_sent);
	statistic_add_growth(to, PF_STAT_NET_LOST, statistics->lost, before->lost);
	statistic_add_growth(to, PF_STAT_NET_NACKS, statistics->nacks_sent, before->nacks_sent);
	for (i = 0; i < NET_DROPS && statistics->dropped != before->dropped; i++)
		statistic_add_growth(to, PF_STAT_NET_MALFORMED + i, statistics->drops[i],
				     before->drops[i]);
	*before = *statistics;
	for (i = 0; i < engine_sockets(engine); i++)
		dropped += engine->sockets[i].dropped;
	statistic_add_growth(to, PF_STAT_NET_DROPPED, dropped, engine->dropped);
	engine->dropped = dropped;
}

void engine_count(struct engine *engine)
{
	/* The thread that has the lock counts by itself, unless it is in a callback. */
	if (!engine || !engine_trylock(engine))
		return;
	engine_add_counts(engine);
	engine_unlock(engine);
}

/* What became due, and what may be sent. */
static unsigned engine_advance(struct engine *engine)
{
	uint64_t time = engine_now();
	unsigned sent;

	atomic_store_explicit(&engine->behind, false, memory_order_relaxed);
	if (net_deadline(engine->core) <= time)
		net_advance(engine->core, time);
	sent = engine_transmit(engine, time);
	engine_add_counts(engine);
	return sent;
}

/*
 * The application was told something, and its answer will acknowledge what came.
 * Nothing else is to be sent, or a poll is predicted to follow soon. True: the next poll
 * sends what is kept back if the application has no answer; without a poll, the service
 * thread's first round does. False: what peers wait for goes now, as no poll may follow.
 */
static bool put_off(struct engine *engine, uint64_t told)
{
	bool attended = atomic_load_explicit(&engine->attended, memory_order_relaxed);

	if (engine->links.told == told)
		return false;
	if (attended || net_owes(engine->core)) {
		if (attended || !coalesce_trusts(&engine->coalesce)) {
			net_acknowledge(engine->core);
			return false;
		}
		coalesce_keep(&engine->coalesce);
	}
	atomic_store_explicit(&engine->behind, true, memory_order_relaxed);
	return true;
}

static unsigned engine_drive(struct engine *engine, unsigned rounds)
{
	unsigned total = 0, received, resolved, i;
	uint64_t told = engine->links.told;

	engine->receiver->late = !engine->calling || engine->rare;
	engine->late = 0;
	if (atomic_load_explicit(&engine->behind, memory_order_relaxed))
		total += engine_advance(engine);
	do {
		received = 0;
		resolved = memory_tell(&engine->memory, engine->core);
		for (i = 0; i < engine_sockets(engine); i++) {
			if (is_due(engine, &engine->sockets[i]))
				received += engine_receive(engine, &engine->sockets[i]);
		}
		total += received + resolved;
		if (put_off(engine, told))
			break;
		/* A poll that finds nothing is short, and the next one comes soon. */
		if (received || resolved || !engine->calling ||
		    atomic_load_explicit(&engine->posted, memory_order_relaxed) || engine->rare ||
		    engine->looks % LOOKS_ADVANCE == 0)
			total += engine_advance(engine);
	} while (received && --rounds && engine->links.told == told);
	return total;
}

static bool start_driving(struct engine *engine)
{
	return !atomic_exchange_explicit(&engine->driving, true, memory_order_seq_cst);
}

/* When a thread must drive again at the latest. */
static uint64_t engine_deadline(const struct engine *engine)
{
	uint64_t due = net_exact_deadline(engine->core), retry;

	if (!engine->held)
		return due;
	retry = engine_now() + ENGINE_RETRY;
	return retry < due ? retry : due;
}

static int thread_id(void)
{
	static _Thread_local int id;

	if (!id)
		id = gettid();
	return id;
}

/* Make the service thread look at that time, ns, or earlier. It is not woken before. */
static void look_at(struct engine *engine, uint64_t time)
{
	/*
	 * Looks that are a little too early cost less than a system call for each deadline that moves. One
	 * that is past, and the same, is known to the thread, which tries again by itself.
	 */
	if (engine->timer_end == time ||
	    (engine->timer_end < time && engine->timer_end > engine_now() &&
	     time - engine->timer_end < EARLY_MOST))
		return;
	engine->timer_end = time;
	set_timer(engine->timer, time);
}

/* For the service thread, which alone looks at the clock while it attends. */
static void look_when_due(struct engine *engine)
{
	uint64_t due = engine_deadline(engine);

	if (due == NET_NEVER)
		return;
	/* Where processes share processors, what is due soon may go with something else. */
	if (context_is_sleepy(engine->context))
		due += MILLISECOND - due % MILLISECOND;
	look_at(engine, due);
}

static uint64_t engine_processor_time(void)
{
	return (uint64_t)clock_nanoseconds(CLOCK_THREAD_CPUTIME_ID);
}

/* Does anything wait for packets, or for the next poll? Then the thread is to see whether one comes. */
static void give_grace(struct engine *engine)
{
	bool waits = engine->held || net_blocked(engine->core) || engine->coalesce.waits ||
		     atomic_load_explicit(&engine->posted, memory_order_relaxed);
	uint64_t time;

	if (!grace_needed(&engine->grace, waits))
		return;
	time = engine_now();
	pthread_mutex_lock(&engine->attending);
	grace_note(&engine->grace, time, thread_id(), engine_processor_time());
	set_timer(engine->grace_timer, grace_start(&engine->grace, time));
	pthread_mutex_unlock(&engine->attending);
}

/*
 * Progress takes the network back from the service thread, until the end of a grace period: for each time that
 * the thread attended, and if it does not and was needed.
 */
static void take_back(struct engine *engine)
{
	uint64_t time = engine_now();

	pthread_mutex_lock(&engine->attending);
	if (atomic_load_explicit(&engine->attended, memory_order_relaxed)) {
		atomic_store_explicit(&engine->attended, false, memory_order_seq_cst);
		(void)watch_sockets(engine, false);
	}
	grace_note(&engine->grace, time, thread_id(), engine_processor_time());
	set_timer(engine->grace_timer, grace_return(&engine->grace, time));
	pthread_mutex_unlock(&engine->attending);
}

/*
 * With the lock, which it gives back. What was posted when the driver had looked
 * already goes now. The service thread sets "awaited" before it finds that
 * another one drives: then that one finds it set here.
 */
static void stop_driving(struct engine *engine)
{
	const uint64_t one = 1;

	for (;;) {
		if (atomic_load_explicit(&engine->attended, memory_order_relaxed))
			look_when_due(engine);
		else
			give_grace(engine);
		engine_unlock(engine);
		atomic_store_explicit(&engine->driving, false, memory_order_seq_cst);
		if (!atomic_load_explicit(&engine->posted, memory_order_seq_cst) ||
		    !start_driving(engine))
			break;
		engine_lock(engine);
		engine_transmit(engine, engine_now());
	}
	/* The write can only fail when the counter is full, and the thread awake. */
	if (atomic_load_explicit(&engine->awaited, memory_order_seq_cst) &&
	    atomic_exchange_explicit(&engine->awaited, false, memory_order_seq_cst) &&
	    write(engine->wake, &one, sizeof(one)) < 0)
		return;
}

/* ---- who drives ---- */

/* Is it too early for the next look? */
static bool looked_just_now(const struct engine *engine, uint64_t time)
{
	uint64_t used = atomic_load_explicit(&engine->used, memory_order_relaxed),
		 between = time > used ? (time - used) / LOOK_SHARE : 0;

	return time - grace_read(&engine->looked) <
	       (between < LOOK_BETWEEN_MOST ? between : LOOK_BETWEEN_MOST);
}

/* Does this poll take the network back? One that slept just now will soon sleep again. */
static bool is_returning(struct engine *engine, uint64_t time)
{
	return atomic_load_explicit(&engine->attended, memory_order_relaxed) &&
	       !atomic_load_explicit(&engine->sleeps, memory_order_relaxed) &&
	       time - grace_read(&engine->woke) >= GRACE_LEAST;
}

int engine_poll_links(struct engine *engine)
{
	struct activity *activity = &engine->context->activity;
	uint64_t time = engine_now(), between;
	int total;

	if (looked_just_now(engine, time) && !engine_waits(engine))
		return 0;
	if (!start_driving(engine)) {
		/* The service thread, which may have lost its processor in the middle of it. */
		if (atomic_load_explicit(&engine->attended, memory_order_relaxed))
			sched_yield();
		return 0;
	}
	engine_lock(engine);
	if (is_returning(engine, time))
		take_back(engine);
	grace_seen(&engine->grace, time, engine_seen(engine), context_is_sleepy(engine->context));
	engine->looks++;
	between = grace_passed(time, grace_read(&engine->looked));
	engine->rare = between >= LOOK_BETWEEN_MOST;
	/* Sooner the thread would not have taken over. On a shared processor it may have waited for that. */
	engine->away = between >= GRACE_FIRST && !context_is_sleepy(engine->context) &&
		       grace_passed(time, engine->polled) >= GRACE_FIRST;
	atomic_store_explicit(&engine->looked, time, memory_order_relaxed);
	engine->calling = engine->memory.progress = true;
	atomic_store_explicit(&engine->caller, thread_id(), memory_order_relaxed);
	if (coalesce_pending(&engine->coalesce))
		coalesce_poll(&engine->coalesce, time);
	/* What came up while other threads drove. */
	total = 0;
	if (atomic_load_explicit(&engine->untold, memory_order_relaxed)) {
		atomic_store_explicit(&engine->untold, false, memory_order_relaxed);
		total = (int)links_tell(&engine->links, engine->core);
	}
	total += (int)engine_drive(engine, ROUNDS_POLL);
	total += (int)links_tell(&engine->links, engine->core);
	/* What took long here, the application was not away for. */
	if (total || engine->rare || coalesce_pending(&engine->coalesce))
		time = engine_now();
	if (engine->rare)
		atomic_store_explicit(&engine->looked, time, memory_order_relaxed);
	if (total) {
		engine->polled = time;
		atomic_store_explicit(&engine->used, time, memory_order_relaxed);
		activity_moved(activity);
	}
	if (coalesce_pending(&engine->coalesce))
		coalesce_return(&engine->coalesce, time);
	engine->calling = engine->memory.progress = false;
	atomic_store_explicit(&engine->caller, 0, memory_order_relaxed);
	if (engine->grace.needed && !atomic_load_explicit(&engine->attended, memory_order_relaxed))
		take_back(engine);
	stop_driving(engine);
	return total;
}

/* With the lock: is there something that only progress may do? */
static void note_untold(struct engine *engine)
{
	if (net_has_events(engine->core) || engine->memory.deferred ||
	    engine->links.met != engine->links.list)
		atomic_store_explicit(&engine->untold, true, memory_order_relaxed);
}

/* Another thread has something for progress, which may sleep: wake it. */
static void tell_progress(struct engine *engine)
{
	if (atomic_load_explicit(&engine->untold, memory_order_relaxed))
		engine->context->wake(engine->context);
}

/*
 * This thread never waits for the lock, whose owner may be waiting for a page
 * that this thread is to bring: a pager's, of a message that it sends.
 */
bool engine_serve(struct engine *engine, bool tell, uint64_t *again)
{
	bool blocked;
	unsigned i;

	if (!start_driving(engine)) {
		if (!tell)
			return false;
		atomic_store_explicit(&engine->awaited, true, memory_order_seq_cst);
		if (!start_driving(engine))
			return false;
	}
	atomic_store_explicit(&engine->awaited, false, memory_order_relaxed);
	if (!engine_trylock(engine)) {
		atomic_store_explicit(&engine->driving, false, memory_order_seq_cst);
		*again = atomic_load_explicit(&engine->posted, memory_order_seq_cst) ? ENGINE_SOON :
										       ENGINE_RETRY;
		return true;
	}
	blocked = net_blocked(engine->core);
	/* A socket that woke us, and has no packet, has an error to tell. */
	if (!engine_drive(engine, ROUNDS_SERVE)) {
		for (i = 0; i < engine_sockets(engine); i++) {
			if (engine->sockets[i].bound)
				hear_complaints(engine, &engine->sockets[i]);
		}
	}
	if (blocked && !net_blocked(engine->core))
		engine->grace.needed = true;
	/* Else the application took the network back meanwhile, and the timer is its. */
	if (atomic_load_explicit(&engine->attended, memory_order_relaxed))
		look_when_due(engine);
	note_untold(engine);
	engine_unlock(engine);
	atomic_store_explicit(&engine->driving, false, memory_order_seq_cst);
	tell_progress(engine);
	/* What was posted meanwhile was left to us. */
	*again = atomic_load_explicit(&engine->posted, memory_order_seq_cst) ? 0 : NET_NEVER;
	return true;
}

static enum coalesce_origin engine_origin(const struct engine *engine, bool message)
{
	if (atomic_load_explicit(&engine->attended, memory_order_seq_cst))
		return COALESCE_UNPOLLED;
	if (message && atomic_load_explicit(&engine->caller, memory_order_relaxed) == thread_id())
		return COALESCE_CALLED;
	return COALESCE_POLLED;
}

void engine_post(struct engine *engine, bool message, size_t length)
{
	enum coalesce_origin from = engine_origin(engine, message);
	enum coalesce_when when;
	uint64_t time = engine_now();

	/* On a shared processor one that is late may have lost it. */
	if (!context_is_sleepy(engine->context))
		coalesce_judge(&engine->coalesce, time);
	when = coalesce_post(&engine->coalesce, time, from, length);

	grace_seen(&engine->grace, time, engine_seen(engine), context_is_sleepy(engine->context));
	atomic_store_explicit(&engine->used, time, memory_order_relaxed);
	/* Inside a poll's callback this thread drives. */
	if (from == COALESCE_CALLED) {
		if (when == COALESCE_NOW)
			engine_transmit(engine, time);
		net_keep(engine->core);
		if (when == COALESCE_NEXT_POLL)
			atomic_store_explicit(&engine->behind, true, memory_order_relaxed);
		else if (when == COALESCE_AFTER_CALLBACK)
			atomic_store_explicit(&engine->posted, true, memory_order_relaxed);
		engine_unlock(engine);
		return;
	}
	if (when != COALESCE_NOW || !start_driving(engine)) {
		net_keep(engine->core);
		atomic_store_explicit(&engine->posted, true, memory_order_seq_cst);
		/* The thread that drives now looks again when it stops, unless it has done so. */
		if (when != COALESCE_NOW || !start_driving(engine)) {
			if (when != COALESCE_NOW)
				give_grace(engine);
			engine_unlock(engine);
			return;
		}
	}
	engine_transmit(engine, time);
	coalesce_return(&engine->coalesce, engine_now());
	net_keep(engine->core);
	note_untold(engine);
	stop_driving(engine);
	tell_progress(engine);
}

static void wait_for_packets(const struct engine *engine, uint64_t until, uint64_t most)
{
	struct pollfd sockets[SOCKETS_MOST];
	struct timespec time = { 0 };
	uint64_t left, start = engine_now();
	unsigned i;

	left = until > start ? until - start : 0;
	time.tv_nsec = (long)(left < most ? left : most);
	for (i = 0; i < engine_sockets(engine); i++)
		sockets[i] = (struct pollfd){ .fd = engine->sockets[i].fd, .events = POLLIN };
	(void)ppoll(sockets, engine_sockets(engine), &time, NULL);
}

bool engine_wait(struct engine *engine, struct engine_waiter *waiter)
{
	uint64_t due;
	unsigned moved;
	int caller;

	if (!start_driving(engine)) {
		caller = atomic_load_explicit(&engine->caller, memory_order_relaxed);
		if (caller == thread_id())
			return false;
		if (!waiter->stalled || !caller)
			waiter->stalled = engine_now();
		sched_yield();
		return engine_now() - waiter->stalled < STALLED;
	}
	waiter->stalled = 0;
	engine_lock(engine);
	moved = engine_drive(engine, 1);
	due = engine_deadline(engine);
	note_untold(engine);
	stop_driving(engine);
	tell_progress(engine);
	if (moved)
		return true;
	waiter->pause = waiter->pause ? 2 * waiter->pause : WAIT_FIRST;
	if (waiter->pause > WAIT_MOST)
		waiter->pause = WAIT_MOST;
	wait_for_packets(engine, due, waiter->pause);
	return true;
}

void engine_linger(struct engine *engine)
{
	uint64_t end = engine_now() + LINGER, least = UINT64_MAX, messages, due;
	bool busy = true;

	while (busy && engine_now() < end) {
		if (!start_driving(engine)) {
			sched_yield();
			continue;
		}
		engine_lock(engine);
		engine_drive(engine, 1);
		net_linger(engine->core);
		engine_transmit(engine, engine_now());
		busy = net_busy(engine->core);
		due = engine_deadline(engine);
		messages = net_unacknowledged(engine->core);
		if (messages < least) {
			least = messages;
			end = engine_now() + (messages ? LINGER_MESSAGES : LINGER);
		}
		stop_driving(engine);
		/* The service thread may receive them. */
		if (busy)
			wait_for_packets(engine, due, WAIT_FIRST);
	}
}

static void say_goodbye(struct engine *engine)
{
	const struct timespec pause = { .tv_nsec = ENGINE_RETRY };
	uint64_t end = engine_now() + GOODBYES;

	net_close_all(engine->core);
	engine_transmit(engine, engine_now());
	while (engine->held && engine_now() < end) {
		nanosleep(&pause, NULL);
		engine_transmit(engine, engine_now());
	}
}

void engine_close(struct engine *engine)
{
	struct operations *operations;
	struct operation *operation;

	if (!engine)
		return;
	engine_lock(engine);
	engine_add_counts(engine);
	say_goodbye(engine);
	engine_unlock(engine);
	operations = &engine->context->operations;
	engine_destroy(engine);
	/* What the core did not complete; struct operation comes first in it. */
	while ((operation = operations_drop(&operations->away)))
		free(operation);
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "network.h"

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

#include "base/check.h"
#include "base/clock.h"
#include "common/context.h"

/* Receive calls for a socket before the next socket, and sending, get a turn. */
#define RECEIVES_MOST 8
/* Rounds of receiving and sending in a drive. Messages of the host transport may wait meanwhile. */
#define ROUNDS_POLL 2
#define ROUNDS_SERVE 64
/*
 * A poll looks at the sockets, with a system call, only if enough time has passed since the last
 * look: a LOOK_SHARE of the time without a packet or a post, and at most LOOK_BETWEEN_MOST ns. A
 * look that came LOOK_BETWEEN_MOST or more after the look before counts from the end, because a
 * look may take as long. A packet is late by no more than this time, and a program with tests for
 * messages between computations makes few system calls.
 */
#define LOOK_SHARE 64
#define LOOK_BETWEEN_MOST 2000
/* Without a packet, 1 look in LOOKS_ADVANCE sends due packets, or every look if looks are rare. */
#define LOOKS_ADVANCE 8
/* A socket without a packet for LOOKS_UNHEARD looks is read in 1 look of LOOKS_ELSEWHERE. */
#define LOOKS_UNHEARD 4096
#define LOOKS_ELSEWHERE 16
/*
 * Receive calls in a row with packets of a single peer, after which a socket is connected to the
 * peer.
 */
#define RECEIVES_ALONE 256
/*
 * Times in a row for the core to take back all packets of a round, before sending stops for a
 * moment.
 */
#define RETURNS_MOST 64
#define SECOND 1000000000ull
#define MILLISECOND 1000000ull
/*
 * Time after a look for which posts count as looks, ns. A thread that only posts does not receive.
 */
#define POSTING (SECOND / 250)
/* Packets: more than the longest message has, and more than the first window of a path. */
#define PACKETS_MANY 64
/* Least delay of a deadline for which the timer of the service thread is moved, ns. */
#define EARLY_MOST MILLISECOND
/*
 * Waits for packets, ns. The first wait is WAIT_FIRST, and each further wait is twice as long, up
 * to WAIT_MOST: the service thread may receive the packets, and many threads may wait for few
 * processors.
 */
#define WAIT_FIRST (SECOND / 4000)
#define WAIT_MOST (SECOND / 125)
/* Longest callback of another thread to wait for, ns. */
#define STALLED (SECOND / 50)
/*
 * Time for which a closing context waits for acknowledgements, ns. While messages are not
 * acknowledged, each new acknowledgement of messages gives LINGER_MESSAGES more: a receiver may
 * compute, and makes room when polling.
 */
#define LINGER (SECOND / 2)
#define LINGER_MESSAGES (2 * SECOND)
/* Time for which a closing context waits for room in the sockets, to send each GOODBYE, ns. */
#define GOODBYES (SECOND / 20)

static uint64_t network_now(void)
{
	return (uint64_t)clock_nanoseconds(CLOCK_MONOTONIC);
}

/* ---- opening and closing ---- */

static bool network_accept(void *user, struct net_association *association,
			   const uint8_t id[NET_ID_BYTES], const void *info, size_t length,
			   void **peer)
{
	struct network *network = user;

	assert_locked(&network->lock, true);
	assert_driving(network);
	return net_process_accept(&network->processes, association, id, info, length, peer);
}

static size_t network_packet_most(void *user, const struct net_endpoint *to)
{
	struct network *network = user;
	struct endpoint endpoint;

	assert_locked(&network->lock, true);
	memcpy(&endpoint, to, sizeof(endpoint));
	return endpoint.socket < network->count ?
		       socket_packet_most(&network->interfaces[endpoint.socket]) :
		       NET_PACKET_LEAST;
}

static void network_random(void *user, void *bytes, size_t length)
{
	(void)user;
	randombytes_buf(bytes, length);
}

static void network_publish(struct network *network, struct address *address)
{
	unsigned i;

	for (i = 0; i < network->count; i++) {
		const struct interface *interface = &network->interfaces[i];
		struct address_endpoint *endpoint = &address->endpoints[i];
		bool version6 = interface->address.any.sa_family == AF_INET6;

		endpoint->family = version6 ? 6 : 4;
		endpoint->prefix = (uint8_t)interface->prefix;
		endpoint->port = network->sockets[i].port;
		if (version6)
			memcpy(endpoint->address, &interface->address.in6.sin6_addr, 16);
		else
			memcpy(endpoint->address, &interface->address.in.sin_addr, 4);
	}
	address->endpoints_count = (uint8_t)network->count;
}

/* Open the sockets. Return the reason for having no socket, valid only if network->count is 0. */
static const char *network_open_sockets(struct network *network, const struct interface *found,
					unsigned count)
{
	const pf_options *options = &network->context->options;
	struct socket_ports ports = { .least = (unsigned)options->port_min,
				      .most = (unsigned)options->port_max };
	bool taken = false;
	unsigned i;
	int status;

	assert_progress(network->context);
	/*
	 * A random first port: the last packets to an ended process should not reach the next
	 * process.
	 */
	if (ports.least)
		ports.first = ports.least + randombytes_uniform(ports.most - ports.least + 1);
	/* An address that cannot be bound is about to go away: skip the interface. */
	for (i = 0; i < count; i++) {
		status = socket_open(&network->sockets[network->count], (uint8_t)network->count,
				     &found[i], ports, (uint32_t)options->socket_buffer);
		taken |= status == PF_ERR_AGAIN;
		if (status == PF_OK)
			network->interfaces[network->count++] = found[i];
	}
	for (i = 0; i < network->count; i++)
		socket_open_second(&network->sockets[network->count + i], &network->sockets[i],
				   (uint32_t)options->socket_buffer);
	if (!taken)
		return "shared memory does not reach it, and no UDP socket could be opened here";
	snprintf(network->no_ports, sizeof(network->no_ports),
		 "all UDP ports from %u to %u (port_min, port_max) are taken here; each process "
		 "of a host needs one",
		 ports.least, ports.most);
	return network->no_ports;
}

/* Return the least credit of all sockets, bytes. wire_charge counts half of the kernel's charge. */
static uint32_t network_credit(const struct network *network)
{
	uint32_t least = UINT32_MAX;
	unsigned i;

	for (i = 0; i < network->count; i++) {
		if (network->sockets[i].receive_buffer / 2 < least)
			least = network->sockets[i].receive_buffer / 2;
	}
	return least;
}

static int network_create_core(struct network *network)
{
	const pf_options *options = &network->context->options;
	struct net_memory_operations memory = net_memory_functions(&network->memory);
	struct net_callbacks callbacks = {
		.accept = network_accept,
		.packet_most = network_packet_most,
		.random = network_random,
		.user = network,
	};
	struct net_options net;

	assert_progress(network->context);
	net_options_init(&net);
	memcpy(net.id, network->context->address.id, sizeof(net.id));
	memcpy(net.key, network->context->address.key, sizeof(net.key));
	net.auth = (enum net_auth)options->auth;
	net.fault_mode = (enum net_fault_mode)options->net_fault;
	if (options->block_size >= 4096 && options->block_size <= 65536)
		net.block_size = (uint32_t)options->block_size;
	net.backup_ring = (uint32_t)(options->backup_ring < UINT32_MAX ? options->backup_ring :
									 UINT32_MAX);
	net.receive_buffer = network_credit(network);
	net.peer_timeout = options->peer_timeout * SECOND;
	net.contact_timeout = options->contact_timeout * SECOND;
	network->core = net_create(&net, &memory, &callbacks);
	sodium_memzero(&net, sizeof(net));
	return network->core ? PF_OK : PF_ERR_MEMORY;
}

static int network_create_batches(struct network *network)
{
	const size_t room = NET_BATCH_BYTES + 2048;
	unsigned i;

	network->batches = calloc(SEND_BATCHES, sizeof(*network->batches));
	if (!network->batches)
		return PF_ERR_MEMORY;
	if (network->context->options.auth == PF_AUTH_HEADER)
		return PF_OK;
	network->rooms = malloc(SEND_BATCHES * room);
	if (!network->rooms)
		return PF_ERR_MEMORY;
	for (i = 0; i < SEND_BATCHES; i++)
		network->batches[i].room = network->rooms + i * room;
	return PF_OK;
}

static void network_destroy(struct network *network)
{
	unsigned i;

	assert_progress(network->context);
	if (network->core)
		net_destroy(network->core);
	net_processes_destroy(&network->processes);
	offloads_destroy(&network->offloads);
	for (i = 0; i < network_sockets(network); i++)
		socket_close(&network->sockets[i]);
	receiver_destroy(network->receiver);
	free(network->batches);
	free(network->rooms);
	if (network->wake >= 0)
		close(network->wake);
	if (network->timer >= 0)
		close(network->timer);
	if (network->grace_timer >= 0)
		close(network->grace_timer);
	if (network->readable >= 0)
		close(network->readable);
	net_memory_close(&network->memory);
	pthread_mutex_destroy(&network->attending);
	pthread_mutex_destroy(&network->lock);
}

/*
 * Wake the driver after a page was resolved. Progress finds the result without help, but the
 * service thread may sleep.
 */
static void network_wake_driver(struct net_memory *memory)
{
	struct network *network =
		(struct network *)(void *)((char *)memory - offsetof(struct network, memory));
	const uint64_t one = 1;

	/* The write fails only when the counter is full, and then the service thread is awake. */
	if (atomic_load_explicit(&network->attended, memory_order_seq_cst) &&
	    write(network->wake, &one, sizeof(one)) < 0)
		return;
}

/*
 * Progress stores "sleeps" and then loads "attended". The service thread stores "attended" and then
 * loads "sleeps" (network_watch_look). Either progress sees the need to wake the service thread, or
 * the service thread sees that leaving is not permitted.
 */
void network_sleeps(struct network *network, bool sleeps)
{
	const uint64_t one = 1;

	atomic_store_explicit(&network->sleeps, sleeps, memory_order_seq_cst);
	if (!sleeps)
		atomic_store_explicit(&network->woke, network_now(), memory_order_relaxed);
	/* The write fails only when the counter is full, and then the service thread is awake. */
	if (sleeps && !atomic_load_explicit(&network->attended, memory_order_seq_cst) &&
	    write(network->wake, &one, sizeof(one)) < 0)
		return;
}

static void timer_set(int timer, uint64_t time)
{
	const struct itimerspec end = { .it_value = { .tv_sec = (time_t)(time / SECOND),
						      .tv_nsec = (long)(time % SECOND) } };

	/* The call fails only for an invalid descriptor or an invalid time. */
	(void)timerfd_settime(timer, TFD_TIMER_ABSTIME, &end, NULL);
}

/*
 * Add the sockets to "readable", or remove the sockets. Return false without memory for epoll. An
 * unwatched socket is removed, because a packet to a socket in an epoll set takes 0.4 us longer.
 */
static bool network_listen(struct network *network, bool watched)
{
	struct epoll_event event = { .events = EPOLLIN };
	bool done = true;
	unsigned i;

	assert_locked(&network->attending, true);
	for (i = 0; i < network_sockets(network); i++) {
		if (network->sockets[i].fd >= 0 &&
		    epoll_ctl(network->readable, watched ? EPOLL_CTL_ADD : EPOLL_CTL_DEL,
			      network->sockets[i].fd, &event))
			done = false;
	}
	return done;
}

bool network_attend(struct network *network)
{
	uint64_t time = network_now();
	bool attended;

	assert_service(&network->context->service);
	pthread_mutex_lock(&network->attending);
	attended = atomic_load_explicit(&network->attended, memory_order_relaxed);
	if (!attended && !network_listen(network, true)) {
		(void)network_listen(network, false);
		timer_set(network->grace_timer,
			  grace_begin(&network->grace, time, NETWORK_RETRY, true));
	} else {
		atomic_store_explicit(&network->attended, true, memory_order_seq_cst);
		grace_away(&network->grace);
	}
	pthread_mutex_unlock(&network->attending);
	return !attended;
}

uint64_t network_seen(const struct network *network)
{
	uint64_t looked = grace_read(&network->looked), used = grace_read(&network->used);

	return used > looked && used - looked <= POSTING ? used : looked;
}

void network_renew_grace(struct network *network, uint64_t time, const uint64_t *used)
{
	struct grace *grace = &network->grace;
	uint64_t left;

	assert_service(&network->context->service);
	pthread_mutex_lock(&network->attending);
	/* The application may have begun another period meanwhile. */
	if (grace_runs(grace, time, &left) && !left) {
		if (used)
			grace_note(grace, time,
				   atomic_load_explicit(&grace->thread, memory_order_relaxed),
				   *used);
		timer_set(network->grace_timer, grace_renew(grace, time));
	}
	pthread_mutex_unlock(&network->attending);
}

int network_open(struct network *network, pf_context *context, const char **why)
{
	struct interface found[INTERFACES_MOST];
	const pf_options *options = &context->options;
	const char *why_none;
	unsigned count;
	int status = PF_OK, error = 0;

	*why = "shared memory does not reach it, and the option network is off";
	if (options->network == PF_NETWORK_OFF)
		return PF_ERR_UNREACHABLE;
	count = interfaces_find(found, INTERFACES_MOST, options->if_include, options->if_exclude,
				&context->address.location, why);
	if (!count)
		return PF_ERR_UNREACHABLE;
	network->context = context;
	pthread_mutex_init(&network->lock, NULL);
	pthread_mutex_init(&network->attending, NULL);
	offloads_init(&network->offloads, &context->device, &context->statistics);
	net_memory_open(&network->memory, context, network_wake_driver);
	network->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	network->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	network->grace_timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	network->readable = epoll_create1(EPOLL_CLOEXEC);
	if (network->wake < 0 || network->timer < 0 || network->grace_timer < 0 ||
	    network->readable < 0) {
		status = PF_ERR_SYSTEM;
		error = errno;
	}
	why_none = network_open_sockets(network, found, count);
	network->processes = (struct net_processes){ .context = context,
						     .lock = &network->lock,
						     .interfaces = network->interfaces,
						     .interfaces_count = network->count };
	if (status == PF_OK && !network->count) {
		*why = why_none;
		network_destroy(network);
		return PF_ERR_UNREACHABLE;
	}
	network->receiver = receiver_create(net_memory_gather, &network->memory);
	if (status == PF_OK && !network->receiver)
		status = PF_ERR_MEMORY;
	if (status == PF_OK)
		status = network_create_batches(network);
	if (status == PF_OK)
		status = network_create_core(network);
	if (status != PF_OK) {
		network_destroy(network);
		errno = error;
		return status;
	}
	context->address.auth = (uint8_t)options->auth;
	network_publish(network, &context->address);
	return PF_OK;
}

/* ---- driving, by a single thread, under the lock ---- */

static void network_take_complaints(struct network *network, struct socket *socket)
{
	struct socket_complaint complaint;

	assert_locked(&network->lock, true);
	assert_driving(network);
	while (socket_complaint(socket, &complaint)) {
		if (complaint.refused)
			net_refused(network->core, &complaint.to, complaint.refusal);
		if (complaint.most)
			net_too_big(network->core, &complaint.to, complaint.most);
	}
}

static bool socket_is_unheard(const struct network *network, const struct socket *socket)
{
	return network->looks - socket->heard >= LOOKS_UNHEARD;
}

/*
 * Is the socket to be read in the present look? Each read is a system call, and most jobs have more
 * addresses than ways for packets.
 */
static bool socket_is_due(const struct network *network, const struct socket *socket)
{
	return socket->bound &&
	       (!network->calling || !socket_is_unheard(network, socket) ||
		network->heard == socket || network->rare || network->looks % LOOKS_ELSEWHERE == 0);
}

/*
 * Return whether the core may lend packets to the application. When the service thread drives, the
 * next packets overwrite the buffers before the application takes a message.
 */
static enum net_lent network_lent(const struct network *network)
{
	if (!network->calling)
		return NET_NOT_LENT;
	return network->context->receive_pieces ? NET_LENT_PIECES : NET_LENT;
}

/*
 * Count packets of a single peer, and connect a socket to a peer that alone sends for long. For a
 * connected socket the kernel looks up no route, in either direction, and a short message takes a
 * ninth less. Each interface has at most 1 connected socket, because each socket is polled. Only
 * the first packet of a receive call is looked at.
 */
static void network_note_sender(struct network *network, struct socket *socket,
				const struct net_endpoint *from)
{
	struct socket *second = &network->sockets[network->count + socket->number];

	assert_locked(&network->lock, true);
	assert_driving(network);
	if (memcmp(&socket->from, from, sizeof(*from))) {
		socket->from = *from;
		socket->from_count = 0;
	}
	if (socket == second || ++socket->from_count < RECEIVES_ALONE ||
	    (second->connected && !socket_is_unheard(network, second)))
		return;
	socket->from_count = 0;
	/* Poll the socket at each look from now on, and leave the socket to the peer. */
	if (socket_connect(second, socket, from))
		second->heard = network->looks;
}

/*
 * Note that count packets came to an absent application. wanted: the core's counter before the
 * packets. Peers with much to send may have used up their windows, and wait for acknowledgements.
 */
static void network_note_late(struct network *network, unsigned count, uint64_t wanted)
{
	assert_locked(&network->lock, true);
	assert_driving(network);
	network->late += count;
	if (net_statistics(network->core)->wanted != wanted || network->late >= PACKETS_MANY)
		network->grace.needed = true;
}

static unsigned network_receive(struct network *network, struct socket *socket)
{
	struct net_place places[NET_BATCH_MOST];
	struct net_packet *packets = network->receiver->packets;
	unsigned calls, total = 0, predicted, most = 1;
	uint64_t told = network->processes.told, wanted;
	uint32_t header = 0, waited;
	int count;

	assert_locked(&network->lock, true);
	assert_driving(network);
	for (calls = 0; calls < RECEIVES_MOST; calls++) {
		predicted = net_foresees(network->core) ?
				    net_predict(network->core, network_now(), places,
						NET_BATCH_MOST, &header) :
				    0;
		count = socket_receive(socket, network->receiver, most, places, predicted, header);
		if (count > 0) {
			network_note_sender(network, socket, packets[0].from);
			waited = packets[0].waited;
			wanted = net_statistics(network->core)->wanted;
			net_input(network->core, network_now(), packets, (unsigned)count,
				  network_lent(network));
			if (network->calling)
				net_processes_tell(&network->processes, network->core);
			if (!network->calling || (network->away && waited >= GRACE_LEAST))
				network_note_late(network, (unsigned)count, wanted);
			total += (unsigned)count;
			/*
			 * The answer of the application to an event is more urgent than further
			 * packets.
			 */
			if (network->processes.told != told)
				break;
			most = RECEIVE_MESSAGES;
			continue;
		}
		if (count == PF_ERR_FAULT) {
			net_misplaced(network->core);
			continue;
		}
		break;
	}
	if (socket->complaining)
		network_take_complaints(network, socket);
	if (total) {
		socket->heard = network->looks;
		network->heard = socket;
	}
	return total;
}

static uint8_t batch_interface(const struct net_batch *batch)
{
	struct endpoint endpoint;

	memcpy(&endpoint, &batch->to, sizeof(endpoint));
	return endpoint.socket;
}

static struct socket *batch_socket(struct network *network, const struct net_batch *batch)
{
	uint8_t number = batch_interface(batch);
	struct socket *second = &network->sockets[network->count + number];

	return second->connected && !memcmp(&second->peer, &batch->to, sizeof(batch->to)) ?
		       second :
		       &network->sockets[number];
}

/*
 * Give a batch longer than the interface permits back to the core. Return false if the batch is
 * lost instead.
 */
static bool network_shorten(struct network *network, const struct net_batch *batch)
{
	struct interface *interface = &network->interfaces[batch_interface(batch)];
	size_t most;

	assert_locked(&network->lock, true);
	interface->mtu = interface_mtu(interface);
	/*
	 * A lost probe is an answered probe. A packet of the least length should fit every path,
	 * and is lost, too.
	 */
	if (batch->probe || batch->segment <= NET_PACKET_LEAST)
		return false;
	/* The route to the peer may use another interface, of unknown MTU. */
	most = socket_packet_most(interface);
	if (most > batch->segment - 8)
		most = batch->segment - 8;
	net_unsent(network->core, batch, false);
	net_too_big(network->core, &batch->to, most > NET_PACKET_LEAST ? most : NET_PACKET_LEAST);
	return true;
}

/*
 * Send count batches, in runs of batches for a socket. Return the number of batches taken back by
 * the core.
 */
static unsigned network_send_batches(struct network *network, unsigned count, bool *full)
{
	struct net_batch *run[SEND_BATCHES], *batch;
	enum socket_sent stopped;
	unsigned at = 0, returned = 0, length, sent;

	assert_locked(&network->lock, true);
	assert_that(count <= SEND_BATCHES);
	while (at < count) {
		struct socket *socket = batch_socket(network, &network->batches[at]);

		for (length = 0; at + length < count; length++) {
			if (batch_socket(network, &network->batches[at + length]) != socket)
				break;
			run[length] = &network->batches[at + length];
		}
		if (*full) {
			net_unsent(network->core, &network->batches[at++], false);
			returned++;
			continue;
		}
		sent = socket_send(socket, run, length, &stopped);
		at += sent;
		if (sent == length)
			continue;
		batch = &network->batches[at++];
		if (stopped == SOCKET_TOO_LONG) {
			returned += network_shorten(network, batch);
			continue;
		}
		*full = stopped == SOCKET_FULL;
		net_unsent(network->core, batch, stopped == SOCKET_FAULT);
		returned++;
	}
	return returned;
}

static unsigned network_transmit(struct network *network, uint64_t time)
{
	unsigned count, most, returned, barren = 0, total = 0;
	bool full = false;

	assert_locked(&network->lock, true);
	atomic_store_explicit(&network->posted, false, memory_order_relaxed);
	/*
	 * The first batch goes at once. The core is asked for more batches while the first is under
	 * way.
	 */
	for (most = 1;; time = network_now(), most = SEND_BATCHES) {
		for (count = 0; count < most; count++) {
			if (!net_output(network->core, time, &network->batches[count]))
				break;
		}
		returned = network_send_batches(network, count, &full);
		total += count - returned;
		barren = returned < count ? 0 : barren + 1;
		if (full || barren == RETURNS_MOST || (count < most && !returned))
			break;
	}
	network->held = returned != 0;
	return total;
}

static void statistic_add_growth(struct statistics *to, enum pf_stat stat, uint64_t now,
				 uint64_t before)
{
	if (now != before)
		statistic_add_concurrent(to, stat, now - before);
}

/* Add the counts of the core to the statistics of the context. */
static void network_add_counts(struct network *network)
{
	const struct net_statistics *statistics = net_statistics(network->core);
	struct statistics *to = &network->context->statistics;
	struct net_statistics *before = &network->counted;
	uint64_t dropped = 0;
	unsigned i;

	assert_locked(&network->lock, true);
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
	for (i = 0; i < network_sockets(network); i++)
		dropped += network->sockets[i].dropped;
	statistic_add_growth(to, PF_STAT_NET_DROPPED, dropped, network->dropped);
	network->dropped = dropped;
}

void network_count(struct network *network)
{
	/* The owner of the lock adds the counts later, unless the owner is in a callback. */
	if (!network_trylock(network))
		return;
	network_add_counts(network);
	network_unlock(network);
}

/* Do everything due, and send everything permitted. Return the number of batches sent. */
static unsigned network_advance(struct network *network)
{
	uint64_t time = network_now();
	unsigned sent;

	assert_locked(&network->lock, true);
	assert_driving(network);
	atomic_store_explicit(&network->behind, false, memory_order_relaxed);
	if (net_deadline(network->core) <= time)
		net_advance(network->core, time);
	sent = network_transmit(network, time);
	network_add_counts(network);
	return sent;
}

/*
 * Put off sending after an event was told to the application: the application's answer will
 * acknowledge the received packets. Either nothing else is to be sent, or a poll is predicted to
 * follow soon. Return true if the next poll, or the first round of the service thread, sends the
 * rest without an answer. Return false if sending must go on now, because no poll may follow.
 */
static bool network_put_off(struct network *network, uint64_t told)
{
	bool attended = atomic_load_explicit(&network->attended, memory_order_relaxed);

	assert_locked(&network->lock, true);
	assert_driving(network);
	if (network->processes.told == told)
		return false;
	if (attended || net_owes(network->core)) {
		if (attended || !coalesce_trusts(&network->coalesce)) {
			net_acknowledge(network->core);
			return false;
		}
		coalesce_keep(&network->coalesce);
	}
	atomic_store_explicit(&network->behind, true, memory_order_relaxed);
	return true;
}

static unsigned network_drive(struct network *network, unsigned rounds)
{
	unsigned total = 0, received, resolved, i;
	uint64_t told = network->processes.told;

	assert_locked(&network->lock, true);
	assert_driving(network);
	assert_that(rounds);
	assert_that(network->calling == network->memory.progress);
	network->receiver->late = !network->calling || network->rare;
	network->late = 0;
	if (atomic_load_explicit(&network->behind, memory_order_relaxed))
		total += network_advance(network);
	do {
		received = 0;
		resolved = net_memory_tell(&network->memory, network->core);
		for (i = 0; i < network_sockets(network); i++) {
			if (socket_is_due(network, &network->sockets[i]))
				received += network_receive(network, &network->sockets[i]);
		}
		total += received + resolved;
		if (network_put_off(network, told))
			break;
		/* A poll without packets is kept short, and the next poll comes soon. */
		if (received || resolved || !network->calling ||
		    atomic_load_explicit(&network->posted, memory_order_relaxed) || network->rare ||
		    network->looks % LOOKS_ADVANCE == 0)
			total += network_advance(network);
	} while (received && --rounds && network->processes.told == told);
	return total;
}

static bool driving_start(struct network *network)
{
	return !atomic_exchange_explicit(&network->driving, true, memory_order_seq_cst);
}

/* Return the latest time for a thread to drive again, ns. */
static uint64_t network_deadline(const struct network *network)
{
	uint64_t due = net_exact_deadline(network->core), retry;

	assert_locked(&network->lock, true);
	if (!network->held)
		return due;
	retry = network_now() + NETWORK_RETRY;
	return retry < due ? retry : due;
}

static int thread_id(void)
{
	static _Thread_local int id;

	if (!id)
		id = gettid();
	return id;
}

/*
 * Make the service thread look at the network at a time, ns, or earlier. The call itself wakes
 * nothing.
 */
static void network_look_at(struct network *network, uint64_t time)
{
	assert_locked(&network->lock, true);
	/*
	 * A look a little early costs less than a system call for each move of the deadline. The
	 * service thread knows of an unchanged deadline in the past, and tries again without help.
	 */
	if (network->timer_end == time ||
	    (network->timer_end < time && network->timer_end > network_now() &&
	     time - network->timer_end < EARLY_MOST))
		return;
	network->timer_end = time;
	timer_set(network->timer, time);
}

/*
 * Set the timer for the service thread. The service thread alone keeps the deadlines while
 * attending.
 */
static void network_look_when_due(struct network *network)
{
	uint64_t due = network_deadline(network);

	assert_locked(&network->lock, true);
	if (due == NET_NEVER)
		return;
	/*
	 * Where processes share processors, deadlines are rounded up: a single wake-up serves
	 * several.
	 */
	if (context_is_sleepy(network->context))
		due += MILLISECOND - due % MILLISECOND;
	network_look_at(network, due);
}

static uint64_t network_processor_time(void)
{
	return (uint64_t)clock_nanoseconds(CLOCK_THREAD_CPUTIME_ID);
}

/*
 * Begin a grace period if something waits for packets or for the next poll. At the end of the
 * period the service thread sees whether a poll came.
 */
static void network_give_grace(struct network *network)
{
	bool waits = network->held || net_blocked(network->core) || network->coalesce.waits ||
		     atomic_load_explicit(&network->posted, memory_order_relaxed);
	uint64_t time;

	assert_locked(&network->lock, true);
	if (!grace_needed(&network->grace, waits))
		return;
	time = network_now();
	pthread_mutex_lock(&network->attending);
	grace_note(&network->grace, time, thread_id(), network_processor_time());
	timer_set(network->grace_timer, grace_start(&network->grace, time));
	pthread_mutex_unlock(&network->attending);
}

/*
 * Progress: take the network back from the service thread, until the end of a grace period. Called
 * each time that the service thread attended, and also after need of the service thread without
 * attendance.
 */
static void network_take_back(struct network *network)
{
	uint64_t time = network_now();

	assert_progress(network->context);
	assert_locked(&network->lock, true);
	pthread_mutex_lock(&network->attending);
	if (atomic_load_explicit(&network->attended, memory_order_relaxed)) {
		atomic_store_explicit(&network->attended, false, memory_order_seq_cst);
		(void)network_listen(network, false);
	}
	grace_note(&network->grace, time, thread_id(), network_processor_time());
	timer_set(network->grace_timer, grace_return(&network->grace, time));
	pthread_mutex_unlock(&network->attending);
}

/*
 * Stop driving, and release the lock held by the caller. A post after the driver's last look is
 * sent now. The service thread sets "awaited" before finding another thread driving; therefore the
 * driver finds "awaited" set below.
 */
static void driving_stop(struct network *network)
{
	const uint64_t one = 1;

	assert_locked(&network->lock, true);
	assert_driving(network);
	for (;;) {
		if (atomic_load_explicit(&network->attended, memory_order_relaxed))
			network_look_when_due(network);
		else
			network_give_grace(network);
		network_unlock(network);
		atomic_store_explicit(&network->driving, false, memory_order_seq_cst);
		if (!atomic_load_explicit(&network->posted, memory_order_seq_cst) ||
		    !driving_start(network))
			break;
		network_lock(network);
		network_transmit(network, network_now());
	}
	/* The write fails only when the counter is full, and then the service thread is awake. */
	if (atomic_load_explicit(&network->awaited, memory_order_seq_cst) &&
	    atomic_exchange_explicit(&network->awaited, false, memory_order_seq_cst) &&
	    write(network->wake, &one, sizeof(one)) < 0)
		return;
}

/* ---- driving threads ---- */

/* Is the next look still too early? */
static bool network_looked_just_now(const struct network *network, uint64_t time)
{
	uint64_t used = atomic_load_explicit(&network->used, memory_order_relaxed),
		 between = time > used ? (time - used) / LOOK_SHARE : 0;

	return time - grace_read(&network->looked) <
	       (between < LOOK_BETWEEN_MOST ? between : LOOK_BETWEEN_MOST);
}

/*
 * Does the present poll take the network back? A thread that slept a moment ago will soon sleep
 * again, and does not.
 */
static bool network_is_returning(struct network *network, uint64_t time)
{
	assert_locked(&network->lock, true);
	assert_progress(network->context);
	return atomic_load_explicit(&network->attended, memory_order_relaxed) &&
	       !atomic_load_explicit(&network->sleeps, memory_order_relaxed) &&
	       time - grace_read(&network->woke) >= GRACE_LEAST;
}

int network_poll_sockets(struct network *network)
{
	struct activity *activity = &network->context->activity;
	uint64_t time = network_now(), between;
	int total;

	assert_progress(network->context);
	if (network_looked_just_now(network, time) && !network_waits(network))
		return 0;
	if (!driving_start(network)) {
		/* The service thread may have lost the processor while driving. */
		if (atomic_load_explicit(&network->attended, memory_order_relaxed))
			sched_yield();
		return 0;
	}
	network_lock(network);
	if (network_is_returning(network, time))
		network_take_back(network);
	grace_seen(&network->grace, time, network_seen(network),
		   context_is_sleepy(network->context));
	network->looks++;
	between = grace_passed(time, grace_read(&network->looked));
	network->rare = between >= LOOK_BETWEEN_MOST;
	/*
	 * Before GRACE_FIRST the service thread would not have taken over. A process on a shared
	 * processor may have waited for the processor.
	 */
	network->away = between >= GRACE_FIRST && !context_is_sleepy(network->context) &&
			grace_passed(time, network->polled) >= GRACE_FIRST;
	atomic_store_explicit(&network->looked, time, memory_order_relaxed);
	network->calling = network->memory.progress = true;
	atomic_store_explicit(&network->caller, thread_id(), memory_order_relaxed);
	if (coalesce_pending(&network->coalesce))
		coalesce_poll(&network->coalesce, time);
	/* Tell events of drives by other threads. */
	total = 0;
	if (atomic_load_explicit(&network->untold, memory_order_relaxed)) {
		atomic_store_explicit(&network->untold, false, memory_order_relaxed);
		total = (int)net_processes_tell(&network->processes, network->core);
	}
	total += (int)network_drive(network, ROUNDS_POLL);
	total += (int)net_processes_tell(&network->processes, network->core);
	/* The duration of a poll does not count as absence of the application. */
	if (total || network->rare || coalesce_pending(&network->coalesce))
		time = network_now();
	if (network->rare)
		atomic_store_explicit(&network->looked, time, memory_order_relaxed);
	if (total) {
		network->polled = time;
		atomic_store_explicit(&network->used, time, memory_order_relaxed);
		activity_moved(activity);
	}
	if (coalesce_pending(&network->coalesce))
		coalesce_return(&network->coalesce, time);
	network->calling = network->memory.progress = false;
	atomic_store_explicit(&network->caller, 0, memory_order_relaxed);
	if (network->grace.needed &&
	    !atomic_load_explicit(&network->attended, memory_order_relaxed))
		network_take_back(network);
	driving_stop(network);
	return total;
}

/* Under the lock: note whether there is something for progress alone to do. */
static void network_note_untold(struct network *network)
{
	assert_locked(&network->lock, true);
	if (net_has_events(network->core) || network->memory.deferred ||
	    network->processes.met != network->processes.list)
		atomic_store_explicit(&network->untold, true, memory_order_relaxed);
}

/* Wake progress if another thread left something to do: progress may sleep. */
static void network_tell_progress(struct network *network)
{
	if (atomic_load_explicit(&network->untold, memory_order_relaxed))
		network->context->wake(network->context);
}

/*
 * The service thread never waits for the lock. The owner of the lock may be waiting for a page to
 * be brought by the service thread: a page of a pager, in a message being sent.
 */
bool network_serve(struct network *network, bool tell, uint64_t *again)
{
	bool blocked;
	unsigned i;

	assert_service(&network->context->service);
	if (!driving_start(network)) {
		if (!tell)
			return false;
		atomic_store_explicit(&network->awaited, true, memory_order_seq_cst);
		if (!driving_start(network))
			return false;
	}
	atomic_store_explicit(&network->awaited, false, memory_order_relaxed);
	if (!network_trylock(network)) {
		atomic_store_explicit(&network->driving, false, memory_order_seq_cst);
		*again = atomic_load_explicit(&network->posted, memory_order_seq_cst) ?
				 NETWORK_SOON :
				 NETWORK_RETRY;
		return true;
	}
	blocked = net_blocked(network->core);
	/* A socket that woke the service thread without a packet has an error to report. */
	if (!network_drive(network, ROUNDS_SERVE)) {
		for (i = 0; i < network_sockets(network); i++) {
			if (network->sockets[i].bound)
				network_take_complaints(network, &network->sockets[i]);
		}
	}
	if (blocked && !net_blocked(network->core))
		network->grace.needed = true;
	/*
	 * Without "attended" the application took the network back meanwhile, and sets the timer
	 * itself.
	 */
	if (atomic_load_explicit(&network->attended, memory_order_relaxed))
		network_look_when_due(network);
	network_note_untold(network);
	network_unlock(network);
	atomic_store_explicit(&network->driving, false, memory_order_seq_cst);
	network_tell_progress(network);
	/* Posts that came meanwhile were left to the service thread. */
	*again = atomic_load_explicit(&network->posted, memory_order_seq_cst) ? 0 : NET_NEVER;
	return true;
}

static enum coalesce_origin network_post_origin(const struct network *network, bool message)
{
	assert_locked(&network->lock, true);
	if (atomic_load_explicit(&network->attended, memory_order_seq_cst))
		return COALESCE_UNPOLLED;
	if (message && atomic_load_explicit(&network->caller, memory_order_relaxed) == thread_id())
		return COALESCE_CALLED;
	return COALESCE_POLLED;
}

void network_post(struct network *network, bool message, size_t length)
{
	enum coalesce_origin from = network_post_origin(network, message);
	enum coalesce_when when;
	uint64_t time = network_now();

	assert_locked(&network->lock, true);
	/* A late poll on a shared processor may have waited for the processor: judge nothing. */
	if (!context_is_sleepy(network->context))
		coalesce_judge(&network->coalesce, time);
	when = coalesce_post(&network->coalesce, time, from, length);

	grace_seen(&network->grace, time, network_seen(network),
		   context_is_sleepy(network->context));
	atomic_store_explicit(&network->used, time, memory_order_relaxed);
	/* A callback inside a poll runs on the driving thread. */
	if (from == COALESCE_CALLED) {
		if (when == COALESCE_NOW)
			network_transmit(network, time);
		net_keep(network->core);
		if (when == COALESCE_NEXT_POLL)
			atomic_store_explicit(&network->behind, true, memory_order_relaxed);
		else if (when == COALESCE_AFTER_CALLBACK)
			atomic_store_explicit(&network->posted, true, memory_order_relaxed);
		network_unlock(network);
		return;
	}
	if (when != COALESCE_NOW || !driving_start(network)) {
		net_keep(network->core);
		atomic_store_explicit(&network->posted, true, memory_order_seq_cst);
		/*
		 * The present driver looks again when stopping, unless the driver has looked
		 * already.
		 */
		if (when != COALESCE_NOW || !driving_start(network)) {
			if (when != COALESCE_NOW)
				network_give_grace(network);
			network_unlock(network);
			return;
		}
	}
	network_transmit(network, time);
	coalesce_return(&network->coalesce, network_now());
	net_keep(network->core);
	network_note_untold(network);
	driving_stop(network);
	network_tell_progress(network);
}

static void network_wait_readable(const struct network *network, uint64_t until, uint64_t most)
{
	struct pollfd sockets[SOCKETS_MOST];
	struct timespec time = { 0 };
	uint64_t left, start = network_now();
	unsigned i;

	left = until > start ? until - start : 0;
	time.tv_nsec = (long)(left < most ? left : most);
	for (i = 0; i < network_sockets(network); i++)
		sockets[i] = (struct pollfd){ .fd = network->sockets[i].fd, .events = POLLIN };
	(void)ppoll(sockets, network_sockets(network), &time, NULL);
}

bool network_wait(struct network *network, struct network_waiter *waiter)
{
	uint64_t due;
	unsigned moved;
	int caller;

	if (!driving_start(network)) {
		caller = atomic_load_explicit(&network->caller, memory_order_relaxed);
		if (caller == thread_id())
			return false;
		if (!waiter->stalled || !caller)
			waiter->stalled = network_now();
		sched_yield();
		return network_now() - waiter->stalled < STALLED;
	}
	waiter->stalled = 0;
	network_lock(network);
	moved = network_drive(network, 1);
	due = network_deadline(network);
	network_note_untold(network);
	driving_stop(network);
	network_tell_progress(network);
	if (moved)
		return true;
	waiter->pause = waiter->pause ? 2 * waiter->pause : WAIT_FIRST;
	if (waiter->pause > WAIT_MOST)
		waiter->pause = WAIT_MOST;
	network_wait_readable(network, due, waiter->pause);
	return true;
}

void network_linger(struct network *network)
{
	uint64_t end = network_now() + LINGER, least = UINT64_MAX, messages, due;
	bool busy = true;

	assert_progress(network->context);
	while (busy && network_now() < end) {
		if (!driving_start(network)) {
			sched_yield();
			continue;
		}
		network_lock(network);
		network_drive(network, 1);
		net_linger(network->core);
		network_transmit(network, network_now());
		busy = net_busy(network->core);
		due = network_deadline(network);
		messages = net_unacknowledged(network->core);
		if (messages < least) {
			least = messages;
			end = network_now() + (messages ? LINGER_MESSAGES : LINGER);
		}
		driving_stop(network);
		/* The service thread may receive the acknowledgements. */
		if (busy)
			network_wait_readable(network, due, WAIT_FIRST);
	}
}

static void network_say_goodbye(struct network *network)
{
	const struct timespec pause = { .tv_nsec = NETWORK_RETRY };
	uint64_t end = network_now() + GOODBYES;

	assert_locked(&network->lock, true);
	net_close_all(network->core);
	network_transmit(network, network_now());
	while (network->held && network_now() < end) {
		nanosleep(&pause, NULL);
		network_transmit(network, network_now());
	}
}

void network_close(struct network *network)
{
	struct operations *operations;
	struct operation *operation;

	network_lock(network);
	network_add_counts(network);
	network_say_goodbye(network);
	network_unlock(network);
	operations = &network->context->operations;
	network_destroy(network);
	/*
	 * Free operations not completed by the core. struct operation is the first member of struct
	 * offload.
	 */
	while ((operation = operations_drop(&operations->away)))
		free(operation);
}

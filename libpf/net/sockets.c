/* SPDX-License-Identifier: BSD-3-Clause */
#include "sockets.h"

#include <errno.h>
#include <poll.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/check.h"

/* Receive calls for a socket before the next socket, and sending, get a turn. */
#define RECEIVES_MOST 8
/* A socket without a packet for LOOKS_UNHEARD looks is read once in LOOKS_ELSEWHERE looks. */
#define LOOKS_UNHEARD 4096
#define LOOKS_ELSEWHERE 16
/*
 * Receive calls in a row with packets of a single peer, after which a socket is connected to the
 * peer.
 */
#define RECEIVES_ALONE 256

static struct sockets *sockets_of(const struct carrier *carrier)
{
	return (struct sockets *)(uintptr_t)carrier;
}

static unsigned sockets_count(const struct sockets *sockets)
{
	return 2 * sockets->interfaces.count;
}

/* ---- opening and closing ---- */

/* Open the sockets. Return whether an interface was skipped because all ports are taken. */
static bool sockets_open_all(struct sockets *sockets, const struct interface *found, unsigned count,
			     struct socket_ports ports, uint32_t buffer)
{
	struct interfaces *interfaces = &sockets->interfaces;
	struct socket *socket;
	bool taken = false;
	unsigned i;
	int status;

	/* An address that cannot be bound is about to go away: skip the interface. */
	sockets->carrier.credit = UINT32_MAX;
	for (i = 0; i < count; i++) {
		socket = &sockets->list[interfaces->count];
		status = socket_open(socket, (uint8_t)interfaces->count, &found[i], ports, buffer);
		taken |= status == PF_ERR_AGAIN;
		if (status != PF_OK)
			continue;
		interfaces->list[interfaces->count++] = found[i];
		/* wire_charge counts half of the kernel's charge. */
		if (socket->receive_buffer / 2 < sockets->carrier.credit)
			sockets->carrier.credit = socket->receive_buffer / 2;
	}
	for (i = 0; i < interfaces->count; i++)
		socket_open_second(&sockets->list[interfaces->count + i], &sockets->list[i],
				   buffer);
	return taken;
}

static void sockets_close(struct carrier *carrier)
{
	struct sockets *sockets = sockets_of(carrier);
	unsigned i;

	for (i = 0; i < sockets_count(sockets); i++)
		socket_close(&sockets->list[i]);
	receiver_destroy(sockets->receiver);
	if (carrier->descriptor >= 0)
		close(carrier->descriptor);
	free(sockets);
}

static void sockets_publish(const struct carrier *carrier, struct address *address)
{
	const struct sockets *sockets = sockets_of(carrier);
	unsigned i;

	for (i = 0; i < sockets->interfaces.count; i++) {
		const struct interface *interface = &sockets->interfaces.list[i];
		struct address_endpoint *endpoint = &address->endpoints[i];

		endpoint->family = interface->address.any.sa_family == AF_INET6 ? 6 : 4;
		endpoint->prefix = (uint8_t)interface->prefix;
		endpoint->port = sockets->list[i].port;
		memcpy(endpoint->address, interface_address_bytes(&interface->address),
		       interface_address_length(&interface->address));
	}
	address->endpoints_count = (uint8_t)sockets->interfaces.count;
}

static unsigned sockets_find(const struct carrier *carrier, const struct address *address,
			     bool same_host, struct net_endpoint paths[NET_PATHS_MOST])
{
	return endpoints_find(&sockets_of(carrier)->interfaces, address, same_host, paths);
}

static size_t sockets_describe(const struct carrier *carrier, const struct net_endpoint *to,
			       char *text, size_t size)
{
	return endpoint_describe(&sockets_of(carrier)->interfaces, to, text, size);
}

static uint8_t endpoint_interface(const struct net_endpoint *bytes)
{
	struct endpoint endpoint;

	memcpy(&endpoint, bytes, sizeof(endpoint));
	return endpoint.socket;
}

static size_t sockets_packet_most(const struct carrier *carrier, const struct net_endpoint *to)
{
	const struct interfaces *interfaces = &sockets_of(carrier)->interfaces;
	uint8_t number = endpoint_interface(to);

	return number < interfaces->count ? socket_packet_most(&interfaces->list[number]) :
					    NET_PACKET_LEAST;
}

/* ---- receiving ---- */

static bool socket_is_unheard(const struct sockets *sockets, const struct socket *socket)
{
	return sockets->look - socket->heard >= LOOKS_UNHEARD;
}

/*
 * Is the socket to be read in the present look? Each read is a system call, and most jobs have more
 * addresses than ways for packets.
 */
static bool socket_is_due(const struct sockets *sockets, const struct socket *socket)
{
	return socket->bound &&
	       (sockets->thorough || !socket_is_unheard(sockets, socket) ||
		sockets->heard == socket || sockets->look - socket->read >= LOOKS_ELSEWHERE);
}

/*
 * Count packets of a single peer, and connect a socket to a peer that alone sends for long. For a
 * connected socket the kernel looks up no route, in either direction, and a short message takes a
 * ninth less. Each interface has at most 1 connected socket, because each socket is polled. Only
 * the first packet of a receive call is looked at.
 */
static void socket_note_sender(struct sockets *sockets, struct socket *socket,
			       const struct net_endpoint *from)
{
	struct socket *second = &sockets->list[sockets->interfaces.count + socket->number];

	if (memcmp(&socket->from, from, sizeof(*from))) {
		socket->from = *from;
		socket->from_count = 0;
	}
	if (socket == second || ++socket->from_count < RECEIVES_ALONE ||
	    (second->connected && !socket_is_unheard(sockets, second)))
		return;
	socket->from_count = 0;
	/* Poll the socket at each look from now on, and leave the socket to the peer. */
	if (socket_connect(second, socket, from))
		second->heard = sockets->look;
}

static unsigned sockets_next(const struct sockets *sockets, unsigned at)
{
	return at + 1 < sockets_count(sockets) ? at + 1 : 0;
}

static void sockets_look(struct carrier *carrier, bool thorough)
{
	struct sockets *sockets = sockets_of(carrier);

	/* The caller may have left the last look at a socket with packets. */
	if (sockets->calls)
		sockets->at = sockets_next(sockets, sockets->at);
	sockets->left = sockets_count(sockets);
	sockets->calls = 0;
	sockets->look++;
	sockets->thorough = sockets->receiver->late = thorough;
}

static int sockets_receive(struct carrier *carrier, const struct net_place *places, unsigned count,
			   uint32_t header, struct net_packet **packets)
{
	struct sockets *sockets = sockets_of(carrier);
	struct receiver *receiver = sockets->receiver;
	unsigned at = sockets->at, left = sockets->left, calls = sockets->calls;
	struct socket *socket;
	uint32_t dropped;
	int received = 0;

	*packets = receiver->packets;
	for (; left; left--, calls = 0, at = sockets_next(sockets, at)) {
		socket = &sockets->list[at];
		if (calls == RECEIVES_MOST || !socket_is_due(sockets, socket))
			continue;
		dropped = socket->dropped;
		received = socket_receive(socket, receiver, calls ? RECEIVE_MESSAGES : 1, places,
					  count, header);
		socket->read = sockets->look;
		carrier->dropped += socket->dropped - dropped;
		if (received) {
			if (received > 0)
				socket_note_sender(sockets, socket, receiver->packets[0].from);
			socket->heard = sockets->look;
			sockets->heard = socket;
			calls++;
			break;
		}
		carrier->reports |= socket->complaining;
	}
	sockets->at = at;
	sockets->left = left ? left : sockets_count(sockets);
	sockets->calls = calls;
	return received;
}

/* ---- sending ---- */

static struct socket *batch_socket(struct sockets *sockets, const struct net_batch *batch)
{
	uint8_t number = endpoint_interface(&batch->to);
	struct socket *second = &sockets->list[sockets->interfaces.count + number];

	return second->connected && !memcmp(&second->peer, &batch->to, sizeof(batch->to)) ?
		       second :
		       &sockets->list[number];
}

/* Send runs of batches for a socket. */
static unsigned sockets_send(struct carrier *carrier, const struct net_batch *batches,
			     unsigned count, enum carrier_stop *stop)
{
	struct sockets *sockets = sockets_of(carrier);
	struct interface *interface;
	struct socket *socket;
	unsigned at = 0, end, sent;

	assert_that(count <= CARRIER_BATCHES);
	while (at < count) {
		socket = batch_socket(sockets, &batches[at]);
		for (end = at + 1; end < count; end++) {
			if (batch_socket(sockets, &batches[end]) != socket)
				break;
		}
		sent = socket_send(socket, &batches[at], end - at, stop);
		carrier->reports |= socket->complaining;
		at += sent;
		if (at == end)
			continue;
		if (*stop == CARRIER_TOO_LONG) {
			interface = &sockets->interfaces.list[socket->number];
			interface->mtu = interface_mtu(interface);
		}
		break;
	}
	return at;
}

/* ---- reports, and waiting ---- */

static bool sockets_report(struct carrier *carrier, bool woken, struct carrier_report *report)
{
	struct sockets *sockets = sockets_of(carrier);
	struct socket *socket;
	unsigned i;

	for (i = 0; woken && i < sockets_count(sockets); i++)
		sockets->list[i].complaining = sockets->list[i].bound;
	for (i = 0; i < sockets_count(sockets); i++) {
		socket = &sockets->list[i];
		if (socket->complaining && socket_complaint(socket, report))
			return true;
	}
	carrier->reports = false;
	return false;
}

/* An unwatched socket is in no epoll set: a packet to a watched socket takes 0.4 us longer. */
static bool sockets_watch(struct carrier *carrier, bool watched)
{
	const struct sockets *sockets = sockets_of(carrier);
	struct epoll_event event = { .events = EPOLLIN };
	bool done = true;
	unsigned i;

	for (i = 0; i < sockets_count(sockets); i++) {
		if (sockets->list[i].fd >= 0 &&
		    epoll_ctl(carrier->descriptor, watched ? EPOLL_CTL_ADD : EPOLL_CTL_DEL,
			      sockets->list[i].fd, &event))
			done = false;
	}
	return done;
}

static void sockets_wait(const struct carrier *carrier, const struct timespec *time)
{
	const struct sockets *sockets = sockets_of(carrier);
	struct pollfd polled[SOCKETS_MOST];
	unsigned i;

	for (i = 0; i < sockets_count(sockets); i++)
		polled[i] = (struct pollfd){ .fd = sockets->list[i].fd, .events = POLLIN };
	(void)ppoll(polled, sockets_count(sockets), time, NULL);
}

const struct carrier_operations sockets_operations = {
	.close = sockets_close,
	.publish = sockets_publish,
	.find = sockets_find,
	.same_host = endpoints_same_host,
	.describe = sockets_describe,
	.packet_most = sockets_packet_most,
	.look = sockets_look,
	.receive = sockets_receive,
	.send = sockets_send,
	.report = sockets_report,
	.watch = sockets_watch,
	.wait = sockets_wait,
};

int sockets_open(struct carrier **result, const struct carrier_setup *setup, char why[CARRIER_WHY])
{
	const pf_options *options = setup->options;
	struct socket_ports ports = { .least = (unsigned)options->port_min,
				      .most = (unsigned)options->port_max };
	struct interface found[INTERFACES_MOST];
	struct sockets *sockets;
	const char *none;
	unsigned count;
	int status, error;
	bool taken;

	count = interfaces_find(found, INTERFACES_MOST, options->if_include, options->if_exclude,
				setup->here, &none);
	if (!count) {
		snprintf(why, CARRIER_WHY, "%s", none);
		return PF_ERR_UNREACHABLE;
	}
	sockets = calloc(1, sizeof(*sockets));
	if (!sockets)
		return PF_ERR_MEMORY;
	/*
	 * A random first port: the last packets to an ended process should not reach the next
	 * process.
	 */
	if (ports.least)
		ports.first = ports.least + randombytes_uniform(ports.most - ports.least + 1);
	sockets->carrier.operations = &sockets_operations;
	sockets->carrier.places = true;
	sockets->carrier.descriptor = epoll_create1(EPOLL_CLOEXEC);
	error = errno;
	taken = sockets_open_all(sockets, found, count, ports, (uint32_t)options->socket_buffer);
	sockets->receiver = receiver_create(setup->gather, setup->user);
	status = PF_OK;
	if (sockets->carrier.descriptor < 0) {
		status = PF_ERR_SYSTEM;
	} else if (!sockets->interfaces.count) {
		status = PF_ERR_UNREACHABLE;
		if (taken)
			snprintf(why, CARRIER_WHY,
				 "all UDP ports from %u to %u (port_min, port_max) are taken here; "
				 "each process of a host needs one",
				 ports.least, ports.most);
		else
			snprintf(why, CARRIER_WHY,
				 "shared memory does not reach it, and no UDP socket could be "
				 "opened here");
	} else if (!sockets->receiver) {
		status = PF_ERR_MEMORY;
	}
	if (status != PF_OK) {
		sockets_close(&sockets->carrier);
		errno = error;
		return status;
	}
	interfaces_describe(sockets->interfaces.list, sockets->interfaces.count, setup->here, why,
			    CARRIER_WHY);
	*result = &sockets->carrier;
	return PF_OK;
}

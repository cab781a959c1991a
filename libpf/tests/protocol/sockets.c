/* SPDX-License-Identifier: BSD-3-Clause */
#include "carrier.h"

#include <errno.h>
#include <linux/udp.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <time.h>

#include "network.h"
#include "net/sockets.h"
#include "protocol/wire.h"

/* Limits of what the kernel gathers into one datagram. */
#define GRO_PACKETS 64
#define GRO_BYTES 65000

static struct world *the_world; /* its hosts make the system calls */

static bool system_gather(void *user, const struct iovec *from, unsigned count, void *to)
{
	return host_gather(the_world->acting, from, count, to);
}

static void system_close(struct carrier *carrier)
{
	receiver_destroy(((struct sockets *)carrier)->receiver);
	free(carrier);
	the_world = NULL;
}

static void check_places(struct world *world, const struct net_place *places, unsigned count)
{
	size_t end = world->settings.arena + world->settings.beyond;
	unsigned i;

	for (i = 0; i < count; i++) {
		size_t offset = (uintptr_t)places[i].address - (uintptr_t)world->acting->arena;

		if (!places[i].length || places[i].length > end || offset > end - places[i].length)
			world_fail(world, "a predicted place is not in this host's memory");
		if (i && i + 1 < count && places[i].length != places[0].length)
			world_fail(world, "predicted places differ in length");
	}
}

/* Receive as sockets do, and check the places before and the packets after. */
static int system_receive(struct carrier *carrier, const struct net_place *places, unsigned count,
			  uint32_t header, struct net_packet **packets)
{
	int received, i;

	check_places(the_world, places, count);
	received = sockets_operations.receive(carrier, places, count, header, packets);
	for (i = 0; i < received; i++) {
		if ((uintptr_t)(*packets)[i].header % 8)
			world_fail(the_world, "a packet is not aligned");
	}
	return received;
}

static bool system_report(struct carrier *carrier, bool woken, struct carrier_report *report)
{
	return world_take_report(the_world, report);
}

struct carrier *carrier_of_sockets(struct world *world)
{
	static struct carrier_operations operations;
	struct sockets *sockets = calloc(1, sizeof(*sockets));
	unsigned i;

	if (!sockets)
		abort();
	operations = sockets_operations;
	operations.close = system_close;
	operations.receive = system_receive;
	operations.report = system_report;
	sockets->carrier.operations = &operations;
	sockets->receiver = receiver_create(system_gather, NULL);
	if (!sockets->receiver)
		abort();
	sockets->interfaces.count = NET_PATHS_MOST;
	for (i = 0; i < NET_PATHS_MOST; i++) {
		sockets->interfaces.list[i].address.in.sin_family = AF_INET;
		sockets->list[i].fd = (int)i;
		sockets->list[i].number = (uint8_t)i;
		sockets->list[i].bound = true;
		sockets->list[i].segments = !world->settings.no_segments;
		sockets->list[NET_PATHS_MOST + i].fd = -1;
	}
	the_world = world;
	return &sockets->carrier;
}

/* ---- receiving ---- */

/* A position in the vectors of a message. */
struct scatter {
	const struct iovec *vector;
	size_t left, used;
};

static bool scatter(struct host *host, struct scatter *to, const uint8_t *bytes, size_t length)
{
	while (length && to->left) {
		size_t room = to->vector->iov_len - to->used;
		size_t piece = room < length ? room : length;
		uint8_t *at = (uint8_t *)to->vector->iov_base + to->used;

		if (host_memory(host, at, piece) == MEMORY_ABSENT)
			return false;
		memcpy(at, bytes, piece);
		bytes += piece;
		length -= piece;
		to->used += piece;
		if (to->used < to->vector->iov_len)
			continue;
		to->vector++;
		to->left--;
		to->used = 0;
	}
	return true;
}

static void *put_control(struct msghdr *message, struct cmsghdr *header, int level, int type,
			 const void *value, size_t length)
{
	header->cmsg_level = level;
	header->cmsg_type = type;
	header->cmsg_len = CMSG_LEN(length);
	memcpy(CMSG_DATA(header), value, length);
	message->msg_controllen += CMSG_SPACE(length);
	return (uint8_t *)header + CMSG_SPACE(length);
}

static struct timespec stamp(uint64_t time)
{
	return (struct timespec){ .tv_sec = (time_t)(time / SECOND),
				  .tv_nsec = (long)(time % SECOND) };
}

/* Receive one datagram, of several packets if they are alike; return its length, or -1. */
static long receive_message(struct host *host, unsigned path, struct msghdr *message)
{
	struct scatter to = { message->msg_iov, message->msg_iovlen, 0 };
	struct packet *packet = host->queue, *next;
	void *control = message->msg_control;
	struct net_endpoint sender;
	uint32_t length, total = 0, count = 0;
	unsigned from, corrupt = 0;
	int segment;
	struct timespec arrived;
	bool present = true;
	uint8_t ecn;

	if (!packet || packet->path != path) {
		errno = EAGAIN;
		return -1;
	}
	from = packet->from;
	ecn = packet->ecn;
	segment = (int)packet->length;
	message->msg_controllen = 0;
	control = put_control(message, control, IPPROTO_IP, IP_TOS, &ecn, sizeof(ecn));
	arrived = stamp(packet->arrived);
	control = put_control(message, control, SOL_SOCKET, SCM_TIMESTAMPNS, &arrived,
			      sizeof(arrived));
	sender = world_endpoint(from, path);
	message->msg_namelen = endpoint_address(&sender, message->msg_name);
	do {
		packet = host_next(host);
		length = packet->length;
		/* After a fault the rest of the datagram is lost. */
		present = present && scatter(host, &to, packet->bytes, length);
		total += length;
		count++;
		corrupt += packet->corrupt;
		packet_free(host->world, packet);
		next = host->queue;
	} while (length == (uint32_t)segment && next && next->path == path && next->from == from &&
		 next->ecn == ecn && next->length <= (uint32_t)segment && count < GRO_PACKETS &&
		 total + next->length <= GRO_BYTES && world_random(host->world) % 16);
	if (!present) {
		errno = EFAULT;
		return -1;
	}
	if (count > 1)
		put_control(message, control, IPPROTO_UDP, UDP_GRO, &segment, sizeof(segment));
	host->world->corrupt += corrupt;
	return total;
}

static long receive_messages(struct host *host, unsigned path, struct mmsghdr *messages,
			     unsigned count)
{
	unsigned done;
	long length;

	for (done = 0; done < count; done++) {
		length = receive_message(host, path, &messages[done].msg_hdr);
		if (length < 0)
			break;
		messages[done].msg_len = (unsigned)length;
	}
	return done ? (long)done : -1;
}

/* ---- sending ---- */

/* Return the length of the packets to cut, bytes; 0: a single packet. */
static uint32_t segment_of(const struct msghdr *message)
{
	const struct cmsghdr *header = message->msg_control;
	uint16_t segment;

	if (!message->msg_controllen || header->cmsg_type != UDP_SEGMENT)
		return 0;
	memcpy(&segment, CMSG_DATA(header), sizeof(segment));
	return segment;
}

static long send_message(struct host *host, unsigned path, const struct msghdr *message)
{
	const struct sockaddr_in *address = message->msg_name;
	uint32_t length = 0;
	size_t i;

	for (i = 0; i < message->msg_iovlen; i++)
		length += (uint32_t)message->msg_iov[i].iov_len;
	errno = host_send(host, address->sin_addr.s_addr, path, message->msg_iov,
			  message->msg_iovlen, segment_of(message));
	return errno ? -1 : (long)length;
}

static long send_messages(struct host *host, unsigned path, struct mmsghdr *messages,
			  unsigned count)
{
	unsigned done;

	for (done = 0; done < count; done++) {
		long length = send_message(host, path, &messages[done].msg_hdr);

		if (length < 0)
			break;
		messages[done].msg_len = (unsigned)length;
	}
	return done ? (long)done : -1;
}

/* ---- system calls (ld --wrap) ---- */

int __real_clock_gettime(clockid_t clock, struct timespec *time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time);

int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
	if (clock != CLOCK_REALTIME || !the_world)
		return __real_clock_gettime(clock, time);
	*time = stamp(the_world->now);
	return 0;
}

unsigned __wrap_interface_mtu(const struct interface *interface);

unsigned __wrap_interface_mtu(const struct interface *interface)
{
	return the_world->settings.interface_mtu + 28;
}

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

long __wrap_syscall(long number, ...)
{
	long arguments[6];
	unsigned i, path;
	va_list list;
	void *what;

	va_start(list, number);
	for (i = 0; i < 6; i++)
		arguments[i] = va_arg(list, long);
	va_end(list);
	path = (unsigned)arguments[0];
	what = (void *)arguments[1];
	switch (number) {
	case SYS_recvmsg:
		return receive_message(the_world->acting, path, what);
	case SYS_recvmmsg:
		return receive_messages(the_world->acting, path, what, (unsigned)arguments[2]);
	case SYS_sendmsg:
		return send_message(the_world->acting, path, what);
	case SYS_sendmmsg:
		return send_messages(the_world->acting, path, what, (unsigned)arguments[2]);
	default:
		return __real_syscall(number, arguments[0], arguments[1], arguments[2],
				      arguments[3], arguments[4], arguments[5]);
	}
}

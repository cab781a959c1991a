/* SPDX-License-Identifier: BSD-3-Clause */
#include "sockets.h"

#include <errno.h>
#include <linux/udp.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <time.h>

#include "network.h"
#include "net/socket.h"
#include "protocol/wire.h"

#define PORT 7777
#define RECEIVES_MOST 8 /* the same as in engine.c */
/* Limits of what the kernel gathers into one datagram. */
#define GRO_PACKETS 64
#define GRO_BYTES 65000

struct sockets {
	struct world *world;
	struct host *host; /* the one that makes a system call */
	struct socket sockets[NET_PATHS_MOST];
	struct receiver *receiver;
	struct net_batch *batches;
	unsigned corrupt; /* corrupt packets received and not handed in yet */
};

static struct sockets *the_sockets; /* for system calls */

static bool gather(void *user, const struct iovec *from, unsigned count, void *to)
{
	return sockets_gather(((struct sockets *)user)->host, from, count, to);
}

struct sockets *sockets_create(struct world *world)
{
	bool copied = world->settings.options.auth != NET_AUTH_HEADER;
	struct sockets *sockets = calloc(1, sizeof(*sockets));
	unsigned i;

	if (!sockets)
		abort();
	sockets->world = world;
	sockets->receiver = receiver_create(gather, sockets);
	sockets->batches = aligned_alloc(64, SEND_BATCHES * sizeof(struct net_batch));
	if (!sockets->receiver || !sockets->batches)
		abort();
	for (i = 0; i < SEND_BATCHES; i++) {
		sockets->batches[i].room = NULL;
		if (!copied)
			continue;
		sockets->batches[i].room = aligned_alloc(64, (NET_BATCH_BYTES + 2048 + 63) & ~63u);
		if (!sockets->batches[i].room)
			abort();
	}
	for (i = 0; i < NET_PATHS_MOST; i++) {
		sockets->sockets[i].fd = (int)i;
		sockets->sockets[i].number = (uint8_t)i;
		sockets->sockets[i].segments = !world->settings.no_segments;
	}
	return sockets;
}

void sockets_destroy(struct sockets *sockets)
{
	unsigned i;

	receiver_destroy(sockets->receiver);
	for (i = 0; i < SEND_BATCHES; i++)
		free(sockets->batches[i].room);
	free(sockets->batches);
	free(sockets);
	the_sockets = NULL;
}

static void put_address(union interface_address *address, unsigned number)
{
	memset(&address->in, 0, sizeof(address->in));
	address->in.sin_family = AF_INET;
	address->in.sin_port = PORT;
	address->in.sin_addr.s_addr = number;
}

struct net_endpoint sockets_endpoint(unsigned number, unsigned path)
{
	union interface_address address;
	struct net_endpoint endpoint;

	put_address(&address, number);
	endpoint_make(&endpoint, (uint8_t)path, &address);
	return endpoint;
}

/* ---- the memory of a host ---- */

/* MEMORY_OTHER: of the core or the system, not of the arena. */
enum memory { MEMORY_OTHER, MEMORY_PRESENT, MEMORY_ABSENT };

static enum memory memory_of(struct host *host, const void *bytes, size_t length)
{
	const struct settings *settings = &host->world->settings;
	size_t offset = (uintptr_t)bytes - (uintptr_t)host->arena, page;

	if (offset >= settings->arena + settings->beyond)
		return MEMORY_OTHER;
	if (length > settings->arena || offset > settings->arena - length)
		return MEMORY_ABSENT;
	if (world_chance(host->world, settings->fault))
		return MEMORY_ABSENT;
	for (page = offset / WORLD_PAGE; page <= (offset + length - 1) / WORLD_PAGE; page++) {
		/* The system resolves some faults, and reports others. */
		if (!host->present[page] && world_random(host->world) % 2)
			return MEMORY_ABSENT;
		host->present[page] = 1;
	}
	return MEMORY_PRESENT;
}

bool sockets_gather(struct host *host, const struct iovec *from, unsigned count, void *to)
{
	uint8_t *bytes = to;

	for (; count; bytes += from->iov_len, from++, count--) {
		if (memory_of(host, from->iov_base, from->iov_len) == MEMORY_ABSENT) {
			/* The corrupt packets may be among those that are lost. */
			host->world->sockets->corrupt = 0;
			return false;
		}
		memcpy(bytes, from->iov_base, from->iov_len);
	}
	return true;
}

unsigned sockets_place(struct host *host, const struct net_piece *pieces, unsigned count)
{
	unsigned i;

	for (i = 0; i < count; i++) {
		void *at = (void *)(uintptr_t)pieces[i].address;

		if (memory_of(host, at, pieces[i].length) != MEMORY_PRESENT)
			break;
		memcpy(at, pieces[i].bytes, pieces[i].length);
	}
	return i;
}

/* ---- receiving ---- */

static struct packet *take(struct host *host)
{
	struct packet *packet = host->queue;

	host->queue = packet->next;
	if (!host->queue)
		host->queue_last = &host->queue;
	host->waiting -= wire_charge(packet->length);
	return packet;
}

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

		if (memory_of(host, at, piece) == MEMORY_ABSENT)
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
	struct sockets *sockets = host->world->sockets;
	struct packet *packet = host->queue, *next;
	void *control = message->msg_control;
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
	put_address(message->msg_name, from);
	message->msg_namelen = sizeof(struct sockaddr_in);
	do {
		packet = take(host);
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
	sockets->corrupt += corrupt;
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

static uint64_t rejected(const struct net_statistics *statistics)
{
	return statistics->dropped;
}

static void hand_in(struct host *host, unsigned count)
{
	struct sockets *sockets = host->world->sockets;
	uint64_t before = rejected(net_statistics(host->core));
	unsigned i;

	for (i = 0; i < count; i++) {
		if ((uintptr_t)sockets->receiver->packets[i].header % 8)
			world_fail(host->world, "a packet is not aligned");
	}
	net_input(host->core, host->world->now, sockets->receiver->packets, count,
		  host->closed ? NET_NOT_LENT : host->lent);
	host_take(host);
	if (rejected(net_statistics(host->core)) - before < sockets->corrupt)
		world_fail(host->world, "host %u accepted a corrupt packet", host->number);
}

static unsigned predict(struct host *host, struct net_place *places, uint32_t *header)
{
	const struct settings *settings = &host->world->settings;
	unsigned count, i;

	if (!world_chance(host->world, settings->predict) || !net_foresees(host->core))
		return 0;
	count = net_predict(host->core, host->world->now, places, NET_BATCH_MOST, header);
	for (i = 0; i < count; i++) {
		size_t offset = (uintptr_t)places[i].address - (uintptr_t)host->arena;
		size_t end = settings->arena + settings->beyond;

		if (!places[i].length || places[i].length > end || offset > end - places[i].length)
			world_fail(host->world, "a predicted place is not in this host's memory");
		if (i && i + 1 < count && places[i].length != places[0].length)
			world_fail(host->world, "predicted places differ in length");
	}
	return count;
}

void sockets_receive(struct host *host)
{
	struct sockets *sockets = host->world->sockets;
	struct net_place places[NET_BATCH_MOST];
	unsigned calls, count, most = 1;
	uint32_t header = 0;
	int received;

	the_sockets = sockets;
	sockets->host = host;
	for (calls = 0; calls < RECEIVES_MOST && host->queue; calls++) {
		count = predict(host, places, &header);
		sockets->corrupt = 0;
		received = socket_receive(&sockets->sockets[host->queue->path], sockets->receiver,
					  most, places, count, header);
		most = RECEIVE_MESSAGES;
		if (received > 0)
			hand_in(host, (unsigned)received);
		else if (received == PF_ERR_FAULT)
			net_misplaced(host->core);
	}
}

/* ---- sending ---- */

static uint32_t segment_of(const struct msghdr *message, uint32_t length)
{
	const struct cmsghdr *header = message->msg_control;
	uint16_t segment;

	if (!message->msg_controllen || header->cmsg_type != UDP_SEGMENT)
		return length;
	memcpy(&segment, CMSG_DATA(header), sizeof(segment));
	return segment;
}

/* Send the bytes of a message as packets. */
static void send_packets(struct host *host, unsigned to, unsigned path,
			 const struct msghdr *message, uint32_t length, uint32_t segment)
{
	const struct iovec *vector = message->msg_iov;
	struct world *world = host->world;
	size_t used = 0;

	while (length) {
		uint32_t size = length < segment ? length : segment, done = 0;
		struct packet *packet = packet_new(world, size);

		while (done < size) {
			size_t piece = vector->iov_len - used;

			if (piece > size - done)
				piece = size - done;
			memcpy(packet->bytes + done, (uint8_t *)vector->iov_base + used, piece);
			done += (uint32_t)piece;
			used += piece;
			if (used < vector->iov_len)
				continue;
			vector++;
			used = 0;
		}
		packet->from = host->number;
		packet->to = to;
		packet->path = (uint8_t)path;
		packet->ecn = 2;
		length -= size;
		packet_transmit(world, packet);
	}
}

static long send_message(struct host *host, unsigned path, const struct msghdr *message)
{
	const struct settings *settings = &host->world->settings;
	const struct sockaddr_in *address = message->msg_name;
	uint32_t length = 0, segment;
	bool present = true;
	size_t i;

	for (i = 0; i < message->msg_iovlen; i++) {
		const struct iovec *vector = &message->msg_iov[i];

		length += (uint32_t)vector->iov_len;
		present = present &&
			  memory_of(host, vector->iov_base, vector->iov_len) != MEMORY_ABSENT;
	}
	segment = segment_of(message, length);
	errno = 0;
	if (world_chance(host->world, settings->full))
		errno = world_random(host->world) % 2 ? EAGAIN : ENOBUFS;
	else if (segment > settings->interface_mtu)
		errno = segment < length ? EINVAL : EMSGSIZE;
	else if (!present)
		errno = EFAULT;
	if (errno)
		return -1;
	send_packets(host, address->sin_addr.s_addr, path, message, length, segment);
	return length;
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

static unsigned path_of(const struct net_batch *batch)
{
	struct endpoint endpoint;

	memcpy(&endpoint, &batch->to, sizeof(endpoint));
	return endpoint.socket;
}

/* Handle a batch that the system refused, like engine.c. False: there is no room. */
static bool refused(struct host *host, struct net_batch *batch, enum socket_sent why)
{
	switch (why) {
	case SOCKET_FAULT:
		net_unsent(host->core, batch, true);
		return true;
	case SOCKET_TOO_LONG:
		if (batch->probe)
			return true;
		net_unsent(host->core, batch, false);
		net_too_big(host->core, &batch->to, host->world->settings.interface_mtu);
		return true;
	default:
		net_unsent(host->core, batch, false);
		return false;
	}
}

static bool send_batches(struct host *host, struct net_batch *batches, unsigned count)
{
	struct sockets *sockets = host->world->sockets;
	struct net_batch *run[SEND_BATCHES];
	enum socket_sent stopped;
	unsigned at = 0, length, sent;
	bool room = true;

	while (at < count) {
		unsigned path = path_of(&batches[at]);

		for (length = 0; at + length < count; length++) {
			if (path_of(&batches[at + length]) != path)
				break;
			run[length] = &batches[at + length];
		}
		if (!room) {
			net_unsent(host->core, &batches[at++], false);
			continue;
		}
		sent = socket_send(&sockets->sockets[path], run, length, &stopped);
		at += sent;
		if (sent < length)
			room = refused(host, &batches[at++], stopped);
	}
	return room;
}

bool sockets_transmit(struct host *host)
{
	struct sockets *sockets = host->world->sockets;
	unsigned count;
	bool room;

	the_sockets = sockets;
	sockets->host = host;
	do {
		for (count = 0; count < SEND_BATCHES; count++) {
			if (!net_output(host->core, host->world->now, &sockets->batches[count]))
				break;
		}
		room = send_batches(host, sockets->batches, count);
	} while (count == SEND_BATCHES && room);
	return room;
}

/* ---- system calls (ld --wrap) ---- */

int __real_clock_gettime(clockid_t clock, struct timespec *time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time);

int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
	if (clock != CLOCK_REALTIME || !the_sockets)
		return __real_clock_gettime(clock, time);
	*time = stamp(the_sockets->world->now);
	return 0;
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
		return receive_message(the_sockets->host, path, what);
	case SYS_recvmmsg:
		return receive_messages(the_sockets->host, path, what, (unsigned)arguments[2]);
	case SYS_sendmsg:
		return send_message(the_sockets->host, path, what);
	case SYS_sendmmsg:
		return send_messages(the_sockets->host, path, what, (unsigned)arguments[2]);
	default:
		return __real_syscall(number, arguments[0], arguments[1], arguments[2],
				      arguments[3], arguments[4], arguments[5]);
	}
}

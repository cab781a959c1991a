/* SPDX-License-Identifier: BSD-3-Clause */
#include "socket.h"

#include <errno.h>
#include <linux/errqueue.h>
#include <linux/icmp.h>
#include <linux/icmpv6.h>
#include <linux/udp.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"

#define ECT_0 2
#define ECN_MASK 3
#define CONTROL_MOST 128
#define WAITED_MOST 1000000000ll /* longest credible wait of a packet, ns */
#define LONE_PACKETS 256         /* packets in a row, each alone, before a socket becomes bare */
#define ROW_PACKETS 2 /* packets in a row to end bareness: there is a queue, or a send of several */

union control {
	struct cmsghdr align;
	uint8_t bytes[CONTROL_MOST];
};

/*
 * System calls without the C library: the library's functions are cancellation points, and cost a
 * process with threads more than the kernel takes to find nothing. For a single message the calls
 * without a vector are faster, and for bytes in one piece the calls without a message.
 */
static int socket_call_send(int fd, struct mmsghdr *messages, unsigned count)
{
	const struct msghdr *message = &messages[0].msg_hdr;
	const struct iovec *piece = message->msg_iov;
	long sent;

	if (count == 1) {
		if (message->msg_iovlen > 1 || message->msg_controllen || message->msg_name)
			sent = syscall(SYS_sendmsg, fd, message, 0);
		else
			sent = syscall(SYS_sendto, fd, piece->iov_base, piece->iov_len, 0, NULL, 0);
		return sent < 0 ? -1 : 1;
	}
	return (int)syscall(SYS_sendmmsg, fd, messages, count, 0);
}

static int socket_call_receive(int fd, struct mmsghdr *messages, unsigned count)
{
	struct msghdr *message = &messages[0].msg_hdr;
	long length;

	if (count > 1)
		return (int)syscall(SYS_recvmmsg, fd, messages, count, MSG_DONTWAIT, NULL);
	if (message->msg_iovlen > 1 || message->msg_controllen || message->msg_name)
		length = syscall(SYS_recvmsg, fd, message, MSG_DONTWAIT);
	else
		length = syscall(SYS_recvfrom, fd, message->msg_iov->iov_base,
				 message->msg_iov->iov_len, MSG_DONTWAIT, NULL, NULL);
	if (length < 0)
		return -1;
	messages[0].msg_len = (unsigned)length;
	return 1;
}

static void socket_set_option(int fd, int level, int option, int value)
{
	/* An option unknown to the kernel is left out; the packets do not change. */
	(void)setsockopt(fd, level, option, &value, sizeof(value));
}

static void socket_set_buffer(int fd, int forced, int option, uint32_t bytes)
{
	int wanted = (int)bytes;

	/* A buffer beyond the system's limit needs CAP_NET_ADMIN. */
	if (setsockopt(fd, SOL_SOCKET, forced, &wanted, sizeof(wanted)) < 0)
		socket_set_option(fd, SOL_SOCKET, option, wanted);
}

static void socket_set_plain(struct socket *socket)
{
	socket_set_option(socket->fd, IPPROTO_UDP, UDP_GRO, 1);
	socket->bare = socket->emptying = false;
	socket->lone = 0;
}

/*
 * Have the kernel queue packets singly. The kernel still hands out earlier packets as a gathered
 * datagram, and without UDP_GRO does not tell where to cut. The next call of socket_receive looks
 * for gathered datagrams; a look here would be too early, because another processor may be queueing
 * a datagram now.
 */
static void socket_start_emptying(struct socket *socket)
{
	socket_set_option(socket->fd, IPPROTO_UDP, UDP_GRO, 0);
	socket->emptying = true;
}

/*
 * Make the socket bare. Return false if a datagram is there, perhaps gathered: the socket receives
 * with UDP_GRO again.
 */
static bool socket_become_bare(struct socket *socket)
{
	struct pollfd readable = { .fd = socket->fd, .events = POLLIN };

	if (poll(&readable, 1, 0) < 0 || readable.revents & POLLIN) {
		socket_set_plain(socket);
		return false;
	}
	socket->bare = true;
	socket->emptying = false;
	return true;
}

static void socket_set_options(struct socket *socket, bool version6, uint32_t buffer)
{
	int fd = socket->fd, granted = 0;
	socklen_t size = sizeof(granted);

	if (version6) {
		socket_set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
		socket_set_option(fd, IPPROTO_IPV6, IPV6_TCLASS, ECT_0);
		socket_set_option(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
		socket_set_option(fd, IPPROTO_IPV6, IPV6_RECVERR, 1);
		/*
		 * The core finds the MTU of the path: never fragment, and never trust the MTU of
		 * the route.
		 */
		socket_set_option(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_PROBE);
	} else {
		socket_set_option(fd, IPPROTO_IP, IP_TOS, ECT_0);
		socket_set_option(fd, IPPROTO_IP, IP_RECVTOS, 1);
		socket_set_option(fd, IPPROTO_IP, IP_RECVERR, 1);
		socket_set_option(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE);
	}
	socket_set_option(fd, SOL_SOCKET, SO_RXQ_OVFL, 1);
	socket_set_option(fd, SOL_SOCKET, SO_TIMESTAMPNS, 1);
	socket_set_plain(socket);
	socket_set_buffer(fd, SO_RCVBUFFORCE, SO_RCVBUF, buffer);
	socket_set_buffer(fd, SO_SNDBUFFORCE, SO_SNDBUF, buffer);
	getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &granted, &size);
	socket->receive_buffer = granted < 0 ? 0 : (uint32_t)granted;
	granted = 0;
	size = sizeof(granted);
	socket->segments = !getsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &granted, &size);
}

static int socket_bind_port(int fd, union interface_address *address, socklen_t length,
			    unsigned port)
{
	if (address->any.sa_family == AF_INET6)
		address->in6.sin6_port = htons((uint16_t)port);
	else
		address->in.sin_port = htons((uint16_t)port);
	return bind(fd, &address->any, length);
}

static int socket_bind(int fd, union interface_address *address, socklen_t length,
		       struct socket_ports ports)
{
	unsigned i, count = ports.most - ports.least + 1;

	if (!ports.least)
		return socket_bind_port(fd, address, length, 0) < 0 ? PF_ERR_SYSTEM : PF_OK;
	for (i = 0; i < count; i++) {
		unsigned port = ports.least + (ports.first - ports.least + i) % count;

		if (!socket_bind_port(fd, address, length, port))
			return PF_OK;
		if (errno != EADDRINUSE)
			return PF_ERR_SYSTEM;
	}
	return PF_ERR_AGAIN;
}

static int socket_create(struct socket *result, uint8_t number, int family, uint32_t buffer)
{
	memset(result, 0, sizeof(*result));
	result->number = number;
	result->fd = socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (result->fd < 0)
		return PF_ERR_SYSTEM;
	socket_set_options(result, family == AF_INET6, buffer);
	return PF_OK;
}

/* Return the address and the port of a bound socket. */
static bool socket_own_address(int fd, union interface_address *address, socklen_t *length)
{
	memset(address, 0, sizeof(*address));
	*length = sizeof(*address);
	return !getsockname(fd, &address->any, length);
}

int socket_open(struct socket *result, uint8_t number, const struct interface *interface,
		struct socket_ports ports, uint32_t buffer)
{
	bool version6 = interface->address.any.sa_family == AF_INET6;
	union interface_address address = interface->address;
	socklen_t length = version6 ? sizeof(address.in6) : sizeof(address.in);
	int status = socket_create(result, number, address.any.sa_family, buffer);

	if (status != PF_OK)
		return status;
	status = socket_bind(result->fd, &address, length, ports);
	if (status == PF_OK && !socket_own_address(result->fd, &address, &length))
		status = PF_ERR_SYSTEM;
	if (status != PF_OK) {
		socket_close(result);
		return status;
	}
	result->bound = true;
	result->packet_most = (uint32_t)socket_packet_most(interface);
	result->port = version6 ? address.in6.sin6_port : address.in.sin_port;
	return PF_OK;
}

void socket_open_second(struct socket *second, const struct socket *bound, uint32_t buffer)
{
	union interface_address address;
	socklen_t length;

	if (!socket_own_address(bound->fd, &address, &length) ||
	    socket_create(second, bound->number, address.any.sa_family, buffer) != PF_OK)
		second->fd = -1;
	second->packet_most = bound->packet_most;
}

/*
 * Bind the second socket to the port of the first: both must allow sharing during bind(2).
 * Afterwards both forbid sharing again, and no further process of the user gets the port.
 */
static bool socket_share_port(int second, int bound)
{
	union interface_address own;
	socklen_t length;
	bool done;

	if (!socket_own_address(bound, &own, &length))
		return false;
	socket_set_option(bound, SOL_SOCKET, SO_REUSEPORT, 1);
	socket_set_option(second, SOL_SOCKET, SO_REUSEPORT, 1);
	done = !bind(second, &own.any, length);
	socket_set_option(bound, SOL_SOCKET, SO_REUSEPORT, 0);
	socket_set_option(second, SOL_SOCKET, SO_REUSEPORT, 0);
	return done;
}

bool socket_connect(struct socket *second, const struct socket *bound,
		    const struct net_endpoint *peer)
{
	union interface_address address;
	socklen_t length = endpoint_address(peer, &address);

	second->connected = false;
	if (second->fd < 0)
		return false;
	if (second->bare || second->emptying)
		socket_set_plain(second);
	if (!second->bound)
		second->bound = socket_share_port(second->fd, bound->fd);
	/*
	 * The service thread may be adding the descriptor to epoll, with the kernel's permission;
	 * ThreadSanitizer would take connect() for the creation of the descriptor.
	 */
	if (!second->bound || syscall(SYS_connect, second->fd, &address.any, length) < 0)
		return false;
	second->connected = true;
	second->peer = *peer;
	second->segments = bound->segments;
	return true;
}

void socket_close(struct socket *socket)
{
	if (socket->fd >= 0)
		close(socket->fd);
	socket->fd = -1;
}

/* ---- sending ---- */

static void message_set_segment(struct msghdr *message, union control *control, uint32_t segment)
{
	struct cmsghdr *header = &control->align;
	uint16_t value = (uint16_t)segment;

	message->msg_control = control;
	message->msg_controllen = CMSG_SPACE(sizeof(value));
	header->cmsg_level = IPPROTO_UDP;
	header->cmsg_type = UDP_SEGMENT;
	header->cmsg_len = CMSG_LEN(sizeof(value));
	memcpy(CMSG_DATA(header), &value, sizeof(value));
}

/* Does the error concern the own host alone? Errors of the network are also in the error queue. */
static bool error_is_own(int error)
{
	return error == EAGAIN || error == ENOBUFS || error == ENOMEM || error == EFAULT ||
	       error == EINTR;
}

/*
 * After the network reported an error for an earlier packet, to any peer, the next send fails once.
 * Return whether the error may be a report.
 */
static bool socket_error_is_news(struct socket *socket, int error)
{
	if (!error_is_own(error))
		socket->complaining = true;
	return error == ECONNREFUSED || error == EHOSTUNREACH || error == ENETUNREACH ||
	       error == EACCES || error == EMSGSIZE;
}

/* Note a lost batch: a block by a filter of the own host deserves a complaint. */
static void socket_note_lost(struct socket *socket, const struct net_batch *batch, int error)
{
	if (error != EPERM)
		return;
	socket->filtered = socket->complaining = true;
	socket->filtered_to = batch->to;
}

static enum carrier_stop error_classify(int error, bool segmented)
{
	switch (error) {
	case EAGAIN:
	case ENOBUFS:
	case ENOMEM:
		return CARRIER_FULL;
	case EFAULT:
		return CARRIER_FAULT;
	case EMSGSIZE:
		return CARRIER_TOO_LONG;
	case EINVAL:
		/* The kernel reports segments longer than the interface permits by EINVAL. */
		return segmented ? CARRIER_TOO_LONG : CARRIER_SENT;
	default:
		return CARRIER_SENT;
	}
}

/*
 * Describe the bytes [start, start + length) of count vectors by pieces. Return the number of
 * pieces.
 */
static unsigned vectors_slice(const struct iovec *vectors, unsigned count, uint32_t start,
			      uint32_t length, struct iovec *pieces)
{
	unsigned i, pieces_count = 0;

	for (i = 0; i < count && length; i++) {
		const struct iovec *vector = &vectors[i];
		size_t piece;

		if (start >= vector->iov_len) {
			start -= (uint32_t)vector->iov_len;
			continue;
		}
		piece = vector->iov_len - start < length ? vector->iov_len - start : length;
		pieces[pieces_count++] = (struct iovec){ (char *)vector->iov_base + start, piece };
		length -= (uint32_t)piece;
		start = 0;
	}
	return pieces_count;
}

/* Send a message for each packet, where the system does not cut batches. */
static enum carrier_stop socket_send_packets(struct socket *socket, const struct net_batch *batch)
{
	struct mmsghdr messages[NET_BATCH_MOST];
	struct iovec vectors[NET_BATCH_MOST + 3 * NET_BATCH_MOST], *free = vectors;
	union interface_address address;
	socklen_t length = endpoint_address(&batch->to, &address);
	uint32_t at = 0, size;
	unsigned i, done = 0;
	bool again = true;
	int sent;

	memset(messages, 0, sizeof(messages[0]) * batch->count);
	for (i = 0; i < batch->count; i++, at += size) {
		struct msghdr *message = &messages[i].msg_hdr;

		size = batch->length - at < batch->segment ? batch->length - at : batch->segment;
		message->msg_name = socket->connected ? NULL : &address;
		message->msg_namelen = socket->connected ? 0 : length;
		message->msg_iov = free;
		message->msg_iovlen = vectors_slice(batch->vector, batch->vectors, at, size, free);
		free += message->msg_iovlen;
	}
	while (done < batch->count) {
		sent = socket_call_send(socket->fd, messages + done, batch->count - done);
		if (sent > 0) {
			done += (unsigned)sent;
			again = true;
			continue;
		}
		if (errno == EINTR)
			continue;
		if (socket_error_is_news(socket, errno) && again) {
			again = false;
			continue;
		}
		/*
		 * After some packets went out, the core handles the rest like losses in the
		 * network. But the core must hear of unreadable memory, or would go on and report
		 * the next block.
		 */
		socket_note_lost(socket, batch, errno);
		return done && errno != EFAULT ? CARRIER_SENT : error_classify(errno, false);
	}
	return CARRIER_SENT;
}

unsigned socket_send(struct socket *socket, const struct net_batch *batches, unsigned count,
		     enum carrier_stop *stop)
{
	union interface_address addresses[CARRIER_BATCHES];
	union control controls[CARRIER_BATCHES];
	struct mmsghdr messages[CARRIER_BATCHES];
	unsigned i, done = 0;
	bool again = true;
	int sent;

	*stop = CARRIER_SENT;
	if (count > CARRIER_BATCHES)
		count = CARRIER_BATCHES;
	for (i = 0; i < count; i++) {
		messages[i].msg_hdr = (struct msghdr){
			.msg_iov = (struct iovec *)(uintptr_t)batches[i].vector,
			.msg_iovlen = batches[i].vectors,
		};
		if (!socket->connected) {
			messages[i].msg_hdr.msg_name = &addresses[i];
			messages[i].msg_hdr.msg_namelen = endpoint_address(&batches[i].to,
									   &addresses[i]);
		}
		if (batches[i].count > 1 && socket->segments)
			message_set_segment(&messages[i].msg_hdr, &controls[i], batches[i].segment);
	}
	while (done < count) {
		if (batches[done].count > 1 && !socket->segments) {
			*stop = socket_send_packets(socket, &batches[done]);
			if (*stop != CARRIER_SENT)
				return done;
			done++;
			continue;
		}
		/* Without segments, stop at the next batch to be cut here. */
		for (i = done; i < count && (socket->segments || batches[i].count == 1); i++)
			;
		sent = socket_call_send(socket->fd, messages + done, i - done);
		if (sent > 0) {
			done += (unsigned)sent;
			again = true;
			continue;
		}
		if (errno == EINTR)
			continue;
		if (errno == EIO && batches[done].count > 1) {
			/* An interface without checksums does not cut either. */
			socket->segments = false;
			continue;
		}
		if (socket_error_is_news(socket, errno) && again) {
			again = false;
			continue;
		}
		*stop = error_classify(errno, batches[done].count > 1);
		if (*stop != CARRIER_SENT)
			return done;
		/* A filter or a route refused the batch: the batch is lost. */
		socket_note_lost(socket, &batches[done], errno);
		done++;
		again = true;
	}
	return done;
}

/* ---- receiving ---- */

struct receiver *receiver_create(net_gather_fn gather, void *user)
{
	/* The mapping is big, but pages without use cost nothing. */
	struct receiver *receiver = mmap(NULL, sizeof(*receiver), PROT_READ | PROT_WRITE,
					 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (receiver == MAP_FAILED)
		return NULL;
	receiver->gather = gather;
	receiver->user = user;
	return receiver;
}

void receiver_destroy(struct receiver *receiver)
{
	if (receiver)
		munmap(receiver, sizeof(*receiver));
}

struct received {
	const struct net_endpoint *from;
	uint32_t length, segment;
	uint32_t waited; /* ns */
	uint8_t ecn;
};

/*
 * Return the wait since the system's stamp, ns. A senseless stamp, after the clock was set, counts
 * as none.
 */
static uint32_t control_waited(const struct cmsghdr *header)
{
	struct timespec stamp;
	int64_t time;

	memcpy(&stamp, CMSG_DATA(header), sizeof(stamp));
	time = (int64_t)clock_nanoseconds(CLOCK_REALTIME) - stamp.tv_sec * 1000000000ll -
	       stamp.tv_nsec;
	return time > 0 && time < WAITED_MOST ? (uint32_t)time : 0;
}

static void socket_read_control(struct socket *socket, struct msghdr *message,
				struct received *received)
{
	struct cmsghdr *header;
	int value;

	received->segment = received->length;
	received->waited = 0;
	received->ecn = 0;
	for (header = CMSG_FIRSTHDR(message); header; header = CMSG_NXTHDR(message, header)) {
		if (header->cmsg_level == IPPROTO_IP && header->cmsg_type == IP_TOS) {
			received->ecn = *CMSG_DATA(header) & ECN_MASK;
			continue;
		}
		if (header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_TIMESTAMPNS) {
			received->waited = control_waited(header);
			continue;
		}
		memcpy(&value, CMSG_DATA(header), sizeof(value));
		if (header->cmsg_level == IPPROTO_IPV6 && header->cmsg_type == IPV6_TCLASS)
			received->ecn = (uint8_t)(value & ECN_MASK);
		else if (header->cmsg_level == IPPROTO_UDP && header->cmsg_type == UDP_GRO &&
			 value > 0)
			received->segment = (uint32_t)value;
		else if (header->cmsg_level == SOL_SOCKET && header->cmsg_type == SO_RXQ_OVFL)
			socket->dropped = (uint32_t)value;
	}
	if (received->segment < received->length)
		socket->row = ROW_PACKETS;
}

static struct net_packet *receiver_add_packet(struct receiver *receiver, unsigned *count,
					      const struct received *received)
{
	struct net_packet *packet;

	if (*count == RECEIVE_PACKETS)
		return NULL;
	packet = &receiver->packets[(*count)++];
	packet->payload = NULL;
	packet->payload_length = 0;
	packet->from = received->from;
	packet->waited = received->waited;
	packet->ecn = received->ecn;
	return packet;
}

/*
 * Cut packets lying behind each other in a buffer of RECEIVE_ROOM. All have equal length, except
 * for the last: the kernel gathers only packets of equal length, and the last packet of a transfer
 * may have any length. Each header is moved to an aligned place, for the core. An empty datagram is an
 * empty packet: packets may wait behind it.
 */
static void received_cut(struct receiver *receiver, unsigned *count,
			 const struct received *received, uint8_t *data, uint32_t length)
{
	uint32_t segment = received->segment, stride = (segment + 7) & ~7u, i, last;

	assert_that(length <= RECEIVE_ROOM);
	last = length ? (length - 1) / segment : 0;
	if (last * stride + (length - last * segment) > RECEIVE_ROOM)
		last = (RECEIVE_ROOM - segment) / stride;
	for (i = last; i && stride != segment; i--)
		memmove(data + i * stride, data + i * segment,
			length - i * segment < segment ? length - i * segment : segment);
	for (i = 0; i <= last; i++) {
		struct net_packet *packet = receiver_add_packet(receiver, count, received);

		if (!packet)
			return;
		packet->header = data + i * stride;
		packet->header_length = length - i * segment < segment ? length - i * segment :
									 segment;
	}
}

static void message_prepare(struct mmsghdr *message, union interface_address *address,
			    union control *control, struct iovec *vectors, size_t count)
{
	message->msg_hdr = (struct msghdr){
		.msg_name = address,
		.msg_namelen = sizeof(*address),
		.msg_iov = vectors,
		.msg_iovlen = count,
		.msg_control = control,
		.msg_controllen = sizeof(*control),
	};
}

/* Note the number of datagrams received, or 0. socket_read_control notes gathered datagrams. */
static void socket_note_row(struct socket *socket, int received)
{
	if (received > 0) {
		socket->row = (uint8_t)(socket->row + received < ROW_PACKETS ?
						socket->row + received :
						ROW_PACKETS);
		if (socket->bare && socket->row == ROW_PACKETS)
			socket_set_plain(socket);
		return;
	}
	if (socket->row > 1)
		socket->lone = 0;
	else if (socket->row && !socket->bare && ++socket->lone == LONE_PACKETS)
		socket_start_emptying(socket);
	socket->row = 0;
}

/* Receive. A negative result means nothing, for the reason in errno. */
static int socket_receive_messages(struct socket *socket, struct mmsghdr *messages, unsigned count)
{
	bool bare = socket->bare;
	int received;

	do {
		received = socket_call_receive(socket->fd, messages, count);
	} while (received < 0 && errno == EINTR);
	if (received < 0 && !error_is_own(errno))
		socket->complaining = true;
	if (socket->connected)
		socket_note_row(socket, received);
	/*
	 * A datagram longer than a packet was gathered nevertheless, and nothing tells where to
	 * cut. Treat the datagram as lost.
	 */
	if (bare && received > 0 && messages[0].msg_len > socket->packet_most) {
		socket_set_plain(socket);
		errno = EAGAIN;
		return -1;
	}
	return received;
}

static int socket_receive_bare(struct socket *socket, struct receiver *receiver)
{
	struct iovec vector = { receiver->buffers[0], RECEIVE_BYTES };
	struct mmsghdr message = { .msg_hdr = { .msg_iov = &vector, .msg_iovlen = 1 } };
	struct received received = { .from = &socket->peer };
	union control control;
	unsigned count = 0;

	if (receiver->late) {
		message.msg_hdr.msg_control = &control;
		message.msg_hdr.msg_controllen = sizeof(control);
	}
	if (socket_receive_messages(socket, &message, 1) <= 0)
		return 0;
	received.length = message.msg_len;
	socket_read_control(socket, &message.msg_hdr, &received);
	received_cut(receiver, &count, &received, receiver->buffers[0], received.length);
	return (int)count;
}

static int socket_receive_plain(struct socket *socket, struct receiver *receiver, unsigned most)
{
	union interface_address addresses[RECEIVE_MESSAGES];
	union control controls[RECEIVE_MESSAGES];
	struct mmsghdr messages[RECEIVE_MESSAGES];
	struct iovec vectors[RECEIVE_MESSAGES];
	struct received received;
	unsigned i, count = 0;
	int messages_received;

	if (most > RECEIVE_MESSAGES)
		most = RECEIVE_MESSAGES;
	for (i = 0; i < most; i++) {
		vectors[i] = (struct iovec){ receiver->buffers[i], RECEIVE_BYTES };
		message_prepare(&messages[i], &addresses[i], &controls[i], &vectors[i], 1);
	}
	messages_received = socket_receive_messages(socket, messages, most);
	for (i = 0; i < most && (int)i < messages_received; i++) {
		endpoint_make(&receiver->from[i], socket->number, &addresses[i]);
		received.from = &receiver->from[i];
		received.length = messages[i].msg_len;
		socket_read_control(socket, &messages[i].msg_hdr, &received);
		received_cut(receiver, &count, &received, receiver->buffers[i], received.length);
	}
	return (int)count;
}

static int socket_receive_predicted(struct socket *socket, struct receiver *receiver,
				    const struct net_place *places, unsigned places_count,
				    uint32_t header)
{
	struct iovec vectors[2 * NET_BATCH_MOST + 1], pieces[2 * NET_BATCH_MOST + 1];
	union interface_address address;
	struct received received;
	struct mmsghdr message;
	union control control;
	unsigned i, count = 0;
	uint32_t at = 0, size;
	int status;

	if (places_count > NET_BATCH_MOST)
		places_count = NET_BATCH_MOST;
	for (i = 0; i < places_count; i++) {
		vectors[2 * i] = (struct iovec){ receiver->headers[i], header };
		vectors[2 * i + 1] = (struct iovec){ places[i].address, places[i].length };
	}
	vectors[2 * i] = (struct iovec){ receiver->buffers[0], RECEIVE_BYTES };
	message_prepare(&message, &address, &control, vectors, 2 * places_count + 1);
	status = socket_receive_messages(socket, &message, 1);
	if (status <= 0)
		return status < 0 && errno == EFAULT ? PF_ERR_FAULT : 0;
	endpoint_make(&receiver->from[0], socket->number, &address);
	received.from = &receiver->from[0];
	received.length = message.msg_len;
	socket_read_control(socket, &message.msg_hdr, &received);

	for (i = 0; i < places_count && (!i || at < received.length); i++, at += size) {
		uint32_t room = header + places[i].length;
		struct net_packet *packet;

		size = received.length - at < received.segment ? received.length - at :
								 received.segment;
		/* The packet is not the predicted packet, and the next packet starts elsewhere. */
		if (size > room || (size < room && at + size < received.length))
			break;
		packet = receiver_add_packet(receiver, &count, &received);
		packet->header = receiver->headers[i];
		packet->header_length = size < header ? size : header;
		packet->payload = places[i].address;
		packet->payload_length = size - packet->header_length;
	}
	if (at >= received.length)
		return (int)count;
	if (i == places_count) {
		received_cut(receiver, &count, &received, receiver->buffers[0],
			     received.length - at);
		return (int)count;
	}
	i = vectors_slice(vectors, 2 * places_count + 1, at, received.length - at, pieces);
	if (!receiver->gather(receiver->user, pieces, i, receiver->gathered))
		return PF_ERR_FAULT;
	received_cut(receiver, &count, &received, receiver->gathered, received.length - at);
	return (int)count;
}

int socket_receive(struct socket *socket, struct receiver *receiver, unsigned most,
		   const struct net_place *places, unsigned count, uint32_t header)
{
	assert_that(header % 8 == 0);
	assert_that(!socket->emptying || socket->connected);
	if (socket->emptying && socket_become_bare(socket))
		return 0;
	if (count && header <= PREDICT_HEADER_MOST)
		return socket_receive_predicted(socket, receiver, places, count, header);
	return socket->bare ? socket_receive_bare(socket, receiver) :
			      socket_receive_plain(socket, receiver, most);
}

/* ---- reports of the network ---- */

/* Does the ICMP message tell of a filter that prohibits packets? RFC 792, RFC 1812, RFC 4443. */
static bool error_is_prohibited(const struct sock_extended_err *error)
{
	if (error->ee_origin == SO_EE_ORIGIN_ICMP && error->ee_type == ICMP_DEST_UNREACH)
		return error->ee_code == ICMP_NET_ANO || error->ee_code == ICMP_HOST_ANO ||
		       error->ee_code == ICMP_PKT_FILTERED;
	if (error->ee_origin == SO_EE_ORIGIN_ICMP6 && error->ee_type == ICMPV6_DEST_UNREACH)
		return error->ee_code == ICMPV6_ADM_PROHIBITED ||
		       error->ee_code == ICMPV6_POLICY_FAIL ||
		       error->ee_code == ICMPV6_REJECT_ROUTE;
	return false;
}

static bool complaint_parse(const struct socket *socket, struct msghdr *message,
			    struct carrier_report *report)
{
	struct sock_extended_err error;
	struct cmsghdr *header;
	uint32_t headers;

	for (header = CMSG_FIRSTHDR(message); header; header = CMSG_NXTHDR(message, header)) {
		if (header->cmsg_level == IPPROTO_IP && header->cmsg_type == IP_RECVERR)
			headers = 28;
		else if (header->cmsg_level == IPPROTO_IPV6 && header->cmsg_type == IPV6_RECVERR)
			headers = 48;
		else
			continue;
		memcpy(&error, CMSG_DATA(header), sizeof(error));
		endpoint_make(&report->to, socket->number, message->msg_name);
		report->refusal = error_is_prohibited(&error) ? NET_REFUSED_FILTER :
								NET_REFUSED_PORT;
		report->refused = error.ee_errno == ECONNREFUSED ||
				  report->refusal == NET_REFUSED_FILTER;
		report->most = error.ee_errno == EMSGSIZE && error.ee_info > headers ?
				       error.ee_info - headers :
				       0;
		return report->refused || report->most;
	}
	return false;
}

bool socket_complaint(struct socket *socket, struct carrier_report *report)
{
	union interface_address address;
	uint64_t control[512 / sizeof(uint64_t)];
	uint8_t data[64];
	struct iovec vector = { data, sizeof(data) };

	if (socket->filtered) {
		socket->filtered = false;
		*report = (struct carrier_report){ .to = socket->filtered_to,
						   .refused = true,
						   .refusal = NET_REFUSED_HERE };
		return true;
	}
	for (;;) {
		struct msghdr message = {
			.msg_name = &address,
			.msg_namelen = sizeof(address),
			.msg_iov = &vector,
			.msg_iovlen = 1,
			.msg_control = control,
			.msg_controllen = sizeof(control),
		};

		if (recvmsg(socket->fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) {
			socket->complaining = false;
			return false;
		}
		if (message.msg_namelen && complaint_parse(socket, &message, report))
			return true;
	}
}

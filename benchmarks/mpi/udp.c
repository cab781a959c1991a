/* SPDX-License-Identifier: BSD-3-Clause */
#include "udp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/sock_diag.h>
#include <linux/udp.h>
#include <mpi.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sample.h"

/* Length of the headers of IPv4, without options, and of UDP, bytes. */
#define HEADER_BYTES (20 + 8)
/* Most packets of one call with UDP_SEGMENT: UDP_MAX_SEGMENTS of Linux 4.18 to 6.8. */
#define SEGMENTS_MOST 64
/* Most bytes of one call: an IPv4 packet before segmentation has at most 65535. */
#define CALL_MOST 65000
/* Most pieces of messages in one call: whole messages of a segment, or parts of longer ones. */
#define PIECES_MOST (SEGMENTS_MOST + 2)
/* Most bytes under way from one rank to the other in udp_stream, with the charge for each packet. */
#define FLIGHT_MOST (2 << 20)
/* Acknowledgements for so many bytes under way. */
#define ACKNOWLEDGEMENTS 4
/*
 * At least half of what a packet takes of a socket's buffer is its length and MORE, or LEAST
 * (wire_charge in libpf/protocol/wire.h tells how this was measured). Linux gives a socket twice the
 * buffer that was asked for.
 */
#define CHARGE_MORE 512
#define CHARGE_LEAST 1152
/* Wanted length of the socket buffers, bytes: twice the longest message of a default run. */
#define BUFFER_BYTES (8 << 20)
/* A message is lost if nothing of it arrives for this time, s: the round trip of any network. */
#define TIMEOUT 0.1
/* Empty polls between two looks at the clock. */
#define POLLS_PER_LOOK 256
/* Attempts to get one round through. */
#define ATTEMPTS_MOST 20

struct udp {
	int fd, rank;
	struct sockaddr_in own, peer;
	size_t segment;  /* most bytes in one packet */
	int restarts;    /* rounds that were started again */
	uint32_t drops;  /* datagrams without room in the buffers of earlier sockets */
	uint64_t flight; /* most bytes under way, charges included */
};

/* A wait for the socket. */
struct wait {
	unsigned polls; /* that found nothing, since the last progress */
	double since;   /* time of the first of them, s */
};

/* What the receiver of a stream tells its sender. */
struct acknowledgement {
	uint64_t bytes; /* that arrived in this round */
	int32_t round;
};

typedef bool round_function(const struct udp *udp, const struct udp_messages *messages, int number,
			    struct wait *wait);

/* Note that the socket was not ready. True if it was not for TIMEOUT. */
static bool expired(struct wait *wait)
{
	double now;

	if (wait->polls++ % POLLS_PER_LOOK)
		return false;
	now = sample_seconds();
	if (wait->polls == 1)
		wait->since = now;
	return now - wait->since > TIMEOUT;
}

static const char *text_of(const struct sockaddr_in *address, char *text)
{
	return inet_ntop(AF_INET, &address->sin_addr, text, INET_ADDRSTRLEN);
}

static void fail(const struct udp *udp, const char *what, const char *why)
{
	char own[INET_ADDRSTRLEN], peer[INET_ADDRSTRLEN];

	fprintf(stderr, "rank %d: UDP from %s to %s: %s: %s\n", udp->rank, text_of(&udp->own, own),
		text_of(&udp->peer, peer), what, why);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Most bytes of one call with packets of so many: whole packets. */
static size_t call_most(size_t segment)
{
	size_t segments = CALL_MOST / segment;

	return segment * (segments < SEGMENTS_MOST ? segments : SEGMENTS_MOST);
}

/* Send pieces of length bytes in packets of segment bytes. False if the socket does not take them. */
static bool send_call(const struct udp *udp, struct iovec *pieces, size_t count, size_t length,
		      size_t segment, struct wait *wait)
{
	union {
		char space[CMSG_SPACE(sizeof(uint16_t))];
		struct cmsghdr header;
	} control = { .header = { .cmsg_len = CMSG_LEN(sizeof(uint16_t)),
				  .cmsg_level = IPPROTO_UDP,
				  .cmsg_type = UDP_SEGMENT } };
	const uint16_t value = (uint16_t)segment;
	struct msghdr message = { .msg_iov = pieces, .msg_iovlen = count };

	memcpy(CMSG_DATA(&control.header), &value, sizeof(value));
	message.msg_control = length > segment ? &control : NULL;
	message.msg_controllen = message.msg_control ? sizeof(control.space) : 0;
	while (sendmsg(udp->fd, &message, 0) < 0) {
		if (errno != EAGAIN && errno != ENOBUFS && errno != EINTR)
			fail(udp, "sendmsg", strerror(errno));
		if (expired(wait))
			return false;
	}
	wait->polls = 0;
	return true;
}

/* Returns the bytes that arrived; or -1 if none do, or more than the pieces hold. */
static ssize_t receive_call(const struct udp *udp, struct iovec *pieces, size_t count,
			    struct wait *wait)
{
	struct msghdr message = { .msg_iov = pieces, .msg_iovlen = count };
	ssize_t length;

	while ((length = recvmsg(udp->fd, &message, 0)) < 0) {
		if (errno != EAGAIN && errno != EINTR)
			fail(udp, "recvmsg", strerror(errno));
		if (expired(wait))
			return -1;
	}
	wait->polls = 0;
	return message.msg_flags & MSG_TRUNC ? -1 : length;
}

static bool send_message(const struct udp *udp, const struct udp_messages *messages,
			 struct wait *wait)
{
	const size_t most = call_most(udp->segment);
	struct iovec part = { .iov_base = (char *)messages->send };
	size_t rest = messages->size;

	/* An empty message is a packet, too. */
	do {
		part.iov_len = rest < most ? rest : most;
		if (!send_call(udp, &part, 1, part.iov_len, udp->segment, wait))
			return false;
		part.iov_base = (char *)part.iov_base + part.iov_len;
		rest -= part.iov_len;
	} while (rest > 0);
	return true;
}

/* Returns false if it does not arrive, or if something else does. */
static bool receive_message(const struct udp *udp, const struct udp_messages *messages,
			    struct wait *wait)
{
	struct iovec part = { .iov_base = messages->receive, .iov_len = messages->size };
	ssize_t length;

	do {
		length = receive_call(udp, &part, 1, wait);
		if (length < 0)
			return false;
		part.iov_base = (char *)part.iov_base + length;
		part.iov_len -= (size_t)length;
	} while (part.iov_len > 0);
	return true;
}

static bool ping_pong(const struct udp *udp, const struct udp_messages *messages, int number,
		      struct wait *wait)
{
	return (udp->rank == 1 || send_message(udp, messages, wait)) &&
	       receive_message(udp, messages, wait) &&
	       (udp->rank == 0 || send_message(udp, messages, wait));
}

/* Make the pieces of at most length bytes of the stream, from a byte on. Returns their number. */
static size_t cut(const struct udp_messages *messages, char *buffer, size_t from, size_t length,
		  struct iovec pieces[PIECES_MOST])
{
	size_t index = from / messages->size, offset = from % messages->size, rest, count;

	for (count = 0; length > 0 && count < PIECES_MOST; count++) {
		rest = messages->size - offset;
		rest = rest < length ? rest : length;
		pieces[count].iov_base = buffer + index++ * messages->stride + offset;
		pieces[count].iov_len = rest;
		length -= rest;
		offset = 0;
	}
	return count;
}

/* Most bytes under way in packets of so many: at least one packet. */
static size_t flight_most(const struct udp *udp, size_t segment)
{
	size_t charge = segment + CHARGE_MORE;
	size_t packets = udp->flight / (charge > CHARGE_LEAST ? charge : CHARGE_LEAST);

	return segment * (packets ? packets : 1);
}

/* Returns false if no acknowledgement comes. */
static bool await_acknowledgement(const struct udp *udp, int number, size_t *arrived,
				  struct wait *wait)
{
	struct acknowledgement acknowledgement;
	struct iovec piece = { .iov_base = &acknowledgement, .iov_len = sizeof(acknowledgement) };

	if (receive_call(udp, &piece, 1, wait) != (ssize_t)sizeof(acknowledgement))
		return false;
	/* The network may have changed their order. */
	if (acknowledgement.round == number && acknowledgement.bytes > *arrived)
		*arrived = (size_t)acknowledgement.bytes;
	return true;
}

static bool send_stream(const struct udp *udp, const struct udp_messages *messages, size_t segment,
			int number, struct wait *wait)
{
	const size_t total = messages->size * (size_t)messages->count;
	const size_t flight = flight_most(udp, segment), most = call_most(segment);
	size_t sent = 0, arrived = 0, length, count;
	struct iovec pieces[PIECES_MOST];

	while (arrived < total) {
		length = total - sent < most ? total - sent : most;
		length = length < flight ? length : flight;
		if (!length || sent + length - arrived > flight) {
			if (!await_acknowledgement(udp, number, &arrived, wait))
				return false;
			continue;
		}
		count = cut(messages, (char *)messages->send, sent, length, pieces);
		if (!send_call(udp, pieces, count, length, segment, wait))
			return false;
		sent += length;
	}
	return true;
}

static bool receive_stream(const struct udp *udp, const struct udp_messages *messages,
			   size_t segment, int number, struct wait *wait)
{
	const size_t total = messages->size * (size_t)messages->count;
	const size_t step = flight_most(udp, segment) / ACKNOWLEDGEMENTS;
	size_t arrived = 0, told = 0, count;
	struct iovec pieces[PIECES_MOST];
	ssize_t length;

	while (arrived < total) {
		struct acknowledgement acknowledgement = { .round = number };
		struct iovec piece = { &acknowledgement, sizeof(acknowledgement) };

		/* With UDP_GRO as much as one call sends, and not more than that. */
		count = cut(messages, messages->receive, arrived, total - arrived, pieces);
		length = receive_call(udp, pieces, count, wait);
		if (length < 0)
			return false;
		arrived += (size_t)length;
		if (arrived < total && arrived - told < step)
			continue;
		told = arrived;
		acknowledgement.bytes = arrived;
		if (!send_call(udp, &piece, 1, sizeof(acknowledgement), udp->segment, wait))
			return false;
	}
	return true;
}

static bool stream(const struct udp *udp, const struct udp_messages *messages, int number,
		   struct wait *wait)
{
	size_t segment = messages->size < udp->segment ? messages->size : udp->segment;

	/* Messages without a byte are no stream. */
	return !segment || (udp->rank == 0 ? send_stream : receive_stream)(udp, messages, segment,
									   number, wait);
}

/* Do the rounds from next on. Returns the first that is incomplete; adds the time of the others. */
static int attempt(const struct udp *udp, round_function *round,
		   const struct udp_messages *messages, int next, int repeats, double *seconds)
{
	double start = sample_seconds(), end;

	for (; next < repeats; next++) {
		struct wait wait = { 0 };

		if (!round(udp, messages, next, &wait))
			break;
		end = sample_seconds();
		*seconds += end - start;
		start = end;
	}
	return next;
}

void udp_describe(const struct udp *udp)
{
	char own[INET_ADDRSTRLEN], peer[INET_ADDRSTRLEN];

	printf("# Connected UDP sockets of %s and %s, %zu bytes a packet, without MPI\n",
	       text_of(&udp->own, own), text_of(&udp->peer, peer), udp->segment);
}

/* Set own to the first address of an interface to other hosts, or else that of the loopback. */
static bool find_address(struct sockaddr_in *own)
{
	struct ifaddrs *all, *each;
	bool found = false;

	if (getifaddrs(&all))
		return false;
	for (each = all; each; each = each->ifa_next) {
		bool loopback = each->ifa_flags & IFF_LOOPBACK;

		if (!each->ifa_addr || each->ifa_addr->sa_family != AF_INET ||
		    !(each->ifa_flags & IFF_RUNNING) || (found && loopback))
			continue;
		memcpy(own, each->ifa_addr, sizeof(*own));
		found = true;
		if (!loopback)
			break;
	}
	freeifaddrs(all);
	return found;
}

static void enlarge(int fd, int forced, int option)
{
	const int bytes = BUFFER_BYTES;

	/* Beyond the limit of the system only with CAP_NET_ADMIN; less is no error. */
	if (setsockopt(fd, SOL_SOCKET, forced, &bytes, sizeof(bytes)))
		(void)setsockopt(fd, SOL_SOCKET, option, &bytes, sizeof(bytes));
}

static const char *open_socket(struct udp *udp)
{
	socklen_t length = sizeof(udp->own), size = sizeof(int);
	const int yes = 1;
	int granted = 0;

	if (!find_address(&udp->own))
		return "no network interface has an IPv4 address";
	udp->own.sin_port = 0;
	udp->fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (udp->fd < 0 || bind(udp->fd, (struct sockaddr *)&udp->own, sizeof(udp->own)) ||
	    getsockname(udp->fd, (struct sockaddr *)&udp->own, &length))
		return "cannot open a UDP socket";
	/* A kernel without it delivers one packet a call. */
	(void)setsockopt(udp->fd, IPPROTO_UDP, UDP_GRO, &yes, sizeof(yes));
	enlarge(udp->fd, SO_RCVBUFFORCE, SO_RCVBUF);
	enlarge(udp->fd, SO_SNDBUFFORCE, SO_SNDBUF);
	if (getsockopt(udp->fd, SOL_SOCKET, SO_RCVBUF, &granted, &size))
		return "cannot find the length of a socket's buffer";
	udp->flight = (size_t)granted / 2 < FLIGHT_MOST ? (size_t)granted / 2 : FLIGHT_MOST;
	return NULL;
}

/*
 * A connected socket is the faster one: the kernel keeps its route, while it
 * looks one up for every packet that an unconnected socket sends or receives.
 */
static const char *connect_socket(struct udp *udp)
{
	int mtu = 0;
	socklen_t length = sizeof(mtu);

	if (connect(udp->fd, (struct sockaddr *)&udp->peer, sizeof(udp->peer)))
		return "cannot connect the UDP sockets: is there a route between the hosts?";
	if (getsockopt(udp->fd, IPPROTO_IP, IP_MTU, &mtu, &length) || mtu <= HEADER_BYTES)
		return "cannot find the MTU between the hosts";
	udp->segment = (size_t)mtu - HEADER_BYTES;
	if (udp->segment > CALL_MOST)
		udp->segment = CALL_MOST;
	return NULL;
}

/* Returns the error of either rank. */
static const char *agree(const char *error)
{
	int wrong = error != NULL;

	MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
	return wrong && !error ? "rank 1 cannot use UDP" : error;
}

/* Open a socket in each rank, and connect the two. Returns the error of either rank. */
static const char *open_sockets(struct udp *udp)
{
	const char *error = agree(open_socket(udp));

	if (error)
		return error;
	MPI_Sendrecv(&udp->own, sizeof(udp->own), MPI_BYTE, 1 - udp->rank, 0, &udp->peer,
		     sizeof(udp->peer), MPI_BYTE, 1 - udp->rank, 0, MPI_COMM_WORLD,
		     MPI_STATUS_IGNORE);
	error = agree(connect_socket(udp));
	if (error)
		return error;
	MPI_Allreduce(MPI_IN_PLACE, &udp->flight, 1, MPI_UINT64_T, MPI_MIN, MPI_COMM_WORLD);
	/* A packet to a socket that is not yet connected to its sender would be accepted, too. */
	MPI_Barrier(MPI_COMM_WORLD);
	return NULL;
}

/* Number of datagrams that did not fit into the socket's buffer. */
static uint32_t drops_count(const struct udp *udp)
{
	uint32_t values[SK_MEMINFO_VARS] = { 0 };
	socklen_t length = sizeof(values);

	if (getsockopt(udp->fd, SOL_SOCKET, SO_MEMINFO, values, &length))
		return 0;
	return values[SK_MEMINFO_DROPS];
}

/*
 * Take new sockets: what a round has left in the network and in the sockets reaches these ports no
 * more, however late.
 */
static void renew_sockets(struct udp *udp)
{
	const int before = udp->fd;
	const char *error;

	/* Nobody sends to the old ports any more. */
	MPI_Barrier(MPI_COMM_WORLD);
	udp->drops += drops_count(udp);
	error = open_sockets(udp);
	if (error)
		fail(udp, "cannot start a round again", error);
	close(before);
}

/*
 * Rank 1 can be one round ahead of rank 0: if what it sent last was lost. So
 * rank 0 decides where both continue. Both get there: a rank that waits leaves
 * attempt() after TIMEOUT.
 */
static double do_rounds(struct udp *udp, round_function *round, const struct udp_messages *messages,
			int repeats)
{
	int next = 0, previous, attempts = 0;
	double seconds = 0;
	char text[128];

	for (;;) {
		previous = next;
		next = attempt(udp, round, messages, next, repeats, &seconds);
		MPI_Bcast(&next, 1, MPI_INT, 0, MPI_COMM_WORLD);
		if (next == repeats)
			return seconds;
		attempts = next == previous ? attempts + 1 : 1;
		udp->restarts++;
		if (attempts == ATTEMPTS_MOST && udp->rank == 0) {
			snprintf(text, sizeof(text), "packets of a message of %zu bytes were lost",
				 messages->size);
			fail(udp, text,
			     "let UDP pass between these addresses, raise net.core.rmem_max, or "
			     "lower MAX of -m");
		}
		renew_sockets(udp);
	}
}

double udp_ping_pong(struct udp *udp, const struct udp_messages *messages, int repeats)
{
	return do_rounds(udp, ping_pong, messages, repeats);
}

double udp_stream(struct udp *udp, const struct udp_messages *messages, int repeats)
{
	return do_rounds(udp, stream, messages, repeats);
}

struct udp *udp_open(int rank, const char **error)
{
	struct udp *udp = calloc(1, sizeof(*udp));

	*error = agree(udp ? NULL : "not enough memory");
	if (udp) {
		udp->fd = -1;
		udp->rank = rank;
		if (!*error)
			*error = open_sockets(udp);
		if (!*error)
			return udp;
		if (udp->fd >= 0)
			close(udp->fd);
	}
	free(udp);
	return NULL;
}

void udp_close(struct udp *udp)
{
	uint32_t drops = udp->drops + drops_count(udp);

	MPI_Allreduce(MPI_IN_PLACE, &drops, 1, MPI_UINT32_T, MPI_SUM, MPI_COMM_WORLD);
	/* Without drops: on the way, or a rank got no processor for TIMEOUT. */
	if (udp->rank == 0 && udp->restarts)
		fprintf(stderr,
			"UDP packets were lost: %d rounds were started again, %u packets found no "
			"room in a socket's buffer\n",
			udp->restarts, drops);
	close(udp->fd);
	free(udp);
}

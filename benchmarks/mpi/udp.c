/* SPDX-License-Identifier: BSD-3-Clause */
#include "udp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <mpi.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sample.h"

/* Older C libraries do not have them; the values are those of <linux/udp.h>. */
#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

/* Length of the headers of IPv4, without options, and of UDP, bytes. */
#define HEADER_BYTES (20 + 8)
/* Most packets of one call with UDP_SEGMENT: UDP_MAX_SEGMENTS of Linux 4.18 to 6.8. */
#define SEGMENTS_MOST 64
/* Most bytes of one call: an IPv4 packet before segmentation has at most 65535. */
#define CALL_MOST 65000
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
	size_t segment; /* bytes of a message in one packet */
	size_t call;    /* bytes of a message in one call of sendmsg: whole segments */
	int restarts;   /* rounds that were started again */
};

/* A wait for the socket. */
struct wait {
	unsigned polls; /* that found nothing, since the last progress */
	double since;   /* time of the first of them, s */
	double first;   /* time of the first one of this round, s, or 0 */
};

/* Note that the socket was not ready. True if it was not for TIMEOUT. */
static bool expired(struct wait *wait)
{
	double now;

	if (wait->polls++ % POLLS_PER_LOOK)
		return false;
	now = sample_seconds();
	if (wait->polls == 1)
		wait->since = now;
	if (wait->first == 0)
		wait->first = now;
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

/* Returns false if the socket does not take it. */
static bool send_message(const struct udp *udp, const char *data, size_t size, struct wait *wait)
{
	union {
		char space[CMSG_SPACE(sizeof(uint16_t))];
		struct cmsghdr header;
	} control = { .header = { .cmsg_len = CMSG_LEN(sizeof(uint16_t)),
				  .cmsg_level = IPPROTO_UDP,
				  .cmsg_type = UDP_SEGMENT } };
	const uint16_t segment = (uint16_t)udp->segment;
	struct iovec part = { .iov_base = (char *)data };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };

	memcpy(CMSG_DATA(&control.header), &segment, sizeof(segment));
	/* An empty message is a packet, too. */
	do {
		part.iov_len = size < udp->call ? size : udp->call;
		message.msg_control = part.iov_len > udp->segment ? &control : NULL;
		message.msg_controllen = message.msg_control ? sizeof(control.space) : 0;
		if (sendmsg(udp->fd, &message, 0) >= 0) {
			part.iov_base = (char *)part.iov_base + part.iov_len;
			size -= part.iov_len;
			wait->polls = 0;
		} else if (errno != EAGAIN && errno != ENOBUFS && errno != EINTR) {
			fail(udp, "sendmsg", strerror(errno));
		} else if (expired(wait)) {
			return false;
		}
	} while (size > 0);
	return true;
}

/* Returns false if it does not arrive, or if something else does. */
static bool receive_message(const struct udp *udp, char *data, size_t size, struct wait *wait)
{
	struct iovec part = { .iov_base = data, .iov_len = size };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
	ssize_t length;

	do {
		length = recvmsg(udp->fd, &message, 0);
		if (length >= 0) {
			if (message.msg_flags & MSG_TRUNC)
				return false;
			part.iov_base = (char *)part.iov_base + length;
			part.iov_len -= (size_t)length;
			wait->polls = 0;
		} else if (errno != EAGAIN && errno != EINTR) {
			fail(udp, "recvmsg", strerror(errno));
		} else if (expired(wait)) {
			return false;
		}
	} while (length < 0 || part.iov_len > 0);
	return true;
}

/* Discard what arrives, until nothing does any more. */
static void drain(const struct udp *udp)
{
	struct wait wait = { 0 };
	char byte;

	while (!expired(&wait))
		if (recv(udp->fd, &byte, sizeof(byte), 0) >= 0)
			wait.polls = 0;
}

/* Do the rounds from next on. Returns the first that is incomplete; adds the time of the others. */
static int attempt(const struct udp *udp, const char *send, char *receive, size_t size, int next,
		   int repeats, double *seconds)
{
	double start = sample_seconds();

	for (; next < repeats; next++) {
		struct wait wait = { 0 };

		if ((udp->rank == 0 && !send_message(udp, send, size, &wait)) ||
		    !receive_message(udp, receive, size, &wait) ||
		    (udp->rank == 1 && !send_message(udp, send, size, &wait))) {
			/* It began before its first empty poll, by about the time to send. */
			*seconds += (wait.first > 0 ? wait.first : sample_seconds()) - start;
			return next;
		}
	}
	*seconds += sample_seconds() - start;
	return next;
}

/*
 * Rank 1 can be one round ahead of rank 0: if the last message back was lost. So
 * rank 0 decides where both continue. Both get there: a rank without its message
 * leaves attempt() after TIMEOUT. What the round has left in the network and in
 * the sockets is discarded before either rank sends again.
 */
double udp_ping_pong(struct udp *udp, const char *send, char *receive, size_t size, int repeats)
{
	int next = 0, previous, attempts = 0;
	double seconds = 0;
	char text[128];

	for (;;) {
		previous = next;
		next = attempt(udp, send, receive, size, next, repeats, &seconds);
		MPI_Bcast(&next, 1, MPI_INT, 0, MPI_COMM_WORLD);
		if (next == repeats)
			return seconds;
		attempts = next == previous ? attempts + 1 : 1;
		udp->restarts++;
		if (attempts == ATTEMPTS_MOST && udp->rank == 0) {
			snprintf(text, sizeof(text), "packets of a message of %zu bytes were lost",
				 size);
			fail(udp, text,
			     "let UDP pass between these addresses, raise net.core.rmem_max, or "
			     "lower MAX of -m");
		}
		drain(udp);
		MPI_Barrier(MPI_COMM_WORLD);
	}
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
	socklen_t length = sizeof(udp->own);
	const int yes = 1;

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
	size_t segments;

	if (connect(udp->fd, (struct sockaddr *)&udp->peer, sizeof(udp->peer)))
		return "cannot connect the UDP sockets: is there a route between the hosts?";
	if (getsockopt(udp->fd, IPPROTO_IP, IP_MTU, &mtu, &length) || mtu <= HEADER_BYTES)
		return "cannot find the MTU between the hosts";
	udp->segment = (size_t)mtu - HEADER_BYTES;
	if (udp->segment > CALL_MOST)
		udp->segment = CALL_MOST;
	segments = CALL_MOST / udp->segment;
	udp->call = udp->segment * (segments < SEGMENTS_MOST ? segments : SEGMENTS_MOST);
	return NULL;
}

/* Returns the error of either rank. */
static const char *agree(const char *error)
{
	int wrong = error != NULL;

	MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
	return wrong && !error ? "rank 1 cannot use UDP" : error;
}

struct udp *udp_open(int rank, const char **error)
{
	struct udp *udp = calloc(1, sizeof(*udp));

	*error = "not enough memory";
	if (udp) {
		udp->fd = -1;
		udp->rank = rank;
		*error = open_socket(udp);
	}
	*error = agree(*error);
	if (*error)
		goto failed;
	MPI_Sendrecv(&udp->own, sizeof(udp->own), MPI_BYTE, 1 - rank, 0, &udp->peer,
		     sizeof(udp->peer), MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	*error = agree(connect_socket(udp));
	if (*error)
		goto failed;
	/* A packet to a socket that is not yet connected to its sender would be accepted, too. */
	MPI_Barrier(MPI_COMM_WORLD);
	return udp;
failed:
	if (udp && udp->fd >= 0)
		close(udp->fd);
	free(udp);
	return NULL;
}

void udp_close(struct udp *udp)
{
	if (udp->rank == 0 && udp->restarts)
		fprintf(stderr, "UDP packets were lost: %d rounds were started again\n",
			udp->restarts);
	close(udp->fd);
	free(udp);
}

// SPDX-License-Identifier: GPL-2.0
#include "link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BUFFER_BYTES (8 << 20) /* of the socket: all blocks that an engine has outstanding, twice */

struct link_packet {
	STAILQ_ENTRY(link_packet) link;
	uint64_t due;
	const struct link_peer *peer;
	size_t length;
	uint8_t bytes[];
};

static bool parse_udp(const char *text, union link_address *address, socklen_t *length)
{
	const char *colon = strrchr(text, ':');
	char host[INET_ADDRSTRLEN];
	unsigned long port;
	char *end;

	errno = EINVAL;
	if (!colon || (size_t)(colon - text) >= sizeof(host))
		return false;
	memcpy(host, text, (size_t)(colon - text));
	host[colon - text] = 0;
	port = strtoul(colon + 1, &end, 10);
	if (*end || !port || port > UINT16_MAX ||
	    inet_pton(AF_INET, host, &address->in.sin_addr) != 1)
		return false;
	address->in.sin_family = AF_INET;
	address->in.sin_port = htons((uint16_t)port);
	*length = sizeof(address->in);
	return true;
}

static bool parse(const char *text, union link_address *address, socklen_t *length)
{
	memset(address, 0, sizeof(*address));
	if (!strncmp(text, "udp:", 4))
		return parse_udp(text + 4, address, length);
	errno = EINVAL;
	if (strncmp(text, "unix:", 5) || !text[5] ||
	    strlen(text + 5) >= sizeof(address->un.sun_path))
		return false;
	address->un.sun_family = AF_UNIX;
	memcpy(address->un.sun_path, text + 5, strlen(text + 5));
	*length = sizeof(address->un);
	return true;
}

bool link_open(struct link *link, const char *text)
{
	union link_address address;
	int bytes = BUFFER_BYTES;
	socklen_t length;

	if (!parse(text, &address, &length))
		return false;
	link->socket = socket(address.any.sa_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (link->socket < 0)
		return false;
	/* More than the limit of the system only with privilege. */
	if (setsockopt(link->socket, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)))
		setsockopt(link->socket, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	if (setsockopt(link->socket, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes)))
		setsockopt(link->socket, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	if (address.any.sa_family == AF_UNIX) {
		link->path = text + 5;
		unlink(link->path);
	}
	return !bind(link->socket, &address.any, length);
}

bool link_add_peer(struct link *link, uint32_t node, const char *text)
{
	struct link_peer *peer = &link->peers[link->count];

	errno = ENOSPC;
	if (link->count == LINK_PEERS || !parse(text, &peer->address, &peer->length))
		return false;
	peer->node = node;
	link->count++;
	return true;
}

static void drop_delayed(struct link *link)
{
	struct link_packet *packet;

	while ((packet = STAILQ_FIRST(&link->delayed))) {
		STAILQ_REMOVE_HEAD(&link->delayed, link);
		free(packet);
	}
}

void link_close(struct link *link)
{
	drop_delayed(link);
	if (link->socket >= 0)
		close(link->socket);
	if (link->path)
		unlink(link->path);
	link->socket = -1;
}

/* xorshift64* */
static uint64_t draw(struct link *link, uint64_t below)
{
	link->random ^= link->random >> 12;
	link->random ^= link->random << 25;
	link->random ^= link->random >> 27;
	return (link->random * 0x2545f4914f6cdd1dull >> 16) % below;
}

static void delay(struct link *link, const struct link_peer *peer, const void *bytes, size_t length,
		  uint64_t due)
{
	struct link_packet *packet = malloc(sizeof(*packet) + length), *other, *before = NULL;

	if (!packet)
		return; /* it is lost */
	packet->due = due;
	packet->peer = peer;
	packet->length = length;
	memcpy(packet->bytes, bytes, length);
	for (other = STAILQ_FIRST(&link->delayed); other && other->due <= due;
	     other = STAILQ_NEXT(other, link))
		before = other;
	if (before)
		STAILQ_INSERT_AFTER(&link->delayed, before, packet, link);
	else
		STAILQ_INSERT_HEAD(&link->delayed, packet, link);
}

/* false: the socket is full. All other errors are a loss. */
static bool send_now(struct link *link, const struct link_peer *peer, const void *bytes,
		     size_t length)
{
	return sendto(link->socket, bytes, length, 0, &peer->address.any, peer->length) >= 0 ||
	       (errno != EAGAIN && errno != ENOBUFS);
}

bool link_send(struct link *link, uint32_t node, const void *bytes, size_t length, uint64_t now)
{
	const struct link_peer *peer = NULL;
	unsigned int i;

	for (i = 0; i < link->count; i++)
		if (link->peers[i].node == node)
			peer = &link->peers[i];
	if (!peer || (link->loss && draw(link, 1000000) < link->loss))
		return true;
	if (!link->delay && !link->jitter)
		return send_now(link, peer, bytes, length);
	delay(link, peer, bytes, length,
	      now + link->delay + (link->jitter ? draw(link, link->jitter) : 0));
	return true;
}

uint64_t link_flush(struct link *link, uint64_t now)
{
	struct link_packet *packet;

	while ((packet = STAILQ_FIRST(&link->delayed))) {
		if (packet->due > now)
			return packet->due;
		STAILQ_REMOVE_HEAD(&link->delayed, link);
		send_now(link, packet->peer, packet->bytes, packet->length);
		free(packet);
	}
	return UINT64_MAX;
}

static bool same_address(const union link_address *a, const struct link_peer *peer)
{
	const union link_address *b = &peer->address;

	if (a->any.sa_family != b->any.sa_family)
		return false;
	if (a->any.sa_family == AF_INET)
		return a->in.sin_port == b->in.sin_port &&
		       a->in.sin_addr.s_addr == b->in.sin_addr.s_addr;
	return !strncmp(a->un.sun_path, b->un.sun_path, sizeof(b->un.sun_path));
}

/* Does the node that a packet names as its source have the address that it came from? */
static bool is_from_peer(const struct link *link, const union link_address *from,
			 const uint8_t *packet, size_t length)
{
	uint32_t node;
	unsigned int i;

	if (length < 12)
		return false;
	memcpy(&node, packet + 8, sizeof(node));
	for (i = 0; i < link->count; i++)
		if (link->peers[i].node == le32toh(node))
			return same_address(from, &link->peers[i]);
	return false;
}

size_t link_receive(struct link *link, void *packet, size_t size)
{
	union link_address from;
	socklen_t from_length;
	ssize_t length;

	do {
		memset(&from, 0, sizeof(from));
		from_length = sizeof(from);
		length = recvfrom(link->socket, packet, size, MSG_TRUNC, &from.any, &from_length);
		/* An error may be of an earlier packet to a peer that is not there. */
		if (length < 0 && errno != ECONNREFUSED)
			return 0;
	} while (length <= 0 || (size_t)length > size ||
		 !is_from_peer(link, &from, packet, (size_t)length));
	return (size_t)length;
}

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The link between engines: datagrams over UDP or UNIX sockets. It can lose,
 * delay and reorder packets, to show that engines bear it.
 */
#ifndef MODEL_LINK_H
#define MODEL_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <netinet/in.h>

#define LINK_PEERS 64u

union link_address {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_un un;
};

struct link_peer {
	uint32_t node;
	union link_address address;
	socklen_t length;
};

struct link_packet;

struct link {
	int socket;       /* -1: there is no link */
	const char *path; /* of a UNIX socket, to be removed; NULL */
	struct link_peer peers[LINK_PEERS];
	unsigned int count;
	uint32_t loss;          /* of a million */
	uint64_t delay, jitter; /* ns; jitter is added at random, so it reorders */
	uint64_t random;
	STAILQ_HEAD(link_delayed, link_packet) delayed; /* by time */
};

/* Addresses: udp:HOST:PORT (numbers) or unix:PATH. false: errno says why. */
bool link_open(struct link *link, const char *address);
bool link_add_peer(struct link *link, uint32_t node, const char *address);
void link_close(struct link *link);

/* false: the socket is full; try again later. */
bool link_send(struct link *link, uint32_t node, const void *packet, size_t length, uint64_t now);
/* Send what was delayed until now. Returns when the next is due; UINT64_MAX: never. */
uint64_t link_flush(struct link *link, uint64_t now);
/* A packet of a peer; 0: none. */
size_t link_receive(struct link *link, void *packet, size_t size);

#endif

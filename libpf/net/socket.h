/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * UDP sockets, one for each address used: the core's batches go out with one
 * system call for many packets (UDP_SEGMENT, sendmmsg) straight from where the
 * bytes are; packets come in gathered by the kernel (UDP_GRO, recvmmsg), their
 * payloads straight to where the core says they likely belong.
 */
#ifndef PF_SOCKET_H
#define PF_SOCKET_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "interface.h"
#include "protocol/net.h"

/* Datagrams received by one call. */
#define RECEIVE_MESSAGES 8
/* The kernel gathers up to 64 KiB in a datagram; more packets than these are dropped. */
#define RECEIVE_BYTES (64u << 10)
/* So that each of them can be moved to where it is aligned. */
#define RECEIVE_ROOM (RECEIVE_BYTES + 1024)
#define RECEIVE_PACKETS 1024
/* Longest header that packets are foreseen with. */
#define PREDICT_HEADER_MOST 256
/* Batches sent by one call. */
#define SEND_BATCHES 8

/* What struct net_endpoint holds: one end of a path, and by which of our sockets. */
struct endpoint {
	uint8_t socket;
	uint8_t family; /* 4 or 6 */
	uint16_t port;  /* network order */
	uint32_t scope; /* of a link-local address: our interface */
	uint8_t address[16];
	uint8_t unused[8]; /* 0 */
};
_Static_assert(sizeof(struct endpoint) == sizeof(struct net_endpoint), "they are the same bytes");

void endpoint_make(struct net_endpoint *endpoint, uint8_t socket,
		   const union interface_address *address);
/* Returns the length of the socket address. */
socklen_t endpoint_address(const struct net_endpoint *endpoint, union interface_address *address);

struct socket {
	int fd;
	uint8_t number; /* in endpoints */
	bool bound;     /* packets may arrive */
	bool connected; /* to "peer": the kernel looks up no route for it */
	struct net_endpoint peer;
	bool segments;           /* the system cuts batches (UDP_SEGMENT) */
	uint32_t receive_buffer; /* bytes granted: the kernel charges packets with their overhead */
	uint32_t dropped;        /* datagrams for which that had no room, modulo 2^32 */
	uint16_t port;           /* network order */
	uint32_t packet_most;    /* bytes of a packet that the interface takes */
	bool bare;               /* receives packets alone, one at a time: see socket_connect */
	bool emptying;           /* ... once nothing lies there that was gathered before */
	uint8_t row;             /* packets since there was none, ROW_PACKETS at most */
	uint16_t lone;           /* times in a row that one came, and then none */
	bool complaining;        /* ask for complaints */
	bool filtered;           /* a packet filter of this host blocked what was sent to */
	struct net_endpoint filtered_to;
	/* The owner's: when something came last, and from which endpoint how many times in a row. */
	uint64_t heard;
	struct net_endpoint from;
	unsigned from_count;
};

/* Ports to choose from, in host order: the first to be tried is first. least 0: the system chooses. */
struct socket_ports {
	unsigned least, most, first;
};

/*
 * Bound to the interface's address and one of the ports, with buffers of so many
 * bytes, or what the system grants. PF_OK, PF_ERR_SYSTEM, or PF_ERR_AGAIN: all of
 * the ports are taken.
 */
int socket_open(struct socket *socket, uint8_t number, const struct interface *interface,
		struct socket_ports ports, uint32_t buffer);
/*
 * A second socket for the address and port of "bound", not bound before it is connected.
 * Without it, with fd -1, everything works, but slower.
 */
void socket_open_second(struct socket *socket, const struct socket *bound, uint32_t buffer);
/*
 * From now on the kernel gives packets of this peer to the second socket, and those of all
 * others to "bound". No packet is lost by it. While its packets come one at a time, as short
 * messages and their answers do, the socket is bare: it asks the kernel for the bytes alone, not
 * for the sender, time stamps, ECN marks and packets gathered into one, which take a third of a
 * receive's time and are about a queue that is not there, unless the receiver is late. False: the
 * system refuses.
 */
bool socket_connect(struct socket *second, const struct socket *bound,
		    const struct net_endpoint *peer);
void socket_close(struct socket *socket);

enum socket_sent {
	SOCKET_SENT,
	SOCKET_FULL,     /* nothing fits now */
	SOCKET_FAULT,    /* memory that a batch refers to cannot be read */
	SOCKET_TOO_LONG, /* longer than the interface takes */
};

/*
 * Send batches, all to endpoints of this socket, in order; returns how many
 * went out. *stopped says what kept the next one in; what the network refuses
 * for other reasons counts as sent and lost.
 */
unsigned socket_send(struct socket *socket, struct net_batch *const *batches, unsigned count,
		     enum socket_sent *stopped);

/* Where packets are received; reused for every call, and big: one for each thread of use. */
struct receiver {
	net_gather_fn gather;
	void *user;
	bool late; /* nobody received lately: packets of a bare socket, too, are asked for since when */
	struct net_packet packets[RECEIVE_PACKETS];
	struct net_endpoint from[RECEIVE_MESSAGES];
	_Alignas(8) uint8_t headers[NET_BATCH_MOST][PREDICT_HEADER_MOST];
	_Alignas(8) uint8_t buffers[RECEIVE_MESSAGES][RECEIVE_ROOM];
	/* For what lay elsewhere than predicted, brought together. */
	_Alignas(8) uint8_t gathered[RECEIVE_ROOM];
};

/* gather reads what went to another place than it belongs to; called with user. NULL: no memory. */
struct receiver *receiver_create(net_gather_fn gather, void *user);
void receiver_destroy(struct receiver *receiver);

/*
 * Receive what there is, up to most datagrams, and RECEIVE_MESSAGES; one if there
 * are places (net_predict), to which payloads go then, what is before them being
 * header bytes, a multiple of 8. Returns the number of
 * receiver->packets, 0 for none, or PF_ERR_FAULT: a place could not be written,
 * or not be read, and the packets that came are lost. Never waits.
 */
int socket_receive(struct socket *socket, struct receiver *receiver, unsigned most,
		   const struct net_place *places, unsigned count, uint32_t header);

/* What the network said about packets of ours. */
struct socket_complaint {
	struct net_endpoint to;
	bool refused;             /* packets there are rejected */
	enum net_refusal refusal; /* by what */
	uint32_t most;            /* not 0: packets there may have so many bytes, of ours */
};
/* True: here is one. To be asked while the socket is complaining. */
bool socket_complaint(struct socket *socket, struct socket_complaint *complaint);

/* Bytes of a UDP datagram that an interface takes at once. */
static inline size_t socket_packet_most(const struct interface *interface)
{
	size_t headers = interface->address.any.sa_family == AF_INET ? 28 : 48;
	size_t most = interface->mtu < headers ? 0 : interface->mtu - headers;

	return most < NET_PACKET_MOST ? most : NET_PACKET_MOST;
}

#endif

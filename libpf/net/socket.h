/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * UDP sockets, for each address in use. Batches of the core go out with a system call for many
 * packets (UDP_SEGMENT, sendmmsg), straight from the memory of the bytes. Packets come in gathered
 * by the kernel (UDP_GRO, recvmmsg), and the payloads go straight to the places predicted by the
 * core.
 */
#ifndef PF_SOCKET_H
#define PF_SOCKET_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "carrier.h"
#include "endpoint.h"
#include "interface.h"
#include "protocol/net.h"

/* Datagrams received by one call. */
#define RECEIVE_MESSAGES 8
/*
 * Bytes of a datagram, filled with up to 64 KiB by the kernel, and packets of a call. Further
 * packets are dropped.
 */
#define RECEIVE_BYTES (64u << 10)
/* Bytes of a buffer, with room to move each packet to an aligned place. */
#define RECEIVE_ROOM (RECEIVE_BYTES + 1024)
#define RECEIVE_PACKETS 1024
/* Bytes of the longest header of predicted packets. */
#define PREDICT_HEADER_MOST 256

struct socket {
	int fd;
	uint8_t number; /* number of the socket in endpoints */
	bool bound;     /* packets may arrive */
	bool connected; /* connected to "peer": the kernel looks up no route */
	struct net_endpoint peer;
	bool segments;           /* the system cuts batches (UDP_SEGMENT) */
	uint32_t receive_buffer; /* bytes granted; the kernel charges packets with their overhead */
	uint32_t dropped;        /* datagrams dropped for lack of room there, modulo 2^32 */
	uint16_t port;           /* network order */
	uint32_t packet_most;    /* bytes of the longest packet on the interface */
	bool bare;               /* receives packets alone, one at a time: see socket_connect */
	bool emptying;           /* becomes bare once no gathered datagram is left */
	uint8_t row;             /* packets since the last empty receive, ROW_PACKETS at most */
	uint16_t lone;           /* times in a row that a packet came alone */
	bool complaining;        /* complaints may be there to be taken */
	bool filtered; /* a packet filter of the own host blocked a packet to filtered_to */
	struct net_endpoint filtered_to;
	/*
	 * Owned by the carrier: numbers of the last look with packets, and of the last look that
	 * read the socket; the last sender, with the number of packets in a row.
	 */
	uint64_t heard, read;
	struct net_endpoint from;
	unsigned from_count;
};

/* Ports to choose from, in host order. "first" is tried first. least 0: the system chooses. */
struct socket_ports {
	unsigned least, most, first;
};

/*
 * Open a socket, bound to the interface's address and one of the ports, with buffers of the given
 * bytes, or as big as the system grants. Return PF_OK, PF_ERR_SYSTEM, or PF_ERR_AGAIN if all of the
 * ports are taken.
 */
int socket_open(struct socket *socket, uint8_t number, const struct interface *interface,
		struct socket_ports ports, uint32_t buffer);
/*
 * Open a second socket for the address and port of "bound", itself not bound before socket_connect.
 * With fd -1, without the second socket, everything works, but more slowly.
 */
void socket_open_second(struct socket *socket, const struct socket *bound, uint32_t buffer);
/*
 * Connect the second socket: the kernel gives packets of the peer to the second socket from now on,
 * and all further packets to "bound". No packet is lost by the change. While packets come singly,
 * like short messages and their answers, the socket is bare. A bare socket asks the kernel for the
 * bytes alone: not for the sender, time stamps, ECN marks and gathered packets. All of these take a
 * third of the time of a receive, and describe a queue that does not exist, unless the receiver is
 * late. Return false if the system refuses.
 */
bool socket_connect(struct socket *second, const struct socket *bound,
		    const struct net_endpoint *peer);
void socket_close(struct socket *socket);

/* Send batches, all to endpoints of the socket: see struct carrier_operations. */
unsigned socket_send(struct socket *socket, const struct net_batch *batches, unsigned count,
		     enum carrier_stop *stop);

/*
 * Memory to receive packets into, reused by every call. A receiver is big: make one for each
 * thread.
 */
struct receiver {
	net_gather_fn gather;
	void *user;
	bool late; /* the last receive was long ago: ask for the time stamps of bare sockets, too */
	struct net_packet packets[RECEIVE_PACKETS];
	struct net_endpoint from[RECEIVE_MESSAGES];
	_Alignas(8) uint8_t headers[NET_BATCH_MOST][PREDICT_HEADER_MOST];
	_Alignas(8) uint8_t buffers[RECEIVE_MESSAGES][RECEIVE_ROOM];
	/* Bytes found elsewhere than predicted, brought together. */
	_Alignas(8) uint8_t gathered[RECEIVE_ROOM];
};

/*
 * Create a receiver. gather(user, ...) reads payloads in wrong places. Return NULL without memory.
 */
struct receiver *receiver_create(net_gather_fn gather, void *user);
void receiver_destroy(struct receiver *receiver);

/*
 * Receive at most "most" datagrams, and RECEIVE_MESSAGES. With places (net_predict), receive one
 * datagram: payloads go to the places, and header bytes, a multiple of 8, lie before each payload.
 * Return the number of receiver->packets, 0 for none, or PF_ERR_FAULT if a place could not be
 * written or read, and the packets are lost. The call never waits.
 */
int socket_receive(struct socket *socket, struct receiver *receiver, unsigned most,
		   const struct net_place *places, unsigned count, uint32_t header);

/* Take a report of the network, while the socket is complaining. Return false if none is left. */
bool socket_complaint(struct socket *socket, struct carrier_report *report);

/* Return the bytes of the longest UDP datagram that an interface sends unfragmented. */
static inline size_t socket_packet_most(const struct interface *interface)
{
	size_t headers = interface->address.any.sa_family == AF_INET ? 28 : 48;
	size_t most = interface->mtu < headers ? 0 : interface->mtu - headers;

	return most < NET_PACKET_MOST ? most : NET_PACKET_MOST;
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The system of a world's hosts as the shipped socket side sees it: socket.c is
 * run as it is, and its system calls move packets of the world. Places that
 * net_predict named are written to by whatever packet comes next; memory that
 * is not there cannot be read or written, sometimes also memory that is; sockets
 * are full, and packets longer than the interface takes.
 */
#ifndef PF_TESTS_NET_SOCKETS_H
#define PF_TESTS_NET_SOCKETS_H

#include "world.h"

struct sockets;

struct sockets *sockets_create(struct world *world);
void sockets_destroy(struct sockets *sockets);
/* What packets to (and from) this host's end of a path have as their endpoint. */
struct net_endpoint sockets_endpoint(unsigned number, unsigned path);
/* Packets that wait for the host are received, as many as a turn of the engine takes. */
void sockets_receive(struct host *host);
/* What was received is read where it lies; false: it is not there any more. */
bool sockets_gather(struct host *host, const struct iovec *from, unsigned count, void *to);
/* The core's packets are sent. False: there was no room for all of them. */
bool sockets_transmit(struct host *host);

#endif

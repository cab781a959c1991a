/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The operating system of a world's hosts: socket.c runs as it is shipped, and its system calls
 * move packets of the world. The next packet is written to the places that net_predict named;
 * absent memory cannot be read or written, and sometimes present memory cannot either; sockets are
 * full at times, and packets can be longer than the interface accepts.
 */
#ifndef PF_TESTS_NET_SOCKETS_H
#define PF_TESTS_NET_SOCKETS_H

#include "world.h"

struct sockets;

struct sockets *sockets_create(struct world *world);
void sockets_destroy(struct sockets *sockets);
/* The endpoint of this host on a path. */
struct net_endpoint sockets_endpoint(unsigned number, unsigned path);
/* Receive waiting packets, as many as one poll of the engine does. */
void sockets_receive(struct host *host);
/* Read received bytes at their places; false: the memory is gone. */
bool sockets_gather(struct host *host, const struct iovec *from, unsigned count, void *to);
/* Write pieces until one cannot be; return how many were written. */
unsigned sockets_place(struct host *host, const struct net_piece *pieces, unsigned count);
/* Send the core's packets. False: there was no room for all of them. */
bool sockets_transmit(struct host *host);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The carrier of UDP sockets: a first socket for each interface in use, and a second socket for the
 * peer that alone sends for long.
 */
#ifndef PF_NET_SOCKETS_H
#define PF_NET_SOCKETS_H

#include <stdbool.h>
#include <stdint.h>

#include "carrier.h"
#include "interface.h"
#include "socket.h"

#define SOCKETS_MOST (2 * INTERFACES_MOST)

struct sockets {
	struct carrier carrier; /* its descriptor: an epoll descriptor */
	struct interfaces interfaces;
	/* A first socket for each interface, then a second socket for each. */
	struct socket list[SOCKETS_MOST];
	struct receiver *receiver;
	const struct socket *heard; /* socket of the last packets */
	/* The present look: */
	uint64_t look;     /* number of the look, from 1 */
	bool thorough;     /* all sockets are due */
	unsigned at, left; /* next socket to be read, and number of sockets left */
	unsigned calls;    /* receive calls for the socket */
};

/*
 * Open sockets on the interfaces chosen by the options. Return PF_ERR_UNREACHABLE if there is none,
 * with the reason in why, or PF_ERR_SYSTEM with errno, or PF_ERR_MEMORY. With PF_OK, why has the
 * interfaces.
 */
int sockets_open(struct carrier **result, const struct carrier_setup *setup, char why[CARRIER_WHY]);
/* The operations, for tests with sockets of their own. */
extern const struct carrier_operations sockets_operations;

#endif

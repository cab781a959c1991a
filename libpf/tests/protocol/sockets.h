/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The carrier of a world's hosts by sockets: net/sockets.c and net/socket.c run as they are shipped,
 * and their system calls move packets of the world.
 */
#ifndef PF_TESTS_NET_SOCKETS_H
#define PF_TESTS_NET_SOCKETS_H

#include "net/carrier.h"
#include "world.h"

struct carrier *carrier_of_sockets(struct world *world);

#endif

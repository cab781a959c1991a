/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two carriers of a world's hosts, in memory and by sockets, and what both do: move packets between
 * the network of the world and the memory of a host. Absent memory cannot be read or written, and
 * sometimes present memory cannot either; there is no room for packets at times, and packets can be
 * longer than the interface accepts. world->acting is the host that drives.
 */
#ifndef PF_TESTS_NET_CARRIER_H
#define PF_TESTS_NET_CARRIER_H

#include "net/carrier.h"
#include "world.h"

/* Like an adapter with slots: a packet is valid in its slot until the next call, and not placed. */
struct carrier *carrier_in_memory(struct world *world);
/*
 * net/sockets.c and net/socket.c run as they are shipped, and their system calls move packets of the
 * world.
 */
struct carrier *carrier_of_sockets(struct world *world);
/* Take the report that waits, as report of a carrier. */
bool world_take_report(struct world *world, struct carrier_report *report);

/* MEMORY_OTHER: of the core or the system, not of the arena. */
enum memory { MEMORY_OTHER, MEMORY_PRESENT, MEMORY_ABSENT };

enum memory host_memory(struct host *host, const void *bytes, size_t length);
/* Read received bytes at their places; false: the memory is gone. */
bool host_gather(struct host *host, const struct iovec *from, unsigned count, void *to);
/* Write pieces until one cannot be; return how many were written. */
unsigned host_place(struct host *host, const struct net_piece *pieces, unsigned count);
/* Take the next packet that waits, which there is. */
struct packet *host_next(struct host *host);
/* Send the bytes of vectors as packets. Return 0, or an error of sendmsg(2). */
int host_send(struct host *host, unsigned to, unsigned path, const struct iovec *vectors,
	      size_t count, uint32_t segment);

#endif

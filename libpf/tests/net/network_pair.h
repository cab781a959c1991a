/* SPDX-License-Identifier: BSD-3-Clause */
/* Two processes over the network, as the tests of the network look at it. */
#ifndef PF_TESTS_NETWORK_PAIR_H
#define PF_TESTS_NETWORK_PAIR_H

#include "pair.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/sock_diag.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "common/context.h"
#include "protocol/association.h"
#include "net/network.h"
#include "net/process.h"
#include "net/sockets.h"
#include "patience.h"
#include "peers.h"

#ifndef SO_MEMINFO
#define SO_MEMINFO 55
#endif

#define PATIENCE 20000 /* ms */
#define WINDOW MIB
#define LONGEST 1472 /* a packet with the usual MTU, bytes */

static inline struct network *network_of(struct pair *me)
{
	return me->context->network;
}

/* NULL: there is no peer yet, or without an association. */
static inline struct net_association *first_association(struct network *network)
{
	pf_peer *peer = first_peer(network->context);

	return peer ? net_peer(peer)->association : NULL;
}

static inline struct sockets *sockets_of(struct network *network)
{
	return (struct sockets *)network->traffic.carrier;
}

static inline struct pair *network_pair(void (*work)(struct pair *me))
{
	struct pair_setup setup = { .here = pair_options(),
				    .there = pair_options(),
				    .window = WINDOW,
				    .work = work,
				    .receive = pair_count_message,
				    .receive_here = pair_count_message };

	/* No probes of the peer. */
	setup.here.peer_timeout = setup.there.peer_timeout = 1000;
	return pair_start(&setup);
}

static inline uint32_t dropped(struct pair *me)
{
	struct network *network = network_of(me);
	uint32_t values[SK_MEMINFO_VARS], total = 0;
	socklen_t size;
	unsigned i;

	for (i = 0; i < 2 * sockets_of(network)->interfaces.count; i++) {
		size = sizeof(values);
		pair_check(me, !getsockopt(sockets_of(network)->list[i].fd, SOL_SOCKET, SO_MEMINFO,
					   values, &size));
		total += values[SK_MEMINFO_DROPS];
	}
	return total;
}

static inline void post_puts(struct pair *me, uint8_t *bytes, unsigned count,
			     struct pair_done *done)
{
	while (count--)
		pair_post(me, me->peer, PUT, bytes, pair_there(me, 1, me->window), WINDOW, done);
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets between protocol cores and a carrier: receive packets that came, and send packets that may
 * go. The creator gives a clock, and a lock that the driving thread holds.
 */
#ifndef PF_NET_TRAFFIC_H
#define PF_NET_TRAFFIC_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "carrier.h"
#include "protocol/net.h"

struct traffic {
	struct carrier *carrier;
	struct net_batch *batches;   /* array of CARRIER_BATCHES */
	uint8_t *rooms;              /* room for packets of each batch; NULL with NET_AUTH_HEADER */
	pthread_mutex_t *lock;       /* lock of the creator; callers hold the lock */
	uint64_t (*now)(void *user); /* clock of the creator, ns */
	void *user;                  /* argument of the clock */
	bool held; /* the carrier refused some of the packets of the last traffic_transmit */
};

/*
 * Make the batches, for *traffic with carrier, lock and clock. Return PF_OK or PF_ERR_MEMORY;
 * traffic_destroy is allowed after either.
 */
int traffic_create(struct traffic *traffic, enum net_auth auth);
/* Free the batches. The carrier stays open. */
void traffic_destroy(struct traffic *traffic);

/*
 * Receive once, and hand the packets to the core. *waited: time for which the first packet waited,
 * ns. Return the number of packets, or 0 at the end of a round of the carrier.
 */
unsigned traffic_receive(struct traffic *traffic, struct net_core *core, enum net_lent lent,
			 uint32_t *waited);
/* Tell the core of all reports of the network. woken: as report of a carrier. */
void traffic_take_reports(struct traffic *traffic, struct net_core *core, bool woken);
/* Send what may go now. Return the number of batches. */
unsigned traffic_transmit(struct traffic *traffic, struct net_core *core, uint64_t time);

#endif

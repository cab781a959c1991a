/* SPDX-License-Identifier: BSD-3-Clause */
/* The network between the hosts of a world. */
#ifndef PF_TESTS_NET_NETWORK_H
#define PF_TESTS_NET_NETWORK_H

#include "world.h"

/* A packet in the network, or waiting for its host. */
struct packet {
	struct packet *next;
	unsigned from, to;
	uint32_t length;
	uint64_t arrived; /* in its host's socket */
	uint8_t path, ecn;
	bool corrupt; /* the receiver must notice it */
	_Alignas(8) uint8_t bytes[];
};

/* The memory of packets is reused. */
struct packet *packet_new(struct world *world, size_t length);
void packet_free(struct world *world, struct packet *packet);
void packets_destroy(struct world *world);
/* Hand a packet over to the network. */
void packet_transmit(struct world *world, struct packet *packet);
/* It is at the switch. time: when it reaches its host if nothing is queued. */
void packet_switch(struct world *world, struct packet *packet, uint64_t time);

#endif

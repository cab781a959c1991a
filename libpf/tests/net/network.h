/* SPDX-License-Identifier: BSD-3-Clause */
/* The network between a world's hosts: what it does to packets. */
#ifndef PF_TESTS_NET_NETWORK_H
#define PF_TESTS_NET_NETWORK_H

#include "world.h"

/* On its way, or waiting for its host. */
struct packet {
	struct packet *next;
	unsigned from, to;
	uint32_t length;
	uint8_t path, ecn;
	bool corrupt; /* so that whoever receives it must find out */
	_Alignas(8) uint8_t bytes[];
};

/* Memory of packets is used again. */
struct packet *packet_new(struct world *world, size_t length);
void packet_free(struct world *world, struct packet *packet);
void packets_destroy(struct world *world);
/* From its sender into the network, which takes it. */
void packet_transmit(struct world *world, struct packet *packet);

#endif

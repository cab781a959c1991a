/* SPDX-License-Identifier: BSD-3-Clause */
/* How an association is opened: HELLO and WELCOME. */
#ifndef PF_NET_OPEN_H
#define PF_NET_OPEN_H

#include "association.h"

/* Check a HELLO, whose length alone is known to be right. False: it is counted, and dropped. */
bool open_read(struct shared *shared, uint8_t *packet, size_t length,
	       const struct wire_header *header, struct wire_hello *hello);
/* Become the accepter of the association that this HELLO wants: a new one. */
void open_accept(struct net_association *association, const struct wire_hello *hello, unsigned path,
		 const struct net_endpoint *from);
/* A HELLO for an association that is known. */
void open_again(struct net_association *association, const struct wire_hello *hello, unsigned path,
		const struct net_endpoint *from);
/* A WELCOME for it, whose length alone is known to be right. */
void open_welcome(struct net_association *association, uint8_t *packet, size_t length,
		  const struct wire_header *header);
/* Write a HELLO or WELCOME that is due, for this path; its length. */
size_t open_output(struct net_association *association, unsigned path, uint64_t now,
		   uint8_t *packet);

#endif

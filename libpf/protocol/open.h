/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening of an association: HELLO and WELCOME. */
#ifndef PF_NET_OPEN_H
#define PF_NET_OPEN_H

#include "association.h"

/* Check a HELLO; only the length was checked before. False: the HELLO is counted and dropped. */
bool open_read(struct shared *shared, uint8_t *packet, size_t length,
	       const struct wire_header *header, struct wire_hello *hello);
/* Become the accepter of a new association, opened by the HELLO. */
void open_accept(struct net_association *association, const struct wire_hello *hello, unsigned path,
		 const struct net_endpoint *from);
/* Take a HELLO for a known association. */
void open_again(struct net_association *association, const struct wire_hello *hello, unsigned path,
		const struct net_endpoint *from);
/* Take a WELCOME for the association; only the length was checked before. */
void open_welcome(struct net_association *association, uint8_t *packet, size_t length,
		  const struct wire_header *header);
/* Write a due HELLO or WELCOME for a path. Returns the length. */
size_t open_output(struct net_association *association, unsigned path, uint64_t now,
		   uint8_t *packet);

#endif

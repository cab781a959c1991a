/* SPDX-License-Identifier: BSD-3-Clause */
/* Input of a packet of an association: later code sees no byte that was not checked here. */
#ifndef PF_NET_INPUT_H
#define PF_NET_INPUT_H

#include "foresee.h"

/*
 * Check a packet of valid lengths, and act on the contents. A packet with a separate payload
 * is DATA, with the whole payload separate.
 */
void input_packet(struct net_association *association, struct foresight *foresight,
		  struct net_packet *packet, const struct wire_header *header);

#endif

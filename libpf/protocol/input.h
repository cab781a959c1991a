/* SPDX-License-Identifier: BSD-3-Clause */
/* A packet of an association: nothing behind this sees a byte that was not checked here. */
#ifndef PF_NET_INPUT_H
#define PF_NET_INPUT_H

#include "foresee.h"

/*
 * Check a packet whose lengths are right, and do what it says. A payload that lies elsewhere is
 * DATA's, all of it.
 */
void input_packet(struct net_association *association, struct foresight *foresight,
		  struct net_packet *packet, const struct wire_header *header);

#endif

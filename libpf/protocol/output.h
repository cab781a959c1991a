/* SPDX-License-Identifier: BSD-3-Clause */
/* What an association has to send: packets, in batches of one size. */
#ifndef PF_NET_OUTPUT_H
#define PF_NET_OUTPUT_H

#include "association.h"

/* Fill the batch with what may be sent now; its count is 0 if that is nothing. */
void output_batch(struct net_batch *batch, struct net_association *association, uint64_t now);
/* Does the peer wait for more than acknowledgements that have some time yet? */
bool output_owes(const struct net_association *association);
/* After output_batch found nothing that may be sent now: is there something to send? */
bool output_blocked(const struct net_association *association);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Packets of an association to be sent, in batches of packets of equal length. */
#ifndef PF_NET_OUTPUT_H
#define PF_NET_OUTPUT_H

#include "association.h"

/* Fill the batch with packets that may be sent now. batch->count is 0 if there are none. */
void output_batch(struct net_batch *batch, struct net_association *association, uint64_t now);
/* Does the peer wait for more than acknowledgements not yet due? */
bool output_owes(const struct net_association *association);
/* After output_batch found nothing to send now: is there something to send later? */
bool output_blocked(const struct net_association *association);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* The control stream: what the two cores tell each other, as entries. */
#ifndef PF_NET_CONTROL_H
#define PF_NET_CONTROL_H

#include "exchange.h"

/* Write what there is to be told. */
void control_output(struct exchange *exchange);
/*
 * Read what came. PF_OK; PF_ERR_REFUSED: the peer broke the rules; PF_ERR_MEMORY: the rest is to be
 * read when the packet in hand comes again.
 */
int control_arrived(struct exchange *exchange);

#endif

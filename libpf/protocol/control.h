/* SPDX-License-Identifier: BSD-3-Clause */
/* The control stream: entries from each core to its peer. */
#ifndef PF_NET_CONTROL_H
#define PF_NET_CONTROL_H

#include "exchange.h"

/* Write due entries. */
void control_output(struct exchange *exchange);
/*
 * Handle the received entries. PF_OK; PF_ERR_REFUSED: the peer broke the rules; PF_ERR_MEMORY: the
 * caller refuses the packet in hand, and handles the rest when the packet comes again.
 */
int control_arrived(struct exchange *exchange);

#endif

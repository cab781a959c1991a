/* SPDX-License-Identifier: BSD-3-Clause */
/* The control stream: what the two cores tell each other, as entries. */
#ifndef PF_NET_CONTROL_H
#define PF_NET_CONTROL_H

#include "exchange.h"

/* Write what there is to be told. */
void control_output(struct exchange *exchange);
/* Read what came; false: the peer broke the rules. */
bool control_arrived(struct exchange *exchange);

#endif

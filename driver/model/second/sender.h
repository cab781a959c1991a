/* SPDX-License-Identifier: GPL-2.0 */
/* What has packets to send: a block, a record or a peer. */
#ifndef SECOND_SENDER_H
#define SECOND_SENDER_H

#include "state.h"

void enqueue(struct engine *e, struct sender *s);
void dequeue(struct engine *e, struct sender *s);

#endif

// SPDX-License-Identifier: GPL-2.0
/* What has packets to send. */
#include "sender.h"

void enqueue(struct engine *e, struct sender *s)
{
	if (s->queued)
		return;
	s->queued = true;
	if (s->peer->self)
		TAILQ_INSERT_TAIL(&e->local_senders, s, link);
	else
		TAILQ_INSERT_TAIL(&e->remote_senders, s, link);
}

void dequeue(struct engine *e, struct sender *s)
{
	if (!s->queued)
		return;
	s->queued = false;
	if (s->peer->self)
		TAILQ_REMOVE(&e->local_senders, s, link);
	else
		TAILQ_REMOVE(&e->remote_senders, s, link);
}

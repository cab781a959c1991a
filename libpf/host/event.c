/* SPDX-License-Identifier: BSD-3-Clause */
#include "event.h"

#include <stdlib.h>

void event_push(struct event_queue *queue, struct event *event)
{
	event->next = atomic_load_explicit(&queue->newest, memory_order_relaxed);
	while (!atomic_compare_exchange_weak_explicit(&queue->newest, &event->next, event,
						      memory_order_release, memory_order_relaxed))
		;
}

bool events_tell_gone(struct event_queue *queue, pf_peer *peer, int status)
{
	struct event *event = calloc(1, sizeof(*event));

	if (!event)
		return false;
	event->kind = EVENT_GONE;
	event->peer = peer;
	event->status = status;
	event_push(queue, event);
	return true;
}

struct event *events_take(struct event_queue *queue)
{
	struct event *event = atomic_exchange_explicit(&queue->newest, NULL, memory_order_acquire);
	struct event *oldest = NULL;

	while (event) {
		struct event *next = event->next;

		event->next = oldest;
		oldest = event;
		event = next;
	}
	return oldest;
}

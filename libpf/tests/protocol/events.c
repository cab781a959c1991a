/* SPDX-License-Identifier: BSD-3-Clause */
#include "events.h"

#include <stdbool.h>
#include <stdlib.h>

static bool before(const struct event *a, const struct event *b)
{
	return a->time != b->time ? a->time < b->time : a->order < b->order;
}

void events_push(struct events *events, struct event event)
{
	size_t at;

	if (events->count + 2 > events->room) {
		events->room = events->room ? 2 * events->room : 1024;
		events->heap = realloc(events->heap, events->room * sizeof(event));
		if (!events->heap)
			abort();
	}
	event.order = events->order++;
	for (at = ++events->count; at > 1 && before(&event, &events->heap[at / 2]); at /= 2)
		events->heap[at] = events->heap[at / 2];
	events->heap[at] = event;
}

struct event events_pop(struct events *events)
{
	struct event top = events->heap[1], last = events->heap[events->count--];
	size_t at = 1, child;

	while ((child = 2 * at) <= events->count) {
		if (child < events->count && before(&events->heap[child + 1], &events->heap[child]))
			child++;
		if (!before(&events->heap[child], &last))
			break;
		events->heap[at] = events->heap[child];
		at = child;
	}
	events->heap[at] = last;
	return top;
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit.h"

#include <pthread.h>
#include <sched.h>

#include "host/event.h"

#define PUSHERS 4
#define EVENTS 20000ul

static void test_order(void **state)
{
	struct event_queue queue = { .newest = NULL };
	struct event events[10] = { { 0 } }, *event;
	int i;

	assert_false(events_waiting(&queue));
	assert_null(events_take(&queue));
	for (i = 0; i < 10; i++) {
		events[i].token = (uint64_t)i;
		event_push(&queue, &events[i]);
	}
	assert_true(events_waiting(&queue));
	event = events_take(&queue);
	assert_false(events_waiting(&queue));
	for (i = 0; i < 10; i++, event = event->next)
		assert_ptr_equal(event, &events[i]);
	assert_null(event);
}

struct pusher {
	struct event_queue *queue;
	uint32_t slot;
};

static void *push_all(void *arg)
{
	struct pusher *pusher = arg;
	uint64_t i;

	for (i = 0; i < EVENTS; i++) {
		struct event *event = calloc(1, sizeof(*event));

		if (!event)
			abort();
		event->slot = pusher->slot;
		event->token = i;
		event_push(pusher->queue, event);
	}
	return NULL;
}

/* Each pusher's events arrive in its order, none twice, none never. */
static void test_threads(void **state)
{
	struct event_queue queue = { .newest = NULL };
	struct pusher pushers[PUSHERS];
	uint64_t next[PUSHERS] = { 0 }, total = 0;
	pthread_t threads[PUSHERS];
	bool right = true;
	uint32_t i;

	for (i = 0; i < PUSHERS; i++) {
		pushers[i] = (struct pusher){ &queue, i };
		assert_int_equal(pthread_create(&threads[i], NULL, push_all, &pushers[i]), 0);
	}
	while (total < PUSHERS * EVENTS) {
		struct event *event = events_waiting(&queue) ? events_take(&queue) : NULL;

		if (!event)
			sched_yield();
		while (event) {
			struct event *following = event->next;

			right = right && event->slot < PUSHERS &&
				event->token == next[event->slot]++;
			total++;
			free(event);
			event = following;
		}
	}
	for (i = 0; i < PUSHERS; i++)
		pthread_join(threads[i], NULL);
	assert_true(right);
	assert_false(events_waiting(&queue));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_threads),
	};

	return cmocka_run_group_tests_name("event", tests, NULL, NULL);
}

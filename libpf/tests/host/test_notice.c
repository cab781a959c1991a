/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit.h"

#include <pthread.h>
#include <sched.h>

#include "host/notice.h"

#define PUSHERS 4
#define NOTICES 20000ul

static void test_order(void **state)
{
	struct notices queue = { .newest = NULL };
	struct notice notices[10] = { { 0 } }, *notice;
	int i;

	assert_false(notices_waiting(&queue));
	assert_null(notices_take(&queue));
	for (i = 0; i < 10; i++) {
		notices[i].token = (uint64_t)i;
		notice_push(&queue, &notices[i]);
	}
	assert_true(notices_waiting(&queue));
	notice = notices_take(&queue);
	assert_false(notices_waiting(&queue));
	for (i = 0; i < 10; i++, notice = notice->next)
		assert_ptr_equal(notice, &notices[i]);
	assert_null(notice);
}

/* What was taken and cannot be handled yet comes before what was pushed meanwhile. */
static void test_put_back(void **state)
{
	struct notices queue = { .newest = NULL };
	struct notice notices[10] = { { 0 } }, *notice;
	int i;

	for (i = 0; i < 5; i++)
		notice_push(&queue, &notices[i]);
	notice = notices_take(&queue);
	for (i = 5; i < 10; i++)
		notice_push(&queue, &notices[i]);
	/* The first two are done. */
	notices_put_back(&queue, notice->next->next);
	notice = notices_take(&queue);
	for (i = 2; i < 10; i++, notice = notice->next)
		assert_ptr_equal(notice, &notices[i]);
	assert_null(notice);
	notices_put_back(&queue, &notices[9]);
	assert_ptr_equal(notices_take(&queue), &notices[9]);
}

struct pusher {
	struct notices *queue;
	uint32_t slot;
};

static void *push_all(void *arg)
{
	struct pusher *pusher = arg;
	uint64_t i;

	for (i = 0; i < NOTICES; i++) {
		struct notice *notice = calloc(1, sizeof(*notice));

		if (!notice)
			abort();
		notice->address = pusher->slot;
		notice->token = i;
		notice_push(pusher->queue, notice);
	}
	return NULL;
}

/* Each pusher's notices arrive in its order, none twice, none never. */
static void test_threads(void **state)
{
	struct notices queue = { .newest = NULL };
	struct pusher pushers[PUSHERS];
	uint64_t next[PUSHERS] = { 0 }, total = 0;
	pthread_t threads[PUSHERS];
	bool right = true;
	uint32_t i;

	for (i = 0; i < PUSHERS; i++) {
		pushers[i] = (struct pusher){ &queue, i };
		assert_int_equal(pthread_create(&threads[i], NULL, push_all, &pushers[i]), 0);
	}
	while (total < PUSHERS * NOTICES) {
		struct notice *notice = notices_waiting(&queue) ? notices_take(&queue) : NULL;

		if (!notice)
			sched_yield();
		while (notice) {
			struct notice *following = notice->next;

			right = right && notice->address < PUSHERS &&
				notice->token == next[notice->address]++;
			total++;
			free(notice);
			notice = following;
		}
	}
	for (i = 0; i < PUSHERS; i++)
		pthread_join(threads[i], NULL);
	assert_true(right);
	assert_false(notices_waiting(&queue));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_put_back),
		cmocka_unit_test(test_threads),
	};

	return cmocka_run_group_tests_name("notice", tests, NULL, NULL);
}

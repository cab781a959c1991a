/* SPDX-License-Identifier: BSD-3-Clause */
/* What resolver threads leave of a processor to the thread that calls progress. */
#include "unit.h"

#include <pthread.h>
#include <sched.h>

#include "base/clock.h"
#include "memory/pace.h"

static struct activity activity;

/* What one call of progress tells. */
static void poll(struct pace *pace, bool moved, bool busy)
{
	if (moved)
		activity_moved(&activity);
	activity_polled(&activity, busy);
	pace_polled(pace, busy);
}

/* Enough processor time to be worth a rest. */
static void work(const uint64_t *used)
{
	while (pace_used() - *used < 200000)
		;
}

/* How much was spent at once, and how long the rest for it was to be, ns; 0: there was none. */
static uint64_t rest(struct pace *pace, uint64_t *used)
{
	uint64_t due = pace->due, before = clock_nanoseconds(CLOCK_MONOTONIC);

	work(used);
	pace_rest(pace, used);
	if (pace->due == due)
		return 0;
	assert_true(clock_nanoseconds(CLOCK_MONOTONIC) >= pace->due);
	return pace->due - before;
}

static void test_moving(void **state)
{
	struct pace pace = { 0 };
	uint64_t used;

	(void)state;
	memset(&activity, 0, sizeof(activity));
	pace_init(&pace, 10, &activity);
	assert_false(pace_is_resolving(&pace));
	pace_begin(&pace);
	assert_true(pace_is_resolving(&pace));
	used = pace_used();
	poll(&pace, true, true);
	/* A tenth of the processor for 200 us of work. */
	assert_true(rest(&pace, &used) >= 9 * 200000);
	pace_end(&pace);
	assert_false(pace_is_resolving(&pace));
	pace_destroy(&pace);
}

/* Silent all the time: it computes, and shares the processor as threads do. */
static void test_silent(void **state)
{
	struct pace pace = { 0 };
	uint64_t used;

	(void)state;
	memset(&activity, 0, sizeof(activity));
	pace_init(&pace, 10, &activity);
	pace_begin(&pace);
	used = pace_used();
	assert_int_equal(rest(&pace, &used), 0);
	assert_int_equal(rest(&pace, &used), 0);
	poll(&pace, true, true);
	assert_true(rest(&pace, &used) > 0);
	assert_int_equal(rest(&pace, &used), 0);
	pace_end(&pace);
	pace_destroy(&pace);
}

/* Some empty polls are none: a peer may be at its end of a transfer. */
static void test_waiting(void **state)
{
	struct pace pace = { 0 };
	uint64_t used;
	int i;

	(void)state;
	memset(&activity, 0, sizeof(activity));
	pace_init(&pace, 10, &activity);
	pace_begin(&pace);
	used = pace_used();
	poll(&pace, true, true);
	for (i = 0; i < 10; i++)
		poll(&pace, false, i % 2);
	assert_true(rest(&pace, &used) > 0);
	poll(&pace, true, true);
	for (i = 0; i < 1000; i++)
		poll(&pace, false, i % 2);
	assert_int_equal(rest(&pace, &used), 0);
	pace_end(&pace);
	pace_destroy(&pace);
}

static void *rest_long(void *arg)
{
	struct pace *pace = arg;
	uint64_t used = pace_used();

	work(&used);
	pace_rest(pace, &used);
	return NULL;
}

/* A rest of an hour ends when there is nothing left to make way for, or at the end of all. */
static void end_of_rest(bool at_close)
{
	struct pace pace = { 0 };
	pthread_t thread;

	memset(&activity, 0, sizeof(activity));
	pace_init(&pace, 10, &activity);
	pace_begin(&pace);
	poll(&pace, true, true);
	pace.due = clock_nanoseconds(CLOCK_MONOTONIC) + 3600 * 1000000000ull;
	assert_int_equal(pthread_create(&thread, NULL, rest_long, &pace), 0);
	while (!atomic_load(&pace.rests))
		sched_yield();
	if (at_close)
		pace_end_rests(&pace);
	while (atomic_load(&pace.rests)) {
		if (!at_close)
			poll(&pace, false, true);
	}
	pthread_join(thread, NULL);
	pace_end(&pace);
	pace_destroy(&pace);
}

static void test_end_of_rest(void **state)
{
	(void)state;
	end_of_rest(false);
}

static void test_close(void **state)
{
	(void)state;
	end_of_rest(true);
}

static void test_all(void **state)
{
	struct pace pace = { 0 };
	uint64_t used;

	(void)state;
	memset(&activity, 0, sizeof(activity));
	pace_init(&pace, 100, &activity);
	pace_begin(&pace);
	used = pace_used();
	poll(&pace, true, true);
	assert_int_equal(rest(&pace, &used), 0);
	pace_end(&pace);
	pace_destroy(&pace);
}

/* Several threads keep to the share together. */
static void test_together(void **state)
{
	struct pace pace = { 0 };
	uint64_t used, due;

	(void)state;
	memset(&activity, 0, sizeof(activity));
	pace_init(&pace, 50, &activity);
	pace_begin(&pace);
	pace_begin(&pace);
	used = pace_used();
	poll(&pace, true, true);
	due = clock_nanoseconds(CLOCK_MONOTONIC) + 20000000;
	pace.due = due;
	assert_true(rest(&pace, &used) > 0);
	assert_true(pace.due >= due + 200000);
	pace_end(&pace);
	assert_true(pace_is_resolving(&pace));
	pace_end(&pace);
	pace_destroy(&pace);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_moving),   cmocka_unit_test(test_silent),
		cmocka_unit_test(test_waiting),  cmocka_unit_test(test_end_of_rest),
		cmocka_unit_test(test_close),    cmocka_unit_test(test_all),
		cmocka_unit_test(test_together),
	};

	return cmocka_run_group_tests_name("pace", tests, NULL, NULL);
}

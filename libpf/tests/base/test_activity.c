/* SPDX-License-Identifier: BSD-3-Clause */
/* What calls of progress tell of the application, with made-up clocks. */
#include "unit.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "base/activity.h"

#define MILLISECOND 1000000ull
#define SECOND (1000 * MILLISECOND)

struct sleeper {
	pthread_mutex_t lock;
	_Atomic int thread;
};

static void poll(struct activity *activity, unsigned times, bool moved, bool busy)
{
	while (times--) {
		if (moved)
			activity_moved(activity);
		activity_polled(activity, busy);
	}
}

static void test_counts(void **state)
{
	struct activity activity = { 0 };

	activity_polled(&activity, false);
	assert_int_equal(activity_empty(&activity), 1);
	activity_polled(&activity, false);
	assert_int_equal(activity_empty(&activity), 2);
	activity_polled(&activity, true);
	assert_int_equal(activity_empty(&activity), 0);
	activity_polled(&activity, false);
	assert_int_equal(activity_empty(&activity), 1);
	assert_int_equal(activity_read(&activity.polls), 4);
	assert_int_equal(activity_still(&activity), 4);
	poll(&activity, 1, true, true);
	assert_int_equal(activity_still(&activity), 0);
}

static void test_observe(void **state)
{
	struct activity activity = { 0 };
	struct activity_observer observer = { 0 };

	assert_int_equal(activity_observe(&activity, &observer), ACTIVITY_COMPUTING);
	poll(&activity, 1, true, true);
	assert_int_equal(activity_observe(&activity, &observer), ACTIVITY_POLLING);
	assert_int_equal(activity_observe(&activity, &observer), ACTIVITY_COMPUTING);
	/* Not enough of them to tell, busy or not. */
	poll(&activity, ACTIVITY_WAITING_POLLS - 2, false, true);
	assert_int_equal(activity_observe(&activity, &observer), ACTIVITY_COMPUTING);
	poll(&activity, 2, false, false);
	assert_int_equal(activity_observe(&activity, &observer), ACTIVITY_WAITING);
	/* It waited, and then did not call any more. */
	assert_int_equal(activity_observe(&activity, &observer), ACTIVITY_COMPUTING);
	/* Something moved long before the end of what was observed. */
	poll(&activity, 1, true, true);
	poll(&activity, ACTIVITY_WAITING_POLLS, false, false);
	assert_int_equal(activity_observe(&activity, &observer), ACTIVITY_WAITING);
	/* Progress polls between the two loads: what moved is ahead of the polls seen. */
	atomic_store(&activity.moved_at, activity_read(&activity.polls) + 1);
	observer.polls--;
	assert_int_equal(activity_observe(&activity, &observer), ACTIVITY_POLLING);
}

/* Of a thread that certainly runs: this one. */
/* A sleep is a wait, however few polls came before. */
static void test_sleep(void **state)
{
	struct activity_observer observer = { 0 };
	struct activity activity = { 0 };

	poll(&activity, 1, true, true);
	assert_int_equal(activity_observe(&activity, &observer), ACTIVITY_POLLING);
	activity_sleep(&activity, true);
	assert_int_equal(activity_observe(&activity, &observer), ACTIVITY_WAITING);
	activity_sleep(&activity, false);
	assert_int_equal(activity_observe(&activity, &observer), ACTIVITY_COMPUTING);
}

static void test_thread(void **state)
{
	uint64_t before, after;
	unsigned rounds = 0;
	bool running;

	assert_true(activity_thread(gettid(), &running, &before));
	assert_true(running);
	/* The clock may be coarse. */
	do
		assert_true(activity_thread(gettid(), &running, &after));
	while (after == before && ++rounds < 1000000);
	assert_true(after > before);
	assert_false(activity_thread(INT32_MAX, &running, &after));
}

static void *wait_for_lock(void *arg)
{
	struct sleeper *sleeper = arg;

	atomic_store(&sleeper->thread, gettid());
	pthread_mutex_lock(&sleeper->lock);
	pthread_mutex_unlock(&sleeper->lock);
	return NULL;
}

/* One that sleeps, and one that has run, want no processor. */
static void test_starved(void **state)
{
	struct sleeper sleeper = { .lock = PTHREAD_MUTEX_INITIALIZER };
	uint64_t before, after, slept;
	pthread_t thread;
	bool able = true;

	assert_true(activity_thread(gettid(), NULL, &before));
	do
		assert_true(activity_thread(gettid(), NULL, &after));
	while (after == before);
	assert_false(activity_starved(gettid(), 0, 1000, 1000));
	/* As if it had been able to run for that long: this one is. */
	assert_true(activity_starved(gettid(), 0, 1000, 4000));
	/* One of many on a processor that computes all the same. */
	assert_false(activity_starved(gettid(), before, before + MILLISECOND, SECOND));

	pthread_mutex_lock(&sleeper.lock);
	assert_int_equal(pthread_create(&thread, NULL, wait_for_lock, &sleeper), 0);
	while (!atomic_load(&sleeper.thread) || able) {
		sched_yield();
		if (atomic_load(&sleeper.thread))
			assert_true(activity_thread(sleeper.thread, &able, &slept));
	}
	assert_false(activity_starved(sleeper.thread, slept, slept, SECOND));
	pthread_mutex_unlock(&sleeper.lock);
	pthread_join(thread, NULL);
	/* More than the kernel ever counts to. */
	assert_false(activity_thread(1 << 22, NULL, &slept));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_counts),  cmocka_unit_test(test_observe),
		cmocka_unit_test(test_sleep),   cmocka_unit_test(test_thread),
		cmocka_unit_test(test_starved),
	};

	return cmocka_run_group_tests_name("activity", tests, NULL, NULL);
}

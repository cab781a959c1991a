/* SPDX-License-Identifier: BSD-3-Clause */
/* What resolver threads leave of a processor to the thread that calls progress. */
#include "unit.h"

#include <pthread.h>
#include <sched.h>

#include "base/clock.h"
#include "memory/pace.h"

static struct activity activity;
static struct pace pace;
static uint64_t used; /* processor time that was judged, ns */

static void begin(uint64_t percent)
{
	memset(&activity, 0, sizeof(activity));
	memset(&pace, 0, sizeof(pace));
	pace_init(&pace, percent, &activity);
	assert_false(pace_is_resolving(&pace));
	pace_begin(&pace);
	assert_true(pace_is_resolving(&pace));
	used = pace_used();
}

static int end(void **state)
{
	pace_end(&pace);
	assert_false(pace_is_resolving(&pace));
	pace_destroy(&pace);
	return 0;
}

/* What one call of progress tells. */
static void poll(bool moved, bool busy)
{
	if (moved)
		activity_moved(&activity);
	activity_polled(&activity, busy);
	pace_polled(&pace, busy);
}

/* Enough processor time to be worth a rest. */
static void work(void)
{
	while (pace_used() - used < 200000)
		;
}

/* Work, and return how long the rest for it was to be, ns; 0: there was none. */
static uint64_t rest(void)
{
	uint64_t due = pace.due, before = clock_nanoseconds(CLOCK_MONOTONIC);

	work();
	pace_rest(&pace, &used);
	if (pace.due == due)
		return 0;
	assert_true(clock_nanoseconds(CLOCK_MONOTONIC) >= pace.due);
	return pace.due - before;
}

static void test_moving(void **state)
{
	begin(10);
	poll(true, true);
	/* A tenth of the processor for 200 us of work. */
	assert_true(rest() >= 9 * 200000);
}

/* Silent all the time: it computes, and shares the processor as threads do. */
static void test_silent(void **state)
{
	begin(10);
	assert_int_equal(rest(), 0);
	assert_int_equal(rest(), 0);
	poll(true, true);
	assert_true(rest() > 0);
	assert_int_equal(rest(), 0);
}

/* Some empty polls are none: a peer may be at its end of a transfer. */
static void test_waiting(void **state)
{
	int i;

	begin(10);
	poll(true, true);
	for (i = 0; i < 10; i++)
		poll(false, i % 2);
	assert_true(rest() > 0);
	poll(true, true);
	for (i = 0; i < 1000; i++)
		poll(false, i % 2);
	assert_int_equal(rest(), 0);
}

static void *rest_long(void *arg)
{
	used = pace_used();
	work();
	pace_rest(&pace, &used);
	return NULL;
}

/* A rest of an hour ends when there is nothing left to make way for, or at the end of all. */
static void end_of_rest(bool at_close)
{
	pthread_t thread;

	begin(10);
	poll(true, true);
	pace.due = clock_nanoseconds(CLOCK_MONOTONIC) + 3600 * 1000000000ull;
	assert_int_equal(pthread_create(&thread, NULL, rest_long, &pace), 0);
	while (!atomic_load(&pace.rests))
		sched_yield();
	if (at_close)
		pace_end_rests(&pace);
	while (atomic_load(&pace.rests)) {
		if (!at_close)
			poll(false, true);
	}
	pthread_join(thread, NULL);
}

static void test_end_of_rest(void **state)
{
	end_of_rest(false);
}

static void test_close(void **state)
{
	end_of_rest(true);
}

static void test_all(void **state)
{
	begin(100);
	poll(true, true);
	assert_int_equal(rest(), 0);
}

/* Several threads keep to the share together. */
static void test_together(void **state)
{
	uint64_t due;

	begin(50);
	pace_begin(&pace);
	poll(true, true);
	due = clock_nanoseconds(CLOCK_MONOTONIC) + 20000000;
	pace.due = due;
	assert_true(rest() > 0);
	assert_true(pace.due >= due + 200000);
	pace_end(&pace);
	assert_true(pace_is_resolving(&pace));
}

/* ---- real-time policies ---- */

static int policy = SCHED_OTHER;
static unsigned sleeps;

/* The linker replaces the functions by these. */
int __wrap_sched_getscheduler(pid_t pid);
int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *time,
			   struct timespec *rest);

int __wrap_sched_getscheduler(pid_t pid)
{
	assert_int_equal(pid, 0);
	return policy;
}

int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *time,
			   struct timespec *rest)
{
	assert_true(time->tv_sec || time->tv_nsec);
	sleeps++;
	return 0;
}

/*
 * Ordinary threads of the kernel read the pages. So a thread that they get no processor from sleeps
 * between polls while it waits for pages, and at no other time.
 */
static void test_real_time(void **state)
{
	static const struct {
		int policy;
		bool sleeps;
	} cases[] = {
		{ SCHED_OTHER, false },
		{ SCHED_BATCH, false },
		{ SCHED_FIFO, true },
		{ SCHED_RR, true },
		{ SCHED_FIFO | SCHED_RESET_ON_FORK, true },
	};
	size_t i;
	int j;

	begin(10);
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		policy = cases[i].policy;
		poll(true, true);
		sleeps = 0;
		for (j = 1; j < ACTIVITY_WAITING_POLLS; j++)
			poll(false, false);
		assert_int_equal(sleeps, 0);
		for (j = 0; j < 10; j++)
			poll(false, true);
		assert_int_equal(sleeps, 0);
		for (j = 0; j < 10; j++)
			poll(false, false);
		assert_int_equal(sleeps, cases[i].sleeps ? 10 : 0);
	}
	policy = SCHED_OTHER;
}

#define PACE_TEST(test) cmocka_unit_test_teardown(test, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		PACE_TEST(test_moving),      PACE_TEST(test_silent),    PACE_TEST(test_waiting),
		PACE_TEST(test_end_of_rest), PACE_TEST(test_close),     PACE_TEST(test_all),
		PACE_TEST(test_together),    PACE_TEST(test_real_time),
	};

	return cmocka_run_group_tests_name("pace", tests, NULL, NULL);
}

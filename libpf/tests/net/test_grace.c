/* SPDX-License-Identifier: BSD-3-Clause */
/* How long the service thread leaves what waits to the application. */
#include "unit.h"

#include "net/grace.h"

static uint64_t now;

/* True: a period began, and is over. */
static bool stop(struct grace *grace, bool waits)
{
	uint64_t left;

	if (!grace_needed(grace, waits))
		return false;
	grace_start(grace, 0, now, 0, 0);
	assert_true(grace_runs(grace, now += grace_length(grace) - 1, &left));
	assert_int_equal(left, 1);
	assert_true(grace_runs(grace, ++now, &left));
	assert_int_equal(left, 0);
	return true;
}

static void test_away(void **state)
{
	struct grace grace = { 0 };

	assert_true(stop(&grace, true));
	assert_int_equal(grace_length(&grace), GRACE_LEAST);
	/* The same period. */
	assert_false(stop(&grace, true));
	assert_int_equal(grace_end(&grace, true), GRACE_AWAY);
	assert_true(stop(&grace, true));
	/* The thread attends: none runs. */
	grace_away(&grace);
	assert_true(stop(&grace, true));
}

static void test_nothing_waits(void **state)
{
	struct grace grace = { 0 };
	uint64_t left;

	assert_false(stop(&grace, false));
	assert_false(grace_runs(&grace, now, &left));
	assert_true(stop(&grace, true));
	assert_false(stop(&grace, false));
	assert_int_equal(grace_end(&grace, false), GRACE_OVER);
	/* The next one is longer, though: it polls. */
	assert_int_equal(grace_length(&grace), 2 * GRACE_LEAST);
	assert_true(stop(&grace, true));
}

/* Periods follow each other, and grow, while something waits and the application polls. */
static void test_polls(void **state)
{
	uint64_t length = 0;
	struct grace grace = { 0 };

	assert_true(stop(&grace, true));
	while (grace_length(&grace) != length) {
		length = grace_length(&grace);
		assert_int_equal(grace_end(&grace, false), GRACE_RENEWED);
		assert_true(grace_length(&grace) == length || grace_length(&grace) == 2 * length);
		assert_true(stop(&grace, true));
	}
	assert_in_range(length, GRACE_MOST / 2, GRACE_MOST);
	/* Later ones are as long. */
	assert_false(stop(&grace, false));
	assert_int_equal(grace_end(&grace, false), GRACE_OVER);
	assert_true(stop(&grace, true));
	assert_int_equal(grace_length(&grace), length);
	/* Until it is away, and the thread says so. */
	assert_int_equal(grace_end(&grace, true), GRACE_AWAY);
	grace_away(&grace);
	assert_int_equal(grace_length(&grace), GRACE_LEAST);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_away),
		cmocka_unit_test(test_nothing_waits),
		cmocka_unit_test(test_polls),
	};

	return cmocka_run_group_tests_name("grace", tests, NULL, NULL);
}

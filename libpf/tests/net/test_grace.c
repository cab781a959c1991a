/* SPDX-License-Identifier: BSD-3-Clause */
/* How long the service thread leaves the network to the application. */
#include "unit.h"

#include "net/grace.h"

#define LONGEST ((uint64_t)GRACE_LEAST << GRACE_DOUBLINGS)

static uint64_t now = 1000000000;

static uint64_t length(const struct grace *grace)
{
	return atomic_load(&grace->length);
}

/* The driving thread stops. True: a period began, and is over. */
static bool stop(struct grace *grace, bool waits)
{
	uint64_t left, end;

	if (!grace_needed(grace, waits))
		return false;
	end = grace_start(grace, now);
	assert_int_equal(end, now + length(grace));
	now = end - 1;
	assert_true(grace_runs(grace, now, &left));
	assert_int_equal(left, 1);
	assert_true(grace_runs(grace, ++now, &left));
	assert_int_equal(left, 0);
	return true;
}

/* The application polls. Returns the length of the period that begins; it is over. */
static uint64_t take_back(struct grace *grace)
{
	now = grace_return(grace, now);
	return length(grace);
}

/* At the end of a period. */
static bool away(const struct grace *grace)
{
	return grace_is_away(grace, now, now - length(grace) / 2);
}

static bool polled(const struct grace *grace)
{
	return !grace_is_away(grace, now, now - length(grace) / 2 + 1);
}

/* The clock of the thread that began it was read later. */
static void test_begins_later(void **state)
{
	struct grace grace = { 0 };
	uint64_t left;

	grace_start(&grace, now);
	assert_true(grace_runs(&grace, now - 1, &left));
	assert_int_equal(left, GRACE_LEAST);
	assert_false(grace_is_away(&grace, now, now + 1));
}

static void test_away(void **state)
{
	struct grace grace = { 0 };

	assert_true(stop(&grace, true));
	assert_int_equal(length(&grace), GRACE_LEAST);
	assert_true(polled(&grace) && away(&grace));
	/* The same period. */
	assert_false(stop(&grace, true));
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
	/* It does not poll, but it was not for long, and nothing is kept back. */
	assert_false(away(&grace));
	now = grace_renew(&grace, now);
	assert_int_equal(length(&grace), 2 * GRACE_LEAST);
	assert_true(away(&grace));
	/* What waits does not wait for the end of a long one. */
	assert_true(stop(&grace, true));
	assert_int_equal(length(&grace), 2 * GRACE_LEAST);
}

/* Periods follow each other, and grow, while something waits and the application polls. */
static void test_polls(void **state)
{
	struct grace grace = { 0 };
	uint64_t before = 0;

	assert_true(stop(&grace, true));
	while (length(&grace) != before) {
		before = length(&grace);
		now = grace_renew(&grace, now);
		assert_true(length(&grace) == before || length(&grace) == 2 * before);
	}
	assert_int_equal(length(&grace), LONGEST);
	/* It is back in time. */
	grace_seen(&grace, now, now - GRACE_LEAST + 1, false);
	assert_false(stop(&grace, true));
	grace_renew(&grace, now);
	assert_int_equal(length(&grace), LONGEST);
	/* It was not, but may have waited for a processor. */
	grace_seen(&grace, now, now - LONGEST, true);
	now = grace_renew(&grace, now);
	assert_int_equal(length(&grace), LONGEST);
	/* It was not, and kept something back. */
	grace_seen(&grace, now, now - GRACE_LEAST, false);
	now = grace_renew(&grace, now);
	assert_int_equal(length(&grace), 2 * GRACE_LEAST);
}

/* If the thread takes over again and again, and nobody needs it, it does so later. */
static void test_needless(void **state)
{
	struct grace grace = { 0 };
	uint64_t before = 2 * GRACE_LEAST;
	unsigned i;

	for (i = 0; i < 10; i++) {
		uint64_t after = take_back(&grace);

		assert_true(after == 2 * before || after == LONGEST);
		assert_true(away(&grace));
		grace_away(&grace);
		before = after;
	}
	assert_int_equal(before, LONGEST);
	/* Needed once: a little sooner. Needed each time: as soon as at first. */
	grace.needed = true;
	assert_int_equal(take_back(&grace), LONGEST / 4);
	assert_int_equal(take_back(&grace), LONGEST / 2);
	for (i = 0; i < 3; i++) {
		grace.needed = true;
		before = take_back(&grace);
	}
	assert_int_equal(before, 2 * GRACE_LEAST);
	/* While it polls they grow. */
	now = grace_renew(&grace, now);
	assert_int_equal(length(&grace), 4 * GRACE_LEAST);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_begins_later),  cmocka_unit_test(test_away),
		cmocka_unit_test(test_nothing_waits), cmocka_unit_test(test_polls),
		cmocka_unit_test(test_needless),
	};

	return cmocka_run_group_tests_name("grace", tests, NULL, NULL);
}

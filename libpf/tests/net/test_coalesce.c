/* SPDX-License-Identifier: BSD-3-Clause */
/* Which posts wait for the next poll. */
#include "unit.h"

#include "net/coalesce.h"

/* So late that it costs most. */
#define LATE (COALESCE_LATE * COALESCE_WAIT)

static uint64_t now;

/* So many posts, then a poll. Returns how many of them were sent at once. */
static unsigned burst(struct coalesce *coalesce, unsigned posts, uint64_t until_poll)
{
	unsigned sent = 0;

	while (posts--)
		sent += coalesce_post(coalesce, now += 100, COALESCE_POLLED, 8) == COALESCE_NOW;
	coalesce_poll(coalesce, now += until_poll);
	return sent;
}

/* Returns how many bursts it takes until posts wait. */
static unsigned bursts_until_trust(struct coalesce *coalesce)
{
	unsigned bursts = 0;

	while (burst(coalesce, 3, COALESCE_SOON) == 3)
		bursts++;
	return bursts;
}

static void test_at_once(void **state)
{
	struct coalesce coalesce = { 0 };
	unsigned i;

	/* A program that posts and computes. */
	for (i = 0; i < 1000; i++)
		assert_int_equal(burst(&coalesce, 3, LATE), 3);
	/* One that also polls soon, but not each time. */
	for (i = 0; i < 1000; i++)
		assert_int_equal(burst(&coalesce, 3, i % COALESCE_TRUST ? COALESCE_SOON : LATE), 3);
}

static void test_together(void **state)
{
	struct coalesce coalesce = { 0 };

	assert_int_equal(bursts_until_trust(&coalesce), (COALESCE_TRUST + 2) / 3);
	assert_int_equal(burst(&coalesce, 1, 0), 1);
	assert_int_equal(burst(&coalesce, COALESCE_MOST, 0), 1);
	assert_int_equal(burst(&coalesce, 64 * COALESCE_MOST, 0), 64);
}

/* Polls without posts say nothing; single posts, and those that went at once, do. */
static void test_no_prediction(void **state)
{
	struct coalesce coalesce = { 0 };
	unsigned i;

	bursts_until_trust(&coalesce);
	for (i = 0; i < 10; i++)
		coalesce_poll(&coalesce, now += 1000 * LATE);
	assert_int_equal(burst(&coalesce, 3, 0), 1);
	/* The service thread drives: every post goes at once. */
	for (i = 0; i < 3; i++)
		assert_int_equal(coalesce_post(&coalesce, now += 100, COALESCE_UNPOLLED, 8),
				 COALESCE_NOW);
	coalesce_poll(&coalesce, now += LATE);
	assert_in_range(bursts_until_trust(&coalesce), COALESCE_LATE / 6, COALESCE_LATE / 3);
	assert_int_equal(burst(&coalesce, 1, LATE), 1);
	assert_in_range(bursts_until_trust(&coalesce), COALESCE_LATE / 6, COALESCE_LATE / 3);
}

/* One late burst for 3,000 posts is worth it, one for 150 is not. */
static void test_wrong(void **state)
{
	struct coalesce coalesce = { 0 };
	unsigned i, sent = 0;

	bursts_until_trust(&coalesce);
	for (i = 1; i <= 10000; i++)
		sent += burst(&coalesce, 3, i % 1000 ? COALESCE_SOON : LATE);
	assert_in_range(sent, 10000, 11000);
	for (i = 1; i <= 10000; i++)
		sent = burst(&coalesce, 3, i % 50 ? COALESCE_SOON : LATE);
	assert_int_equal(sent, 3);
	/* It changed. */
	assert_true(bursts_until_trust(&coalesce) <= COALESCE_POINTS + COALESCE_TRUST);
	for (i = 0; i < 100000; i++)
		burst(&coalesce, 3, COALESCE_SOON);
	for (i = 0; burst(&coalesce, 3, LATE) == 1; i++)
		;
	assert_true(i <= COALESCE_POINTS / COALESCE_LATE);
}

/* One that is a little late costs little. */
static void test_little_late(void **state)
{
	struct coalesce coalesce = { 0 };
	unsigned i, sent = 0;

	bursts_until_trust(&coalesce);
	for (i = 1; i <= 10000; i++)
		sent += burst(&coalesce, 3, i % 50 ? COALESCE_SOON : 2 * COALESCE_SOON);
	assert_in_range(sent, 10000, 11000);
}

/* The next post shows it too, if there is no poll before. */
static void test_late_post(void **state)
{
	struct coalesce coalesce = { 0 };

	bursts_until_trust(&coalesce);
	assert_int_equal(coalesce_post(&coalesce, now += 100, COALESCE_CALLED, 8),
			 COALESCE_NEXT_POLL);
	coalesce_judge(&coalesce, now += COALESCE_SOON);
	assert_true(coalesce_trusts(&coalesce));
	assert_int_equal(coalesce_post(&coalesce, now, COALESCE_CALLED, 8), COALESCE_NEXT_POLL);
	coalesce_judge(&coalesce, now += LATE);
	assert_false(coalesce_trusts(&coalesce));
	assert_int_equal(coalesce_post(&coalesce, now, COALESCE_CALLED, 8),
			 COALESCE_AFTER_CALLBACK);
	/* This one was sent. */
	coalesce_judge(&coalesce, now += LATE);
	assert_in_range(bursts_until_trust(&coalesce), COALESCE_LATE / 6, COALESCE_LATE / 3);
}

/* What a callback posts waits even if it is the first, but not without trust. */
static void test_called(void **state)
{
	struct coalesce coalesce = { 0 };

	assert_int_equal(coalesce_post(&coalesce, now += 100, COALESCE_CALLED, 8),
			 COALESCE_AFTER_CALLBACK);
	bursts_until_trust(&coalesce);
	assert_int_equal(coalesce_post(&coalesce, now += 100, COALESCE_CALLED, 8),
			 COALESCE_NEXT_POLL);
	coalesce_poll(&coalesce, now += LATE);
	assert_int_equal(coalesce_post(&coalesce, now += 100, COALESCE_CALLED, 8),
			 COALESCE_AFTER_CALLBACK);
}

/* Many bytes do not wait, not even in a callback. */
static void test_full(void **state)
{
	static const enum coalesce_origin origins[] = { COALESCE_POLLED, COALESCE_CALLED };
	struct coalesce coalesce = { 0 };
	unsigned i, origin;

	for (i = 0; i < 4; i++) {
		assert_int_equal(coalesce_post(&coalesce, now, COALESCE_CALLED, COALESCE_BYTES - 8),
				 COALESCE_AFTER_CALLBACK);
		assert_int_equal(coalesce_post(&coalesce, now, COALESCE_CALLED, 8), COALESCE_NOW);
	}
	coalesce_poll(&coalesce, now);
	bursts_until_trust(&coalesce);
	for (origin = 0; origin < 2; origin++) {
		coalesce_post(&coalesce, now, COALESCE_POLLED, 8);
		for (i = 0; i < 4; i++) {
			assert_int_equal(coalesce_post(&coalesce, now, origins[origin],
						       COALESCE_BYTES - 8),
					 COALESCE_NEXT_POLL);
			assert_int_equal(coalesce_post(&coalesce, now, origins[origin], 8),
					 COALESCE_NOW);
		}
		coalesce_poll(&coalesce, now);
	}
	/* What a poll sends does not wait any more. */
	for (i = 0; i < 4; i++) {
		assert_int_equal(coalesce_post(&coalesce, now, COALESCE_CALLED, COALESCE_BYTES / 2),
				 COALESCE_NEXT_POLL);
		coalesce_poll(&coalesce, now);
	}
}

/* A poll or a send that takes long by itself says nothing of the application. */
static void test_long_poll(void **state)
{
	struct coalesce coalesce = { 0 };

	bursts_until_trust(&coalesce);
	coalesce_post(&coalesce, now += 100, COALESCE_POLLED, 8);
	coalesce_return(&coalesce, now += LATE);
	coalesce_poll(&coalesce, now += 100);
	assert_true(coalesce_trusts(&coalesce));
}

/* What a poll kept back shows as well whether polls come soon, and counts as no post. */
static void test_kept(void **state)
{
	struct coalesce coalesce = { 0 };

	bursts_until_trust(&coalesce);
	coalesce_keep(&coalesce);
	coalesce_return(&coalesce, now += 100);
	assert_int_equal(coalesce_post(&coalesce, now += 100, COALESCE_POLLED, 8), COALESCE_NOW);
	coalesce_poll(&coalesce, now += 100);
	assert_true(coalesce_trusts(&coalesce));
	coalesce_keep(&coalesce);
	coalesce_return(&coalesce, now += 100);
	coalesce_poll(&coalesce, now += LATE);
	assert_false(coalesce_trusts(&coalesce));
	assert_false(coalesce_pending(&coalesce));
}

/* Another thread posts after the one that polls has read the clock. */
static void test_post_of_another_thread(void **state)
{
	struct coalesce coalesce = { 0 };

	bursts_until_trust(&coalesce);
	coalesce_post(&coalesce, now + 100, COALESCE_POLLED, 8);
	coalesce_poll(&coalesce, now);
	assert_true(coalesce_trusts(&coalesce));
	now += 100;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_at_once),
		cmocka_unit_test(test_together),
		cmocka_unit_test(test_no_prediction),
		cmocka_unit_test(test_wrong),
		cmocka_unit_test(test_little_late),
		cmocka_unit_test(test_late_post),
		cmocka_unit_test(test_called),
		cmocka_unit_test(test_full),
		cmocka_unit_test(test_long_poll),
		cmocka_unit_test(test_kept),
		cmocka_unit_test(test_post_of_another_thread),
	};

	return cmocka_run_group_tests_name("coalesce", tests, NULL, NULL);
}

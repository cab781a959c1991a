/* SPDX-License-Identifier: BSD-3-Clause */
/* Which posts wait for the next poll. */
#include "unit.h"

#include "net/crowd.h"

#define LATE (CROWD_SOON + 1)

static uint64_t now;

/* So many posts, then a poll. Returns how many of them were sent at once. */
static unsigned burst(struct crowd *crowd, unsigned posts, uint64_t until_poll)
{
	unsigned sent = 0;

	while (posts--)
		sent += crowd_post(crowd, now += 100);
	crowd_poll(crowd, now += until_poll);
	return sent;
}

/* Returns how many bursts it takes until posts wait. */
static unsigned bursts_until_trust(struct crowd *crowd)
{
	unsigned bursts = 0;

	while (burst(crowd, 3, CROWD_SOON) == 3)
		bursts++;
	return bursts;
}

static void test_at_once(void **state)
{
	struct crowd crowd = { 0 };
	unsigned i;

	/* A program that posts and computes. */
	for (i = 0; i < 1000; i++)
		assert_int_equal(burst(&crowd, 3, LATE), 3);
	/* One that also polls soon, but not each time. */
	for (i = 0; i < 1000; i++)
		assert_int_equal(burst(&crowd, 3, i % CROWD_TRUST_LEAST ? CROWD_SOON : LATE), 3);
}

static void test_together(void **state)
{
	struct crowd crowd = { 0 };

	assert_int_equal(bursts_until_trust(&crowd), CROWD_TRUST_LEAST);
	assert_int_equal(burst(&crowd, 1, 0), 1);
	assert_int_equal(burst(&crowd, CROWD_MOST, 0), 1);
	assert_int_equal(burst(&crowd, 64 * CROWD_MOST, 0), 64);
}

/* Nothing waited, so nothing was predicted wrongly: polls without posts, and single posts. */
static void test_no_prediction(void **state)
{
	struct crowd crowd = { 0 };
	unsigned i;

	bursts_until_trust(&crowd);
	for (i = 0; i < 10; i++)
		crowd_poll(&crowd, now += 1000 * LATE);
	assert_int_equal(burst(&crowd, 3, 0), 1);
	assert_int_equal(burst(&crowd, 1, LATE), 1);
	assert_int_equal(bursts_until_trust(&crowd), CROWD_TRUST_LEAST);
}

static void test_wrong(void **state)
{
	struct crowd crowd = { 0 };
	unsigned before = CROWD_TRUST_LEAST, after, i;

	bursts_until_trust(&crowd);
	for (i = 0; i < 20; i++) {
		assert_int_equal(burst(&crowd, 3, LATE), 1);
		after = bursts_until_trust(&crowd);
		assert_true(after >= 2 * before || after >= CROWD_TRUST_MOST / 4);
		assert_true(after < CROWD_TRUST_MOST);
		before = after;
	}
	/* Long after that it is forgotten. */
	for (i = 0; i < CROWD_TRUST_MOST; i++)
		burst(&crowd, 3, CROWD_SOON);
	assert_int_equal(burst(&crowd, 3, LATE), 1);
	assert_true(bursts_until_trust(&crowd) <= 2 * CROWD_TRUST_LEAST);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_at_once),
		cmocka_unit_test(test_together),
		cmocka_unit_test(test_no_prediction),
		cmocka_unit_test(test_wrong),
	};

	return cmocka_run_group_tests_name("crowd", tests, NULL, NULL);
}

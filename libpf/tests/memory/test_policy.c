/* SPDX-License-Identifier: BSD-3-Clause */
/* How much memory each policy resolves for page faults in sequence, and out of it. */
#include "unit.h"

#include "memory/policy.h"

#define BLOCK ((uint64_t)16384)
#define LENGTH ((uint64_t)64 << 20)

static void test_touch_resolves_the_block(void **state)
{
	struct resolve_window window = { 0 };
	uint64_t offset;

	for (offset = 0; offset < 64 * BLOCK; offset += BLOCK) {
		assert_int_equal(policy_window(PF_POLICY_TOUCH, &window, offset, BLOCK, LENGTH),
				 BLOCK);
		assert_int_equal(policy_window(PF_POLICY_HUGE, &window, offset, BLOCK, LENGTH),
				 BLOCK);
	}
	assert_int_equal(policy_window_most(PF_POLICY_TOUCH, BLOCK), BLOCK);
	assert_int_equal(policy_window_most(PF_POLICY_HUGE, BLOCK), BLOCK);
}

static void test_ahead_doubles(void **state)
{
	struct resolve_window window = { 0 };
	uint64_t offset = 0, expected = BLOCK, size = 0;

	/* The first page fault is of the block; each that continues the sequence, of twice as much. */
	while (offset < LENGTH / 2) {
		size = policy_window(PF_POLICY_AHEAD, &window, offset, BLOCK, LENGTH);
		assert_int_equal(size, expected);
		assert_true(size <= policy_window_most(PF_POLICY_AHEAD, BLOCK));
		offset += size;
		expected = 2 * size < POLICY_WINDOW_MAX ? 2 * size : POLICY_WINDOW_MAX;
	}
	assert_int_equal(size, POLICY_WINDOW_MAX);
	/* Elsewhere the sequence begins again. */
	assert_int_equal(policy_window(PF_POLICY_AHEAD, &window, offset + BLOCK, BLOCK, LENGTH),
			 BLOCK);
	assert_int_equal(policy_window(PF_POLICY_AHEAD, &window, offset + 2 * BLOCK, BLOCK, LENGTH),
			 2 * BLOCK);
}

static void test_not_behind_the_end(void **state)
{
	struct resolve_window window = { .next = LENGTH - 5, .size = POLICY_WINDOW_MAX };

	assert_int_equal(policy_window(PF_POLICY_ADAPTIVE, &window, LENGTH - 5, BLOCK, LENGTH), 5);
	assert_int_equal(policy_window(PF_POLICY_TOUCH, &window, LENGTH - 5, BLOCK, LENGTH), 5);
}

static void test_huge_pages(void **state)
{
	assert_false(policy_makes_huge(PF_POLICY_TOUCH));
	assert_false(policy_makes_huge(PF_POLICY_AHEAD));
	assert_true(policy_makes_huge(PF_POLICY_HUGE));
	assert_true(policy_makes_huge(PF_POLICY_ADAPTIVE));
	/* An unknown number, as of a newer program: nothing special. */
	assert_false(policy_makes_huge((enum pf_policy)77));
	assert_int_equal(policy_window_most((enum pf_policy)77, BLOCK), BLOCK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_touch_resolves_the_block),
		cmocka_unit_test(test_ahead_doubles),
		cmocka_unit_test(test_not_behind_the_end),
		cmocka_unit_test(test_huge_pages),
	};

	return cmocka_run_group_tests_name("policy", tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Sets of numbers as intervals: each operation against a set with a flag for each number. */
#include "unit.h"

#include "protocol/ranges.h"

#define NUMBERS 300

/* The intervals are sorted, with gaps between, and hold the numbers of the model. */
static void check_ranges(const struct ranges *ranges, const bool *model)
{
	bool found[NUMBERS] = { false };
	uint64_t number;
	uint32_t i;

	for (i = 0; i < ranges->count; i++) {
		assert_true(ranges->list[i].start < ranges->list[i].end);
		assert_true(!i || ranges->list[i - 1].end < ranges->list[i].start);
		assert_true(ranges->list[i].end <= NUMBERS);
		for (number = ranges->list[i].start; number < ranges->list[i].end; number++)
			found[number] = true;
	}
	assert_memory_equal(found, model, sizeof(found));
}

static void test_operations_equal_the_model(void **state)
{
	struct random_numbers random = random_start("operations on ranges");
	struct ranges ranges = { 0 };
	bool model[NUMBERS] = { false };
	uint64_t start, end, number;
	unsigned round, kind;

	for (round = 0; round < REPEAT(40000); round++) {
		kind = (unsigned)random_below(&random, 40);
		start = random_below(&random, NUMBERS);
		/* Also empty and reversed intervals, which change nothing. */
		end = kind < 2 ? random_below(&random, start + 1) :
				 start + random_below(&random, kind < 4 ? NUMBERS - start + 1 : 20);
		if (end > NUMBERS)
			end = NUMBERS;
		if (!kind) {
			ranges_trim(&ranges, start);
			memset(model, 0, start);
		} else {
			assert_true(kind % 2 ? ranges_add(&ranges, start, end) :
					       ranges_remove(&ranges, start, end));
			for (number = start; number < end; number++)
				model[number] = kind % 2;
		}
		check_ranges(&ranges, model);
	}
	ranges_destroy(&ranges);
}

/* A full set refuses another interval, and stays as it was; intervals that join need no room. */
static void test_refuses_too_many_intervals(void **state)
{
	struct ranges ranges = { 0 };
	uint64_t i;

	for (i = 0; i < RANGES_MOST; i++)
		assert_true(ranges_add(&ranges, 10 * i, 10 * i + 5));
	assert_false(ranges_add(&ranges, 10 * RANGES_MOST, 10 * RANGES_MOST + 1));
	assert_false(ranges_remove(&ranges, 1, 2));
	assert_int_equal(ranges.count, RANGES_MOST);
	assert_true(ranges.list[0].start == 0 && ranges.list[0].end == 5);
	assert_true(ranges_add(&ranges, 5, 10));
	assert_int_equal(ranges.count, RANGES_MOST - 1);
	assert_true(ranges_remove(&ranges, 1, 2));
	ranges_destroy(&ranges);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_operations_equal_the_model),
		cmocka_unit_test(test_refuses_too_many_intervals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The ranges that peers reach, against an array with the rights of each byte. */
#include "unit.h"

#include "memory/exposure.h"

#define BYTES 400
#define BASE 0x100000ull
#define READ PF_EXPOSE_READ
#define WRITE PF_EXPOSE_WRITE
#define BOTH (READ | WRITE)

static struct statistics statistics;

static void start(struct exposure *exposure, bool limited)
{
	memset(&statistics, 0, sizeof(statistics));
	exposure_init(exposure, limited, &statistics);
}

static void test_unlimited(void **state)
{
	struct exposure exposure;
	uint64_t bad = 1;

	start(&exposure, false);
	assert_true(exposure_permits(&exposure, 0, UINT64_MAX, BOTH, &bad));
	assert_status(exposure_set(&exposure, BASE, 8, BOTH), PF_ERR_ARGUMENT);
	assert_status(exposure_set(&exposure, BASE, 8, 0), PF_ERR_ARGUMENT);
	assert_int_equal(bad, 1);
	exposure_destroy(&exposure);
}

static void check(struct exposure *exposure, uint64_t address, uint64_t length, unsigned rights,
		  uint64_t expected)
{
	uint64_t bad = 1;

	assert_int_equal(exposure_permits(exposure, address, length, rights, &bad), expected == 1);
	assert_int_equal(bad, expected);
}

static void test_limits(void **state)
{
	struct exposure exposure;

	start(&exposure, true);
	/* Nothing is exposed. */
	check(&exposure, BASE, 1, READ, BASE);
	check(&exposure, 0, UINT64_MAX, READ, 0);
	check(&exposure, BASE, 0, BOTH, 1);
	assert_ok(exposure_set(&exposure, BASE, 0, BOTH));
	check(&exposure, BASE, 1, READ, BASE);
	assert_status(exposure_set(&exposure, UINT64_MAX, 2, READ), PF_ERR_ARGUMENT);
	assert_status(exposure_set(&exposure, 2, UINT64_MAX, READ), PF_ERR_ARGUMENT);
	assert_status(exposure_set(&exposure, 1, UINT64_MAX, READ), PF_ERR_ARGUMENT);
	assert_int_equal(exposure.count, 0);
	/* The last byte of an address space cannot be exposed; the last but one can. */
	assert_ok(exposure_set(&exposure, UINT64_MAX - 8, 8, READ));
	check(&exposure, UINT64_MAX - 8, 8, READ, 1);
	check(&exposure, UINT64_MAX - 8, 9, READ, UINT64_MAX);
	check(&exposure, UINT64_MAX - 8, UINT64_MAX, READ, UINT64_MAX);
	assert_ok(exposure_set(&exposure, 0, UINT64_MAX, BOTH));
	check(&exposure, 0, UINT64_MAX, BOTH, 1);
	assert_int_equal(exposure.count, 1);
	assert_ok(exposure_set(&exposure, 0, UINT64_MAX, 0));
	assert_int_equal(exposure.count, 0);
	assert_int_equal(statistic_read(&statistics.page, PF_STAT_NOT_EXPOSED), 5);
	exposure_destroy(&exposure);
}

static void test_merge(void **state)
{
	struct exposure exposure;

	start(&exposure, true);
	assert_ok(exposure_set(&exposure, BASE, 64, READ));
	assert_ok(exposure_set(&exposure, BASE + 128, 64, READ));
	assert_int_equal(exposure.count, 2);
	assert_ok(exposure_set(&exposure, BASE + 64, 64, READ));
	assert_int_equal(exposure.count, 1);
	check(&exposure, BASE, 192, READ, 1);
	check(&exposure, BASE, 192, BOTH, BASE);
	/* A range of other rights in the middle, and its end. */
	assert_ok(exposure_set(&exposure, BASE + 64, 64, BOTH));
	assert_int_equal(exposure.count, 3);
	check(&exposure, BASE, 192, READ, 1);
	check(&exposure, BASE + 64, 65, WRITE, BASE + 128);
	assert_ok(exposure_set(&exposure, BASE + 80, 16, 0));
	assert_int_equal(exposure.count, 4);
	check(&exposure, BASE, 192, READ, BASE + 80);
	check(&exposure, BASE + 96, 96, READ, 1);
	/* Over all of them. */
	assert_ok(exposure_set(&exposure, BASE - 1, 194, WRITE));
	assert_int_equal(exposure.count, 1);
	check(&exposure, BASE - 1, 194, WRITE, 1);
	check(&exposure, BASE - 2, 2, WRITE, BASE - 2);
	check(&exposure, BASE - 1, 195, WRITE, BASE + 193);
	exposure_destroy(&exposure);
}

static void test_random(void **state)
{
	struct random_numbers numbers = random_start("exposure");
	unsigned char model[BYTES] = { 0 };
	struct exposure exposure;
	unsigned i, runs, last;
	size_t from, length, at;

	start(&exposure, true);
	for (i = 0; i < REPEAT(20000); i++) {
		unsigned rights = (unsigned)random_below(&numbers, 4);

		from = random_below(&numbers, BYTES);
		length = random_below(&numbers, random_below(&numbers, 8) ? 20 : BYTES);
		if (length > BYTES - from)
			length = BYTES - from;
		assert_ok(exposure_set(&exposure, BASE + from, length, rights));
		memset(model + from, (int)rights, length);
		for (at = 0, runs = last = 0; at < BYTES; last = model[at++])
			runs += model[at] && model[at] != last;
		assert_int_equal(exposure.count, runs);
		rights = 1 + (unsigned)random_below(&numbers, 3);
		from = random_below(&numbers, BYTES);
		length = random_below(&numbers, BYTES - from);
		for (at = from; at < from + length && !(rights & ~model[at]); at++)
			;
		check(&exposure, BASE + from, length, rights, at == from + length ? 1 : BASE + at);
	}
	exposure_destroy(&exposure);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_unlimited),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_merge),
		cmocka_unit_test(test_random),
	};

	return cmocka_run_group_tests_name("exposure", tests, NULL, NULL);
}

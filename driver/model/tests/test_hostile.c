// SPDX-License-Identifier: GPL-2.0
/*
 * A hostile driver and a hostile link, from random numbers. EXANEST_SEED
 * repeats a run.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <time.h>
#include <cmocka.h>

#include "hostile.h"

#define RUNS 500
#define BYTES 2048

static void test_hostile(void **state)
{
	const char *seed = getenv("EXANEST_SEED");
	uint64_t random = seed ? strtoull(seed, NULL, 0) : (uint64_t)time(NULL) * 2654435761u + 1;
	uint8_t bytes[BYTES];
	unsigned int run, i;

	print_message("seed: EXANEST_SEED=%llu\n", (unsigned long long)random);
	for (run = 0; run < RUNS; run++) {
		for (i = 0; i < BYTES; i++) {
			/* xorshift64* */
			random ^= random >> 12;
			random ^= random << 25;
			random ^= random >> 27;
			bytes[i] = (uint8_t)(random * 0x2545f4914f6cdd1dull >> 56);
		}
		hostile_run(bytes, BYTES);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hostile),
	};

	return cmocka_run_group_tests_name("hostile", tests, NULL, NULL);
}

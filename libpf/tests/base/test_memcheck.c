/* SPDX-License-Identifier: BSD-3-Clause */
/* Under valgrind: what a peer wrote here is valid, so a program may branch on it. */
#include "pair.h"

#include "base/memcheck.h"

#define WINDOW (4 * MIB)

/* As memory of malloc: valgrind does not take its bytes for valid. */
static uint8_t *new_memory(size_t length)
{
	uint8_t *memory = malloc(length);

	assert_non_null(memory);
	return memory;
}

/* Transfers until the peer has moved a part of one. */
static void test_get(void **state)
{
	struct pair *pair = pair_open(state, .window = WINDOW);
	uint64_t own = 0, all = 0;
	uint8_t *local;

	pair_connect(pair);
	pattern_fill(pair->window, WINDOW, 5);
	while (own == all) {
		local = new_memory(WINDOW);
		assert_ok(pair_transfer(pair, pair->peer, GET, local, remote_address(pair->window),
					WINDOW)
				  .status);
		assert_int_equal(VALGRIND_CHECK_MEM_IS_DEFINED(local, WINDOW), 0);
		pair_check_pattern(pair, local, WINDOW, 5);
		free(local);
		all += WINDOW;
		own = pf_stat(pair->context, PF_STAT_SINGLE_COPY_BYTES);
	}
	pair_end(pair);
}

int main(void)
{
	static const struct CMUnitTest tests[] = { PAIR_TEST_UNLESS(net, test_get) };

	return pair_run_tests("memcheck", tests);
}

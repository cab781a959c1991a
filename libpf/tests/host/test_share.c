/* SPDX-License-Identifier: BSD-3-Clause */
/* Shares: both ends claim granules of a transfer, each granule once. */
#include "unit.h"

#include <pthread.h>
#include <sched.h>

#include "host/share.h"

static void test_granule_shift(void **state)
{
	static const uint64_t lengths[] = { 1,
					    4095,
					    4096,
					    4097,
					    1 << 20,
					    1ull << 31,
					    (uint64_t)SHARE_GRANULES_MAX << 12,
					    ((uint64_t)SHARE_GRANULES_MAX << 12) + 1,
					    1ull << 40,
					    1ull << 47,
					    1ull << 56 };
	size_t i;

	for (i = 0; i < ARRAY_SIZE(lengths); i++) {
		unsigned shift = share_granule_shift(lengths[i]);

		assert_true(shift >= SHARE_GRANULE_SHIFT);
		assert_true((lengths[i] - 1) >> shift < SHARE_GRANULES_MAX);
		/* No larger than necessary. */
		assert_true(shift == SHARE_GRANULE_SHIFT ||
			    (lengths[i] - 1) >> (shift - 1) >= SHARE_GRANULES_MAX);
	}
}

/* The initiator claims [start, end); both 0: nothing is left. */
static void check_front(struct share *share, uint32_t least, uint32_t most, uint32_t start,
			uint32_t end)
{
	struct granules run = { 0, 0 };

	assert_int_equal(share_claim_front(share, least, most, &run), end != 0);
	assert_int_equal(run.start, start);
	assert_int_equal(run.end, end);
}

/* The peer claims [start, end), which is the last run or not. */
static void check_back(struct share *share, uint32_t generation, uint32_t least, uint32_t most,
		       uint32_t start, uint32_t end, bool is_last)
{
	struct granules run = { 0, 0 };
	bool last = false;

	assert_int_equal(share_claim_back(share, generation, least, most, &run, &last), end != 0);
	assert_int_equal(run.start, start);
	assert_int_equal(run.end, end);
	assert_int_equal(last, is_last);
}

static void test_claims(void **state)
{
	struct share share = { 0 };

	share_open(&share, 7, 10, 100);
	assert_false(share_joined(&share, 100));
	check_front(&share, 1, 16, 10, 26);
	check_back(&share, 7, 1, 16, 84, 100, false);
	assert_true(share_joined(&share, 100));
	/* At least what is asked for, and at most what is left. */
	check_front(&share, 50, 50, 26, 76);
	check_back(&share, 7, 30, 30, 76, 84, true);
	check_front(&share, 1, 1, 0, 0);
	check_back(&share, 7, 1, 1, 0, 0, false);
	assert_int_equal(share_close(&share, 100), 24);
}

/* most is a limit (run_max), least is a preference. */
static void test_most_wins(void **state)
{
	struct share share = { 0 };
	uint32_t i;

	share_open(&share, 1, 0, 100);
	for (i = 0; i < 50; i++) {
		check_front(&share, 8, 1, i, i + 1);
		check_back(&share, 1, 8, 1, 99 - i, 100 - i, i == 49);
	}
	check_front(&share, 8, 1, 0, 0);
}

/* A claim with an earlier generation gets nothing. The generation has 24 bits on both sides. */
static void test_generation(void **state)
{
	struct share share = { 0 };

	share_open(&share, 0xfffffe, 1, 10);
	check_back(&share, 0xfffffe, 1, 1, 9, 10, false);
	share_close(&share, 10);
	share_open(&share, 0xffffff, 1, 10);
	check_back(&share, 0xfffffe, 1, 1, 0, 0, false);
	assert_false(share_joined(&share, 10));
	check_back(&share, 0xffffff, 1, 1, 9, 10, false);
	share_open(&share, 0x1000000, 1, 10);
	check_back(&share, 0xffffff, 1, 1, 0, 0, false);
	check_back(&share, 0, 1, 1, 9, 10, false);
	check_back(&share, 0x1000000, 1, 1, 8, 9, false);
	assert_int_equal(share_close(&share, 10), 2);
}

static void test_reuse(void **state)
{
	struct share share = { 0 };

	share_open(&share, 1, 2, 20);
	check_back(&share, 1, 4, 4, 16, 20, false);
	share.moved = 3;
	share.returned = 16ull << 32 | 20;
	share_close(&share, 20);
	share_open(&share, 2, 2, 20);
	assert_int_equal(share.moved, 0);
	assert_int_equal(share.returned, 0);
	assert_int_equal(share_close(&share, 20), 0);
	check_front(&share, 1, 1, 0, 0);
}

static void test_largest(void **state)
{
	struct share share = { 0 };

	share_open(&share, 0xffffff, SHARE_GRANULES_MAX - 1, SHARE_GRANULES_MAX);
	check_back(&share, 0xffffff, 1, 1, SHARE_GRANULES_MAX - 1, SHARE_GRANULES_MAX, true);
	check_front(&share, 1, 1, 0, 0);
}

#define ROUNDS 3000
#define GRANULES 4000

/* A share and the two threads that claim from it. */
struct both {
	struct share share;
	_Atomic uint32_t offered; /* generation of the offer; 0: none yet */
	_Atomic uint32_t seen;    /* last generation that the peer tried to claim from */
	struct random_numbers numbers;
	uint8_t joined[ROUNDS];     /* the peer has claimed something */
	uint8_t count[2][GRANULES]; /* number of claims, by initiator and peer */
	uint32_t wrong;
};

static void count_run(uint8_t *count, struct granules run)
{
	uint32_t i;

	for (i = run.start; i < run.end; i++)
		count[i]++;
}

/* The peer: claims until nothing is left, and returns its last run in some rounds. */
static void *claim_as_peer(void *arg)
{
	struct both *both = arg;
	struct random_numbers *numbers = &both->numbers;
	uint32_t generation;

	for (generation = 1; generation <= ROUNDS; generation++) {
		uint32_t moved = 0;
		struct granules run;
		bool last;

		while (both->offered < generation)
			sched_yield();
		while (share_claim_back(&both->share, generation, 1 + random_below(numbers, 9),
					1 + random_below(numbers, 200), &run, &last)) {
			if (run.start >= run.end || run.end > GRANULES) {
				both->wrong++;
				break;
			}
			both->joined[generation - 1] = 1;
			both->seen = generation;
			if (!random_below(numbers, 20)) {
				both->share.returned = (uint64_t)run.start << 32 | run.end;
				break;
			}
			count_run(both->count[1], run);
			moved += granules_count(run);
			both->share.moved = moved;
		}
		both->seen = generation;
	}
	return NULL;
}

/* Wait until the peer has moved or returned what it has claimed; return true if it returned some. */
static bool await_peer(struct both *both, uint32_t claimed)
{
	for (;; sched_yield()) {
		uint64_t returned;

		if (both->share.moved == claimed)
			return false;
		returned = both->share.returned;
		if (returned) {
			struct granules run = { (uint32_t)(returned >> 32), (uint32_t)returned };

			assert_int_equal(both->share.moved + granules_count(run), claimed);
			count_run(both->count[0], run);
			return true;
		}
	}
}

/* Each granule is claimed exactly once, and a slot is reused only when the peer is done with it. */
static void test_threads(void **state)
{
	struct random_numbers numbers = random_start("share, two threads");
	struct both *both = aligned_alloc(128, (sizeof(*both) + 127) & ~(size_t)127);
	unsigned joined = 0, returned = 0;
	uint32_t generation, i;
	pthread_t thread;

	assert_non_null(both);
	memset(both, 0, sizeof(*both));
	both->numbers.state = random_next(&numbers) | 1;
	assert_int_equal(pthread_create(&thread, NULL, claim_as_peer, both), 0);
	for (generation = 1; generation <= ROUNDS; generation++) {
		uint32_t total = 1 +
				 random_below(&numbers, random_below(&numbers, 2) ? 20 : GRANULES);
		uint32_t front = 1 + random_below(&numbers, total), claimed;
		struct granules run = { 0, front };

		memset(both->count, 0, sizeof(both->count));
		share_open(&both->share, generation, front, total);
		both->offered = generation;
		/* In the other rounds the peer comes late, or during a claim. */
		while (generation % 4 && both->seen < generation)
			sched_yield();
		do {
			count_run(both->count[0], run);
		} while (random_below(&numbers, 500) &&
			 share_claim_front(&both->share, 1 + random_below(&numbers, 9),
					   1 + random_below(&numbers, 200), &run));
		/* An initiator that fails leaves granules unclaimed. */
		claimed = share_close(&both->share, total);
		returned += await_peer(both, claimed);
		for (i = 0; i < total; i++) {
			unsigned claims = both->count[0][i] + both->count[1][i];

			assert_true(claims <= 1);
			if (i < front || i >= total - claimed)
				assert_int_equal(claims, 1);
		}
	}
	pthread_join(thread, NULL);
	assert_int_equal(both->wrong, 0);
	for (i = 0; i < ROUNDS; i++)
		joined += both->joined[i];
	assert_true(joined > ROUNDS / 4 && returned > ROUNDS / 100);
	free(both);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_granule_shift), cmocka_unit_test(test_claims),
		cmocka_unit_test(test_most_wins),     cmocka_unit_test(test_generation),
		cmocka_unit_test(test_reuse),         cmocka_unit_test(test_largest),
		cmocka_unit_test(test_threads),
	};

	return cmocka_run_group_tests_name("share", tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
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
		uint64_t granules = ((lengths[i] - 1) >> shift) + 1;

		assert_true(shift >= SHARE_GRANULE_SHIFT);
		assert_true(granules <= SHARE_GRANULES_MAX);
		assert_true(shift == SHARE_GRANULE_SHIFT ||
			    (lengths[i] - 1) >> (shift - 1) >= SHARE_GRANULES_MAX);
	}
}

static void test_claims(void **state)
{
	struct share share = { 0 };
	struct granules run;
	bool last;

	share_open(&share, 7, 10, 100);
	assert_false(share_joined(&share, 100));
	assert_true(share_claim_front(&share, 1, 16, &run));
	assert_int_equal(run.start, 10);
	assert_int_equal(run.end, 26);
	assert_true(share_claim_back(&share, 7, 1, 16, &run, &last));
	assert_int_equal(run.end, 100);
	assert_int_equal(run.start, 84);
	assert_false(last);
	assert_true(share_joined(&share, 100));
	/* Never less than asked for while there is so much, never more than there is. */
	assert_true(share_claim_front(&share, 50, 50, &run));
	assert_int_equal(granules_count(run), 50);
	assert_true(share_claim_back(&share, 7, 30, 30, &run, &last));
	assert_int_equal(run.start, 76);
	assert_int_equal(run.end, 84);
	assert_true(last);
	assert_false(share_claim_front(&share, 1, 1, &run));
	assert_false(share_claim_back(&share, 7, 1, 1, &run, &last));
	assert_int_equal(share_close(&share, 100), 24);
}

/* most is a promise (run_max); least is only advice. */
static void test_most_wins(void **state)
{
	struct share share = { 0 };
	struct granules run;
	bool last;

	share_open(&share, 1, 0, 100);
	while (share_claim_front(&share, 8, 1, &run)) {
		assert_int_equal(granules_count(run), 1);
		if (share_claim_back(&share, 1, 8, 1, &run, &last))
			assert_int_equal(granules_count(run), 1);
	}
}

static void test_generation(void **state)
{
	struct share share = { 0 };
	struct granules run;
	bool last;

	share_open(&share, 0xfffffe, 1, 10);
	assert_true(share_claim_back(&share, 0xfffffe, 1, 1, &run, &last));
	share_close(&share, 10);
	share_open(&share, 0xffffff, 1, 10);
	assert_false(share_claim_back(&share, 0xfffffe, 1, 1, &run, &last));
	assert_false(share_joined(&share, 10));
	assert_true(share_claim_back(&share, 0xffffff, 1, 1, &run, &last));
	/* 24 bits of it are kept, at both ends alike. */
	share_open(&share, 0x1000000, 1, 10);
	assert_false(share_claim_back(&share, 0xffffff, 1, 1, &run, &last));
	assert_true(share_claim_back(&share, 0, 1, 1, &run, &last));
	assert_true(share_claim_back(&share, 0x1000000, 1, 1, &run, &last));
	assert_int_equal(share_close(&share, 10), 2);
}

static void test_reuse(void **state)
{
	struct share share = { 0 };
	struct granules run;
	bool last;

	share_open(&share, 1, 2, 20);
	assert_true(share_claim_back(&share, 1, 4, 4, &run, &last));
	atomic_store(&share.moved, 3);
	atomic_store(&share.returned, (uint64_t)run.start << 32 | run.end);
	share_close(&share, 20);
	share_open(&share, 2, 2, 20);
	assert_int_equal(atomic_load(&share.moved), 0);
	assert_int_equal(atomic_load(&share.returned), 0);
	assert_int_equal(share_close(&share, 20), 0);
	assert_false(share_claim_front(&share, 1, 1, &run));
}

static void test_largest(void **state)
{
	struct share share = { 0 };
	struct granules run;
	bool last;

	share_open(&share, 0xffffff, SHARE_GRANULES_MAX - 1, SHARE_GRANULES_MAX);
	assert_true(share_claim_back(&share, 0xffffff, 1, 1, &run, &last));
	assert_int_equal(run.start, SHARE_GRANULES_MAX - 1);
	assert_int_equal(run.end, SHARE_GRANULES_MAX);
	assert_false(share_claim_front(&share, 1, 1, &run));
}

#define ROUNDS 3000
#define GRANULES 4000

struct back {
	struct share share;
	_Atomic uint32_t offered; /* generation, 0: none yet */
	_Atomic uint32_t seen;    /* the last that the peer tried to claim from */
	struct random_numbers numbers;
	uint8_t taken[ROUNDS];      /* did it get anything? */
	uint8_t count[2][GRANULES]; /* how often claimed, by front and back */
	uint32_t total, wrong;
};

/* The peer: claims until it is told no, keeps count, sometimes returns its last run. */
static void *claim_back(void *arg)
{
	struct back *back = arg;
	uint32_t generation;

	for (generation = 1; generation <= ROUNDS; generation++) {
		uint32_t moved = 0;
		struct granules run;
		bool last;

		while (atomic_load_explicit(&back->offered, memory_order_acquire) < generation)
			sched_yield();
		while (share_claim_back(&back->share, generation,
					1 + random_below(&back->numbers, 9),
					1 + random_below(&back->numbers, 200), &run, &last)) {
			uint32_t i;

			if (run.start >= run.end || run.end > GRANULES) {
				back->wrong++;
				break;
			}
			back->taken[generation - 1] = 1;
			atomic_store_explicit(&back->seen, generation, memory_order_release);
			if (!random_below(&back->numbers, 20)) {
				atomic_store_explicit(&back->share.returned,
						      (uint64_t)run.start << 32 | run.end,
						      memory_order_release);
				break;
			}
			for (i = run.start; i < run.end; i++)
				back->count[1][i]++;
			moved += granules_count(run);
			atomic_store_explicit(&back->share.moved, moved, memory_order_release);
		}
		atomic_store_explicit(&back->seen, generation, memory_order_release);
	}
	return NULL;
}

/* Both ends at work: each granule exactly once, and a slot is reused only when all is accounted for. */
static void test_threads(void **state)
{
	struct random_numbers numbers = random_start("share, two threads");
	struct back *back = aligned_alloc(128, (sizeof(*back) + 127) & ~(size_t)127);
	unsigned joined = 0, returned = 0;
	uint32_t generation, i;
	pthread_t thread;

	assert_non_null(back);
	memset(back, 0, sizeof(*back));
	back->numbers.state = random_next(&numbers) | 1;
	assert_int_equal(pthread_create(&thread, NULL, claim_back, back), 0);
	for (generation = 1; generation <= ROUNDS; generation++) {
		uint32_t total = 1 +
				 random_below(&numbers, random_below(&numbers, 2) ? 20 : GRANULES);
		uint32_t front = 1 + random_below(&numbers, total), claimed, moved = 0;
		struct granules run = { 0, front };
		uint64_t given;

		memset(back->count, 0, sizeof(back->count));
		share_open(&back->share, generation, front, total);
		atomic_store_explicit(&back->offered, generation, memory_order_release);
		/* In the other rounds the peer comes late, or in the middle of a claim. */
		while (generation % 4 &&
		       atomic_load_explicit(&back->seen, memory_order_acquire) < generation)
			sched_yield();
		do {
			for (i = run.start; i < run.end; i++)
				back->count[0][i]++;
		} while (random_below(&numbers, 500) &&
			 share_claim_front(&back->share, 1 + random_below(&numbers, 9),
					   1 + random_below(&numbers, 200), &run));
		/* An initiator that fails midway leaves the rest unclaimed. */
		claimed = share_close(&back->share, total);
		for (;;) {
			moved = atomic_load_explicit(&back->share.moved, memory_order_acquire);
			if (moved == claimed)
				break;
			given = atomic_load_explicit(&back->share.returned, memory_order_acquire);
			if (given) {
				run = (struct granules){ (uint32_t)(given >> 32), (uint32_t)given };
				moved = atomic_load_explicit(&back->share.moved,
							     memory_order_acquire);
				assert_int_equal(moved + granules_count(run), claimed);
				for (i = run.start; i < run.end; i++)
					back->count[0][i]++;
				returned++;
				break;
			}
			sched_yield();
		}
		for (i = 0; i < total; i++)
			assert_true(back->count[0][i] + back->count[1][i] <= 1);
		for (i = total - claimed; i < total; i++)
			assert_int_equal(back->count[0][i] + back->count[1][i], 1);
		for (i = 0; i < front; i++)
			assert_int_equal(back->count[0][i], 1);
	}
	pthread_join(thread, NULL);
	assert_int_equal(back->wrong, 0);
	for (i = 0; i < ROUNDS; i++)
		joined += back->taken[i];
	assert_true(joined > ROUNDS / 4 && returned > ROUNDS / 100);
	free(back);
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

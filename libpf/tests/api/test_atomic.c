/* SPDX-License-Identifier: BSD-3-Clause */
/* Atomic operations: results, arguments, many processes at one address, more than rings hold. */
#include "pair.h"

static struct pair *start(void **state, unsigned partners, void (*work)(struct pair *))
{
	return pair_open(state, .partners = partners, .window = 65536, .work = work);
}

static uint64_t after(enum pf_atomic_op op, uint64_t value, uint64_t operand, uint64_t compare)
{
	switch (op) {
	case PF_ATOMIC_ADD:
		return value + operand;
	case PF_ATOMIC_AND:
		return value & operand;
	case PF_ATOMIC_OR:
		return value | operand;
	case PF_ATOMIC_XOR:
		return value ^ operand;
	case PF_ATOMIC_SWAP:
		return operand;
	default:
		return value == compare ? operand : value;
	}
}

static uint64_t cut(unsigned width, uint64_t value)
{
	return width == 4 ? (uint32_t)value : value;
}

static void check_operation(struct pair *pair, enum pf_atomic_op op, unsigned width, uint64_t value,
			    uint64_t operand, uint64_t compare)
{
	_Atomic uint64_t *target = (_Atomic uint64_t *)(pair->window + 8);
	uint64_t expected =
		cut(width, after(op, cut(width, value), cut(width, operand), cut(width, compare)));
	pf_completion completion;

	/* The four bytes behind a 32-bit target do not change. */
	if (width == 4)
		expected |= value >> 32 << 32;
	*target = value;
	completion = pair_atomic(pair, pair->peer, op, width, pair_there(pair, 1, (void *)target),
				 operand, compare);
	assert_ok(completion.status);
	assert_int_equal(completion.value, cut(width, value));
	assert_int_equal(*target, expected);
}

static void test_operations(void **state)
{
	static const uint64_t values[] = {
		0, 1, 0xffffffff, 0x80000000, 0x123456789abcdef0, UINT64_MAX, 1ull << 63
	};
	const unsigned count = ARRAY_SIZE(values);
	struct pair *pair = start(state, 1, NULL);
	unsigned op, i;

	for (op = PF_ATOMIC_ADD; op <= PF_ATOMIC_COMPARE_SWAP; op++) {
		/* Each pair of values, both widths, with an equal and an unequal comparison. */
		for (i = 0; i < count * count * 4; i++) {
			uint64_t value = values[i / 4 / count];

			check_operation(pair, op, i & 1 ? 4 : 8, value, values[i / 4 % count],
					i & 2 ? value : ~value);
		}
	}
	assert_int_equal(pf_stat(pair->context, PF_STAT_ATOMICS),
			 (PF_ATOMIC_COMPARE_SWAP - PF_ATOMIC_ADD + 1) * count * count * 4);
	pair_end(pair);
}

static void test_arguments(void **state)
{
	static const int bad[] = { PF_ATOMIC_COMPARE_SWAP + 1, -1 };
	struct pair *pair = start(state, 1, NULL);
	uint64_t remote = pair_there(pair, 1, pair->window);
	struct pair_done done = { 0 };
	unsigned width, offset, i;

	for (width = 0; width <= 16; width++) {
		for (offset = 0; offset < 8; offset++) {
			if ((width == 4 || width == 8) && offset % width == 0)
				continue;
			assert_status(pf_atomic(pair->peer, PF_ATOMIC_ADD, width, remote + offset,
						1, 0, pair_completed, &done),
				      PF_ERR_ARGUMENT);
		}
	}
	for (i = 0; i < ARRAY_SIZE(bad); i++)
		assert_status(pf_atomic(pair->peer, (enum pf_atomic_op)bad[i], 8, remote, 1, 0,
					pair_completed, &done),
			      PF_ERR_ARGUMENT);
	pf_flush(pair->context, NULL, PF_FOREVER);
	assert_int_equal(done.count, 0);
	assert_int_equal(load64(pair->window), 0);
	pair_end(pair);
}

/* Without the old value and without a completion. */
static void test_silent(void **state)
{
	struct pair *pair = start(state, 1, NULL);
	int i;

	for (i = 0; i < 1000; i++)
		assert_pending(pf_atomic(pair->peer, PF_ATOMIC_ADD, 4,
					 pair_there(pair, 1, pair->window), 2, 0, NULL, NULL));
	assert_ok(pf_flush(pair->context, pair->peer, PF_FOREVER));
	assert_int_equal(load64(pair->window), 2000);
	pair_end(pair);
}

#define ADDS REPEAT(3000)
#define OUTSTANDING 64

/* Add to both counters of partner 1, which adds to them itself with plain instructions. */
static void add(struct pair *me)
{
	uint64_t *wide = (uint64_t *)me->window;
	uint32_t *narrow = (uint32_t *)(me->window + 64);
	struct pair_done done = { 0 };
	unsigned i;

	if (me->side == 1) {
		for (i = 0; i < 10 * ADDS; i++) {
			__atomic_fetch_add(wide, 1, __ATOMIC_RELAXED);
			__atomic_fetch_add(narrow, 1, __ATOMIC_RELAXED);
			if (i % 128 == 0)
				pair_progress(me);
		}
		return;
	}
	for (i = 0; i < ADDS; i++) {
		pf_peer *owner = pair_peer(me, 1);

		while (i - done.count >= OUTSTANDING)
			pair_progress(me);
		pair_check_status(me,
				  pf_atomic(owner, PF_ATOMIC_ADD, 8, pair_there(me, 1, wide), 1, 0,
					    pair_completed, &done),
				  PF_PENDING);
		pair_check_status(me,
				  pf_atomic(owner, PF_ATOMIC_ADD, 4, pair_there(me, 1, narrow), 1,
					    0, NULL, NULL),
				  PF_PENDING);
	}
	pair_await_done(me, &done, ADDS);
	pair_check_status(me, done.failure.status, PF_OK);
	pair_check_status(me, pf_flush(me->context, NULL, PF_FOREVER), PF_OK);
}

static void test_concurrent(void **state)
{
	struct pair *pair = start(state, 3, add);

	add(pair);
	pair_await_all(pair, PAIR_DONE);
	assert_int_equal(load64(pair->window), 13 * ADDS);
	assert_int_equal(load64(pair->window + 64), 13 * ADDS);
	pair_end(pair);
}

/* A lock made of atomics of partner 1 protects a counter. */
static void count_under_lock(struct pair *me)
{
	uint64_t *plain = (uint64_t *)(me->window + 128);
	uint64_t lock = pair_there(me, 1, me->window + 256);
	int i;

	for (i = 0; i < 300 && me->side != 1; i++) {
		while (pair_atomic(me, pair_peer(me, 1), PF_ATOMIC_COMPARE_SWAP, 4, lock,
				   me->side + 1, 0)
			       .value != 0)
			;
		/* Not one atomic step, but atomic accesses: the thread sanitizer sees no lock. */
		__atomic_store_n(plain, load64(plain) + 1, __ATOMIC_RELAXED);
		pair_check(me,
			   pair_atomic(me, pair_peer(me, 1), PF_ATOMIC_SWAP, 4, lock, 0, 0).value ==
				   me->side + 1);
	}
}

static void test_lock(void **state)
{
	struct pair *pair = start(state, 3, count_under_lock);

	count_under_lock(pair);
	pair_await_all(pair, PAIR_DONE);
	assert_int_equal(load64(pair->window + 128), 900);
	pair_end(pair);
}

static unsigned flood_size(const struct pair *me)
{
	return pair_over_net(&me->options) ? REPEAT(5000) : REPEAT(20000);
}

/*
 * Both sides post far more than the rings hold: each must handle the other's requests while there
 * is no room for its own answers.
 */
static void flood(struct pair *me)
{
	struct pair_done done = { 0 };
	uint64_t remote = pair_there(me, !me->side, me->window + 1024 + 8 * (size_t)me->side);
	const unsigned size = flood_size(me);
	unsigned i;

	for (i = 0; i < size; i++)
		pair_check_status(me,
				  pf_atomic(me->peer, PF_ATOMIC_ADD, 8, remote, 1, 0,
					    pair_completed, &done),
				  PF_PENDING);
	pair_await_done(me, &done, size);
	pair_check_status(me, done.failure.status, PF_OK);
}

static void test_flood(void **state)
{
	struct pair *pair = start(state, 1, flood);

	flood(pair);
	pair_await(pair, 1, PAIR_DONE);
	assert_int_equal(load64(pair->window + 1024), flood_size(pair));
	assert_int_equal(load64(pair->window + 1032), flood_size(pair));
	pair_end(pair);
}

#define IN_ALL(test)                                                                               \
	IN_MODE(test, DEFAULT), IN_MODE(test, SMALL_RING), IN_MODE(test, STREAM),                  \
		IN_MODE(test, THREADS), IN_MODE(test, WAIT)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_ALL(test_operations), IN_ALL(test_arguments), IN_ALL(test_silent),
		IN_ALL(test_concurrent), IN_ALL(test_lock),      IN_ALL(test_flood),
	};

	return pair_run_tests("atomic", tests);
}

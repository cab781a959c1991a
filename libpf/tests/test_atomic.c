/* SPDX-License-Identifier: BSD-3-Clause */
#include "pair.h"

#include <sched.h>

enum mode { MODE_DEFAULT, MODE_SMALL_RING, MODE_STREAM, MODE_THREADS, MODE_IDLE };

static pf_options options_of(enum mode mode)
{
	pf_options options = pair_options();

	switch (mode) {
	case MODE_SMALL_RING:
		options.ring_size = 16384;
		break;
	case MODE_STREAM:
		options.single_copy = 0;
		break;
	case MODE_THREADS:
		options.threads = 1;
		break;
	case MODE_IDLE:
		options.idle_polls = 1;
		break;
	default:
		break;
	}
	return options;
}

static struct pair *start(void **state, unsigned partners, void (*partner)(struct pair *))
{
	enum mode mode = (enum mode)(uintptr_t)*state;
	struct pair_setup setup = {
		.partners = partners,
		.here = options_of(mode),
		.there = options_of(mode),
		.window = 65536,
		.partner = partner,
	};

	return pair_start(&setup);
}

static uint64_t after(enum pf_atomic_op op, uint64_t value, uint64_t operand, uint64_t compare)
{
	switch (op) {
	case PF_ADD:
		return value + operand;
	case PF_AND:
		return value & operand;
	case PF_OR:
		return value | operand;
	case PF_XOR:
		return value ^ operand;
	case PF_SWAP:
		return operand;
	default:
		return value == compare ? operand : value;
	}
}

static uint64_t cut(unsigned width, uint64_t value)
{
	return width == 4 ? (uint32_t)value : value;
}

static void test_operations(void **state)
{
	static const uint64_t values[] = {
		0, 1, 0xffffffff, 0x80000000, 0x123456789abcdef0, UINT64_MAX, 1ull << 63
	};
	const size_t count = sizeof(values) / sizeof(values[0]);
	struct pair *pair = start(state, 1, NULL);
	_Atomic uint64_t *target = (_Atomic uint64_t *)(pair->window + 8);
	unsigned width, op;
	uint64_t done = 0;
	size_t i, j, k;

	for (op = PF_ADD; op <= PF_COMPARE_SWAP; op++) {
		for (width = 4; width <= 8; width += 4) {
			for (i = 0; i < count; i++) {
				for (j = 0; j < count; j++) {
					/* An equal comparison and an unequal one. */
					for (k = 0; k < 2; k++) {
						uint64_t compare = k ? values[i] : ~values[i];
						uint64_t expected =
							cut(width, after(op, cut(width, values[i]),
									 cut(width, values[j]),
									 cut(width, compare)));
						pf_completion completion;

						/* What lies beside it stays. */
						if (width == 4)
							expected |= values[i] >> 32 << 32;
						atomic_store(target, values[i]);
						completion = pair_atomic(
							pair, pair->peer, op, width,
							pair_there(pair, 1, (void *)target),
							values[j], compare);
						assert_int_equal(completion.status, PF_OK);
						assert_int_equal(completion.value,
								 cut(width, values[i]));
						assert_int_equal(atomic_load(target), expected);
						done++;
					}
				}
			}
		}
	}
	assert_int_equal(pf_stat(pair->context, PF_STAT_ATOMICS), done);
	pair_end(pair);
}

static void test_arguments(void **state)
{
	struct pair *pair = start(state, 1, NULL);
	uint64_t remote = pair_there(pair, 1, pair->window);
	struct pair_done done = { 0 };
	unsigned width, offset;

	for (width = 0; width <= 16; width++) {
		for (offset = 0; offset < 8; offset++) {
			int status;

			if ((width == 4 || width == 8) && offset % width == 0)
				continue;
			status = pf_atomic(pair->peer, PF_ADD, width, 1, remote + offset, 1, 0,
					   pair_completed, &done);
			assert_int_equal(status, PF_ERR_ARGUMENT);
		}
	}
	assert_int_equal(pf_atomic(pair->peer, PF_COMPARE_SWAP + 1, 8, 1, remote, 1, 0,
				   pair_completed, &done),
			 PF_ERR_ARGUMENT);
	assert_int_equal(pf_atomic(pair->peer, (enum pf_atomic_op) - 1, 8, 1, remote, 1, 0,
				   pair_completed, &done),
			 PF_ERR_ARGUMENT);
	pf_flush(pair->context, NULL);
	assert_int_equal(done.count, 0);
	assert_int_equal(__atomic_load_n((uint64_t *)pair->window, __ATOMIC_RELAXED), 0);
	pair_end(pair);
}

/* Without fetching and without anybody to tell. */
static void test_silent(void **state)
{
	struct pair *pair = start(state, 1, NULL);
	int i;

	for (i = 0; i < 1000; i++)
		assert_int_equal(pf_atomic(pair->peer, PF_ADD, 4, 0,
					   pair_there(pair, 1, pair->window), 2, 0, NULL, NULL),
				 PF_OK);
	assert_int_equal(pf_flush(pair->context, pair->peer), PF_OK);
	assert_int_equal(__atomic_load_n((uint32_t *)pair->window, __ATOMIC_RELAXED), 2000);
	pair_end(pair);
}

#define ADDS REPEAT(3000)
#define OUTSTANDING 64

static void add_remotely(struct pair *me, pf_peer *peer)
{
	struct pair_done done = { 0 };
	unsigned i;

	for (i = 0; i < ADDS; i++) {
		while (i - done.count >= OUTSTANDING)
			pair_progress(me);
		pair_check(me, pf_atomic(peer, PF_ADD, 8, 1, pair_there(me, 1, me->window), 1, 0,
					 pair_completed, &done) == PF_OK);
		pair_check(me, pf_atomic(peer, PF_ADD, 4, 0, pair_there(me, 1, me->window + 64), 1,
					 0, NULL, NULL) == PF_OK);
	}
	pair_await_done(me, &done, ADDS);
	pair_check_status(me, done.failure.status, PF_OK);
	pair_check(me, pf_flush(me->context, NULL) == PF_OK);
}

/* Partner 1 owns the counters, and adds by itself too, with its own instructions. */
static void add_partner(struct pair *me)
{
	unsigned i;

	if (me->side == 1) {
		for (i = 0; i < 10 * ADDS; i++) {
			__atomic_fetch_add((uint64_t *)me->window, 1, __ATOMIC_RELAXED);
			__atomic_fetch_add((uint32_t *)(me->window + 64), 1, __ATOMIC_RELAXED);
			if (i % 128 == 0)
				pair_progress(me);
		}
	} else {
		add_remotely(me, pair_peer(me, 1));
	}
	pair_say(me, 1);
	pair_serve(me);
}

static void test_concurrent(void **state)
{
	struct pair *pair = start(state, 3, add_partner);
	unsigned side;

	add_remotely(pair, pair->peer);
	for (side = 1; side <= 3; side++)
		pair_await(pair, side, 1);
	assert_int_equal(__atomic_load_n((uint64_t *)pair->window, __ATOMIC_RELAXED), 13 * ADDS);
	assert_int_equal(__atomic_load_n((uint32_t *)(pair->window + 64), __ATOMIC_RELAXED),
			 13 * ADDS);
	pair_end(pair);
}

/* A lock made of them: what it guards is not atomic by itself. */
static void count_under_lock(struct pair *me, pf_peer *owner)
{
	uint64_t *plain = (uint64_t *)(me->window + 128);
	int i;

	for (i = 0; i < 300; i++) {
		while (pair_atomic(me, owner, PF_COMPARE_SWAP, 4,
				   pair_there(me, 1, me->window + 256), me->side + 1, 0)
			       .value != 0)
			;
		/* Two steps on purpose; each atomic only because the thread sanitizer sees no lock. */
		__atomic_store_n(plain, __atomic_load_n(plain, __ATOMIC_RELAXED) + 1,
				 __ATOMIC_RELAXED);
		pair_check(me, pair_atomic(me, owner, PF_SWAP, 4,
					   pair_there(me, 1, me->window + 256), 0, 0)
					       .value == me->side + 1);
	}
}

static void lock_partner(struct pair *me)
{
	if (me->side != 1)
		count_under_lock(me, pair_peer(me, 1));
	pair_say(me, 1);
	pair_serve(me);
}

static void test_lock(void **state)
{
	struct pair *pair = start(state, 3, lock_partner);

	count_under_lock(pair, pair->peer);
	pair_await(pair, 2, 1);
	pair_await(pair, 3, 1);
	assert_int_equal(__atomic_load_n((uint64_t *)(pair->window + 128), __ATOMIC_RELAXED), 900);
	pair_end(pair);
}

/*
 * Both post far more than the rings hold, in both directions: each must go on
 * taking the other's requests while its own answers find no room.
 */
#define FLOOD REPEAT(20000)

static void flood(struct pair *me)
{
	struct pair_done done = { 0 };
	uint64_t remote = pair_there(me, !me->side, me->window + 1024 + 8 * (size_t)me->side);
	int i;

	for (i = 0; i < FLOOD; i++)
		pair_check(me, pf_atomic(me->peer, PF_ADD, 8, 1, remote, 1, 0, pair_completed,
					 &done) == PF_OK);
	pair_await_done(me, &done, FLOOD);
	pair_check_status(me, done.failure.status, PF_OK);
}

static void flood_partner(struct pair *me)
{
	flood(me);
	pair_say(me, 1);
	pair_serve(me);
}

static void test_flood(void **state)
{
	struct pair *pair = start(state, 1, flood_partner);

	flood(pair);
	pair_await(pair, 1, 1);
	assert_int_equal(__atomic_load_n((uint64_t *)(pair->window + 1024), __ATOMIC_RELAXED),
			 FLOOD);
	assert_int_equal(__atomic_load_n((uint64_t *)(pair->window + 1032), __ATOMIC_RELAXED),
			 FLOOD);
	pair_end(pair);
}

#define IN_MODE(test, mode)                                                                        \
	{                                                                                          \
#test " " #mode, test, NULL, pair_teardown, (void *)(uintptr_t)MODE_##mode         \
	}
#define IN_ALL(test)                                                                               \
	IN_MODE(test, DEFAULT), IN_MODE(test, SMALL_RING), IN_MODE(test, STREAM),                  \
		IN_MODE(test, THREADS), IN_MODE(test, IDLE)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_ALL(test_operations), IN_ALL(test_arguments), IN_ALL(test_silent),
		IN_ALL(test_concurrent), IN_ALL(test_lock),      IN_ALL(test_flood),
	};

	return cmocka_run_group_tests_name("atomic", tests, NULL, NULL);
}

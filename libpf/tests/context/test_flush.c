/* SPDX-License-Identifier: BSD-3-Clause */
/* Marks: pf_posted and pf_flush_test, while operations complete in any order. */
#include "pair.h"

#include <unistd.h>

#define LENGTH ((size_t)65536)

/* A pager's memory, the callback of which waits while it is held. */
struct held {
	uint8_t *memory;
	pf_pager *pager;
	_Atomic bool held;
};

static int supply(pf_context *context, uint64_t address, void *page, size_t length, void *arg)
{
	struct held *held = arg;

	while (held->held)
		usleep(100);
	pattern_fill(page, length, address);
	return PF_OK;
}

static void held_open(struct held *held, struct pair *pair)
{
	held->held = true;
	held->memory = test_map(LENGTH);
	assert_ok(
		pf_pager_register(pair->context, held->memory, LENGTH, supply, held, &held->pager));
}

static void held_close(struct held *held)
{
	pf_pager_unregister(held->pager);
	munmap(held->memory, LENGTH);
}

static int test_mark(struct pair *pair, pf_peer *peer, uint64_t mark)
{
	return pf_flush_test(pair->context, peer, mark);
}

static uint64_t mark_of(struct pair *pair, pf_peer *peer)
{
	return pf_posted(pair->context, peer);
}

static void progress_until(struct pair *pair, pf_peer *peer, uint64_t mark)
{
	while (test_mark(pair, peer, mark) != PF_DONE)
		pair_progress(pair);
}

/* Longer than what is done at once. */
static void post(struct pair *pair, pf_peer *peer, void *local, size_t offset,
		 struct pair_done *done)
{
	pair_post(pair, peer, PUT, local, remote_address(pair->window + offset), LENGTH, done);
}

/* An open operation holds up its own mark and later ones, not earlier ones and other peers'. */
static void test_order(void **state)
{
	struct pair *pair = pair_open(state, .partners = 2, .window = 4 * MIB);
	struct pair_done before = { 0 }, parked = { 0 }, after = { 0 }, other = { 0 };
	uint64_t none, first, second, third, fourth;
	pf_peer *peer = pair->peer, *another = pair_peer(pair, 2);
	uint8_t *local = test_alloc(LENGTH);
	struct held held = { 0 };

	none = mark_of(pair, NULL);
	assert_int_equal(none, 0);
	assert_status(test_mark(pair, NULL, none), PF_DONE);
	held_open(&held, pair);

	/* It is posted even where a put may be done at once, as an atomic is. */
	assert_ok(pf_atomic(peer, PF_ADD, 8, 0, remote_address(pair->window), 0, 0, pair_completed,
			    &before));
	first = mark_of(pair, peer);
	/* No call of progress so far, and none by the test. */
	assert_status(test_mark(pair, peer, first), PF_ERR_AGAIN);
	assert_status(test_mark(pair, NULL, first), PF_ERR_AGAIN);
	assert_status(test_mark(pair, another, first), PF_DONE);
	assert_int_equal(before.count, 0);

	post(pair, peer, held.memory, 0, &parked);
	second = mark_of(pair, peer);
	post(pair, peer, local, MIB, &after);
	third = mark_of(pair, NULL);
	post(pair, another, local, 2 * MIB, &other);
	fourth = mark_of(pair, another);

	progress_until(pair, peer, first);
	assert_int_equal(before.count, 1);
	progress_until(pair, another, fourth);
	assert_int_equal(other.count, 1);
	pair_await_done(pair, &after, 1);
	assert_int_equal(parked.count, 0);
	assert_status(test_mark(pair, peer, none), PF_DONE);
	assert_status(test_mark(pair, peer, first), PF_DONE);
	assert_status(test_mark(pair, NULL, first), PF_DONE);
	assert_status(test_mark(pair, peer, second), PF_ERR_AGAIN);
	/* All that is newer is complete: a count alone would not tell. */
	assert_status(test_mark(pair, NULL, second), PF_ERR_AGAIN);
	assert_status(test_mark(pair, NULL, third), PF_ERR_AGAIN);
	assert_status(test_mark(pair, another, third), PF_DONE);

	held.held = false;
	progress_until(pair, NULL, third);
	assert_int_equal(parked.count, 1);
	assert_int_equal(parked.failed, 0);
	/* Marks are not used up. */
	assert_status(test_mark(pair, peer, first), PF_DONE);
	assert_status(test_mark(pair, NULL, fourth), PF_DONE);
	assert_ok(pf_flush(pair->context, NULL));
	held_close(&held);
	free(local);
	pair_end(pair);
}

/* An operation that fails reaches its mark, too. */
static void test_error(void **state)
{
	struct pair *pair = pair_open(state, .window = MIB);
	struct pair_done done = { 0 };
	uint8_t *local = test_map(LENGTH);

	munmap(local, LENGTH);
	post(pair, pair->peer, local, 0, &done);
	progress_until(pair, pair->peer, mark_of(pair, pair->peer));
	assert_int_equal(done.failed, 1);
	assert_fault(done.last, PF_SIDE_LOCAL, remote_address(local));
	pair_end(pair);
}

struct inside {
	struct pair *pair;
	uint64_t mark; /* of what was posted before, and of itself */
	int before, own;
};

static void test_inside(pf_context *context, const pf_completion *completion)
{
	struct inside *inside = completion->arg;

	inside->before = pf_flush_test(context, inside->pair->peer, inside->mark - 1);
	inside->own = pf_flush_test(context, inside->pair->peer, inside->mark);
}

/* From a callback: the operation that the callback is of is open until it returns. */
static void test_callback(void **state)
{
	struct pair *pair = pair_open(state, .window = MIB);
	struct inside inside = { .pair = pair };

	assert_ok(pf_atomic(pair->peer, PF_ADD, 8, 1, remote_address(pair->window), 1, 0,
			    test_inside, &inside));
	inside.mark = mark_of(pair, pair->peer);
	progress_until(pair, pair->peer, inside.mark);
	assert_status(inside.before, PF_DONE);
	assert_status(inside.own, PF_ERR_AGAIN);
	pair_end(pair);
}

#define IN_ALL(test) IN_MODE(test, DEFAULT), IN_MODE(test, THREADS), IN_MODE(test, STREAM)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_ALL(test_order),
		IN_ALL(test_error),
		IN_ALL(test_callback),
	};

	return pair_run_tests("flush", tests);
}

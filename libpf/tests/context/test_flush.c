/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Marks: pf_posted and pf_flush_test, while operations complete in any order. Flushes: what they
 * return of operations without a completion function, and when they give up.
 */
#include "pair.h"

#include <pthread.h>
#include <time.h>
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
	while (test_mark(pair, peer, mark) == PF_PENDING)
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
	assert_status(test_mark(pair, NULL, none), PF_OK);
	held_open(&held, pair);

	/* It is posted even where a put may be done at once, as an atomic is. */
	assert_pending(pf_atomic(peer, PF_ATOMIC_ADD, 8, remote_address(pair->window), 0, 0,
				 pair_completed, &before));
	first = mark_of(pair, peer);
	/* No call of progress so far, and none by the test. */
	assert_status(test_mark(pair, peer, first), PF_PENDING);
	assert_status(test_mark(pair, NULL, first), PF_PENDING);
	assert_status(test_mark(pair, another, first), PF_OK);
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
	assert_status(test_mark(pair, peer, none), PF_OK);
	assert_status(test_mark(pair, peer, first), PF_OK);
	assert_status(test_mark(pair, NULL, first), PF_OK);
	assert_status(test_mark(pair, peer, second), PF_PENDING);
	/* All that is newer is complete: a count alone would not tell. */
	assert_status(test_mark(pair, NULL, second), PF_PENDING);
	assert_status(test_mark(pair, NULL, third), PF_PENDING);
	assert_status(test_mark(pair, another, third), PF_OK);

	held.held = false;
	progress_until(pair, NULL, third);
	assert_int_equal(parked.count, 1);
	assert_int_equal(parked.failed, 0);
	/* Marks are not used up. */
	assert_status(test_mark(pair, peer, first), PF_OK);
	assert_status(test_mark(pair, NULL, fourth), PF_OK);
	assert_ok(pf_flush(pair->context, NULL, PF_FOREVER));
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

	assert_pending(pf_atomic(pair->peer, PF_ATOMIC_ADD, 8, remote_address(pair->window), 1, 0,
				 test_inside, &inside));
	inside.mark = mark_of(pair, pair->peer);
	progress_until(pair, pair->peer, inside.mark);
	assert_status(inside.before, PF_OK);
	assert_status(inside.own, PF_PENDING);
	pair_end(pair);
}

/* An atomic without a completion function; addresses below the first page are not mapped. */
static void post_alone(struct pair *pair, pf_peer *peer, uint64_t remote)
{
	assert_pending(pf_atomic(peer, PF_ATOMIC_ADD, 8, remote, 1, 0, NULL, NULL));
}

static void await_stat(struct pair *pair, enum pf_stat stat, uint64_t count)
{
	while (pf_stat(pair->context, stat) < count)
		pair_progress(pair);
}

/* Without a completion function, the first error is the next flush's, once. */
static void test_first_error(void **state)
{
	struct pair *pair = pair_open(state, .partners = 2, .window = MIB);
	pf_peer *peer = pair->peer, *another = pair_peer(pair, 2);
	const uint64_t good = remote_address(pair->window), bad = 64;
	struct pair_done told = { 0 };

	/* With a completion function, it has the error, and the flush has not. */
	assert_pending(pf_atomic(peer, PF_ATOMIC_ADD, 8, bad, 1, 0, pair_completed, &told));
	assert_ok(pf_flush(pair->context, peer, PF_FOREVER));
	assert_int_equal(told.failed, 1);
	assert_int_equal(pf_stat(pair->context, PF_STAT_FLUSH_ERRORS), 0);

	/* Between successes; the other peer's flush leaves it. */
	post_alone(pair, peer, good);
	post_alone(pair, peer, bad);
	post_alone(pair, peer, bad);
	post_alone(pair, peer, good);
	assert_ok(pf_flush(pair->context, another, PF_FOREVER));
	assert_status(pf_flush(pair->context, peer, PF_FOREVER), PF_ERR_FAULT);
	assert_ok(pf_flush(pair->context, peer, PF_FOREVER));
	assert_ok(pf_flush(pair->context, NULL, PF_FOREVER));
	assert_int_equal(pf_stat(pair->context, PF_STAT_FLUSH_ERRORS), 2);

	/* A flush of all returns it, too, and leaves none. */
	post_alone(pair, another, bad);
	assert_status(pf_flush(pair->context, NULL, PF_FOREVER), PF_ERR_FAULT);
	assert_ok(pf_flush(pair->context, another, PF_FOREVER));

	/* The test of a mark returns it; 0 asks without waiting. */
	post_alone(pair, peer, bad);
	assert_status(test_mark(pair, peer, mark_of(pair, peer)), PF_PENDING);
	assert_status(test_mark(pair, peer, 0), PF_OK);
	await_stat(pair, PF_STAT_FLUSH_ERRORS, 4);
	progress_until(pair, another, mark_of(pair, another));
	assert_status(test_mark(pair, another, 0), PF_OK);
	assert_status(test_mark(pair, peer, mark_of(pair, peer)), PF_ERR_FAULT);
	assert_status(test_mark(pair, peer, mark_of(pair, peer)), PF_OK);
	pair_end(pair);
}

/* Post to a peer and await the error, which is the count-th. */
static void fail_alone(struct pair *pair, pf_peer *peer, uint64_t count)
{
	post_alone(pair, peer, 64);
	await_stat(pair, PF_STAT_FLUSH_ERRORS, count);
}

/* Of the errors of several peers, a flush of all returns the oldest, and forgets the others. */
static void test_oldest_error(void **state)
{
	struct pair *pair = pair_open(state, .partners = 3, .window = MIB);
	unsigned side;

	for (side = 2; side <= 3; side++) {
		post_alone(pair, pair_peer(pair, side), remote_address(pair->window));
		assert_ok(pf_flush(pair->context, NULL, PF_FOREVER));
	}
	fail_alone(pair, pair->peer, 1);
	pair_kill(pair, 2);
	fail_alone(pair, pair_peer(pair, 2), 2);
	assert_status(pf_flush(pair->context, NULL, PF_FOREVER), PF_ERR_FAULT);
	assert_ok(pf_flush(pair->context, pair_peer(pair, 2), PF_FOREVER));

	pair_kill(pair, 3);
	fail_alone(pair, pair_peer(pair, 3), 3);
	fail_alone(pair, pair->peer, 4);
	assert_status(pf_flush(pair->context, NULL, PF_FOREVER), PF_ERR_PEER);
	assert_ok(pf_flush(pair->context, pair->peer, PF_FOREVER));
	pair_end(pair);
}

/* A flush whose time is over returns, and what it waited for goes on. */
static void test_timeout(void **state)
{
	struct pair *pair = pair_open(state, .window = MIB);
	struct timespec before, after;
	struct held held = { 0 };
	int64_t passed;

	held_open(&held, pair);
	assert_pending(pf_put(pair->peer, held.memory, remote_address(pair->window), LENGTH, 0,
			      NULL, NULL));
	assert_status(pf_flush(pair->context, NULL, 0), PF_ERR_TIMEOUT);
	clock_gettime(CLOCK_MONOTONIC, &before);
	assert_status(pf_flush(pair->context, pair->peer, 20000), PF_ERR_TIMEOUT);
	clock_gettime(CLOCK_MONOTONIC, &after);
	passed = (after.tv_sec - before.tv_sec) * 1000000000 + after.tv_nsec - before.tv_nsec;
	assert_true(passed >= 20000000);
	held.held = false;
	assert_ok(pf_flush(pair->context, pair->peer, INT64_MAX));
	assert_ok(pf_flush(pair->context, NULL, 0));
	held_close(&held);
	pair_end(pair);
}

struct waker {
	pf_context *context;
	struct held *held;
};

static void *wake_in_flush(void *arg)
{
	struct waker *waker = arg;

	while (!pf_stat(waker->context, PF_STAT_SLEEPS))
		usleep(100);
	pf_wake(waker->context);
	usleep(10000);
	waker->held->held = false;
	return NULL;
}

/* A pf_wake during a flush is not lost: the next pf_wait returns. */
static void test_wake(void **state)
{
	struct pair_setup setup = { .window = MIB,
				    .here = pair_options(),
				    .there = pair_options() };
	struct held held = { 0 };
	struct waker waker = { .held = &held };
	struct pair *pair;
	pthread_t thread;
	int happened;

	setup.here.wake = 1;
	pair = pair_start(&setup);
	pair_connect(pair);
	waker.context = pair->context;
	held_open(&held, pair);
	assert_pending(pf_put(pair->peer, held.memory, remote_address(pair->window), LENGTH, 0,
			      NULL, NULL));
	assert_int_equal(pthread_create(&thread, NULL, wake_in_flush, &waker), 0);
	assert_ok(pf_flush(pair->context, NULL, PF_FOREVER));
	assert_int_equal(pthread_join(thread, NULL), 0);
	/* Without the wake the test hangs, unless a late packet between hosts ends the wait. */
	happened = pf_wait(pair->context, PF_FOREVER);
	assert_true(happened == 0 || pair_over_net(&pair->options));
	held_close(&held);
	pair_end(pair);
}

#define IN_ALL(test) IN_MODE(test, DEFAULT), IN_MODE(test, THREADS), IN_MODE(test, STREAM)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_ALL(test_order),
		IN_ALL(test_error),
		IN_ALL(test_callback),
		IN_ALL(test_first_error),
		/* Partners are killed; between hosts that would take peer_timeout. */
		IN_MODE_UNLESS(either, test_oldest_error, DEFAULT),
		IN_MODE_UNLESS(either, test_oldest_error, THREADS),
		IN_ALL(test_timeout),
		PAIR_TEST(test_wake),
	};

	return pair_run_tests("flush", tests);
}

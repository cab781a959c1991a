/* SPDX-License-Identifier: BSD-3-Clause */
/* Puts with a signal, by every route: order, page faults, errors, and the end of the peer. */
#include "page.h"
#include "pair.h"

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#define LONGEST (4 * MIB)
#define WINDOW (6 * MIB)
#define WORD (5 * MIB) /* offset in the window; the pages around belong to no put */
#define GUARD 0xe7

static const size_t lengths[] = { 0,         1,       8,           4096,        65536,
				  MIB - 100, MIB + 8, 2 * MIB + 1, 4 * MIB - 24 };

/* ---- of the partner ---- */

static void protect_there(struct pair *pair, void *start, int protection)
{
	pair_change_side(pair, PF_SIDE_REMOTE, PAIR_PROTECT, start, PAGE, protection);
}

/* Numbers of the side that got the notice. */
enum { NOTICES, NOTICE_REMOTE, NOTICE_LENGTH, NOTICE_VALUE, NOTICE_DIFFERS };

static void note(pf_context *context, pf_peer *from, uint64_t remote, size_t length, uint64_t value,
		 void *arg)
{
	struct pair *me = arg;

	pair_check(me, context == me->context && from == pair_peer(me, !me->side));
	*pair_value(me, me->side, NOTICE_REMOTE) = remote;
	*pair_value(me, me->side, NOTICE_LENGTH) = length;
	*pair_value(me, me->side, NOTICE_VALUE) = value;
	/* The seed of the data is the value. */
	if (length)
		*pair_value(me, me->side, NOTICE_DIFFERS) +=
			pattern_differs((void *)(uintptr_t)remote, length, value) != length;
	(*pair_value(me, me->side, NOTICES))++;
}

/* ---- of the test ---- */

static struct pair *start(void **state)
{
	return pair_open(state, .window = WINDOW, .command = pair_change, .notice = note);
}

static uint64_t *word_of(struct pair *pair)
{
	return (uint64_t *)(void *)(pair->window + WORD);
}

static pf_signal signal_to(struct pair *pair, enum pf_signal_op op, uint64_t value)
{
	return (pf_signal){ op, pair_there(pair, 1, word_of(pair)), value };
}

/* Put with a signal, and check the data, the bytes around it, and the word or the notice. */
static void verify(struct pair *pair, uint8_t *local, size_t offset, size_t length,
		   enum pf_signal_op op, uint64_t value)
{
	uint64_t before = 1000 + value, notices = *pair_value(pair, 1, NOTICES);
	uint8_t *window = pair->window + 64;
	pf_completion completion;

	*word_of(pair) = before;
	pattern_fill(local + offset, length, value);
	memset(window, 0, length);
	window[-1] = window[length] = GUARD;
	completion = pair_put_signal(pair, pair->peer, length ? local + offset : NULL,
				     pair_there(pair, 1, window), length,
				     signal_to(pair, op, value));
	assert_ok(completion.status);
	assert_int_equal(pattern_differs(window, length, value), length);
	assert_true(window[-1] == GUARD && window[length] == GUARD);
	if (op == PF_SIGNAL_NOTICE) {
		assert_int_equal(*pair_value(pair, 1, NOTICES), notices + 1);
		assert_int_equal(*pair_value(pair, 1, NOTICE_REMOTE), pair_there(pair, 1, window));
		assert_int_equal(*pair_value(pair, 1, NOTICE_LENGTH), length);
		assert_int_equal(*pair_value(pair, 1, NOTICE_VALUE), value);
		assert_int_equal(*pair_value(pair, 1, NOTICE_DIFFERS), 0);
		assert_int_equal(*word_of(pair), before);
	} else {
		assert_int_equal(*pair_value(pair, 1, NOTICES), notices);
		assert_int_equal(*word_of(pair), op == PF_SIGNAL_ADD ? before + value : value);
	}
}

static void test_operations(void **state)
{
	struct pair *pair = start(state);
	uint8_t *local = test_map(WINDOW);
	enum pf_signal_op op;
	uint64_t puts = 0;
	size_t i;

	for (op = PF_SIGNAL_ADD; op <= PF_SIGNAL_NOTICE; op++) {
		for (i = 0; i < ARRAY_SIZE(lengths); i++, puts++)
			verify(pair, local, 24, lengths[i], op, puts + 1);
	}
	assert_int_equal(pf_stat(pair->context, PF_STAT_PUTS), puts);
	assert_int_equal(pf_stat(pair->context, PF_STAT_ATOMICS), 0);
	munmap(local, WINDOW);
	pair_end(pair);
}

static void test_arguments(void **state)
{
	static const int bad[] = { PF_SIGNAL_NOTICE + 1, -1, 1 << 30 };
	struct pair *pair = start(state);
	uint64_t there = pair_there(pair, 1, pair->window);
	struct pair_done done = { 0 };
	pf_signal signal = signal_to(pair, PF_SIGNAL_ADD, 1);
	enum pf_signal_op op;
	unsigned i;

#define REFUSED(local, remote, length, signal)                                                     \
	assert_status(pf_put_signal(pair->peer, local, remote, length, signal, 0, pair_completed,  \
				    &done),                                                        \
		      PF_ERR_ARGUMENT)
	REFUSED(pair->window, there, 8, NULL);
	REFUSED(pair->window, UINT64_MAX - 3, 8, &signal);
	REFUSED((void *)(UINTPTR_MAX - 3), there, 8, &signal);
	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		signal.op = (enum pf_signal_op)bad[i];
		REFUSED(pair->window, there, 8, &signal);
	}
	for (op = PF_SIGNAL_ADD; op <= PF_SIGNAL_SET; op++) {
		for (i = 1; i < 8; i++) {
			signal = signal_to(pair, op, 1);
			signal.remote += i;
			REFUSED(pair->window, there, 8, &signal);
			REFUSED(NULL, 0, 0, &signal);
		}
	}
	/* A notice has no word. */
	signal = (pf_signal){ PF_SIGNAL_NOTICE, 3, 5 };
	assert_ok(pair_put_signal(pair, pair->peer, NULL, 0, 0, signal).status);
	assert_int_equal(*pair_value(pair, 1, NOTICES), 1);
	assert_int_equal(done.count, 0);
	assert_int_equal(*word_of(pair), 0);
	pair_end(pair);
}

/* Without a callback the put completes. Without a completion function, too. */
static void test_silent(void **state)
{
	struct pair *pair = pair_open(state, .window = WINDOW);
	pf_signal signal = signal_to(pair, PF_SIGNAL_NOTICE, 7);
	int i;

	assert_ok(pair_put_signal(pair, pair->peer, NULL, 0, 0, signal).status);
	signal.op = PF_SIGNAL_ADD;
	for (i = 0; i < 1000; i++)
		assert_pending(pf_put_signal(pair->peer, &signal, pair_there(pair, 1, pair->window),
					     8, &signal, 0, NULL, NULL));
	assert_ok(pf_flush(pair->context, pair->peer, PF_FOREVER));
	assert_int_equal(*word_of(pair), 7000);
	pair_end(pair);
}

/* Pages absent at the source, at the destination, and at the word. */
static void test_absent(void **state)
{
	struct pair *pair = start(state);
	enum pf_signal_op op;
	size_t i;

	for (op = PF_SIGNAL_ADD; op <= PF_SIGNAL_NOTICE; op++) {
		for (i = 0; i < ARRAY_SIZE(lengths); i++) {
			size_t length = lengths[i], at;
			uint8_t *local = test_map(WINDOW);
			uint64_t expected = op == PF_SIGNAL_ADD ? 12 : 5;

			*word_of(pair) = op == PF_SIGNAL_NOTICE ? 5 : 7;
			memset(pair->window, GUARD, LONGEST);
			pair_change_side(pair, PF_SIDE_REMOTE, PAIR_DROP, pair->window, WINDOW, 0);
			/* The pages of local were never touched. */
			assert_ok(
				pair_put_signal(pair, pair->peer, local + 40,
						pair_there(pair, 1, pair->window + 16), length,
						(pf_signal){ op, pair_there(pair, 1, word_of(pair)),
							     op == PF_SIGNAL_NOTICE ? i : 5 })
					.status);
			for (at = 16; at < 16 + length && !pair->window[at]; at++)
				;
			assert_int_equal(at, 16 + length);
			assert_int_equal(pair->window[at], GUARD);
			assert_int_equal(*word_of(pair), expected);
			munmap(local, WINDOW);
		}
	}
	pair_end(pair);
}

/* A pager of the partner owns the word, or all of the destination. */
static int supply(pf_context *context, uint64_t address, void *page, size_t length, void *arg)
{
	(void)context;
	(void)address;
	(void)arg;
	memset(page, 3, length);
	return PF_OK;
}

static uint8_t *paged;
static pf_pager *pager;

static void make_pager(struct pair *me)
{
	int status;

	if (!me->side)
		return;
	paged = mmap(NULL, 64 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	status = pf_pager_register(me->context, paged, 64 * PAGE, supply, NULL, &pager);
	*pair_value(me, 1, 7) = (uint64_t)(uintptr_t)paged;
	pair_check(me, status == PF_OK || status == PF_ERR_SYSTEM);
	*pair_value(me, 1, 6) = status == PF_OK ? 1 : 2;
}

static void end_pager(struct pair *me)
{
	pair_serve(me);
	if (*pair_value(me, 1, 6) == 1)
		pf_pager_unregister(pager);
}

static void test_pager(void **state)
{
	struct pair *pair = pair_open(state, .window = WINDOW, .opened = make_pager,
				      .partner = end_pager);
	uint64_t remote, value;
	struct pair_done done = { 0 };
	pf_signal signal;
	unsigned i;

	pair_peer(pair, 1);
	remote = *pair_value(pair, 1, 7);
	if (*pair_value(pair, 1, 6) != 1) {
		print_message("# no userfaultfd\n");
		skip();
	}
	for (i = 0; i < 60; i++) {
		signal = (pf_signal){ PF_SIGNAL_ADD, remote + 8 + i * PAGE, i };
		assert_pending(pf_put_signal(pair->peer, &signal, remote + i * PAGE, 8, &signal, 0,
					     pair_completed, &done));
	}
	pair_await_done(pair, &done, 60);
	assert_int_equal(done.failed, 0);
	for (i = 0; i < 60; i++) {
		assert_ok(pair_get(pair, pair->peer, &value, remote + 8 + i * PAGE, 8).status);
		assert_int_equal(value, 0x0303030303030303 + i);
	}
	pair_end(pair);
}

static void test_bad(void **state)
{
	struct pair *pair = start(state);
	uint8_t *local = test_map(WINDOW);
	enum pf_signal_op op;
	size_t i;

	for (op = PF_SIGNAL_ADD; op <= PF_SIGNAL_NOTICE; op++) {
		for (i = 1; i < ARRAY_SIZE(lengths); i++) {
			/* The bad page is the last, a middle one and the first of the put. */
			size_t length = lengths[i], page = length / 2 / PAGE * PAGE;
			uint64_t there = pair_there(pair, 1, pair->window);
			pf_signal signal = signal_to(pair, op, 1);
			pf_completion completion;

			pattern_fill(local, length, 1);
			*word_of(pair) = 77;
			protect_there(pair, pair->window + page, PROT_NONE);
			completion = pair_put_signal(pair, pair->peer, local, there, length,
						     signal);
			assert_fault(completion, PF_SIDE_REMOTE, there + page);
			protect_there(pair, pair->window + page, PROT_READ | PROT_WRITE);
			mprotect(local + page, PAGE, PROT_NONE);
			completion = pair_put_signal(pair, pair->peer, local, there, length,
						     signal);
			assert_fault(completion, PF_SIDE_LOCAL, remote_address(local + page));
			mprotect(local + page, PAGE, PROT_READ | PROT_WRITE);
			pair_linger(pair);
			assert_int_equal(*word_of(pair), 77);
			assert_int_equal(*pair_value(pair, 1, NOTICES), 0);
			if (op == PF_SIGNAL_NOTICE)
				continue;
			/* A bad word. The data is put. */
			protect_there(pair, word_of(pair), PROT_READ);
			completion = pair_put_signal(pair, pair->peer, local, there, length,
						     signal);
			assert_fault(completion, PF_SIDE_REMOTE, signal.remote);
			protect_there(pair, word_of(pair), PROT_READ | PROT_WRITE);
			assert_int_equal(pattern_differs(pair->window, length, 1), length);
			assert_int_equal(*word_of(pair), 77);
		}
	}
	/* All works as before. */
	verify(pair, local, 0, LONGEST, PF_SIGNAL_ADD, 3);
	munmap(local, WINDOW);
	pair_end(pair);
}

/* ---- order: a thread of the target that only loads the word ---- */

#define ROUNDS REPEAT(200)
#define ORDERED 40000

struct watcher {
	struct pair *me;
	pthread_t thread;
	_Atomic bool done;
};

/* A word of n says that the data has the pattern of n, until the answer is n. */
static void *watch(void *arg)
{
	struct watcher *watcher = arg;
	struct pair *me = watcher->me;
	uint64_t n;

	for (n = 1; n <= ROUNDS; n++) {
		size_t length = n % 2 ? 8 + n : ORDERED;

		while (__atomic_load_n(word_of(me), __ATOMIC_ACQUIRE) < n)
			sched_yield();
		if (pattern_differs(me->window, length, n) != length)
			*pair_value(me, 1, 2) = n;
		*pair_value(me, 1, 1) = n;
	}
	watcher->done = true;
	return NULL;
}

static void be_watched(struct pair *me)
{
	struct watcher watcher = { .me = me };

	pair_check(me, !pthread_create(&watcher.thread, NULL, watch, &watcher));
	while (!watcher.done) {
		/* The thread sanitizer does not see that a ring orders the next put behind this. */
		*pair_value(me, 1, 3) = *pair_value(me, 1, 1);
		pair_progress(me);
	}
	*pair_value(me, 1, 3) = ROUNDS;
	pthread_join(watcher.thread, NULL);
}

static void test_order(void **state)
{
	struct pair *pair = pair_open(state, .window = WINDOW, .work = be_watched);
	uint8_t *local = test_map(WINDOW);
	uint64_t n;

	for (n = 1; n <= ROUNDS; n++) {
		size_t length = n % 2 ? 8 + n : ORDERED;
		pf_signal signal = signal_to(pair, n % 3 ? PF_SIGNAL_ADD : PF_SIGNAL_SET,
					     n % 3 ? 1 : n);
		struct pair_done done = { 0 };

		pattern_fill(local, length, n);
		assert_pending(pf_put_signal(pair->peer, local, pair_there(pair, 1, pair->window),
					     length, &signal, 0, pair_completed, &done));
		pair_await_value(pair, 1, 3, n);
		pair_await_done(pair, &done, 1);
		assert_ok(done.last.status);
		assert_int_equal(*pair_value(pair, 1, 2), 0);
	}
	pair_await(pair, 1, PAIR_DONE);
	munmap(local, WINDOW);
	pair_end(pair);
}

/* ---- many at a time, in both directions ---- */

#define MANY REPEAT(4000)
#define IN_FLIGHT 500

static size_t many_length(unsigned i)
{
	return i % 64 ? i % 200 : 30000;
}

static void many(struct pair *me)
{
	uint8_t *half = me->window + (me->side ? 0 : 2 * MIB);
	uint64_t *sum = (uint64_t *)(void *)(me->window + WORD + 64 * me->side);
	struct pair_done done = { 0 };
	uint8_t *local = test_map(MIB);
	unsigned i;

	for (i = 0; i < MANY; i++) {
		pf_signal signal = { i % 3 ? PF_SIGNAL_ADD : PF_SIGNAL_NOTICE,
				     pair_there(me, !me->side, sum), i };

		while (i - done.count >= IN_FLIGHT)
			pair_progress(me);
		if (!(i % 3))
			signal.value = 0; /* the pattern of no bytes: see many_notice */
		pair_check_status(me,
				  pf_put_signal(me->peer, local,
						pair_there(me, !me->side, half + i % MIB),
						many_length(i), &signal, 0, pair_completed, &done),
				  PF_PENDING);
	}
	pair_await_done(me, &done, MANY);
	pair_check_status(me, done.failure.status, PF_OK);
	pair_check(me, done.count == MANY);
	munmap(local, MIB);
}

static void many_notice(pf_context *context, pf_peer *from, uint64_t remote, size_t length,
			uint64_t value, void *arg)
{
	struct pair *me = arg;

	(*pair_value(me, me->side, NOTICES))++;
}

static void test_many(void **state)
{
	struct pair *pair = pair_open(state, .window = WINDOW, .work = many, .notice = many_notice,
				      .notice_here = many_notice);
	uint64_t expected = 0;
	unsigned i, side;

	many(pair);
	pair_await(pair, 1, PAIR_DONE);
	for (i = 0; i < MANY; i++)
		expected += i % 3 ? i : 0;
	for (side = 0; side < 2; side++) {
		assert_int_equal(load64(pair->window + WORD + 64 * side), expected);
		assert_int_equal(*pair_value(pair, side, NOTICES), (MANY + 2) / 3);
	}
	pair_end(pair);
}

/* ---- from the callback ---- */

/* Answer each notice with the next: a put with a signal, and the number as a message. */
static void answer(pf_context *context, pf_peer *from, uint64_t remote, size_t length,
		   uint64_t value, void *arg)
{
	pf_signal signal = { PF_SIGNAL_NOTICE, 0, value + 1 };
	struct pair *me = arg;

	(*pair_value(me, me->side, 1))++;
	pair_check(me, pf_progress(context) == 0);
	pair_check_status(me, pf_flush(context, from, PF_FOREVER), PF_ERR_ARGUMENT);
	pair_check_status(me, pf_send(from, 3, &value, sizeof(value), NULL, 0), PF_OK);
	if (value >= 1000)
		return;
	pair_check_status(me,
			  pf_put_signal(from, me->window + 8 * me->side,
					pair_there(me, !me->side, me->window + 64), 8, &signal, 0,
					NULL, NULL),
			  PF_PENDING);
}

static void test_answer(void **state)
{
	struct pair *pair = pair_open(state, .window = WINDOW, .notice = answer,
				      .notice_here = answer, .receive = pair_count_message,
				      .receive_here = pair_count_message);
	pf_signal signal = { PF_SIGNAL_NOTICE, 0, 1 };

	assert_pending(pf_put_signal(pair->peer, NULL, 0, 0, &signal, 0, NULL, NULL));
	pair_await_value(pair, 1, 1, 500);
	pair_await_value(pair, 0, 1, 500);
	pair_await_value(pair, 1, 0, 500);
	pair_await_value(pair, 0, 0, 500);
	assert_ok(pf_flush(pair->context, NULL, PF_FOREVER));
	pair_end(pair);
}

/* ---- the end of the peer ---- */

static void receive_signals(struct pair *me)
{
	pair_say(me, 1);
	pair_serve(me);
}

/* Each operation completes once, with PF_OK or with an error of the peer. */
static void test_killed(void **state)
{
	struct pair_done done[512] = { 0 };
	struct pair *pair = pair_open(state, .window = WINDOW, .partner = receive_signals,
				      .notice = many_notice);
	uint8_t *local = test_map(WINDOW);
	unsigned i, posted = 0;
	pf_signal signal;

	pair_await(pair, 1, 1);
	pair_connect(pair);
	for (i = 0; i < ARRAY_SIZE(done); i++) {
		int status;

		if (i == ARRAY_SIZE(done) / 2)
			pair_kill(pair, 1);
		signal = signal_to(pair, i % 2 ? PF_SIGNAL_ADD : PF_SIGNAL_NOTICE, 1);
		status = pf_put_signal(pair->peer, local, pair_there(pair, 1, pair->window),
				       i % 8 ? i : LONGEST, &signal, 0, pair_completed, &done[i]);
		if (status == PF_PENDING)
			posted++;
		else
			assert_true(status < 0 && i >= ARRAY_SIZE(done) / 2);
		if (i % 4 == 0)
			pf_progress(pair->context);
	}
	/* Completion functions have the errors. */
	assert_ok(pf_flush(pair->context, pair->peer, PF_FOREVER));
	for (i = 0; i < ARRAY_SIZE(done); i++) {
		assert_true(done[i].count <= 1);
		posted -= done[i].count;
		if (done[i].count && i >= ARRAY_SIZE(done) / 2)
			assert_true(done[i].last.status < 0);
	}
	assert_int_equal(posted, 0);
	munmap(local, WINDOW);
	pair_end(pair);
}

/* A put with a signal has one place in operations_max until both are done. */
static void test_operations_max(void **state)
{
	struct pair_setup setup = { PAIR_MODE(state), .window = WINDOW };
	struct pair_done done = { 0 };
	struct pair *pair;
	pf_signal signal;
	unsigned i;

	setup.here.operations_max = 2;
	pair = pair_start(&setup);
	pair_connect(pair);
	signal = signal_to(pair, PF_SIGNAL_ADD, 1);
	for (i = 0; i < 2; i++)
		assert_pending(pf_put_signal(pair->peer, &signal, pair_there(pair, 1, pair->window),
					     i ? 8 : 0, &signal, 0, pair_completed, &done));
	assert_status(pf_put_signal(pair->peer, &signal, pair_there(pair, 1, pair->window), 8,
				    &signal, 0, pair_completed, &done),
		      PF_ERR_AGAIN);
	assert_status(pf_put_signal(pair->peer, NULL, 0, 0, &signal, 0, pair_completed, &done),
		      PF_ERR_AGAIN);
	assert_status(pf_put_signal(pair->peer, NULL, 0, 0, &signal, 2, pair_completed, &done),
		      PF_ERR_ARGUMENT);
	pair_await_done(pair, &done, 2);
	assert_ok(pair_put_signal(pair, pair->peer, NULL, 0, 0, signal).status);
	assert_int_equal(*word_of(pair), 3);
	pair_end(pair);
}

#define IN_ALL(test)                                                                               \
	IN_MODE(test, DEFAULT), IN_MODE(test, SHARE_ALL), IN_MODE(test, STREAM),                   \
		IN_MODE(test, SMALL_RING), IN_MODE(test, THREADS), IN_MODE(test, WAIT)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_ALL(test_operations),
		IN_MODE(test_arguments, DEFAULT),
		IN_ALL(test_silent),
		IN_ALL(test_absent),
		IN_MODE(test_pager, DEFAULT),
		IN_MODE(test_pager, STREAM),
		IN_ALL(test_bad),
		IN_ALL(test_order),
		IN_ALL(test_many),
		IN_MODE(test_answer, DEFAULT),
		IN_MODE(test_answer, THREADS),
		IN_MODE(test_answer, WAIT),
		IN_MODE_UNLESS(threads, test_killed, DEFAULT),
		IN_MODE_UNLESS(threads, test_killed, STREAM),
		IN_MODE_UNLESS(threads, test_killed, THREADS),
		IN_MODE(test_operations_max, DEFAULT),
		IN_MODE(test_operations_max, STREAM),
	};

	return pair_run_tests("signal", tests);
}

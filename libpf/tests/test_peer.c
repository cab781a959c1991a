/* SPDX-License-Identifier: BSD-3-Clause */
/* How peers come and go: killed, closed in good order, silent, or this very process. */
#include "pair.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define WINDOW (64 * MIB)

enum mode { MODE_DEFAULT, MODE_STREAM, MODE_THREADS, MODE_IDLE, MODE_NO_GROWTH };

static pf_options options_of(enum mode mode)
{
	pf_options options = pair_options();

	switch (mode) {
	case MODE_STREAM:
		options.single_copy = 0;
		break;
	case MODE_THREADS:
		options.threads = 1;
		break;
	case MODE_IDLE:
		options.idle_polls = 1;
		break;
	case MODE_NO_GROWTH:
		options.ring_memory = 0;
		break; /* so the ring turns back often */
	default:
		break;
	}
	return options;
}

static struct {
	unsigned count;
	int status;
	pf_peer *peer;
	unsigned completed; /* what had completed when it came */
	struct pair_done *done;
} error;

static void on_error(pf_context *context, pf_peer *peer, int status, const char *text, void *arg)
{
	error.count++;
	error.status = status;
	error.peer = peer;
	error.completed = error.done ? error.done->count : 0;
	if (!text || strlen(text) < 5)
		error.status = 1;
}

static struct pair *start(void **state, void (*partner)(struct pair *), pf_receive_fn receive_here)
{
	enum mode mode = (enum mode)(uintptr_t)*state;
	struct pair_setup setup = {
		.here = options_of(mode),
		.there = options_of(mode),
		.window = WINDOW,
		.partner = partner,
		.receive_here = receive_here,
		.error_here = on_error,
	};

	memset(&error, 0, sizeof(error));
	return pair_start(&setup);
}

/* For a while: nothing more happens. */
static void linger(struct pair *pair)
{
	int i;

	for (i = 0; i < 10; i++) {
		pf_progress(pair->context);
		usleep(1000);
	}
}

static void await_error(struct pair *pair)
{
	while (!error.count)
		pf_progress(pair->context);
}

static void check_gone(struct pair *pair)
{
	struct pair_done done = { 0 };
	uint64_t byte = 0;

	assert_non_null(strstr(pf_peer_path(pair->peer), "gone"));
	assert_int_equal(pf_put(pair->peer, &byte, 4096, 8, pair_completed, &done), PF_ERR_PEER);
	assert_int_equal(pf_get(pair->peer, &byte, 4096, 8, pair_completed, &done), PF_ERR_PEER);
	assert_int_equal(pf_put(pair->peer, pair->window, 4096, MIB, pair_completed, &done),
			 PF_ERR_PEER);
	assert_int_equal(pf_send(pair->peer, 0, "x", 1, NULL, 0), PF_ERR_PEER);
	assert_int_equal(pf_atomic(pair->peer, PF_ADD, 8, 1, 4096, 1, 0, pair_completed, &done),
			 PF_ERR_PEER);
	assert_int_equal(pf_flush(pair->context, NULL), PF_OK);
	assert_int_equal(done.count, 0);
}

/* SIGKILL in the middle of everything: each operation completes, the callback comes once, no hang. */
static void test_killed(void **state)
{
	struct random_numbers numbers = random_start("peer, killed");
	unsigned round;

	for (round = 0; round < REPEAT(16); round++) {
		struct pair *pair = start(state, NULL, NULL);
		struct pair_done done = { 0 };
		uint8_t *local = calloc(1, WINDOW);
		unsigned posted = 0, i;

		assert_non_null(local);
		error.done = &done;
		for (i = 0; i < 60; i++) {
			size_t at = i * MIB, length = 1 + random_below(&numbers, MIB);
			int status = i % 3 == 0 ? pf_put(pair->peer, local + at,
							 remote_address(pair->window + at), length,
							 pair_completed, &done) :
				     i % 3 == 1 ? pf_get(pair->peer, local + at,
							 remote_address(pair->window + at), length,
							 pair_completed, &done) :
						  pf_atomic(pair->peer, PF_ADD, 8, 1,
							    remote_address(pair->window + at), 1, 0,
							    pair_completed, &done);

			assert_in_range(status, PF_OK, PF_DONE);
			posted += status == PF_OK;
			if (i % 4 == round % 4)
				pf_progress(pair->context);
		}
		for (i = (unsigned)random_below(&numbers, 60); i; i--)
			pf_progress(pair->context);
		if (round % 3 == 0)
			kill(pair_pid(pair, 1), SIGSTOP);
		for (i = (unsigned)random_below(&numbers, 20); i; i--)
			pf_progress(pair->context);
		pair_kill(pair, 1);
		assert_int_equal(pf_flush(pair->context, round % 2 ? pair->peer : NULL), PF_OK);
		assert_int_equal(done.count, posted);
		if (done.failed)
			assert_int_equal(done.failure.status, PF_ERR_PEER);
		await_error(pair);
		assert_int_equal(error.completed, posted);
		linger(pair);
		assert_int_equal(error.count, 1);
		assert_int_equal(error.status, PF_ERR_PEER);
		assert_ptr_equal(error.peer, pair->peer);
		assert_int_equal(done.count, posted);
		check_gone(pair);
		free(local);
		pair_end(pair);
	}
}

/* Nobody was in touch with it when it died: the first to try learns of it. */
static void test_dead_before_use(void **state)
{
	struct pair *pair = start(state, NULL, NULL);
	uint8_t byte = 0;
	pf_completion completion;

	pair_kill(pair, 1);
	completion = pair_put(pair, pair->peer, &byte, remote_address(pair->window), 1);
	assert_int_equal(completion.status, PF_ERR_PEER);
	linger(pair);
	check_gone(pair);
	/* The header promises it for a peer that died, however that came out. */
	assert_int_equal(error.count, 1);
	pair_end(pair);
}

static void exit_without_close(struct pair *me)
{
	pair_await(me, 0, 1);
	_exit(0);
}

/* It exits, but never says good-bye: that is an error too. */
static void test_exits(void **state)
{
	struct pair *pair = start(state, exit_without_close, NULL);

	assert_int_equal(
		pair_put(pair, pair->peer, &pair->side, remote_address(pair->window), 4).status,
		PF_OK);
	pair_say(pair, 1);
	pair_wait_exit(pair, 1);
	await_error(pair);
	linger(pair);
	assert_int_equal(error.count, 1);
	assert_int_equal(error.status, PF_ERR_PEER);
	check_gone(pair);
	pair_end(pair);
}

static void close_when_told(struct pair *me)
{
	pair_await(me, 0, 1);
}

/* Closed in good order: its operations fail, but nobody is alarmed. */
static void test_closes(void **state)
{
	struct pair *pair = start(state, close_when_told, NULL);

	assert_int_equal(
		pair_put(pair, pair->peer, &pair->side, remote_address(pair->window), 4).status,
		PF_OK);
	assert_int_equal(
		pair_atomic(pair, pair->peer, PF_ADD, 8, remote_address(pair->window), 1, 0).status,
		PF_OK);
	pair_say(pair, 1);
	pair_wait_exit(pair, 1);
	linger(pair);
	assert_int_equal(error.count, 0);
	check_gone(pair);
	pair_end(pair);
}

static uint32_t received;

/* Now and then a long one, so that the ring turns at other places each time. */
static size_t length_of(struct pair *me, uint32_t n)
{
	size_t fixed = atomic_load(pair_value(me, 0, 2));

	if (fixed)
		return fixed;
	return n % 100 == 99 ? 20000 : 4 + n * 37 % 900;
}

static void count_last(pf_context *context, pf_peer *from, uint8_t tag, void *data, size_t length,
		       void *arg)
{
	struct pair *me = arg;
	uint32_t n;

	assert_true(length >= sizeof(n));
	memcpy(&n, data, sizeof(n));
	assert_int_equal(n, received);
	assert_int_equal(length, length_of(me, n));
	assert_int_equal(pattern_differs((uint8_t *)data + 4, length - 4, n), length - 4);
	received++;
}

/*
 * Values of the test: 0 end abruptly, 1 messages that it reads, 2 the length of
 * all or 0. The partner's: 0 messages sent.
 */
static void send_and_go(struct pair *me)
{
	static uint8_t message[20000];
	uint32_t n, warm;
	bool abrupt;
	int status;

	pair_watch(me, 0, 1);
	abrupt = atomic_load(pair_value(me, 0, 0));
	warm = (uint32_t)atomic_load(pair_value(me, 0, 1));
	for (n = 0;; n++) {
		if (n == warm)
			pair_watch(me, 0, 2);
		memcpy(message, &n, 4);
		pattern_fill(message + 4, length_of(me, n) - 4, n);
		do {
			status = pf_send(me->peer, 0, message, length_of(me, n), NULL, 0);
		} while (status == PF_ERR_AGAIN && n < warm);
		if (status != PF_DONE)
			break;
	}
	pair_check(me, status == PF_ERR_AGAIN);
	atomic_store(pair_value(me, 1, 0), n);
	if (abrupt)
		_exit(0);
}

/* What was sent is delivered, though the receiver reads it only after the sender has ended. */
static void last_messages(void **state, uint64_t warm, size_t length, bool abrupt)
{
	struct pair *pair = start(state, send_and_go, count_last);

	received = 0;
	atomic_store(pair_value(pair, 0, 0), abrupt);
	atomic_store(pair_value(pair, 0, 1), warm);
	atomic_store(pair_value(pair, 0, 2), length);
	pair_say(pair, 1);
	while (received < warm)
		pf_progress(pair->context);
	pair_say(pair, 2);
	pair_wait_exit(pair, 1);
	if (abrupt)
		await_error(pair);
	linger(pair);
	assert_true(received > warm);
	assert_int_equal(received, atomic_load(pair_value(pair, 1, 0)));
	assert_int_equal(error.count, abrupt);
	pair_end(pair);
}

static void test_last_messages(void **state)
{
	struct random_numbers numbers = random_start("peer, last messages");
	unsigned round;

	for (round = 0; round < REPEAT(20); round++)
		last_messages(state, random_below(&numbers, round % 3 ? 3000 : 30), 0, round % 2);
}

/* The ring turns back just where the reader takes a break, or next to it. */
static void test_last_turn(void **state)
{
	static const uint64_t warm[] = { 62, 63, 64, 65, 66, 126, 127, 128, 129, 130 };
	size_t i;

	for (i = 0; i < sizeof(warm) / sizeof(warm[0]); i++)
		last_messages(state, warm[i], 248, i % 2);
}

static void count_arrival(pf_context *context, pf_peer *from, uint8_t tag, void *data,
			  size_t length, void *arg)
{
	struct pair *me = arg;

	atomic_fetch_add(pair_value(me, 1, 0), 1);
}

static void count_loss(pf_context *context, pf_peer *peer, int status, const char *text, void *arg)
{
	struct pair *me = arg;

	atomic_fetch_add(pair_value(me, 1, 1), 1);
}

/* Somebody calls, sends, and closes in good order before it is let in: that is no loss. */
static void test_hasty(void **state)
{
	pf_options options = options_of((enum mode)(uintptr_t)*state);
	struct pair_setup setup = {
		.here = options, .there = options, .receive = count_arrival, .error = count_loss
	};
	struct pair *pair = pair_start(&setup), hasty = *pair;
	pf_peer *peer = pair_peer(pair, 1);
	int status;

	assert_int_equal(pair_send(pair, peer, 0, "x", 1), PF_DONE);
	while (!atomic_load(pair_value(pair, 1, 0)))
		pf_progress(pair->context);
	kill(pair_pid(pair, 1), SIGSTOP);
	waitpid(pair_pid(pair, 1), &status, WUNTRACED);
	assert_int_equal(pf_open(&options, &hasty.context), PF_OK);
	peer = pair_peer(&hasty, 1);
	assert_int_equal(pf_send(peer, 0, "y", 1, NULL, 0), PF_DONE);
	pf_close(hasty.context);
	kill(pair_pid(pair, 1), SIGCONT);
	while (atomic_load(pair_value(pair, 1, 0)) < 2)
		pf_progress(pair->context);
	linger(pair);
	assert_int_equal(atomic_load(pair_value(pair, 1, 1)), 0);
	pair_end(pair);
}

static void stop_self(struct pair *me)
{
	pair_await(me, 0, 1);
	raise(SIGSTOP);
	pair_serve(me);
}

/* A stopped process is not a dead one: nothing is lost, it is only late. */
static void test_stopped(void **state)
{
	pf_options options = options_of((enum mode)(uintptr_t)*state);
	struct pair *pair = start(state, stop_self, NULL);
	struct pair_done done = { 0 };
	uint8_t *local = malloc(MIB);
	int status;

	assert_non_null(local);
	assert_int_equal(pair_put(pair, pair->peer, local, remote_address(pair->window), 8).status,
			 PF_OK);
	pair_say(pair, 1);
	waitpid(pair_pid(pair, 1), &status, WUNTRACED);
	assert_true(WIFSTOPPED(status));
	pattern_fill(local, MIB, 1);
	assert_in_range(pf_put(pair->peer, local, remote_address(pair->window), MIB, pair_completed,
			       &done),
			PF_OK, PF_DONE);
	assert_int_equal(pf_atomic(pair->peer, PF_ADD, 8, 1, remote_address(pair->window + MIB), 1,
				   0, pair_completed, &done),
			 PF_OK);
	linger(pair);
	assert_int_equal(error.count, 0);
	/* An engine does not need it to run. */
	assert_true(done.count <= (pair_on_device(&options) ? 2 : 1));
	kill(pair_pid(pair, 1), SIGCONT);
	assert_int_equal(pf_flush(pair->context, NULL), PF_OK);
	assert_int_equal(done.count, 2);
	assert_int_equal(done.failed, 0);
	assert_int_equal(pattern_differs(pair->window, MIB, 1), MIB);
	free(local);
	pair_end(pair);
}

/* One of three dies: the others never notice. */
static void test_others_live(void **state)
{
	enum mode mode = (enum mode)(uintptr_t)*state;
	struct pair_setup setup = { .partners = 3,
				    .here = options_of(mode),
				    .there = options_of(mode),
				    .window = WINDOW,
				    .error_here = on_error };
	struct pair *pair;
	uint8_t *local = malloc(MIB);
	unsigned i, side;

	assert_non_null(local);
	memset(&error, 0, sizeof(error));
	pair = pair_start(&setup);
	for (i = 0; i < 90; i++) {
		side = 1 + i % 3;
		if (i == 40)
			pair_kill(pair, 2);
		if (i >= 40 && side == 2)
			continue;
		pattern_fill(local, MIB - i, i);
		assert_int_equal(pair_put(pair, pair_peer(pair, side), local,
					  remote_address(pair->window), MIB - i)
					 .status,
				 PF_OK);
		assert_int_equal(pattern_differs(pair->window, MIB - i, i), MIB - i);
	}
	await_error(pair);
	assert_ptr_equal(error.peer, pair_peer(pair, 2));
	linger(pair);
	assert_int_equal(error.count, 1);
	free(local);
	pair_end(pair);
}

/* Partner 1 asks for a lot and looks away; what partner 2 asks for must come all the same. */
static void ask_and_look_away(struct pair *me)
{
	struct pair_done done = { 0 };
	uint8_t *local = malloc(MIB);
	int i;

	pair_check(me, local);
	if (me->side == 1) {
		for (i = 0; i < 30; i++)
			pair_check(me, pf_get(me->peer, local, remote_address(me->window), 65536,
					      pair_completed, &done) == PF_OK);
		/* They take turns: with one done, all the others are under way. */
		pair_await_done(me, &done, 1);
		pair_say(me, 1);
		pair_watch(me, 0, 1);
		pair_await_done(me, &done, 30);
	} else {
		pair_watch(me, 1, 1);
		/* More than finds room at once, so that answers to both wait side by side. */
		for (i = 0; i < 10; i++)
			pair_check(me, pf_get(me->peer, local, remote_address(me->window), 65536,
					      pair_completed, &done) == PF_OK);
		pair_await_done(me, &done, 10);
		pair_check(me,
			   pair_atomic(me, me->peer, PF_ADD, 8, remote_address(me->window), 1, 0)
					   .status == PF_OK);
		pair_say(me, 1);
	}
	pair_check_status(me, done.failure.status, PF_OK);
	free(local);
	pair_say(me, 2);
	pair_serve(me);
}

static void test_one_looks_away(void **state)
{
	struct pair_setup setup = { .partners = 2,
				    .here = pair_options(),
				    .there = pair_options(),
				    .window = MIB,
				    .partner = ask_and_look_away };
	struct pair *pair;

	setup.here.ring_size = 16384;
	setup.there.single_copy = 0;
	pair = pair_start(&setup);
	pair_await(pair, 2, 1);
	pair_say(pair, 1);
	pair_await(pair, 1, 2);
	pair_end(pair);
}

static struct pair_done *second;
static pf_peer *second_peer;
static int second_status;

/* Posting from a completion that reports the peer's end: refused at once, not forgotten. */
static void post_again(pf_context *context, const pf_completion *completion)
{
	static uint8_t byte;

	pair_completed(context, completion);
	if (completion->status != PF_OK)
		second_status = pf_put(second_peer, &byte, 4096, 1, pair_completed, second);
}

static void test_post_from_failure(void **state)
{
	pf_options options = options_of((enum mode)(uintptr_t)*state);
	struct pair_done first = { 0 }, again = { 0 };
	int i, status, posted = 0;
	struct pair *pair;

	/* Nothing that an engine does waits for a process that is stopped. */
	if (pair_on_device(&options))
		skip();
	pair = start(state, NULL, NULL);
	assert_int_equal(pair_put(pair, pair->peer, &first, remote_address(pair->window), 8).status,
			 PF_OK);
	second = &again;
	second_peer = pair->peer;
	second_status = 77;
	kill(pair_pid(pair, 1), SIGSTOP);
	for (i = 0; i < 10; i++) {
		status = pf_atomic(pair->peer, PF_ADD, 8, 1, remote_address(pair->window), 1, 0,
				   post_again, &first);
		posted += status == PF_OK;
		pf_progress(pair->context);
	}
	pair_kill(pair, 1);
	pair_await_done(pair, &first, (unsigned)posted);
	assert_int_equal(first.failed, posted);
	assert_int_equal(second_status, PF_ERR_PEER);
	assert_int_equal(again.count, 0);
	pair_end(pair);
}

/* ---- to oneself ---- */

static uint64_t own_messages;

static void count_own(pf_context *context, pf_peer *from, uint8_t tag, void *data, size_t length,
		      void *arg)
{
	assert_ptr_equal(from, arg);
	assert_int_equal(length, 1 + own_messages % 3000);
	assert_int_equal(pattern_differs(data, length, own_messages), length);
	own_messages++;
}

static void test_self(void **state)
{
	static const size_t sizes[] = { 1, 8, 4095, 4097, 65535, 65536, 65537, MIB + 3, 9 * MIB };
	pf_options options = options_of((enum mode)(uintptr_t)*state);
	uint8_t address[PF_ADDRESS_MAX], *a = malloc(9 * MIB + 8), *b = malloc(9 * MIB + 8),
					 bytes[3000];
	struct pair me = { 0 };
	size_t length = sizeof(address), i;
	pf_completion completion;
	uint64_t counter = 5;

	memset(&error, 0, sizeof(error));
	own_messages = 0;
	assert_non_null(a);
	assert_non_null(b);
	assert_int_equal(pf_open(&options, &me.context), PF_OK);
	assert_int_equal(pf_address(me.context, address, &length), PF_OK);
	assert_int_equal(pf_peer_open(me.context, address, length, NULL, &me.peer), PF_OK);
	pf_set_receive(me.context, count_own, me.peer);
	pf_set_error(me.context, on_error, NULL);
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct pair_done done = { 0 };
		int status;

		pattern_fill(a + 1, sizes[i], i);
		status = pf_put(me.peer, a + 1, remote_address(b + 3), sizes[i], pair_completed,
				&done);
		assert_in_range(status, PF_OK, PF_DONE);
		assert_int_equal(pf_flush(me.context, me.peer), PF_OK);
		assert_int_equal(done.failed, 0);
		assert_int_equal(pattern_differs(b + 3, sizes[i], i), sizes[i]);
		memset(a, 0, sizes[i] + 1);
		status = pf_get(me.peer, a + 1, remote_address(b + 3), sizes[i], pair_completed,
				&done);
		assert_in_range(status, PF_OK, PF_DONE);
		assert_int_equal(pf_flush(me.context, NULL), PF_OK);
		assert_int_equal(done.failed, 0);
		assert_int_equal(pattern_differs(a + 1, sizes[i], i), sizes[i]);
	}
	for (i = 0; i < 5000; i++) {
		size_t size = 1 + i % 3000;

		pattern_fill(bytes, size, i);
		while (pf_send(me.peer, 1, bytes, size / 2, bytes + size / 2, size - size / 2) ==
		       PF_ERR_AGAIN)
			pf_progress(me.context);
	}
	while (own_messages < 5000)
		pf_progress(me.context);
	for (i = 0; i < 100; i++) {
		struct pair_done done = { 0 };

		assert_int_equal(pf_atomic(me.peer, PF_ADD, 8, 1, remote_address(&counter), 1, 0,
					   pair_completed, &done),
				 PF_OK);
		assert_int_equal(pf_flush(me.context, NULL), PF_OK);
		assert_int_equal(done.last.value, 5 + i);
	}
	assert_int_equal(counter, 105);

	struct pair_done done = { 0 };

	assert_in_range(pf_put(me.peer, a, 4096, MIB, pair_completed, &done), PF_OK, PF_DONE);
	pf_flush(me.context, NULL);
	completion = done.last;
	assert_int_equal(completion.status, PF_ERR_FAULT);
	assert_int_equal(completion.side, PF_SIDE_REMOTE);
	assert_true(completion.address == 4096);
	assert_int_equal(error.count, 0);
	pf_close(me.context);
	free(a);
	free(b);
}

/* Goes to the test by shared memory, whatever the test does. */
static void put_refused(struct pair *me)
{
	pair_check_status(me,
			  pair_put(me, me->peer, me->window, remote_address(me->window), 1).status,
			  PF_ERR_REFUSED);
	pair_say(me, 1);
	pair_serve(me);
}

/* Two processes of a host, one of which only goes over the network: both ways refused, no more. */
static void test_other_way(void **state)
{
	struct pair_setup setup = {
		.here = pair_options(),
		.there = pair_options(),
		.window = WINDOW,
		.partner = put_refused,
		.error_here = on_error,
	};
	struct pair *pair;

	memset(&error, 0, sizeof(error));
	setup.here.if_include = setup.there.if_include = "lo";
	setup.here.network = PF_NETWORK_ALWAYS;
	setup.here.peer_timeout = 1;
	pair = pair_start(&setup);
	pair_await(pair, 1, 1);
	assert_int_equal(pf_send(pair->peer, 0, "x", 1, NULL, 0), PF_DONE);
	await_error(pair);
	assert_int_equal(error.count, 1);
	assert_int_equal(error.status, PF_ERR_PEER);
	check_gone(pair);
	pair_end(pair);
}

#define IN_MODE(test, mode)                                                                        \
	{                                                                                          \
#test " " #mode, test, NULL, pair_teardown, (void *)(uintptr_t)MODE_##mode         \
	}
#define IN_ALL(test)                                                                               \
	IN_MODE(test, DEFAULT), IN_MODE(test, STREAM), IN_MODE(test, THREADS), IN_MODE(test, IDLE)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_ALL(test_killed),
		IN_ALL(test_dead_before_use),
		IN_ALL(test_exits),
		IN_ALL(test_closes),
		IN_ALL(test_last_messages),
		IN_ALL(test_stopped),
		IN_MODE(test_last_messages, NO_GROWTH),
		IN_MODE(test_last_turn, NO_GROWTH),
		IN_MODE(test_hasty, DEFAULT),
		IN_MODE(test_hasty, THREADS),
		IN_MODE(test_one_looks_away, STREAM),
		IN_ALL(test_others_live),
		IN_ALL(test_post_from_failure),
		IN_ALL(test_self),
		IN_MODE(test_other_way, DEFAULT),
	};

	return cmocka_run_group_tests_name("peer", tests, NULL, NULL);
}

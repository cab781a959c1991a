/* SPDX-License-Identifier: BSD-3-Clause */
/* Peers that start and end: killed, closed in order, stopped, or this process itself. */
#include "pair.h"

#include "base/clock.h"
#include "common/context.h"
#include "host/peer.h"
#include "host/state.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define WINDOW (64 * MIB)

static struct pair *start(void **state, void (*partner)(struct pair *), pf_receive_fn receive_here)
{
	return pair_open(state, .window = WINDOW, .partner = partner, .receive_here = receive_here,
			 .peer_event_here = pair_note_end);
}

static void await_error(struct pair *pair)
{
	while (!pair->errors.count)
		pf_progress(pair->context);
}

/* However late the service thread is. */
static void await_leaving(struct pair *pair)
{
	while (!pair->errors.left)
		pf_progress(pair->context);
}

/* The peer has failed, this was reported once, and every operation says so. */
static void check_report(struct pair *pair, unsigned reports, int status)
{
	struct pair_done done = { 0 };
	pf_peer *peer = pair->peer;
	uint64_t word = 0;

	pair_linger(pair);
	assert_int_equal(pair->errors.count, reports);
	if (reports) {
		assert_status(pair->errors.status, status);
		assert_ptr_equal(pair->errors.peer, peer);
	}
	assert_status(pf_put(peer, &word, 4096, 8, 0, pair_completed, &done), status);
	assert_status(pf_get(peer, &word, 4096, 8, pair_completed, &done), status);
	assert_status(pf_put(peer, pair->window, 4096, MIB, 0, pair_completed, &done), status);
	assert_status(pf_send(peer, 0, "x", 1, NULL, 0), status);
	assert_status(pf_atomic(peer, PF_ATOMIC_ADD, 8, 4096, 1, 0, pair_completed, &done), status);
	assert_ok(pf_flush(pair->context, NULL, PF_FOREVER));
	assert_int_equal(done.count, 0);
}

static void check_gone(struct pair *pair, unsigned reports)
{
	check_report(pair, reports, PF_ERR_PEER);
	assert_non_null(strstr(pf_peer_path(pair->peer), "gone"));
}

/* The number of completions when the error is reported. */
static struct pair_done *posted_done;
static unsigned completed_before_error;

static void note_error_order(pf_context *context, pf_peer *peer, enum pf_peer_state reason,
			     int status, const char *text, void *arg)
{
	completed_before_error = posted_done->count;
	pair_note_end(context, peer, reason, status, text, arg);
}

/* Post one of the three operations, and return how many completions it will have. */
static unsigned post_any(struct pair *pair, unsigned which, uint8_t *local, size_t length,
			 struct pair_done *done)
{
	uint64_t remote = remote_address(pair->window + which * MIB);
	uint8_t *here = local + which * MIB;
	int status = which % 3 == 0 ?
			     pf_put(pair->peer, here, remote, length, 0, pair_completed, done) :
		     which % 3 == 1 ?
			     pf_get(pair->peer, here, remote, length, pair_completed, done) :
			     pf_atomic(pair->peer, PF_ATOMIC_ADD, 8, remote, 1, 0, pair_completed,
				       done);

	assert_in_range(status, PF_OK, PF_PENDING);
	return status == PF_PENDING;
}

/* SIGKILL at any time: each operation completes, then the error is reported once. */
static void test_killed(void **state)
{
	struct random_numbers numbers = random_start("peer, killed");
	unsigned round;

	for (round = 0; round < REPEAT(16); round++) {
		struct pair *pair = pair_open(state, .window = WINDOW,
					      .peer_event_here = note_error_order);
		struct pair_done done = { 0 };
		uint8_t *local = test_alloc(WINDOW);
		unsigned posted = 0, i;

		posted_done = &done;
		for (i = 0; i < 60; i++) {
			posted += post_any(pair, i, local, 1 + random_below(&numbers, MIB), &done);
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
		assert_ok(pf_flush(pair->context, round % 2 ? pair->peer : NULL, PF_FOREVER));
		assert_int_equal(done.count, posted);
		if (done.failed)
			assert_status(done.failure.status, PF_ERR_PEER);
		await_error(pair);
		assert_int_equal(completed_before_error, posted);
		check_gone(pair, 1);
		assert_int_equal(done.count, posted);
		free(local);
		pair_end(pair);
	}
}

/* It died before it was first used: the first operation reports it. */
static void test_dead_before_use(void **state)
{
	struct pair *pair = start(state, NULL, NULL);
	uint8_t byte = 0;

	pair_kill(pair, 1);
	assert_status(pair_put(pair, pair->peer, &byte, remote_address(pair->window), 1).status,
		      PF_ERR_PEER);
	await_error(pair);
	check_gone(pair, 1);
	pair_end(pair);
}

static void exit_without_close(struct pair *me)
{
	pair_await(me, 0, 1);
	_exit(0);
}

/* A process that exits without pf_close is an error. */
static void test_exits(void **state)
{
	struct pair *pair = start(state, exit_without_close, NULL);

	pair_connect(pair);
	pair_say(pair, 1);
	pair_wait_exit(pair, 1);
	await_error(pair);
	check_gone(pair, 1);
	pair_end(pair);
}

static void close_when_told(struct pair *me)
{
	pair_await(me, 0, 1);
}

/* After pf_close of the peer operations fail, but no error is reported. */
static void test_closes(void **state)
{
	struct pair *pair = start(state, close_when_told, NULL);

	pair_connect(pair);
	pair_say(pair, 1);
	pair_wait_exit(pair, 1);
	await_leaving(pair);
	check_gone(pair, 0);
	pair_end(pair);
}

static uint32_t received;

/* Numbers of the test: 0: the sender exits without pf_close, 1: messages that are read before it
 * does, 2: their length, 0: various. Of the partner: 0: messages sent. */
static size_t length_of(struct pair *me, uint32_t n)
{
	size_t fixed = *pair_value(me, 0, 2);

	if (fixed)
		return fixed;
	/* A long one at times: the ring wraps around at other places each time. */
	return n % 100 == 99 ? 20000 : 4 + n * 37 % 900;
}

static void check_last(pf_context *context, pf_peer *from, uint32_t tag, void *data, size_t length,
		       void *arg)
{
	uint32_t n;

	assert_true(length >= sizeof(n));
	memcpy(&n, data, sizeof(n));
	assert_int_equal(n, received);
	assert_int_equal(length, length_of(arg, n));
	assert_int_equal(pattern_differs((uint8_t *)data + 4, length - 4, n), length - 4);
	received++;
}

static void send_and_go(struct pair *me)
{
	static uint8_t message[20000];
	uint32_t n, warm;
	int status;

	pair_watch(me, 0, 1);
	warm = (uint32_t)*pair_value(me, 0, 1);
	for (n = 0;; n++) {
		if (n == warm)
			pair_watch(me, 0, 2);
		memcpy(message, &n, 4);
		pattern_fill(message + 4, length_of(me, n) - 4, n);
		do {
			status = pf_send(me->peer, 0, message, length_of(me, n), NULL, 0);
		} while (status == PF_ERR_AGAIN && n < warm);
		if (status != PF_OK)
			break;
	}
	pair_check_status(me, status, PF_ERR_AGAIN);
	*pair_value(me, 1, 0) = n;
	if (*pair_value(me, 0, 0))
		_exit(0);
}

/* What was sent is delivered, also if the receiver reads it after the sender has ended. */
static void last_messages(void **state, uint64_t warm, size_t length, bool abrupt)
{
	struct pair *pair = start(state, send_and_go, check_last);

	received = 0;
	*pair_value(pair, 0, 0) = abrupt;
	*pair_value(pair, 0, 1) = warm;
	*pair_value(pair, 0, 2) = length;
	pair_say(pair, 1);
	while (received < warm)
		pf_progress(pair->context);
	pair_say(pair, 2);
	pair_wait_exit(pair, 1);
	if (abrupt)
		await_error(pair);
	else
		await_leaving(pair);
	pair_linger(pair);
	assert_true(received > warm);
	assert_int_equal(received, *pair_value(pair, 1, 0));
	assert_int_equal(pair->errors.count, abrupt);
	pair_end(pair);
}

static void test_last_messages(void **state)
{
	struct random_numbers numbers = random_start("peer, last messages");
	unsigned round;

	for (round = 0; round < REPEAT(20); round++)
		last_messages(state, random_below(&numbers, round % 3 ? 3000 : 30), 0, round % 2);
}

/* The ring wraps around where the reader pauses, or next to it. */
static void test_last_turn(void **state)
{
	static const uint64_t warm[] = { 62, 63, 64, 65, 66, 126, 127, 128, 129, 130 };
	size_t i;

	for (i = 0; i < ARRAY_SIZE(warm); i++)
		last_messages(state, warm[i], 248, i % 2);
}

static void count_failure(pf_context *context, pf_peer *peer, enum pf_peer_state reason, int status,
			  const char *text, void *arg)
{
	(*pair_value(arg, 1, 1)) += reason != PF_PEER_LEFT;
	(*pair_value(arg, 1, 2)) += reason == PF_PEER_LEFT;
}

/* A process connects, sends and closes in order before it was accepted: that is no error. */
static void test_hasty(void **state)
{
	struct pair *pair = pair_open(state, .receive = pair_count_message,
				      .peer_event = count_failure);
	struct pair hasty = *pair;
	int status;

	assert_status(pair_send(pair, pair->peer, 0, "x", 1), PF_OK);
	pair_await_value(pair, 1, 0, 1);
	kill(pair_pid(pair, 1), SIGSTOP);
	waitpid(pair_pid(pair, 1), &status, WUNTRACED);
	assert_ok(pf_open(&pair->options, NULL, &hasty.context));
	assert_status(pf_send(pair_peer(&hasty, 1), 0, "y", 1, NULL, 0), PF_OK);
	pf_close(hasty.context);
	kill(pair_pid(pair, 1), SIGCONT);
	pair_await_value(pair, 1, 0, 2);
	pair_await_value(pair, 1, 2, 1);
	pair_linger(pair);
	assert_int_equal(*pair_value(pair, 1, 1), 0);
	assert_int_equal(*pair_value(pair, 1, 2), 1);
	pair_end(pair);
}

static void stop_self(struct pair *me)
{
	pair_await(me, 0, 1);
	raise(SIGSTOP);
}

/* A stopped process is not dead: operations wait for it. */
static void test_stopped(void **state)
{
	struct pair *pair = pair_open(state, .window = WINDOW, .work = stop_self,
				      .peer_event_here = pair_note_end);
	struct pair_done done = { 0 };
	uint8_t *local = test_alloc(MIB);
	int status;

	pair_connect(pair);
	pair_say(pair, 1);
	waitpid(pair_pid(pair, 1), &status, WUNTRACED);
	assert_true(WIFSTOPPED(status));
	pattern_fill(local, MIB, 1);
	pair_post(pair, pair->peer, PUT, local, remote_address(pair->window), MIB, &done);
	assert_pending(pf_atomic(pair->peer, PF_ATOMIC_ADD, 8, remote_address(pair->window + MIB),
				 1, 0, pair_completed, &done));
	pair_linger(pair);
	assert_int_equal(pair->errors.count, 0);
	/* The initiator alone can complete a put; a device completes both. */
	assert_true(done.count <= (pair_on_device(&pair->options) ? 2 : 1));
	kill(pair_pid(pair, 1), SIGCONT);
	assert_ok(pf_flush(pair->context, NULL, PF_FOREVER));
	assert_int_equal(done.count, 2);
	assert_int_equal(done.failed, 0);
	pair_check_pattern(pair, pair->window, MIB, 1);
	free(local);
	pair_end(pair);
}

/* One of three dies: the others are not affected. */
static void test_others_live(void **state)
{
	struct pair *pair = pair_open(state, .partners = 3, .window = WINDOW,
				      .peer_event_here = pair_note_end);
	uint8_t *local = test_alloc(MIB);
	unsigned i, side;

	for (i = 0; i < 90; i++) {
		side = 1 + i % 3;
		if (i == 40)
			pair_kill(pair, 2);
		if (i < 40 || side != 2)
			pair_verify(pair, side, PUT, local, pair->window, MIB - i, i);
	}
	await_error(pair);
	pair_linger(pair);
	assert_int_equal(pair->errors.count, 1);
	assert_ptr_equal(pair->errors.peer, pair_peer(pair, 2));
	free(local);
	pair_end(pair);
}

static void ask(struct pair *me, unsigned count, uint8_t *local, struct pair_done *done)
{
	while (count--)
		pair_check_status(me,
				  pf_get(me->peer, local, remote_address(me->window), 65536,
					 pair_completed, done),
				  PF_PENDING);
}

/* Partner 1 asks for much and stops polling; partner 2 must get its answers all the same. */
static void ask_and_stop_polling(struct pair *me)
{
	struct pair_done done = { 0 };
	uint8_t *local = test_alloc(65536);

	if (me->side == 1) {
		ask(me, 30, local, &done);
		/* Requests are answered in turns: with one complete, all others are under way. */
		pair_await_done(me, &done, 1);
		pair_say(me, 1);
		pair_watch(me, 0, 1);
		pair_await_done(me, &done, 30);
	} else {
		pair_watch(me, 1, 1);
		/* More than fits at once, so that answers to both partners wait. */
		ask(me, 10, local, &done);
		pair_await_done(me, &done, 10);
		pair_connect(me);
	}
	pair_check_status(me, done.failure.status, PF_OK);
	free(local);
}

static void test_one_stops_polling(void **state)
{
	struct pair_setup setup = { PAIR_MODE(state), .partners = 2, .window = MIB,
				    .work = ask_and_stop_polling };
	struct pair *pair;

	setup.here.ring_size = 16384;
	pair = pair_start(&setup);
	pair_await(pair, 2, PAIR_DONE);
	pair_say(pair, 1);
	pair_await(pair, 1, PAIR_DONE);
	pair_end(pair);
}

static struct pair_done *second;
static pf_peer *second_peer;
static int second_status;

static void post_again(pf_context *context, const pf_completion *completion)
{
	static uint8_t byte;

	pair_completed(context, completion);
	if (completion->status != PF_OK)
		second_status = pf_put(second_peer, &byte, 4096, 1, 0, pair_completed, second);
}

/* A post in the completion that reports the peer's death fails at once. */
static void test_post_from_failure(void **state)
{
	struct pair *pair = start(state, NULL, NULL);
	struct pair_done first = { 0 }, again = { 0 };
	unsigned i, posted = 0;

	/* With a device no operation waits for a stopped process. */
	if (pair_on_device(&pair->options)) {
		pair_end(pair);
		skip();
	}
	pair_connect(pair);
	second = &again;
	second_peer = pair->peer;
	second_status = PF_OK;
	kill(pair_pid(pair, 1), SIGSTOP);
	for (i = 0; i < 10; i++) {
		posted += pf_atomic(pair->peer, PF_ATOMIC_ADD, 8, remote_address(pair->window), 1,
				    0, post_again, &first) == PF_PENDING;
		pf_progress(pair->context);
	}
	pair_kill(pair, 1);
	pair_await_done(pair, &first, posted);
	assert_int_equal(first.failed, posted);
	assert_status(second_status, PF_ERR_PEER);
	assert_int_equal(again.count, 0);
	pair_end(pair);
}

/* ---- this process as its own peer ---- */

static uint64_t own_messages;

static void check_own(pf_context *context, pf_peer *from, uint32_t tag, void *data, size_t length,
		      void *arg)
{
	assert_ptr_equal(from, pair_peer(arg, 0));
	assert_int_equal(length, 1 + own_messages % 3000);
	assert_int_equal(pattern_differs(data, length, own_messages), length);
	own_messages++;
}

static void test_self(void **state)
{
	static const size_t sizes[] = { 1, 8, 4095, 4097, 65535, 65536, 65537, MIB + 3, 9 * MIB };
	struct pair *pair = start(state, NULL, check_own);
	pf_peer *self = pair_peer(pair, 0);
	uint8_t *local = test_alloc(9 * MIB + 8), bytes[3000];
	uint64_t counter = 5;
	pf_completion completion;
	size_t i;

	own_messages = 0;
	for (i = 0; i < ARRAY_SIZE(sizes); i++)
		pair_exchange(pair, 0, local + 1, pair->window + 3, sizes[i], i);
	for (i = 0; i < 5000; i++) {
		size_t size = 1 + i % 3000;

		pattern_fill(bytes, size, i);
		while (pf_send(self, 1, bytes, size / 2, bytes + size / 2, size - size / 2) ==
		       PF_ERR_AGAIN)
			pf_progress(pair->context);
	}
	while (own_messages < 5000)
		pf_progress(pair->context);
	for (i = 0; i < 100; i++) {
		completion = pair_atomic(pair, self, PF_ATOMIC_ADD, 8, remote_address(&counter), 1,
					 0);
		assert_ok(completion.status);
		assert_int_equal(completion.value, 5 + i);
	}
	assert_int_equal(counter, 105);
	completion = pair_put(pair, self, local, 4096, MIB);
	assert_fault(completion, PF_SIDE_REMOTE, 4096);
	assert_int_equal(pair->errors.count, 0);
	free(local);
	pair_end(pair);
}

static pf_peer *open_other(const pf_options *options, pf_context *context, pf_context **other)
{
	uint8_t address[PF_ADDRESS_MAX];
	size_t length = sizeof(address);
	pf_peer *peer;

	assert_ok(pf_open(options, NULL, other));
	pf_address(*other, address, &length);
	assert_ok(pf_peer_open(context, address, length, NULL, &peer));
	return peer;
}

/*
 * The peer has executed an operation, answered it and closed before this side polls again: the
 * operation completes, also behind a transfer to another peer that can be copied by then.
 */
static void test_answered(void **state)
{
	pf_options options = pair_mode_options(state);
	struct pair_done done = { 0 }, copied = { 0 };
	uint8_t *local = test_alloc(WINDOW), *remote = test_alloc(WINDOW);
	pf_context *context, *answering, *other;
	uint64_t value = 0;
	pf_peer *peer, *slow;

	assert_ok(pf_open(&options, NULL, &context));
	peer = open_other(&options, context, &answering);
	slow = open_other(&options, context, &other);
	assert_pending(pf_atomic(peer, PF_ATOMIC_ADD, 8, remote_address(&value), 1, 0,
				 pair_completed, &done));
	while (!done.count) {
		pf_progress(context);
		pf_progress(answering);
	}
	assert_pending(
		pf_put(slow, local, remote_address(remote), WINDOW, 0, pair_completed, &copied));
	assert_pending(pf_atomic(peer, PF_ATOMIC_ADD, 8, remote_address(&value), 1, 0,
				 pair_completed, &done));
	pf_progress(context);
	while (!notices_waiting(&context->host->notices)) /* the answer to the call */
		usleep(100);
	while (value == 1)
		pf_progress(answering);
	pf_close(answering);
	while (!process_is_dead(((struct host_peer *)peer)->process))
		usleep(100);
	usleep(20000); /* the notice follows */
	assert_int_equal(done.count, 1);
	assert_ok(pf_flush(context, NULL, PF_FOREVER));
	assert_int_equal(done.count, 2);
	assert_ok(done.last.status);
	assert_int_equal(done.last.value, 1);
	assert_ok(copied.last.status);
	pf_close(context);
	pf_close(other);
	free(local);
	free(remote);
}

/* The transfer of a peer that is gone, but lives, is over: it moves nothing of it any more. */
static void test_abandoned(void **state)
{
	pf_options options = pair_mode_options(state);
	uint8_t *local = test_alloc(8 * MIB), *remote = test_alloc(8 * MIB);
	struct pair_done done = { 0 };
	pf_context *context, *other;
	pf_peer *peer;
	unsigned i;

	assert_ok(pf_open(&options, NULL, &context));
	peer = open_other(&options, context, &other);
	assert_pending(pf_atomic(peer, PF_ATOMIC_ADD, 8, remote_address(remote), 1, 0,
				 pair_completed, &done));
	while (!done.count) {
		pf_progress(context);
		pf_progress(other);
	}
	assert_pending(pf_get(peer, local, remote_address(remote), 8 * MIB, pair_completed, &done));
	pf_progress(context); /* offers it */
	assert_true(notices_report_gone(&context->host->notices, peer, PF_ERR_PROTOCOL, "a test"));
	assert_ok(pf_flush(context, NULL, PF_FOREVER));
	assert_int_equal(done.count, 2);
	assert_status(done.last.status, PF_ERR_PROTOCOL);
	memset(local, 1, 8 * MIB);
	for (i = 0; i < 100; i++)
		pf_progress(other);
	for (i = 0; i < 8 * MIB; i++)
		assert_int_equal(local[i], 1);
	pf_close(context);
	pf_close(other);
	free(local);
	free(remote);
}

static void put_refused(struct pair *me)
{
	pair_check_status(me,
			  pair_put(me, me->peer, me->window, remote_address(me->window), 1).status,
			  PF_ERR_REFUSED);
}

/* Two processes of a host, one of which only uses the network: each refuses the other. */
static void test_other_way(void **state)
{
	struct pair_setup setup = { PAIR_MODE(state), .window = WINDOW, .work = put_refused,
				    .peer_event_here = pair_note_end };
	struct pair *pair;

	setup.here.if_include = setup.there.if_include = "lo";
	setup.here.network = PF_NETWORK_ALWAYS;
	setup.here.peer_timeout = 1;
	pair = pair_start(&setup);
	pair_await(pair, 1, PAIR_DONE);
	assert_status(pf_send(pair->peer, 0, "x", 1, NULL, 0), PF_OK);
	await_error(pair);
	check_report(pair, 1, PF_ERR_UNREACHABLE);
	assert_non_null(strstr(pf_peer_path(pair->peer), "no answer from 127.0.0.1, UDP port "));
	assert_non_null(strstr(pf_peer_path(pair->peer), ", over lo (from 127.0.0.1)"));
	pair_end(pair);
}

#define IN_ALL(test)                                                                               \
	IN_MODE(test, DEFAULT), IN_MODE(test, STREAM), IN_MODE(test, THREADS), IN_MODE(test, WAIT)

/* ---- memory of rings ---- */

#define RINGS_MEMORY (32 * (int64_t)RING_LAP_FIRST)

static struct pair *start_small(void **state, unsigned partners)
{
	struct pair_setup setup = { PAIR_MODE(state), .partners = partners, .window = MIB,
				    .receive = pair_count_message,
				    .peer_event_here = pair_note_end };

	setup.here.ring_memory = (uint64_t)RINGS_MEMORY;
	return pair_start(&setup);
}

static int64_t rings_allowance(const struct pair *pair)
{
	return atomic_load(&pair->context->host->ring_allowance);
}

/* All messages were read, and the reader has come behind entries without contents. */
static void await_read(struct pair *pair, const struct ring *ring)
{
	while (atomic_load(ring->tail) != ring->position)
		pf_progress(pair->context);
}

/*
 * Once the allowance of all rings is used up, idle rings give back what they grew by. A ring for
 * which there is no room asks.
 */
static void test_idle_rings(void **state)
{
	struct pair *pair = start_small(state, 2);
	struct host_peer *idle = (struct host_peer *)pair->peer;
	struct host_peer *busy = (struct host_peer *)pair_peer(pair, 2);
	const struct ring *ring = &idle->out.ring;
	uint64_t start, now;
	uint8_t message[4096] = { 0 };
	int status;

	do {
		status = pf_send(pair->peer, 0, NULL, 0, message, sizeof(message));
		pf_progress(pair->context);
		assert_true(status == PF_OK || status == PF_ERR_AGAIN);
	} while (ring->lap < 8 * RING_LAP_FIRST);
	/* A multiple of RING_PUBLISH_EMPTY: the reader publishes all. */
	await_read(pair, ring);
	assert_true(rings_allowance(pair) < RINGS_MEMORY);

	atomic_store(&pair->context->host->rings_shrunk, 0);
	kill(pair_pid(pair, 2), SIGSTOP);
	while ((status = pf_send(&busy->peer, 0, NULL, 0, message, sizeof(message))) == PF_OK)
		;
	assert_status(status, PF_ERR_AGAIN);
	assert_true(busy->out.ring.refused);
	assert_true(atomic_load(&pair->context->host->rings_shrunk) > 0);

	/* In the future: the busy ring asks for nothing meanwhile. */
	start = now = (uint64_t)clock_nanoseconds(CLOCK_MONOTONIC) +
		      100 * (uint64_t)RING_IDLE_NANOSECONDS;
	atomic_store(&pair->context->host->rings_shrunk, now - RING_IDLE_NANOSECONDS);
	while (ring->lap > RING_LAP_FIRST) {
		host_peers_shrink(pair->context, now - 1);
		assert_true(ring->lap > RING_LAP_FIRST);
		host_peers_shrink(pair->context, now);
		now += RING_IDLE_NANOSECONDS;
		await_read(pair, ring);
	}
	assert_true((int64_t)(now - start) <= 4 * RING_IDLE_NANOSECONDS);
	assert_int_equal(rings_allowance(pair),
			 RINGS_MEMORY - (int64_t)(busy->out.ring.taken - RING_LAP_FIRST));
	kill(pair_pid(pair, 2), SIGCONT);
	pair_end(pair);
}

/* A process with many rings has less for all of them; a ring less gives its share back. */
static void test_many_rings(void **state)
{
	struct pair *pair = start_small(state, 1);
	const unsigned rings = 63;

	atomic_store(&pair->context->host->rings, rings);
	pair_connect(pair);
	assert_int_equal(atomic_load(&pair->context->host->rings), rings + 1);
	assert_int_equal(rings_allowance(pair),
			 RINGS_MEMORY - RINGS_MEMORY * 32 / rings + RINGS_MEMORY / 2);
	pair_kill(pair, 1);
	await_error(pair);
	assert_int_equal(atomic_load(&pair->context->host->rings), rings);
	assert_int_equal(rings_allowance(pair), RINGS_MEMORY);
	pair_end(pair);
}

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
		IN_MODE(test_one_stops_polling, STREAM),
		IN_ALL(test_others_live),
		IN_ALL(test_post_from_failure),
		IN_MODE(test_answered, DEFAULT),
		IN_MODE(test_answered, THREADS),
		IN_MODE(test_abandoned, DEFAULT),
		IN_MODE(test_idle_rings, DEFAULT),
		IN_MODE(test_idle_rings, THREADS),
		IN_MODE(test_many_rings, DEFAULT),
		IN_ALL(test_self),
		IN_MODE(test_other_way, DEFAULT),
	};

	return pair_run_tests("peer", tests);
}

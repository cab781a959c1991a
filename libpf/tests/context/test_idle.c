/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sides that sleep in pf_progress when there is nothing to do. A sleep lasts longer than a test may
 * take: a lost wake-up is a test that hangs.
 */
#include "pair.h"

#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/number.h"
#include "common/context.h"
#include "context/contents.h"
#include "context/transports.h"
#include "host/peer.h"
#include "host/state.h"

#define LONG 8192 /* the first lap of a ring, bytes */
/* Time between polls at which no caller is taken for one that works, ns. */
#define WAITS_ALWAYS 1000000000000

static pf_options sleepy(uint64_t polls)
{
	pf_options options = pair_options();

	options.idle_polls = polls;
	options.idle_sleep = 10000000;
	return options;
}

/* Unlike pair_progress, this does not yield: only libpf decides. */
static void receive_all(struct pair *me, uint64_t count)
{
	while (*pair_value(me, me->side, 0) < count)
		pf_progress(me->context);
}

static void answer(pf_context *context, pf_peer *from, uint8_t tag, void *data, size_t length,
		   void *arg)
{
	struct pair *me = arg;

	(*pair_value(me, me->side, 0))++;
	/* Short: the first lap of a ring has room for all answers that a test waits for. */
	if (me->side)
		pair_check_status(me, pf_send(from, tag, data, number_min(length, 8), NULL, 0),
				  PF_DONE);
}

static unsigned count_pings(void)
{
	const pf_options options = pair_options();

	return pair_over_net(&options) ? REPEAT(10000) : REPEAT(100000);
}

/* Answer as many messages as number 1 of the test says, and end. Number 2: the sleeps. */
static void answer_all(struct pair *me)
{
	pair_watch(me, 0, 1);
	receive_all(me, *pair_value(me, 0, 1));
	*pair_value(me, me->side, 2) = pf_stat(me->context, PF_STAT_SLEEPS);
}

/* From the first sleep on, so that a wake-up that gets lost is a test that hangs. */
static void sleep_long(struct pair *me)
{
	me->context->sleep_unrung = 10000000;
	me->context->idle.least = 10000000000;
	me->context->idle.work = WAITS_ALWAYS;
}

static struct pair *start(pf_options here, pf_options there, uint64_t count)
{
	struct pair *pair = pair_start(&(struct pair_setup){ .here = here,
							     .there = there,
							     .window = 4 * MIB,
							     .partner = answer_all,
							     .receive = answer,
							     .receive_here = answer,
							     .opened = sleep_long });

	*pair_value(pair, 0, 1) = count;
	pair_say(pair, 1);
	return pair;
}

static void ping(pf_options here, pf_options there, uint64_t count)
{
	struct pair *pair = start(here, there, count);
	uint64_t n;

	for (n = 0; n < count; n++) {
		assert_status(pf_send(pair->peer, 0, &n, sizeof(n), NULL, 0), PF_DONE);
		receive_all(pair, n + 1);
	}
	pair_wait_exit(pair, 1);
	if (there.idle_polls == 1)
		assert_true(*pair_value(pair, 1, 2) > 0);
	if (here.idle_polls == 1)
		assert_true(pf_stat(pair->context, PF_STAT_SLEEPS) > 0);
	pair_end(pair);
}

/* No sleep comes before idle_polls empty polls, and one comes, whatever their number is. */
static void test_every_number(void **state)
{
	static const uint64_t numbers[] = { 1, 20, 32, 33, 34, 63, 64, 65, 999, 1000, 1013, 1024 };
	uint64_t polls;
	unsigned i;

	for (i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		pf_options options = sleepy(numbers[i]);
		pf_context *context;

		options.idle_sleep = 1;
		assert_int_equal(pf_open(&options, &context), PF_OK);
		/* As long as a peer may not ring, neither. */
		assert_true(context->sleep_unrung <= options.idle_sleep);
		context->idle.work = WAITS_ALWAYS;
		for (polls = 0; !pf_stat(context, PF_STAT_SLEEPS); polls++)
			pf_progress(context);
		assert_true(polls >= numbers[i]);
		pf_close(context);
	}
}

static void work(uint64_t nanoseconds)
{
	uint64_t start = clock_nanoseconds(CLOCK_THREAD_CPUTIME_ID);

	while (clock_nanoseconds(CLOCK_THREAD_CPUTIME_ID) - start < nanoseconds)
		;
}

/* One that works between its polls is not put to sleep, whatever the number, nor after sleeps in vain. */
static void test_work(void **state)
{
	static const uint64_t numbers[] = { 1, 20, 31, 32, 33, 1000 };
	const uint64_t nanoseconds = 2 * IDLE_WORK_NANOSECONDS;
	unsigned i, polls, before;

	for (i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		pf_options options = sleepy(numbers[i]);
		pf_context *context;

		options.idle_sleep = 100;
		assert_int_equal(pf_open(&options, &context), PF_OK);
		for (polls = 0; polls < 2000; polls++) {
			work(nanoseconds);
			pf_progress(context);
		}
		assert_int_equal(pf_stat(context, PF_STAT_SLEEPS), 0);
		context->idle.work = WAITS_ALWAYS;
		while (!pf_stat(context, PF_STAT_SLEEPS))
			pf_progress(context);
		context->idle.work = IDLE_WORK_NANOSECONDS;
		before = pf_stat(context, PF_STAT_SLEEPS);
		for (polls = 0; polls < 2000; polls++) {
			work(nanoseconds);
			pf_progress(context);
		}
		assert_int_equal(pf_stat(context, PF_STAT_SLEEPS), before);
		pf_close(context);
	}
}

static void test_both_sleep(void **state)
{
	ping(sleepy(1), sleepy(1), count_pings());
}

static void test_one_sleeps(void **state)
{
	ping(sleepy(1), pair_options(), count_pings() / 4);
	ping(pair_options(), sleepy(1), count_pings() / 4);
}

static void test_shared_core(void **state)
{
	ping(sleepy(PF_IDLE_POLLS_SHARED_CORE), sleepy(PF_IDLE_POLLS_SHARED_CORE), count_pings());
}

static void test_threads(void **state)
{
	pf_options options = sleepy(1);

	options.threads = 1;
	ping(options, options, count_pings() / 4);
}

/* One that never sleeps does so while a peer is being connected, a few times, and not later. */
static void test_connecting(void **state)
{
	struct pair *pair = start(pair_options(), pair_options(), 2);
	const int pid = pair_pid(pair, 1);
	unsigned polls;
	uint64_t sleeps;

	assert_false(kill(pid, SIGSTOP));
	/* All its threads: the service thread would still answer. */
	assert_int_equal(waitpid(pid, NULL, WUNTRACED), pid);
	assert_status(pf_send(pair->peer, 0, "1", 1, NULL, 0), PF_DONE);
	for (polls = 0; polls < 1000; polls++)
		assert_int_equal(pf_progress(pair->context), 0);
	assert_in_range(pf_stat(pair->context, PF_STAT_SLEEPS), 1, HOST_CONNECT_SLEEPS);
	assert_false(kill(pid, SIGCONT));
	receive_all(pair, 1);
	while (pair->context->connect_sleeps)
		pf_progress(pair->context);
	sleeps = pf_stat(pair->context, PF_STAT_SLEEPS);
	for (polls = 0; polls < 1000; polls++)
		pf_progress(pair->context);
	assert_status(pf_send(pair->peer, 0, "2", 1, NULL, 0), PF_DONE);
	receive_all(pair, 2);
	pair_wait_exit(pair, 1);
	assert_int_equal(pf_stat(pair->context, PF_STAT_SLEEPS), sleeps);
	/* Not longer than until both are connected. */
	assert_true(*pair_value(pair, 1, 2) <= HOST_CONNECT_SLEEPS);
	pair_end(pair);
}

/* Each message finds room only when the partner has read past the one before. */
static void test_long(void **state)
{
	const unsigned count = count_pings() / 10;
	struct pair *pair = start(sleepy(1), sleepy(1), count);
	static uint8_t bytes[LONG];
	uint64_t n;

	for (n = 0; n < count; n++) {
		while (pf_send(pair->peer, 0, bytes, LONG, NULL, 0) == PF_ERR_AGAIN)
			pf_progress(pair->context);
		receive_all(pair, n + 1);
	}
	pair_wait_exit(pair, 1);
	pair_end(pair);
}

/* The ring is full, and the reader sleeps whenever it has read everything. */
static void test_stream(void **state)
{
	const unsigned count = count_pings();
	struct pair *pair = start(sleepy(1), sleepy(1), count);
	struct random_numbers numbers = random_start("idle, stream");
	uint8_t bytes[3000] = { 0 };
	uint64_t n;

	for (n = 0; n < count; n++) {
		while (pf_send(pair->peer, 0, NULL, 0, bytes, random_below(&numbers, 200)) ==
		       PF_ERR_AGAIN)
			pf_progress(pair->context);
		/* Receive answers: the partner has room for some hundred. */
		if (n >= 100)
			receive_all(pair, n - 100);
	}
	receive_all(pair, count);
	pair_wait_exit(pair, 1);
	pair_end(pair);
}

/* A side with nothing to do sleeps once, for long. */
static void test_sleeps_once(void **state)
{
	struct pair *pair = start(pair_options(), sleepy(32), 1);

	usleep(500000);
	assert_status(pf_send(pair->peer, 0, "x", 1, NULL, 0), PF_DONE);
	receive_all(pair, 1);
	pair_wait_exit(pair, 1);
	assert_in_range(*pair_value(pair, 1, 2), 1, 10);
	pair_end(pair);
}

/* A side that yields, and never sleeps, looks at the bell alone in the end. */
static void test_yields(void **state)
{
	struct pair *pair = start(sleepy(UINT64_MAX / 2), pair_options(), 2);

	assert_status(pf_send(pair->peer, 0, "x", 1, NULL, 0), PF_DONE);
	receive_all(pair, 1);
	/* The partner waits meanwhile for a second message. */
	while (host_of(pair->context)->polling.silent)
		pf_progress(pair->context);
	assert_int_equal(host_of(pair->context)->polling.all_count, 1);
	assert_int_equal(pf_stat(pair->context, PF_STAT_SLEEPS), 0);
	assert_status(pf_send(pair->peer, 0, "x", 1, NULL, 0), PF_DONE);
	receive_all(pair, 2);
	pair_wait_exit(pair, 1);
	pair_end(pair);
}

static void wait_always(struct pair *me)
{
	me->context->idle.work = WAITS_ALWAYS;
}

/* Yields of this process, and those during which its inbox told of them. */
static struct {
	struct inbox_memory *inbox;
	unsigned count, told;
} yields;

/* In place of the function of the C library. */
int sched_yield(void)
{
	yields.count++;
	yields.told += yields.inbox && atomic_load(&yields.inbox->yields);
	return (int)syscall(SYS_sched_yield);
}

/* Answer two messages, then compute: from then on this side never polls, and never yields. */
static void answer_and_compute(struct pair *me)
{
	receive_all(me, 2);
	pair_watch(me, 0, 1);
}

/* Return the number of empty polls before the first yield. */
static uint64_t polls_before_yield(struct pair *me)
{
	idle_end(&me->context->idle);
	yields.count = yields.told = 0;
	while (!yields.count)
		pf_progress(me->context);
	assert_int_equal(yields.told, 1);
	assert_int_equal(atomic_load(&yields.inbox->yields), 0);
	return me->context->idle.polls;
}

/* A side yields early while the peer that was sent the last message waits for a processor. */
static void test_partner_yields(void **state)
{
	struct pair_setup setup = { .here = sleepy(UINT64_MAX / 2),
				    .there = sleepy(UINT64_MAX / 2),
				    .partner = answer_and_compute,
				    .receive = answer,
				    .receive_here = answer,
				    .opened = wait_always };
	struct pair *pair = pair_start(&setup);
	struct host_peer *peer = (struct host_peer *)pair->peer;
	const void *outer;

	assert_status(pf_send(pair->peer, 0, "x", 1, NULL, 0), PF_DONE);
	receive_all(pair, 1);
	while (!host_peer_bell(peer))
		pf_progress(pair->context);
	assert_status(pf_send(pair->peer, 0, "x", 1, NULL, 0), PF_DONE);
	receive_all(pair, 2);
	yields.inbox = host_of(pair->context)->state.inbox.memory;
	assert_int_equal(polls_before_yield(pair), IDLE_YIELD_FIRST);
	atomic_store(&host_peer_bell(peer)->inbox->yields, 1);
	assert_int_equal(polls_before_yield(pair), IDLE_ROUND);
	yields.inbox = NULL;
	pair_say(pair, 1);
	pair_wait_exit(pair, 1);
	/* The inbox of a peer that is gone is not looked at. */
	while (peer_state(pair->peer) != PEER_GONE || peer->bell)
		pf_progress(pair->context);
	outer = check_enter(progress, pair->context);
	assert_false(transports_partner_yields(pair->context));
	check_leave(progress, outer);
	pair_end(pair);
}

/* Send the first message ever, and then compute: this side never polls. */
static void send_and_compute(struct pair *me)
{
	pair_check_status(me, pf_send(me->peer, 0, "x", 1, NULL, 0), PF_DONE);
	pair_watch(me, 0, 1);
}

/*
 * A reader that waits for more of such a sender sleeps ever longer all the same: it wakes 240 times in
 * the time measured here; a thousand times, if it cannot rely on being woken.
 */
static void test_sender_computes(void **state)
{
	struct pair_setup setup = { .here = sleepy(32),
				    .there = pair_options(),
				    .partner = send_and_compute,
				    .opened = wait_always,
				    .receive_here = pair_count_message };
	struct pair *pair;
	uint64_t end, sleeps;

	setup.here.idle_sleep = 100000;
	pair = pair_start(&setup);
	receive_all(pair, 1);
	sleeps = pf_stat(pair->context, PF_STAT_SLEEPS);
	end = clock_nanoseconds(CLOCK_MONOTONIC) + 1000000000;
	while (clock_nanoseconds(CLOCK_MONOTONIC) < end)
		pf_progress(pair->context);
	assert_in_range(pf_stat(pair->context, PF_STAT_SLEEPS) - sleeps, 1, 500);
	pair_say(pair, 1);
	pair_wait_exit(pair, 1);
	pair_end(pair);
}

/* Puts and atomics of a side that sleeps to another one that does. */
static void operations(pf_options options)
{
	struct pair *pair = start(options, options, 1);
	uint8_t *local = test_alloc(MIB);
	struct pair_done done = { 0 };
	unsigned i;

	for (i = 0; i < 300; i++) {
		size_t length = i % 3 ? 1000 : MIB;

		pattern_fill(local, length, i);
		pair_post(pair, pair->peer, PUT, local, remote_address(pair->window), length,
			  &done);
		while (done.count < 2 * i + 1)
			pf_progress(pair->context);
		pair_check_pattern(pair, pair->window, length, i);
		assert_ok(pf_atomic(pair->peer, PF_ADD, 8, 1,
				    remote_address(pair->window + 2 * MIB), 1, 0, pair_completed,
				    &done));
		while (done.count < 2 * i + 2)
			pf_progress(pair->context);
	}
	assert_int_equal(done.failed, 0);
	assert_status(pf_send(pair->peer, 0, "x", 1, NULL, 0), PF_DONE);
	receive_all(pair, 1);
	pair_wait_exit(pair, 1);
	free(local);
	pair_end(pair);
}

static void test_operations(void **state)
{
	operations(sleepy(1));
}

static void test_operations_stream(void **state)
{
	pf_options options = sleepy(1);

	options.single_copy = 0;
	operations(options);
}

#define SENDERS 12
#define FEW 300

/* Some senders end before others begin. */
static void begin_late(struct pair *me)
{
	if (me->side == 1)
		usleep(200000);
}

static void send_few(struct pair *me)
{
	int i;

	/* One of them sends when the receiver certainly sleeps. */
	if (me->side == 1) {
		pair_watch(me, 0, 1);
		usleep(200000);
	}
	for (i = 0; i < FEW; i++) {
		while (pf_send(me->peer, 0, &i, sizeof(i), NULL, 0) == PF_ERR_AGAIN)
			;
		usleep(me->side * 10);
	}
}

/* More senders than are polled: those that are not must wake the receiver too. */
static void test_many_senders(void **state)
{
	struct pair_setup setup = { .partners = SENDERS,
				    .here = sleepy(1),
				    .there = pair_options(),
				    .prepare = begin_late,
				    .partner = send_few,
				    .receive_here = pair_count_message,
				    .opened = sleep_long };
	struct pair *pair = pair_start(&setup);
	unsigned side;

	receive_all(pair, (SENDERS - 1) * FEW);
	pair_say(pair, 1);
	receive_all(pair, SENDERS * FEW);
	for (side = 1; side <= SENDERS; side++)
		pair_wait_exit(pair, side);
	assert_true(pf_stat(pair->context, PF_STAT_SLEEPS) > 0);
	pair_end(pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		PAIR_TEST(test_both_sleep),
		PAIR_TEST(test_one_sleeps),
		PAIR_TEST(test_shared_core),
		PAIR_TEST(test_threads),
		PAIR_TEST(test_long),
		PAIR_TEST_UNLESS(net, test_connecting),
		PAIR_TEST(test_stream),
		PAIR_TEST(test_sleeps_once),
		PAIR_TEST_UNLESS(net, test_yields),
		PAIR_TEST_UNLESS(net, test_partner_yields),
		PAIR_TEST(test_sender_computes),
		PAIR_TEST(test_operations),
		PAIR_TEST(test_operations_stream),
		PAIR_TEST(test_many_senders),
		/* After the others: a context left open would have a thread when they fork. */
		cmocka_unit_test(test_every_number),
		cmocka_unit_test(test_work),
	};

	return pair_run_tests("idle", tests);
}

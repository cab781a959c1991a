/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sides that sleep when there is nothing to do. A sleep lasts longer here than
 * a test may, so a wake-up that gets lost is a test that hangs.
 */
#include "pair.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

/* A message as long as the first lap of a ring. */
#define LONG 8192

static pf_options sleepy(uint64_t polls)
{
	pf_options options = pair_options();

	options.idle_polls = polls;
	options.idle_sleep = 10000000;
	return options;
}

/* pair_progress yields to others by itself; here only libpf decides. */
static void receive_all(struct pair *me, uint64_t count)
{
	while (atomic_load(pair_value(me, me->side, 0)) < count)
		pf_progress(me->context);
}

static void answer(pf_context *context, pf_peer *from, uint8_t tag, void *data, size_t length,
		   void *arg)
{
	struct pair *me = arg;

	atomic_fetch_add(pair_value(me, me->side, 0), 1);
	if (me->side)
		pair_check(me, pf_send(from, tag, data, length < LONG ? length : 1, NULL, 0) ==
				       PF_DONE);
}

/* To the end of a partner that sleeps leads a message only. */
static void serve_until_stop(struct pair *me)
{
	uint64_t count = atomic_load(pair_value(me, 0, 1));

	receive_all(me, count);
	atomic_store(pair_value(me, me->side, 2), pf_stat(me->context, PF_STAT_SLEEPS));
}

#ifdef PAIR_OVER_NET
#define PINGS REPEAT(10000)
#else
#define PINGS REPEAT(100000)
#endif

/* The number of pings is known to the partner only once it is told: hence a first step. */
static void told(struct pair *me)
{
	pair_watch(me, 0, 1);
	serve_until_stop(me);
}

static void one_pair(pf_options here, pf_options there, uint64_t count)
{
	struct pair_setup setup = { .here = here,
				    .there = there,
				    .partner = told,
				    .receive = answer,
				    .receive_here = answer };
	struct pair *pair = pair_start(&setup);
	uint64_t n;

	atomic_store(pair_value(pair, 0, 1), count);
	pair_say(pair, 1);
	for (n = 0; n < count; n++) {
		assert_status(pf_send(pair->peer, 0, &n, sizeof(n), NULL, 0), PF_DONE);
		receive_all(pair, n + 1);
	}
	pair_wait_exit(pair, 1);
	if (there.idle_polls == 1)
		assert_true(atomic_load(pair_value(pair, 1, 2)) > 0);
	if (here.idle_polls == 1)
		assert_true(pf_stat(pair->context, PF_STAT_SLEEPS) > 0);
	pair_end(pair);
}

/* Each finds room only when the partner has got past what follows the one before. */
static void test_long(void **state)
{
	struct pair_setup setup = { .here = sleepy(1),
				    .there = sleepy(1),
				    .partner = told,
				    .receive = answer,
				    .receive_here = answer };
	struct pair *pair = pair_start(&setup);
	static uint8_t bytes[LONG];
	uint64_t n;

	atomic_store(pair_value(pair, 0, 1), PINGS / 10);
	pair_say(pair, 1);
	for (n = 0; n < PINGS / 10; n++) {
		while (pf_send(pair->peer, 0, bytes, LONG, NULL, 0) == PF_ERR_AGAIN)
			pf_progress(pair->context);
		receive_all(pair, n + 1);
	}
	pair_wait_exit(pair, 1);
	pair_end(pair);
}

static void test_both_sleep(void **state)
{
	one_pair(sleepy(1), sleepy(1), PINGS);
}

static void test_one_sleeps(void **state)
{
	one_pair(sleepy(1), pair_options(), PINGS / 4);
	one_pair(pair_options(), sleepy(1), PINGS / 4);
}

static void test_shared_core(void **state)
{
	one_pair(sleepy(PF_IDLE_POLLS_SHARED_CORE), sleepy(PF_IDLE_POLLS_SHARED_CORE), PINGS);
}

static void test_threads(void **state)
{
	pf_options options = sleepy(1);

	options.threads = 1;
	one_pair(options, options, PINGS / 4);
}

/* Ring full, the writer spins, the reader sleeps whenever it has caught up. */
static void test_stream(void **state)
{
	struct pair_setup setup = { .here = sleepy(1), .there = sleepy(1), .partner = told };
	struct pair *pair;
	uint8_t bytes[3000] = { 0 };
	struct random_numbers numbers = random_start("idle, stream");
	uint64_t n;

	setup.receive = answer;
	setup.receive_here = answer;
	pair = pair_start(&setup);
	atomic_store(pair_value(pair, 0, 1), PINGS);
	pair_say(pair, 1);
	for (n = 0; n < PINGS; n++) {
		while (pf_send(pair->peer, 0, NULL, 0, bytes, random_below(&numbers, 200)) ==
		       PF_ERR_AGAIN)
			pf_progress(pair->context);
		/* Keep up with the answers, which the partner must find room for. */
		if (n >= 100)
			receive_all(pair, n - 100);
	}
	receive_all(pair, PINGS);
	pair_wait_exit(pair, 1);
	pair_end(pair);
}

static void serve_stop_message(struct pair *me)
{
	struct rusage before, after;

	pair_await(me, 0, 1);
	getrusage(RUSAGE_SELF, &before);
	receive_all(me, 1);
	getrusage(RUSAGE_SELF, &after);
	atomic_store(pair_value(me, me->side, 2), pf_stat(me->context, PF_STAT_SLEEPS));
	atomic_store(pair_value(me, me->side, 3),
		     (uint64_t)(after.ru_utime.tv_sec - before.ru_utime.tv_sec) * 1000000 +
			     (uint64_t)(after.ru_utime.tv_usec - before.ru_utime.tv_usec));
}

/* Nothing to do costs nothing. */
static void test_costs_nothing(void **state)
{
	struct pair_setup setup = { .here = pair_options(),
				    .there = sleepy(32),
				    .partner = serve_stop_message,
				    .receive = answer,
				    .receive_here = answer };
	struct pair *pair = pair_start(&setup);

	assert_ok(pair_put(pair, pair->peer, &setup, remote_address(pair->shared), 0).status);
	pair_say(pair, 1);
	usleep(500000);
	assert_status(pf_send(pair->peer, 0, "x", 1, NULL, 0), PF_DONE);
	receive_all(pair, 1);
	pair_wait_exit(pair, 1);
	assert_in_range(atomic_load(pair_value(pair, 1, 2)), 1, 10);
	assert_in_range(atomic_load(pair_value(pair, 1, 3)), 0, 250000);
	pair_end(pair);
}

static void serve_sleeping(struct pair *me)
{
	pair_watch(me, 0, 1);
	receive_all(me, 1);
}

/* Transfers and atomics to a side that sleeps, from one that does. */
static void operations(pf_options options)
{
	struct pair_setup setup = { .here = options,
				    .there = options,
				    .window = 4 << 20,
				    .partner = serve_sleeping,
				    .receive = answer,
				    .receive_here = answer };
	struct pair *pair = pair_start(&setup);
	uint8_t *local = malloc(1 << 20);
	struct pair_done done = { 0 };
	unsigned i;
	int status;

	assert_non_null(local);
	pair_say(pair, 1);
	for (i = 0; i < 300; i++) {
		size_t length = i % 3 ? 1000 : 1 << 20;

		pattern_fill(local, length, i);
		status = pf_put(pair->peer, local, remote_address(pair->window), length,
				pair_completed, &done);
		assert_in_range(status, PF_OK, PF_DONE);
		done.count += status == PF_DONE;
		while (done.count < 2 * i + 1)
			pf_progress(pair->context);
		assert_pattern(pair->window, length, i);
		assert_ok(pf_atomic(pair->peer, PF_ADD, 8, 1,
				    remote_address(pair->window + (2 << 20)), 1, 0, pair_completed,
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

/* Some are done before others have begun. */
static void begin_late(struct pair *me)
{
	if (me->side == 1)
		usleep(200000);
}

static void send_few(struct pair *me)
{
	int i;

	/* However busy the machine is, one of them finds the receiver asleep. */
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

static void count(pf_context *context, pf_peer *from, uint8_t tag, void *data, size_t length,
		  void *arg)
{
	struct pair *me = arg;

	atomic_fetch_add(pair_value(me, me->side, 0), 1);
}

/* More senders than are polled: the bell must wake as well. */
static void test_many_senders(void **state)
{
	struct pair_setup setup = { .partners = SENDERS,
				    .here = sleepy(1),
				    .there = pair_options(),
				    .prepare = begin_late,
				    .partner = send_few,
				    .receive_here = count };
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
		cmocka_unit_test_teardown(test_both_sleep, pair_teardown),
		cmocka_unit_test_teardown(test_one_sleeps, pair_teardown),
		cmocka_unit_test_teardown(test_shared_core, pair_teardown),
		cmocka_unit_test_teardown(test_threads, pair_teardown),
		cmocka_unit_test_teardown(test_long, pair_teardown),
		cmocka_unit_test_teardown(test_stream, pair_teardown),
		cmocka_unit_test_teardown(test_costs_nothing, pair_teardown),
		cmocka_unit_test_teardown(test_operations, pair_teardown),
		cmocka_unit_test_teardown(test_operations_stream, pair_teardown),
		cmocka_unit_test_teardown(test_many_senders, pair_teardown),
	};

	return cmocka_run_group_tests_name("idle", tests, NULL, NULL);
}

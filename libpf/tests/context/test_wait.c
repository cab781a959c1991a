/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sides that sleep in pf_wait when there is nothing to do. A sleep lasts longer than a test may
 * take: a lost wake-up is a test that hangs.
 */
#include "pair.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/number.h"
#include "common/context.h"
#include "context/contents.h"
#include "host/state.h"

#define LONG 8192 /* the first lap of a ring, bytes */
/* Longer than PAIR_SECONDS, us. */
#define SLEEP 100000000

static pf_options sleepy(void)
{
	pf_options options = pair_options();

	options.wake = 1;
	return options;
}

/* Unlike pair_progress, sleep until something happens. */
static void look(struct pair *me)
{
	if (me->options.wake)
		pf_wait(me->context, PF_FOREVER);
	else
		pf_progress(me->context);
}

static void receive_all(struct pair *me, uint64_t count)
{
	while (*pair_value(me, me->side, 0) < count)
		look(me);
}

static void answer(pf_context *context, pf_peer *from, uint32_t tag, void *data, size_t length,
		   void *arg)
{
	struct pair *me = arg;

	(*pair_value(me, me->side, 0))++;
	/* Short: the first lap of a ring has room for all answers that a test waits for. */
	if (me->side)
		pair_check_status(me, pf_send(from, tag, data, number_min(length, 8), NULL, 0),
				  PF_OK);
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
	me->context->sleep_unrung = me->context->sleep_longest = SLEEP;
}

/* The same where writers need a fence: a sleep follows its announcement at once. */
static void sleep_at_once(struct pair *me)
{
	int fd;

	sleep_long(me);
	if (me->options.wake)
		pair_check_status(me, pf_descriptor(me->context, &fd), PF_OK);
}

static struct pair *start_opened(pf_options here, pf_options there, uint64_t count,
				 void (*opened)(struct pair *me))
{
	struct pair *pair = pair_start(&(struct pair_setup){ .here = here,
							     .there = there,
							     .window = 4 * MIB,
							     .partner = answer_all,
							     .receive = answer,
							     .receive_here = answer,
							     .opened = opened });

	*pair_value(pair, 0, 1) = count;
	pair_say(pair, 1);
	return pair;
}

static struct pair *start(pf_options here, pf_options there, uint64_t count)
{
	return start_opened(here, there, count, sleep_long);
}

static void ping(pf_options here, pf_options there, uint64_t count, void (*opened)(struct pair *me))
{
	struct pair *pair = start_opened(here, there, count, opened);
	uint64_t n;

	for (n = 0; n < count; n++) {
		assert_status(pf_send(pair->peer, 0, &n, sizeof(n), NULL, 0), PF_OK);
		receive_all(pair, n + 1);
	}
	pair_wait_exit(pair, 1);
	if (there.wake)
		assert_true(*pair_value(pair, 1, 2) > 0);
	if (here.wake)
		assert_true(pf_stat(pair->context, PF_STAT_SLEEPS) > 0);
	pair_end(pair);
}

static void test_both_sleep(void **state)
{
	ping(sleepy(), sleepy(), count_pings(), sleep_long);
}

static void test_at_once(void **state)
{
	ping(sleepy(), sleepy(), count_pings(), sleep_at_once);
}

static void test_one_sleeps(void **state)
{
	ping(sleepy(), pair_options(), count_pings() / 4, sleep_long);
	ping(pair_options(), sleepy(), count_pings() / 4, sleep_long);
}

static void test_threads(void **state)
{
	pf_options options = sleepy();

	options.threads = 1;
	ping(options, options, count_pings() / 4, sleep_long);
}

/* Progress never sleeps: while a peer is being connected, empty polls yield, not for ever. */
static void test_connecting(void **state)
{
	struct pair *pair = start(pair_options(), pair_options(), 2);
	const int pid = pair_pid(pair, 1);

	assert_false(kill(pid, SIGSTOP));
	/* All its threads: the service thread would still answer. */
	assert_int_equal(waitpid(pid, NULL, WUNTRACED), pid);
	assert_status(pf_send(pair->peer, 0, "1", 1, NULL, 0), PF_OK);
	assert_true(pair->context->connect_until > 0);
	while (pair->context->connect_until)
		assert_int_equal(pf_progress(pair->context), 0);
	assert_false(kill(pid, SIGCONT));
	receive_all(pair, 1);
	assert_status(pf_send(pair->peer, 0, "2", 1, NULL, 0), PF_OK);
	receive_all(pair, 2);
	pair_wait_exit(pair, 1);
	assert_int_equal(pf_stat(pair->context, PF_STAT_SLEEPS), 0);
	assert_int_equal(*pair_value(pair, 1, 2), 0);
	pair_end(pair);
}

/* Each message finds room only when the partner has read past the one before. */
static void test_long(void **state)
{
	const unsigned count = count_pings() / 10;
	struct pair *pair = start(sleepy(), sleepy(), count);
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
	struct pair *pair = start(sleepy(), sleepy(), count);
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
	struct pair *pair = start(pair_options(), sleepy(), 1);

	usleep(500000);
	assert_status(pf_send(pair->peer, 0, "x", 1, NULL, 0), PF_OK);
	receive_all(pair, 1);
	pair_wait_exit(pair, 1);
	assert_in_range(*pair_value(pair, 1, 2), 1, 10);
	pair_end(pair);
}

/* A side that yields, and never sleeps, looks at the bell alone in the end. */
static void test_yields(void **state)
{
	struct pair *pair = start(sleepy(), pair_options(), 2);

	assert_status(pf_send(pair->peer, 0, "x", 1, NULL, 0), PF_OK);
	/* The partner waits afterwards for a second message. */
	while (*pair_value(pair, 0, 0) < 1 || host_of(pair->context)->polling.silent)
		pf_wait(pair->context, 0);
	assert_int_equal(host_of(pair->context)->polling.all_count, 1);
	assert_int_equal(pf_stat(pair->context, PF_STAT_SLEEPS), 0);
	assert_status(pf_send(pair->peer, 0, "x", 1, NULL, 0), PF_OK);
	receive_all(pair, 2);
	pair_wait_exit(pair, 1);
	pair_end(pair);
}

/* Send the first message ever, and then compute: this side never polls. */
static void send_and_compute(struct pair *me)
{
	pair_check_status(me, pf_send(me->peer, 0, "x", 1, NULL, 0), PF_OK);
	pair_watch(me, 0, 1);
}

/*
 * A reader that waits for more messages of such a sender relies on the sender all the same: a hundred
 * sleeps in the time measured here, and a thousand for a reader that cannot rely on a wake-up.
 */
static void test_sender_computes(void **state)
{
	struct pair_setup setup = { .here = sleepy(),
				    .there = pair_options(),
				    .partner = send_and_compute,
				    .receive_here = pair_count_message };
	struct pair *pair = pair_start(&setup);
	uint64_t end, sleeps;

	receive_all(pair, 1);
	sleeps = pf_stat(pair->context, PF_STAT_SLEEPS);
	end = clock_nanoseconds(CLOCK_MONOTONIC) + 1000000000;
	while (clock_nanoseconds(CLOCK_MONOTONIC) < end)
		pf_wait(pair->context, 10000);
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
			look(pair);
		pair_check_pattern(pair, pair->window, length, i);
		assert_pending(pf_atomic(pair->peer, PF_ATOMIC_ADD, 8,
					 remote_address(pair->window + 2 * MIB), 1, 0,
					 pair_completed, &done));
		while (done.count < 2 * i + 2)
			look(pair);
	}
	assert_int_equal(done.failed, 0);
	assert_status(pf_send(pair->peer, 0, "x", 1, NULL, 0), PF_OK);
	receive_all(pair, 1);
	pair_wait_exit(pair, 1);
	free(local);
	pair_end(pair);
}

static void test_operations(void **state)
{
	operations(sleepy());
}

static void test_operations_stream(void **state)
{
	pf_options options = sleepy();

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
				    .here = sleepy(),
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

/* Without the option a message is found all the same, by a look each millisecond. */
static void test_not_woken(void **state)
{
	struct pair *pair = pair_start(&(struct pair_setup){ .here = pair_options(),
							     .there = pair_options(),
							     .partner = answer_all,
							     .receive = answer,
							     .receive_here = answer });
	uint64_t n, count = REPEAT(200);

	*pair_value(pair, 0, 1) = count;
	pair_say(pair, 1);
	for (n = 0; n < count; n++) {
		assert_status(pf_send(pair->peer, 0, &n, sizeof(n), NULL, 0), PF_OK);
		while (*pair_value(pair, 0, 0) <= n)
			pf_wait(pair->context, PF_FOREVER);
		/* Both ways to look. */
		if (n % 2)
			pf_progress(pair->context);
	}
	pair_wait_exit(pair, 1);
	assert_true(pf_stat(pair->context, PF_STAT_SLEEPS) > 0);
	pair_end(pair);
}

/* Nothing comes: a wait lasts as long as its timeout, and sleeps. */
static void test_timeout(void **state)
{
	static const int64_t timeouts[] = { 1, 999, 20000, 250000 };
	pf_options options = pair_options();
	uint64_t start, passed, sleeps, before;
	pf_context *context;
	unsigned wake, tries, i;

	for (wake = 0; wake < 2; wake++) {
		options.wake = wake;
		assert_ok(pf_open(&options, NULL, &context));
		assert_int_equal(pf_wait(context, 0), 0);
		assert_int_equal(pf_stat(context, PF_STAT_SLEEPS), 0);
		for (i = 0; i < ARRAY_SIZE(timeouts); i++) {
			before = pf_stat(context, PF_STAT_SLEEPS);
			start = clock_nanoseconds(CLOCK_MONOTONIC);
			assert_int_equal(pf_wait(context, timeouts[i]), 0);
			passed = clock_nanoseconds(CLOCK_MONOTONIC) - start;
			assert_true(passed / 1000 >= (uint64_t)timeouts[i]);
			/* At most PROGRESS_SLEEP_LONGEST or PROGRESS_SLEEP_UNRUNG each. */
			sleeps = pf_stat(context, PF_STAT_SLEEPS) - before;
			assert_true(sleeps <= (wake ? 5 : 2 + (uint64_t)timeouts[i] / 1000));
			/* A short time may be over before the sleep; any on a busy machine. */
			for (tries = 0; pf_stat(context, PF_STAT_SLEEPS) == before; tries++) {
				if (timeouts[i] < 1000)
					break;
				assert_true(tries < 100);
				assert_int_equal(pf_wait(context, timeouts[i]), 0);
			}
		}
		pf_close(context);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		PAIR_TEST(test_both_sleep),
		PAIR_TEST(test_one_sleeps),
		PAIR_TEST(test_at_once),
		PAIR_TEST_UNLESS(net, test_not_woken),
		PAIR_TEST(test_threads),
		PAIR_TEST(test_long),
		PAIR_TEST_UNLESS(net, test_connecting),
		PAIR_TEST(test_stream),
		PAIR_TEST(test_sleeps_once),
		PAIR_TEST_UNLESS(net, test_yields),
		PAIR_TEST(test_sender_computes),
		PAIR_TEST(test_operations),
		PAIR_TEST(test_operations_stream),
		PAIR_TEST(test_many_senders),
		/* After the others: a context left open would have a thread when they fork. */
		cmocka_unit_test(test_timeout),
	};

	return pair_run_tests("wait", tests);
}

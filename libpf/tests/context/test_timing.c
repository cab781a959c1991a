/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What needs a clock: processor time of idle contexts, and how the service thread reacts to the
 * rate of polls. For a machine that does nothing else.
 */
#include "pair.h"

#include <errno.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "context/context.h"
#include "net/network.h"
#include "net/sockets.h"

#define IDLE_MOST 0.3 /* of a second; a thread that spins uses a whole one */

static struct network *network_of(struct pair *me)
{
	return me->context->network;
}

static bool attended(struct pair *me)
{
	return atomic_load(&network_of(me)->attended);
}

static struct pair *start_setup(struct pair_setup *setup)
{
	setup->window = MIB;
	setup->receive = pair_count_message;
	/* No probes of the peer. */
	setup->here.peer_timeout = setup->there.peer_timeout = 1000;
	return pair_start(setup);
}

static struct pair *start(void **state, void (*work)(struct pair *me), pf_receive_fn receive_here)
{
	struct pair_setup setup = { PAIR_MODE(state), .work = work, .receive_here = receive_here };

	return start_setup(&setup);
}

static double cpu_seconds(void)
{
	struct timespec used;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	return (double)used.tv_sec + (double)used.tv_nsec * 1e-9;
}

/* Processor time of this process, while this thread sleeps for a second. */
static double cpu_of_a_second(void)
{
	double before = cpu_seconds();

	usleep(1000000);
	return cpu_seconds() - before;
}

static void await_attended(struct pair *me)
{
	while (!attended(me))
		usleep(1000);
}

/* Number 3: processor time of a side that sleeps in pf_wait until a message, us. */
static void sleep_until_message(struct pair *me)
{
	double before;

	pair_watch(me, 0, 1);
	before = cpu_seconds();
	while (!*pair_value(me, me->side, 0))
		pf_wait(me->context, PF_FOREVER);
	*pair_value(me, me->side, 3) = (uint64_t)((cpu_seconds() - before) * 1e6);
}

static void test_idle_context(void **state)
{
	struct pair_setup setup = { PAIR_MODE(state), .partner = sleep_until_message };
	struct pair *pair;

	setup.there.wake = 1;
	pair = start_setup(&setup);
	pair_connect(pair);
	pair_say(pair, 1);
	usleep(1000000);
	assert_status(pf_send(pair->peer, 0, "x", 1, NULL, 0), PF_OK);
	pair_wait_exit(pair, 1);
	assert_true((double)*pair_value(pair, 1, 3) / 1e6 < IDLE_MOST);
	pair_end(pair);
}

static void send_slowly(struct pair *me)
{
	pair_await(me, 0, 1);
	while (pair_progress(me)) {
		pair_check(me, pf_send(me->peer, 0, "x", 1, NULL, 0) != PF_ERR_PEER);
		usleep(1000);
	}
}

static double used_in_callback;

static void sleep_in_callback(pf_context *context, pf_peer *from, uint32_t tag, void *data,
			      size_t length, void *arg)
{
	struct pair *me = arg;

	if ((*pair_value(me, me->side, 0))++ == 0)
		used_in_callback = cpu_of_a_second();
}

/* Packets that cannot be delivered during a callback do not make the service thread spin. */
static void test_callback(void **state)
{
	struct pair *pair = start(state, send_slowly, sleep_in_callback);

	pair_connect(pair);
	await_attended(pair);
	pair_say(pair, 1);
	pair_await_value(pair, 0, 0, 1);
	assert_true(used_in_callback < IDLE_MOST);
	pair_end(pair);
}

/* Nor does an error of a socket without a packet. */
static void test_error(void **state)
{
	static const uint8_t bytes[65520];
	struct pair *pair = start(state, NULL, NULL);
	struct sockets *sockets = (struct sockets *)network_of(pair)->traffic.carrier;
	struct socket *socket = &sockets->list[0];
	struct pollfd error = { .fd = socket->fd };
	union interface_address to = sockets->interfaces.list[0].address;

	pair_connect(pair);
	await_attended(pair);
	to.in.sin_port = socket->port;
	assert_int_equal(sendto(socket->fd, bytes, sizeof(bytes), 0, &to.any, sizeof(to.in)), -1);
	assert_int_equal(errno, EMSGSIZE);
	assert_true(cpu_of_a_second() < IDLE_MOST);
	assert_int_equal(poll(&error, 1, 0), 0);
	pair_end(pair);
}

/*
 * Number 1 of the test counts its puts while this side computes. The service thread handles them,
 * and rarely takes this side for one that polls. It may get no processor for a while, but not in
 * each of 40 windows.
 */
static void compute(struct pair *me)
{
	bool handled = false;
	unsigned window;

	pair_await(me, 0, 1);
	for (window = 0; window < 40 && !handled; window++) {
		uint64_t start = clock_nanoseconds(CLOCK_MONOTONIC), turns = 0;
		uint64_t puts = *pair_value(me, 0, 1);
		bool before = attended(me);

		while (clock_nanoseconds(CLOCK_MONOTONIC) - start < 200000000) {
			bool after = attended(me);

			turns += before && !after;
			before = after;
		}
		handled = *pair_value(me, 0, 1) - puts >= 50 * (turns + 1);
	}
	pair_check(me, handled);
	*pair_value(me, me->side, 1) = 1;
}

static void test_target_computes(void **state)
{
	struct pair *pair = start(state, compute, NULL);
	uint64_t there = pair_there(pair, 1, pair->window), word = 1;

	pair_connect(pair);
	pair_say(pair, 1);
	while (!*pair_value(pair, 1, 1)) {
		assert_ok(pair_put(pair, pair->peer, &word, there, sizeof(word)).status);
		(*pair_value(pair, 0, 1))++;
	}
	pair_end(pair);
}

static uint64_t looks_at_sockets(struct pair *me)
{
	uint64_t count;

	network_lock(network_of(me));
	count = network_of(me)->looks;
	network_unlock(network_of(me));
	return count;
}

/* A program that polls for a message that does not come does not make a system call each time. */
static void test_polls_in_vain(void **state)
{
	struct pair_setup setup = { PAIR_MODE(state) };
	uint64_t before, start, passed, all = 0, total = 0;
	struct pair *pair;
	unsigned i;

	setup.here.wake = 1;
	pair = start_setup(&setup);
	pair_connect(pair);
	for (i = 0; i < 100; i++) {
		assert_status(pair_send(pair, pair->peer, 0, "message", 8), PF_OK);
		before = looks_at_sockets(pair);
		start = clock_nanoseconds(CLOCK_MONOTONIC);
		do {
			pf_progress(pair->context);
			passed = clock_nanoseconds(CLOCK_MONOTONIC) - start;
		} while (passed < 1000000);
		total += looks_at_sockets(pair) - before;
		all += passed;
	}
	assert_in_range(total, 1, all / 700);
	pair_end(pair);
}

/* Most polls of an idle context do not look at the sockets; few polls count as none. */
static void test_rare_polls(void **state)
{
	struct pair *pair = start(state, NULL, NULL);
	uint64_t begin, looks = 0;
	unsigned i, round;

	do {
		pair_connect(pair);
		for (i = 0; i < 20000; i++)
			pf_progress(pair->context);
	} while (attended(pair));
	/* After a late packet it looks more often for a while. */
	for (round = 0; round < 20; round++) {
		looks = looks_at_sockets(pair);
		for (i = 0; i < 8000; i++)
			pf_progress(pair->context);
		looks = looks_at_sockets(pair) - looks;
		if (looks <= 1000)
			break;
	}
	assert_in_range(looks, 1, 1000);
	begin = clock_nanoseconds(CLOCK_MONOTONIC);
	while (!attended(pair) && clock_nanoseconds(CLOCK_MONOTONIC) < begin + 5000000000) {
		pf_progress(pair->context);
		pair_compute(2000000);
	}
	assert_true(attended(pair));
	pair_end(pair);
}

/* A program that posts for milliseconds, and polls then, is not taken for one that computes. */
static void test_posts_between_polls(void **state)
{
	struct pair *pair = start(state, NULL, NULL);
	unsigned rounds, i;

	pair_connect(pair);
	usleep(20000);
	for (rounds = 0; rounds < 50 && attended(pair); rounds++) {
		for (i = 0; i < 100; i++) {
			/* It may find no room. */
			pf_send(pair->peer, 0, &i, sizeof(i), NULL, 0);
			pair_compute(20000);
		}
		pair_progress(pair);
	}
	assert_false(attended(pair));
	pair_end(pair);
}

/* One that computes is served by the service thread, also if it polls for some messages in between. */
static void test_polls_between_work(void **state)
{
	struct pair *pair = start(state, NULL, NULL);
	unsigned round, i, served = 0;

	pair_connect(pair);
	usleep(20000);
	for (round = 0; round < 100; round++) {
		for (i = 0; i < 3; i++)
			assert_status(pf_send(pair->peer, 0, &i, sizeof(i), NULL, 0), PF_OK);
		for (i = 0; i < 40; i++)
			pf_progress(pair->context);
		pair_compute(5000000);
		served += attended(pair);
	}
	/* A pause of the machine looks like something else. */
	assert_in_range(served, 90, 100);
	pair_end(pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		PAIR_TEST(test_idle_context),
		PAIR_TEST(test_callback),
		PAIR_TEST(test_error),
		PAIR_TEST(test_target_computes),
		PAIR_TEST(test_polls_in_vain),
		PAIR_TEST(test_rare_polls),
		PAIR_TEST(test_posts_between_polls),
		PAIR_TEST(test_polls_between_work),
	};

	pair_use_net();
	return pair_run_tests("timing", tests);
}

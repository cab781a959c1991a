/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who drives the network when: contexts whose applications poll, compute, sleep
 * or close while something is to be sent or received. What would never happen
 * without the service thread is awaited for long.
 */
#include "pair.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/sock_diag.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "context/context.h"
#include "net/engine.h"
#include "net/link.h"

#ifndef SO_MEMINFO
#define SO_MEMINFO 55
#endif

#define PATIENCE 20000 /* ms */
#define WINDOW (1 << 20)
#define LONGEST 1472 /* packet, where it is to be a usual one */

static struct engine *engine_of(struct pair *me)
{
	return me->context->engine;
}

static bool attended(struct pair *me)
{
	return atomic_load(&engine_of(me)->attended);
}

static void count(pf_context *context, pf_peer *from, uint8_t tag, void *data, size_t length,
		  void *arg)
{
	struct pair *me = arg;

	atomic_fetch_add(pair_value(me, me->side, 0), 1);
}

/* How many messages a side has got, from a side that does not poll. */
static bool gets_without_polls(struct pair *me, unsigned side, uint64_t messages)
{
	unsigned tries;

	for (tries = 0; tries < PATIENCE; tries++) {
		if (atomic_load(pair_value(me, side, 0)) >= messages)
			return true;
		usleep(1000);
	}
	return false;
}

static bool becomes_attended(struct pair *me)
{
	unsigned tries;

	for (tries = 0; tries < PATIENCE && !attended(me); tries++)
		usleep(1000);
	return attended(me);
}

/* Nothing will have the service thread look by itself before patience ends. */
static bool comes_to_rest(struct pair *me)
{
	struct engine *engine = engine_of(me);
	uint64_t due = 0, time = 0;
	unsigned tries;

	for (tries = 0; tries < PATIENCE && due <= time + 2 * PATIENCE * 1000000ull; tries++) {
		usleep(1000);
		engine_lock(engine);
		due = net_deadline(engine->core);
		engine_unlock(engine);
		time = clock_nanoseconds(CLOCK_MONOTONIC);
	}
	return tries < PATIENCE;
}

static struct pair *start(void (*partner)(struct pair *me))
{
	struct pair_setup setup = { .here = pair_options(),
				    .there = pair_options(),
				    .window = WINDOW,
				    .partner = partner,
				    .receive = count,
				    .receive_here = count };

	/* Nor do the sides ask each other whether they live. */
	setup.here.peer_timeout = setup.there.peer_timeout = 1000;
	return pair_start(&setup);
}

static void connect_pair(struct pair *pair)
{
	uint64_t word;

	assert_ok(pair_get(pair, pair->peer, &word, pair_there(pair, 1, pair->window), sizeof(word))
			  .status);
}

static double cpu_seconds(void)
{
	struct timespec used;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	return (double)used.tv_sec + (double)used.tv_nsec * 1e-9;
}

/* ---- what is sent while the application does not poll ---- */

static void test_posts(void **state)
{
	struct pair *pair = start(NULL);
	uint64_t i;

	connect_pair(pair);
	assert_true(becomes_attended(pair));
	for (i = 1; i <= 4; i++) {
		assert_true(comes_to_rest(pair));
		assert_status(pf_send(pair->peer, 0, &i, sizeof(i), NULL, 0), PF_DONE);
		assert_true(gets_without_polls(pair, 1, i));
	}
	pair_end(pair);
}

static void deafen(struct pair *me, bool deaf)
{
	struct sock_filter nothing = BPF_STMT(BPF_RET | BPF_K, 0);
	struct sock_fprog program = { 1, &nothing };
	struct engine *engine = engine_of(me);
	unsigned i;

	for (i = 0; i < engine->count; i++)
		pair_check(me, !setsockopt(engine->sockets[i].fd, SOL_SOCKET,
					   deaf ? SO_ATTACH_FILTER : SO_DETACH_FILTER, &program,
					   sizeof(program)));
}

static uint32_t unheard(struct pair *me)
{
	struct engine *engine = engine_of(me);
	uint32_t values[SK_MEMINFO_VARS], total = 0;
	socklen_t size;
	unsigned i;

	for (i = 0; i < engine->count; i++) {
		size = sizeof(values);
		pair_check(me, !getsockopt(engine->sockets[i].fd, SOL_SOCKET, SO_MEMINFO, values,
					   &size));
		total += values[SK_MEMINFO_DROPS];
	}
	return total;
}

static void serve_after_a_loss(struct pair *me)
{
	uint32_t before;

	pair_await(me, 0, 1);
	before = unheard(me);
	deafen(me, true);
	pair_say(me, 1);
	while (unheard(me) == before)
		pair_progress(me);
	deafen(me, false);
	pair_serve(me);
}

static void test_retransmission(void **state)
{
	struct pair *pair = start(serve_after_a_loss);

	connect_pair(pair);
	assert_true(becomes_attended(pair));
	assert_true(comes_to_rest(pair));
	pair_say(pair, 1);
	pair_watch(pair, 1, 1);
	assert_status(pf_send(pair->peer, 0, "x", 1, NULL, 0), PF_DONE);
	pf_progress(pair->context);
	assert_true(gets_without_polls(pair, 1, 1));
	pair_end(pair);
}

static void hear_late(struct pair *me)
{
	uint32_t before = unheard(me);

	deafen(me, true);
	pair_say(me, 1);
	while (unheard(me) == before)
		pair_progress(me);
	deafen(me, false);
	pair_serve(me);
}

/* The first packet to a new peer is lost; it is waited for, if not for long. */
static bool is_heard_after_close(void)
{
	struct pair *pair = start(hear_late);
	bool heard;

	pair_watch(pair, 1, 1);
	assert_status(pf_send(pair->peer, 0, "x", 1, NULL, 0), PF_DONE);
	pf_close(pair->context);
	pair->context = NULL;
	usleep(100000);
	heard = atomic_load(pair_value(pair, 1, 0)) == 1;
	pair_end(pair);
	return heard;
}

static void test_close(void **state)
{
	unsigned tries = 0;

	/* Half a second is little for a machine that has more to do. */
	while (!is_heard_after_close())
		assert_true(++tries < 10);
}

static void post_puts(struct pair *me, const uint8_t *bytes, unsigned count, struct pair_done *done)
{
	unsigned i;

	for (i = 0; i < count; i++)
		assert_ok(pf_put(me->peer, bytes, pair_there(me, 1, me->window), WINDOW,
				 pair_completed, done));
}

/* Nothing can be sent, and the interface's MTU does not say why; then it can again. */
static void test_nothing_fits(void **state)
{
	struct pair *pair = start(NULL);
	struct pair_done done = { 0 };
	uint8_t *bytes = calloc(1, WINDOW);
	struct net_path_info info;
	int refuse = 1, fd;
	unsigned i;

	assert_non_null(bytes);
	/* Packets short enough to be sent in batches; until much is sent at once. */
	for (i = 0; i < engine_of(pair)->count; i++)
		engine_of(pair)->interfaces[i].mtu = LONGEST + 28;
	for (i = 1; i <= 50; i++) {
		post_puts(pair, bytes, 8, &done);
		pair_await_done(pair, &done, 8 * i);
	}
	fd = engine_of(pair)->sockets[0].fd;
	/* The system cuts no batches for a socket without checksums. */
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_NO_CHECK, &refuse, sizeof(refuse)), 0);
	pattern_fill(bytes, WINDOW, 7);
	post_puts(pair, bytes, 8, &done);
	for (i = 0; i < 1000; i++)
		pf_progress(pair->context);
	engine_lock(engine_of(pair));
	assert_true(net_path_info(engine_of(pair)->links->association, 0, &info));
	engine_unlock(engine_of(pair));
	assert_in_range(info.packet, NET_PACKET_LEAST, LONGEST - 8);
	refuse = 0;
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_NO_CHECK, &refuse, sizeof(refuse)), 0);
	pair_await_done(pair, &done, 8 * 51);
	assert_int_equal(done.failed, 0);
	assert_pattern(pair->window, WINDOW, 7);
	free(bytes);
	pair_end(pair);
}

/* ---- when the service thread drives ---- */

/*
 * Puts that come while the target computes, and how often the service thread
 * takes it for one that polls. It may be starving indeed on a busy machine, but
 * not all the time.
 */
static void compute(struct pair *me)
{
	uint64_t start, puts, turns;
	bool well = false, before;
	unsigned window;

	pair_await(me, 0, 1);
	for (window = 0; window < 40 && !well; window++) {
		start = clock_nanoseconds(CLOCK_MONOTONIC);
		puts = atomic_load(pair_value(me, 0, 1));
		turns = 0;
		before = attended(me);
		while (clock_nanoseconds(CLOCK_MONOTONIC) - start < 200000000) {
			bool after = attended(me);

			turns += before && !after;
			before = after;
		}
		puts = atomic_load(pair_value(me, 0, 1)) - puts;
		well = puts >= 50 * (turns + 1);
	}
	pair_check(me, well);
	atomic_store(pair_value(me, me->side, 1), 1);
	pair_serve(me);
}

static void test_target_computes(void **state)
{
	struct pair *pair = start(compute);
	uint64_t there = pair_there(pair, 1, pair->window), word = 1;

	connect_pair(pair);
	pair_say(pair, 1);
	while (!atomic_load(pair_value(pair, 1, 1))) {
		assert_ok(pair_put(pair, pair->peer, &word, there, sizeof(word)).status);
		atomic_fetch_add(pair_value(pair, 0, 1), 1);
	}
	pair_end(pair);
}

static void send_on(struct pair *me)
{
	pair_await(me, 0, 1);
	while (pair_progress(me)) {
		pair_check(me, pf_send(me->peer, 0, "x", 1, NULL, 0) != PF_ERR_PEER);
		usleep(1000);
	}
}

static double used_inside;

static void linger_inside(pf_context *context, pf_peer *from, uint8_t tag, void *data,
			  size_t length, void *arg)
{
	struct pair *me = arg;
	double before = cpu_seconds();

	if (atomic_fetch_add(pair_value(me, me->side, 0), 1))
		return;
	usleep(1000000);
	used_inside = cpu_seconds() - before;
}

/* Packets that nobody may receive do not keep the service thread busy. */
static void test_callback(void **state)
{
	const struct pair_setup setup = { .here = pair_options(),
					  .there = pair_options(),
					  .window = WINDOW,
					  .partner = send_on,
					  .receive_here = linger_inside };
	struct pair *pair = pair_start(&setup);

	connect_pair(pair);
	assert_true(becomes_attended(pair));
	pair_say(pair, 1);
	while (!atomic_load(pair_value(pair, 0, 0)))
		pf_progress(pair->context);
	assert_true(used_inside < 0.3);
	pair_end(pair);
}

/* Nor does an error that comes without a packet. */
static void test_error(void **state)
{
	static const uint8_t bytes[65520];
	struct pair *pair = start(NULL);
	struct socket *socket = &engine_of(pair)->sockets[0];
	struct pollfd error = { .fd = socket->fd };
	union interface_address to = engine_of(pair)->interfaces[0].address;
	double before;

	connect_pair(pair);
	assert_true(becomes_attended(pair));
	to.in.sin_port = socket->port;
	before = cpu_seconds();
	assert_int_equal(sendto(socket->fd, bytes, sizeof(bytes), 0, &to.any, sizeof(to.in)), -1);
	assert_int_equal(errno, EMSGSIZE);
	usleep(1000000);
	assert_true(cpu_seconds() - before < 0.3);
	assert_int_equal(poll(&error, 1, 0), 0);
	pair_end(pair);
}

/* Most polls of an idle context do not look; when they are few, that is no polling. */
static void test_rare_polls(void **state)
{
	struct pair *pair = start(NULL);
	uint64_t start, next, looks = 0;
	unsigned i, round;

	do {
		connect_pair(pair);
		for (i = 0; i < 20000; i++)
			pf_progress(pair->context);
	} while (attended(pair));
	/* A late packet keeps it looking for a while. */
	for (round = 0; round < 20; round++) {
		looks = atomic_load(&engine_of(pair)->looks);
		for (i = 0; i < 8000; i++)
			pf_progress(pair->context);
		looks = atomic_load(&engine_of(pair)->looks) - looks;
		if (looks <= 1000)
			break;
	}
	assert_in_range(looks, 1, 1000);
	start = next = clock_nanoseconds(CLOCK_MONOTONIC);
	while (!attended(pair) && next < start + 5000000000) {
		pf_progress(pair->context);
		next += 50000;
		while (clock_nanoseconds(CLOCK_MONOTONIC) < next)
			;
	}
	assert_true(attended(pair));
	pair_end(pair);
}

static bool undelivered(struct pair *me)
{
	bool found;

	engine_lock(engine_of(me));
	found = engine_of(me)->undelivered;
	engine_unlock(engine_of(me));
	return found;
}

static void send_one(struct pair *me)
{
	pair_await(me, 0, 1);
	pair_check(me, pf_send(me->peer, 0, "x", 1, NULL, 0) == PF_DONE);
	pair_serve(me);
}

/* What the service thread received before a sleep is found before it. */
static void test_news_before_sleep(void **state)
{
	struct pair_setup setup = { .here = pair_options(),
				    .there = pair_options(),
				    .window = WINDOW,
				    .partner = send_one,
				    .receive_here = count };
	struct pair *pair;
	uint64_t sleeps;
	unsigned i;

	setup.here.idle_polls = 1;
	setup.here.idle_sleep = 1;
	pair = pair_start(&setup);
	connect_pair(pair);
	for (i = 0; i < 10000; i++)
		pf_progress(pair->context);
	pair->context->options.idle_sleep = 10000000;
	pair_say(pair, 1);
	for (i = 0; i < PATIENCE && !undelivered(pair); i++)
		usleep(1000);
	assert_true(undelivered(pair));
	sleeps = pf_stat(pair->context, PF_STAT_SLEEPS);
	while (!atomic_load(pair_value(pair, 0, 0)))
		pf_progress(pair->context);
	assert_int_equal(pf_stat(pair->context, PF_STAT_SLEEPS), sleeps);
	pair_end(pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_posts, pair_teardown),
		cmocka_unit_test_teardown(test_retransmission, pair_teardown),
		cmocka_unit_test_teardown(test_close, pair_teardown),
		cmocka_unit_test_teardown(test_nothing_fits, pair_teardown),
		cmocka_unit_test_teardown(test_target_computes, pair_teardown),
		cmocka_unit_test_teardown(test_callback, pair_teardown),
		cmocka_unit_test_teardown(test_error, pair_teardown),
		cmocka_unit_test_teardown(test_rare_polls, pair_teardown),
		cmocka_unit_test_teardown(test_news_before_sleep, pair_teardown),
	};

	return cmocka_run_group_tests_name("engine", tests, NULL, NULL);
}

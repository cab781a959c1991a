/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The network is driven by the application's polls or by the service thread: contexts whose
 * applications poll, sleep or close while there is something to send or receive. What would never
 * happen without the service thread is awaited for up to PATIENCE.
 */
#include "network_pair.h"

/* Wait without polls until this is true. */
#define await_unpolled(condition)                                                                  \
	do {                                                                                       \
		unsigned tries_;                                                                   \
		for (tries_ = 0; tries_ < PATIENCE && !(condition); tries_++)                      \
			usleep(1000);                                                              \
		assert_true(condition);                                                            \
	} while (0)

static bool attended(struct pair *me)
{
	return atomic_load(&network_of(me)->attended);
}

/* Less than the keepalive of 25 s, which is all that an idle association waits for. */
#define REST_NANOSECONDS 20000000000ull

/* The service thread will not look by itself before the keepalive. */
static bool rests(struct pair *me)
{
	struct network *network = network_of(me);
	uint64_t due;

	network_lock(network);
	due = net_deadline(network->core);
	network_unlock(network);
	return due > clock_nanoseconds(CLOCK_MONOTONIC) + REST_NANOSECONDS;
}

/* ---- sends while the application does not poll ---- */

static void test_posts(void **state)
{
	struct pair *pair = network_pair(NULL);
	uint64_t i;

	pair_connect(pair);
	await_unpolled(attended(pair));
	for (i = 1; i <= 4; i++) {
		await_unpolled(rests(pair));
		assert_status(pf_send(pair->peer, 0, &i, sizeof(i), NULL, 0), PF_OK);
		await_unpolled(*pair_value(pair, 1, 0) >= i);
	}
	pair_end(pair);
}

/* The service thread leaves the network to a program that polls, also if that may sleep. */
static void test_may_sleep(void **state)
{
	struct pair_setup setup = { .here = pair_options(),
				    .there = pair_options(),
				    .window = WINDOW };
	unsigned tries, i;
	struct pair *pair;

	setup.here.wake = 1;
	pair = pair_start(&setup);
	tries = 0;
	do {
		/* The thread looks when packets come. */
		pair_connect(pair);
		for (i = 0; i < 10000; i++)
			pf_progress(pair->context);
	} while (attended(pair) && ++tries < PATIENCE / 10);
	assert_false(attended(pair));
	pair_end(pair);
}

static bool poll_finds_away(struct pair *me)
{
	uint64_t looks = network_of(me)->looks;

	/* None looks while the service thread drives. */
	while (network_of(me)->looks == looks)
		pf_progress(me->context);
	return network_of(me)->away;
}

/* One that computed was away, unless it may have waited for a processor that it shares. */
static void test_away(void **state)
{
	struct pair_setup setup = { .here = pair_options(),
				    .there = pair_options(),
				    .window = WINDOW };
	struct pair *pair;
	unsigned tries, shares;

	for (shares = 0; shares < 2; shares++) {
		setup.here.wake = shares;
		pair = pair_start(&setup);
		pair_connect(pair);
		/* This process may lose its processor between two polls, but not each time. */
		for (tries = 0; poll_finds_away(pair) && tries < 10000; tries++)
			;
		assert_true(tries < 10000);
		pair_compute(2 * GRACE_FIRST);
		assert_int_equal(poll_finds_away(pair), !shares);
		pair_end(pair);
	}
}

/*
 * A program that sends and then computes: nothing waits for its next poll. Where the service
 * thread drives just then, it sends, so a round of three that it took part in tells nothing.
 */
static void test_posts_before_computing(void **state)
{
	struct pair *pair = network_pair(NULL);
	unsigned rounds, at_once = 0;
	uint64_t sent, message;

	pair->awake = true;
	pair_connect(pair);
	for (rounds = 0; at_once < 100 && rounds < 100000; rounds++) {
		sent = pf_stat(pair->context, PF_STAT_NET_SENT);
		for (message = 1; message <= 3; message++)
			assert_status(pf_send(pair->peer, 0, &message, sizeof(message), NULL, 0),
				      PF_OK);
		at_once += pf_stat(pair->context, PF_STAT_NET_SENT) >= sent + 3;
		pair_compute(2 * COALESCE_SOON);
		pair_progress(pair);
	}
	assert_int_equal(at_once, 100);
	pair_await_value(pair, 1, 0, 3 * rounds);
	pair_end(pair);
}

static bool connected(struct pair *me)
{
	struct network *network = network_of(me);
	unsigned i;

	for (i = sockets_of(network)->interfaces.count;
	     i < 2 * sockets_of(network)->interfaces.count; i++) {
		if (sockets_of(network)->list[i].connected)
			return true;
	}
	return false;
}

/* A peer that alone sends for long has a socket of its own, which the service thread watches too. */
static void test_connected(void **state)
{
	struct pair *pair = network_pair(NULL);
	uint64_t i = 0;

	pair_connect(pair);
	assert_false(connected(pair));
	while (!connected(pair)) {
		assert_true(++i < 100000);
		assert_status(pf_send(pair->peer, 0, &i, sizeof(i), NULL, 0), PF_OK);
		pair_await_value(pair, 1, 0, i);
	}
	await_unpolled(attended(pair));
	for (; i % 16; i++) {
		assert_status(pf_send(pair->peer, 0, &i, sizeof(i), NULL, 0), PF_OK);
		await_unpolled(*pair_value(pair, 1, 0) > i);
	}
	pair_end(pair);
}

/*
 * What a full window holds back is not kept for long: a short grace period has begun, with a timer, when
 * the call returns. That is not seen while the thread attends, or has just ended one.
 */
static void test_full_window(void **state)
{
	static const uint8_t bytes[64 * 1024];
	struct pair *pair = network_pair(NULL);
	struct network *network = network_of(pair);
	struct itimerspec end;
	bool shown = false;
	unsigned tries;

	pair_connect(pair);
	for (tries = 0; tries < PATIENCE && !shown; tries++) {
		pf_progress(pair->context);
		if (pf_send(pair->peer, 0, bytes, sizeof(bytes), NULL, 0) != PF_OK) {
			/* The peer may need this processor to make room. */
			usleep(1000);
			continue;
		}
		network_lock(network);
		shown = net_blocked(network->core) && atomic_load(&network->grace.running) &&
			!atomic_load(&network->grace.idle) &&
			!timerfd_gettime(network->grace_timer, &end) && end.it_value.tv_nsec;
		network_unlock(network);
	}
	assert_true(shown);
	pair_end(pair);
}

/* Whatever it did last, the service thread attends when the application stops polling, and never before. */
static void test_stops_polling(void **state)
{
	static const uint8_t bytes[64 * 1024];
	struct pair *pair = network_pair(NULL);
	struct network *network = network_of(pair);
	unsigned round, i, seed = (unsigned)clock_nanoseconds(CLOCK_MONOTONIC);

	print_message("# seed %u\n", seed);
	pair_connect(pair);
	for (round = 0; round < 200; round++) {
		unsigned polls = rand_r(&seed) % 64, posts = rand_r(&seed) % 3;
		size_t length = rand_r(&seed) % 2 ? sizeof(bytes) : 8;

		for (i = 0; i < polls || i < posts; i++) {
			/* There may be no room. */
			if (i < posts)
				pf_send(pair->peer, 0, bytes, length, NULL, 0);
			if (i < polls)
				pf_progress(pair->context);
			if (rand_r(&seed) % 4 == 0)
				pair_compute(rand_r(&seed) % 50000);
		}
		await_unpolled(attended(pair));
		pthread_mutex_lock(&network->attending);
		assert_true(!attended(pair) || !atomic_load(&network->grace.running));
		pthread_mutex_unlock(&network->attending);
	}
	pair_end(pair);
}

/* Have the system drop all packets to this side, or no longer. */
static void drop_packets(struct pair *me, bool on)
{
	struct sock_filter nothing = BPF_STMT(BPF_RET | BPF_K, 0);
	struct sock_fprog program = { 1, &nothing };
	struct network *network = network_of(me);
	unsigned i;

	for (i = 0; i < 2 * sockets_of(network)->interfaces.count; i++)
		pair_check(me, !setsockopt(sockets_of(network)->list[i].fd, SOL_SOCKET,
					   on ? SO_ATTACH_FILTER : SO_DETACH_FILTER, &program,
					   sizeof(program)));
}

/* Drop packets until one was dropped. Step 1: it begins. */
static void drop_one(struct pair *me)
{
	uint32_t before = dropped(me);

	drop_packets(me, true);
	pair_say(me, 1);
	while (dropped(me) == before)
		pair_progress(me);
	drop_packets(me, false);
}

static void drop_one_when_told(struct pair *me)
{
	pair_await(me, 0, 1);
	drop_one(me);
}

static void test_retransmission(void **state)
{
	struct pair *pair = network_pair(drop_one_when_told);

	pair_connect(pair);
	await_unpolled(attended(pair));
	await_unpolled(rests(pair));
	pair_say(pair, 1);
	pair_watch(pair, 1, 1);
	assert_status(pf_send(pair->peer, 0, "x", 1, NULL, 0), PF_OK);
	pf_progress(pair->context);
	await_unpolled(*pair_value(pair, 1, 0) >= 1);
	pair_end(pair);
}

/* pf_close waits for the first packet to a new peer, which is lost, but not for long. */
static bool arrives_after_close(void)
{
	struct pair *pair = network_pair(drop_one);
	bool arrived;

	pair_watch(pair, 1, 1);
	assert_status(pf_send(pair->peer, 0, "x", 1, NULL, 0), PF_OK);
	pf_close(pair->context);
	pair->context = NULL;
	usleep(100000);
	arrived = *pair_value(pair, 1, 0) == 1;
	pair_end(pair);
	return arrived;
}

static void test_close(void **state)
{
	unsigned tries = 0;

	/* On a busy machine half a second may not be enough. */
	while (!arrives_after_close())
		assert_true(++tries < 10);
}

static _Atomic int full; /* as often the sockets of this process have no room */

long __real_syscall(long number, ...);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f);

long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f)
{
	bool sends = number == SYS_sendto || number == SYS_sendmsg || number == SYS_sendmmsg;

	if (sends && atomic_load(&full) && atomic_fetch_sub(&full, 1) > 0) {
		errno = EAGAIN;
		return -1;
	}
	return __real_syscall(number, a, b, c, d, e, f);
}

/* Value 1 is 1 when the peer has said GOODBYE. */
static void await_goodbye(struct pair *me)
{
	struct network *network = network_of(me);
	const char *why = NULL;
	unsigned tries;
	int status = PF_OK;

	for (tries = 0; tries < PATIENCE && !why; tries++) {
		pf_progress(me->context);
		network_lock(network);
		if (first_association(network))
			status = net_association_status(first_association(network), &why);
		network_unlock(network);
		usleep(1000);
	}
	*pair_value(me, 1, 1) = why && status == PF_OK ? 1 : 2;
}

/* A context that closes while its sockets are full waits for room to say GOODBYE. */
static void test_close_full(void **state)
{
	struct pair *pair = network_pair(await_goodbye);

	pair_connect(pair);
	assert_status(pf_send(pair->peer, 0, "x", 1, NULL, 0), PF_OK);
	await_unpolled(*pair_value(pair, 1, 0) == 1);
	await_unpolled(attended(pair) && rests(pair));
	atomic_store(&full, 5);
	pf_close(pair->context);
	pair->context = NULL;
	await_unpolled(*pair_value(pair, 1, 1));
	assert_int_equal(*pair_value(pair, 1, 1), 1);
	pair_end(pair);
}

static bool undelivered(struct pair *me)
{
	bool found;

	network_lock(network_of(me));
	found = net_has_events(network_of(me)->core);
	network_unlock(network_of(me));
	return found;
}

static void send_one(struct pair *me)
{
	pair_await(me, 0, 1);
	pair_check_status(me, pf_send(me->peer, 0, "x", 1, NULL, 0), PF_OK);
}

/* Before a sleep pf_wait delivers the messages that the service thread has received. */
static void test_news_before_sleep(void **state)
{
	struct pair_setup setup = { .here = pair_options(),
				    .there = pair_options(),
				    .window = WINDOW,
				    .work = send_one,
				    .receive_here = pair_count_message };
	struct pair *pair;
	uint64_t sleeps;
	unsigned i;

	setup.here.wake = 1;
	pair = pair_start(&setup);
	pair_connect(pair);
	for (i = 0; i < 1000; i++)
		pf_wait(pair->context, 1);
	pair->context->sleep_longest = 10000000;
	pair_say(pair, 1);
	await_unpolled(undelivered(pair));
	sleeps = pf_stat(pair->context, PF_STAT_SLEEPS);
	while (!*pair_value(pair, 0, 0))
		pf_wait(pair->context, PF_FOREVER);
	assert_int_equal(pf_stat(pair->context, PF_STAT_SLEEPS), sleeps);
	pair_end(pair);
}

static uint64_t newest(struct pair *me)
{
	uint64_t time;

	network_lock(network_of(me));
	time = network_of(me)->coalesce.newest;
	network_unlock(network_of(me));
	return time;
}

/* What the service thread sends says nothing of when the application posted. */
static void test_newest_post(void **state)
{
	struct pair *pair = network_pair(send_one);
	uint64_t time;

	pair_connect(pair);
	await_unpolled(attended(pair));
	assert_status(pf_send(pair->peer, 0, "x", 1, NULL, 0), PF_OK);
	time = newest(pair);
	pair_say(pair, 1);
	await_unpolled(undelivered(pair));
	assert_int_equal(newest(pair), time);
	pair_end(pair);
}

static void send_many(struct pair *me)
{
	while (!*pair_value(me, 0, 1)) {
		pf_send(me->peer, 0, "x", 1, NULL, 0);
		pf_progress(me->context);
	}
}

/* If a poll keeps back what it owes, the next one shows whether that was right. */
static void test_kept_back(void **state)
{
	struct pair *pair = network_pair(send_many);
	struct network *network = network_of(pair);
	uint8_t *bytes = test_alloc(WINDOW);
	struct pair_done done = { 0 };
	unsigned posted = 0, kept = 0, pending = 0, i;
	uint64_t told;

	for (i = 0; i < 1000000 && kept < 10; i++) {
		for (; posted < done.count + 8; posted += 8)
			post_puts(pair, bytes, 8, &done);
		network_lock(network);
		network->coalesce = (struct coalesce){ .points = COALESCE_TRUST };
		told = network->processes.told;
		network_unlock(network);
		pf_progress(pair->context);
		network_lock(network);
		if (network->processes.told != told && atomic_load(&network->behind) &&
		    net_owes(network->core)) {
			kept++;
			pending += coalesce_pending(&network->coalesce);
		}
		network_unlock(network);
	}
	assert_int_equal(kept, 10);
	assert_int_equal(pending, kept);
	pair_await_done(pair, &done, posted);
	atomic_store(pair_value(pair, 0, 1), 1);
	free(bytes);
	pair_end(pair);
}

static unsigned sent_inside;

static void answer_much(pf_context *context, pf_peer *from, uint32_t tag, void *data, size_t length,
			void *arg)
{
	static uint8_t bytes[COALESCE_BYTES];
	uint64_t sent = pf_stat(context, PF_STAT_NET_SENT);

	if (pf_send(from, 0, NULL, 0, bytes, sizeof(bytes)) == PF_OK &&
	    pf_stat(context, PF_STAT_NET_SENT) > sent)
		sent_inside++;
}

/* A long message of a callback is on its way while the callback prepares the next one. */
static void test_sent_in_callback(void **state)
{
	struct pair_setup setup = { .here = pair_options(),
				    .there = pair_options(),
				    .window = WINDOW,
				    .work = send_many,
				    .receive = pair_count_message,
				    .receive_here = answer_much };
	struct pair *pair = pair_start(&setup);
	uint64_t end;

	pair_connect(pair);
	sent_inside = 0;
	end = clock_nanoseconds(CLOCK_MONOTONIC) + PATIENCE * 1000000ull * patience();
	while (sent_inside < 100 && clock_nanoseconds(CLOCK_MONOTONIC) < end)
		pf_progress(pair->context);
	/* One poll may make several callbacks. */
	assert_true(sent_inside >= 100);
	atomic_store(pair_value(pair, 0, 1), 1);
	pair_end(pair);
}

static char warning[1024];
static unsigned warnings;

static void on_warning(pf_context *context, pf_peer *peer, enum pf_log_level level,
		       const char *text, void *arg)
{
	if (level != PF_LOG_WARNING)
		return;
	assert_null(peer);
	snprintf(warning, sizeof(warning), "%s", text);
	warnings++;
}

/* Packets that are dropped are counted, and told of in one line, not in one for each. */
static void test_dropped(void **state)
{
	struct pair_setup setup = { .here = pair_options(),
				    .there = pair_options(),
				    .window = WINDOW,
				    .log_here = on_warning };
	struct pair *pair = pair_start(&setup);
	struct network *network = network_of(pair);
	union interface_address to = sockets_of(network)->interfaces.list[0].address;
	struct wire_header header = { .type = WIRE_DATA_PUT, .index = UINT32_MAX };
	uint8_t strange[WIRE_HEADER] = { 0 };
	int fd = socket(to.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	unsigned i, tries;

	pair_connect(pair);
	/* The port is at the same place for both families. */
	to.in.sin_port = sockets_of(network)->list[0].port;
	/* One for no association is nothing to tell of. */
	wire_put_header(strange, &header);
	assert_int_equal(sendto(fd, strange, sizeof(strange), 0, &to.any, sizeof(to)),
			 sizeof(strange));
	while (!pf_stat(pair->context, PF_STAT_NET_UNKNOWN))
		pf_progress(pair->context);
	for (i = 0; i < 1000; i++)
		pf_progress(pair->context);
	assert_int_equal(warnings, 0);
	for (i = 0; i < 20; i++) {
		assert_int_equal(sendto(fd, "nonsense", 8, 0, &to.any, sizeof(to)), 8);
		while (pf_stat(pair->context, PF_STAT_NET_MALFORMED) <= i)
			pf_progress(pair->context);
		/* Another thread may have counted the first one before we are told of it. */
		for (tries = 0; tries < 1000 && !warnings; tries++)
			pf_progress(pair->context);
	}
	for (i = 0; i < 1000; i++)
		pf_progress(pair->context);
	assert_int_equal(warnings, 1);
	assert_non_null(strstr(warning, "1 packets dropped: not of a packet's form; "));
	assert_non_null(strstr(warning, "(net_malformed) from "));
	assert_int_equal(pf_stat(pair->context, PF_STAT_NET_FORGED), 0);
	close(fd);
	pair_end(pair);
}

/* Blocks whose pages were never touched are made present several at a time. */
static void test_looks(void **state)
{
	struct pair *pair = network_pair(NULL);
	struct pair_done done = { 0 };
	uint64_t faults;
	uint8_t *bytes = mmap(NULL, 2 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			      -1, 0);

	assert_ptr_not_equal(bytes, MAP_FAILED);
	bytes += MIB - (uintptr_t)bytes % MIB;
	/* Blocks of a source that is absent would arrive in the order in which they are resolved. */
	memset(pair->window, 1, 256 << 10);
	faults = pf_stat(pair->context, PF_STAT_LOCAL_MINOR);
	pair_post(pair, pair->peer, GET, bytes, pair_there(pair, 1, pair->window), 256 << 10,
		  &done);
	pair_await_done(pair, &done, 1);
	assert_in_range(pf_stat(pair->context, PF_STAT_LOCAL_MINOR) - faults, 1, 4);
	pair_end(pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		PAIR_TEST(test_posts),          PAIR_TEST(test_may_sleep),
		PAIR_TEST(test_away),           PAIR_TEST(test_posts_before_computing),
		PAIR_TEST(test_connected),      PAIR_TEST(test_full_window),
		PAIR_TEST(test_stops_polling),  PAIR_TEST(test_newest_post),
		PAIR_TEST(test_kept_back),      PAIR_TEST(test_sent_in_callback),
		PAIR_TEST(test_retransmission), PAIR_TEST(test_close),
		PAIR_TEST(test_close_full),     PAIR_TEST(test_news_before_sleep),
		PAIR_TEST(test_dropped),        PAIR_TEST(test_looks),
	};

	pair_use_net();
	return pair_run_tests("engine", tests);
}

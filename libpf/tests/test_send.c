/* SPDX-License-Identifier: BSD-3-Clause */
/* Active messages: in order, exactly once, whole, whatever their lengths and however full the ring. */
#include "pair.h"

#include <unistd.h>

enum mode { MODE_DEFAULT, MODE_SMALL_RING, MODE_THREADS, MODE_IDLE };

static pf_options options_of(enum mode mode)
{
	pf_options options = pair_options();

	switch (mode) {
	case MODE_SMALL_RING:
		options.ring_size = 16384;
		break;
	case MODE_THREADS:
		options.threads = 1;
		break;
	case MODE_IDLE:
		options.idle_polls = 1;
		break;
	default:
		break;
	}
	return options;
}

/* Length, tag and bytes of the nth message of a sequence follow from n alone. */
static size_t length_of(uint64_t n, size_t send_max)
{
	struct random_numbers numbers = { 2 * n + 1 };

	random_next(&numbers);
	switch (random_next(&numbers) >> 59) {
	case 0:
		return 0;
	case 1:
		return n % 512 ? 3000 : send_max;
	case 2:
		return random_below(&numbers, 9000 < send_max ? 9000 : send_max);
	default:
		return random_below(&numbers, 130);
	}
}

static size_t send_max(const struct pair *me)
{
	pf_attributes attributes;

	pf_query(me->context, &attributes);
	return attributes.send_max;
}

/* Values of each side: 0 received, 1 which peers they came from. */
static void check_message(pf_context *context, pf_peer *from, uint8_t tag, void *data,
			  size_t length, void *arg)
{
	struct pair *me = arg;
	uint64_t n = atomic_load(pair_value(me, me->side, 0));

	pair_check(me, context == me->context);
	pair_check(me, pf_peer_user(from) == me || !pf_peer_user(from));
	pair_check(me, (uintptr_t)data % 8 == 0);
	pair_check(me, tag == (uint8_t)(n * 7));
	pair_check(me, length == length_of(n, send_max(me)));
	pair_check(me, pattern_differs(data, length, n) == length);
	/* The buffer is the receiver's as long as the call lasts. */
	memset(data, 0xdd, length);
	atomic_store(pair_value(me, me->side, 0), n + 1);
}

static struct pair *start(void **state, pf_receive_fn receive)
{
	enum mode mode = (enum mode)(uintptr_t)*state;
	struct pair_setup setup = {
		.here = options_of(mode),
		.there = options_of(mode),
		.receive = receive,
		.receive_here = receive,
	};

	return pair_start(&setup);
}

static void await_received(struct pair *me, unsigned side, uint64_t count)
{
	while (atomic_load(pair_value(me, side, 0)) < count)
		pair_progress(me);
}

#define SEQUENCE 200000

static void test_sequence(void **state)
{
	struct pair *pair = start(state, check_message);
	uint8_t *bytes = malloc(send_max(pair));
	const uint64_t count = REPEAT(SEQUENCE);
	uint64_t n, total = 0;

	assert_non_null(bytes);
	for (n = 0; n < count; n++) {
		size_t length = length_of(n, send_max(pair)),
		       header = length < 24 ? length / 2 : 24;
		int status;

		/* Reusing the buffer at once: it is free on return. */
		pattern_fill(bytes, length, n);
		while ((status = pf_send(pair->peer, (uint8_t)(n * 7), bytes, header,
					 bytes + header, length - header)) == PF_ERR_AGAIN)
			pair_progress(pair);
		assert_int_equal(status, PF_DONE);
		total += length;
	}
	await_received(pair, 1, count);
	assert_int_equal(pf_stat(pair->context, PF_STAT_SENDS), count);
	assert_int_equal(pf_stat(pair->context, PF_STAT_SEND_BYTES), total);
	free(bytes);
	pair_end(pair);
}

struct packing {
	const uint8_t *bytes;
	unsigned calls;
};

static void pack(void *destination, size_t length, void *arg)
{
	struct packing *packing = arg;

	memcpy(destination, packing->bytes, length);
	packing->calls++;
}

static void test_pack(void **state)
{
	struct pair *pair = start(state, check_message);
	uint8_t *bytes = malloc(send_max(pair));
	unsigned again = 0;
	uint64_t n;

	assert_non_null(bytes);
	for (n = 0; n < 20000; n++) {
		size_t length = length_of(n, send_max(pair)), header = length < 10 ? 0 : 10;
		struct packing packing = { bytes + header, 0 };
		int status;

		pattern_fill(bytes, length, n);
		for (;;) {
			status = pf_send_pack(pair->peer, (uint8_t)(n * 7), bytes, header,
					      length - header, pack, &packing);
			if (status != PF_ERR_AGAIN)
				break;
			assert_int_equal(packing.calls, 0);
			again++;
			pair_progress(pair);
		}
		assert_int_equal(status, PF_DONE);
		assert_int_equal(packing.calls, 1);
	}
	await_received(pair, 1, n);
	assert_int_equal(pf_stat(pair->context, PF_STAT_RING_FULL), again);
	free(bytes);
	pair_end(pair);
}

static void test_lengths(void **state)
{
	struct pair *pair = start(state, NULL);
	size_t most = send_max(pair);
	uint8_t *bytes = calloc(1, most + 1);

	assert_non_null(bytes);
	assert_int_equal(pf_send(pair->peer, 0, bytes, most + 1, NULL, 0), PF_ERR_TOO_LONG);
	assert_int_equal(pf_send(pair->peer, 0, NULL, 0, bytes, most + 1), PF_ERR_TOO_LONG);
	assert_int_equal(pf_send(pair->peer, 0, bytes, 1, bytes, most), PF_ERR_TOO_LONG);
	assert_int_equal(pf_send(pair->peer, 0, bytes, 16, bytes, SIZE_MAX - 7), PF_ERR_TOO_LONG);
	assert_int_equal(pf_send(pair->peer, 0, bytes, 8, bytes, most - 8), PF_DONE);
	assert_int_equal(pair_send(pair, pair->peer, 0, bytes, most), PF_DONE);
	assert_int_equal(pair_send(pair, pair->peer, 0, NULL, 0), PF_DONE);
	assert_int_equal(pf_stat(pair->context, PF_STAT_SENDS), 3);
	free(bytes);
	pair_end(pair);
}

static void wait_away(struct pair *me)
{
	pair_await(me, 0, 1);
	pair_say(me, 1);
	pair_watch(me, 0, 2);
	pair_serve(me);
}

/* The receiver does not look: the ring fills, says so, loses nothing, and goes on later. */
static void test_full(void **state)
{
	enum mode mode = (enum mode)(uintptr_t)*state;
	struct pair_setup setup = {
		.here = options_of(mode),
		.there = options_of(mode),
		.receive = check_message,
		.partner = wait_away,
	};
	struct pair *pair = pair_start(&setup);
	uint8_t *bytes = malloc(send_max(pair));
	uint64_t n = 0, stuck = 0;
	int status;

	assert_non_null(bytes);
	pair_say(pair, 1);
	pair_await(pair, 1, 1);
	while (stuck < 1000) {
		size_t length = length_of(n, send_max(pair));

		pattern_fill(bytes, length, n);
		status = pf_send(pair->peer, (uint8_t)(n * 7), NULL, 0, bytes, length);
		if (status == PF_DONE) {
			n++;
			continue;
		}
		assert_int_equal(status, PF_ERR_AGAIN);
		stuck++;
		pf_progress(pair->context);
	}
	assert_int_equal(pf_stat(pair->context, PF_STAT_RING_FULL), stuck);
	assert_int_equal(atomic_load(pair_value(pair, 1, 0)), 0);
	pair_say(pair, 2);
	for (; n < 5000; n++) {
		pattern_fill(bytes, length_of(n, send_max(pair)), n);
		assert_int_equal(pair_send(pair, pair->peer, (uint8_t)(n * 7), bytes,
					   length_of(n, send_max(pair))),
				 PF_DONE);
	}
	await_received(pair, 1, n);
	free(bytes);
	pair_end(pair);
}

/* Each message is answered from inside the callback; one may not find room there, so count on it. */
static void bounce(pf_context *context, pf_peer *from, uint8_t tag, void *data, size_t length,
		   void *arg)
{
	struct pair *me = arg;
	uint64_t n = atomic_fetch_add(pair_value(me, me->side, 0), 1);

	pair_check(me, length == 8 && !memcmp(data, &n, 8) && tag == 3);
	/* From a callback: nothing happens, and it comes back. */
	pair_check(me, pf_progress(context) == 0);
	if (me->side) {
		pair_check(me, pf_send(from, 3, data, length, NULL, 0) == PF_DONE);
	} else if (n + 1 < atomic_load(pair_value(me, 0, 1))) {
		n++;
		pair_check(me, pf_send(from, 3, &n, 8, NULL, 0) == PF_DONE);
	}
}

static void test_callback(void **state)
{
	struct pair *pair = start(state, bounce);
	uint64_t first = 0;

	atomic_store(pair_value(pair, 0, 1), 20000);
	assert_int_equal(pf_send(pair->peer, 3, &first, 8, NULL, 0), PF_DONE);
	await_received(pair, 0, 20000);
	assert_int_equal(atomic_load(pair_value(pair, 1, 0)), 20000);
	pair_end(pair);
}

/* Both stream at each other as fast as the rings take it. */
static void stream(struct pair *me)
{
	uint8_t bytes[2048];
	uint64_t n;

	for (n = 0; n < REPEAT(50000); n++) {
		size_t length = length_of(n, send_max(me));

		if (length > sizeof(bytes))
			length = sizeof(bytes);
		pair_check_status(me, pair_send(me, me->peer, (uint8_t)n, bytes, length), PF_DONE);
	}
	await_received(me, me->side, REPEAT(50000));
}

static void stream_partner(struct pair *me)
{
	stream(me);
	pair_say(me, 1);
	pair_serve(me);
}

static void count_message(pf_context *context, pf_peer *from, uint8_t tag, void *data,
			  size_t length, void *arg)
{
	struct pair *me = arg;

	pair_check(me, tag == (uint8_t)atomic_fetch_add(pair_value(me, me->side, 0), 1));
}

static void test_both_ways(void **state)
{
	enum mode mode = (enum mode)(uintptr_t)*state;
	struct pair_setup setup = {
		.here = options_of(mode),
		.there = options_of(mode),
		.receive = count_message,
		.receive_here = count_message,
		.partner = stream_partner,
	};
	struct pair *pair = pair_start(&setup);

	stream(pair);
	pair_await(pair, 1, 1);
	pair_end(pair);
}

/* Nobody set a receive callback: messages are dropped, and make room. */
static void test_no_receiver(void **state)
{
	struct pair *pair = start(state, NULL);
	int i;

	for (i = 0; i < 100000; i++)
		assert_int_equal(pair_send(pair, pair->peer, 0, "abcdefgh", 8), PF_DONE);
	pair_end(pair);
}

#define PARTNERS 12 /* more than POLLED_MOST */
#define ROUNDS 2000

static void count_sender(pf_context *context, pf_peer *from, uint8_t tag, void *data, size_t length,
			 void *arg)
{
	struct pair *me = arg;
	uint32_t message[2];

	assert_int_equal(length, sizeof(message));
	memcpy(message, data, sizeof(message));
	assert_in_range(message[0], 1, PARTNERS);
	assert_ptr_equal(from, pair_peer(me, message[0]));
	/* The next of that partner's, not another. */
	assert_int_equal(((uint32_t *)me->user)[message[0]]++, message[1]);
}

static void send_on_turn(struct pair *me)
{
	uint32_t message[2] = { me->side, 0 };

	/* A few at a time with pauses, so that nobody stays among the polled. */
	while (message[1] < ROUNDS) {
		if (message[1] % 50 == 0)
			usleep(1000 * (me->side % 4));
		pair_check(me, pair_send(me, me->peer, 0, message, sizeof(message)) == PF_DONE);
		message[1]++;
	}
	pair_serve(me);
}

static void test_many_peers(void **state)
{
	enum mode mode = (enum mode)(uintptr_t)*state;
	struct pair_setup setup = {
		.partners = PARTNERS,
		.here = options_of(mode),
		.there = options_of(mode),
		.receive_here = count_sender,
		.partner = send_on_turn,
	};
	struct pair *pair = pair_start(&setup);
	uint32_t received[PAIR_SIDES] = { 0 };
	unsigned i;

	pair->user = received;
	for (i = 1; i <= PARTNERS; i++) {
		while (received[i] < ROUNDS)
			pair_progress(pair);
	}
	pair_end(pair);
}

/* A token that goes round many peers in turn: each time to one that is silent otherwise. */
static void pass_on(pf_context *context, pf_peer *from, uint8_t tag, void *data, size_t length,
		    void *arg)
{
	struct pair *me = arg;

	if (me->side)
		pair_check(me, pf_send(from, tag, data, length, NULL, 0) == PF_DONE);
	else
		atomic_fetch_add(pair_value(me, 0, 0), 1);
}

static void test_round_robin(void **state)
{
	enum mode mode = (enum mode)(uintptr_t)*state;
	struct pair_setup setup = {
		.partners = PARTNERS,
		.here = options_of(mode),
		.there = options_of(mode),
		.receive_here = pass_on,
		.receive = pass_on,
	};
	struct pair *pair;
	uint64_t round;

	/* Sharing two cores between so many is a matter of sleeping. */
	setup.there.idle_polls = PF_IDLE_POLLS_SHARED_CORE;
	pair = pair_start(&setup);
	for (round = 0; round < 1200; round++) {
		unsigned side = 1 + (unsigned)(round % PARTNERS);

		assert_int_equal(pair_send(pair, pair_peer(pair, side), 0, "token", 5), PF_DONE);
		await_received(pair, 0, round + 1);
	}
	pair_end(pair);
}

#define IN_MODE(test, mode)                                                                        \
	{                                                                                          \
#test " " #mode, test, NULL, pair_teardown, (void *)(uintptr_t)MODE_##mode         \
	}
#define IN_ALL(test)                                                                               \
	IN_MODE(test, DEFAULT), IN_MODE(test, SMALL_RING), IN_MODE(test, THREADS),                 \
		IN_MODE(test, IDLE)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_ALL(test_sequence),
		IN_ALL(test_pack),
		IN_ALL(test_lengths),
		IN_ALL(test_full),
		IN_ALL(test_callback),
		IN_ALL(test_both_ways),
		IN_ALL(test_no_receiver),
		IN_MODE(test_many_peers, DEFAULT),
		IN_MODE(test_many_peers, IDLE),
		IN_MODE(test_round_robin, DEFAULT),
		IN_MODE(test_round_robin, IDLE),
	};

	return cmocka_run_group_tests_name("send", tests, NULL, NULL);
}

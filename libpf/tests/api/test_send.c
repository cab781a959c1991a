/* SPDX-License-Identifier: BSD-3-Clause */
/* Active messages: in order, exactly once, complete, for every length and however full the ring. */
#include "pair.h"

#include <unistd.h>

#include "host/message.h"
#include "host/peer.h"

/* Length, tag and bytes of the nth message of a sequence depend on n alone. */
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

static uint32_t tag_of(uint64_t n)
{
	return (uint32_t)(n * 0x9e3779b9u);
}

static size_t send_max(const struct pair *me)
{
	pf_attributes attributes;

	pf_query(me->context, &attributes, sizeof(attributes));
	return attributes.send_max;
}

/* Number 0 of each side counts what it has received. */
static void check_message(pf_context *context, pf_peer *from, uint32_t tag, void *data,
			  size_t length, void *arg)
{
	struct pair *me = arg;
	uint64_t n = *pair_value(me, me->side, 0);

	pair_check(me, context == me->context);
	pair_check(me, pf_peer_user(from) == me || !pf_peer_user(from));
	pair_check(me, (uintptr_t)data % 8 == 0);
	pair_check(me, tag == tag_of(n));
	pair_check(me, length == length_of(n, send_max(me)));
	pair_check_pattern(me, data, length, n);
	/* The receiver may write to the buffer during the call. */
	memset(data, 0xdd, length);
	*pair_value(me, me->side, 0) = n + 1;
}

static struct pair *start(void **state, pf_receive_fn receive)
{
	return pair_open(state, .receive = receive, .receive_here = receive);
}

#define SEQUENCE 200000

static void test_sequence(void **state)
{
	struct pair *pair = start(state, check_message);
	uint8_t *bytes = test_alloc(send_max(pair));
	const uint64_t count = REPEAT(SEQUENCE);
	uint64_t n, total = 0;

	for (n = 0; n < count; n++) {
		size_t length = length_of(n, send_max(pair)),
		       header = length < 24 ? length / 2 : 24;
		int status;

		/* pf_send has copied the bytes when it returns: the next message reuses the buffer. */
		pattern_fill(bytes, length, n);
		while ((status = pf_send(pair->peer, tag_of(n), bytes, header, bytes + header,
					 length - header)) == PF_ERR_AGAIN)
			pair_progress(pair);
		assert_status(status, PF_OK);
		total += length;
	}
	pair_await_value(pair, 1, 0, count);
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
	uint8_t *bytes = test_alloc(send_max(pair));
	unsigned again = 0;
	uint64_t n;

	for (n = 0; n < 20000; n++) {
		size_t length = length_of(n, send_max(pair)), header = length < 10 ? 0 : 10;
		struct packing packing = { bytes + header, 0 };
		int status;

		pattern_fill(bytes, length, n);
		while ((status = pf_send_pack(pair->peer, tag_of(n), bytes, header, length - header,
					      pack, &packing)) == PF_ERR_AGAIN) {
			assert_int_equal(packing.calls, 0);
			again++;
			pair_progress(pair);
		}
		assert_status(status, PF_OK);
		assert_int_equal(packing.calls, 1);
	}
	pair_await_value(pair, 1, 0, n);
	assert_int_equal(pf_stat(pair->context, PF_STAT_RING_FULL), again);
	free(bytes);
	pair_end(pair);
}

/* Header and place of the payload in a cache line, of the nth message in pieces. */
static size_t header_of(uint64_t n)
{
	return n % 41 * 5;
}

static size_t place_of(uint64_t n)
{
	return n * 13 % MESSAGE_ALIGNMENT;
}

static size_t long_length_of(uint64_t n)
{
	return header_of(n) + MESSAGE_PIECES_LEAST + n * 977 % 50000;
}

static void check_pieces(pf_context *context, pf_peer *from, uint32_t tag,
			 const struct iovec *pieces, unsigned count, void *arg)
{
	struct pair *me = arg;
	uint64_t n = *pair_value(me, me->side, 0);
	uint8_t *bytes = test_alloc(long_length_of(n));
	size_t first = pieces[0].iov_len, rest = pieces[1].iov_len;

	pair_check(me, count == 2);
	pair_check(me, first >= PF_PIECE_FIRST && first >= header_of(n) && first % 8 == 0);
	pair_check(me, (uintptr_t)pieces[0].iov_base % 8 == 0);
	pair_check(me, (uintptr_t)pieces[1].iov_base % MESSAGE_ALIGNMENT ==
			       (place_of(n) + first - header_of(n)) % MESSAGE_ALIGNMENT);
	pair_check(me, first + rest == long_length_of(n));
	memcpy(bytes, pieces[0].iov_base, first);
	memcpy(bytes + first, pieces[1].iov_base, rest);
	pair_check_pattern(me, bytes, first + rest, n);
	free(bytes);
	*pair_value(me, me->side, 0) = n + 1;
}

static bool takes_pieces(struct host_peer *peer)
{
	bool takes;

	host_peer_lock(peer);
	takes = host_peer_takes_pieces(peer);
	host_peer_unlock(peer);
	return takes;
}

/* Long messages lie in the ring as in the sender's cache lines, if the receiver takes pieces. */
static void test_pieces(void **state)
{
	struct pair *pair = pair_open(state, .receive_pieces = check_pieces);
	uint8_t *bytes = test_alloc(long_length_of(0) + 50000 + 200), *payload, *area;
	const uint64_t count = REPEAT(2000);
	uint64_t n;

	area = aligned_alloc(MESSAGE_ALIGNMENT, 1 << 16);
	assert_non_null(area);
	/* The receiver says that it takes pieces when it begins to read; it drops this message. */
	assert_status(pf_send(pair->peer, 0, "hello", 5, NULL, 0), PF_OK);
	while (!takes_pieces((struct host_peer *)pair->peer))
		pair_progress(pair);
	for (n = 0; n < count; n++) {
		size_t length = long_length_of(n), header = header_of(n);
		int status;

		pattern_fill(bytes, length, n);
		payload = area + place_of(n);
		memcpy(payload, bytes + header, length - header);
		while ((status = pf_send(pair->peer, 0, bytes, header, payload, length - header)) ==
		       PF_ERR_AGAIN)
			pair_progress(pair);
		assert_status(status, PF_OK);
	}
	pair_await_value(pair, 1, 0, count);
	free(area);
	free(bytes);
	pair_end(pair);
}

static void test_lengths(void **state)
{
	struct pair *pair = start(state, NULL);
	size_t most = send_max(pair), i;
	const struct {
		size_t header, payload;
		int status;
	} cases[] = {
		{ most + 1, 0, PF_ERR_TOO_LONG },
		{ 0, most + 1, PF_ERR_TOO_LONG },
		{ 1, most, PF_ERR_TOO_LONG },
		{ 16, SIZE_MAX - 7, PF_ERR_TOO_LONG },
		{ 8, most - 8, PF_OK },
		{ 0, most, PF_OK },
		{ 0, 0, PF_OK },
	};
	uint8_t *bytes = test_alloc(most + 1);
	int status;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		while ((status = pf_send(pair->peer, 0, cases[i].header ? bytes : NULL,
					 cases[i].header, cases[i].payload ? bytes : NULL,
					 cases[i].payload)) == PF_ERR_AGAIN)
			pair_progress(pair);
		assert_status(status, cases[i].status);
	}
	assert_int_equal(pf_stat(pair->context, PF_STAT_SENDS), 3);
	free(bytes);
	pair_end(pair);
}

static void stop_polling(struct pair *me)
{
	pair_await(me, 0, 1);
	pair_say(me, 1);
	pair_watch(me, 0, 2);
}

/* The receiver does not poll: the ring fills, pf_send says so, nothing is lost. */
static void test_full(void **state)
{
	struct pair *pair = pair_open(state, .receive = check_message, .work = stop_polling);
	uint8_t *bytes = test_alloc(send_max(pair));
	uint64_t n = 0, stuck = 0;
	size_t length;
	int status;

	pair_say(pair, 1);
	pair_await(pair, 1, 1);
	while (stuck < 1000) {
		length = length_of(n, send_max(pair));
		pattern_fill(bytes, length, n);
		status = pf_send(pair->peer, tag_of(n), NULL, 0, bytes, length);
		if (status == PF_OK) {
			n++;
			continue;
		}
		assert_status(status, PF_ERR_AGAIN);
		stuck++;
		pf_progress(pair->context);
	}
	assert_int_equal(pf_stat(pair->context, PF_STAT_RING_FULL), stuck);
	assert_int_equal(*pair_value(pair, 1, 0), 0);
	pair_say(pair, 2);
	for (; n < 5000; n++) {
		length = length_of(n, send_max(pair));
		pattern_fill(bytes, length, n);
		assert_status(pair_send(pair, pair->peer, tag_of(n), bytes, length), PF_OK);
	}
	pair_await_value(pair, 1, 0, n);
	free(bytes);
	pair_end(pair);
}

#define BOUNCES 20000

/* Answer each message from the callback that received it: the ring always has room for one. */
static void bounce(pf_context *context, pf_peer *from, uint32_t tag, void *data, size_t length,
		   void *arg)
{
	struct pair *me = arg;
	uint64_t n = (*pair_value(me, me->side, 0))++, next = n + !me->side;

	pair_check(me, length == 8 && !memcmp(data, &n, 8) && tag == 3);
	/* In a callback pf_progress does nothing and returns. */
	pair_check(me, pf_progress(context) == 0);
	if (next < BOUNCES)
		pair_check_status(me, pf_send(from, 3, &next, 8, NULL, 0), PF_OK);
}

static void test_callback(void **state)
{
	struct pair *pair = start(state, bounce);
	uint64_t first = 0;

	assert_status(pf_send(pair->peer, 3, &first, 8, NULL, 0), PF_OK);
	pair_await_value(pair, 0, 0, BOUNCES);
	assert_int_equal(*pair_value(pair, 1, 0), BOUNCES);
	pair_end(pair);
}

/* Both sides send as fast as the rings accept. */
static void stream(struct pair *me)
{
	uint8_t bytes[2048];
	uint64_t n;

	for (n = 0; n < REPEAT(50000); n++) {
		size_t length = length_of(n, sizeof(bytes));

		if (length > sizeof(bytes))
			length = sizeof(bytes);
		pair_check_status(me, pair_send(me, me->peer, (uint8_t)n, bytes, length), PF_OK);
	}
	pair_await_value(me, me->side, 0, REPEAT(50000));
}

static void check_tag(pf_context *context, pf_peer *from, uint32_t tag, void *data, size_t length,
		      void *arg)
{
	struct pair *me = arg;

	pair_check(me, tag == (uint8_t)(*pair_value(me, me->side, 0))++);
}

static void test_both_ways(void **state)
{
	struct pair *pair = pair_open(state, .receive = check_tag, .receive_here = check_tag,
				      .work = stream);

	stream(pair);
	pair_await(pair, 1, PAIR_DONE);
	pair_end(pair);
}

#define PARTNERS 12 /* more than POLLED_MOST */
#define ROUNDS 2000

static void check_sender(pf_context *context, pf_peer *from, uint32_t tag, void *data,
			 size_t length, void *arg)
{
	struct pair *me = arg;
	uint32_t message[2];

	assert_int_equal(length, sizeof(message));
	memcpy(message, data, sizeof(message));
	assert_in_range(message[0], 1, PARTNERS);
	assert_ptr_equal(from, pair_peer(me, message[0]));
	/* Messages of one partner arrive in order. */
	assert_int_equal(((uint32_t *)me->user)[message[0]]++, message[1]);
}

/* A few at a time, with pauses, so that the set of polled peers changes. */
static void send_in_bursts(struct pair *me)
{
	uint32_t message[2] = { me->side, 0 };

	for (; message[1] < ROUNDS; message[1]++) {
		if (message[1] % 50 == 0)
			usleep(1000 * (me->side % 4));
		pair_check_status(me, pair_send(me, me->peer, 0, message, sizeof(message)), PF_OK);
	}
}

static void test_many_peers(void **state)
{
	struct pair *pair = pair_open(state, .partners = PARTNERS, .receive_here = check_sender,
				      .work = send_in_bursts);
	uint32_t received[PAIR_SIDES] = { 0 };
	unsigned i;

	pair->user = received;
	for (i = 1; i <= PARTNERS; i++) {
		while (received[i] < ROUNDS)
			pair_progress(pair);
	}
	pair_end(pair);
}

static void send_back(pf_context *context, pf_peer *from, uint32_t tag, void *data, size_t length,
		      void *arg)
{
	pair_check_status((struct pair *)arg, pf_send(from, tag, data, length, NULL, 0), PF_OK);
}

/* One message at a time to each of many peers in turn: each time to one that was silent. */
static void test_round_robin(void **state)
{
	struct pair_setup setup = { PAIR_MODE(state), .partners = PARTNERS,
				    .receive_here = pair_count_message, .receive = send_back };
	struct pair *pair;
	uint64_t round;

	/* The partners share the processors: they have to sleep. */
	setup.there.wake = 1;
	pair = pair_start(&setup);
	for (round = 0; round < 1200; round++) {
		pf_peer *peer = pair_peer(pair, 1 + (unsigned)(round % PARTNERS));

		assert_status(pair_send(pair, peer, 0, "token", 5), PF_OK);
		pair_await_value(pair, 0, 0, round + 1);
	}
	pair_end(pair);
}

/* Number "side" of the sender: messages to that side. */
static uint64_t sent_to(struct pair *me, unsigned side)
{
	return *pair_value(me, 1, side);
}

/* Until there is no room for more, here and there. */
static void fill(struct pair *me, unsigned side)
{
	static const uint8_t bytes[1000];
	pf_peer *peer = pair_peer(me, side);
	unsigned full = 0;
	uint64_t n = 0;
	int status;

	while (full < 100) {
		status = pf_send(peer, 0, bytes, sizeof(bytes), NULL, 0);
		if (status == PF_OK) {
			n++;
			full = 0;
			continue;
		}
		pair_check_status(me, status, PF_ERR_AGAIN);
		full++;
		usleep(1000);
		pair_progress(me);
	}
	*pair_value(me, me->side, side) = n;
}

/* us: more than LINGER, and far less than LINGER_MESSAGES of libpf/net/network.c */
#define LATE 700000

/* Late after the sender has sent, or after side 0 has taken everything. */
static void take_late(struct pair *me)
{
	while (!sent_to(me, 0) || !sent_to(me, 2))
		usleep(100);
	while (me->side && *pair_value(me, 0, 0) < sent_to(me, 0))
		usleep(100);
	usleep(LATE);
	pair_await_value(me, me->side, 0, sent_to(me, me->side));
}

/* The first partner closes when it has sent, before the others take anything. */
static void send_and_close(struct pair *me)
{
	if (me->side == 1) {
		fill(me, 0);
		fill(me, 2);
	} else {
		take_late(me);
	}
}

/* What a sender leaves behind is delivered, one receiver after the other. */
static void test_late_receivers(void **state)
{
	struct pair *pair = pair_open(state, .partners = 2, .partner = send_and_close,
				      .receive = pair_count_message,
				      .receive_here = pair_count_message);

	take_late(pair);
	pair_wait_exit(pair, 2);
	assert_int_equal(*pair_value(pair, 2, 0), sent_to(pair, 2));
	pair_end(pair);
}

#define IN_ALL(test)                                                                               \
	IN_MODE(test, DEFAULT), IN_MODE(test, SMALL_RING), IN_MODE(test, THREADS),                 \
		IN_MODE(test, WAIT)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_ALL(test_sequence),
		IN_ALL(test_pack),
		IN_MODE_UNLESS(net, test_pieces, DEFAULT),
		IN_MODE_UNLESS(net, test_pieces, THREADS),
		IN_ALL(test_lengths),
		IN_ALL(test_full),
		IN_ALL(test_callback),
		IN_ALL(test_both_ways),
		IN_MODE(test_late_receivers, DEFAULT),
		IN_MODE(test_many_peers, DEFAULT),
		IN_MODE(test_many_peers, WAIT),
		IN_MODE(test_round_robin, DEFAULT),
		IN_MODE(test_round_robin, WAIT),
	};

	return pair_run_tests("send", tests);
}

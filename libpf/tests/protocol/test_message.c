/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages and atomics: in order, once; sent at once, or several in a packet when they have to wait. */
#include "unit.h"

#include "protocol/association.h"
#include "protocol/message.h"
#include "protocol/world.h"

static uint32_t received, mistakes;
static size_t longest;

/* A message is its number and a pattern. */
static void check_message(struct host *host, struct host *from, uint32_t tag, const void *data,
			  size_t length)
{
	uint32_t number;

	memcpy(&number, data, sizeof(number));
	if (number != received || tag != (uint8_t)number || (uintptr_t)data % 8 ||
	    pattern_differs((const uint8_t *)data + sizeof(number), length - sizeof(number),
			    number) != length - sizeof(number))
		mistakes++;
	received++;
	if (length > longest)
		longest = length;
}

static struct world *make(uint32_t loss, uint32_t reorder)
{
	struct settings settings;
	struct world *world;

	settings_init(&settings);
	settings.loss = settings.duplicate = loss;
	settings.reorder = reorder;
	settings.jitter = 100 * MICROSECOND;
	world = world_create(&settings);
	world->hosts[1].deliver = check_message;
	received = mistakes = 0;
	longest = 0;
	return world;
}

static int send(struct world *world, uint32_t number, size_t length)
{
	static uint8_t payload[NET_MESSAGE_MOST];

	pattern_fill(payload, length, number);
	return net_send(host_peer(&world->hosts[0], 1), (uint8_t)number, &number, sizeof(number),
			payload, length);
}

/* Send what host 0 has, and handle events for this time. */
static void pump(struct world *world, uint64_t time)
{
	host_pump(&world->hosts[0]);
	world_pass(world, time);
}

static void check_received(struct world *world, uint32_t count)
{
	assert_int_equal(received, count);
	assert_int_equal(mistakes, 0);
	assert_false(world->failed);
}

static void check_many(uint32_t loss, uint32_t reorder, unsigned count)
{
	struct random_numbers numbers = random_start("messages");
	struct world *world = make(loss, reorder);
	uint32_t sent = 0;

	while (sent < count) {
		uint64_t length = random_below(&numbers, 20) ?
					  random_below(&numbers, 300) :
					  random_below(&numbers, NET_MESSAGE_MOST - 4);
		int status = send(world, sent, length);

		if (status == PF_OK) {
			sent++;
		} else {
			assert_status(status, PF_ERR_AGAIN);
			pump(world, 20 * MICROSECOND);
		}
	}
	pump(world, 10 * SECOND);
	check_received(world, sent);
	assert_true(longest > 10000);
	world_destroy(world);
}

static void test_in_order_once(void **state)
{
	check_many(0, 0, 5000);
	check_many(PER_MILLION(50000), PER_MILLION(200000), 5000);
}

/* The payload is sent from where it lies, and what is lost of it from the ring. */
static void test_lent(void **state)
{
	static const uint32_t losses[] = { 0, PER_MILLION(200000) };
	uint8_t *payload = test_alloc(NET_MESSAGE_MOST);
	uint32_t number, loss;
	int status;

	for (loss = 0; loss < ARRAY_SIZE(losses); loss++) {
		struct world *world = make(losses[loss], 0);
		struct host *host = &world->hosts[0];

		for (number = 0; number < 300;) {
			size_t length = 1 + (size_t)number * 997 % (NET_MESSAGE_MOST - 64);

			pattern_fill(payload, length, number);
			status = net_send_lent(host_peer(host, 1), (uint8_t)number, &number,
					       sizeof(number), payload, length);
			host_pump(host);
			net_keep(host->core);
			memset(payload, 0xee, length);
			number += status == PF_OK;
			world_pass(world, 100 * MICROSECOND);
		}
		world_pass(world, 10 * SECOND);
		check_received(world, number);
		world_destroy(world);
	}
	free(payload);
}

/* A message in several packets that are received together needs no copy: it is taken in pieces. */
static void test_pieces(void **state)
{
	static const size_t lengths[] = { 9000, 12345, 16384, 30000, 65536, 100 };
	struct world *world = make(0, 0);
	unsigned i, j, mode;

	world->settings.away = UINT32_MAX;
	for (mode = NET_LENT_PIECES; mode <= NET_LENT_PIECES; mode--) {
		struct host *host = &world->hosts[1];

		host->lent = mode;
		host->in_pieces = received = 0;
		for (i = 0; i < 10; i++) {
			for (j = 0; j < ARRAY_SIZE(lengths); j++) {
				/* Two at once: the second begins inside of a packet. */
				assert_status(send(world, 2 * j, lengths[j]), PF_OK);
				assert_status(send(world, 2 * j + 1, lengths[j] + 4), PF_OK);
				pump(world, 10 * MILLISECOND);
			}
			check_received(world, 2 * ARRAY_SIZE(lengths));
			received = 0;
		}
		if (mode == NET_LENT_PIECES)
			assert_true(host->in_pieces > 50);
		else
			assert_int_equal(host->in_pieces, 0);
	}
	world_destroy(world);
}

/* A packet that is received together with one of odd length is aligned too. */
static void test_behind_odd_length(void **state)
{
	struct world *world = make(0, 0);
	uint32_t i;

	world->settings.away = UINT32_MAX;
	for (i = 0; i < 100; i++) {
		host_put(&world->hosts[0], 0, 1, 0, 101 + i, NULL);
		assert_status(send(world, i, 20), PF_OK);
		pump(world, MILLISECOND);
	}
	world_pass(world, SECOND);
	check_received(world, 100);
	world_destroy(world);
}

static const struct net_statistics *of(const struct world *world, unsigned host)
{
	return net_statistics(world->hosts[host].core);
}

/*
 * The acknowledgement of a message waits for the answer, for answer_delay, and the sender learns not to
 * ask before. That of many packets waits for a moment, or not if the core is told so.
 */
static void test_waits_for_answer(void **state)
{
	struct world *world = make(0, 0);
	uint64_t acknowledgements, probes;
	uint32_t i;

	for (i = 0; i < 20; i++) {
		assert_status(send(world, i, 20), PF_OK);
		pump(world, 50 * MILLISECOND);
	}
	acknowledgements = of(world, 1)->acks_sent;
	probes = of(world, 0)->tail_probes;
	assert_status(send(world, 20, 20), PF_OK);
	pump(world, 9 * MILLISECOND);
	check_received(world, 21);
	assert_int_equal(of(world, 1)->acks_sent, acknowledgements);
	world_pass(world, 2 * MILLISECOND);
	assert_int_equal(of(world, 1)->acks_sent, acknowledgements + 1);
	assert_int_equal(of(world, 0)->tail_probes, probes);

	for (i = 21; i < 21 + WINDOW_ANSWERED + 1; i++) {
		assert_status(send(world, i, 20), PF_OK);
		host_pump(&world->hosts[0]);
	}
	while (received < i)
		world_pass(world, 100);
	assert_int_equal(of(world, 1)->acks_sent, acknowledgements + 1);
	net_acknowledge(world->hosts[1].core);
	host_pump(&world->hosts[1]);
	assert_int_equal(of(world, 1)->acks_sent, acknowledgements + 2);
	world_destroy(world);
}

/* Packets: of host 0 with a PING, of any with GOODBYE and ACK. */
static unsigned pings, goodbyes_with_ack;

static void count_frames(struct world *world, unsigned from, unsigned to, const uint8_t *packet,
			 size_t length)
{
	struct wire_header header;
	struct wire_frame frame;
	bool acknowledges = false;
	size_t at = WIRE_HEADER, took;

	assert_true(wire_get_header(packet, length, &header));
	if (header.type != WIRE_FRAMES)
		return;
	for (; at < WIRE_HEADER + (size_t)header.control; at += took) {
		took = wire_get_frame(packet + at, WIRE_HEADER + header.control - at, &frame);
		assert_true(took > 0);
		acknowledges |= frame.type == FRAME_ACK;
		pings += from == 0 && frame.type == FRAME_PING;
		goodbyes_with_ack += frame.type == FRAME_GOODBYE && acknowledges;
	}
}

/* Who has used half of its window asks for acknowledgements. */
static void test_asks_for_room(void **state)
{
	struct world *world = make(0, 0);
	uint32_t i;

	assert_status(send(world, 0, 20), PF_OK);
	pump(world, SECOND);
	world->tap = count_frames;
	pings = 0;
	assert_status(send(world, 1, 20), PF_OK);
	pump(world, 50 * MICROSECOND);
	assert_int_equal(pings, 0);
	world_pass(world, SECOND);
	for (i = 2; i < 100; i++)
		assert_status(send(world, i, 1000), PF_OK);
	/* Before a probe is due. */
	pump(world, 50 * MICROSECOND);
	assert_true(pings >= 4);
	world_pass(world, SECOND);
	check_received(world, 100);
	world_destroy(world);
}

/* Deadlines that acknowledgements moved away count in net_exact_deadline, and those that wait go at an end. */
static void test_end(void **state)
{
	struct world *world = make(0, 0);
	uint64_t acknowledgements;

	assert_status(send(world, 0, 20), PF_OK);
	pump(world, SECOND / 2);
	assert_status(send(world, 1, 20), PF_OK);
	host_pump(&world->hosts[0]);
	while (received < 2)
		world_pass(world, 100);
	acknowledgements = of(world, 1)->acks_sent;
	assert_true(net_exact_deadline(world->hosts[0].core) < world->now + 100 * MILLISECOND);
	net_linger(world->hosts[1].core);
	host_pump(&world->hosts[1]);
	assert_int_equal(of(world, 1)->acks_sent, acknowledgements + 1);
	world_pass(world, 50 * MICROSECOND);
	assert_true(net_exact_deadline(world->hosts[0].core) > world->now + 100 * MILLISECOND);
	/* What waits still goes with GOODBYE. */
	assert_status(send(world, 2, 20), PF_OK);
	host_pump(&world->hosts[0]);
	while (received < 3)
		world_pass(world, 100);
	world->tap = count_frames;
	goodbyes_with_ack = 0;
	net_close(host_peer(&world->hosts[1], 0));
	host_pump(&world->hosts[1]);
	assert_int_equal(goodbyes_with_ack, 1);
	world_destroy(world);
}

static void count_message(struct host *host, struct host *from, uint32_t tag, const void *data,
			  size_t length)
{
	received++;
}

/* Many packets of each of two peers are here: the acknowledgements for both go. */
static void test_acknowledges_all(void **state)
{
	struct settings settings;
	struct world *world;
	uint64_t acknowledgements;
	unsigned from, i;

	settings_init(&settings);
	settings.hosts = 3;
	world = world_create(&settings);
	world->hosts[1].deliver = count_message;
	received = 0;
	for (i = 0; i < WINDOW_ANSWERED + 2; i++) {
		for (from = 0; from < 3; from += 2) {
			assert_status(net_send(host_peer(&world->hosts[from], 1), 0, "word", 4,
					       NULL, 0),
				      PF_OK);
			host_pump(&world->hosts[from]);
		}
		/* The first ones open. */
		if (!i)
			world_pass(world, SECOND);
	}
	while (received < 2 * i)
		world_pass(world, 100);
	acknowledgements = of(world, 1)->acks_sent;
	net_acknowledge(world->hosts[1].core);
	host_pump(&world->hosts[1]);
	assert_int_equal(of(world, 1)->acks_sent, acknowledgements + 2);
	world_destroy(world);
}

static unsigned owed;

static void deliver_and_ask(struct host *host, struct host *from, uint32_t tag, const void *data,
			    size_t length)
{
	owed += net_owes(host->core);
	received++;
}

/* The acknowledgement of a message can wait for the answer; the completion of a put cannot. */
static void test_owes(void **state)
{
	struct world *world = make(0, 0);
	uint32_t i;

	world->hosts[1].deliver = deliver_and_ask;
	for (i = 0; i < 3; i++) {
		owed = 0;
		assert_status(send(world, i, 20), PF_OK);
		pump(world, 10 * MILLISECOND);
	}
	assert_int_equal(received, 3);
	assert_int_equal(owed, 0);
	host_stop(&world->hosts[1]);
	host_put(&world->hosts[0], 0, 1, 0, 100, NULL);
	world_pass(world, MILLISECOND / 2);
	assert_status(send(world, i, 20), PF_OK);
	pump(world, MILLISECOND / 2);
	host_continue(&world->hosts[1]);
	world_pass(world, 10 * MILLISECOND);
	assert_int_equal(received, 4);
	assert_int_equal(owed, 1);
	world_destroy(world);
}

/* A message is sent at once if the socket is idle; those behind it share packets. */
static void test_gathered(void **state)
{
	struct world *world = make(0, 0);
	const struct net_statistics *statistics = host_statistics(&world->hosts[0]);
	uint64_t before;
	uint32_t i;

	send(world, 0, 8);
	pump(world, MILLISECOND);
	check_received(world, 1);
	before = statistics->packets_sent;
	send(world, 1, 8);
	host_pump(&world->hosts[0]);
	assert_int_equal(statistics->packets_sent - before, 1);
	world_pass(world, MILLISECOND);
	before = statistics->packets_sent;
	for (i = 2; i < 1002; i++)
		assert_status(send(world, i, 8), PF_OK);
	pump(world, MILLISECOND);
	check_received(world, 1002);
	/* 24 bytes each: three packets of 8,952, and few acknowledgements. */
	assert_in_range(statistics->packets_sent - before, 3, 5);
	world_destroy(world);
}

static void test_too_long(void **state)
{
	struct world *world = make(0, 0);

	assert_status(send(world, 0, NET_MESSAGE_MOST - 3), PF_ERR_TOO_LONG);
	assert_status(send(world, 0, NET_MESSAGE_MOST - 4), PF_OK);
	pump(world, 10 * MILLISECOND);
	check_received(world, 1);
	world_destroy(world);
}

static bool transferred;

static void on_transferred(struct host *host, void *arg, const struct net_completion *completion)
{
	assert_ok(completion->status);
	transferred = true;
}

/* Send to a receiver that takes no messages until its buffer is full. Returns the next number. */
static uint32_t fill_receiver(struct world *world, uint32_t sent, size_t length)
{
	unsigned idle;

	world->hosts[1].closed = true;
	for (idle = 0; idle < 10; idle++) {
		for (; send(world, sent, length) == PF_OK; sent++)
			idle = 0;
		pump(world, MILLISECOND);
	}
	return sent;
}

/* The receiver takes its messages. The packets that tell of the new room are lost at this rate. */
static void empty_receiver(struct world *world, uint32_t loss)
{
	world->hosts[1].closed = false;
	world->settings.loss = loss;
	host_pump(&world->hosts[1]);
	world_pass(world, 50 * MICROSECOND);
	world->settings.loss = 0;
}

/* The packet that tells a waiting sender of new room is lost: it waits for a time-out, not longer. */
static void test_lost_credit(void **state)
{
	struct world *world = make(0, 0);
	uint32_t sent = 0, rounds;

	/* In the second round the receiver knows the round-trip time. */
	for (rounds = 0; rounds < 2; rounds++) {
		sent = fill_receiver(world, sent, 1000);
		empty_receiver(world, rounds ? UINT32_MAX : 0);
		assert_true(!rounds || received < sent);
		pump(world, 5 * MILLISECOND);
		check_received(world, sent);
	}
	world_destroy(world);
}

/* A receiver that does not take its messages stops their sender, and nothing else. */
static void test_credit(void **state)
{
	struct world *world = make(0, 0);
	uint32_t sent;

	sent = fill_receiver(world, 0, 1000);
	assert_int_equal(received, 0);
	/* As many as fit in the ring of the receiver, which stays short, and in that of the sender. */
	assert_in_range(sent * 1000, MESSAGE_RING_MOST, MESSAGE_RING_MOST + MESSAGE_RING);
	assert_int_equal(WORLD_SUM(world, lost), 0);
	assert_int_equal(WORLD_SUM(world, timeouts), 0);
	world->hosts[0].complete = on_transferred;
	transferred = false;
	host_put(&world->hosts[0], 0, 1, 0, 100000, NULL);
	world_pass(world, MILLISECOND);
	assert_true(transferred);
	world->hosts[1].closed = false;
	host_pump(&world->hosts[1]);
	world_pass(world, 200 * MILLISECOND);
	check_received(world, sent);
	world_destroy(world);
}

/* A receiver that takes what comes has room for more, and the sender's ring grows to it. */
static void test_window(void **state)
{
	struct world *world = make(0, 0);
	struct shared shared = { .busy = 1 };
	uint32_t sent = 0, held;

	for (; sent < 100; sent++) {
		assert_status(send(world, sent, 32768), PF_OK);
		pump(world, MILLISECOND);
	}
	/* What is under way when the ring grows lies in it at another place. */
	for (held = sent; send(world, sent, 32768) == PF_OK; sent++) {
		if (sent == held + 5)
			host_pump(&world->hosts[0]);
	}
	assert_in_range((sent - held) * 32768, MESSAGE_RING_MOST * 15 / 16, MESSAGE_RING_MOST);
	pump(world, SECOND);
	check_received(world, sent);
	world_destroy(world);

	assert_int_equal(message_window(&shared), MESSAGE_RING_MOST);
	shared.busy = 2 * MESSAGE_RINGS / MESSAGE_RING_MOST;
	assert_int_equal(message_window(&shared), MESSAGE_RING_MOST / 2);
	shared.busy = UINT32_MAX;
	assert_int_equal(message_window(&shared), MESSAGE_RING);
}

/*
 * A program sends more than the receiver has room for at first, and computes. No message is left to it:
 * the service thread sends them all.
 */
static void test_burst(void **state)
{
	struct world *world = make(0, 0);
	uint32_t sent = 0;

	/* The receiver grants no more room than at first. */
	assert_status(send(world, sent++, 100), PF_OK);
	pump(world, MILLISECOND);
	while (sent < 100)
		assert_status(send(world, sent++, 4096), PF_OK);
	pump(world, MILLISECOND);
	check_received(world, sent);
	world_destroy(world);
}

/* The receiver's ring grows to what waits in it, not to what it may hold, with lost packets. */
static void test_receive_ring(void **state)
{
	struct world *world = make(0, 0);
	struct host *receiver = &world->hosts[1];
	uint32_t sent = 0;
	size_t memory;

	receiver->lent = NET_NOT_LENT;
	for (; sent < 100; sent++) {
		assert_status(send(world, sent, 32768), PF_OK);
		pump(world, MILLISECOND);
	}
	check_received(world, sent);
	memory = net_association_memory(receiver->peers[0]);
	assert_true(memory < MESSAGE_RING_MOST / 2);
	receiver->closed = true;
	world->settings.loss = PER_MILLION(50000);
	for (; send(world, sent, 32768) == PF_OK; sent++)
		pump(world, MILLISECOND);
	world_pass(world, SECOND);
	check_received(world, 100);
	assert_true(net_association_memory(receiver->peers[0]) > MESSAGE_RING_MOST);
	receiver->closed = false;
	host_pump(receiver);
	pump(world, SECOND);
	check_received(world, sent);
	world_destroy(world);
}

/*
 * An association that was at rest: the peer may send more than was told in this use. When the
 * credit for what comes behind that is lost, the peer waits for a time-out, not longer.
 */
static void test_lost_credit_after_rest(void **state)
{
	struct world *world = make(0, 0);
	struct host *receiver = &world->hosts[1];
	struct net_association *peer;
	const struct exchange *exchange;
	uint32_t sent = 0;

	receiver->lent = NET_NOT_LENT;
	for (; sent < 100; sent++) {
		assert_status(send(world, sent, 32768), PF_OK);
		pump(world, MILLISECOND);
	}
	peer = receiver->peers[0];
	pump(world, 5 * SECOND);
	assert_null(peer->busy);
	sent = fill_receiver(world, sent, 32768);
	exchange = &peer->busy->exchange;
	assert_true(exchange->credit_told < exchange->in[STREAM_MESSAGE].next);
	empty_receiver(world, UINT32_MAX);
	assert_true(received < sent);
	pump(world, 200 * MILLISECOND);
	check_received(world, sent);
	world_destroy(world);
}

/* Credit that comes while the sender is at rest counts: its next message goes at once. */
static void test_credit_at_rest(void **state)
{
	struct world *world = make(0, 0);
	const struct net_association *peer;
	uint32_t sent = 0;

	/* Exactly what the receiver has room for: nothing of it waits at the sender. */
	world->hosts[1].closed = true;
	for (; sent < MESSAGE_RING / 8192; sent++) {
		assert_status(send(world, sent, 8192 - WIRE_MESSAGE_HEADER - sizeof(sent)), PF_OK);
		pump(world, MILLISECOND);
	}
	peer = world->hosts[0].peers[1];
	pump(world, 3 * SECOND);
	assert_null(peer->busy);
	world->hosts[1].closed = false;
	host_pump(&world->hosts[1]);
	pump(world, 5 * MILLISECOND);
	check_received(world, sent);
	assert_null(peer->busy);
	assert_status(send(world, sent, 100), PF_OK);
	pump(world, MILLISECOND);
	check_received(world, sent + 1);
	world_destroy(world);
}

#define ATOMICS 500

static uint64_t values[ATOMICS];
static unsigned answered;

static void on_value(struct host *host, void *arg, const struct net_completion *completion)
{
	assert_ok(completion->status);
	values[(uintptr_t)arg] = completion->value;
	answered++;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Each is executed once and returns its old value, whatever is lost or duplicated. */
static void test_atomics(void **state)
{
	struct world *world = make(PER_MILLION(100000), PER_MILLION(200000));
	struct host *host = &world->hosts[0];
	struct net_association *peer = host_peer(host, 1);
	uint64_t *target = (uint64_t *)(void *)(world->hosts[1].arena + 64);
	uint64_t address = host_address(&world->hosts[1], 64);
	unsigned i;

	*target = 7;
	answered = 0;
	host->complete = on_value;
	host_evict(&world->hosts[1], 0, 4096);
	for (i = 0; i < ATOMICS; i++)
		assert_pending(
			net_atomic(peer, PF_ATOMIC_ADD, 8, address, 1, 0, (void *)(uintptr_t)i));
	pump(world, 10 * SECOND);
	assert_int_equal(answered, ATOMICS);
	assert_int_equal(*target, 7 + ATOMICS);
	qsort(values, ATOMICS, sizeof(values[0]), compare);
	for (i = 0; i < ATOMICS; i++)
		assert_int_equal(values[i], 7 + i);
	assert_status(net_atomic(peer, PF_ATOMIC_ADD, 8, address + 4, 1, 0, NULL), PF_ERR_ARGUMENT);
	assert_status(net_atomic(peer, PF_ATOMIC_ADD, 2, address, 1, 0, NULL), PF_ERR_ARGUMENT);
	world_destroy(world);
}

static void on_bad(struct host *host, void *arg, const struct net_completion *completion)
{
	assert_status(completion->status, PF_ERR_FAULT);
	assert_int_equal(completion->side, PF_SIDE_REMOTE);
	assert_int_equal(completion->address, (uintptr_t)arg);
	answered++;
}

static void test_bad_atomic(void **state)
{
	struct world *world = make(0, 0);
	struct host *host = &world->hosts[0];
	uint64_t bad = host_address(&world->hosts[1], world->settings.arena);

	answered = 0;
	host->complete = on_bad;
	net_atomic(host_peer(host, 1), PF_ATOMIC_ADD, 8, bad, 1, 0, (void *)(uintptr_t)bad);
	pump(world, MILLISECOND);
	assert_int_equal(answered, 1);
	world_destroy(world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_in_order_once),
		cmocka_unit_test(test_pieces),
		cmocka_unit_test(test_lent),
		cmocka_unit_test(test_behind_odd_length),
		cmocka_unit_test(test_owes),
		cmocka_unit_test(test_waits_for_answer),
		cmocka_unit_test(test_acknowledges_all),
		cmocka_unit_test(test_asks_for_room),
		cmocka_unit_test(test_end),
		cmocka_unit_test(test_gathered),
		cmocka_unit_test(test_too_long),
		cmocka_unit_test(test_credit),
		cmocka_unit_test(test_lost_credit),
		cmocka_unit_test(test_atomics),
		cmocka_unit_test(test_bad_atomic),
		cmocka_unit_test(test_window),
		cmocka_unit_test(test_burst),
		cmocka_unit_test(test_receive_ring),
		cmocka_unit_test(test_lost_credit_after_rest),
		cmocka_unit_test(test_credit_at_rest),
	};

	return cmocka_run_group_tests_name("net_message", tests, NULL, NULL);
}

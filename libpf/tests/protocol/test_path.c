/* SPDX-License-Identifier: BSD-3-Clause */
/* Losses, time-outs and packet sizes of one path, packet by packet. */
#include "unit.h"

#include "protocol/path.h"

#define PACKET 1000u
#define TIMEOUT_MIN 1000000u
#define ACK_DELAY 100000u
#define ANSWER_DELAY 10000000u
#define TARGET 100000u

static const struct net_options options = { .queue_target = TARGET,
					    .timeout_min = TIMEOUT_MIN,
					    .ack_delay = ACK_DELAY,
					    .answer_delay = ANSWER_DELAY };
#define SECOND 1000000000ull
#define RTT 10000u /* of packets acknowledged by send_and_acknowledge, ns */

/* The path, and what it has reported since begin. */
static struct path path;
static struct net_statistics statistics;
static unsigned taken, lost, spurious;
static uint32_t lost_places[2048];

static void on_taken(void *arg, struct path *from, const struct sent *sent)
{
	taken++;
}

static void on_lost(void *arg, struct path *from, const struct sent *sent)
{
	lost_places[lost++ % ARRAY_SIZE(lost_places)] = sent->control;
}

static void on_spurious(void *arg, struct path *from, const struct sent *sent)
{
	spurious++;
}

static struct path_events events = { on_taken, on_lost, on_spurious, NULL };

static int begin(void **state)
{
	static const struct net_endpoint to;

	path_init(&path, &to, 8952);
	memset(&statistics, 0, sizeof(statistics));
	taken = lost = spurious = 0;
	return 0;
}

static int end(void **state)
{
	path_rest(&path);
	return 0;
}

static void send_kind(unsigned count, enum sent_kind kind, uint64_t now)
{
	while (count--) {
		struct sent *sent = path_record(&path);

		assert_non_null(sent);
		sent->kind = kind;
		sent->prompt = kind != SENT_FRAMES;
		sent->control = (uint32_t)path.next;
		path_sent(&path, sent, now, PACKET, true, TARGET);
	}
}

/* count packets of messages, or of a put, whose place is their number. */
static void send(unsigned count, uint64_t now)
{
	send_kind(count, SENT_FRAMES, now);
}

static void send_data(unsigned count, uint64_t now)
{
	send_kind(count, SENT_DATA_PUT, now);
}

/* count acknowledgements, which are not acknowledged themselves. */
static void send_acknowledgements(unsigned count, uint64_t now)
{
	while (count--) {
		struct sent *sent = path_record(&path);

		assert_non_null(sent);
		path_sent(&path, sent, now, 72, false, TARGET);
	}
}

/* It reached the system when arrived, and is taken note of now. */
static bool acknowledge_late(uint32_t largest, uint64_t bits, uint64_t arrived, uint64_t now)
{
	struct wire_frame frame = { .type = FRAME_ACK, .ack = { .words = 1 } };

	frame.ack.largest = largest;
	frame.ack.bits[0] = bits;
	return path_acknowledge(&path, &frame, now, arrived, &options, &events, &statistics);
}

static bool acknowledge(uint32_t largest, uint64_t bits, uint64_t now)
{
	return acknowledge_late(largest, bits, now, now);
}

static void advance(uint64_t now)
{
	path_advance(&path, now, &options, true, &events, &statistics);
}

static uint64_t deadline(void)
{
	return path_deadline(&path, &options, true);
}

static void send_and_acknowledge(uint64_t now)
{
	send(1, now);
	acknowledge((uint32_t)path.next - 1, 1, now + RTT);
}

static void check(unsigned expected_lost, uint64_t in_flight, uint64_t timeouts)
{
	assert_int_equal(lost, expected_lost);
	assert_int_equal(path.in_flight, in_flight);
	assert_int_equal(statistics.timeouts, timeouts);
}

/* A probe that did not leave is repeated: with nothing in flight there is no time-out. */
static void test_probe_unsent(void **state)
{
	send(2, 1000);
	path_unsent(&path, 1, 1, TARGET, &events);
	check(1, PACKET, 0);
	assert_false(path.probe);
	path_unsent(&path, 0, 1, TARGET, &events);
	check(2, 0, 0);
	assert_int_equal(deadline(), NET_NEVER);
	assert_true(path.probe);
}

/* Acknowledgements sent in between do not count as packets that overtake. */
static void test_gap_of_acknowledgements(void **state)
{
	send(1, 1000);
	send_acknowledgements(3, 1000);
	send(1, 1000);
	assert_true(acknowledge(4, 1, 11000));
	assert_int_equal(lost, 0);
}

static void test_gap(void **state)
{
	send(6, 1000);
	/* 0 is missing: 1 and 2 may have overtaken it, three packets may not. */
	assert_true(acknowledge(2, 3, 11000));
	check(0, 4 * PACKET, 0);
	assert_true(acknowledge(3, 7, 11000));
	check(1, 2 * PACKET, 0);
	assert_int_equal(lost_places[0], 0);
	assert_int_equal(path.rtt, 10000);
}

/* A packet that fewer packets overtook is lost after some time, long before a time-out. */
static void test_gap_by_time(void **state)
{
	send(2, 1000);
	acknowledge(1, 1, 11000);
	assert_int_equal(lost, 0);
	assert_int_equal(deadline(), 1000 + 10000 + 2500);
	advance(deadline());
	check(1, 0, 0);
	assert_true(deadline() == NET_NEVER);
}

/* The loss of the last packets shows by no later packet: a probe asks early. */
static void test_tail(void **state)
{
	uint64_t first;

	send_and_acknowledge(1000);
	send(5, 20000);
	first = deadline();
	assert_int_equal(first, 20000 + 2 * RTT + ACK_DELAY);
	advance(first - 1);
	assert_false(path.probe);
	advance(first);
	/* Whatever the window is; nothing counts as lost yet. */
	assert_true(path.probe);
	assert_int_equal(statistics.tail_probes, 1);
	check(0, 5 * PACKET, 0);
	assert_false(path_open(&path, first, PACKET, 0, TARGET));
	send(1, first);
	/* The probe may be lost too. */
	assert_int_equal(deadline() - first, 2 * (2 * RTT + ACK_DELAY));
	/* The second and the fourth of five arrived, and the probe: its answer shows the losses. */
	assert_true(acknowledge(6, 0x15, first + 5000));
	assert_int_equal(path.tail_probes, 0);
	check(3, 0, 0);
	assert_int_equal(lost_places[0], 1);
	assert_int_equal(lost_places[1], 3);
	assert_int_equal(lost_places[2], 5);
	assert_int_equal(spurious, 0);
}

/* Send one packet, whose acknowledgement the peer lets wait for so long. Returns when it is here. */
static uint64_t send_and_wait(uint64_t now, uint32_t held)
{
	struct wire_frame frame = { .type = FRAME_ACK, .ack = { .words = 1, .delay = held } };

	send(1, now);
	now += RTT + held;
	frame.ack.largest = (uint32_t)path.next - 1;
	frame.ack.bits[0] = 1;
	assert_true(path_acknowledge(&path, &frame, now, now, &options, &events, &statistics));
	return now;
}

static uint64_t patience(uint64_t since)
{
	return deadline() - since - 2 * RTT;
}

/* A peer that lets acknowledgements wait for answers is not asked before, unless something waits here. */
static void test_answers(void **state)
{
	uint64_t now = send_and_wait(1000, 0);

	now = send_and_wait(now, 8000000);
	assert_int_equal(path.rtt, RTT);
	send(1, now);
	assert_in_range(patience(now), 8000000, 10000000);
	assert_int_equal(path_deadline(&path, &options, false), now + 2 * RTT + ACK_DELAY);
	/* A few packets wait, many do not. */
	send(WINDOW_ANSWERED - 1, now);
	assert_in_range(patience(now), 8000000, 10000000);
	send(1, now);
	assert_int_equal(patience(now), ACK_DELAY);
	acknowledge((uint32_t)path.next - 1, 0x1ff, now + RTT);
	/* Nor do packets that are not for an answer. */
	now = send_and_wait(now + RTT, 8000000);
	send_data(1, now);
	assert_int_equal(patience(now), ACK_DELAY);
	acknowledge((uint32_t)path.next - 1, 1, now + RTT);
	send(1, now + RTT);
	assert_in_range(patience(now + RTT), 8000000, 10000000);
	acknowledge((uint32_t)path.next - 1, 1, now + 2 * RTT);
	/* What is lost after an answer shows as soon as before. */
	now = send_and_wait(now + RTT, 9000000);
	send(2, now);
	acknowledge((uint32_t)path.next - 1, 1, now + RTT);
	assert_in_range(deadline(), now + RTT, now + 2 * RTT);
	advance(deadline());
	check(1, 0, 0);
}

/* A sender asks in time: with half of its window or credit used, or with room for one packet only. */
static void test_half_used(void **state)
{
	const uint32_t packet = path.mtu.size, charge = wire_charge(packet), much = 1u << 30;

	path.congestion.window = (uint64_t)packet << 8;
	assert_true(path_is_half_used(&path, much));
	path.congestion.window = (uint64_t)2 * packet << 8;
	assert_false(path_is_half_used(&path, much));
	path.congestion.window = (uint64_t)8 * packet << 8;
	path.in_flight = 4 * packet;
	assert_false(path_is_half_used(&path, much));
	path.in_flight++;
	assert_true(path_is_half_used(&path, much));
	path.in_flight = 0;
	assert_true(path_is_half_used(&path, 2 * charge - 1));
	assert_false(path_is_half_used(&path, 2 * charge));
	path.charged = 3 * charge;
	assert_true(path_is_half_used(&path, 5 * charge));
	path.charged = 0;
}

/* Of what was sent together a part came: the peer will not answer that, so the rest is asked for soon. */
static void test_lost_end(void **state)
{
	uint64_t now = send_and_wait(1000, 0);

	now = send_and_wait(now, 8000000);
	send(4, now);
	acknowledge((uint32_t)path.next - 3, 3, now + RTT);
	assert_in_range(deadline(), now, now + 2 * RTT + ACK_DELAY + RTT);
	/* What was sent later may be answered. */
	acknowledge((uint32_t)path.next - 1, 0xf, now + RTT);
	send(1, now + RTT);
	send(1, now + 2 * RTT);
	acknowledge((uint32_t)path.next - 2, 1, now + 3 * RTT);
	assert_true(deadline() > now + 4000000);
}

/* Probes that were not needed teach as much, and answers that come early make it forget. */
static void test_no_answers(void **state)
{
	uint64_t now = send_and_wait(1000, 0);
	unsigned i;

	send(1, now);
	assert_int_equal(patience(now), ACK_DELAY);
	for (i = 0; i < 20; i++) {
		now = deadline();
		advance(now);
		assert_true(path.probe);
		path.probe = false;
		send(1, now);
		now += RTT;
		acknowledge((uint32_t)path.next - 1, 3, now);
		send(1, now);
	}
	assert_in_range(patience(now), ANSWER_DELAY * 3 / 4, ANSWER_DELAY * 5 / 4);
	/* The probe is answered, or lost: the next one comes soon. */
	now = deadline();
	advance(now);
	send(1, now);
	assert_int_equal(deadline() - now, 2 * (2 * RTT + ACK_DELAY));
	acknowledge((uint32_t)path.next - 1, 3, now + RTT);
	for (i = 0; i < 40; i++)
		now = send_and_wait(now, 20000);
	send(1, now);
	assert_int_equal(patience(now), ACK_DELAY);
}

/* If these probes have no answer either, time-outs follow, each twice as long as the last. */
static void test_timeout(void **state)
{
	uint64_t now = 20000;

	send_and_acknowledge(1000);
	send(5, now);
	while ((2 * RTT + ACK_DELAY) << statistics.tail_probes < TIMEOUT_MIN) {
		now = deadline();
		advance(now);
		send(1, now);
	}
	assert_int_equal(statistics.timeouts, 0);
	assert_int_equal(deadline() - now, TIMEOUT_MIN + ACK_DELAY);
	now = deadline();
	advance(now);
	assert_true(path.probe);
	assert_int_equal(statistics.timeouts, 1);
	assert_int_equal(lost, 0);
	send(1, now);
	assert_int_equal(deadline() - now, 2 * (TIMEOUT_MIN + ACK_DELAY));
	now = deadline();
	acknowledge((uint32_t)path.next - 1, 1, now);
	assert_int_equal(path.timeouts, 0);
}

/* A peer without a processor acknowledges late, and then everything: nothing was lost. */
static void test_late_peer(void **state)
{
	uint64_t now = 20000;
	unsigned i;

	send_and_acknowledge(1000);
	send(10, now);
	for (i = 0; i < 9; i++) {
		now = deadline();
		advance(now);
		send(1, now);
	}
	assert_true(now > 20 * TIMEOUT_MIN);
	/* First for some of them, then for the rest. */
	assert_true(acknowledge(2, 2, now));
	assert_int_equal(lost, 0);
	assert_true(acknowledge(19, 0x7ffff, now + 1000));
	check(0, 0, statistics.timeouts);
	assert_int_equal(statistics.lost, 0);
}

/*
 * An application that computes takes acknowledgements late: that is no queue at the peer, and what it
 * sends next does not have to wait for them.
 */
static void test_late_here(void **state)
{
	uint64_t now = 20000, window;
	unsigned i;

	send_and_acknowledge(1000);
	for (i = 0; i < 3; i++) {
		window = congestion_window(&path.congestion);
		send((unsigned)(window / PACKET), now);
		while (path.oldest + 64 < path.next)
			acknowledge_late((uint32_t)path.oldest + 63, ~0ull, now + RTT,
					 now + TIMEOUT_MIN / 2);
		acknowledge_late((uint32_t)path.next - 1, ~0ull, now + RTT, now + TIMEOUT_MIN / 2);
		check(0, 0, 0);
		assert_true(congestion_window(&path.congestion) > window + window / 2);
		now += TIMEOUT_MIN;
	}
}

/* The interval of time-outs of a silent peer grows to a second. */
static void test_silence(void **state)
{
	uint64_t now = 1000, before = 0;
	unsigned i;

	send(60, now);
	for (i = 0; i < 20; i++) {
		uint64_t next = deadline();

		assert_in_range(next - now, before, 1000000000);
		before = next - now;
		now = next;
		advance(now);
		assert_true(path.probe);
		path.probe = false;
		send(1, now);
	}
	assert_int_equal(before, 1000000000);
	check(0, 80 * PACKET, statistics.timeouts);
}

/* After reordering, a packet as late as earlier ones does not count as lost. */
static void test_reordering(void **state)
{
	uint64_t window, now = 1000000;
	unsigned i;

	send(20, 1000);
	acknowledge(10, 7, 11000); /* 8, 9 and 10 */
	assert_int_equal(lost, 8);
	acknowledge(10, 0x7ff, 15000);
	assert_int_equal(spurious, 8);
	assert_int_equal(path.patience, 4000);
	acknowledge(19, 0x3ff, 15000);
	send(20, 20000);
	lost = 0;
	acknowledge(30, 1, 30000);
	assert_int_equal(lost, 0);
	assert_int_equal(deadline(), 20000 + 10000 + 4000);
	acknowledge(30, 0x7fd, 33000); /* all but 29 */
	assert_int_equal(lost, 0);
	advance(deadline());
	assert_int_equal(lost, 1);
	assert_int_equal(lost_places[0], 29);
	/* Without reordering the tolerance shrinks again. */
	window = path.patience;
	for (i = 0; i < 20000; i++, now += 20000)
		send_and_acknowledge(now);
	assert_true(path.patience < window / 8);
	assert_false(path.reorders);
}

/* Acknowledgements of packets that were never sent are refused. */
static void test_unsent_is_refused(void **state)
{
	send(3, 1000);
	assert_false(acknowledge(3, 1, 2000));
	assert_false(acknowledge(0x7fffffff, ~0ull, 2000));
	assert_int_equal(taken, 0);
	assert_true(acknowledge(2, ~0ull, 2000));
	assert_int_equal(taken, 3);
	assert_true(acknowledge(2, ~0ull, 2000));
	assert_int_equal(taken, 3);
}

static void test_most_in_flight(void **state)
{
	uint64_t next;
	unsigned i;

	send(SENT_MOST, 1000);
	assert_null(path_record(&path));
	assert_true(acknowledge(0, 1, 2000));
	assert_non_null(path_record(&path));
	send(1, 2000);
	assert_null(path_record(&path));
	/* However long the peer is silent, there is room for probes and acknowledgements. */
	for (i = 0; i < 3 * SENT_MOST; i++) {
		next = deadline();
		advance(next);
		path_make_room(&path, next, &events);
		assert_non_null(path_record(&path));
		send(1, next);
	}
	/* A packet whose record was dropped may be acknowledged: that is no reordering. */
	acknowledge((uint32_t)path.next - 1, ~0ull, next);
	assert_false(path.reorders);
}

/* However many data packets are in flight, there is room for acknowledgements. */
static void test_room_for_acknowledgements(void **state)
{
	path.congestion.window = UINT64_MAX;
	while (path_open(&path, 1, PACKET, UINT32_MAX, TARGET))
		send(1, 1);
	assert_true(path.next > 512);
	send_acknowledgements(32, 1);
}

static void test_never_sent(void **state)
{
	send(5, 1000);
	path_unsent(&path, 3, 2, TARGET, &events);
	check(2, 3 * PACKET, 0);
	assert_int_equal(statistics.lost, 0);
}

/* ---- the size of packets ---- */

/* Send all probes that are wanted over a path that carries this size, and return what was found. */
static uint32_t discover(struct mtu *mtu, uint32_t real, uint64_t now)
{
	uint32_t size;
	unsigned probes;

	for (probes = 0; (size = mtu_wanted(mtu, now)); probes++) {
		assert_true(probes < 100);
		mtu_sent(mtu, size);
		assert_int_equal(mtu_wanted(mtu, now), 0);
		if (size <= real)
			mtu_acknowledged(mtu, now);
		else
			mtu_lost(mtu, now);
	}
	/* When the interface's size passes, one probe is enough. */
	assert_true(real < 8952 || probes == 1);
	return mtu->size;
}

#define SECOND 1000000000ull

/* A round trip that used the window up, then an acknowledgement that tells of pauses. */
static bool pauses_first(uint16_t senders, bool answered)
{
	uint64_t now = SECOND;

	path_begin(&path, now, 1, 1, TARGET);
	if (answered)
		path_answered(&path, RTT);
	while (path_open(&path, now, PACKET, UINT32_MAX, TARGET))
		send(1, now);
	now += RTT;
	acknowledge((uint32_t)path.next - 1, ~0ull, now);
	path_told(&path, now, senders, 200, 1);
	return path.paid > now;
}

static void test_first_pause(void **state)
{
	assert_false(pauses_first(8, true));
	path_told(&path, 2 * SECOND, 8, 201, 1);
	assert_true(path.paid > 2 * SECOND);
	end(state);
	begin(state);
	assert_true(pauses_first(64, true));
	end(state);
	begin(state);
	assert_true(pauses_first(8, false));
}

/* May the first packet leave at once, beside so many, with this round trip by WELCOME, 0: none? */
static bool begins_at_once(uint16_t senders, uint64_t trip)
{
	path.mtu.size = 8952;
	path_begin(&path, SECOND, senders, 1, TARGET);
	if (trip)
		path_answered(&path, trip);
	return path_open(&path, SECOND, 8952, 1 << 20, TARGET);
}

static void test_begin(void **state)
{
	assert_true(begins_at_once(8, RTT));
	assert_true(begins_at_once(8, 100 * RTT));
	assert_false(begins_at_once(8, 0));
	assert_false(begins_at_once(64, RTT));
}

/* Use the window up, and have all acknowledged. Returns the time of that. */
static uint64_t round_trip(uint64_t now)
{
	uint64_t number = path.next;

	while (path_open(&path, now, PACKET, UINT32_MAX, TARGET))
		send(1, now);
	now += RTT;
	for (; number < path.next; number += 64)
		acknowledge((uint32_t)(number + 63 < path.next ? number + 63 : path.next - 1),
			    ~0ull, now);
	return now;
}

/* The window is kept while a program computes, and begins anew after a fifth of a second. */
static void test_idle(void **state)
{
	const uint64_t first = congestion_window(&path.congestion);
	struct congestion grown;
	uint64_t now = SECOND, window;
	unsigned i;

	for (i = 0; i < 10; i++)
		now = round_trip(now);
	grown = path.congestion;
	window = congestion_window(&grown);
	assert_true(window > first);
	now += 199000000;
	send(1, now);
	assert_int_equal(congestion_window(&path.congestion), window);
	now += RTT;
	acknowledge((uint32_t)path.next - 1, 1, now);
	now += 201000000;
	send(1, now);
	assert_int_equal(congestion_window(&path.congestion), first);
	/* Not while something is under way: the time-out decides about that. */
	path.congestion = grown;
	now += SECOND;
	send(1, now);
	assert_int_equal(congestion_window(&path.congestion), window);
}

static void test_mtu_discovery(void **state)
{
	static const uint32_t sizes[] = { 8952, 1472, 1200 };
	struct mtu mtu;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		mtu_init(&mtu, 8952);
		assert_int_equal(mtu.size, NET_PACKET_LEAST);
		assert_int_equal(discover(&mtu, sizes[i], 1), sizes[i]);
	}
	/* Larger sizes are probed again after ten minutes. */
	assert_int_equal(mtu_wanted(&mtu, 599 * SECOND), 0);
	assert_int_equal(mtu_wanted(&mtu, 601 * SECOND), 8952);
	assert_int_equal(discover(&mtu, 8952, 601 * SECOND), 8952);
	/* A probe that did not leave says nothing about the path. */
	mtu_init(&mtu, 8952);
	for (i = 0; i < 10; i++) {
		mtu_sent(&mtu, mtu_wanted(&mtu, 1));
		mtu_unsent(&mtu);
	}
	assert_int_equal(mtu_wanted(&mtu, 1), 8952);
	/* Nor do probes that were lost on another path, before mtu_init. */
	for (i = 0; i < 10; i++)
		mtu_lost(&mtu, 1);
	assert_int_equal(mtu_wanted(&mtu, 1), 8952);
	assert_int_equal(discover(&mtu, 8952, 1), 8952);
}

/* A path that drops all long packets; single losses do not count. */
static void test_mtu_black_hole(void **state)
{
	struct mtu mtu;
	unsigned i;

	mtu_init(&mtu, 8952);
	discover(&mtu, 8952, 1);
	for (i = 0; i < 100; i++) {
		assert_false(mtu_passed(&mtu, 8952, false));
		if (i % 4 == 3)
			mtu_passed(&mtu, 8952, true);
	}
	for (i = 0; i < 11; i++)
		assert_false(mtu_passed(&mtu, 8952, false));
	assert_true(mtu_passed(&mtu, 8952, false));
	assert_int_equal(mtu.size, NET_PACKET_LEAST);
	assert_int_equal(discover(&mtu, 1472, 1), 1472);
}

/* A limit that the network reports can only reduce the size, to no less than the least. */
static void test_mtu_limit(void **state)
{
	static const struct {
		size_t limit;
		uint32_t size;
	} limits[] = { { 100, 1472 }, { 1301, 1296 }, { 8952, 1296 } };
	struct mtu mtu;
	size_t i;

	mtu_init(&mtu, 8952);
	discover(&mtu, 1472, 601 * SECOND);
	for (i = 0; i < ARRAY_SIZE(limits); i++) {
		mtu_limit(&mtu, 601 * SECOND, limits[i].limit);
		assert_int_equal(mtu.size, limits[i].size);
	}
	assert_int_equal(mtu_wanted(&mtu, 1200 * SECOND), 0);
	assert_int_equal(discover(&mtu, 8952, 1202 * SECOND), 8952);
	/* A probe is acknowledged after the network has reported it as too long. */
	mtu_init(&mtu, 8952);
	mtu_sent(&mtu, 8952);
	mtu_limit(&mtu, 1, 1472);
	mtu_acknowledged(&mtu, 2);
	assert_int_equal(mtu.size, 1472);
}

/* So many long packets are lost in a row. True: size fell with the last one. */
static bool swallow(struct mtu *mtu, unsigned count)
{
	while (--count)
		assert_false(mtu_passed(mtu, 8952, false));
	return mtu_passed(mtu, 8952, false);
}

/* What passed on one path is assumed of others by interfaces of the same size, until it is wrong. */
static void test_mtu_assumed(void **state)
{
	struct mtu_sizes sizes = { 0 };
	struct mtu first, mtu;

	mtu_init(&first, 8952);
	mtu_assume(&first, &sizes);
	assert_int_equal(first.size, NET_PACKET_LEAST);
	discover(&first, 8952, 1);
	mtu_note(&first, &sizes);

	mtu_init(&mtu, 1472);
	mtu_assume(&mtu, &sizes);
	assert_int_equal(mtu.size, NET_PACKET_LEAST);
	mtu_init(&mtu, 8952);
	mtu_assume(&mtu, &sizes);
	assert_int_equal(mtu.size, 8952);
	assert_int_equal(mtu_wanted(&mtu, 1), 0);
	/* When one passed, single losses do not count. */
	mtu_passed(&mtu, 8952, true);
	assert_false(swallow(&mtu, 11));
	/* Shorter ones that pass say nothing of those that are lost. */
	assert_false(mtu_passed(&mtu, 1300, true));
	assert_true(swallow(&mtu, 1));

	/* A path that is different is probed, whatever passes on others. */
	mtu_init(&mtu, 8952);
	mtu_assume(&mtu, &sizes);
	assert_true(swallow(&mtu, 3));
	assert_int_equal(mtu.size, NET_PACKET_LEAST);
	mtu_assume(&mtu, &sizes);
	assert_int_equal(mtu.size, NET_PACKET_LEAST);
	assert_int_equal(mtu_wanted(&mtu, 1), 8952);
	/* And so is the next one. */
	mtu_note(&mtu, &sizes);
	mtu_init(&first, 8952);
	mtu_assume(&first, &sizes);
	assert_int_equal(mtu_wanted(&first, 1), 8952);
	/* What the network said of a path is not exceeded. */
	sizes.of[8952 / 8 % MTU_SIZES].size = 8952;
	mtu_limit(&first, 1, 1472);
	mtu_assume(&first, &sizes);
	assert_int_equal(first.size, NET_PACKET_LEAST);
	/* What others found takes nothing from a path that carries longer packets. */
	sizes.of[8952 / 8 % MTU_SIZES].size = 1472;
	mtu_init(&mtu, 8952);
	discover(&mtu, 8952, SECOND);
	mtu_assume(&mtu, &sizes);
	assert_int_equal(mtu.size, 8952);
	sizes.of[8952 / 8 % MTU_SIZES].size = 8952;
	/* A size at which probes failed is not exceeded either, even while it is tried anew. */
	mtu_init(&mtu, 8952);
	discover(&mtu, 1472, SECOND);
	assert_int_equal(mtu_wanted(&mtu, 602 * SECOND), 8952);
	mtu_sent(&mtu, 8952);
	mtu_assume(&mtu, &sizes);
	assert_int_equal(mtu.size, 1472);
}

#define ON_PATH(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_PATH(test_gap),
		ON_PATH(test_gap_of_acknowledgements),
		ON_PATH(test_gap_by_time),
		ON_PATH(test_tail),
		ON_PATH(test_answers),
		ON_PATH(test_half_used),
		ON_PATH(test_lost_end),
		ON_PATH(test_no_answers),
		ON_PATH(test_timeout),
		ON_PATH(test_probe_unsent),
		ON_PATH(test_late_peer),
		ON_PATH(test_late_here),
		ON_PATH(test_silence),
		ON_PATH(test_reordering),
		ON_PATH(test_unsent_is_refused),
		ON_PATH(test_most_in_flight),
		ON_PATH(test_room_for_acknowledgements),
		ON_PATH(test_never_sent),
		ON_PATH(test_first_pause),
		ON_PATH(test_begin),
		ON_PATH(test_idle),
		cmocka_unit_test(test_mtu_discovery),
		cmocka_unit_test(test_mtu_black_hole),
		cmocka_unit_test(test_mtu_limit),
		cmocka_unit_test(test_mtu_assumed),
	};

	return cmocka_run_group_tests_name("net_path", tests, NULL, NULL);
}

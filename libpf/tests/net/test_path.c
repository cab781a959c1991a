/* SPDX-License-Identifier: BSD-3-Clause */
/* Losses, time-outs and packet sizes, one packet at a time. */
#include "unit.h"

#include "net/path.h"

#define PACKET 1000u
#define TIMEOUT_MIN 1000000u
#define ACK_DELAY 100000u
#define TARGET 100000u

struct fixture {
	struct path path;
	struct net_statistics statistics;
	struct path_events events;
	unsigned taken, lost, spurious;
	uint32_t lost_places[2048];
};

static void on_taken(void *arg, struct path *path, const struct sent *sent)
{
	((struct fixture *)arg)->taken++;
}

static void on_lost(void *arg, struct path *path, const struct sent *sent)
{
	struct fixture *fixture = arg;

	fixture->lost_places[fixture->lost++ % 2048] = sent->place;
}

static void on_spurious(void *arg, struct path *path, const struct sent *sent)
{
	((struct fixture *)arg)->spurious++;
}

static struct fixture *open_path(void)
{
	static const struct net_endpoint to;
	struct fixture *fixture = calloc(1, sizeof(*fixture));

	assert_non_null(fixture);
	path_init(&fixture->path, &to, 8952);
	fixture->events = (struct path_events){ on_taken, on_lost, on_spurious, fixture };
	return fixture;
}

static void close_path(struct fixture *fixture)
{
	path_rest(&fixture->path);
	free(fixture);
}

/* count packets, whose place is their number. */
static void send(struct fixture *fixture, unsigned count, uint64_t now)
{
	while (count--) {
		struct sent *sent = path_record(&fixture->path);

		assert_non_null(sent);
		sent->kind = SENT_DATA_PUT;
		sent->place = (uint32_t)fixture->path.next;
		path_sent(&fixture->path, sent, now, PACKET, true);
	}
}

static bool acknowledge(struct fixture *fixture, uint32_t largest, uint64_t bits, uint64_t now)
{
	struct wire_frame frame = { .type = FRAME_ACK, .ack = { .words = 1 } };

	frame.ack.largest = largest;
	frame.ack.bits[0] = bits;
	return path_acknowledge(&fixture->path, &frame, now, TARGET, &fixture->events,
				&fixture->statistics);
}

static void advance(struct fixture *fixture, uint64_t now)
{
	path_advance(&fixture->path, now, TIMEOUT_MIN, ACK_DELAY, &fixture->events,
		     &fixture->statistics);
}

static uint64_t deadline(struct fixture *fixture)
{
	return path_deadline(&fixture->path, TIMEOUT_MIN, ACK_DELAY);
}

/* A ping that did not leave is asked again: no time-out would, with nothing under way. */
static void test_unsent(void **state)
{
	struct fixture *fixture = open_path();

	send(fixture, 2, 1000);
	path_unsent(&fixture->path, 1, 1, &fixture->events);
	assert_int_equal(fixture->lost, 1);
	assert_int_equal(fixture->path.in_flight, PACKET);
	assert_false(fixture->path.probe);
	path_unsent(&fixture->path, 0, 1, &fixture->events);
	assert_int_equal(fixture->lost, 2);
	assert_int_equal(fixture->path.in_flight, 0);
	assert_int_equal(deadline(fixture), NET_NEVER);
	assert_true(fixture->path.probe);
	close_path(fixture);
}

/* In order, one by one. */
static void send_and_take(struct fixture *fixture, unsigned count)
{
	uint64_t now = 1000000;

	for (; count; count--, now += 20000) {
		send(fixture, 1, now);
		acknowledge(fixture, (uint32_t)fixture->path.next - 1, 1, now + 10000);
	}
}

/* Acknowledgements that lie between do not overtake anything that is heard of. */
static void test_gap_of_answers(void **state)
{
	struct fixture *fixture = open_path();
	struct sent *sent;
	unsigned i;

	send(fixture, 1, 1000);
	for (i = 0; i < 3; i++) {
		sent = path_record(&fixture->path);
		assert_non_null(sent);
		path_sent(&fixture->path, sent, 1000, 72, false);
	}
	send(fixture, 1, 1000);
	assert_true(acknowledge(fixture, 4, 1, 11000));
	assert_int_equal(fixture->lost, 0);
	close_path(fixture);
}

static void test_gap(void **state)
{
	struct fixture *fixture = open_path();

	send(fixture, 6, 1000);
	/* 0 is missing: 1 and 2 may have overtaken it, 3 may not. */
	assert_true(acknowledge(fixture, 2, 3, 11000));
	assert_int_equal(fixture->lost, 0);
	assert_int_equal(fixture->path.in_flight, 4 * PACKET);
	assert_true(acknowledge(fixture, 3, 7, 11000));
	assert_int_equal(fixture->lost, 1);
	assert_int_equal(fixture->lost_places[0], 0);
	assert_int_equal(fixture->path.in_flight, 2 * PACKET);
	assert_int_equal(fixture->statistics.timeouts, 0);
	assert_int_equal(fixture->path.rtt, 10000);
	close_path(fixture);
}

/* Overtaken by fewer, it is lost by time, still long before a time-out. */
static void test_gap_by_time(void **state)
{
	struct fixture *fixture = open_path();

	send(fixture, 2, 1000);
	acknowledge(fixture, 1, 1, 11000);
	assert_int_equal(fixture->lost, 0);
	assert_int_equal(deadline(fixture), 1000 + 10000 + 2500);
	advance(fixture, deadline(fixture));
	assert_int_equal(fixture->lost, 1);
	assert_int_equal(fixture->statistics.timeouts, 0);
	assert_true(deadline(fixture) == NET_NEVER);
	close_path(fixture);
}

/* Nothing behind the last packets tells of their loss: soon a probe asks. */
static void test_tail(void **state)
{
	struct fixture *fixture = open_path();
	uint64_t first;

	send(fixture, 1, 1000);
	acknowledge(fixture, 0, 1, 11000);
	send(fixture, 5, 20000);
	first = deadline(fixture);
	assert_int_equal(first, 20000 + 2 * 10000 + ACK_DELAY);
	advance(fixture, first - 1);
	assert_false(fixture->path.probe);
	advance(fixture, first);
	/* Whatever the window says; nothing is lost yet. */
	assert_true(fixture->path.probe);
	assert_int_equal(fixture->statistics.tail_probes, 1);
	assert_int_equal(fixture->statistics.timeouts, 0);
	assert_int_equal(fixture->lost, 0);
	assert_int_equal(fixture->path.in_flight, 5 * PACKET);
	assert_false(path_open(&fixture->path, first, PACKET, 0));
	send(fixture, 1, first);
	/* It may be lost as well. */
	assert_int_equal(deadline(fixture) - first, 2 * (2 * 10000 + ACK_DELAY));
	/* Of five, the third and the fifth got through; the answer to the probe tells at once. */
	assert_true(acknowledge(fixture, 6, 0x15, first + 5000));
	assert_int_equal(fixture->path.tail_probes, 0);
	assert_int_equal(fixture->lost, 3);
	assert_int_equal(fixture->lost_places[0], 1);
	assert_int_equal(fixture->lost_places[1], 3);
	assert_int_equal(fixture->lost_places[2], 5);
	assert_int_equal(fixture->path.in_flight, 0);
	assert_int_equal(fixture->spurious, 0);
	close_path(fixture);
}

/* No answer to these probes either: time-outs, each twice as long. */
static void test_timeout(void **state)
{
	struct fixture *fixture = open_path();
	uint64_t now;

	send(fixture, 1, 1000);
	acknowledge(fixture, 0, 1, 11000);
	send(fixture, 5, now = 20000);
	while ((2 * 10000 + ACK_DELAY) << fixture->statistics.tail_probes < TIMEOUT_MIN) {
		now = deadline(fixture);
		advance(fixture, now);
		send(fixture, 1, now);
	}
	assert_int_equal(fixture->statistics.timeouts, 0);
	assert_int_equal(deadline(fixture) - now, TIMEOUT_MIN + ACK_DELAY);
	now = deadline(fixture);
	advance(fixture, now);
	assert_true(fixture->path.probe);
	assert_int_equal(fixture->statistics.timeouts, 1);
	assert_int_equal(fixture->lost, 0);
	send(fixture, 1, now);
	assert_int_equal(deadline(fixture) - now, 2 * (TIMEOUT_MIN + ACK_DELAY));
	now = deadline(fixture);
	acknowledge(fixture, (uint32_t)fixture->path.next - 1, 1, now);
	assert_int_equal(fixture->path.timeouts, 0);
	close_path(fixture);
}

/* The peer got no processor for long: it is late with all it has, and has it all. */
static void test_late_peer(void **state)
{
	struct fixture *fixture = open_path();
	uint64_t now = 1000;
	unsigned i;

	send(fixture, 1, now);
	acknowledge(fixture, 0, 1, now + 10000);
	send(fixture, 10, now = 20000);
	for (i = 0; i < 9; i++) {
		now = deadline(fixture);
		advance(fixture, now);
		send(fixture, 1, now);
	}
	assert_true(now > 20 * TIMEOUT_MIN);
	/* First a part, whose last took as long as those before it. */
	assert_true(acknowledge(fixture, 2, 2, now));
	assert_int_equal(fixture->lost, 0);
	assert_true(acknowledge(fixture, 19, 0x7ffff, now + 1000));
	assert_int_equal(fixture->lost, 0);
	assert_int_equal(fixture->path.in_flight, 0);
	assert_int_equal(fixture->statistics.lost, 0);
	close_path(fixture);
}

/* Time-outs of a silent peer come ever more seldom, but come. */
static void test_silence(void **state)
{
	struct fixture *fixture = open_path();
	uint64_t now = 1000, before = 0;
	unsigned i;

	send(fixture, 60, now);
	for (i = 0; i < 20; i++) {
		uint64_t next = deadline(fixture);

		assert_in_range(next - now, before, 1000000000);
		before = next - now;
		now = next;
		advance(fixture, now);
		assert_true(fixture->path.probe);
		fixture->path.probe = false;
		send(fixture, 1, now);
	}
	assert_int_equal(before, 1000000000);
	assert_int_equal(fixture->path.in_flight, 80 * PACKET);
	assert_int_equal(fixture->lost, 0);
	close_path(fixture);
}

/* Reordering is learned: what was as late as others before is no loss the next time. */
static void test_reordering(void **state)
{
	struct fixture *fixture = open_path();
	uint64_t window;

	send(fixture, 20, 1000);
	acknowledge(fixture, 10, 7, 11000); /* 8, 9 and 10 */
	assert_int_equal(fixture->lost, 8);
	acknowledge(fixture, 10, 0x7ff, 15000);
	assert_int_equal(fixture->spurious, 8);
	assert_int_equal(fixture->path.patience, 4000);
	acknowledge(fixture, 19, 0x3ff, 15000);
	send(fixture, 20, 20000);
	fixture->lost = 0;
	acknowledge(fixture, 30, 1, 30000);
	assert_int_equal(fixture->lost, 0);
	assert_int_equal(deadline(fixture), 20000 + 10000 + 4000);
	acknowledge(fixture, 30, 0x7fd, 33000); /* but one */
	assert_int_equal(fixture->lost, 0);
	advance(fixture, deadline(fixture));
	assert_int_equal(fixture->lost, 1);
	assert_int_equal(fixture->lost_places[0], 29);
	/* And is forgotten where it comes no more. */
	window = fixture->path.patience;
	send_and_take(fixture, 20000);
	assert_true(fixture->path.patience < window / 8);
	assert_false(fixture->path.reorders);
	close_path(fixture);
}

static void test_unsent_is_refused(void **state)
{
	struct fixture *fixture = open_path();

	send(fixture, 3, 1000);
	assert_false(acknowledge(fixture, 3, 1, 2000));
	assert_false(acknowledge(fixture, 0x7fffffff, ~0ull, 2000));
	assert_int_equal(fixture->taken, 0);
	assert_true(acknowledge(fixture, 2, ~0ull, 2000));
	assert_int_equal(fixture->taken, 3);
	assert_true(acknowledge(fixture, 2, ~0ull, 2000));
	assert_int_equal(fixture->taken, 3);
	close_path(fixture);
}

static void test_most_under_way(void **state)
{
	struct fixture *fixture = open_path();
	uint64_t next;
	unsigned i;

	send(fixture, SENT_MOST, 1000);
	assert_null(path_record(&fixture->path));
	assert_true(acknowledge(fixture, 0, 1, 2000));
	assert_non_null(path_record(&fixture->path));
	send(fixture, 1, 2000);
	assert_null(path_record(&fixture->path));
	/* However long it is silent, there is room to ask and to answer. */
	for (i = 0; i < 3 * SENT_MOST; i++) {
		next = deadline(fixture);
		advance(fixture, next);
		path_make_room(&fixture->path, next, &fixture->events);
		assert_non_null(path_record(&fixture->path));
		send(fixture, 1, next);
	}
	/* What was forgotten to make room may have arrived; that is no sign of reordering. */
	acknowledge(fixture, (uint32_t)fixture->path.next - 1, ~0ull, next);
	assert_false(fixture->path.reorders);
	close_path(fixture);
}

/* However much may be under way, there is room for acknowledgements. */
static void test_room_for_answers(void **state)
{
	struct fixture *fixture = open_path();
	struct path *path = &fixture->path;
	unsigned i;

	path->congestion.window = UINT64_MAX;
	while (path_open(path, 1, PACKET, UINT32_MAX))
		send(fixture, 1, 1);
	assert_true(path->next > 512);
	for (i = 0; i < 32; i++) {
		struct sent *sent = path_record(path);

		assert_non_null(sent);
		path_sent(path, sent, 1, 72, false);
	}
	close_path(fixture);
}

static void test_never_sent(void **state)
{
	struct fixture *fixture = open_path();

	send(fixture, 5, 1000);
	path_unsent(&fixture->path, 3, 2, &fixture->events);
	assert_int_equal(fixture->lost, 2);
	assert_int_equal(fixture->path.in_flight, 3 * PACKET);
	assert_int_equal(fixture->statistics.lost, 0);
	close_path(fixture);
}

/* Probe all that is wanted against a path of this size; returns what was found. */
static uint32_t discover(struct mtu *mtu, uint32_t real, uint64_t now, unsigned *probes)
{
	uint32_t size;

	for (*probes = 0; (size = mtu_wanted(mtu, now)) && *probes < 100; (*probes)++) {
		mtu_sent(mtu, size);
		assert_int_equal(mtu_wanted(mtu, now), 0);
		if (size <= real)
			mtu_acknowledged(mtu, now);
		else
			mtu_lost(mtu, now);
	}
	assert_true(*probes < 100);
	return mtu->size;
}

static void test_mtu(void **state)
{
	struct mtu mtu;
	unsigned probes, i;

	mtu_init(&mtu, 8952);
	assert_int_equal(mtu.size, NET_PACKET_LEAST);
	assert_int_equal(discover(&mtu, 8952, 1, &probes), 8952);
	assert_int_equal(probes, 1);
	mtu_init(&mtu, 8952);
	assert_int_equal(discover(&mtu, 1472, 1, &probes), 1472);
	mtu_init(&mtu, 8952);
	assert_int_equal(discover(&mtu, 1200, 1, &probes), 1200);
	/* It is tried again, but not soon. */
	assert_int_equal(mtu_wanted(&mtu, 599000000000), 0);
	assert_int_equal(mtu_wanted(&mtu, 601000000000), 8952);
	assert_int_equal(discover(&mtu, 8952, 601000000000, &probes), 8952);
	/* A path that swallows long packets; single losses do not count. */
	for (i = 0; i < 100; i++) {
		assert_false(mtu_passed(&mtu, 8952, false));
		if (i % 4 == 3)
			mtu_passed(&mtu, 8952, true);
	}
	for (i = 0; i < 11; i++)
		assert_false(mtu_passed(&mtu, 8952, false));
	assert_true(mtu_passed(&mtu, 8952, false));
	assert_int_equal(mtu.size, NET_PACKET_LEAST);
	assert_int_equal(discover(&mtu, 1472, 601000000000, &probes), 1472);
	/* What the network says is at most believed downwards, and never below the least. */
	mtu_limit(&mtu, 601000000000, 100);
	assert_int_equal(mtu.size, 1472);
	mtu_limit(&mtu, 601000000000, 1301);
	assert_int_equal(mtu.size, 1296);
	mtu_limit(&mtu, 601000000000, 8952);
	assert_int_equal(mtu.size, 1296);
	/* ... for some minutes. */
	assert_int_equal(mtu_wanted(&mtu, 1200000000000), 0);
	assert_int_equal(discover(&mtu, 8952, 1202000000000, &probes), 8952);
	/* A probe that is answered after the network has said that it is too long. */
	mtu_init(&mtu, 8952);
	mtu_sent(&mtu, 8952);
	mtu_limit(&mtu, 1, 1472);
	mtu_acknowledged(&mtu, 2);
	assert_int_equal(mtu.size, 1472);
	/* One that never left says nothing of the path. */
	mtu_init(&mtu, 8952);
	for (i = 0; i < 10; i++) {
		mtu_sent(&mtu, mtu_wanted(&mtu, 1));
		mtu_unsent(&mtu);
	}
	assert_int_equal(mtu_wanted(&mtu, 1), 8952);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_gap),
		cmocka_unit_test(test_gap_of_answers),
		cmocka_unit_test(test_gap_by_time),
		cmocka_unit_test(test_tail),
		cmocka_unit_test(test_timeout),
		cmocka_unit_test(test_unsent),
		cmocka_unit_test(test_late_peer),
		cmocka_unit_test(test_silence),
		cmocka_unit_test(test_reordering),
		cmocka_unit_test(test_unsent_is_refused),
		cmocka_unit_test(test_most_under_way),
		cmocka_unit_test(test_room_for_answers),
		cmocka_unit_test(test_never_sent),
		cmocka_unit_test(test_mtu),
	};

	return cmocka_run_group_tests_name("net_path", tests, NULL, NULL);
}

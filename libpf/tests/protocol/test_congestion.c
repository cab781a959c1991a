/* SPDX-License-Identifier: BSD-3-Clause */
/* Congestion control. Time is virtual, so the figures are always the same. */
#include "unit.h"

#include "protocol/association.h"
#include "protocol/cubic.h"
#include "protocol/world.h"
#include "protocol/congestion.h"
#include "protocol/senders.h"

#define LENGTH ((size_t)32 << 20)
#define RATE 1250000000ull /* bytes a second: 10 Gbit/s */

static uint64_t finished_at[8];
static unsigned finished;

static void on_complete(struct host *host, void *arg, const struct net_completion *completion)
{
	assert_ok(completion->status);
	finished_at[(uintptr_t)arg] = host->world->now;
	finished++;
}

static bool all_finished(struct world *world)
{
	return finished == world->settings.hosts - 1;
}

static void put(struct world *world, unsigned from, unsigned to)
{
	world->hosts[from].complete = on_complete;
	host_put(&world->hosts[from], 0, to, 0, LENGTH, (void *)(uintptr_t)from);
}

static struct world *make(unsigned hosts, uint32_t loss, uint64_t delay, uint32_t mtu)
{
	struct settings settings;

	settings_init(&settings);
	settings.hosts = hosts;
	settings.loss = loss;
	settings.delay = delay;
	settings.rate = RATE;
	settings.queue = 4u << 20;
	settings.mtu = settings.interface_mtu = mtu;
	settings.arena = LENGTH;
	finished = 0;
	return world_create(&settings);
}

/* Put from host 0 to host 1, and return bytes a second. */
static double measure(struct world *world)
{
	uint64_t start = world->now;
	double rate;

	put(world, 0, 1);
	assert_true(world_run(world, world->now + 100 * SECOND, all_finished));
	rate = (double)LENGTH * 1e9 / (double)(finished_at[0] - start);
	print_message("# %.0f MB/s of %.0f, %llu time-outs, %llu packets dropped, %llu lost, %llu "
		      "of these spuriously\n",
		      rate / 1e6, RATE / 1e6, (unsigned long long)WORLD_SUM(world, timeouts),
		      (unsigned long long)world->dropped,
		      (unsigned long long)WORLD_SUM(world, lost),
		      (unsigned long long)WORLD_SUM(world, spurious));
	return rate;
}

static double throughput(uint32_t loss, uint64_t delay, uint32_t mtu)
{
	struct world *world = make(2, loss, delay, mtu);
	double rate;

	print_message("# loss %.1f %%, delay %llu us, packets of %u bytes:\n", loss / 42949672.96,
		      (unsigned long long)(delay / MICROSECOND), mtu);
	rate = measure(world);
	world_destroy(world);
	return rate;
}

static void check_loss(uint64_t delay, uint32_t mtu)
{
	double lossless = throughput(0, delay, mtu);

	assert_true(lossless > 0.8 * RATE);
	assert_true(throughput(PER_MILLION(1000), delay, mtu) > 0.8 * lossless);
	assert_true(throughput(PER_MILLION(10000), delay, mtu) > 0.6 * lossless);
	assert_true(throughput(PER_MILLION(100000), delay, mtu) > 0.3 * lossless);
}

static void test_random_loss(void **state)
{
	check_loss(5 * MICROSECOND, 8952);
	check_loss(20 * MICROSECOND, 8952);
	check_loss(20 * MICROSECOND, 1472);
}

/* Three hosts send to one: each gets its share, and the queue stays short. */
static void test_fair(void **state)
{
	struct world *world = make(4, 0, 10 * MICROSECOND, 8952);
	struct net_path_info info;
	uint64_t first = NET_NEVER, last = 0;
	unsigned i;

	for (i = 1; i < 4; i++)
		put(world, i, 0);
	world_pass(world, 20 * MILLISECOND);
	for (i = 1; i < 4; i++) {
		assert_true(net_path_info(host_peer(&world->hosts[i], 0), 0, &info));
		print_message("# window %llu, round trip %llu us, least %llu us\n",
			      (unsigned long long)info.window,
			      (unsigned long long)info.rtt / MICROSECOND,
			      (unsigned long long)info.rtt_min / MICROSECOND);
		assert_true(info.rtt < 600 * MICROSECOND);
	}
	assert_true(world_run(world, world->now + 100 * SECOND, all_finished));
	for (i = 1; i < 4; i++) {
		if (finished_at[i] < first)
			first = finished_at[i];
		if (finished_at[i] > last)
			last = finished_at[i];
	}
	first -= SECOND;
	last -= SECOND;
	print_message("# three ended after %llu to %llu us\n",
		      (unsigned long long)first / MICROSECOND,
		      (unsigned long long)last / MICROSECOND);
	assert_true(first * 10 > last * 6);
	assert_int_equal(world->dropped, 0);
	assert_true(last < 4 * LENGTH * 1000 / (RATE / MILLISECOND));
	world_destroy(world);
}

/* A short queue that overflows: there is neither a collapse nor a storm of losses. */
static void test_short_queue(void **state)
{
	struct world *world = make(2, 0, 50 * MICROSECOND, 8952);

	world->settings.queue = 100000;
	assert_true(measure(world) > 0.5 * RATE);
	assert_true(world->dropped < world->packets / 10);
	world_destroy(world);
}

/* The window after 5 ms of a put. */
static uint64_t window_with_marks(uint32_t marks)
{
	struct world *world = make(2, 0, 50 * MICROSECOND, 8952);
	struct net_path_info info;

	world->settings.mark = marks;
	put(world, 0, 1);
	world_pass(world, 5 * MILLISECOND);
	assert_true(net_path_info(host_peer(&world->hosts[0], 1), 0, &info));
	assert_int_equal(WORLD_SUM(world, ecn_marks) > 0, marks > 0);
	world_destroy(world);
	return info.window;
}

/* Marks reduce the window like a queue does. */
static void test_marks(void **state)
{
	assert_true(window_with_marks(PER_MILLION(500000)) < window_with_marks(0) / 2);
}

/* The receiver was late: the network took 20 us. */
static void acknowledge(struct congestion *congestion, uint64_t now, uint32_t packets,
			uint32_t packet, uint64_t number, uint64_t waited)
{
	struct congestion_news news = { .packets = packets,
					.bytes = packets * packet,
					.rtt = 20 * MICROSECOND,
					.waited = waited,
					.largest = number,
					.next = number + 1 };

	congestion_acknowledged(congestion, now, &news, 50 * MICROSECOND, packet);
}

/* The window after rounds of 100 packets that are acknowledged late, some of which are lost. */
static uint64_t window_after(unsigned rounds, unsigned lost)
{
	const uint32_t packet = 8952;
	struct congestion congestion;
	uint64_t now = SECOND, number = 0;

	congestion_init(&congestion, packet, 1);
	acknowledge(&congestion, now, 1, packet, number, 20 * MICROSECOND);
	while (rounds--) {
		now += 5 * MILLISECOND;
		number += 100;
		congestion_lost(&congestion, lost);
		acknowledge(&congestion, now, 100 - lost, packet, number, 5 * MILLISECOND);
	}
	return congestion_window(&congestion);
}

/*
 * A peer that waits for a processor acknowledges late: neither that nor few losses are signs of
 * congestion. Many losses are.
 */
static void test_slow_peer(void **state)
{
	assert_true(window_after(200, 0) >= 64 << 10);
	assert_true(window_after(200, 1) >= 64 << 10);
	assert_true(window_after(200, 10) >= 64 << 10);
	assert_in_range(window_after(200, 30), 1, 32 << 10);
}

/* ---- several senders at a port with a queue of limited length ---- */

#define SENDERS 64
#define PUT ((size_t)128 << 10)
#define PORT_RATE 3125000000ull /* bytes a second: 25 Gbit/s */

static uint64_t reached[SENDERS + 1]; /* bytes, by sender */

static void on_reached(struct world *world, unsigned from, unsigned to, const uint8_t *bytes,
		       size_t length)
{
	if (to == 0)
		reached[from] += length;
}

static void put_again(struct host *host, void *arg, const struct net_completion *completion)
{
	assert_ok(completion->status);
	host_put(host, 0, 0, 0, PUT, NULL);
}

static struct world *senders(uint64_t rate, uint64_t queue, unsigned count)
{
	struct settings settings;
	struct world *world;
	unsigned i, j;

	settings_init(&settings);
	settings.hosts = count + 1;
	settings.rate = rate;
	settings.queue = queue;
	settings.framing = 66;
	settings.uplinks = true;
	settings.delay = 5 * MICROSECOND;
	settings.arena = PUT;
	world = world_create(&settings);
	world->reached = on_reached;
	for (i = 1; i <= count; i++) {
		world->hosts[i].complete = put_again;
		for (j = 0; j < 16; j++)
			host_put(&world->hosts[i], 0, 0, 0, PUT, NULL);
	}
	return world;
}

/* 64 hosts send to one at 25 Gbit/s: nothing is lost, from the first packet on. */
static void test_incast(void **state)
{
	struct world *world = senders(PORT_RATE, 1000000, SENDERS);
	double sum = 0, squares = 0;
	unsigned i;

	world_pass(world, 100 * MILLISECOND);
	memset(reached, 0, sizeof(reached));
	world_pass(world, 100 * MILLISECOND);
	for (i = 1; i <= SENDERS; i++) {
		sum += (double)reached[i];
		squares += (double)reached[i] * (double)reached[i];
	}
	print_message(
		"# %.3f of the link, Jain's index %.3f, %llu packets lost, %llu bytes queued\n",
		sum / 0.1 / PORT_RATE, sum * sum / SENDERS / squares,
		(unsigned long long)world->dropped, (unsigned long long)world->ports[0].longest);
	assert_int_equal(world->dropped, 0);
	assert_true(sum > 0.85 * 0.1 * PORT_RATE);
	assert_true(sum * sum / SENDERS > 0.9 * squares);
	world_destroy(world);
}

/* Beside TCP with cubic a flow has a quarter of the link, and leaves as much. */
static void check_cubic(uint64_t queue)
{
	struct world *world = senders(125000000, queue, 1);
	struct cubic *cubic = cubic_start(world, world->hosts[0].port, 9000);
	double ours, others;
	uint64_t before;

	world_pass(world, 4 * SECOND);
	memset(reached, 0, sizeof(reached));
	before = cubic_bytes(cubic);
	world_pass(world, 6 * SECOND);
	ours = (double)reached[1] / 0.125e9 / 6;
	others = (double)(cubic_bytes(cubic) - before) / 0.125e9 / 6;
	print_message("# queue of %llu bytes: %.3f of the link, and %.3f\n",
		      (unsigned long long)queue, ours, others);
	assert_true(ours > 0.25);
	assert_true(others > 0.25);
	world_destroy(world);
	cubic_free(cubic);
}

static void test_cubic(void **state)
{
	check_cubic(125000);
	check_cubic(1250000);
}

/* How many peers send: those of this period and of the one before, each once. */
static void test_senders(void **state)
{
	uint16_t last[3] = { 0 };
	struct senders senders = { 0 };
	uint64_t now = SECOND;
	unsigned i, j;

	assert_int_equal(senders_count(&senders, now), 1);
	for (i = 0; i < 10; i++) {
		for (j = 0; j < 3; j++)
			senders_heard(&senders, now, &last[j]);
		now += 100 * MICROSECOND;
	}
	assert_int_equal(senders_count(&senders, now), 3);
	for (i = 0; i < 10; i++) {
		senders_heard(&senders, now, &last[0]);
		now += 100 * MICROSECOND;
	}
	assert_int_equal(senders_count(&senders, now), 1);
	for (j = 0; j < 3; j++)
		senders_heard(&senders, now, &last[j]);
	assert_int_equal(senders_count(&senders, now), 3);
	assert_int_equal(senders_count(&senders, now + SECOND), 1);
}

/* At 25 Gbit/s, in any order: most of many are heard, and those that ended are forgotten soon. */
static void test_senders_fast(void **state)
{
	uint16_t last[256] = { 0 };
	struct random_numbers numbers = random_start("senders");
	struct senders senders = { 0 };
	uint64_t now = SECOND;
	unsigned i;

	for (i = 0; i < 4096; i++) {
		senders_heard(&senders, now, &last[random_below(&numbers, 256)]);
		now += 405;
	}
	assert_in_range(senders_count(&senders, now), 190, 256);
	for (i = 0; i < 200; i++) {
		senders_heard(&senders, now, &last[random_below(&numbers, 8)]);
		now += 2900;
	}
	assert_in_range(senders_count(&senders, now), 3, 8);
	for (i = 0; i < 40; i++) {
		senders_heard(&senders, now, &last[8 + random_below(&numbers, 4)]);
		now += 2900;
	}
	assert_in_range(senders_count(&senders, now), 2, 5);
}

/* On a slower link a period waits until those that send at random have come. */
static void test_senders_slow(void **state)
{
	uint16_t last[8] = { 0 };
	struct random_numbers numbers = random_start("senders on a slow link");
	struct senders senders = { 0 };
	uint64_t now = SECOND, sum = 0;
	unsigned i;

	for (i = 0; i < 10000; i++) {
		senders_heard(&senders, now, &last[random_below(&numbers, 8)]);
		sum += senders_count(&senders, now);
		now += 2900;
	}
	/* Of eight. */
	assert_in_range(sum / 1000, 62, 80);
}

/* Who is busy and sends nothing leaves the others as much as a new one may send. */
static void test_credit(void **state)
{
	struct shared shared = { .options = { .receive_buffer = 4 << 20 }, .now = SECOND };
	struct net_association association = { .shared = &shared };

	shared.busy = 1;
	assert_int_equal(association_receive_credit(&association), 4 << 20);
	shared.busy = 1000;
	assert_int_equal(association_receive_credit(&association), 64 << 10);
	shared.arriving = 512;
	assert_int_equal(association_receive_credit(&association), 8 << 10);
}

/* Told to pause, a flow that uses its window up does so for a round trip; any other does not. */
static void test_pause(void **state)
{
	struct congestion congestion;
	unsigned i;

	congestion_init(&congestion, 8952, 1);
	acknowledge(&congestion, SECOND, 1, 8952, 0, 20 * MICROSECOND);
	assert_int_equal(congestion_paused(&congestion, SECOND, 1, 8952), 0);
	congestion.limited = true;
	assert_int_equal(congestion_paused(&congestion, SECOND, 1, 8952), 20 * MICROSECOND);
	assert_int_equal(congestion_window(&congestion), 64 << 10);
	/* Not again so soon. */
	congestion.limited = true;
	assert_int_equal(congestion_paused(&congestion, SECOND + 100 * MICROSECOND, 1, 8952), 0);
	/* A window that makes a queue is halved, so that the path is seen without it. */
	congestion.trip = 60 * MICROSECOND;
	congestion.window = 256 << 18;
	congestion.mourned = 1;
	congestion.before = 512 << 18;
	congestion.limited = true;
	assert_int_equal(congestion_paused(&congestion, 2 * SECOND, 1, 8952), 60 * MICROSECOND);
	assert_in_range(congestion_window(&congestion), 128 << 10, 130 << 10);
	/* A packet that was lost before the pause does not undo that. */
	congestion_spurious(&congestion);
	assert_in_range(congestion_window(&congestion), 128 << 10, 130 << 10);
	/* What is safe to begin with is left: the delay may be a receiver's that waits. */
	for (i = 3; i < 9; i++) {
		congestion.limited = true;
		congestion_paused(&congestion, i * SECOND, 1, 8952);
	}
	assert_int_equal(congestion_window(&congestion), 64 << 10);
	/* Below a packet the effect would show too late. */
	congestion_init(&congestion, 8952, 256);
	acknowledge(&congestion, SECOND, 1, 8952, 0, 20 * MICROSECOND);
	congestion.trip = 60 * MICROSECOND;
	congestion.window = 1000 << 8;
	congestion.limited = true;
	assert_int_equal(congestion_paused(&congestion, 2 * SECOND, 1, 8952), 60 * MICROSECOND);
	assert_int_equal(congestion_window(&congestion), 1000);
}

/* A round trip of 250 ms where 20 us are normal is no queue, and no pause is as long. */
static void test_pause_of_slow_process(void **state)
{
	static const uint32_t trips[][2] = {
		{ 250 * MILLISECOND, 20 * MICROSECOND + 5 * MILLISECOND },
		{ 3 * MILLISECOND, 3 * MILLISECOND },
	};
	struct congestion_news news = { .packets = 1, .bytes = 8952, .largest = 1, .next = 2 };
	struct congestion congestion;
	unsigned i;

	for (i = 0; i < ARRAY_SIZE(trips); i++) {
		congestion_init(&congestion, 8952, 1);
		acknowledge(&congestion, SECOND, 1, 8952, 0, 20 * MICROSECOND);
		news.rtt = news.waited = trips[i][0];
		congestion_acknowledged(&congestion, SECOND, &news, 50 * MICROSECOND, 8952);
		congestion.limited = true;
		assert_int_equal(congestion_paused(&congestion, 2 * SECOND, 2, 8952), trips[i][1]);
	}
	/* A path that is as long is paused for as long. */
	congestion_init(&congestion, 8952, 1);
	news.rtt = news.waited = 250 * MILLISECOND;
	congestion_acknowledged(&congestion, SECOND, &news, 50 * MICROSECOND, 8952);
	congestion.limited = true;
	assert_int_equal(congestion_paused(&congestion, 10 * SECOND, 2, 8952), 250 * MILLISECOND);
}

/* The window after a round with that queue, of so many at first that are as large as that. */
static uint64_t window_after_queue(uint64_t window, uint64_t queue)
{
	struct congestion_news news = { .packets = 1,
					.bytes = 8952,
					.rtt = 20 * MICROSECOND + queue,
					.waited = 20 * MICROSECOND + queue,
					.largest = 1,
					.next = 2 };
	struct congestion congestion;

	congestion_init(&congestion, 8952, 8);
	acknowledge(&congestion, SECOND, 1, 8952, 0, 20 * MICROSECOND);
	congestion.slow_start = false;
	congestion.limited = true;
	congestion.window = window << 8;
	congestion_acknowledged(&congestion, SECOND, &news, 50 * MICROSECOND, 8952);
	return congestion_window(&congestion);
}

/* The same queue takes from a large window and adds to a small one. */
static void test_even(void **state)
{
	assert_true(window_after_queue(512 << 10, 40 * MICROSECOND) < 512 << 10);
	assert_true(window_after_queue(24 << 10, 40 * MICROSECOND) > 24 << 10);
	assert_true(window_after_queue(24 << 10, 75 * MICROSECOND) < 24 << 10);
}

/* Slow start ends when the receiver hears more senders. */
static void test_more_senders(void **state)
{
	struct congestion congestion;

	congestion_init(&congestion, 8952, 4);
	congestion_senders(&congestion, 3);
	assert_true(congestion.slow_start);
	congestion_senders(&congestion, 4);
	assert_false(congestion.slow_start);
	congestion_senders(&congestion, 0);
	assert_int_equal(congestion.senders, 1);
}

/* The part of a window that is left when packets waited for 200 us. */
static unsigned percent_left(uint64_t window)
{
	struct congestion_news news = { .packets = 1,
					.bytes = 1200,
					.rtt = 220 * MICROSECOND,
					.waited = 220 * MICROSECOND,
					.largest = 1,
					.next = 2 };
	struct congestion congestion;

	congestion_init(&congestion, 8952, 1024);
	acknowledge(&congestion, SECOND, 1, 1200, 0, 20 * MICROSECOND);
	congestion.window = window << 8;
	congestion_acknowledged(&congestion, SECOND, &news, 50 * MICROSECOND, 8952);
	return (unsigned)(100 * congestion_window(&congestion) / window);
}

/* A window below a packet changes by less: the effect shows after its next packet. */
static void test_small_window(void **state)
{
	assert_in_range(percent_left(12000), 49, 51);
	assert_in_range(percent_left(600), 85, 95);
	assert_in_range(percent_left(300), 90, 99);
}

/* The least window is a state to leave: without a queue it is a packet again within ten round trips. */
static void test_least_window(void **state)
{
	struct congestion congestion;
	unsigned i;

	congestion_init(&congestion, 8952, 1);
	acknowledge(&congestion, SECOND, 1, 1200, 0, 20 * MICROSECOND);
	congestion.slow_start = false;
	congestion.window = 8 << 8;
	for (i = 0; i < 10; i++) {
		congestion.limited = true;
		acknowledge(&congestion, SECOND, 1, 1200, i + 1, 20 * MICROSECOND);
	}
	assert_true(congestion_window(&congestion) > 8952);
}

/* The more senders the receiver hears, the less each begins with; less than a packet is paced. */
static void test_part(void **state)
{
	struct congestion congestion;

	congestion_init(&congestion, 8952, 1);
	assert_int_equal(congestion_window(&congestion), 64 << 10);
	assert_int_equal(congestion_pause(&congestion, 50000, 8952, 8952), 0);
	congestion_init(&congestion, 8952, 1024);
	assert_int_equal(congestion_window(&congestion), 128);
	assert_int_equal(congestion_packet(&congestion, 8952), NET_PACKET_LEAST);
	assert_int_equal(congestion_pause(&congestion, 50000, 1200, 8952), 50000ull * 1200 / 128);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random_loss),
		cmocka_unit_test(test_fair),
		cmocka_unit_test(test_short_queue),
		cmocka_unit_test(test_marks),
		cmocka_unit_test(test_slow_peer),
		cmocka_unit_test(test_incast),
		cmocka_unit_test(test_senders),
		cmocka_unit_test(test_pause),
		cmocka_unit_test(test_pause_of_slow_process),
		cmocka_unit_test(test_part),
		cmocka_unit_test(test_cubic),
		cmocka_unit_test(test_small_window),
		cmocka_unit_test(test_credit),
		cmocka_unit_test(test_least_window),
		cmocka_unit_test(test_even),
		cmocka_unit_test(test_more_senders),
		cmocka_unit_test(test_senders_fast),
		cmocka_unit_test(test_senders_slow),
	};

	return cmocka_run_group_tests_name("net_congestion", tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations and messages complete however losses, faults, paths and stops coincide. */
#include "unit.h"

#include "protocol/world.h"
#include "protocol/core.h"

#define ARENA (2 * MIB)

static unsigned completed, received, gone;
static int last_status;

static void on_message(struct host *host, struct host *from, uint32_t tag, const void *data,
		       size_t length)
{
	received++;
}

static void on_complete(struct host *host, void *arg, const struct net_completion *completion)
{
	completed++;
	last_status = completion->status;
}

static void on_gone(struct host *host, struct host *peer, int status, const char *why)
{
	gone++;
}

static struct settings with_seed(uint64_t seed)
{
	struct settings settings;

	settings_init(&settings);
	settings.seed = seed;
	settings.arena = ARENA;
	return settings;
}

/* Late packets, and slow resolution of faults. */
static struct settings with_delays(uint64_t seed)
{
	struct settings settings = with_seed(seed);

	settings.reorder = PER_MILLION(200000);
	settings.delay = 20 * MICROSECOND;
	settings.jitter = 400 * MICROSECOND;
	settings.resolve = 300 * MICROSECOND;
	return settings;
}

static struct world *make(const struct settings *settings)
{
	struct world *world = world_create(settings);
	unsigned i;

	completed = received = gone = 0;
	for (i = 0; i < settings->hosts; i++) {
		pattern_fill(world->hosts[i].arena, settings->arena, i);
		world->hosts[i].deliver = on_message;
		world->hosts[i].complete = on_complete;
		world->hosts[i].gone = on_gone;
	}
	return world;
}

/* From host 0 to the same place of host 1. */
static void put(struct world *world, size_t offset, size_t length)
{
	host_put(&world->hosts[0], offset, 1, offset, length, NULL);
}

static int send(struct world *world, size_t length)
{
	static const uint8_t bytes[5000];

	return net_send(host_peer(&world->hosts[0], 1), 1, bytes, length, NULL, 0);
}

/*
 * The acknowledgement of a packet arrives after the packet was declared lost, and after its page
 * was absent and its bytes were requested again.
 */
static void test_late_answers(void **state)
{
	struct settings settings;
	struct world *world;
	uint64_t seed;
	unsigned i;

	for (seed = 1; seed <= 120; seed++) {
		settings = with_delays(seed);
		settings.paths = 2;
		settings.loss = PER_MILLION(80000);
		world = make(&settings);
		for (i = 0; i < 4; i++)
			put(world, i << 18, 1 << 18);
		for (i = 0; i < 4000 && completed < 4; i++) {
			if (i % 2 == 0)
				host_evict(&world->hosts[0], 0, ARENA);
			if (i % 3 == 0)
				host_evict(&world->hosts[1], 0, ARENA);
			if (i % 40 == 0)
				world->settings.paths_down = world_below(world, 2) ? 2 : 0;
			world_pass(world, 25 * MICROSECOND);
		}
		world->settings.paths_down = 0;
		world_pass(world, 30 * SECOND);
		if (completed != 4)
			fail_msg("seed %u: %u of 4 puts completed", (unsigned)seed, completed);
		assert_memory_equal(world->hosts[0].arena, world->hosts[1].arena, 4 << 18);
		world_destroy(world);
	}
}

/* Part of the source is not mapped, the rest is evicted again and again. */
static void test_late_answers_of_bad_put(void **state)
{
	struct settings settings;
	struct world *world;
	uint64_t seed;
	unsigned i;

	for (seed = 1; seed <= 60; seed++) {
		settings = with_delays(seed);
		world = make(&settings);
		host_put(&world->hosts[0], ARENA / 2 + WORLD_PAGE, 1, 0, ARENA / 2, NULL);
		for (i = 0; i < 400 && !completed; i++) {
			host_evict(&world->hosts[0], 0, ARENA);
			world_pass(world, 25 * MICROSECOND);
		}
		world_pass(world, 60 * SECOND);
		if (completed != 1)
			fail_msg("seed %u: the put did not complete", (unsigned)seed);
		assert_status(last_status, PF_ERR_FAULT);
		world_destroy(world);
	}
}

/*
 * Messages fill the receiver's buffer to the byte, the packet with its new credit is lost, and the
 * association comes to rest before the link is up again.
 */
static void test_credit_at_rest(void **state)
{
	struct settings settings = with_seed(1);
	struct world *world = make(&settings);
	unsigned sent = 0, stuck = 0;

	world->hosts[1].closed = true;
	while (stuck < 100) {
		if (send(world, 1016) == PF_OK) {
			sent++;
			stuck = 0;
			continue;
		}
		stuck++;
		host_pump(&world->hosts[0]);
		world_pass(world, MILLISECOND);
	}
	world->settings.paths_down = 1;
	world_pass(world, MILLISECOND);
	world->hosts[1].closed = false;
	host_pump(&world->hosts[1]);
	world_pass(world, 3 * SECOND);
	world->settings.paths_down = 0;
	world_pass(world, 5 * SECOND);
	assert_int_equal(received, sent);
	world_destroy(world);
}

/* The peer ends after its messages were acknowledged and before they are delivered. */
static void test_end_after_messages(void **state)
{
	struct net_association *peer;
	struct settings settings;
	struct world *world;
	unsigned i, killed;

	for (killed = 0; killed < 2; killed++) {
		settings = with_seed(1);
		settings.options.peer_timeout = SECOND;
		settings.options.keepalive = SECOND / 4;
		world = make(&settings);
		world->hosts[1].closed = true;
		for (i = 0; i < 3; i++)
			assert_status(send(world, 5000), PF_OK);
		host_pump(&world->hosts[0]);
		world_pass(world, 100 * MILLISECOND);
		peer = world->hosts[1].peers[0];
		if (killed) {
			host_crash(&world->hosts[0]);
		} else {
			net_close(world->hosts[0].peers[1]);
			host_pump(&world->hosts[0]);
		}
		world_pass(world, 5 * SECOND);
		assert_int_equal(received, 0);
		world->hosts[1].closed = false;
		host_take(&world->hosts[1]);
		assert_int_equal(received, 3);
		assert_int_equal(gone, 1);
		assert_true(net_association_memory(peer) <= 1024);
		world_destroy(world);
	}
}

/* ---- opening over several paths ---- */

static bool welcomed;

static void cut_path_of_welcome(struct world *world, unsigned from, unsigned to,
				const uint8_t *packet, size_t length)
{
	if ((packet[16] & 15) != WIRE_WELCOME || welcomed)
		return;
	welcomed = true;
	world->settings.paths_down = 1;
}

/* The path of the first HELLO goes down before the answer. */
static void test_open_other_path(void **state)
{
	struct settings settings = with_seed(1);
	struct world *world;

	settings.paths = 2;
	welcomed = false;
	world = make(&settings);
	world->tap = cut_path_of_welcome;
	put(world, 0, 100000);
	world_pass(world, 10 * SECOND);
	assert_true(welcomed);
	assert_int_equal(completed, 1);
	assert_ok(last_status);
	world_destroy(world);
}

/* The first HELLO is lost, the second one takes the second path. */
static void test_open_second_path(void **state)
{
	struct settings settings = with_seed(1);
	struct world *world;
	uint32_t down;
	unsigned i;

	settings.paths = 2;
	for (down = 1; down < 3; down++) {
		world = make(&settings);
		world->settings.paths_down = 1;
		put(world, 0, 100000);
		world_pass(world, 30 * MILLISECOND);
		world->settings.paths_down = 0;
		world_pass(world, SECOND);
		for (i = 0; i < 20; i++) {
			put(world, 0, 500000);
			world_pass(world, 5 * MILLISECOND);
		}
		assert_int_equal(completed, 21);
		world->settings.paths_down = down;
		put(world, 0, 500000);
		world_pass(world, 20 * SECOND);
		assert_int_equal(completed, 22);
		assert_ok(last_status);
		assert_int_equal(gone, 0);
		world_destroy(world);
	}
}

/* A batch system suspends the whole job for longer than peer_timeout: no peer counts as dead. */
static void test_job_suspended(void **state)
{
	struct settings settings = with_seed(1);
	struct world *world;

	settings.options.peer_timeout = 20 * SECOND;
	world = make(&settings);
	put(world, 0, 1000);
	world_pass(world, 100 * MILLISECOND);
	put(world, 0, 1000000);
	world_pass(world, 20 * MICROSECOND);
	host_stop(&world->hosts[0]);
	host_stop(&world->hosts[1]);
	world_pass(world, 700 * SECOND);
	host_continue(&world->hosts[0]);
	host_continue(&world->hosts[1]);
	world_pass(world, 10 * SECOND);
	assert_int_equal(gone, 0);
	assert_int_equal(completed, 2);
	assert_ok(last_status);
	/* When only one of them is suspended, it counts as dead after peer_timeout. */
	put(world, 0, 1000000);
	world_pass(world, 20 * MICROSECOND);
	host_stop(&world->hosts[1]);
	world_pass(world, 19 * SECOND);
	assert_int_equal(gone, 0);
	world_pass(world, 3 * SECOND);
	assert_int_equal(gone, 1);
	world_destroy(world);
}

/* Only the first of several peers is probed, until a path takes no more than that. */
static void sizes_of_packets(uint32_t most)
{
	struct settings settings = with_seed(1);
	struct net_path_info info;
	struct world *world;
	unsigned peer;

	settings.hosts = 6;
	world = make(&settings);
	for (peer = 1; peer < 6; peer++) {
		if (peer == 4)
			world->settings.mtu = most;
		host_put(&world->hosts[0], 0, peer, 0, ARENA, NULL);
		world_pass(world, 100 * MILLISECOND);
		assert_int_equal(completed, peer);
		assert_true(net_path_info(host_peer(&world->hosts[0], peer), 0, &info));
		assert_int_equal(info.packet, peer < 4 ? 8952 : most);
		if (peer < 4)
			assert_int_equal(host_statistics(&world->hosts[0])->probes, 1);
		assert_int_equal(host_statistics(&world->hosts[0])->black_holes, peer >= 4);
	}
	assert_int_equal(last_status, PF_OK);
	world_destroy(world);
}

static void test_sizes_of_packets(void **state)
{
	sizes_of_packets(1472);
	/* No probe passes any more. */
	sizes_of_packets(NET_PACKET_LEAST);
}

static bool both_completed(struct world *world)
{
	return completed == 2;
}

/*
 * A host whose socket is mostly full sends late, but what it acknowledges is acknowledged: each
 * packet takes part in as many acknowledgements as with an empty socket. Nothing is lost here, so
 * what is declared lost, or sent again by a time-out, is what the peer was not told of.
 */
static void test_full_socket(void **state)
{
	static const unsigned full[] = { 500000, 800000, 900000 };
	struct settings settings;
	struct world *world;
	uint64_t start;
	unsigned i;

	for (i = 0; i < 9; i++) {
		settings = with_seed(i);
		settings.full = PER_MILLION(full[i % 3]);
		settings.mtu = settings.interface_mtu = 1472;
		settings.rate = 125000000;
		settings.queue = 8 * MIB;
		settings.uplinks = true;
		settings.away_time = 2 * MICROSECOND;
		world = make(&settings);
		start = world->now;
		host_put(&world->hosts[0], 0, 1, 0, MIB, NULL);
		host_put(&world->hosts[1], MIB, 0, MIB, MIB, NULL);
		world_run(world, start + 20 * SECOND, both_completed);
		if (completed < 2)
			world_fail(world, "%u of 2 puts completed", completed);
		print_message("# seed %u, %u %% full: %.1f ms, %llu lost, %llu time-outs\n", i,
			      full[i % 3] / 10000, (double)(world->now - start) / 1e6,
			      (unsigned long long)WORLD_SUM(world, lost),
			      (unsigned long long)WORLD_SUM(world, timeouts));
		assert_int_equal(completed, 2);
		assert_ok(last_status);
		assert_int_equal(WORLD_SUM(world, lost), 0);
		assert_int_equal(WORLD_SUM(world, timeouts), 0);
		world_destroy(world);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_late_answers),
		cmocka_unit_test(test_late_answers_of_bad_put),
		cmocka_unit_test(test_credit_at_rest),
		cmocka_unit_test(test_end_after_messages),
		cmocka_unit_test(test_open_other_path),
		cmocka_unit_test(test_open_second_path),
		cmocka_unit_test(test_job_suspended),
		cmocka_unit_test(test_sizes_of_packets),
		cmocka_unit_test(test_full_socket),
	};

	return cmocka_run_group_tests_name("net_recovery", tests, NULL, NULL);
}

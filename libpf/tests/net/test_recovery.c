/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations and messages end however unluckily losses, faults, paths and stops meet. */
#include "unit.h"

#include "net/world.h"
#include "net/core.h"

#define ARENA ((size_t)2 << 20)

static unsigned completed, received, gone;
static int last_status;

static bool deliver(struct host *host, struct host *from, uint8_t tag, const void *data,
		    size_t length)
{
	received++;
	return true;
}

static void complete(struct host *host, void *arg, const struct net_completion *completion)
{
	completed++;
	last_status = completion->status;
}

static void on_gone(struct host *host, struct host *peer, int status)
{
	gone++;
}

static struct world *make(const struct settings *settings)
{
	struct world *world = world_create(settings);
	unsigned i;

	completed = received = gone = 0;
	for (i = 0; i < settings->hosts; i++) {
		pattern_fill(world->hosts[i].arena, settings->arena, i);
		world->hosts[i].deliver = deliver;
		world->hosts[i].complete = complete;
		world->hosts[i].gone = on_gone;
	}
	return world;
}

static void prepare(struct settings *settings, uint64_t seed)
{
	settings_init(settings);
	settings->seed = seed;
	settings->arena = ARENA;
}

static void run(struct world *world, uint64_t time)
{
	world_run(world, world->now + time, NULL);
}

/* From the first host's arena to the other's. */
static void put(struct world *world, size_t offset, size_t length)
{
	uint64_t local = (uint64_t)(uintptr_t)world->hosts[0].arena + offset;
	uint64_t remote = (uint64_t)(uintptr_t)world->hosts[1].arena + offset;

	assert_ok(net_put(host_peer(&world->hosts[0], 1), local, remote, length, NULL));
	host_pump(&world->hosts[0]);
}

static struct settings unlucky(uint64_t seed)
{
	struct settings settings;

	prepare(&settings, seed);
	settings.reorder = PER_MILLION(200000);
	settings.delay = 20 * MICROSECOND;
	settings.jitter = 400 * MICROSECOND;
	settings.resolve = 300 * MICROSECOND;
	return settings;
}

/*
 * That a packet arrived is heard after it was taken for lost, and after its
 * page was absent and its bytes were asked for again.
 */
static void test_late_answers(void **state)
{
	struct settings settings;
	struct world *world;
	uint64_t seed;
	unsigned i;

	for (seed = 1; seed <= 120; seed++) {
		settings = unlucky(seed);
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
			run(world, 25 * MICROSECOND);
		}
		world->settings.paths_down = 0;
		run(world, 30 * SECOND);
		if (completed != 4)
			fail_msg("seed %u: %u of 4 puts completed", (unsigned)seed, completed);
		assert_memory_equal(world->hosts[0].arena, world->hosts[1].arena, 4 << 18);
		world_destroy(world);
	}
}

/* Some of its source is not mapped, the rest is away again and again. */
static void test_late_answers_of_bad_put(void **state)
{
	struct settings settings;
	struct world *world;
	uint64_t seed, local;
	unsigned i;

	for (seed = 1; seed <= 60; seed++) {
		settings = unlucky(seed);
		world = make(&settings);
		local = (uint64_t)(uintptr_t)world->hosts[0].arena + ARENA / 2 + WORLD_PAGE;
		assert_ok(net_put(host_peer(&world->hosts[0], 1), local,
				  (uint64_t)(uintptr_t)world->hosts[1].arena, ARENA / 2, NULL));
		host_pump(&world->hosts[0]);
		for (i = 0; i < 400 && !completed; i++) {
			host_evict(&world->hosts[0], 0, ARENA);
			run(world, 25 * MICROSECOND);
		}
		run(world, 60 * SECOND);
		if (completed != 1)
			fail_msg("seed %u: the put did not complete", (unsigned)seed);
		assert_status(last_status, PF_ERR_FAULT);
		world_destroy(world);
	}
}

/*
 * Messages fill the receiver's buffer to the byte; its word that there is room
 * again is lost, and it comes to rest before the link is back.
 */
static void test_credit_at_rest(void **state)
{
	static const uint8_t bytes[1016];
	struct settings settings;
	struct world *world;
	unsigned sent = 0, stuck = 0;

	prepare(&settings, 1);
	world = make(&settings);
	world->hosts[1].closed = true;
	while (stuck < 100) {
		if (net_send(host_peer(&world->hosts[0], 1), 1, bytes, sizeof(bytes), NULL, 0) ==
		    PF_DONE) {
			sent++;
			stuck = 0;
			continue;
		}
		stuck++;
		host_pump(&world->hosts[0]);
		run(world, MILLISECOND);
	}
	world->settings.paths_down = 1;
	run(world, MILLISECOND);
	world->hosts[1].closed = false;
	net_deliver(world->hosts[1].core);
	host_pump(&world->hosts[1]);
	run(world, 3 * SECOND);
	world->settings.paths_down = 0;
	run(world, 5 * SECOND);
	assert_int_equal(received, sent);
	world_destroy(world);
}

/* The peer goes before its messages, which were acknowledged, are handed out. */
static void test_goodbye_after_messages(void **state)
{
	static const uint8_t bytes[5000];
	struct net_association *peer;
	struct settings settings;
	struct world *world;
	unsigned i, killed;

	for (killed = 0; killed < 2; killed++) {
		prepare(&settings, 1);
		settings.options.peer_timeout = SECOND;
		settings.options.keepalive = SECOND / 4;
		world = make(&settings);
		world->hosts[1].closed = true;
		for (i = 0; i < 3; i++)
			assert_status(net_send(host_peer(&world->hosts[0], 1), 1, bytes,
					       sizeof(bytes), NULL, 0),
				      PF_DONE);
		host_pump(&world->hosts[0]);
		run(world, 100 * MILLISECOND);
		peer = world->hosts[1].peers[0];
		if (killed)
			host_crash(&world->hosts[0]);
		else
			net_close(world->hosts[0].peers[1]);
		if (!killed)
			host_pump(&world->hosts[0]);
		run(world, 5 * SECOND);
		assert_int_equal(gone, 1);
		assert_int_equal(received, 0);
		world->hosts[1].closed = false;
		assert_int_equal(net_deliver(world->hosts[1].core), 1);
		assert_int_equal(received, 3);
		assert_true(net_association_memory(peer) <= 1024);
		world_destroy(world);
	}
}

/* ---- opening over several paths ---- */

static bool welcomed;

/* The path of the first HELLO dies before it is answered. */
static void pull_cable(struct world *world, unsigned from, unsigned to, const uint8_t *packet,
		       size_t length)
{
	if ((packet[16] & 15) != WIRE_WELCOME || welcomed)
		return;
	welcomed = true;
	world->settings.paths_down = 1;
}

static void test_open_other_path(void **state)
{
	struct settings settings;
	struct world *world;

	prepare(&settings, 1);
	settings.paths = 2;
	welcomed = false;
	world = make(&settings);
	world->tap = pull_cable;
	put(world, 0, 100000);
	run(world, 10 * SECOND);
	assert_true(welcomed);
	assert_int_equal(completed, 1);
	assert_ok(last_status);
	world_destroy(world);
}

/* The first HELLO is lost, the second one comes by the second path. */
static void test_open_second_path(void **state)
{
	struct settings settings;
	struct world *world;
	uint32_t down;
	unsigned i;

	for (down = 1; down < 3; down++) {
		prepare(&settings, 1);
		settings.paths = 2;
		world = make(&settings);
		world->settings.paths_down = 1;
		put(world, 0, 100000);
		run(world, 30 * MILLISECOND);
		world->settings.paths_down = 0;
		run(world, SECOND);
		for (i = 0; i < 20; i++) {
			put(world, 0, 500000);
			run(world, 5 * MILLISECOND);
		}
		assert_int_equal(completed, 21);
		world->settings.paths_down = down;
		put(world, 0, 500000);
		run(world, 20 * SECOND);
		assert_int_equal(completed, 22);
		assert_ok(last_status);
		assert_int_equal(gone, 0);
		world_destroy(world);
	}
}

/* ---- time that nobody had ---- */

/* A batch system suspends the whole job for longer than a peer may be silent. */
static void test_job_suspended(void **state)
{
	struct settings settings;
	struct world *world;
	unsigned i;

	prepare(&settings, 1);
	settings.options.peer_timeout = 20 * SECOND;
	world = make(&settings);
	put(world, 0, 1000);
	run(world, 100 * MILLISECOND);
	put(world, 0, 1000000);
	run(world, 20 * MICROSECOND);
	for (i = 0; i < 2; i++)
		host_stop(&world->hosts[i]);
	run(world, 700 * SECOND);
	for (i = 0; i < 2; i++)
		host_continue(&world->hosts[i]);
	run(world, 10 * SECOND);
	assert_int_equal(gone, 0);
	assert_int_equal(completed, 2);
	assert_ok(last_status);
	/* Only one of them: it is waited for no longer than it may be silent. */
	put(world, 0, 1000000);
	run(world, 20 * MICROSECOND);
	host_stop(&world->hosts[1]);
	run(world, 19 * SECOND);
	assert_int_equal(gone, 0);
	run(world, 3 * SECOND);
	assert_int_equal(gone, 1);
	world_destroy(world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_late_answers),
		cmocka_unit_test(test_late_answers_of_bad_put),
		cmocka_unit_test(test_credit_at_rest),
		cmocka_unit_test(test_goodbye_after_messages),
		cmocka_unit_test(test_open_other_path),
		cmocka_unit_test(test_open_second_path),
		cmocka_unit_test(test_job_suspended),
	};

	return cmocka_run_group_tests_name("net_recovery", tests, NULL, NULL);
}

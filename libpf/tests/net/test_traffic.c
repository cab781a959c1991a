/* SPDX-License-Identifier: BSD-3-Clause */
/* Packets between cores and a carrier in memory: loss, room, longest packets, memory, reports. */
#include "unit.h"

#include "net/traffic.h"
#include "protocol/world.h"

#define LENGTH 300000u
#define TIME (20 * SECOND)

static unsigned completed;

static void on_complete(struct host *host, void *arg, const struct net_completion *completion)
{
	assert_int_equal(completion->status, (int)(intptr_t)arg);
	completed++;
}

static bool is_done(struct world *world)
{
	return completed == 2;
}

static struct settings settings_random(struct random_numbers *numbers)
{
	struct settings settings;

	settings_init(&settings);
	settings.memory = true;
	settings.seed = random_next(numbers);
	settings.mtu = settings.interface_mtu = 1472;
	return settings;
}

/* Move bytes from host 0 to host 1 by a put and a get, at once. */
static void check_transfers(struct world *world)
{
	struct host *hosts = world->hosts;

	completed = 0;
	hosts[0].complete = hosts[1].complete = on_complete;
	pattern_fill(hosts[0].arena, 2 * LENGTH, 5);
	host_put(&hosts[0], 0, 1, LENGTH, LENGTH, (void *)(intptr_t)PF_OK);
	host_get(&hosts[1], 2 * LENGTH, 0, LENGTH, LENGTH, (void *)(intptr_t)PF_OK);
	assert_true(world_run(world, world->now + TIME, is_done));
	assert_false(world->failed);
	assert_memory_equal(hosts[0].arena, hosts[1].arena + LENGTH, LENGTH);
	assert_memory_equal(hosts[0].arena + LENGTH, hosts[1].arena + 2 * LENGTH, LENGTH);
}

/* The network loses, delays, duplicates, reorders and corrupts packets. */
static void test_lossy(void **state)
{
	struct random_numbers numbers = random_start("traffic, loss");
	unsigned i;

	for (i = 0; i < 8; i++) {
		struct settings settings = settings_random(&numbers);
		struct world *world;

		settings.loss = PER_MILLION(20000);
		settings.duplicate = settings.corrupt = PER_MILLION(10000);
		settings.reorder = PER_MILLION(50000);
		settings.jitter = 100 * MICROSECOND;
		settings.full = PER_MILLION(i & 1 ? 200000 : 0);
		settings.options.auth = i % 3 == 2 ? NET_AUTH_FULL : NET_AUTH_HEADER;
		world = world_create(&settings);
		check_transfers(world);
		assert_true(WORLD_SUM(world, lost) > 0);
		/* A carrier that places nothing is asked for no places. */
		assert_int_equal(WORLD_SUM(world, data_in_place), 0);
		world_destroy(world);
	}
}

/* Memory that cannot be read when packets are sent ends a put, with the side. */
static void test_unreadable(void **state)
{
	struct random_numbers numbers = random_start("traffic, unreadable memory");
	struct settings settings = settings_random(&numbers);
	struct world *world;

	settings.beyond = 16 * WORLD_PAGE;
	world = world_create(&settings);
	check_transfers(world);
	completed = 1;
	host_put(&world->hosts[0], settings.arena - 1000, 1, 0, 20000,
		 (void *)(intptr_t)PF_ERR_FAULT);
	assert_true(world_run(world, world->now + TIME, is_done));
	world_destroy(world);
}

static const struct carrier_operations *real;
static enum carrier_stop stop_with;
static unsigned sends, offered; /* calls of send after the stop; batches of the stopped call */
static struct net_endpoint stopped;
static uint32_t longest; /* packet to the same end after the stop, bytes */

#define SHORT 1304u /* bytes */

static size_t packet_most_short(const struct carrier *carrier, const struct net_endpoint *to)
{
	return SHORT;
}

/* Stop at a long batch of the first call with several batches. */
static unsigned send_stop_once(struct carrier *carrier, const struct net_batch *batches,
			       unsigned count, enum carrier_stop *stop)
{
	unsigned i;

	sends++;
	for (i = 0; offered && i < count; i++) {
		if (!memcmp(&batches[i].to, &stopped, sizeof(stopped)) &&
		    batches[i].segment > longest)
			longest = batches[i].segment;
	}
	if (offered || count < 2 || batches[0].probe || batches[0].segment <= SHORT)
		return real->send(carrier, batches, count, stop);
	offered = count;
	stopped = batches[0].to;
	*stop = stop_with;
	sends = 0;
	return 0;
}

/* Put bytes from host 0 by a carrier that stops once. No packet counts as lost. */
static struct world *put_stopped(struct random_numbers *numbers, enum carrier_stop stop)
{
	static struct carrier_operations operations;
	struct settings settings = settings_random(numbers);
	struct world *world;
	unsigned i;

	/* A batch for each path. */
	settings.paths = NET_PATHS_MOST;
	world = world_create(&settings);
	/* Until long packets are known to pass, and then until nothing is under way. */
	for (i = 0; i < 10; i++)
		check_transfers(world);
	world_pass(world, 10 * MILLISECOND);
	real = world->carrier->operations;
	operations = *real;
	operations.send = send_stop_once;
	operations.packet_most = packet_most_short;
	world->carrier->operations = &operations;
	stop_with = stop;
	sends = offered = longest = 0;
	completed = 1;
	host_put(&world->hosts[0], 0, 1, LENGTH, LENGTH, (void *)(intptr_t)PF_OK);
	assert_in_range(offered, 2, CARRIER_BATCHES);
	return world;
}

static void end_stopped(struct world *world)
{
	assert_true(world_run(world, world->now + TIME, is_done));
	assert_false(world->traffic->held);
	assert_int_equal(WORLD_SUM(world, lost), 0);
	world->carrier->operations = real;
	world_destroy(world);
}

/* After a batch without room, sending stops, and the core gets all batches back. */
static void test_full(void **state)
{
	struct random_numbers numbers = random_start("traffic, no room");
	struct world *world = put_stopped(&numbers, CARRIER_FULL);

	assert_int_equal(sends, 0);
	assert_true(world->traffic->held);
	end_stopped(world);
}

/* A batch longer than the carrier permits comes again at once, in packets as long as permitted. */
static void test_too_long(void **state)
{
	struct random_numbers numbers = random_start("traffic, longest packet");
	struct world *world = put_stopped(&numbers, CARRIER_TOO_LONG);

	assert_true(sends > 0);
	assert_false(world->traffic->held);
	end_stopped(world);
	assert_in_range(longest, 1, SHORT);
}

static int refused;

static void on_gone(struct host *host, struct host *peer, int status, const char *why)
{
	refused += strstr(why, "port unreachable") != NULL;
}

/* The reports of a carrier reach the core: a peer whose port is closed ends early. */
static void test_refused(void **state)
{
	struct random_numbers numbers = random_start("traffic, reports");
	struct settings settings = settings_random(&numbers);
	struct world *world = world_create(&settings);
	struct net_association *association = host_peer(&world->hosts[0], 1);

	world->hosts[0].gone = on_gone;
	host_crash(&world->hosts[1]);
	assert_ok(net_contact(association));
	host_pump(&world->hosts[0]);
	world_pass(world, TIME);
	assert_int_equal(refused, 1);
	world_destroy(world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lossy),    cmocka_unit_test(test_full),
		cmocka_unit_test(test_too_long), cmocka_unit_test(test_unreadable),
		cmocka_unit_test(test_refused),
	};

	return cmocka_run_group_tests_name("traffic", tests, NULL, NULL);
}

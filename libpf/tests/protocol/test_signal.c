/* SPDX-License-Identifier: BSD-3-Clause */
/* Puts with a signal: number of packets, time, and lengths around that of a packet. pf_simulate has loss and faults. */
#include "unit.h"

#include "protocol/core.h"
#include "protocol/world.h"
#include "protocol/wire.h"

#define ARENA (8 * MIB)
#define HALF (ARENA / 2)
#define WORD (ARENA - 8)
#define DELAY (20 * MICROSECOND)

static unsigned completed, noted;
static struct net_completion last;

static void on_complete(struct host *host, void *arg, const struct net_completion *completion)
{
	last = *completion;
	completed++;
}

static struct world *make(struct settings settings)
{
	struct world *world = world_create(&settings);
	unsigned i;

	for (i = 0; i < 2; i++) {
		pattern_fill(world->hosts[i].arena, HALF, i);
		memset(world->hosts[i].arena + HALF, 0, HALF);
		world->hosts[i].complete = on_complete;
	}
	completed = noted = 0;
	return world;
}

static struct settings settings_for(uint32_t block_size)
{
	struct settings settings;

	settings_init(&settings);
	settings.hosts = 2;
	settings.arena = ARENA;
	settings.delay = DELAY;
	settings.jitter = settings.reorder = 0;
	settings.options.block_size = block_size;
	return settings;
}

static uint64_t *word(const struct world *world)
{
	return (uint64_t *)(void *)(world->hosts[1].arena + WORD);
}

static bool one_completed(struct world *world)
{
	return completed == 1;
}

/* Put from host 0 to host 1, and return the time until it is complete. value 0: without a signal. */
static uint64_t put(struct world *world, size_t length, uint64_t value)
{
	pf_signal signal = { PF_SIGNAL_ADD, host_address(&world->hosts[1], WORD), value };
	uint64_t start = world->now;

	completed = 0;
	if (value)
		host_put_signal(&world->hosts[0], 0, 1, HALF, length, &signal, NULL);
	else
		host_put(&world->hosts[0], 0, 1, HALF, length, NULL);
	assert_true(world_run(world, world->now + 10 * SECOND, one_completed));
	assert_ok(last.status);
	return world->now - start;
}

static void warm(struct world *world)
{
	unsigned i;

	for (i = 0; i < 8; i++)
		put(world, 3 * MIB, 0);
	world_pass(world, MILLISECOND);
}

/* The signal costs no time, also behind several transfers. */
static void test_time(void **state)
{
	static const size_t lengths[] = { 1, 8, 1000, 1400, 65536, MIB, MIB + 8, 3 * MIB + 40000 };
	struct settings settings = settings_for(16384);
	struct world *world;
	unsigned i;

	settings.rate = 1000000000;
	settings.queue = 4 * MIB;
	world = make(settings);
	warm(world);
	for (i = 0; i < ARRAY_SIZE(lengths); i++) {
		uint64_t with, without;

		without = put(world, lengths[i], 0);
		world_pass(world, MILLISECOND);
		with = put(world, lengths[i], 1);
		world_pass(world, MILLISECOND);
		if (with > without + DELAY)
			fail_msg("a signal behind %zu bytes takes %.1f us, and %.1f without",
				 lengths[i], (double)with / 1e3, (double)without / 1e3);
	}
	assert_int_equal(*word(world), ARRAY_SIZE(lengths));
	world_destroy(world);
}

/* Is there room for the signal in the last packet? */
static void test_lengths(void **state)
{
	static const uint32_t blocks[] = { 4096, 16384, 65536 };
	struct world *world;
	size_t length, b;
	uint64_t sum = 0;

	for (b = 0; b < ARRAY_SIZE(blocks); b++, sum = 0) {
		struct settings settings = settings_for(blocks[b]);

		settings.mtu = settings.interface_mtu = 1472;
		world = make(settings);
		for (length = 0; length < 3000; length += 1 + length % 7) {
			memset(world->hosts[1].arena + HALF, 0, length + 8);
			put(world, length, length + 1);
			sum += length + 1;
			assert_int_equal(*word(world), sum);
			assert_memory_equal(world->hosts[0].arena, world->hosts[1].arena + HALF,
					    length);
			assert_int_equal(world->hosts[1].arena[HALF + length], 0);
		}
		for (length = 64 * blocks[b] - 2000;
		     length < 64 * blocks[b] + 2000 && length < HALF - 16; length += 401) {
			put(world, length, 1);
			assert_int_equal(*word(world), ++sum);
			assert_memory_equal(world->hosts[0].arena, world->hosts[1].arena + HALF,
					    length);
		}
		assert_int_equal(WORLD_SUM(world, data_again), 0);
		world_destroy(world);
	}
}

/* The page of the word is absent: later puts do not wait. */
static void test_absent_word(void **state)
{
	struct settings settings = settings_for(4096);
	pf_signal signal;
	struct world *world;

	settings.resolve = 100 * MILLISECOND;
	world = make(settings);
	signal = (pf_signal){ PF_SIGNAL_SET, host_address(&world->hosts[1], WORD), 7 };
	warm(world);
	host_evict(&world->hosts[1], WORD, 8);
	completed = 0;
	host_put_signal(&world->hosts[0], 0, 1, HALF, 100, &signal, NULL);
	world_pass(world, MILLISECOND);
	assert_int_equal(completed, 0);
	assert_int_equal(WORLD_SUM(world, destination_faults), 1);
	put(world, 1000, 0);
	assert_true(world->now < 50 * MILLISECOND + SECOND);
	assert_int_equal(*word(world), 0);
	completed = 0;
	assert_true(world_run(world, world->now + 10 * SECOND, one_completed));
	assert_int_equal(*word(world), 7);
	assert_int_equal(WORLD_SUM(world, timeouts), 0);
	world_destroy(world);
}

static uint8_t captured[2048];
static size_t captured_length;

static void capture(struct world *world, unsigned from, unsigned to, const uint8_t *bytes,
		    size_t length)
{
	if (from || captured_length || (bytes[16] & 15) != WIRE_DATA_PUT)
		return;
	memcpy(captured, bytes, length);
	captured_length = length;
}

/*
 * The packet of a put is late and counts as lost, the source cannot be read again, and the packet
 * arrives before the CANCEL: the signal happens, and the put succeeds.
 */
static void test_cancelled_late(void **state)
{
	const size_t address = WORLD_PAGE, source = ARENA - 8192;
	struct settings settings = settings_for(4096);
	const uint64_t *target;
	struct world *world;
	pf_signal signal;

	settings.resolve = 300 * MILLISECOND;
	world = make(settings);
	warm(world);
	target = (const uint64_t *)(const void *)(world->hosts[1].arena + address);
	signal = (pf_signal){ PF_SIGNAL_SET, host_address(&world->hosts[1], address), 7 };
	host_evict(&world->hosts[1], address, 8);
	captured_length = 0;
	world->tap = capture;
	world->settings.loss = UINT32_MAX;
	host_put_signal(&world->hosts[0], source, 1, HALF, 100, &signal, NULL);
	assert_true(captured_length);
	world->settings.loss = 0;
	put(world, 1000, 0);
	/* From now on the first put's source is not mapped, and the CANCEL is lost. */
	world->settings.arena = source;
	world->settings.loss = UINT32_MAX;
	world_pass(world, 2 * MILLISECOND);
	assert_true(WORLD_SUM(world, lost));
	completed = 0;
	world_inject(world, 0, 1, captured, captured_length);
	world_pass(world, MILLISECOND);
	assert_memory_equal(world->hosts[0].arena + source, world->hosts[1].arena + HALF, 100);
	world->settings.loss = 0;
	assert_true(world_run(world, world->now + 10 * SECOND, one_completed));
	assert_ok(last.status);
	assert_int_equal(*target, 7);
	world->settings.arena = ARENA;
	world_destroy(world);
}

#define ROUNDS 1000

/* Each host answers a notice with a notice. */
static void answer(struct host *host, struct host *from, const struct net_event *event)
{
	const pf_piece piece = world_piece(host_address(host, 0), host_address(from, HALF), 8);
	pf_signal signal = { PF_SIGNAL_NOTICE, 0, event->value + 1 };

	assert_int_equal(event->value, noted);
	assert_int_equal(event->length, 8);
	assert_int_equal(event->remote, host_address(host, HALF));
	if (++noted < ROUNDS)
		assert_pending(net_put_signal(host->peers[from->number], &piece, &signal, NULL));
}

static bool all_noted(struct world *world)
{
	return noted == ROUNDS;
}

/* The answer, DONE and the acknowledgement are one packet. */
static void test_packets(void **state)
{
	struct world *world = make(settings_for(16384));
	pf_signal signal = { PF_SIGNAL_NOTICE, 0, 0 };
	uint64_t before;
	unsigned i;

	warm(world);
	for (i = 0; i < 2; i++)
		world->hosts[i].notice = answer;
	before = WORLD_SUM(world, packets_sent);
	host_put_signal(&world->hosts[0], 0, 1, HALF, 8, &signal, NULL);
	assert_true(world_run(world, world->now + 10 * SECOND, all_noted));
	world_pass(world, MILLISECOND);
	assert_in_range(WORLD_SUM(world, packets_sent) - before, ROUNDS, ROUNDS + 5);
	world_destroy(world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_time),        cmocka_unit_test(test_lengths),
		cmocka_unit_test(test_absent_word), cmocka_unit_test(test_cancelled_late),
		cmocka_unit_test(test_packets),
	};

	return cmocka_run_group_tests_name("net_signal", tests, NULL, NULL);
}

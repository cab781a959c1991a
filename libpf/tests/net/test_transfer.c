/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Transfers that meet faults, above all the two patterns in which networks
 * with on-demand paging are known to collapse: a second transfer behind one
 * that waits for its page, and many peers faulting at once ("Pitfalls of
 * InfiniBand with On-Demand Paging", ISPASS 2021). Nothing may time out, and
 * nothing healthy may be sent again.
 */
#include "unit.h"

#include <sys/mman.h>

#include "net/sockets.h"
#include "net/wire.h"

#define ARENA ((size_t)8 << 20)
#define HALF (ARENA / 2)
#define MOST 512

static struct net_completion completions[MOST];
static uint64_t completed_at[MOST];
static unsigned completed;

static void complete(struct host *host, void *arg, const struct net_completion *completion)
{
	assert_int_equal(completed_at[(uintptr_t)arg], 0);
	completions[(uintptr_t)arg] = *completion;
	completed_at[(uintptr_t)arg] = host->world->now;
	completed++;
}

static unsigned expected;

static bool all_completed(struct world *world)
{
	return completed == expected;
}

static struct world *make_as(const struct settings *settings)
{
	struct world *world = world_create(settings);
	unsigned i;

	for (i = 0; i < settings->hosts; i++) {
		pattern_fill(world->hosts[i].arena, HALF, i);
		memset(world->hosts[i].arena + HALF, 0, HALF);
		world->hosts[i].complete = complete;
	}
	memset(completed_at, 0, sizeof(completed_at));
	completed = expected = 0;
	return world;
}

static void prepare(struct settings *settings, unsigned hosts, enum net_fault_mode mode)
{
	settings_init(settings);
	settings->hosts = hosts;
	settings->arena = ARENA;
	settings->options.fault_mode = mode;
	/* Far beyond every time-out there could be. */
	settings->resolve = 100 * MILLISECOND;
}

static struct world *make(unsigned hosts, enum net_fault_mode mode)
{
	struct settings settings;

	prepare(&settings, hosts, mode);
	return make_as(&settings);
}

static uint64_t at(const struct world *world, unsigned host, size_t offset)
{
	return (uint64_t)(uintptr_t)(world->hosts[host].arena + offset);
}

/* Numbered by arg, in the order of calls. */
static void put(struct world *world, unsigned from, unsigned to, size_t source, size_t destination,
		size_t length)
{
	assert_ok(net_put(host_peer(&world->hosts[from], to), at(world, from, source),
			  at(world, to, destination), length, (void *)(uintptr_t)expected));
	expected++;
	host_pump(&world->hosts[from]);
}

static void get(struct world *world, unsigned from, unsigned to, size_t destination, size_t source,
		size_t length)
{
	assert_ok(net_get(host_peer(&world->hosts[from], to), at(world, from, destination),
			  at(world, to, source), length, (void *)(uintptr_t)expected));
	expected++;
	host_pump(&world->hosts[from]);
}

static void warm(struct world *world, unsigned from, unsigned to)
{
	put(world, from, to, 0, HALF, 1000000);
	assert_true(world_run(world, world->now + SECOND, all_completed));
	assert_ok(completions[expected - 1].status);
	world_run(world, world->now + MILLISECOND, NULL);
}

static void assert_same(struct world *world, unsigned from, size_t source, unsigned to,
			size_t destination, size_t length)
{
	assert_memory_equal(world->hosts[from].arena + source, world->hosts[to].arena + destination,
			    length);
}

static void assert_no_waste(struct world *world)
{
	assert_int_equal(WORLD_SUM(world, timeouts), 0);
	assert_int_equal(WORLD_SUM(world, lost), 0);
	assert_int_equal(WORLD_SUM(world, data_again), 0);
	assert_int_equal(WORLD_SUM(world, data_duplicate), 0);
}

static void finish(struct world *world)
{
	unsigned i;

	assert_true(world_run(world, world->now + 10 * SECOND, all_completed));
	for (i = 0; i < expected; i++)
		assert_ok(completions[i].status);
}

/* Writing to an absent page waits for it: also what begins a transfer is looked at before. */
static void test_first_packet(void **state)
{
	int i;

	for (i = 0; i < 4; i++) {
		struct world *world = make(2, i & 1 ? NET_FAULT_BACKUP : NET_FAULT_NACK);

		warm(world, 0, 1);
		host_evict(&world->hosts[i >> 1 ? 0 : 1], HALF, 65536);
		if (i >> 1)
			get(world, 0, 1, HALF + 100, 100, 1000);
		else
			put(world, 0, 1, 100, HALF + 100, 1000);
		finish(world);
		assert_same(world, i >> 1, 100, !(i >> 1), HALF + 100, 1000);
		assert_int_equal(WORLD_SUM(world, destination_faults), 1);
		assert_int_equal(world->hosts[0].absent_writes, 0);
		assert_int_equal(world->hosts[1].absent_writes, 0);
		assert_no_waste(world);
		world_destroy(world);
	}
}

/* More to say of blocks than the control ring holds until the peer has acknowledged some of it. */
static void test_full_ring(void **state)
{
	struct settings settings;
	struct world *world;
	int i;

	prepare(&settings, 2, NET_FAULT_NACK);
	settings.options.block_size = 4096;
	settings.delay = 10 * MILLISECOND;
	settings.resolve = MILLISECOND;
	world = make_as(&settings);
	for (i = 0; i < 8; i++) {
		put(world, 0, 1, 0, HALF, HALF);
		finish(world);
	}
	host_evict(&world->hosts[1], HALF, HALF);
	put(world, 0, 1, 0, HALF, HALF);
	finish(world);
	assert_same(world, 0, 0, 1, HALF, HALF);
	/* Each is 8 bytes in it, and 16 when the page is there. */
	assert_true(WORLD_SUM(world, nacks_sent) * 24 > 20000);
	world_destroy(world);
}

/* A second transfer, posted while the first waits for its page, does not wait. */
static void check_second(enum net_fault_mode mode, bool by_get, bool source)
{
	struct world *world = make(2, mode);
	struct host *cold = &world->hosts[(by_get && source) || (!by_get && !source)];
	size_t cold_at = source ? 0 : HALF;
	uint64_t start;
	unsigned first;

	warm(world, 0, 1);
	first = expected;
	host_evict(cold, cold_at, 65536);
	start = world->now;
	if (by_get) {
		get(world, 0, 1, HALF, 0, 65536);
		get(world, 0, 1, HALF + 2000000, 100000, 1000000);
	} else {
		put(world, 0, 1, 0, HALF, 65536);
		put(world, 0, 1, 100000, HALF + 2000000, 1000000);
	}
	finish(world);
	assert_true(completed_at[first + 1] - start < 2 * MILLISECOND);
	assert_true(completed_at[first] > completed_at[first + 1] + MILLISECOND);
	assert_same(world, by_get, 0, !by_get, HALF, 65536);
	assert_same(world, by_get, 100000, !by_get, HALF + 2000000, 1000000);
	assert_no_waste(world);
	assert_true(WORLD_SUM(world, source_faults) + WORLD_SUM(world, destination_faults) >= 4);
	if (!source && mode == NET_FAULT_NACK) {
		assert_true(WORLD_SUM(world, nacks_sent) >= 4);
		assert_true(WORLD_SUM(world, asked_again) >= 4);
		assert_int_equal(WORLD_SUM(world, backup_held), 0);
	} else {
		assert_int_equal(WORLD_SUM(world, nacks_sent), 0);
		assert_int_equal(WORLD_SUM(world, asked_again), 0);
	}
	if (!source && mode == NET_FAULT_BACKUP)
		assert_true(WORLD_SUM(world, backup_held) >= 4);
	world_destroy(world);
}

static void test_second_transfer(void **state)
{
	int i;

	for (i = 0; i < 8; i++)
		check_second(i & 1 ? NET_FAULT_BACKUP : NET_FAULT_NACK, i & 2, i & 4);
}

/* Many peers fault at once, at one target. */
static void check_many(enum net_fault_mode mode)
{
	struct world *world = make(33, mode);
	unsigned i;

	for (i = 1; i < 33; i++)
		warm(world, i, 0);
	host_evict(&world->hosts[0], HALF, HALF);
	for (i = 1; i < 33; i++)
		put(world, i, 0, 4096 * i, HALF + (size_t)i * 65536, 65536);
	finish(world);
	for (i = 1; i < 33; i++)
		assert_same(world, i, 4096 * i, 0, HALF + (size_t)i * 65536, 65536);
	assert_no_waste(world);
	if (mode == NET_FAULT_BACKUP) {
		/* The ring holds some; the others are told. */
		assert_true(WORLD_SUM(world, backup_held) > 0);
		assert_true(WORLD_SUM(world, backup_full) > 0);
	}
	assert_true(WORLD_SUM(world, nacks_sent) > 0);
	world_destroy(world);
}

static void test_many_peers(void **state)
{
	check_many(NET_FAULT_NACK);
	check_many(NET_FAULT_BACKUP);
}

/* Healthy blocks of the transfer that faults pass the faulted one. */
static void test_only_the_block(void **state)
{
	struct world *world = make(2, NET_FAULT_NACK);
	uint64_t sent;

	warm(world, 0, 1);
	host_evict(&world->hosts[1], HALF + 5 * 16384, 16384);
	sent = host_statistics(&world->hosts[0])->data_sent;
	put(world, 0, 1, 0, HALF, 20 * 16384);
	world_run(world, world->now + MILLISECOND, NULL);
	assert_int_equal(completed, 1);
	assert_same(world, 0, 0, 1, HALF, 5 * 16384);
	assert_same(world, 0, 6 * 16384, 1, HALF + 6 * 16384, 14 * 16384);
	finish(world);
	assert_same(world, 0, 0, 1, HALF, 20 * 16384);
	/* Two packets a block: the faulted block's were sent once more at most. */
	assert_true(host_statistics(&world->hosts[0])->data_sent - sent <= 42);
	assert_no_waste(world);
	world_destroy(world);
}

static void assert_fault(unsigned number, enum pf_side side, uint64_t from, uint64_t to)
{
	assert_status(completions[number].status, PF_ERR_FAULT);
	assert_int_equal(completions[number].side, side);
	assert_in_range(completions[number].address, from, to);
}

/* An address that does not exist is an error for the initiator, and for nobody else. */
static void test_bad_address(void **state)
{
	struct world *world = make(2, NET_FAULT_NACK);
	unsigned i, first;

	warm(world, 0, 1);
	first = expected;
	put(world, 0, 1, ARENA - 20000, HALF, 100000); /* source */
	put(world, 0, 1, 0, ARENA - 20000, 100000);    /* destination */
	get(world, 0, 1, ARENA - 20000, 0, 100000);    /* destination */
	get(world, 0, 1, HALF, ARENA - 20000, 100000); /* source */
	put(world, 0, 1, 0, HALF + 1000000, 100000);   /* healthy */
	assert_true(world_run(world, world->now + SECOND, all_completed));
	assert_fault(first, PF_SIDE_LOCAL, at(world, 0, ARENA), at(world, 0, ARENA + 80000));
	assert_fault(first + 1, PF_SIDE_REMOTE, at(world, 1, ARENA), at(world, 1, ARENA + 80000));
	assert_fault(first + 2, PF_SIDE_LOCAL, at(world, 0, ARENA), at(world, 0, ARENA + 80000));
	assert_fault(first + 3, PF_SIDE_REMOTE, at(world, 1, ARENA), at(world, 1, ARENA + 80000));
	assert_ok(completions[first + 4].status);
	assert_same(world, 0, 0, 1, HALF + 1000000, 100000);
	for (i = 0; i < 300; i++) {
		completed_at[0] = 0;
		assert_ok(net_put(host_peer(&world->hosts[0], 1), at(world, 0, ARENA),
				  at(world, 1, HALF), 10, NULL));
		host_pump(&world->hosts[0]);
		expected++;
		assert_true(world_run(world, world->now + SECOND, all_completed));
	}
	/* What comes behind the end of a transfer that failed is no loss. */
	assert_int_equal(WORLD_SUM(world, timeouts), 0);
	assert_int_equal(WORLD_SUM(world, lost), 0);
	world_destroy(world);
}

/* The first byte that is not there is named, also when only the system finds out. */
static void check_bad_memory(bool no_segments, enum net_auth auth)
{
	struct settings settings;
	struct world *world;
	unsigned first, i;

	prepare(&settings, 2, NET_FAULT_NACK);
	settings.beyond = 40 * WORLD_PAGE;
	settings.no_segments = no_segments;
	settings.options.auth = auth;
	settings.interface_mtu = settings.mtu = 1472;
	world = make_as(&settings);
	warm(world, 0, 1);
	first = expected;
	put(world, 0, 1, ARENA - 20000, HALF, 100000);
	get(world, 0, 1, HALF + 100000, ARENA - 20001, 100000);
	put(world, 0, 1, 0, ARENA - 20002, 100000);
	get(world, 0, 1, ARENA - 40003, 0, 100000);
	put(world, 0, 1, 0, HALF + 1000000, 100000);
	assert_true(world_run(world, world->now + SECOND, all_completed));
	for (i = 0; i < 4; i++)
		assert_fault(first + i, i % 3 ? PF_SIDE_REMOTE : PF_SIDE_LOCAL,
			     at(world, i % 3 != 0, ARENA), at(world, i % 3 != 0, ARENA));
	assert_ok(completions[first + 4].status);
	assert_same(world, 0, 0, 1, HALF + 1000000, 100000);
	assert_false(world->failed);
	world_destroy(world);
}

static void test_bad_memory(void **state)
{
	check_bad_memory(false, NET_AUTH_HEADER);
	check_bad_memory(true, NET_AUTH_HEADER);
	check_bad_memory(false, NET_AUTH_FULL);
	check_bad_memory(false, NET_AUTH_ENCRYPT);
}

static void test_lengths(void **state)
{
	static const size_t lengths[] = { 1,       2,       255,     256,     257,
					  4095,    16383,   16384,   16385,   65536,
					  1048575, 1048576, 1048577, 2097153, 3000001 };
	static const uint32_t blocks[] = { 4096, 16384, 65536 };
	struct net_options options;
	unsigned i, b;

	net_options_init(&options);
	for (b = 0; b < 3; b++) {
		struct world *world = make(2, NET_FAULT_NACK);

		for (i = 0; i < 2; i++) {
			host_crash(&world->hosts[i]);
			world->settings.options.block_size = blocks[b];
			host_start(&world->hosts[i]);
		}
		for (i = 0; i < ARRAY_SIZE(lengths); i++) {
			memset(world->hosts[1].arena + HALF, 0, lengths[i] + 100);
			put(world, 0, 1, i, HALF, lengths[i]);
			finish(world);
			assert_same(world, 0, i, 1, HALF, lengths[i]);
			assert_int_equal(world->hosts[1].arena[HALF + lengths[i]], 0);
			get(world, 1, 0, HALF, i + 7, lengths[i]);
			finish(world);
			assert_same(world, 0, i + 7, 1, HALF, lengths[i]);
			assert_int_equal(world->hosts[1].arena[HALF + lengths[i]], 0);
		}
		assert_no_waste(world);
		world_destroy(world);
	}
}

static bool never(struct world *world)
{
	return false;
}

/* The path begins to swallow long packets while a transfer is under way. */
static void test_mtu_changes(void **state)
{
	struct world *world = make(2, NET_FAULT_NACK);
	struct net_path_info info;
	unsigned i;

	warm(world, 0, 1);
	assert_true(net_path_info(host_peer(&world->hosts[0], 1), 0, &info));
	assert_int_equal(info.packet, 8952);
	world->settings.rate = 1250000000;
	world->settings.queue = 1u << 20;
	put(world, 0, 1, 0, HALF, 3000000);
	world_run(world, world->now + 200 * MICROSECOND, never);
	world->settings.mtu = 1472;
	finish(world);
	assert_same(world, 0, 0, 1, HALF, 3000000);
	assert_true(WORLD_SUM(world, black_holes) > 0);
	/* A few longer sizes are tried before, each while something is on its way. */
	for (i = 0; i < 10; i++) {
		put(world, 0, 1, 0, HALF, 3000000);
		finish(world);
	}
	assert_true(net_path_info(host_peer(&world->hosts[0], 1), 0, &info));
	assert_int_equal(info.packet, 1472);
	world_destroy(world);
}

/* What is foreseen at host 1 in the midst of a put of 1000000 bytes from host 0. */
static unsigned predict_amid(struct world *world, struct net_place *places, unsigned most,
			     uint32_t *header)
{
	unsigned count = 0;
	uint64_t end;

	world->settings.rate = 1250000000;
	world->settings.queue = 1u << 20;
	put(world, 0, 1, 0, HALF, 1000000);
	end = world->now + 1000 * MICROSECOND;
	while (!count && world->now < end) {
		world_run(world, world->now + 3 * MICROSECOND, NULL);
		count = net_predict(world->hosts[1].core, world->now, places, most, header);
	}
	assert_true(count > 0);
	return count;
}

/* A get's first packet is foreseen, too, once it is known how long packets are. */
static void test_prediction_of_get(void **state)
{
	struct world *world = make(2, NET_FAULT_NACK);
	struct net_place places[16];
	uint32_t header;

	warm(world, 0, 1);
	get(world, 1, 0, HALF, 0, 100000);
	assert_true(net_predict(world->hosts[1].core, world->now, places, 16, &header) > 0);
	assert_ptr_equal(places[0].address, world->hosts[1].arena + HALF);
	finish(world);
	assert_same(world, 0, 0, 1, HALF, 100000);
	world_destroy(world);
}

/* What is placed where it belongs is not moved; what lies elsewhere finds its place. */
static void test_prediction(void **state)
{
	struct world *world = make(2, NET_FAULT_NACK);
	struct net_place places[16];
	uint32_t header;
	unsigned count, i;

	warm(world, 0, 1);
	count = predict_amid(world, places, 16, &header);
	assert_int_equal(header, 48);
	for (i = 0; i < count; i++) {
		size_t offset = (size_t)((uint8_t *)places[i].address - world->hosts[1].arena);

		assert_in_range(offset, HALF, HALF + 1000000);
		/* Nothing was received there; so what is written by mistake does no harm. */
		memset(places[i].address, 0xee, places[i].length);
		if (i)
			assert_ptr_equal(places[i].address,
					 (uint8_t *)places[i - 1].address + places[i - 1].length);
	}
	finish(world);
	assert_same(world, 0, 0, 1, HALF, 1000000);
	world_destroy(world);
}

/* Where bytes were received nothing is foreseen, whatever lengths they came in. */
static void test_prediction_beside(void **state)
{
	struct net_place places[16];
	struct settings settings;
	unsigned i, j, count;
	struct world *world;
	uint32_t header;

	prepare(&settings, 2, NET_FAULT_NACK);
	settings.mtu = settings.interface_mtu = 1472;
	settings.options.block_size = 4096;
	settings.reorder = UINT32_MAX;
	settings.jitter = 20 * MICROSECOND;
	settings.predict = 0;
	world = make_as(&settings);
	for (i = 0; i < MOST / 2; i++) {
		put(world, 0, 1, 0, HALF, 1399);
		finish(world);
		put(world, 0, 1, i, HALF, 8192);
		while (completed < expected) {
			world_run(world, world->now + 500, NULL);
			if (!net_foresees(world->hosts[1].core))
				continue;
			count = net_predict(world->hosts[1].core, world->now, places, 16, &header);
			for (j = 0; j < count; j++)
				memset(places[j].address, 0xee, places[j].length);
		}
		assert_same(world, 0, i, 1, HALF, 8192);
	}
	world_destroy(world);
}

/* What is foreseen and absent is resolved ahead, once, however often one asks. */
static void test_prediction_resolves(void **state)
{
	struct world *world = make(2, NET_FAULT_NACK);
	struct net_place places[16];
	uint32_t header;
	uint64_t faults;
	unsigned i;

	warm(world, 0, 1);
	predict_amid(world, places, 16, &header);
	host_evict(&world->hosts[1], HALF, 1000000);
	faults = host_statistics(&world->hosts[1])->destination_faults;
	for (i = 0; i < 10; i++)
		net_predict(world->hosts[1].core, world->now, places, 16, &header);
	assert_in_range(host_statistics(&world->hosts[1])->destination_faults, faults, faults + 1);
	/* Where the system could not write, nothing more is foreseen. */
	net_misplaced(world->hosts[1].core);
	assert_int_equal(net_predict(world->hosts[1].core, world->now, places, 16, &header), 0);
	finish(world);
	assert_same(world, 0, 0, 1, HALF, 1000000);
	assert_int_equal(WORLD_SUM(world, lost), 0);
	world_destroy(world);
}

/* Who falls silent amid a put may be dead: what others send does not go to where it wrote. */
static void test_prediction_of_silent(void **state)
{
	struct world *world = make(2, NET_FAULT_NACK);
	struct net_place places[16];
	uint32_t header;

	/* Only a part of it can be under way. */
	host_crash(&world->hosts[1]);
	world->settings.options.receive_buffer = 65536;
	host_start(&world->hosts[1]);
	warm(world, 0, 1);
	predict_amid(world, places, 16, &header);
	host_stop(&world->hosts[0]);
	/* This process may not have looked at the time either. */
	assert_int_equal(
		net_predict(world->hosts[1].core, world->now + SECOND, places, 16, &header), 0);
	/* It is asked once a second. */
	world_run(world, world->now + 2 * SECOND, NULL);
	assert_int_equal(net_predict(world->hosts[1].core, world->now, places, 16, &header), 0);
	host_continue(&world->hosts[0]);
	finish(world);
	assert_same(world, 0, 0, 1, HALF, 1000000);
	world_destroy(world);
}

static struct {
	uint8_t *bytes;
	size_t length;
} caught[8];
static unsigned caught_count;

/* What host 0 sends is caught, and lost. */
static void catch_packet(struct world *world, unsigned from, unsigned to, const uint8_t *bytes,
			 size_t length)
{
	if (from)
		return;
	world->settings.loss = UINT32_MAX;
	assert_true(caught_count < 8);
	caught[caught_count].bytes = malloc(length);
	caught[caught_count].length = length;
	memcpy(caught[caught_count++].bytes, bytes, length);
}

static struct host *victim;

/* The application may do with its memory what it likes. */
static void complete_and_overwrite(struct host *host, void *arg,
				   const struct net_completion *completion)
{
	complete(host, arg, completion);
	memset(host->arena + HALF, 0xee, 100000);
	victim = host;
}

/* Packets that lie in memory of a transfer are not harmed by its end. */
static void test_end_under_packets(void **state)
{
	struct world *world = make(2, NET_FAULT_NACK);
	struct host *host = &world->hosts[1];
	struct net_packet packets[8];
	unsigned i, data = 0, frames = 0;
	uint8_t *place = host->arena + HALF + 4096;
	struct net_endpoint from;

	warm(world, 0, 1);
	memset(host->arena + HALF, 0, HALF);
	/* A get that fails at its source, and a put behind it. */
	world->tap = catch_packet;
	host->complete = complete_and_overwrite;
	get(world, 1, 0, HALF, ARENA, 100000);
	world_run(world, world->now + 20 * MICROSECOND, NULL);
	put(world, 0, 1, 0, HALF + 1000000, 1000);
	from = sockets_endpoint(0, 0);
	/* They come together; the put's bytes, to where the get's were foreseen. */
	for (i = 0; i < caught_count; i++) {
		packets[i] = (struct net_packet){ .header = caught[i].bytes,
						  .header_length = (uint32_t)caught[i].length,
						  .from = &from };
		if ((caught[i].bytes[16] & 15) != WIRE_DATA_PUT) {
			frames++;
			continue;
		}
		data++;
		packets[i].header_length = WIRE_HEADER + WIRE_DATA;
		packets[i].payload_length = (uint32_t)caught[i].length - packets[i].header_length;
		memcpy(place, caught[i].bytes + packets[i].header_length,
		       packets[i].payload_length);
		packets[i].payload = place;
	}
	assert_int_equal(data, 1);
	assert_true(frames > 0);
	net_input(host->core, world->now, packets, caught_count);
	assert_ptr_equal(victim, host);
	assert_same(world, 0, 0, 1, HALF + 1000000, 1000);
	world->tap = NULL;
	world->settings.loss = 0;
	assert_true(world_run(world, world->now + 10 * SECOND, all_completed));
	while (caught_count)
		free(caught[--caught_count].bytes);
	world_destroy(world);
}

/*
 * What lies in memory that is gone, from the second packet on, is lost, and comes
 * again. together: with the first one, which is placed; BACKUP: or kept, its page
 * being absent. header: bytes that lie elsewhere, 0 for what the packet has.
 */
static void check_gone(enum net_auth auth, enum net_fault_mode mode, uint32_t header, bool together)
{
	struct wire_header first;
	struct net_packet packets[8];
	struct settings settings;
	struct net_endpoint from;
	struct world *world;
	struct host *host;
	uint8_t *gone;
	unsigned i;

	prepare(&settings, 2, mode);
	settings.options.auth = auth;
	world = make_as(&settings);
	host = &world->hosts[1];
	gone = host->arena + HALF + 4 * WORLD_PAGE;
	warm(world, 0, 1);
	if (mode == NET_FAULT_BACKUP)
		host_evict(host, HALF + 2000000, 16384);
	world->tap = catch_packet;
	put(world, 0, 1, 0, HALF + 2000000, 16384);
	world->tap = NULL;
	world->settings.loss = 0;
	assert_in_range(caught_count, 2, 8);
	from = sockets_endpoint(0, 0);
	for (i = 0; i < caught_count; i++) {
		packets[i] = (struct net_packet){ .header = caught[i].bytes,
						  .header_length = (uint32_t)caught[i].length,
						  .from = &from };
		if (!i)
			continue;
		assert_true(wire_get_header(caught[i].bytes, caught[i].length, &first));
		packets[i].header_length = header;
		if (!header)
			packets[i].header_length = WIRE_HEADER + first.control;
		packets[i].payload = gone;
		packets[i].payload_length = (uint32_t)caught[i].length - packets[i].header_length;
	}
	if (!together)
		net_input(host->core, world->now, packets, 1);
	assert_int_equal(mprotect(gone, 4 * WORLD_PAGE, PROT_NONE), 0);
	world->settings.fault = UINT32_MAX;
	net_input(host->core, world->now, packets + !together, caught_count - !together);
	world->settings.fault = 0;
	assert_int_equal(mprotect(gone, 4 * WORLD_PAGE, PROT_READ | PROT_WRITE), 0);
	while (caught_count)
		free(caught[--caught_count].bytes);
	finish(world);
	assert_same(world, 0, 0, 1, HALF + 2000000, 16384);
	world_destroy(world);
}

static void test_gone(void **state)
{
	const uint32_t other = WIRE_HEADER + 8;
	unsigned i;

	for (i = 0; i < 2; i++) {
		check_gone(NET_AUTH_HEADER, NET_FAULT_NACK, 0, i);
		check_gone(NET_AUTH_HEADER, NET_FAULT_BACKUP, 0, i);
		check_gone(NET_AUTH_HEADER, NET_FAULT_NACK, other, i);
		check_gone(NET_AUTH_HEADER, NET_FAULT_NACK, 8, i);
		check_gone(NET_AUTH_FULL, NET_FAULT_NACK, 0, i);
		check_gone(NET_AUTH_FULL, NET_FAULT_BACKUP, 0, i);
		check_gone(NET_AUTH_ENCRYPT, NET_FAULT_NACK, other, i);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first_packet),
		cmocka_unit_test(test_full_ring),
		cmocka_unit_test(test_second_transfer),
		cmocka_unit_test(test_many_peers),
		cmocka_unit_test(test_only_the_block),
		cmocka_unit_test(test_bad_address),
		cmocka_unit_test(test_bad_memory),
		cmocka_unit_test(test_lengths),
		cmocka_unit_test(test_mtu_changes),
		cmocka_unit_test(test_prediction),
		cmocka_unit_test(test_prediction_beside),
		cmocka_unit_test(test_prediction_resolves),
		cmocka_unit_test(test_prediction_of_get),
		cmocka_unit_test(test_prediction_of_silent),
		cmocka_unit_test(test_end_under_packets),
		cmocka_unit_test(test_gone),
	};

	return cmocka_run_group_tests_name("net_transfer", tests, NULL, NULL);
}

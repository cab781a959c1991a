/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Transfers that meet page faults, above all the two patterns in which networks with on-demand
 * paging are known to collapse: a second transfer behind one that waits for its page, and many
 * peers that fault at once ("Pitfalls of InfiniBand with On-Demand Paging", ISPASS 2021). Nothing
 * times out, and no healthy block is retransmitted.
 */
#include "unit.h"

#include <sys/mman.h>

#include "protocol/core.h"
#include "protocol/world.h"
#include "protocol/transfer.h"
#include "protocol/wire.h"

#define ARENA (8 * MIB)
#define HALF (ARENA / 2) /* sources are in the first half, destinations in the second */
#define MOST 512

static struct net_completion completions[MOST];
static uint64_t completed_at[MOST];
static unsigned completed, posted;

static void on_complete(struct host *host, void *arg, const struct net_completion *completion)
{
	assert_int_equal(completed_at[(uintptr_t)arg], 0);
	completions[(uintptr_t)arg] = *completion;
	completed_at[(uintptr_t)arg] = host->world->now;
	completed++;
}

static bool all_completed(struct world *world)
{
	return completed == posted;
}

static struct settings settings_for(unsigned hosts, enum net_fault_mode mode)
{
	struct settings settings;

	settings_init(&settings);
	settings.hosts = hosts;
	settings.arena = ARENA;
	settings.options.fault_mode = mode;
	/* Longer than any time-out. */
	settings.resolve = 100 * MILLISECOND;
	return settings;
}

static struct world *make_with(struct settings settings)
{
	struct world *world = world_create(&settings);
	unsigned i;

	for (i = 0; i < settings.hosts; i++) {
		pattern_fill(world->hosts[i].arena, HALF, i);
		memset(world->hosts[i].arena + HALF, 0, HALF);
		world->hosts[i].complete = on_complete;
	}
	memset(completed_at, 0, sizeof(completed_at));
	completed = posted = 0;
	return world;
}

static struct world *make(unsigned hosts, enum net_fault_mode mode)
{
	return make_with(settings_for(hosts, mode));
}

static uint64_t at(const struct world *world, unsigned host, size_t offset)
{
	return host_address(&world->hosts[host], offset);
}

/* Transfers are numbered in the order of these calls. */
static void put(struct world *world, unsigned from, unsigned to, size_t source, size_t destination,
		size_t length)
{
	host_put(&world->hosts[from], source, to, destination, length, (void *)(uintptr_t)posted++);
}

static void get(struct world *world, unsigned to, unsigned from, size_t destination, size_t source,
		size_t length)
{
	host_get(&world->hosts[to], destination, from, source, length, (void *)(uintptr_t)posted++);
}

static void await_all(struct world *world)
{
	unsigned i;

	assert_true(world_run(world, world->now + 10 * SECOND, all_completed));
	for (i = 0; i < world->settings.hosts; i++)
		assert_int_equal(world->hosts[i].core->shared.arriving, 0);
}

static void finish(struct world *world)
{
	unsigned i;

	await_all(world);
	for (i = 0; i < posted; i++)
		assert_ok(completions[i].status);
}

/* Open the association, and let the windows grow. */
static void warm(struct world *world, unsigned from, unsigned to)
{
	put(world, from, to, 0, HALF, 1000000);
	finish(world);
	world_pass(world, MILLISECOND);
}

static struct world *make_warm(struct settings settings)
{
	struct world *world = make_with(settings);

	warm(world, 0, 1);
	return world;
}

static void check_same(struct world *world, unsigned from, size_t source, unsigned to,
		       size_t destination, size_t length)
{
	assert_memory_equal(world->hosts[from].arena + source, world->hosts[to].arena + destination,
			    length);
}

static void check_no_waste(struct world *world)
{
	assert_int_equal(WORLD_SUM(world, timeouts), 0);
	assert_int_equal(WORLD_SUM(world, lost), 0);
	assert_int_equal(WORLD_SUM(world, data_again), 0);
	assert_int_equal(WORLD_SUM(world, data_duplicate), 0);
}

/* The first packet of a transfer is not written to an absent page either. */
static void test_first_packet(void **state)
{
	unsigned i;

	for (i = 0; i < 4; i++) {
		bool by_get = i >> 1;
		struct world *world =
			make_warm(settings_for(2, i & 1 ? NET_FAULT_BACKUP : NET_FAULT_NACK));

		host_evict(&world->hosts[!by_get], HALF, 65536);
		if (by_get)
			get(world, 0, 1, HALF + 100, 100, 1000);
		else
			put(world, 0, 1, 100, HALF + 100, 1000);
		finish(world);
		check_same(world, by_get, 100, !by_get, HALF + 100, 1000);
		assert_int_equal(WORLD_SUM(world, destination_faults), 1);
		assert_int_equal(world->hosts[0].absent_writes, 0);
		assert_int_equal(world->hosts[1].absent_writes, 0);
		check_no_waste(world);
		world_destroy(world);
	}
}

/* There is more to tell about blocks than the control ring holds. */
static void test_full_ring(void **state)
{
	struct settings settings = settings_for(2, NET_FAULT_NACK);
	struct world *world;
	int i;

	settings.options.block_size = 4096;
	settings.delay = 10 * MILLISECOND;
	settings.resolve = MILLISECOND;
	world = make_with(settings);
	for (i = 0; i < 9; i++) {
		if (i == 8)
			host_evict(&world->hosts[1], HALF, HALF);
		put(world, 0, 1, 0, HALF, HALF);
		finish(world);
	}
	check_same(world, 0, 0, 1, HALF, HALF);
	/* A fault takes 8 bytes of it, and 16 when it is resolved. */
	assert_true(WORLD_SUM(world, nacks_sent) * 24 > 20000);
	world_destroy(world);
}

/* A second transfer does not wait for the first, which waits for its page. */
static void check_second(enum net_fault_mode mode, bool by_get, bool source)
{
	struct world *world = make_warm(settings_for(2, mode));
	uint64_t start = world->now;
	unsigned first = posted;

	host_evict(&world->hosts[by_get == source], source ? 0 : HALF, 65536);
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
	check_same(world, by_get, 0, !by_get, HALF, 65536);
	check_same(world, by_get, 100000, !by_get, HALF + 2000000, 1000000);
	check_no_waste(world);
	assert_true(WORLD_SUM(world, source_faults) + WORLD_SUM(world, destination_faults) >= 4);
	if (!source && mode == NET_FAULT_NACK) {
		assert_true(WORLD_SUM(world, nacks_sent) >= 4);
		assert_true(WORLD_SUM(world, asked_again) >= 4);
		assert_int_equal(WORLD_SUM(world, backup_kept), 0);
	} else {
		assert_int_equal(WORLD_SUM(world, nacks_sent), 0);
		assert_int_equal(WORLD_SUM(world, asked_again), 0);
	}
	if (!source && mode == NET_FAULT_BACKUP)
		assert_true(WORLD_SUM(world, backup_kept) >= 4);
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
		check_same(world, i, 4096 * i, 0, HALF + (size_t)i * 65536, 65536);
	check_no_waste(world);
	if (mode == NET_FAULT_BACKUP) {
		/* The backup ring holds some; the others get a NACK. */
		assert_true(WORLD_SUM(world, backup_kept) > 0);
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

/* Healthy blocks of the same transfer do not wait for the block that faults. */
static void test_only_the_block(void **state)
{
	struct world *world = make_warm(settings_for(2, NET_FAULT_NACK));
	uint64_t sent;

	host_evict(&world->hosts[1], HALF + 5 * 16384, 16384);
	sent = host_statistics(&world->hosts[0])->data_sent;
	put(world, 0, 1, 0, HALF, 20 * 16384);
	world_pass(world, MILLISECOND);
	assert_int_equal(completed, 1);
	check_same(world, 0, 0, 1, HALF, 5 * 16384);
	check_same(world, 0, 6 * 16384, 1, HALF + 6 * 16384, 14 * 16384);
	finish(world);
	check_same(world, 0, 0, 1, HALF, 20 * 16384);
	/* Two packets a block: only the two of the faulted block may be sent twice. */
	assert_true(host_statistics(&world->hosts[0])->data_sent - sent <= 42);
	check_no_waste(world);
	world_destroy(world);
}

/* The path's MTU decides what one system call sends, not where blocks end. */
static void check_batch(uint32_t mtu, unsigned packets, unsigned granules)
{
	struct settings settings = settings_for(2, NET_FAULT_NACK);
	struct net_batch *batch = test_alloc(sizeof(*batch));
	unsigned count, before = 0;
	struct host *host;
	struct world *world;
	pf_piece piece;

	settings.mtu = settings.interface_mtu = mtu;
	world = make_warm(settings);
	host = &world->hosts[0];
	/* A window for several batches, of which the first are small. */
	put(world, 0, 1, 0, HALF, 1 * MIB);
	finish(world);
	memset(batch, 0, sizeof(*batch));
	piece = world_piece(at(world, 0, 0), at(world, 1, HALF), 1 * MIB);
	assert_pending(net_put(host_peer(host, 1), &piece, 1, (void *)(uintptr_t)posted++));
	do {
		count = net_output(host->core, world->now, batch);
		assert_true(count > before);
		before = count;
	} while (count < packets);
	assert_int_equal(count, packets);
	assert_int_equal(batch->segment, WIRE_HEADER + WIRE_DATA + granules * 256);
	assert_int_equal(batch->length, packets * batch->segment);
	net_unsent(host->core, batch, false);
	host_pump(host);
	finish(world);
	check_same(world, 0, 0, 1, HALF, 1 * MIB);
	free(batch);
	world_destroy(world);
}

/* net_blocked is true while data waits for a window. */
static void test_blocked(void **state)
{
	struct world *world = make_with(settings_for(2, NET_FAULT_NACK));
	struct host *host = &world->hosts[0];

	assert_false(net_blocked(host->core));
	/* The peer has to answer first. */
	put(world, 0, 1, 0, HALF, 1);
	assert_true(net_blocked(host->core));
	finish(world);
	assert_false(net_blocked(host->core));
	put(world, 0, 1, 0, HALF, 1 * MIB);
	assert_true(net_blocked(host->core));
	finish(world);
	assert_false(net_blocked(host->core));
	world_destroy(world);
}

/* Nothing waits for a peer that is closed, or that died. */
static void check_gone(bool closed)
{
	struct world *world = make_with(settings_for(2, NET_FAULT_NACK));
	struct host *host = &world->hosts[0];

	warm(world, 0, 1);
	put(world, 0, 1, 0, HALF, HALF);
	assert_true(net_blocked(host->core));
	if (closed)
		net_close(host_peer(host, 1));
	else
		host_crash(&world->hosts[1]);
	assert_true(world_run(world, world->now + 100 * SECOND, all_completed));
	assert_status(completions[posted - 1].status, PF_ERR_PEER);
	assert_false(net_blocked(host->core));
	world_destroy(world);
}

static void test_blocked_by_gone(void **state)
{
	check_gone(true);
	check_gone(false);
}

static void test_batches(void **state)
{
	check_batch(1472, 48, 5);
	check_batch(8952, 7, 34);
}

/*
 * A packet with the end of one block and the beginning of the next, which is absent: only the part
 * of that waits, or is dropped and asked for again.
 */
static void check_across(enum net_fault_mode mode, bool by_get, bool source)
{
	struct settings settings = settings_for(2, mode);
	struct world *world = make_warm(settings);
	unsigned to = !by_get;

	host_evict(&world->hosts[source ? !to : to], (source ? 0 : HALF) + 16384, 16384);
	if (by_get)
		get(world, 0, 1, HALF, 0, 3 * 16384);
	else
		put(world, 0, 1, 0, HALF, 3 * 16384);
	world_pass(world, MILLISECOND);
	assert_int_equal(completed, 1);
	check_same(world, !to, 0, to, HALF, 16384);
	check_same(world, !to, 2 * 16384, to, HALF + 2 * 16384, 16384);
	assert_int_equal(WORLD_SUM(world, source_faults), source);
	assert_int_equal(WORLD_SUM(world, destination_faults), !source);
	assert_int_equal(WORLD_SUM(world, nacks_sent), !source && mode == NET_FAULT_NACK);
	finish(world);
	check_same(world, !to, 0, to, HALF, 3 * 16384);
	check_no_waste(world);
	world_destroy(world);
}

static void test_across_blocks(void **state)
{
	unsigned i;

	for (i = 0; i < 8; i++)
		check_across(i & 1 ? NET_FAULT_BACKUP : NET_FAULT_NACK, i & 2, i & 4);
}

/* What is received together is written together. */
static void test_place_many(void **state)
{
	struct settings settings = settings_for(2, NET_FAULT_NACK);
	struct world *world;
	struct host *host;
	unsigned calls;

	/* The host finds some packets at a time. */
	settings.away = UINT32_MAX;
	settings.mtu = settings.interface_mtu = 1472;
	world = make_warm(settings);
	host = &world->hosts[1];
	calls = host->places_many;
	put(world, 0, 1, 0, HALF, 1000000);
	finish(world);
	check_same(world, 0, 0, 1, HALF, 1000000);
	assert_int_equal(host->places, 0);
	assert_in_range(host->places_many - calls, 1, 1000000 / 1280 / 10);
	world_destroy(world);
}

/*
 * The packets of what cannot be written with others, nor alone for lack of memory, were acknowledged:
 * their bytes are asked for again.
 */
static void test_unplaced(void **state)
{
	unsigned i;

	for (i = 0; i < 4; i++) {
		struct settings settings = settings_for(2,
							i & 1 ? NET_FAULT_BACKUP : NET_FAULT_NACK);
		struct world *world;

		settings.away = UINT32_MAX;
		settings.resolve = 50 * MICROSECOND;
		settings.predict = i & 2 ? UINT32_MAX : 0;
		world = make_warm(settings);
		world->settings.fault = PER_MILLION(200000);
		world->settings.no_memory = PER_MILLION(500000);
		host_evict(&world->hosts[1], HALF, 200000);
		put(world, 0, 1, 0, HALF, 1000000);
		get(world, 1, 0, HALF + 1000000, 1000000, 1000000);
		finish(world);
		check_same(world, 0, 0, 1, HALF, 2000000);
		/* It is not the network that lost them. */
		assert_true(host_statistics(&world->hosts[0])->asked_again > 0);
		world_destroy(world);
	}
}

/* ---- memory that is not mapped ---- */

static void check_fault(struct world *world, unsigned number, unsigned host, uint64_t beyond)
{
	assert_status(completions[number].status, PF_ERR_FAULT);
	assert_int_equal(completions[number].side, host ? PF_SIDE_REMOTE : PF_SIDE_LOCAL);
	assert_in_range(completions[number].address, at(world, host, ARENA),
			at(world, host, ARENA + beyond));
}

/* Transfers that cross the end of an arena, at each end, then a healthy one. */
static void transfer_across_end(struct world *world, uint64_t beyond)
{
	unsigned first = posted;

	put(world, 0, 1, ARENA - 20000, HALF, 100000);          /* source, local */
	put(world, 0, 1, 0, ARENA - 20002, 100000);             /* destination, remote */
	get(world, 0, 1, ARENA - 40003, 0, 100000);             /* destination, local */
	get(world, 0, 1, HALF + 100000, ARENA - 20001, 100000); /* source, remote */
	put(world, 0, 1, 0, HALF + 1000000, 100000);
	await_all(world);
	check_fault(world, first, 0, beyond);
	check_fault(world, first + 1, 1, beyond);
	check_fault(world, first + 2, 0, beyond);
	check_fault(world, first + 3, 1, beyond);
	assert_ok(completions[first + 4].status);
	check_same(world, 0, 0, 1, HALF + 1000000, 100000);
}

static void test_bad_address(void **state)
{
	struct world *world = make_warm(settings_for(2, NET_FAULT_NACK));
	unsigned i;

	transfer_across_end(world, 80000);
	for (i = 0; i < 300; i++) {
		put(world, 0, 1, ARENA, HALF, 10);
		await_all(world);
	}
	/* Packets of a failed transfer that arrive after its end do not count as losses. */
	assert_int_equal(WORLD_SUM(world, timeouts), 0);
	assert_int_equal(WORLD_SUM(world, lost), 0);
	world_destroy(world);
}

/*
 * The peer ends after it has reported a bad address in a later part, and before the first part, which
 * has one as well, is done: nobody knows the first bad byte.
 */
/* The source of a get is refused while the block is sent: only where the answer may change. */
static void test_withdrawn(void **state)
{
	const size_t block = 16 << 10;
	bool asks_again;

	for (asks_again = false;; asks_again = true) {
		struct settings settings = settings_for(2, NET_FAULT_NACK);
		struct world *world;

		settings.mtu = settings.interface_mtu = 1300;
		settings.asks_again = asks_again;
		world = make_warm(settings);
		world->hosts[0].sources_most = world->hosts[1].sources_most = 3;
		/* The own operation of host 1 is not refused. */
		put(world, 1, 0, 0, HALF + block, 10 * block);
		finish(world);
		assert_int_equal(world->hosts[1].sources, 0);
		get(world, 0, 1, HALF, 0, block);
		await_all(world);
		if (asks_again) {
			assert_status(completions[posted - 1].status, PF_ERR_REFUSED);
			assert_int_equal(completions[posted - 1].side, PF_SIDE_REMOTE);
			assert_int_equal(completions[posted - 1].address, at(world, 1, 0));
		} else {
			assert_ok(completions[posted - 1].status);
			assert_int_equal(world->hosts[1].sources, 1);
		}
		assert_int_equal(world->hosts[0].sources, 0);
		world_destroy(world);
		if (asks_again)
			break;
	}
}

static void test_bad_address_of_dead(void **state)
{
	struct settings settings = settings_for(2, NET_FAULT_NACK);
	const struct operation_posted *operation;
	struct world *world;

	settings.options.block_size = 4096;
	settings.options.peer_timeout = 5 * SECOND;
	settings.resolve = 30 * SECOND;
	world = make_warm(settings);
	host_evict(&world->hosts[1], ARENA - 200000, 4096);
	put(world, 0, 1, 0, ARENA - 200000, 500000);
	world_pass(world, SECOND);
	operation = TAILQ_FIRST(&host_peer(&world->hosts[0], 1)->busy->exchange.transfers.posted);
	assert_int_equal(operation->open, 1);
	assert_status(operation->finished.completion.status, PF_ERR_FAULT);
	host_crash(&world->hosts[1]);
	assert_true(world_run(world, world->now + 100 * SECOND, all_completed));
	assert_status(completions[posted - 1].status, PF_ERR_PEER);
	assert_int_equal(completions[posted - 1].side, PF_SIDE_NONE);
	assert_int_equal(completions[posted - 1].address, 0);
	world_destroy(world);
}

/* Behind the arena is memory that only a system call finds inaccessible. */
static struct settings settings_beyond(void)
{
	struct settings settings = settings_for(2, NET_FAULT_NACK);

	settings.beyond = 40 * WORLD_PAGE;
	settings.interface_mtu = settings.mtu = 1472;
	return settings;
}

/* The first inaccessible byte is reported, also when only a system call finds it. */
static void check_bad_memory(bool no_segments, enum net_auth auth)
{
	struct settings settings = settings_beyond();
	struct world *world;

	settings.no_segments = no_segments;
	settings.options.auth = auth;
	world = make_warm(settings);
	transfer_across_end(world, 0);
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

/* Puts from, or to, the end of the arena meet the bad memory at every place in a packet. */
static void check_places(struct world *world, unsigned side)
{
	size_t before;

	for (before = 100; before < 40000; before += 331) {
		unsigned first = posted;

		put(world, 0, 1, side ? 0 : ARENA - before, side ? ARENA - before : HALF, 60000);
		await_all(world);
		check_fault(world, first, side, 0);
	}
	world_destroy(world);
}

/*
 * The packet with the first bad byte is lost, as far as the core knows, because the socket had no
 * room for it: a later block meets the bad memory first.
 */
static void test_bad_memory_of_lost(void **state)
{
	struct settings settings = settings_beyond();

	settings.no_segments = true;
	settings.full = PER_MILLION(100000);
	check_places(make_warm(settings), 0);
}

/*
 * The block with the first bad byte waits for its page at the destination when a later one is found
 * bad, and is the last that is sent: windows that grow show it at some place.
 */
static void test_bad_memory_of_held(void **state)
{
	struct settings settings = settings_beyond();
	size_t before;

	settings.no_segments = true;
	settings.full = PER_MILLION(100000);
	for (before = 100; before < 50000; before += 331) {
		struct world *world = make_with(settings);

		host_evict(&world->hosts[1], HALF, 60000);
		put(world, 0, 1, ARENA - before, HALF, 60000);
		await_all(world);
		check_fault(world, 0, 0, 0);
		world_destroy(world);
	}
}

/* Also when bytes before it could not be placed at first, for lack of memory. */
static void test_bad_memory_of_unplaced(void **state)
{
	struct settings settings = settings_beyond();
	struct world *world;

	settings.away = UINT32_MAX;
	world = make_warm(settings);
	world->settings.no_memory = PER_MILLION(300000);
	check_places(world, 1);
}

static void test_lengths(void **state)
{
	static const size_t lengths[] = { 1,       2,       255,     256,     257,
					  4095,    16383,   16384,   16385,   65536,
					  1048575, 1048576, 1048577, 2097153, 3000001 };
	static const uint32_t blocks[] = { 4096, 16384, 65536 };
	unsigned i, b;

	for (b = 0; b < ARRAY_SIZE(blocks); b++) {
		struct settings settings = settings_for(2, NET_FAULT_NACK);
		struct world *world;
		const uint8_t *behind;

		settings.options.block_size = blocks[b];
		world = make_with(settings);
		for (i = 0; i < ARRAY_SIZE(lengths); i++) {
			behind = world->hosts[1].arena + HALF + lengths[i];
			memset(world->hosts[1].arena + HALF, 0, lengths[i] + 100);
			put(world, 0, 1, i, HALF, lengths[i]);
			finish(world);
			check_same(world, 0, i, 1, HALF, lengths[i]);
			assert_int_equal(*behind, 0);
			get(world, 1, 0, HALF, i + 7, lengths[i]);
			finish(world);
			check_same(world, 0, i + 7, 1, HALF, lengths[i]);
			assert_int_equal(*behind, 0);
		}
		check_no_waste(world);
		world_destroy(world);
	}
}

/* The path begins to drop long packets during a transfer. */
static void test_mtu_changes(void **state)
{
	struct world *world = make_warm(settings_for(2, NET_FAULT_NACK));
	struct net_path_info info;
	unsigned i;

	assert_true(net_path_info(host_peer(&world->hosts[0], 1), 0, &info));
	assert_int_equal(info.packet, 8952);
	world->settings.rate = 1250000000;
	world->settings.queue = 1u << 20;
	put(world, 0, 1, 0, HALF, 3000000);
	world_pass(world, 200 * MICROSECOND);
	world->settings.mtu = 1472;
	finish(world);
	check_same(world, 0, 0, 1, HALF, 3000000);
	assert_true(WORLD_SUM(world, black_holes) > 0);
	/* Some larger sizes are probed first, while there is traffic. */
	for (i = 0; i < 10; i++) {
		put(world, 0, 1, 0, HALF, 3000000);
		finish(world);
	}
	assert_true(net_path_info(host_peer(&world->hosts[0], 1), 0, &info));
	assert_int_equal(info.packet, 1472);
	world_destroy(world);
}

/* ---- prediction of where payloads belong ---- */

static struct net_place places[16];

static unsigned predict(struct world *world)
{
	uint32_t header;
	unsigned count = net_predict(world->hosts[1].core, world->now, places, ARRAY_SIZE(places),
				     &header);

	if (count)
		assert_int_equal(header, WIRE_HEADER + WIRE_DATA);
	return count;
}

/* During the last transfer posted, of 1000000 bytes from host 0 to host 1: 0, if none are. */
static unsigned predict_during(struct world *world)
{
	unsigned count = 0;
	uint64_t end = world->now + 1000 * MICROSECOND;

	world->settings.rate = 1250000000;
	world->settings.queue = 1u << 20;
	while (!count && world->now < end) {
		world_pass(world, 3 * MICROSECOND);
		count = predict(world);
	}
	return count;
}

/* During a get of 1000000 bytes by host 1 from host 0. */
static unsigned predict_during_get(struct world *world)
{
	unsigned count;

	get(world, 1, 0, HALF, 0, 1000000);
	count = predict_during(world);
	assert_true(count > 0);
	return count;
}

/*
 * The target of a put may be polled before its end: no packet is received into it before it is
 * known to be the put's.
 */
static void test_no_prediction_of_put(void **state)
{
	struct world *world = make_warm(settings_for(2, NET_FAULT_NACK));
	unsigned count, i;

	put(world, 0, 1, 0, HALF, 1000000);
	assert_int_equal(predict_during(world), 0);
	assert_int_equal(completed, posted);
	/* A put beside a get does not change where the bytes of the get are expected. */
	get(world, 1, 0, HALF, 0, 1000000);
	put(world, 0, 1, 0, HALF + 2000000, 1000000);
	while (completed < posted) {
		world_pass(world, 3 * MICROSECOND);
		count = net_foresees(world->hosts[1].core) ? predict(world) : 0;
		for (i = 0; i < count; i++)
			assert_in_range((uint8_t *)places[i].address - world->hosts[1].arena, HALF,
					HALF + 1000000 - places[i].length);
	}
	world_destroy(world);
}

/* With what is hashed or decrypted first, nothing would be gained. */
static void test_no_prediction_of_hashed(void **state)
{
	struct settings settings = settings_for(2, NET_FAULT_NACK);
	struct world *world;

	settings.options.auth = NET_AUTH_FULL;
	world = make_warm(settings);
	get(world, 1, 0, HALF, 0, 1000000);
	assert_int_equal(predict_during(world), 0);
	finish(world);
	world_destroy(world);
}

static void finish_get(struct world *world)
{
	finish(world);
	check_same(world, 0, 0, 1, HALF, 1000000);
	world_destroy(world);
}

/* The first packet of a get is predicted too, once the length of packets is known. */
static void test_prediction_of_get(void **state)
{
	struct world *world = make_warm(settings_for(2, NET_FAULT_NACK));

	get(world, 1, 0, HALF, 0, 100000);
	assert_true(predict(world) > 0);
	assert_ptr_equal(places[0].address, world->hosts[1].arena + HALF);
	finish(world);
	check_same(world, 0, 0, 1, HALF, 100000);
	world_destroy(world);
}

/* Predicted places have no bytes yet: writing other bytes there does no harm. */
static void test_prediction(void **state)
{
	struct world *world = make_warm(settings_for(2, NET_FAULT_NACK));
	unsigned count = predict_during_get(world), i;

	for (i = 0; i < count; i++) {
		uint8_t *place = places[i].address;

		assert_in_range(place - world->hosts[1].arena, HALF, HALF + 1000000);
		memset(place, 0xee, places[i].length);
		if (i)
			assert_ptr_equal(place,
					 (uint8_t *)places[i - 1].address + places[i - 1].length);
	}
	finish_get(world);
}

/* Places where bytes have arrived are not predicted, whatever the lengths of their packets. */
static void test_prediction_beside(void **state)
{
	struct settings settings = settings_for(2, NET_FAULT_NACK);
	unsigned i, j, count;
	struct world *world;

	settings.mtu = settings.interface_mtu = 1472;
	settings.options.block_size = 4096;
	settings.reorder = UINT32_MAX;
	settings.jitter = 20 * MICROSECOND;
	settings.predict = 0;
	world = make_with(settings);
	for (i = 0; i < MOST / 2; i++) {
		get(world, 1, 0, HALF, 0, 1399);
		finish(world);
		get(world, 1, 0, HALF, i, 8192);
		while (completed < posted) {
			world_pass(world, 500);
			if (!net_foresees(world->hosts[1].core))
				continue;
			count = predict(world);
			for (j = 0; j < count; j++)
				memset(places[j].address, 0xee, places[j].length);
		}
		check_same(world, 0, i, 1, HALF, 8192);
	}
	world_destroy(world);
}

/* A predicted place that is absent is resolved in advance, once, however often it is predicted. */
static void test_prediction_resolves(void **state)
{
	struct world *world = make_warm(settings_for(2, NET_FAULT_NACK));
	const struct net_statistics *statistics = host_statistics(&world->hosts[1]);
	uint64_t faults;
	unsigned i;

	predict_during_get(world);
	host_evict(&world->hosts[1], HALF, 1000000);
	faults = statistics->destination_faults;
	for (i = 0; i < 10; i++)
		predict(world);
	assert_in_range(statistics->destination_faults, faults, faults + 1);
	/* After the system failed to write there is no prediction. */
	net_misplaced(world->hosts[1].core);
	assert_int_equal(predict(world), 0);
	assert_int_equal(WORLD_SUM(world, lost), 0);
	finish_get(world);
}

/* A peer that is silent during a get may be dead: others' packets do not go to its places. */
static void test_prediction_of_silent(void **state)
{
	struct settings settings = settings_for(2, NET_FAULT_NACK);
	struct world *world;
	uint32_t header;

	/* Only part of the get can be under way. */
	settings.options.receive_buffer = 65536;
	world = make_warm(settings);
	predict_during_get(world);
	host_stop(&world->hosts[0]);
	/* The core has not seen the time yet. */
	assert_int_equal(
		net_predict(world->hosts[1].core, world->now + SECOND, places, 16, &header), 0);
	/* The peer is probed once a second. */
	world_pass(world, 2 * SECOND);
	assert_int_equal(predict(world), 0);
	host_continue(&world->hosts[0]);
	finish_get(world);
}

/*
 * What other peers send at the same time lands in places where it does not belong, and costs copies:
 * nothing is foreseen then, and again when one of them sends alone.
 */
static void test_prediction_of_several(void **state)
{
	struct settings settings = settings_for(3, NET_FAULT_NACK);
	struct host *host;
	struct world *world;
	uint64_t in_place;
	unsigned gathers;

	settings.rate = 1250000000;
	settings.queue = 1u << 20;
	/* So little that they send in turns, a few packets each. */
	settings.options.receive_buffer = 20000;
	settings.away = UINT32_MAX;
	world = make_with(settings);
	host = &world->hosts[0];
	warm(world, 1, 0);
	warm(world, 2, 0);
	gathers = host->gathers;
	get(world, 0, 1, HALF, 0, 1000000);
	get(world, 0, 2, HALF + 1000000, 0, 1000000);
	finish(world);
	check_same(world, 1, 0, 0, HALF, 1000000);
	check_same(world, 2, 0, 0, HALF + 1000000, 1000000);
	/* Of 246 packets; if two in a row did not end it, 230. */
	assert_in_range(host->gathers - gathers, 0, 20);
	/* One of them alone, 123 packets. */
	gathers = host->gathers;
	in_place = host_statistics(host)->data_in_place;
	get(world, 0, 1, HALF, 0, 1000000);
	finish(world);
	check_same(world, 1, 0, 0, HALF, 1000000);
	assert_in_range(host->gathers - gathers, 0, 10);
	assert_in_range(host_statistics(host)->data_in_place - in_place, 100, 123);
	world_destroy(world);
}

/* ---- too little memory ---- */

static unsigned record_errors, records_before; /* so many records are refused, after so many */
#define OPERATIONS_APART 512                   /* more than TRANSFERS_MOST */
static struct operation_posted *operations[OPERATIONS_APART]; /* each on pages of its own, */
static unsigned operations_apart = OPERATIONS_APART;          /* of the next to be posted */
static unsigned table_errors; /* so many tables of 16 records are refused */

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);

void *__wrap_calloc(size_t count, size_t size)
{
	if (count == 16 && size == sizeof(struct net_transfer *) && table_errors) {
		table_errors--;
		return NULL;
	}
	return __real_calloc(count, size);
}

void *__wrap_malloc(size_t size)
{
	if (size == sizeof(struct net_transfer) && record_errors && !records_before--) {
		records_before = 0;
		record_errors--;
		return NULL;
	}
	/* The second page has what malloc notes of the next one. */
	if (size == sizeof(struct operation_posted) + sizeof(pf_piece) &&
	    operations_apart < OPERATIONS_APART)
		return operations[operations_apart++] = aligned_alloc(WORLD_PAGE, 2 * WORLD_PAGE);
	return __real_malloc(size);
}

static bool some_completed(struct world *world)
{
	return completed;
}

static void protect_operations(unsigned first, int protection)
{
	for (; first < OPERATIONS_APART; first++)
		assert_ok(mprotect(operations[first], WORLD_PAGE, protection));
}

/*
 * Of many operations, those that are not sent yet are not accessed when others are sent and end: n of
 * them take n steps, not the square of it.
 */
static void test_waiting_untouched(void **state)
{
	unsigned i, gets;

	for (gets = 0; gets < 2; gets++) {
		struct world *world = make(2, NET_FAULT_NACK);

		operations_apart = 0;
		for (i = 0; i < OPERATIONS_APART; i++) {
			if (gets)
				get(world, 0, 1, HALF + i * 8192, i * 8192, 8192);
			else
				put(world, 0, 1, i * 8192, HALF + i * 8192, 8192);
		}
		protect_operations(OPERATIONS_APART * 3 / 4, PROT_NONE);
		assert_true(world_run(world, world->now + SECOND, some_completed));
		protect_operations(OPERATIONS_APART * 3 / 4, PROT_READ | PROT_WRITE);
		finish(world);
		assert_memory_equal(world->hosts[gets].arena, world->hosts[!gets].arena + HALF,
				    OPERATIONS_APART * 8192);
		world_destroy(world);
	}
}

/* The destination has no memory to note that the source gave up, or the source to note a get. */
static void test_no_record(void **state)
{
	unsigned i;

	for (i = 0; i < 2; i++) {
		struct world *world = make(2, NET_FAULT_NACK);

		records_before = 1;
		record_errors = 3;
		if (i)
			get(world, 0, 1, HALF, 0, 100000);
		else
			put(world, 0, 1, ARENA, HALF, 100000);
		await_all(world);
		assert_int_equal(record_errors, 0);
		assert_status(completions[0].status, i ? PF_OK : PF_ERR_FAULT);
		world_destroy(world);
	}
}

/*
 * Tables and control rings grow with the transfers that are open, at both ends, even if there is
 * no memory for that at times; a peer with few of them costs little.
 */
static void test_many_open(void **state)
{
	struct world *world = make_warm(settings_for(2, NET_FAULT_NACK));
	struct net_association *association = world->hosts[0].peers[1];
	unsigned i;

	assert_in_range(net_association_memory(association), 1, 8 << 10);
	for (i = 0; i < 2; i++)
		host_evict(&world->hosts[i], HALF, HALF);
	table_errors = 3;
	for (i = 0; i < 255; i++) {
		put(world, 0, 1, i * 4096, HALF + i * 4096, 4096);
		get(world, 0, 1, HALF + i * 4096, i * 4096, 4096);
	}
	world_pass(world, 5 * MILLISECOND);
	assert_in_range(completed, 1, 100);
	assert_int_equal(association->busy->exchange.transfers.ours[0].size, 256);
	assert_int_equal(association->busy->exchange.transfers.ours[1].size, 256);
	finish(world);
	assert_int_equal(table_errors, 0);
	check_same(world, 0, 0, 1, HALF, 255 * 4096);
	check_same(world, 1, 0, 0, HALF, 255 * 4096);
	world_destroy(world);
}

/* What was kept cannot be written for lack of memory: the source sends it again. */
static void test_no_memory_for_kept(void **state)
{
	struct world *world = make_warm(settings_for(2, NET_FAULT_BACKUP));

	host_evict(&world->hosts[1], HALF, 100000);
	put(world, 0, 1, 0, HALF, 100000);
	world_pass(world, MILLISECOND);
	assert_true(WORLD_SUM(world, backup_kept) > 0);
	memset(world->hosts[1].arena + HALF, 0, 100000);
	world->hosts[1].memory_errors = 3;
	finish(world);
	assert_int_equal(world->hosts[1].memory_errors, 0);
	check_same(world, 0, 0, 1, HALF, 100000);
	world_destroy(world);
}

/* ---- packets handed in by the test ---- */

static struct {
	uint8_t *bytes;
	size_t length;
} caught[8];
static unsigned caught_count;
static struct net_packet packets[ARRAY_SIZE(caught)];
static struct net_endpoint caught_from;

/* Packets of host 0 are caught, and lost. */
static void catch_packet(struct world *world, unsigned from, unsigned to, const uint8_t *bytes,
			 size_t length)
{
	if (from)
		return;
	world->settings.loss = UINT32_MAX;
	assert_true(caught_count < ARRAY_SIZE(caught));
	caught[caught_count].bytes = test_alloc(length);
	caught[caught_count].length = length;
	memcpy(caught[caught_count].bytes, bytes, length);
	caught_from = world_endpoint(0, 0);
	packets[caught_count] = (struct net_packet){ .header = caught[caught_count].bytes,
						     .header_length = (uint32_t)length,
						     .from = &caught_from };
	caught_count++;
}

/* The bytes of a caught packet behind its header are at this place. */
static void move_payload(unsigned i, uint32_t header, void *place)
{
	packets[i].header_length = header;
	packets[i].payload_length = (uint32_t)caught[i].length - header;
	packets[i].payload = place;
}

static void end_catch(struct world *world)
{
	world->tap = NULL;
	world->settings.loss = 0;
	while (caught_count)
		free(caught[--caught_count].bytes);
}

static unsigned delivered;

static void deliver_pattern(struct host *host, struct host *from, uint32_t tag, const void *data,
			    size_t length)
{
	assert_int_equal(length, 1000);
	assert_pattern(data, length, delivered++);
}

/* Messages whose packets were received together, but not in one piece, are delivered as they were sent. */
static void test_scattered_messages(void **state)
{
	struct world *world = make_warm(settings_for(2, NET_FAULT_NACK));
	struct host *host = &world->hosts[1];
	uint8_t bytes[1000];
	unsigned i;

	delivered = 0;
	host->deliver = deliver_pattern;
	world->tap = catch_packet;
	for (i = 0; i < 3; i++) {
		pattern_fill(bytes, sizeof(bytes), i);
		assert_status(net_send(host_peer(&world->hosts[0], 1), 1, NULL, 0, bytes,
				       sizeof(bytes)),
			      PF_OK);
		host_pump(&world->hosts[0]);
	}
	assert_int_equal(caught_count, 3);
	for (i = 0; i < caught_count; i++)
		move_payload(i, WIRE_HEADER + WIRE_DATA, caught[i].bytes + WIRE_HEADER + WIRE_DATA);
	net_input(host->core, world->now, packets, caught_count, NET_LENT_PIECES);
	host_take(host);
	assert_int_equal(delivered, 3);
	end_catch(world);
	world_destroy(world);
}

static bool overwritten;

/* The application reuses its memory. */
static void complete_and_overwrite(struct host *host, void *arg,
				   const struct net_completion *completion)
{
	on_complete(host, arg, completion);
	memset(host->arena + HALF, 0xee, 100000);
	overwritten = true;
}

/* The end of a transfer does not damage packets that were received into its memory. */
static void test_end_under_packets(void **state)
{
	struct world *world = make_warm(settings_for(2, NET_FAULT_NACK));
	struct host *host = &world->hosts[1];
	uint8_t *place = host->arena + HALF + 4096;
	unsigned i, data = 0;

	memset(host->arena + HALF, 0, HALF);
	overwritten = false;
	/* A get that fails at its source, and a put behind it. */
	world->tap = catch_packet;
	host->complete = complete_and_overwrite;
	get(world, 1, 0, HALF, ARENA, 100000);
	world_pass(world, 20 * MICROSECOND);
	put(world, 0, 1, 0, HALF + 1000000, 1000);
	/* They are received together, the bytes of the put where those of the get were predicted. */
	for (i = 0; i < caught_count; i++) {
		if ((caught[i].bytes[16] & 15) != WIRE_DATA_PUT)
			continue;
		data++;
		move_payload(i, WIRE_HEADER + WIRE_DATA, place);
		memcpy(place, caught[i].bytes + WIRE_HEADER + WIRE_DATA, packets[i].payload_length);
	}
	assert_int_equal(data, 1);
	assert_true(caught_count > 1);
	net_input(host->core, world->now, packets, caught_count, NET_LENT);
	host_take(host);
	assert_true(overwritten);
	check_same(world, 0, 0, 1, HALF + 1000000, 1000);
	end_catch(world);
	await_all(world);
	world_destroy(world);
}

/*
 * Payloads that were received into memory which is unmapped before they are read, from the second
 * packet on, are lost and retransmitted. together: handed in with the first one, which is copied,
 * or kept in BACKUP mode because its page is absent. header: bytes that are elsewhere, 0: as many
 * as the packet's header has.
 */
static void check_unmapped(enum net_auth auth, enum net_fault_mode mode, uint32_t header,
			   bool together)
{
	struct settings settings = settings_for(2, mode);
	struct wire_header first;
	struct world *world;
	struct host *host;
	uint8_t *unmapped;
	unsigned i;

	settings.options.auth = auth;
	world = make_warm(settings);
	host = &world->hosts[1];
	unmapped = host->arena + HALF + 4 * WORLD_PAGE;
	if (mode == NET_FAULT_BACKUP)
		host_evict(host, HALF + 2000000, 16384);
	world->tap = catch_packet;
	put(world, 0, 1, 0, HALF + 2000000, 16384);
	assert_in_range(caught_count, 2, ARRAY_SIZE(caught));
	for (i = 1; i < caught_count; i++) {
		assert_true(wire_get_header(caught[i].bytes, caught[i].length, &first));
		move_payload(i, header ? header : (uint32_t)(WIRE_HEADER + first.control),
			     unmapped);
	}
	if (!together)
		net_input(host->core, world->now, packets, 1, NET_LENT);
	assert_int_equal(mprotect(unmapped, 4 * WORLD_PAGE, PROT_NONE), 0);
	world->settings.fault = UINT32_MAX;
	net_input(host->core, world->now, packets + !together, caught_count - !together, NET_LENT);
	world->settings.fault = 0;
	assert_int_equal(mprotect(unmapped, 4 * WORLD_PAGE, PROT_READ | PROT_WRITE), 0);
	end_catch(world);
	finish(world);
	check_same(world, 0, 0, 1, HALF + 2000000, 16384);
	world_destroy(world);
}

static void test_unmapped(void **state)
{
	const uint32_t other = WIRE_HEADER + 8;
	unsigned i;

	for (i = 0; i < 2; i++) {
		check_unmapped(NET_AUTH_HEADER, NET_FAULT_NACK, 0, i);
		check_unmapped(NET_AUTH_HEADER, NET_FAULT_BACKUP, 0, i);
		check_unmapped(NET_AUTH_HEADER, NET_FAULT_NACK, other, i);
		check_unmapped(NET_AUTH_HEADER, NET_FAULT_NACK, 8, i);
		check_unmapped(NET_AUTH_FULL, NET_FAULT_NACK, 0, i);
		check_unmapped(NET_AUTH_FULL, NET_FAULT_BACKUP, 0, i);
		check_unmapped(NET_AUTH_ENCRYPT, NET_FAULT_NACK, other, i);
	}
}

/* ---- transfers beside messages, and beside those of the peer ---- */

static uint64_t messages_received, message_latest;

/* Of a message whose first bytes are when it was sent. */
static void note_message(struct host *host, struct host *from, uint32_t tag, const void *data,
			 size_t length)
{
	uint64_t sent;

	memcpy(&sent, data, sizeof(sent));
	messages_received++;
	if (host->world->now - sent > message_latest)
		message_latest = host->world->now - sent;
}

static bool sends_messages;

/* As many messages from host 0 to host 1 as there is room for, always. */
static void send_always(struct world *world, void *arg)
{
	static uint64_t bytes[1024];

	bytes[0] = world->now;
	while (sends_messages &&
	       net_send(host_peer(&world->hosts[0], 1), 1, bytes, sizeof(bytes), NULL, 0) == PF_OK)
		;
	host_pump(&world->hosts[0]);
	if (sends_messages)
		world_call(world, world->now + 5 * MICROSECOND, send_always, NULL);
}

/* A link of 10 Gbit/s each way. */
static struct world *make_linked(uint64_t seed)
{
	struct settings settings = settings_for(2, NET_FAULT_NACK);
	struct world *world;

	settings.seed = seed;
	settings.rate = 1250000000;
	settings.queue = MIB;
	settings.framing = 66;
	settings.uplinks = true;
	world = make_warm(settings);
	world->hosts[1].deliver = note_message;
	messages_received = message_latest = 0;
	return world;
}

/*
 * Messages without an end do not keep a put of host 0, or the data of a get by host 1: both are done
 * soon, and messages go on meanwhile.
 */
static void check_beside_messages(uint64_t seed, bool by_get, size_t length)
{
	struct world *world = make_linked(seed);
	uint64_t start, before;

	sends_messages = true;
	world_call(world, world->now, send_always, NULL);
	world_pass(world, 5 * MILLISECOND);
	assert_true(messages_received > 100);
	start = world->now;
	before = messages_received;
	if (by_get)
		get(world, 1, 0, HALF, 0, length);
	else
		put(world, 0, 1, 0, HALF, length);
	world_run(world, start + 50 * MILLISECOND, all_completed);
	print_message("# seed %llu, %s of %zu bytes beside messages: %.0f us, %llu messages\n",
		      (unsigned long long)seed, by_get ? "get" : "put", length,
		      (double)(world->now - start) / 1e3,
		      (unsigned long long)(messages_received - before));
	assert_int_equal(completed, posted);
	assert_ok(completions[posted - 1].status);
	check_same(world, 0, 0, 1, HALF, length);
	/* They have the half of the link. */
	assert_true(8192 * (messages_received - before) * 3 > length);
	sends_messages = false;
	world_pass(world, 10 * MILLISECOND);
	world_destroy(world);
}

static void test_beside_messages(void **state)
{
	uint64_t seed;

	for (seed = 1; seed <= 3; seed++) {
		check_beside_messages(seed, false, 4096);
		check_beside_messages(seed, false, 4 * MIB);
		check_beside_messages(seed, true, 4 * MIB);
	}
}

#define GETS 2 /* of the peer, at any time */

static uint64_t gets_done;

static void get_again(struct host *host, void *arg, const struct net_completion *completion)
{
	const pf_piece piece = world_piece(host_address(host, HALF),
					   host_address(&host->world->hosts[0], 0), MIB);

	if (host->number == 0) {
		on_complete(host, arg, completion);
		return;
	}
	gets_done++;
	net_get(host_peer(host, 0), &piece, 1, arg);
}

/* Gets of the peer without an end do not keep a put to it, and go on meanwhile. */
static void test_beside_gets(void **state)
{
	struct world *world;
	uint64_t seed, start, before;
	unsigned i;

	for (seed = 1; seed <= 3; seed++) {
		world = make_linked(seed);
		world->hosts[0].complete = world->hosts[1].complete = get_again;
		for (i = 0; i < GETS; i++)
			get(world, 1, 0, HALF, 0, MIB);
		world_pass(world, 5 * MILLISECOND);
		start = world->now;
		before = gets_done;
		put(world, 0, 1, 0, 6 * MIB, 2 * MIB);
		while (!completed_at[posted - 1] && world->now < start + 50 * MILLISECOND)
			world_pass(world, 100 * MICROSECOND);
		print_message("# seed %llu, put of 2 MiB beside gets: %.0f us, %llu MiB got\n",
			      (unsigned long long)seed, (double)(world->now - start) / 1e3,
			      (unsigned long long)(gets_done - before));
		assert_true(completed_at[posted - 1]);
		assert_ok(completions[posted - 1].status);
		check_same(world, 0, 0, 1, 6 * MIB, 2 * MIB);
		assert_in_range(gets_done - before, 1, 6);
		world_destroy(world);
	}
}

static void send_one(struct world *world, void *arg)
{
	uint64_t bytes[8] = { world->now };

	assert_int_equal(net_send(host_peer(&world->hosts[0], 1), 1, bytes, sizeof(bytes), NULL, 0),
			 PF_OK);
	host_pump(&world->hosts[0]);
	if (completed < posted)
		world_call(world, world->now + 20 * MICROSECOND, send_one, NULL);
}

/* Short messages beside much data go first: one waits for no more than what is in the queues. */
static void test_messages_first(void **state)
{
	struct world *world = make_linked(1);
	unsigned i;

	for (i = 0; i < 4; i++)
		put(world, 0, 1, i * MIB, HALF + i * MIB, MIB);
	world_call(world, world->now + 100 * MICROSECOND, send_one, NULL);
	finish(world);
	world_pass(world, MILLISECOND);
	print_message("# %llu messages, each within %.0f us\n",
		      (unsigned long long)messages_received, (double)message_latest / 1e3);
	assert_true(messages_received > 100);
	assert_true(message_latest < 300 * MICROSECOND);
	world_destroy(world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first_packet),
		cmocka_unit_test(test_full_ring),
		cmocka_unit_test(test_second_transfer),
		cmocka_unit_test(test_many_peers),
		cmocka_unit_test(test_only_the_block),
		cmocka_unit_test(test_blocked),
		cmocka_unit_test(test_blocked_by_gone),
		cmocka_unit_test(test_batches),
		cmocka_unit_test(test_across_blocks),
		cmocka_unit_test(test_place_many),
		cmocka_unit_test(test_unplaced),
		cmocka_unit_test(test_bad_address),
		cmocka_unit_test(test_bad_address_of_dead),
		cmocka_unit_test(test_withdrawn),
		cmocka_unit_test(test_bad_memory),
		cmocka_unit_test(test_bad_memory_of_lost),
		cmocka_unit_test(test_bad_memory_of_held),
		cmocka_unit_test(test_bad_memory_of_unplaced),
		cmocka_unit_test(test_lengths),
		cmocka_unit_test(test_mtu_changes),
		cmocka_unit_test(test_no_prediction_of_put),
		cmocka_unit_test(test_no_prediction_of_hashed),
		cmocka_unit_test(test_prediction),
		cmocka_unit_test(test_prediction_beside),
		cmocka_unit_test(test_prediction_resolves),
		cmocka_unit_test(test_prediction_of_get),
		cmocka_unit_test(test_prediction_of_silent),
		cmocka_unit_test(test_waiting_untouched),
		cmocka_unit_test(test_no_record),
		cmocka_unit_test(test_many_open),
		cmocka_unit_test(test_no_memory_for_kept),
		cmocka_unit_test(test_prediction_of_several),
		cmocka_unit_test(test_end_under_packets),
		cmocka_unit_test(test_scattered_messages),
		cmocka_unit_test(test_unmapped),
		cmocka_unit_test(test_beside_messages),
		cmocka_unit_test(test_beside_gets),
		cmocka_unit_test(test_messages_first),
	};

	return cmocka_run_group_tests_name("net_transfer", tests, NULL, NULL);
}

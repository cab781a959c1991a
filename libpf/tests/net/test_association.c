/* SPDX-License-Identifier: BSD-3-Clause */
/* Who is let in, who is dead and who only silent, and what it all costs while nothing happens. */
#include "unit.h"

#include "net/sockets.h"
#include "net/wire.h"

#define LENGTH 50000u

static unsigned completed, gone;
static int last_status, gone_status;
static uint64_t gone_at;

static void complete(struct host *host, void *arg, const struct net_completion *completion)
{
	completed++;
	last_status = completion->status;
}

static void on_gone(struct host *host, struct host *peer, int status)
{
	gone++;
	gone_status = status;
	gone_at = host->world->now;
}

static void prepare(struct settings *settings)
{
	settings_init(settings);
	settings->hosts = 3;
}

static struct world *make(const struct settings *settings)
{
	struct world *world = world_create(settings);
	unsigned i;

	completed = gone = 0;
	for (i = 0; i < settings->hosts; i++) {
		pattern_fill(world->hosts[i].arena, settings->arena / 2, i);
		world->hosts[i].complete = complete;
		world->hosts[i].gone = on_gone;
	}
	return world;
}

static void put(struct world *world, unsigned from, unsigned to)
{
	struct host *host = &world->hosts[from], *peer = &world->hosts[to];

	assert_ok(net_put(host_peer(host, to), (uint64_t)(uintptr_t)host->arena,
			  (uint64_t)(uintptr_t)(peer->arena + world->settings.arena / 2), LENGTH,
			  NULL));
	host_pump(host);
}

static void put_and_check(struct world *world, unsigned from, unsigned to)
{
	unsigned before = completed;
	uint64_t limit = world->now + 10 * SECOND;

	memset(world->hosts[to].arena + world->settings.arena / 2, 0, LENGTH);
	put(world, from, to);
	while (completed == before && world->now < limit)
		world_run(world, world->now + 100 * MICROSECOND, NULL);
	assert_int_equal(completed, before + 1);
	assert_ok(last_status);
	assert_memory_equal(world->hosts[from].arena,
			    world->hosts[to].arena + world->settings.arena / 2, LENGTH);
}

/* In both directions, over one association, also when both open at once, also with losses. */
static void test_open(void **state)
{
	struct settings settings;
	struct world *world;
	unsigned i;

	prepare(&settings);
	for (i = 0; i < 60; i++) {
		settings.seed = i;
		settings.loss = PER_MILLION(i < 20 ? 0 : 300000);
		settings.options.auth = (enum net_auth)(i % 3);
		world = make(&settings);
		if (i % 2) {
			put(world, 0, 1);
			put(world, 1, 0);
			world_run(world, world->now + 20 * SECOND, NULL);
			assert_int_equal(completed, 2);
			assert_ok(last_status);
		}
		put_and_check(world, 0, 1);
		put_and_check(world, 1, 0);
		assert_int_equal(gone, 0);
		world_destroy(world);
	}
}

static void test_auth_differs(void **state)
{
	struct settings settings;
	struct world *world;

	prepare(&settings);
	settings.options.peer_timeout = SECOND;
	world = make(&settings);
	host_crash(&world->hosts[1]);
	world->settings.options.auth = NET_AUTH_FULL;
	host_start(&world->hosts[1]);
	put(world, 0, 1);
	world_run(world, world->now + 5 * SECOND, NULL);
	assert_int_equal(completed, 1);
	assert_status(last_status, PF_ERR_PEER);
	assert_true(host_statistics(&world->hosts[1])->refused > 0);
	world_destroy(world);
}

/* ---- forged and replayed packets ---- */

#define KEPT 4000

static struct {
	unsigned from, to;
	size_t length;
	uint8_t *bytes;
} kept[KEPT];
static unsigned kept_count;

static void keep(struct world *world, unsigned from, unsigned to, const uint8_t *bytes,
		 size_t length)
{
	if (kept_count == KEPT)
		return;
	kept[kept_count].from = from;
	kept[kept_count].to = to;
	kept[kept_count].length = length;
	kept[kept_count].bytes = malloc(length);
	memcpy(kept[kept_count++].bytes, bytes, length);
}

static void forget(void)
{
	while (kept_count)
		free(kept[--kept_count].bytes);
}

/* What a world is before it gets packets that nobody of the job sent. */
struct before {
	uint64_t sent, rejected;
	size_t memory;
	uint8_t *arenas;
};

static uint64_t rejected(const struct world *world)
{
	return WORLD_SUM(world, forged) + WORLD_SUM(world, refused) + WORLD_SUM(world, replayed);
}

static void remember(struct before *before, const struct world *world)
{
	size_t arena = world->settings.arena;
	unsigned i;

	before->sent = WORLD_SUM(world, packets_sent);
	before->rejected = rejected(world);
	before->memory = net_association_memory(world->hosts[1].peers[0]);
	before->arenas = malloc(world->settings.hosts * arena);
	assert_non_null(before->arenas);
	for (i = 0; i < world->settings.hosts; i++)
		memcpy(before->arenas + i * arena, world->hosts[i].arena, arena);
}

/* All of them are counted; they change nothing, are answered by nothing, and hold no memory. */
static void assert_ignored(struct before *before, struct world *world, unsigned count)
{
	size_t arena = world->settings.arena;
	unsigned i;

	/* An acknowledgement may be in no hurry. */
	world_run(world, world->now + SECOND, NULL);
	assert_int_equal(rejected(world), before->rejected + count);
	assert_int_equal(WORLD_SUM(world, packets_sent), before->sent);
	assert_int_equal(net_association_memory(world->hosts[1].peers[0]), before->memory);
	for (i = 0; i < world->settings.hosts; i++)
		assert_memory_equal(before->arenas + i * arena, world->hosts[i].arena, arena);
	before->rejected += count;
}

/* Bytes of a packet that are covered by a hash. */
static unsigned covered(enum net_auth auth, const uint8_t *bytes, size_t length)
{
	if (auth == NET_AUTH_ENCRYPT || (auth == NET_AUTH_FULL && (bytes[16] & 15) != WIRE_PROBE))
		return (unsigned)length;
	return WIRE_HEADER + wire_get16(bytes + 18);
}

static void check_forged(enum net_auth auth)
{
	struct random_numbers numbers = random_start("forged");
	const unsigned forgeries = (unsigned)REPEAT(20000);
	struct settings settings;
	struct before before;
	struct world *world;
	unsigned i, bit, count, again = 0;

	prepare(&settings);
	settings.options.auth = auth;
	world = make(&settings);
	world->tap = keep;
	put_and_check(world, 0, 1);
	put_and_check(world, 1, 0);
	world_run(world, world->now + 3 * SECOND, NULL);
	world->tap = NULL;
	count = kept_count;
	remember(&before, world);
	for (i = 0; i < forgeries; i++) {
		unsigned k = (unsigned)random_below(&numbers, count);
		size_t length = kept[k].length;
		uint8_t *copy = malloc(length + 8);

		memcpy(copy, kept[k].bytes, length);
		/* A new number, so that it is not refused for being old; other bits; other lengths. */
		bit = (unsigned)random_below(&numbers, 4);
		if (bit == 0)
			copy[24] = (uint8_t)(copy[24] + 64), copy[25] += 8;
		if (bit == 1) {
			length = 1 + random_below(&numbers, length - 1);
		} else {
			unsigned most = covered(auth, kept[k].bytes, length);
			unsigned at = (unsigned)random_below(&numbers, 8 * most);

			copy[at / 8] ^= (uint8_t)(1 << at % 8);
		}
		world_inject(world, kept[k].from, kept[k].to, copy, length);
		free(copy);
	}
	assert_ignored(&before, world, forgeries);
	/* And as they were. A WELCOME, or a HELLO of one who is known, may be answered by a WELCOME. */
	for (i = 0; i < count; i++) {
		if ((kept[i].bytes[16] & 15) <= WIRE_WELCOME)
			continue;
		world_inject(world, kept[i].from, kept[i].to, kept[i].bytes, kept[i].length);
		again++;
	}
	assert_true(again > count / 2);
	assert_ignored(&before, world, again);
	/* To somebody they were not meant for. */
	for (i = 0; i < count; i++)
		world_inject(world, kept[i].from, 2, kept[i].bytes, kept[i].length);
	assert_ignored(&before, world, count);
	free(before.arenas);
	put_and_check(world, 0, 1);
	assert_int_equal(gone, 0);
	assert_false(world->failed);
	forget();
	world_destroy(world);
}

static void test_forged(void **state)
{
	check_forged(NET_AUTH_HEADER);
	check_forged(NET_AUTH_FULL);
	check_forged(NET_AUTH_ENCRYPT);
}

/* Packets to a process that ended mean nothing to the one that has its place. */
static void test_restart(void **state)
{
	struct settings settings;
	struct world *world;
	uint64_t taken;
	unsigned i;

	prepare(&settings);
	settings.options.peer_timeout = 2 * SECOND;
	world = make(&settings);
	world->tap = keep;
	put_and_check(world, 0, 1);
	world->tap = NULL;
	host_crash(&world->hosts[1]);
	host_start(&world->hosts[1]);
	memset(world->hosts[1].arena, 0x11, settings.arena);
	taken = host_statistics(&world->hosts[1])->packets_sent;
	for (i = 0; i < kept_count; i++)
		world_inject(world, kept[i].from, kept[i].to, kept[i].bytes, kept[i].length);
	world_run(world, world->now + MILLISECOND, NULL);
	assert_int_equal(host_statistics(&world->hosts[1])->packets_sent, taken);
	for (i = 0; i < settings.arena; i++)
		assert_int_equal(world->hosts[1].arena[i], 0x11);
	/* The old association dies, a new one is made by who knows the new address. */
	put(world, 0, 1);
	world_run(world, world->now + 5 * SECOND, NULL);
	assert_int_equal(completed, 2);
	assert_status(last_status, PF_ERR_PEER);
	assert_int_equal(gone, 1);
	pattern_fill(world->hosts[1].arena, settings.arena / 2, 1);
	put_and_check(world, 0, 1);
	put_and_check(world, 1, 0);
	forget();
	world_destroy(world);
}

/* One that has the id of another before it is known by its incarnation to be its successor. */
static void test_incarnation(void **state)
{
	struct settings settings;
	struct world *world;
	unsigned i;

	prepare(&settings);
	settings.same_id = true;
	world = make(&settings);
	world->tap = keep;
	put_and_check(world, 1, 0);
	world->tap = NULL;
	host_crash(&world->hosts[1]);
	host_start(&world->hosts[1]);
	put_and_check(world, 1, 0);
	assert_int_equal(gone, 1);
	assert_status(gone_status, PF_ERR_PEER);
	/* The first one's HELLO comes late: its successor stays. */
	for (i = 0; i < kept_count; i++)
		world_inject(world, kept[i].from, kept[i].to, kept[i].bytes, kept[i].length);
	world_run(world, world->now + MILLISECOND, NULL);
	put_and_check(world, 1, 0);
	put_and_check(world, 0, 1);
	assert_int_equal(gone, 1);
	forget();
	world_destroy(world);
}

/* ---- silence and death ---- */

static void test_stopped(void **state)
{
	struct settings settings;
	struct world *world;
	uint64_t start;

	prepare(&settings);
	settings.interface_mtu = settings.mtu = 1472;
	world = make(&settings);
	put_and_check(world, 0, 1);
	host_stop(&world->hosts[1]);
	start = world->packets;
	put(world, 0, 1);
	world_run(world, world->now + 60 * SECOND, NULL);
	assert_int_equal(completed, 1);
	assert_int_equal(gone, 0);
	/* One window, then probes at most a second apart. */
	assert_true(world->packets - start < 300);
	host_continue(&world->hosts[1]);
	world_run(world, world->now + 2 * SECOND, NULL);
	assert_int_equal(completed, 2);
	assert_ok(last_status);
	world_destroy(world);
}

static void test_link_down(void **state)
{
	struct settings settings;
	struct world *world;

	prepare(&settings);
	world = make(&settings);
	put_and_check(world, 0, 1);
	world->settings.loss = UINT32_MAX;
	put(world, 0, 1);
	world_run(world, world->now + 20 * SECOND, NULL);
	assert_int_equal(completed, 1);
	world->settings.loss = 0;
	world_run(world, world->now + 2 * SECOND, NULL);
	assert_int_equal(completed, 2);
	assert_ok(last_status);
	world_destroy(world);
}

static void test_dead(void **state)
{
	struct settings settings;
	struct world *world;
	uint64_t start;

	/* Its host is gone as well: nothing but time tells. */
	prepare(&settings);
	settings.options.peer_timeout = 5 * SECOND;
	world = make(&settings);
	put_and_check(world, 0, 1);
	start = world->now;
	world->settings.loss = UINT32_MAX;
	host_crash(&world->hosts[1]);
	put(world, 0, 1);
	world_run(world, world->now + 100 * SECOND, NULL);
	assert_int_equal(completed, 2);
	assert_status(last_status, PF_ERR_PEER);
	assert_int_equal(gone, 1);
	assert_status(gone_status, PF_ERR_PEER);
	assert_in_range(gone_at - start, 5 * SECOND, 6 * SECOND);
	world_destroy(world);

	/* Its host says so. */
	settings.options.peer_timeout = 600 * SECOND;
	world = make(&settings);
	put_and_check(world, 0, 1);
	start = world->now;
	host_crash(&world->hosts[1]);
	put(world, 0, 1);
	world_run(world, world->now + 100 * SECOND, NULL);
	assert_int_equal(gone, 1);
	assert_in_range(gone_at - start, 2 * SECOND, 4 * SECOND);
	world_destroy(world);

	/* Nothing was asked of it: the probes of keepalive find out. */
	settings.options.peer_timeout = 8 * SECOND;
	world = make(&settings);
	put_and_check(world, 0, 1);
	start = world->now;
	world->settings.loss = UINT32_MAX;
	host_crash(&world->hosts[1]);
	world_run(world, world->now + 100 * SECOND, NULL);
	assert_int_equal(gone, 1);
	assert_in_range(gone_at - start, 8 * SECOND, 12 * SECOND);
	world_destroy(world);
}

/* It acknowledged every packet and died before it said that the bytes are in place. */
static void test_dead_in_debt(void **state)
{
	struct settings settings;
	struct net_path_info path;
	struct world *world;
	uint64_t start;

	prepare(&settings);
	settings.options.peer_timeout = 5 * SECOND;
	settings.options.keepalive = 1000000 * SECOND;
	settings.resolve = 30 * SECOND;
	world = make(&settings);
	put_and_check(world, 0, 1);
	host_evict(&world->hosts[1], 0, settings.arena);
	put(world, 0, 1);
	world_run(world, world->now + SECOND / 2, NULL);
	assert_int_equal(completed, 1);
	assert_true(net_path_info(world->hosts[0].peers[1], 0, &path));
	assert_int_equal(path.in_flight, 0);
	start = world->now;
	world->settings.loss = UINT32_MAX;
	host_crash(&world->hosts[1]);
	world_run(world, world->now + 100 * SECOND, NULL);
	assert_int_equal(completed, 2);
	assert_status(last_status, PF_ERR_PEER);
	assert_in_range(gone_at - start, 5 * SECOND, 7 * SECOND);
	world_destroy(world);
}

/* Anybody can say that a port is closed. Who is alive is not believed dead. */
static void test_false_refusal(void **state)
{
	struct settings settings;
	struct net_endpoint endpoint = sockets_endpoint(1, 0);
	struct world *world;
	unsigned i;

	prepare(&settings);
	world = make(&settings);
	put_and_check(world, 0, 1);
	for (i = 0; i < 1000; i++) {
		net_refused(world->hosts[0].core, &endpoint);
		host_pump(&world->hosts[0]);
		world_run(world, world->now + 10 * MILLISECOND, NULL);
	}
	assert_int_equal(gone, 0);
	put_and_check(world, 0, 1);
	world_destroy(world);
}

static void test_goodbye(void **state)
{
	struct settings settings;
	struct world *world;
	uint64_t start;

	prepare(&settings);
	world = make(&settings);
	put_and_check(world, 0, 1);
	host_stop(&world->hosts[0]);
	put(world, 1, 0);
	start = world->now;
	world->hosts[0].stopped = false;
	net_close(world->hosts[0].peers[1]);
	host_pump(&world->hosts[0]);
	world_run(world, world->now + SECOND, NULL);
	assert_int_equal(gone, 1);
	assert_true(gone_at - start < MILLISECOND);
	assert_int_equal(completed, 2);
	assert_status(last_status, PF_ERR_PEER);
	world_destroy(world);
}

/* ---- several paths ---- */

static void test_paths(void **state)
{
	struct settings settings;
	struct net_path_info info[2];
	struct world *world;
	unsigned i;

	prepare(&settings);
	settings.paths = 2;
	world = make(&settings);
	put_and_check(world, 0, 1);
	for (i = 0; i < 20; i++)
		put_and_check(world, i % 2, !(i % 2));
	for (i = 0; i < 2; i++) {
		assert_true(net_path_info(world->hosts[0].peers[1], i, &info[i]));
		assert_true(info[i].rtt > 0);
	}
	/* One goes down with packets under way, which take the other; and comes up again. */
	put(world, 0, 1);
	world_run(world, world->now + 2 * MICROSECOND, NULL);
	world->settings.paths_down = 2;
	world_run(world, world->now + 100 * MILLISECOND, NULL);
	assert_int_equal(completed, 22);
	for (i = 0; i < 20; i++)
		put_and_check(world, 0, 1);
	world->settings.paths_down = 1;
	world_run(world, world->now + 2 * SECOND, NULL);
	put_and_check(world, 0, 1);
	put_and_check(world, 1, 0);
	assert_int_equal(gone, 0);
	world_destroy(world);
}

/* Each look at an idle peer begins anew, and has to find the path that is not down. */
static void test_idle_paths(void **state)
{
	struct settings settings;
	struct world *world;
	uint32_t down;

	prepare(&settings);
	settings.paths = 2;
	settings.options.peer_timeout = 4 * SECOND;
	settings.options.idle_release = MILLISECOND;
	for (down = 1; down < 3; down++) {
		world = make(&settings);
		put_and_check(world, 0, 1);
		world_run(world, world->now + 100 * MILLISECOND, NULL);
		world->settings.paths_down = down;
		world_run(world, world->now + 60 * SECOND, NULL);
		assert_int_equal(gone, 0);
		put_and_check(world, 1, 0);
		world_destroy(world);
	}
}

/* A question that nobody answers, because its path is down, is asked on another one. */
static void test_question_on_path_down(void **state)
{
	struct settings settings;
	struct world *world;
	uint32_t down;

	prepare(&settings);
	settings.paths = 2;
	settings.options.peer_timeout = 4 * SECOND;
	/* Never at rest, where it would forget what it knows of the paths. */
	settings.options.idle_release = 1000 * SECOND;
	for (down = 1; down < 3; down++) {
		world = make(&settings);
		put_and_check(world, 0, 1);
		put_and_check(world, 1, 0);
		world_run(world, world->now + 100 * MILLISECOND, NULL);
		world->settings.paths_down = down;
		world_run(world, world->now + 60 * SECOND, NULL);
		assert_int_equal(gone, 0);
		put_and_check(world, 0, 1);
		world_destroy(world);
	}
}

/* ---- memory ---- */

static void test_idle_memory(void **state)
{
	struct settings settings;
	struct net_association *peer;
	struct world *world;
	size_t known;

	prepare(&settings);
	world = make(&settings);
	/* Never used: nothing is sent to it. */
	peer = host_peer(&world->hosts[0], 1);
	known = net_association_memory(peer);
	assert_true(known <= 1024);
	host_pump(&world->hosts[0]);
	assert_int_equal(world->packets, 0);
	put_and_check(world, 0, 1);
	world_run(world, world->now + 10 * MILLISECOND, NULL);
	assert_true(net_association_memory(peer) > 1024);
	world_run(world, world->now + 2 * SECOND, NULL);
	print_message("# never used %zu bytes, idle %zu\n", known, net_association_memory(peer));
	/* To which link.c adds what libpf has of a peer. */
	assert_true(net_association_memory(peer) <= 824);
	assert_true(net_association_memory(world->hosts[1].peers[0]) <= 824);
	put_and_check(world, 0, 1);
	put_and_check(world, 1, 0);
	world_destroy(world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_open),          cmocka_unit_test(test_auth_differs),
		cmocka_unit_test(test_forged),        cmocka_unit_test(test_restart),
		cmocka_unit_test(test_stopped),       cmocka_unit_test(test_link_down),
		cmocka_unit_test(test_dead),          cmocka_unit_test(test_dead_in_debt),
		cmocka_unit_test(test_false_refusal), cmocka_unit_test(test_goodbye),
		cmocka_unit_test(test_incarnation),   cmocka_unit_test(test_paths),
		cmocka_unit_test(test_idle_paths),    cmocka_unit_test(test_question_on_path_down),
		cmocka_unit_test(test_idle_memory),
	};

	return cmocka_run_group_tests_name("net_association", tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Associations: which peers are accepted, when a silent one is dead, what an idle one costs. */
#include "unit.h"

#include "protocol/core.h"
#include "protocol/world.h"
#include "protocol/wire.h"

#define LENGTH 50000u

static unsigned completed, gone, unanswered;
static uint64_t unanswered_at;
static const char *unanswered_why, *gone_why;
static int last_status, gone_status;
static uint64_t gone_at;

static void on_complete(struct host *host, void *arg, const struct net_completion *completion)
{
	completed++;
	last_status = completion->status;
}

static void on_gone(struct host *host, struct host *peer, int status, const char *why)
{
	gone++;
	gone_why = why;
	gone_status = status;
	gone_at = host->world->now;
}

static void on_unanswered(struct host *host, struct host *peer, const char *why)
{
	unanswered++;
	unanswered_at = host->world->now;
	unanswered_why = why;
}

static struct settings three_hosts(void)
{
	struct settings settings;

	settings_init(&settings);
	settings.hosts = 3;
	return settings;
}

static struct world *make(const struct settings *settings)
{
	struct world *world = world_create(settings);
	unsigned i;

	completed = gone = unanswered = 0;
	for (i = 0; i < settings->hosts; i++) {
		pattern_fill(world->hosts[i].arena, settings->arena / 2, i);
		world->hosts[i].complete = on_complete;
		world->hosts[i].gone = on_gone;
		world->hosts[i].unanswered = on_unanswered;
	}
	return world;
}

static void put(struct world *world, unsigned from, unsigned to)
{
	host_put(&world->hosts[from], 0, to, world->settings.arena / 2, LENGTH, NULL);
}

static void put_and_check(struct world *world, unsigned from, unsigned to)
{
	uint8_t *arrived = world->hosts[to].arena + world->settings.arena / 2;
	unsigned before = completed;
	uint64_t limit = world->now + 10 * SECOND;

	memset(arrived, 0, LENGTH);
	put(world, from, to);
	while (completed == before && world->now < limit)
		world_pass(world, 100 * MICROSECOND);
	assert_int_equal(completed, before + 1);
	assert_ok(last_status);
	assert_memory_equal(world->hosts[from].arena, arrived, LENGTH);
}

/* A world in which host 0 has sent to host 1. */
static struct world *make_used(const struct settings *settings)
{
	struct world *world = make(settings);

	put_and_check(world, 0, 1);
	return world;
}

/* Everything posted so far has completed, the last one with this status. */
static void check_completed(unsigned count, int status)
{
	assert_int_equal(completed, count);
	assert_status(last_status, status);
}

/* Host 0 has found its peer dead, at a time after start in these seconds. */
static void check_gone(uint64_t start, int status, unsigned least, unsigned most)
{
	assert_int_equal(gone, 1);
	assert_status(gone_status, status);
	assert_in_range(gone_at - start, least * SECOND, most * SECOND);
}

/* In both directions, over one association, opened by one side or both, with and without losses. */
static void test_open(void **state)
{
	struct settings settings = three_hosts();
	struct world *world;
	unsigned i;

	for (i = 0; i < 60; i++) {
		settings.seed = i;
		settings.loss = PER_MILLION(i < 20 ? 0 : 300000);
		settings.options.auth = (enum net_auth)(i % 3);
		world = make(&settings);
		if (i % 2) {
			put(world, 0, 1);
			put(world, 1, 0);
			world_pass(world, 20 * SECOND);
			check_completed(2, PF_OK);
		}
		put_and_check(world, 0, 1);
		put_and_check(world, 1, 0);
		assert_int_equal(gone, 0);
		world_destroy(world);
	}
}

static void test_auth_differs(void **state)
{
	struct settings settings = three_hosts();
	struct world *world;

	settings.options.peer_timeout = SECOND;
	world = make(&settings);
	host_crash(&world->hosts[1]);
	world->settings.options.auth = NET_AUTH_FULL;
	host_start(&world->hosts[1]);
	put(world, 0, 1);
	world_pass(world, 5 * SECOND);
	check_completed(1, PF_ERR_UNREACHABLE);
	assert_true(host_statistics(&world->hosts[1])->drops[NET_DROP_DIFFERENT] > 0);
	world_destroy(world);
}

/* A HELLO of a process that speaks later versions only comes before that of one that speaks this. */
static void precede_hello(struct world *world, unsigned from, unsigned to, const uint8_t *bytes,
			  size_t length)
{
	uint8_t other[WIRE_HEADER + WIRE_HELLO_BYTES + NET_INFO_MOST];
	uint8_t *range = other + WIRE_HEADER + 72;

	if ((bytes[16] & 15) != WIRE_HELLO)
		return;
	memcpy(other, bytes, length);
	assert_int_equal(range[0], NET_VERSION_OLDEST);
	assert_int_equal(range[1], NET_VERSION_NEWEST);
	range[0] = range[1] = NET_VERSION_NEWEST + 1;
	auth_tag(other, wire_get16(other + 18), world->hosts[to].core->shared.hello_key, 0);
	world_inject(world, from, to, other, length);
}

static void test_version_differs(void **state)
{
	struct settings settings = three_hosts();
	struct world *world = make(&settings);
	const struct net_statistics *statistics = host_statistics(&world->hosts[1]);

	world->tap = precede_hello;
	put_and_check(world, 0, 1);
	assert_int_equal(statistics->drops[NET_DROP_DIFFERENT],
			 host_statistics(&world->hosts[0])->hellos);
	world_destroy(world);
}

/* An opener that ends after the first HELLO is not kept for ever; one that repeats HELLO is. */
static void test_never_confirmed(void **state)
{
	struct settings settings = three_hosts();
	struct world *world;

	settings.options.peer_timeout = 5 * SECOND;
	world = make(&settings);
	assert_ok(net_contact(host_peer(&world->hosts[0], 1)));
	host_pump(&world->hosts[0]);
	host_crash(&world->hosts[0]);
	world_pass(world, 4 * SECOND);
	assert_int_equal(gone, 0);
	assert_true(host_statistics(&world->hosts[1])->packets_received > 0);
	world_pass(world, 2 * SECOND);
	assert_int_equal(gone, 1);
	assert_status(gone_status, PF_ERR_UNREACHABLE);
	world_destroy(world);
}

/* A peer that was known for longer than peer_timeout has that time from its HELLO on. */
static void test_known_for_long(void **state)
{
	struct settings settings = three_hosts();
	struct world *world;

	settings.options.peer_timeout = 5 * SECOND;
	world = make(&settings);
	assert_non_null(host_peer(&world->hosts[1], 0));
	world_pass(world, 20 * SECOND);
	put_and_check(world, 0, 1);
	assert_int_equal(gone, 0);
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
	kept[kept_count].bytes = test_alloc(length);
	memcpy(kept[kept_count++].bytes, bytes, length);
}

static void free_kept(void)
{
	while (kept_count)
		free(kept[--kept_count].bytes);
}

static void replay_kept(struct world *world)
{
	unsigned i;

	for (i = 0; i < kept_count; i++)
		world_inject(world, kept[i].from, kept[i].to, kept[i].bytes, kept[i].length);
}

/* State of a world before forged packets. */
struct before {
	uint64_t sent, rejected;
	size_t memory;
	uint8_t *arenas;
};

static uint64_t rejected(const struct world *world)
{
	return WORLD_SUM(world, dropped);
}

static void remember(struct before *before, const struct world *world)
{
	size_t arena = world->settings.arena;
	unsigned i;

	before->sent = WORLD_SUM(world, packets_sent);
	before->rejected = rejected(world);
	before->memory = net_association_memory(world->hosts[1].peers[0]);
	before->arenas = test_alloc(world->settings.hosts * arena);
	for (i = 0; i < world->settings.hosts; i++)
		memcpy(before->arenas + i * arena, world->hosts[i].arena, arena);
}

/* The forged packets are counted; they change nothing, have no answer and hold no memory. */
static void check_ignored(struct before *before, struct world *world, unsigned count)
{
	size_t arena = world->settings.arena;
	unsigned i;

	/* An acknowledgement would be sent by then. */
	world_pass(world, SECOND);
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

/* Inject a kept packet with another length or another bit, half of them with a new number. */
static void forge(struct world *world, struct random_numbers *numbers, enum net_auth auth)
{
	unsigned which = (unsigned)random_below(numbers, kept_count);
	unsigned change = (unsigned)random_below(numbers, 4);
	size_t length = kept[which].length;
	uint8_t *copy = test_alloc(length + 8);

	memcpy(copy, kept[which].bytes, length);
	if (change == 0)
		copy[24] = (uint8_t)(copy[24] + 64), copy[25] += 8;
	if (change == 1) {
		length = 1 + random_below(numbers, length - 1);
	} else {
		uint64_t bit = random_below(numbers, 8 * covered(auth, copy, length));

		copy[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	world_inject(world, kept[which].from, kept[which].to, copy, length);
	free(copy);
}

static void check_forged(enum net_auth auth)
{
	struct random_numbers numbers = random_start("forged");
	const unsigned forgeries = (unsigned)REPEAT(20000);
	struct settings settings = three_hosts();
	struct before before;
	struct world *world;
	unsigned i, again = 0;

	settings.options.auth = auth;
	world = make(&settings);
	world->tap = keep;
	put_and_check(world, 0, 1);
	put_and_check(world, 1, 0);
	world_pass(world, 3 * SECOND);
	remember(&before, world);
	for (i = 0; i < forgeries; i++)
		forge(world, &numbers, auth);
	check_ignored(&before, world, forgeries);
	/* Replayed as they were. A HELLO or WELCOME of a known peer may be answered. */
	for (i = 0; i < kept_count; i++) {
		if ((kept[i].bytes[16] & 15) <= WIRE_WELCOME)
			continue;
		world_inject(world, kept[i].from, kept[i].to, kept[i].bytes, kept[i].length);
		again++;
	}
	assert_true(again > kept_count / 2);
	check_ignored(&before, world, again);
	/* To another host. */
	for (i = 0; i < kept_count; i++)
		world_inject(world, kept[i].from, 2, kept[i].bytes, kept[i].length);
	check_ignored(&before, world, kept_count);
	free(before.arenas);
	/* Changed on their way, before the receiver has seen the number: only the hashes tell. */
	world->settings.corrupt = PER_MILLION(200000);
	put_and_check(world, 0, 1);
	assert_int_equal(gone, 0);
	assert_false(world->failed);
	free_kept();
	world_destroy(world);
}

/* Each packet that is dropped is counted by why. */
static void test_drops(void **state)
{
	struct settings settings = three_hosts();
	struct world *world = make(&settings);
	const struct net_statistics *statistics;
	enum net_drop why;
	uint64_t sum = 0;
	uint8_t *bytes;
	unsigned i;

	world->tap = keep;
	put_and_check(world, 0, 1);
	for (i = kept_count - 1; kept[i].to != 1; i--)
		;
	bytes = kept[i].bytes;
	world_inject(world, 0, 1, "short", 5);
	world_inject(world, 0, 1, bytes, kept[i].length);
	wire_put32(bytes + 24, wire_get32(bytes + 24) + 1000);
	world_inject(world, 0, 1, bytes, kept[i].length);
	wire_put32(bytes + 20, 77);
	world_inject(world, 0, 1, bytes, kept[i].length);
	world_pass(world, SECOND);
	statistics = host_statistics(&world->hosts[1]);
	assert_int_equal(statistics->drops[NET_DROP_MALFORMED], 1);
	assert_int_equal(statistics->drops[NET_DROP_REPLAYED], 1);
	assert_int_equal(statistics->drops[NET_DROP_FORGED], 1);
	assert_int_equal(statistics->drops[NET_DROP_UNKNOWN], 1);
	for (why = 0; why < NET_DROPS; why++)
		sum += statistics->drops[why];
	assert_int_equal(sum, statistics->dropped);
	free_kept();
	world_destroy(world);
}

static void test_forged(void **state)
{
	check_forged(NET_AUTH_HEADER);
	check_forged(NET_AUTH_FULL);
	check_forged(NET_AUTH_ENCRYPT);
}

/* Packets to a process that ended are ignored by its successor. */
static void test_restart(void **state)
{
	struct settings settings = three_hosts();
	struct world *world;
	uint64_t sent;
	uint8_t *arena;

	settings.options.peer_timeout = 2 * SECOND;
	world = make(&settings);
	world->tap = keep;
	put_and_check(world, 0, 1);
	host_crash(&world->hosts[1]);
	host_start(&world->hosts[1]);
	arena = world->hosts[1].arena;
	memset(arena, 0x11, settings.arena);
	sent = host_statistics(&world->hosts[1])->packets_sent;
	replay_kept(world);
	world_pass(world, MILLISECOND);
	assert_int_equal(host_statistics(&world->hosts[1])->packets_sent, sent);
	assert_int_equal(arena[0], 0x11);
	assert_memory_equal(arena, arena + 1, settings.arena - 1);
	/* The old association fails, a new one with the new address works. */
	put(world, 0, 1);
	world_pass(world, 5 * SECOND);
	check_completed(2, PF_ERR_TIMEOUT);
	assert_int_equal(gone, 1);
	pattern_fill(arena, settings.arena / 2, 1);
	put_and_check(world, 0, 1);
	put_and_check(world, 1, 0);
	free_kept();
	world_destroy(world);
}

/*
 * A peer of the process that ended does not know that its port is another one's now. What it sends
 * there looks like packets of an earlier process, not like forged ones of the peer's new association.
 */
static void test_successor(void **state)
{
	struct settings settings = three_hosts();
	struct net_association *old;
	const struct net_statistics *statistics;
	struct world *world;
	pf_piece piece;
	uint64_t seed;

	for (seed = 1; seed <= 10; seed++) {
		settings.seed = seed;
		world = make(&settings);
		put_and_check(world, 0, 1);
		old = world->hosts[0].peers[1];
		host_crash(&world->hosts[1]);
		host_start(&world->hosts[1]);
		world->hosts[0].peers[1] = NULL;
		put_and_check(world, 1, 0);
		piece = world_piece(host_address(&world->hosts[0], 0),
				    host_address(&world->hosts[1], 0), LENGTH);
		assert_pending(net_put(old, &piece, 1, NULL));
		host_pump(&world->hosts[0]);
		world_pass(world, 20 * SECOND);
		statistics = host_statistics(&world->hosts[1]);
		print_message("# seed %llu: %llu unknown, %llu forged\n", (unsigned long long)seed,
			      (unsigned long long)statistics->drops[NET_DROP_UNKNOWN],
			      (unsigned long long)statistics->drops[NET_DROP_FORGED]);
		assert_true(statistics->drops[NET_DROP_UNKNOWN] > 10);
		assert_int_equal(statistics->drops[NET_DROP_FORGED], 0);
		world_destroy(world);
	}
}

/* When the accepter answers, another host repeats the opener's HELLO. */
static void repeat_hello(struct world *world, unsigned from, unsigned to, const uint8_t *bytes,
			 size_t length)
{
	if ((bytes[16] & 15) == WIRE_HELLO)
		keep(world, from, to, bytes, length);
	if ((bytes[16] & 15) == WIRE_WELCOME && to == 0 && kept_count)
		world_inject(world, 2, from, kept[0].bytes, kept[0].length);
}

/* It does not lead the accepter's packets to that host. */
static void test_repeated_hello(void **state)
{
	struct settings settings = three_hosts();
	struct world *world = make(&settings);

	world->tap = repeat_hello;
	put_and_check(world, 0, 1);
	/* It was answered there. */
	assert_true(host_statistics(&world->hosts[2])->packets_received > 0);
	put_and_check(world, 1, 0);
	assert_int_equal(gone, 0);
	free_kept();
	world_destroy(world);
}

#define MANY 34

/*
 * The WELCOME to a peer that hears many senders is lost. When the HELLO comes again, what the accepter
 * begins with stays: how many share the peer's link, the pause for them, and the length of packets,
 * which it knows from another peer.
 */
static void test_repeated_hello_of_many(void **state)
{
	struct settings settings = three_hosts();
	struct net_association *association;
	struct path first, *path;
	struct world *world;
	uint64_t hellos;
	unsigned i;

	settings.hosts = MANY;
	settings.rate = 1250000000;
	settings.queue = MIB;
	settings.uplinks = true;
	world = make(&settings);
	for (i = 2; i < MANY; i++)
		host_put(&world->hosts[i], 0, 0, 0, settings.arena / 2, NULL);
	host_put(&world->hosts[1], 0, MANY - 1, 0, settings.arena / 2, NULL);
	world_pass(world, 10 * MILLISECOND);
	assert_true(senders_count(&world->hosts[0].core->shared.senders, world->now) >= 16);
	/* Nothing reaches host 0: not the WELCOME. */
	world->settings.unreached = 1;
	assert_ok(net_contact(host_peer(&world->hosts[0], 1)));
	host_pump(&world->hosts[0]);
	world_pass(world, MILLISECOND);
	association = world->hosts[1].peers[0];
	assert_non_null(association);
	assert_int_equal(association->state, ACCEPTED);
	path = association->paths[0];
	first = *path;
	assert_true(first.congestion.senders >= 16);
	assert_true(first.mtu.assumed);
	hellos = host_statistics(&world->hosts[0])->hellos;
	world_pass(world, 25 * MILLISECOND);
	assert_true(host_statistics(&world->hosts[0])->hellos > hellos);
	assert_int_equal(association->state, ACCEPTED);
	assert_ptr_equal(association->paths[0], path);
	assert_int_equal(path->congestion.senders, first.congestion.senders);
	assert_int_equal(congestion_window(&path->congestion),
			 congestion_window(&first.congestion));
	assert_int_equal(path->mtu.size, first.mtu.size);
	assert_true(path->paid == first.paid);
	world->settings.unreached = 0;
	world_pass(world, SECOND);
	assert_int_equal(association->state, OPEN);
	assert_int_equal(gone, 0);
	world_destroy(world);
}

/* ---- silence and death ---- */

static void test_stopped(void **state)
{
	struct settings settings = three_hosts();
	struct world *world;
	uint64_t start;

	settings.interface_mtu = settings.mtu = 1472;
	world = make_used(&settings);
	host_stop(&world->hosts[1]);
	start = world->packets;
	put(world, 0, 1);
	world_pass(world, 60 * SECOND);
	assert_int_equal(completed, 1);
	assert_int_equal(gone, 0);
	/* One window, then a probe about once a second. */
	assert_true(world->packets - start < 300);
	host_continue(&world->hosts[1]);
	world_pass(world, 2 * SECOND);
	check_completed(2, PF_OK);
	world_destroy(world);
}

static void test_link_down(void **state)
{
	struct settings settings = three_hosts();
	struct world *world = make_used(&settings);

	world->settings.loss = UINT32_MAX;
	put(world, 0, 1);
	world_pass(world, 20 * SECOND);
	assert_int_equal(completed, 1);
	world->settings.loss = 0;
	world_pass(world, 2 * SECOND);
	check_completed(2, PF_OK);
	world_destroy(world);
}

/* When a dead peer is found dead. */
static void test_dead(void **state)
{
	static const struct {
		unsigned timeout;     /* peer_timeout, s */
		bool silent;          /* its host does not report that the port is closed */
		bool used;            /* a put is posted after its death */
		unsigned reports;     /* its host sends no more */
		unsigned down;        /* the path that carries nothing, by bit */
		unsigned least, most; /* s */
	} cases[] = {
		{ 5, true, true, 0, 0, 5, 6 },
		{ 600, false, true, 1000, 0, 2, 4 },
		{ 600, false, true, 1, 0, 2, 4 },
		{ 600, false, true, 1, 1, 2, 4 },
		{ 600, false, true, 1, 2, 2, 4 },
		{ 8, true, false, 0, 0, 8, 12 }, /* found by the probes of keepalive */
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		struct settings settings = three_hosts();
		struct world *world;
		uint64_t start;
		int status;

		settings.options.peer_timeout = cases[i].timeout * SECOND;
		settings.paths = cases[i].down ? 2 : 1;
		settings.reports = cases[i].reports;
		world = make_used(&settings);
		put_and_check(world, 0, 1);
		start = world->now;
		world->settings.paths_down = cases[i].down;
		world->settings.loss = cases[i].silent ? UINT32_MAX : 0;
		host_crash(&world->hosts[1]);
		if (cases[i].used)
			put(world, 0, 1);
		world_pass(world, 100 * SECOND);
		status = cases[i].silent ? PF_ERR_TIMEOUT : PF_ERR_PEER;
		if (cases[i].used)
			check_completed(3, status);
		check_gone(start, status, cases[i].least, cases[i].most);
		assert_int_equal(unanswered, 0);
		world_destroy(world);
	}
}

/* The peer acknowledged every packet and died before it reported the put complete. */
static void test_dead_before_completion(void **state)
{
	struct settings settings = three_hosts();
	struct net_path_info path;
	struct world *world;
	uint64_t start;

	settings.options.peer_timeout = 5 * SECOND;
	settings.options.keepalive = 1000000 * SECOND;
	settings.resolve = 30 * SECOND;
	world = make_used(&settings);
	host_evict(&world->hosts[1], 0, settings.arena);
	put(world, 0, 1);
	world_pass(world, SECOND / 2);
	assert_int_equal(completed, 1);
	assert_true(net_path_info(world->hosts[0].peers[1], 0, &path));
	assert_int_equal(path.in_flight, 0);
	start = world->now;
	world->settings.loss = UINT32_MAX;
	host_crash(&world->hosts[1]);
	world_pass(world, 100 * SECOND);
	check_completed(2, PF_ERR_TIMEOUT);
	check_gone(start, PF_ERR_TIMEOUT, 5, 7);
	world_destroy(world);
}

/* Reports of a closed port can be forged: they do not end an association whose peer answers. */
static void test_false_refusal(void **state)
{
	struct settings settings = three_hosts();
	struct net_endpoint endpoint = world_endpoint(1, 0);
	struct world *world = make_used(&settings);
	unsigned i;

	for (i = 0; i < 1000; i++) {
		net_refused(world->hosts[0].core, &endpoint, NET_REFUSED_PORT);
		host_pump(&world->hosts[0]);
		world_pass(world, 10 * MILLISECOND);
	}
	assert_int_equal(gone, 0);
	put_and_check(world, 0, 1);
	world_destroy(world);
}

/* Nor one whose process stands still for a moment, nor by a path that leads to another host. */
static void test_false_refusal_in_silence(void **state)
{
	static const struct {
		unsigned path;
		uint64_t silence;
	} cases[] = { { 0, SECOND }, { 1, 20 * SECOND } };
	size_t i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		struct settings settings = three_hosts();
		struct net_endpoint endpoint = world_endpoint(1, cases[i].path);
		struct world *world;

		settings.paths = 2;
		settings.paths_down = 2;
		world = make_used(&settings);
		host_stop(&world->hosts[1]);
		net_refused(world->hosts[0].core, &endpoint, NET_REFUSED_PORT);
		host_pump(&world->hosts[0]);
		world_pass(world, cases[i].silence);
		host_continue(&world->hosts[1]);
		put_and_check(world, 0, 1);
		assert_int_equal(gone, 0);
		world_destroy(world);
	}
}

static void test_goodbye(void **state)
{
	struct settings settings = three_hosts();
	struct world *world = make_used(&settings);
	uint64_t start;

	host_stop(&world->hosts[0]);
	put(world, 1, 0);
	start = world->now;
	world->hosts[0].stopped = false;
	net_close(world->hosts[0].peers[1]);
	host_pump(&world->hosts[0]);
	world_pass(world, SECOND);
	assert_int_equal(gone, 1);
	assert_true(gone_at - start < MILLISECOND);
	check_completed(2, PF_ERR_PEER);
	world_destroy(world);
}

/*
 * A packet whose time has come stays due until it is sent, also if something else moved the clock
 * there first: a packet that came, or a post to another peer.
 */
static void test_pace_is_past(void **state)
{
	struct settings settings = three_hosts();
	struct world *world = make_used(&settings);
	struct net_core *core = world->hosts[0].core;
	struct path *path = world->hosts[0].peers[1]->paths[0];
	uint64_t start;

	/* Until nothing else is due soon. */
	world_pass(world, 100 * MILLISECOND);
	start = world->now + 10 * MILLISECOND;
	/* As after a pause that the receiver asked for. */
	path->paid = start;
	put(world, 0, 1);
	assert_true(path->oldest == path->next);
	assert_true(path->paced >= start);
	assert_int_equal(net_exact_deadline(core), path->paced);
	start = world->now = path->paced + 1;
	net_input(core, start, NULL, 0, NET_NOT_LENT);
	assert_true(net_exact_deadline(core) <= start);
	net_advance(core, start);
	host_pump(&world->hosts[0]);
	assert_true(path->oldest < path->next);
	world_pass(world, MILLISECOND);
	check_completed(2, PF_OK);
	world_destroy(world);
}

/* A GOODBYE that the socket had no room for is sent later; then the association is no more. */
static void test_goodbye_unsent(void **state)
{
	struct settings settings = three_hosts();
	struct world *world = make_used(&settings);
	struct host *host = &world->hosts[0];
	uint64_t hellos = host_statistics(host)->hellos;

	put_and_check(world, 0, 2);
	world->settings.full = UINT32_MAX;
	net_close_all(host->core);
	host->peers[1] = host->peers[2] = NULL;
	host_pump(host);
	world_pass(world, MILLISECOND);
	assert_int_equal(gone, 0);
	world->settings.full = 0;
	world_pass(world, MILLISECOND);
	assert_int_equal(gone, 2);
	assert_ok(gone_status);
	assert_ok(net_contact(host_peer(host, 1)));
	host_pump(host);
	assert_int_equal(host_statistics(host)->hellos, hellos + 2);
	world_destroy(world);
}

static uint64_t bytes_tapped;

static void fill_socket(struct world *world, unsigned from, unsigned to, const uint8_t *bytes,
			size_t length)
{
	if (to == 1)
		world->settings.full = UINT32_MAX;
}

/* An association at rest that is asked for an answer owes it until it is sent. */
static void test_answer_unsent(void **state)
{
	struct settings settings = three_hosts();
	struct world *world = make_used(&settings);
	struct net_association *association = world->hosts[1].peers[0];
	struct net_endpoint endpoint = world_endpoint(1, 0);

	world_pass(world, 5 * SECOND);
	assert_null(association->busy);
	world->reached = fill_socket;
	/* It makes host 0 ask. */
	net_refused(world->hosts[0].core, &endpoint, NET_REFUSED_PORT);
	host_pump(&world->hosts[0]);
	world_pass(world, MILLISECOND);
	assert_null(association->busy);
	assert_true(association->paths[0]->window.due <= world->now);
	world->reached = NULL;
	world->settings.full = 0;
	world_pass(world, MILLISECOND);
	assert_true(association->paths[0]->window.due == NET_NEVER);
	world_pass(world, 10 * SECOND);
	assert_int_equal(gone, 0);
	world_destroy(world);
}

static void count_bytes(struct world *world, unsigned from, unsigned to, const uint8_t *bytes,
			size_t length)
{
	bytes_tapped += length;
}

/* What a full socket did not take is not counted as sent. */
static void test_counts_of_sent(void **state)
{
	struct settings settings = three_hosts();
	struct world *world;
	unsigned i;

	settings.full = PER_MILLION(500000);
	world = make(&settings);
	world->tap = count_bytes;
	bytes_tapped = 0;
	for (i = 0; i < 10; i++)
		put_and_check(world, i % 3, (i + 1) % 3);
	net_close_all(world->hosts[0].core);
	host_pump(&world->hosts[0]);
	world_pass(world, SECOND);
	assert_int_equal(gone, 2);
	assert_int_equal(WORLD_SUM(world, packets_sent), world->packets);
	assert_int_equal(WORLD_SUM(world, bytes_sent), bytes_tapped);
	world_destroy(world);
}

/* ---- gone at one end ---- */

static unsigned sent_by_gone;

static void count_of_gone(struct world *world, unsigned from, unsigned to, const uint8_t *bytes,
			  size_t length)
{
	sent_by_gone += from == 0;
}

/*
 * Host 0 gives host 1 up, which does not run for a time. When it runs again it is told at once, on a
 * path that works, and host 0 is not busy with it.
 */
static void check_half_open(enum net_auth auth, uint32_t paths_down, uint32_t loss)
{
	struct settings settings = three_hosts();
	struct world *world;
	uint64_t start;

	settings.options.auth = auth;
	settings.options.peer_timeout = 20 * SECOND;
	settings.paths = 2;
	world = make_used(&settings);
	put_and_check(world, 0, 1);
	host_stop(&world->hosts[1]);
	start = world->now;
	put(world, 0, 1);
	world_pass(world, 25 * SECOND);
	check_completed(3, PF_ERR_TIMEOUT);
	check_gone(start, PF_ERR_TIMEOUT, 20, 21);

	world->settings.paths_down = paths_down;
	world->settings.loss = loss;
	world->tap = count_of_gone;
	sent_by_gone = 0;
	start = world->now;
	put(world, 1, 0);
	host_continue(&world->hosts[1]);
	host_pump(&world->hosts[1]);
	world_pass(world, (loss ? 2000 : 50) * MILLISECOND);
	check_completed(4, PF_ERR_PEER);
	assert_int_equal(gone, 2);
	assert_status(gone_status, PF_ERR_PEER);
	assert_in_range(sent_by_gone, 1, loss ? 200 : 5);
	sent_by_gone = 0;
	world_pass(world, 10 * SECOND);
	assert_int_equal(sent_by_gone, 0);
	world_destroy(world);
}

static void test_half_open(void **state)
{
	unsigned auth;

	for (auth = NET_AUTH_HEADER; auth <= NET_AUTH_ENCRYPT; auth++) {
		check_half_open((enum net_auth)auth, 0, 0);
		check_half_open((enum net_auth)auth, 1, 0);
		check_half_open((enum net_auth)auth, 2, 0);
		check_half_open((enum net_auth)auth, 0, PER_MILLION(500000));
	}
}

/* Both ends have given the other one up: late packets have one GOODBYE for an answer, and that none. */
static void test_gone_at_both_ends(void **state)
{
	struct settings settings = three_hosts();
	struct world *world;
	uint64_t packets;
	unsigned i;

	settings.options.peer_timeout = 5 * SECOND;
	world = make_used(&settings);
	world->settings.loss = UINT32_MAX;
	world->tap = keep;
	put(world, 0, 1);
	put(world, 1, 0);
	world_pass(world, 10 * SECOND);
	assert_int_equal(gone, 2);
	world->settings.loss = 0;
	packets = world->packets;
	for (i = 0; i < kept_count; i++) {
		if (kept[i].to == 1)
			world_inject(world, 0, 1, kept[i].bytes, kept[i].length);
	}
	world_pass(world, 10 * SECOND);
	assert_int_equal(world->packets - packets, 1);
	free_kept();
	world_destroy(world);
}

/* ---- the first contact ---- */

/* A firewall drops packets in one direction or both: told once after 5 s, ended after peer_timeout. */
static void test_unanswered(void **state)
{
	uint32_t unreached;

	for (unreached = 1; unreached <= 3; unreached++) {
		struct settings settings = three_hosts();
		struct world *world;
		uint64_t start;

		settings.options.peer_timeout = 120 * SECOND;
		settings.unreached = unreached;
		world = make(&settings);
		start = world->now;
		put(world, 0, 1);
		world_pass(world, 5 * SECOND + SECOND / 10);
		/* As many tries as association.c counts on. */
		assert_in_range(host_statistics(&world->hosts[0])->hellos, 22, 30);
		world_pass(world, 114 * SECOND);
		assert_int_equal(unanswered, 1);
		assert_in_range(unanswered_at - start, 5 * SECOND, 5 * SECOND + SECOND / 10);
		assert_string_equal(unanswered_why, "no answer");
		assert_int_equal(completed + gone, 0);
		world_pass(world, 10 * SECOND);
		check_completed(1, PF_ERR_UNREACHABLE);
		check_gone(start, PF_ERR_UNREACHABLE, 120, 121);
		assert_int_equal(unanswered, 1);
		world_destroy(world);
	}
}

/* A peer that is stopped, or a network that comes up late: told, and then it works. */
static void test_late_answer(void **state)
{
	unsigned i;

	for (i = 0; i < 2; i++) {
		struct settings settings = three_hosts();
		struct world *world;

		settings.options.peer_timeout = 120 * SECOND;
		settings.unreached = i ? 2 : 0;
		world = make(&settings);
		if (!i)
			host_stop(&world->hosts[1]);
		put(world, 0, 1);
		world_pass(world, 60 * SECOND);
		assert_int_equal(unanswered, 1);
		world->settings.unreached = 0;
		if (!i)
			host_continue(&world->hosts[1]);
		world_pass(world, 2 * SECOND);
		check_completed(1, PF_OK);
		assert_int_equal(gone, 0);
		world_destroy(world);
	}
}

/* A network that loses packets, or a process that is not run for some time, does not look like a firewall. */
static void test_answered(void **state)
{
	static const uint32_t losses[] = { PER_MILLION(50000), PER_MILLION(200000) };
	unsigned i;

	for (i = 0; i < (unsigned)REPEAT(2000); i++) {
		struct settings settings = three_hosts();
		struct world *world;

		settings.seed = i;
		settings.loss = losses[i % 2];
		world = make(&settings);
		/* The initiator, which listens to nothing meanwhile, or its peer. */
		if (i % 8 == 1)
			host_stop(&world->hosts[i / 8 % 2]);
		put(world, 0, 1);
		world_pass(world, 3 * SECOND);
		if (i % 8 == 1)
			host_continue(&world->hosts[i / 8 % 2]);
		world_pass(world, 20 * SECOND);
		assert_int_equal(unanswered, 0);
		check_completed(1, PF_OK);
		world_destroy(world);
	}
}

static void refuse(struct world *world, enum net_refusal refusal, unsigned path)
{
	struct net_endpoint endpoint = world_endpoint(1, path);
	unsigned i;

	for (i = 0; i < 30; i++) {
		net_refused(world->hosts[0].core, &endpoint, refusal);
		host_pump(&world->hosts[0]);
		world_pass(world, SECOND / 10);
	}
}

/* A first contact that is rejected ends sooner, by whatever path; a peer that answers is not rejected. */
static void test_rejected(void **state)
{
	static const char *const words[] = { "port unreachable", "prohibited", "this host" };
	struct settings settings = three_hosts();
	enum net_refusal refusal;
	struct world *world;
	uint64_t start;
	unsigned path;

	settings.paths = 2;
	settings.options.peer_timeout = 120 * SECOND;
	for (refusal = NET_REFUSED_PORT; refusal <= NET_REFUSED_HERE; refusal++) {
		for (path = 0; path < 2; path++) {
			settings.unreached = 2;
			world = make(&settings);
			start = world->now;
			put(world, 0, 1);
			refuse(world, refusal, path);
			check_completed(1, PF_ERR_UNREACHABLE);
			check_gone(start, PF_ERR_UNREACHABLE, 2, 3);
			assert_non_null(strstr(gone_why, words[refusal]));
			world_destroy(world);
		}
		settings.unreached = 0;
		world = make_used(&settings);
		refuse(world, refusal, 0);
		assert_int_equal(gone, 0);
		/* Of a filter that is changed during the job only the silence counts. */
		world->settings.unreached = 2;
		refuse(world, refusal, 0);
		assert_int_equal(gone, refusal == NET_REFUSED_PORT);
		world_destroy(world);
	}
}

/* Host 0 gives its contact up: whatever happened on the way, host 1 comes to the same result. */
static void test_give_up(void **state)
{
	uint32_t unreached;

	for (unreached = 0; unreached <= 3; unreached++) {
		struct settings settings = three_hosts();
		struct net_association *one, *other;
		struct world *world;

		settings.unreached = unreached;
		world = make(&settings);
		one = host_peer(&world->hosts[0], 1);
		other = host_peer(&world->hosts[1], 0);
		if (unreached) {
			assert_ok(net_contact(one));
			host_pump(&world->hosts[0]);
			world_pass(world, 5 * SECOND + SECOND / 10);
			assert_int_equal(unanswered, 1);
		}
		net_give_up(one, NULL);
		host_pump(&world->hosts[0]);
		world->settings.unreached = 0;
		other = world->hosts[1].peers[0];
		if (other) {
			assert_ok(net_contact(other));
			host_pump(&world->hosts[1]);
			world_pass(world, 5 * SECOND + SECOND / 10);
			assert_false(net_is_open(other));
		}
		assert_false(net_is_open(one));
		world_destroy(world);
	}
}

/* After its WELCOME, host 0 hears nothing. */
static void deafen(struct world *world, unsigned from, unsigned to, const uint8_t *bytes,
		   size_t length)
{
	if (from == 0 && (bytes[16] & 15) == WIRE_WELCOME)
		world->settings.unreached = 1;
}

/* Host 0 gives up an association that is open at host 1, and the GOODBYE is lost: it is said again. */
static void test_give_up_unheard(void **state)
{
	struct settings settings = three_hosts();
	struct world *world = make(&settings);

	world->tap = deafen;
	put(world, 1, 0);
	world_pass(world, MILLISECOND);
	assert_true(net_is_open(world->hosts[1].peers[0]));
	assert_false(net_is_open(world->hosts[0].peers[1]));
	world->settings.loss = UINT32_MAX;
	net_give_up(world->hosts[0].peers[1], NULL);
	host_pump(&world->hosts[0]);
	world_pass(world, MILLISECOND);
	assert_int_equal(gone, 1);
	world->settings.loss = world->settings.unreached = 0;
	world_pass(world, SECOND);
	assert_int_equal(gone, 2);
	assert_ok(gone_status);
	check_completed(1, PF_ERR_PEER);
	world_destroy(world);
}

/* ---- several paths ---- */

static void test_paths(void **state)
{
	struct settings settings = three_hosts();
	struct net_path_info info;
	struct world *world;
	unsigned i;

	settings.paths = 2;
	world = make_used(&settings);
	for (i = 0; i < 20; i++)
		put_and_check(world, i % 2, !(i % 2));
	for (i = 0; i < 2; i++) {
		assert_true(net_path_info(world->hosts[0].peers[1], i, &info));
		assert_true(info.rtt > 0);
	}
	/* One goes down while it carries packets, which take the other one; and comes up again. */
	put(world, 0, 1);
	world_pass(world, 2 * MICROSECOND);
	world->settings.paths_down = 2;
	world_pass(world, 100 * MILLISECOND);
	assert_int_equal(completed, 22);
	for (i = 0; i < 20; i++)
		put_and_check(world, 0, 1);
	world->settings.paths_down = 1;
	world_pass(world, 2 * SECOND);
	put_and_check(world, 0, 1);
	put_and_check(world, 1, 0);
	assert_int_equal(gone, 0);
	world_destroy(world);
}

/*
 * Probes of a peer find the path that is up: those of an association at rest, and those of one that
 * never rests.
 */
static void test_probes_of_paths(void **state)
{
	struct settings settings = three_hosts();
	struct world *world;
	unsigned i;

	settings.paths = 2;
	settings.options.peer_timeout = 4 * SECOND;
	for (i = 0; i < 4; i++) {
		bool rests = i & 1;

		settings.options.idle_release = rests ? MILLISECOND : 1000 * SECOND;
		world = make_used(&settings);
		if (!rests)
			put_and_check(world, 1, 0);
		world_pass(world, 100 * MILLISECOND);
		world->settings.paths_down = 1 + i / 2;
		world_pass(world, 60 * SECOND);
		assert_int_equal(gone, 0);
		put_and_check(world, rests, !rests);
		world_destroy(world);
	}
}

/* ---- one of two paths goes down in the middle of a stream ---- */

#define STREAM_LENGTH 65536u
#define STREAM_DEPTH 4
#define STREAM_RATE 125000000ull /* bytes a second: 1 Gbit/s */
#define PAUSE_MOST (200 * MILLISECOND)
/* Time after which a path that is up again is used: it is probed once a second at least. */
#define RETURN_MOST (1500 * MILLISECOND)

static uint64_t stream_last, stream_pause;
static uint64_t path_bytes[2]; /* from host 0 to host 1 */

static void count_paths(struct world *world, unsigned from, unsigned to, const uint8_t *packet,
			size_t length)
{
	if (from == 0)
		path_bytes[packet[17]] += length;
}

static void note_pause(const struct world *world)
{
	if (world->now - stream_last > stream_pause)
		stream_pause = world->now - stream_last;
	stream_last = world->now;
}

static void put_again(struct host *host, void *arg, const struct net_completion *completion)
{
	completed++;
	last_status = completion->status;
	note_pause(host->world);
	host_put(host, 0, 1, (size_t)(uintptr_t)arg, STREAM_LENGTH, arg);
}

/* The longest time without a completed put, from now on for this time. */
static uint64_t pause_within(struct world *world, uint64_t time)
{
	stream_last = world->now;
	stream_pause = 0;
	path_bytes[0] = path_bytes[1] = 0;
	world_pass(world, time);
	note_pause(world);
	return stream_pause;
}

#define REST (1500 * MILLISECOND) /* more than idle_release */

/*
 * An association does not wait for a path that never answered; after a rest it still knows which one is
 * down, and finds out when it is up.
 */
static void check_rest(unsigned down, bool from_start)
{
	struct settings settings = three_hosts();
	struct world *world;
	unsigned i, before;
	uint64_t start;

	settings.paths = 2;
	settings.paths_down = from_start ? 1u << down : 0;
	world = make(&settings);
	start = world->now;
	put_and_check(world, 0, 1);
	/* The first HELLO takes path 0. */
	assert_true(world->now - start < (down ? 5 : 100) * MILLISECOND);
	world->tap = count_paths;
	world->settings.paths_down = 1u << down;
	for (i = 0; i < 5; i++)
		put_and_check(world, 0, 1);
	for (i = 0; i < 5; i++) {
		world_pass(world, REST);
		assert_true(net_association_memory(world->hosts[0].peers[1]) < 2 * 840);
		path_bytes[down] = 0;
		start = world->now;
		put_and_check(world, 0, 1);
		put_and_check(world, 0, 1);
		assert_true(world->now - start < 5 * MILLISECOND);
		/* It was probed, and no more. */
		assert_in_range(path_bytes[down], 1, 200);
	}
	world->settings.paths_down = 0;
	start = world->now;
	do {
		path_bytes[0] = path_bytes[1] = 0;
		/* More than one path has room for. */
		before = completed;
		for (i = 0; i < 8; i++)
			put(world, 0, 1);
		world_pass(world, 50 * MILLISECOND);
		assert_int_equal(completed, before + 8);
		assert_ok(last_status);
	} while (world->now - start < RETURN_MOST &&
		 (path_bytes[0] < LENGTH / 10 || path_bytes[1] < LENGTH / 10));
	assert_true(world->now - start < RETURN_MOST);
	assert_int_equal(gone, 0);
	world_destroy(world);
}

static void test_rest_with_path_down(void **state)
{
	unsigned i;

	for (i = 0; i < 4; i++)
		check_rest(i / 2, i % 2);
}

static void test_pause(void **state)
{
	struct settings settings = three_hosts();
	struct world *world;
	uint64_t pause;
	unsigned i, down;

	settings.paths = 2;
	settings.rate = STREAM_RATE;
	settings.queue = STREAM_RATE / 100;
	for (i = 0; i < 8; i++) {
		settings.seed = i;
		down = i % 2;
		world = make_used(&settings);
		world->tap = count_paths;
		world->hosts[0].complete = put_again;
		for (size_t at = 0; at < STREAM_DEPTH; at++) {
			size_t place = settings.arena / 2 + at * STREAM_LENGTH;

			host_put(&world->hosts[0], 0, 1, place, STREAM_LENGTH, (void *)place);
		}
		/* Until some time when packets are under way on both. */
		world_pass(world, 50 * MILLISECOND + i * 77 * MICROSECOND);
		world->settings.paths_down = 1u << down;
		pause = pause_within(world, 2 * SECOND);
		if (pause >= PAUSE_MOST)
			fail_msg("seed %u: path %u goes down, and nothing completes for %.1f ms", i,
				 down, (double)pause / 1e6);
		print_message("# seed %u: path %u, pause %.1f ms\n", i, down, (double)pause / 1e6);
		assert_true(path_bytes[!down] > STREAM_RATE);
		assert_true(path_bytes[down] < STREAM_RATE / 100);
		world->settings.paths_down = 0;
		world_pass(world, RETURN_MOST);
		assert_true(pause_within(world, SECOND) < PAUSE_MOST);
		assert_true(path_bytes[down] > STREAM_RATE / 4);
		assert_true(path_bytes[!down] > STREAM_RATE / 4);
		assert_ok(last_status);
		assert_int_equal(gone, 0);
		assert_memory_equal(world->hosts[0].arena,
				    world->hosts[1].arena + settings.arena / 2, STREAM_LENGTH);
		world->hosts[0].complete = on_complete;
		world_destroy(world);
	}
}

static uint64_t tapped_at, longest_silence;

static void note_silence(struct world *world, unsigned from, unsigned to, const uint8_t *bytes,
			 size_t length)
{
	uint64_t silence = world->now - tapped_at;

	if (silence > longest_silence)
		longest_silence = silence;
	tapped_at = world->now;
}

/* No silence is long enough for a firewall to forget the flow, however long a peer may be silent. */
static void test_firewall(void **state)
{
	struct settings settings = three_hosts();
	struct world *world;

	settings.options.peer_timeout = 600 * SECOND;
	world = make_used(&settings);
	tapped_at = world->now;
	longest_silence = 0;
	world->tap = note_silence;
	world_pass(world, 300 * SECOND);
	assert_in_range(longest_silence, 20 * SECOND, 28 * SECOND);
	assert_true(world->now - tapped_at < 28 * SECOND);
	assert_int_equal(gone, 0);
	world_destroy(world);
}

/* After the network reported a packet as too long, a shorter one has room in the window, and goes at once. */
static void test_shorter_packet(void **state)
{
	struct settings settings = three_hosts();
	struct world *world = make_used(&settings);
	struct host *host = &world->hosts[0];
	const struct net_endpoint to = world_endpoint(1, 0);
	uint64_t before;

	host_put(host, 0, 1, settings.arena / 2, settings.arena / 2, NULL);
	host_pump(host);
	assert_true(host->peers[1]->blocked);
	before = host_statistics(host)->packets_sent;
	net_too_big(host->core, &to, 1472);
	host_pump(host);
	assert_true(host_statistics(host)->packets_sent > before);
	world_pass(world, SECOND);
	check_completed(2, PF_OK);
	assert_false(world->failed);
	world_destroy(world);
}

static void test_idle_memory(void **state)
{
	struct settings settings = three_hosts();
	struct world *world = make(&settings);
	struct net_association *peer = host_peer(&world->hosts[0], 1);
	size_t unused = net_association_memory(peer);

	assert_true(unused <= 1024);
	host_pump(&world->hosts[0]);
	assert_int_equal(world->packets, 0);
	put_and_check(world, 0, 1);
	world_pass(world, 10 * MILLISECOND);
	assert_true(net_association_memory(peer) > 1024);
	world_pass(world, 2 * SECOND);
	print_message("# unused %zu bytes, idle %zu\n", unused, net_association_memory(peer));
	/* link.c adds what libpf needs for a peer. */
	assert_true(net_association_memory(peer) <= 840);
	assert_true(net_association_memory(world->hosts[1].peers[0]) <= 840);
	put_and_check(world, 0, 1);
	put_and_check(world, 1, 0);
	world_destroy(world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_open),
		cmocka_unit_test(test_auth_differs),
		cmocka_unit_test(test_version_differs),
		cmocka_unit_test(test_never_confirmed),
		cmocka_unit_test(test_known_for_long),
		cmocka_unit_test(test_forged),
		cmocka_unit_test(test_drops),
		cmocka_unit_test(test_repeated_hello),
		cmocka_unit_test(test_repeated_hello_of_many),
		cmocka_unit_test(test_restart),
		cmocka_unit_test(test_successor),
		cmocka_unit_test(test_stopped),
		cmocka_unit_test(test_link_down),
		cmocka_unit_test(test_dead),
		cmocka_unit_test(test_dead_before_completion),
		cmocka_unit_test(test_false_refusal),
		cmocka_unit_test(test_false_refusal_in_silence),
		cmocka_unit_test(test_goodbye),
		cmocka_unit_test(test_pace_is_past),
		cmocka_unit_test(test_goodbye_unsent),
		cmocka_unit_test(test_answer_unsent),
		cmocka_unit_test(test_counts_of_sent),
		cmocka_unit_test(test_half_open),
		cmocka_unit_test(test_gone_at_both_ends),
		cmocka_unit_test(test_unanswered),
		cmocka_unit_test(test_late_answer),
		cmocka_unit_test(test_answered),
		cmocka_unit_test(test_rejected),
		cmocka_unit_test(test_give_up),
		cmocka_unit_test(test_give_up_unheard),
		cmocka_unit_test(test_paths),
		cmocka_unit_test(test_probes_of_paths),
		cmocka_unit_test(test_rest_with_path_down),
		cmocka_unit_test(test_pause),
		cmocka_unit_test(test_shorter_packet),
		cmocka_unit_test(test_firewall),
		cmocka_unit_test(test_idle_memory),
	};

	return cmocka_run_group_tests_name("net_association", tests, NULL, NULL);
}

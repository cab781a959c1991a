/* SPDX-License-Identifier: BSD-3-Clause */
/* Puts and gets between two processes, every byte verified, by every route and in every mode. */
#include "pair.h"

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/context.h"
#include "host/advance.h"
#include "host/message.h"
#include "host/peer.h"
#include "host/route.h"
#include "host/route_stream.h"
#include "host/share.h"
#include "host/state.h"
#include "host/transfer.h"

#define LONGEST (9 * MIB)
#define GUARD ((size_t)64)
#define WINDOW (32 * MIB)

/* A buffer between guards. */
static void fill_guarded(uint8_t *buffer, size_t length, uint64_t seed)
{
	memset(buffer - GUARD, 0xa5, GUARD);
	pattern_fill(buffer, length, seed);
	memset(buffer + length, 0x5a, GUARD);
}

static void check_guarded(const uint8_t *buffer, size_t length, uint64_t seed)
{
	size_t i = pattern_differs(buffer, length, seed);

	if (i < length)
		fail_msg("of %zu bytes, byte %zu is wrong", length, i);
	for (i = 0; i < GUARD; i++) {
		if (buffer[(ptrdiff_t)i - GUARD] != 0xa5 || buffer[length + i] != 0x5a)
			fail_msg("bytes outside a buffer of %zu bytes were written", length);
	}
}

static void move(struct pair *pair, enum pair_direction direction, uint8_t *local, uint8_t *remote,
		 size_t length, uint64_t seed)
{
	fill_guarded(remote, length, seed + (direction == PUT));
	fill_guarded(local, length, seed + (direction == GET));
	assert_ok(pair_transfer(pair, pair->peer, direction, local, pair_there(pair, 1, remote),
				length)
			  .status);
	check_guarded(remote, length, seed);
	check_guarded(local, length, seed);
}

static void put_and_get(struct pair *pair, uint8_t *local, size_t length)
{
	move(pair, PUT, local + GUARD, pair->window + 4096, length, 1);
	move(pair, GET, local + GUARD, pair->window + 4096, length, 2);
}

/* The path says how bytes went, and so do the statistics. */
static void check_route(struct pair *pair, uint64_t bytes)
{
	uint64_t single = pf_stat(pair->context, PF_STAT_SINGLE_COPY_BYTES);
	uint64_t stream = pf_stat(pair->context, PF_STAT_STREAM_BYTES);
	const char *path = "single copy";

	if (pair_over_net(&pair->options)) {
		path = "over the network";
		assert_int_equal(single, 0);
		assert_true(pf_stat(pair->context, PF_STAT_NET_BYTES) > bytes / 2);
	} else if (pair_on_device(&pair->options)) {
		path = "/dev/exanest";
		assert_int_equal(pf_stat(pair->context, PF_STAT_DEVICE_BYTES), bytes);
	} else if (!pair->options.single_copy) {
		path = "through the ring";
		assert_int_equal(single, 0);
		assert_int_equal(stream, bytes);
	} else {
		assert_int_equal(stream, 0);
		assert_true(single <= bytes);
	}
	assert_non_null(strstr(pf_peer_path(pair->peer), path));
}

static void test_sizes(void **state)
{
	static const size_t offsets[][2] = { { 0, 0 }, { 1, 3 }, { 4095, 8 } };
	struct pair *pair = pair_open(state, .window = WINDOW);
	const pf_options *options = &pair->options;
	const size_t longest = quick_or(3, 9) * MIB;
	/* And one byte less, and one more. */
	const size_t around[] = {
		8,
		4096,
		8192,
		options->ring_size / 4,
		options->block_size,
		MIB + 3,
		options->share_min,
		options->run_max,
		2,
		longest,
	};
	uint8_t *local = test_alloc(longest + 8192);
	uint64_t puts = 0, bytes = 0;
	size_t i, j, length;

	for (i = 0; i < ARRAY_SIZE(around); i++) {
		/* Two options may have one value. */
		for (j = 0; around[j] != around[i]; j++)
			;
		if (j < i)
			continue;
		for (length = around[i] - 1; length <= around[i] + 1 && length <= longest;
		     length++) {
			for (j = length == longest; j < ARRAY_SIZE(offsets); j++) {
				uint8_t *here = local + GUARD + offsets[j][0];
				uint8_t *there = pair->window + 4096 + offsets[j][1];

				if (length == longest - 1)
					continue;
				move(pair, PUT, here, there, length, i);
				move(pair, GET, here, there, length, i + 100);
				puts++;
				bytes += 2 * length;
			}
		}
	}
	assert_int_equal(pf_stat(pair->context, PF_STAT_PUTS), puts);
	assert_int_equal(pf_stat(pair->context, PF_STAT_GETS), puts);
	assert_int_equal(pf_stat(pair->context, PF_STAT_FAULT_ERRORS), 0);
	check_route(pair, bytes);
	free(local);
	pair_end(pair);
}

static void test_nothing(void **state)
{
	struct pair *pair = pair_open(state, .window = WINDOW);
	struct pair_done done = { 0 };

	assert_status(pf_put(pair->peer, NULL, 0, 0, 0, pair_completed, &done), PF_OK);
	assert_status(pf_get(pair->peer, pair->window, 1, 0, pair_completed, &done), PF_OK);
	pf_progress(pair->context);
	assert_int_equal(done.count, 0);
	pair_end(pair);
}

/* Ranges that wrap around the end of the address space. */
static void test_overflow(void **state)
{
	struct pair *pair = pair_open(state, .window = WINDOW);
	uint8_t *memory = pair->window;
	uint64_t there = pair_there(pair, 1, memory);
	const struct {
		void *local;
		uint64_t remote;
		size_t length;
	} cases[] = {
		{ memory, UINT64_MAX - 7, 16 },
		{ memory, UINT64_MAX, 2 },
		{ memory, there, SIZE_MAX },
		{ (void *)(UINTPTR_MAX - 7), there, 16 },
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_status(pf_put(pair->peer, cases[i].local, cases[i].remote, cases[i].length,
				     0, NULL, NULL),
			      PF_ERR_ARGUMENT);
		assert_status(pf_get(pair->peer, cases[i].local, cases[i].remote, cases[i].length,
				     NULL, NULL),
			      PF_ERR_ARGUMENT);
	}
	move(pair, PUT, memory + 4096, memory + 16384, 8192, 1);
	pair_end(pair);
}

#ifdef __aarch64__
/* Processors ignore the upper byte of an address. */
static void *tagged(const void *address)
{
	return (void *)((uintptr_t)address | 0x5aull << 56);
}

static void test_tags(void **state)
{
	struct pair *pair = pair_open(state, .window = WINDOW);
	const size_t lengths[] = { 1, 5000, MIB + 3, LONGEST };
	uint8_t *local = test_alloc(LONGEST), *window = pair->window;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(lengths); i++) {
		uint64_t there = remote_address(tagged((void *)pair_there(pair, 1, window)));

		pattern_fill(local, lengths[i], i);
		assert_ok(pair_put(pair, pair->peer, tagged(local), there, lengths[i]).status);
		assert_pattern(window, lengths[i], i);
		pattern_fill(window, lengths[i], i + 1);
		assert_ok(pair_get(pair, pair->peer, tagged(local), there, lengths[i]).status);
		assert_pattern(local, lengths[i], i + 1);
		memset(window, 0, sizeof(uint64_t));
		assert_ok(pair_atomic(pair, pair->peer, PF_ATOMIC_ADD, 8, there, 7, 0).status);
		assert_int_equal(load64(window), 7);
	}
	free(local);
	pair_end(pair);
}
#endif

/* pf_flush waits also for transfers without a completion callback. */
static void test_flush(void **state)
{
	struct pair *pair = pair_open(state, .window = WINDOW);
	uint8_t *local = test_alloc(MIB);
	size_t i;

	assert_ok(pf_flush(pair->context, NULL, PF_FOREVER));
	for (i = 0; i < 8; i++) {
		uint8_t *window = pair->window + i * MIB;

		pattern_fill(local, MIB, i);
		assert_in_range(pf_put(pair->peer, local, pair_there(pair, 1, window), MIB - i, 0,
				       NULL, NULL),
				PF_OK, PF_PENDING);
		assert_ok(pf_flush(pair->context, i & 1 ? pair->peer : NULL, PF_FOREVER));
		pair_check_pattern(pair, window, MIB - i, i);
	}
	assert_int_equal(pf_stat(pair->context, PF_STAT_PUTS), 8);
	free(local);
	pair_end(pair);
}

#define MANY 200
#define MANY_LONGEST ((size_t)100 << 10)
#define MANY_STRIDE (MANY_LONGEST + 4 * GUARD)

struct many {
	uint8_t *local, *remote;
	size_t length;
	enum pair_direction direction;
	uint64_t seed;
	struct pair_done done;
};

static void check_message(pf_context *context, pf_peer *from, uint32_t tag, void *data,
			  size_t length, void *arg)
{
	struct pair *me = arg;
	uint64_t expected = (*pair_value(me, me->side, 0))++;

	pair_check(me, tag == (uint8_t)expected);
	pair_check_pattern(me, data, length, expected);
}

/* All under way at the same time, with messages in between. */
static void test_many(void **state)
{
	struct random_numbers numbers = random_start("many transfers");
	struct pair *pair = pair_open(state, .window = MANY * MANY_STRIDE,
				      .receive = check_message);
	struct many *many = test_alloc(MANY * sizeof(*many)), *one;
	uint8_t *local = test_alloc(MANY * MANY_STRIDE), message[256];
	uint64_t sent = 0;

	for (one = many; one < many + MANY; one++) {
		size_t at = (size_t)(one - many) * MANY_STRIDE + GUARD;

		one->length = 1 + random_below(&numbers,
					       random_below(&numbers, 3) ? MANY_LONGEST : 9000);
		one->local = local + at + random_below(&numbers, GUARD);
		one->remote = pair->window + at + random_below(&numbers, GUARD);
		one->direction = random_below(&numbers, 2) ? PUT : GET;
		one->seed = random_next(&numbers);
		fill_guarded(one->local, one->length, one->seed + (one->direction == GET));
		fill_guarded(one->remote, one->length, one->seed + (one->direction == PUT));
	}
	for (one = many; one < many + MANY; one++) {
		size_t length = random_below(&numbers, sizeof(message));

		pair_post(pair, pair->peer, one->direction, one->local,
			  pair_there(pair, 1, one->remote), one->length, &one->done);
		pattern_fill(message, length, sent);
		assert_status(pair_send(pair, pair->peer, (uint8_t)sent, message, length), PF_OK);
		sent++;
	}
	assert_ok(pf_flush(pair->context, pair->peer, PF_FOREVER));
	for (one = many; one < many + MANY; one++) {
		assert_int_equal(one->done.count, 1);
		assert_int_equal(one->done.failed, 0);
		check_guarded(one->local, one->length, one->seed);
		check_guarded(one->remote, one->length, one->seed);
	}
	pair_await_value(pair, 1, 0, sent);
	free(local);
	free(many);
	pair_end(pair);
}

/* A partner that polls moves blocks too. */
static void test_both_ends(void **state)
{
	struct pair *pair = pair_open(state, .window = WINDOW);
	uint8_t *local = test_alloc(LONGEST + 2 * GUARD);
	uint64_t bytes = 0;
	int rounds = 0;

	/* The partner may get no processor for a while. */
	while (bytes == pf_stat(pair->context, PF_STAT_SINGLE_COPY_BYTES)) {
		put_and_get(pair, local, LONGEST);
		bytes += 2 * LONGEST;
		assert_true(rounds++ < 500);
	}
	free(local);
	pair_end(pair);
}

/* A transfer of the partner is followed by another. */
static bool endless;
/* Number of its value that counts them. */
#define BUSY_COUNT 2

static void transfer_again(pf_context *context, const pf_completion *completion)
{
	struct pair *me = completion->arg;
	uint8_t *half = me->window + WINDOW / 2;

	(void)context;
	pair_check(me, completion->status == PF_OK);
	(*pair_value(me, me->side, BUSY_COUNT))++;
	if (endless)
		pair_check(me, pf_get(me->peer, half + MIB, pair_there(me, 0, half), MIB,
				      transfer_again, me) == PF_PENDING);
}

/* The partner has transfers from now on, or no longer. */
static void be_busy(struct pair *me, const uint64_t *arguments)
{
	const pf_completion none = { .arg = me };

	endless = arguments[0] != 0;
	if (endless)
		transfer_again(me->context, &none);
}

/*
 * Make the partner busy. It is not before its first transfer moves: while that waits for the
 * connection, or for pages, the partner helps. So await the end of its second transfer.
 */
static void make_busy(struct pair *pair)
{
	pair_command(pair, 1);
	/* The command counts, too. */
	pair_await_value(pair, 1, BUSY_COUNT, 3);
}

/* Transfer so often, or until the partner has moved some of it; return whether it has. */
static bool is_helped(struct pair *pair, uint8_t *local, size_t length, unsigned rounds)
{
	uint64_t before = pf_stat(pair->context, PF_STAT_SINGLE_COPY_BYTES), bytes = 0;

	while (rounds--) {
		put_and_get(pair, local, length);
		bytes += 2 * length;
		if (pf_stat(pair->context, PF_STAT_SINGLE_COPY_BYTES) - before < bytes)
			return true;
	}
	return false;
}

/* A partner with transfers of its own leaves others to this side. */
static void test_busy(void **state)
{
	struct pair *pair = pair_open(state, .window = WINDOW, .command = be_busy);
	const struct host_peer *peer = (struct host_peer *)pair->peer;
	const struct host_state *host = pair->context->host;
	const size_t length = SHARE_BUSY_MAX - 1;
	struct pair_done done = { 0 };
	uint8_t *local;

	pair_connect(pair);
	if (!strstr(pf_peer_path(pair->peer), "from both ends"))
		skip();
	local = test_alloc(LONGEST + 2 * GUARD);
	make_busy(pair);
	assert_false(is_helped(pair, local, length, 4));
	/* Long ones are offered all the same, and never count. */
	assert_false(is_helped(pair, local, LONGEST, 1));
	assert_int_equal(peer->alone_next, 0);
	pair_command(pair, 0);
	/* The partner may get no processor for a while. */
	assert_true(is_helped(pair, local, LONGEST, 500));
	assert_false(operations_moving(host));
	assert_false(inbox_is_moving(host->inbox.memory));
	pair_post(pair, pair->peer, GET, local, pair_there(pair, 1, pair->window), LONGEST, &done);
	assert_true(operations_moving(host));
	pf_progress(pair->context);
	assert_true(operations_moving(host));
	assert_true(inbox_is_moving(host->inbox.memory));
	pair_await_done(pair, &done, 1);
	assert_false(operations_moving(host));
	assert_false(inbox_is_moving(host->inbox.memory));
	free(local);
	pair_end(pair);
}

/* Does a poll offer a transfer to the partner? */
static bool is_offered(const struct pair *pair)
{
	pf_progress(pair->context);
	return ((const struct host_peer *)pair->peer)->shares_free != CHANNEL_SHARES_ALL;
}

/* While the partner copies its own, a transfer moves run by run; then the rest is offered. */
static void test_postponed(void **state)
{
	struct pair *pair = pair_open(state, .window = WINDOW);
	const struct host_peer *peer = (struct host_peer *)pair->peer;
	const size_t length = SHARE_BUSY_MAX - 1;
	const pf_options *options = &pair->context->options;
	uint8_t *local = test_alloc(length);
	struct pair_done done = { 0 };
	struct inbox_memory *inbox;
	uint64_t before;

	pair_connect(pair);
	if (!strstr(pf_peer_path(pair->peer), "from both ends"))
		skip();
	memset(pair->window, 1, length);
	inbox = host_peer_bell(peer)->inbox;
	/* In the place of the partner, which has none. */
	atomic_store(&inbox->moving, 1);
	before = pf_stat(pair->context, PF_STAT_SINGLE_COPY_BYTES);
	pair_post(pair, pair->peer, GET, local, pair_there(pair, 1, pair->window), length, &done);
	assert_false(is_offered(pair));
	assert_false(is_offered(pair));
	assert_in_range(pf_stat(pair->context, PF_STAT_SINGLE_COPY_BYTES) - before, 0,
			2 * options->run_max);
	atomic_store(&inbox->moving, 0);
	/* At the end of a run, of which pages may be absent. */
	while (!is_offered(pair)) {
		assert_int_equal(done.count, 0);
		sched_yield();
	}
	/* Whoever helps while copying at the end has a transfer that began a moment later. */
	atomic_store(&inbox->moving, 1);
	pair_await_done(pair, &done, 1);
	assert_memory_equal(local, pair->window, length);
	assert_int_equal(peer->alone, SHARE_ALONE);
	assert_int_equal(peer->alone_next, 0);
	atomic_store(&inbox->moving, 0);
	free(local);
	pair_end(pair);
}

static uint64_t counted_bytes(const struct collapse *collapse)
{
	uint64_t bytes = 0;
	unsigned i;

	for (i = 0; i < COLLAPSE_RANGES; i++)
		bytes += collapse->ranges[i].bytes;
	return bytes;
}

/* A transfer that progress would copy alone, in one run, is copied by the caller, unless others are open. */
static void test_alone(void **state)
{
	struct pair *pair = pair_open(state, .window = WINDOW);
	struct host_peer *peer = (struct host_peer *)pair->peer;
	const struct collapse *collapse = &pair->context->memory.collapse;
	struct host_state *host = pair->context->host;
	const size_t length = pair->context->options.run_max;
	uint8_t *local = test_alloc(2 * length);
	const uint64_t remote = pair_there(pair, 1, pair->window);
	struct pair_done done = { 0 };
	uint64_t before;

	pair_connect(pair);
	if (!strstr(pf_peer_path(pair->peer), "from both ends"))
		skip();
	memset(pair->window, 1, length);
	/* No page is absent from now on. */
	put_and_get(pair, local, length);
	memset(pair->window, 1, length);
	memset(local, 0, 2 * length);
	peer->alone = 4;
	host->copied_alone = false;
	before = counted_bytes(collapse);
	assert_int_equal(pf_get(pair->peer, local, remote, length, pair_completed, &done), PF_OK);
	assert_memory_equal(local, pair->window, length);
	if (collapse_counts(collapse, length))
		assert_int_equal(counted_bytes(collapse) - before, length);
	assert_int_equal(peer->alone, 3);
	/* The next in a row waits for progress. */
	assert_int_equal(pf_get(pair->peer, local, remote, length, pair_completed, &done),
			 PF_PENDING);
	pair_await_done(pair, &done, 1);
	assert_int_equal(peer->alone, 2);
	peer->alone = 3;
	host->copied_alone = false;
	memset(local, 2, length);
	assert_int_equal(pf_put(pair->peer, local, remote, length, 0, pair_completed, &done),
			 PF_OK);
	assert_memory_equal(local, pair->window, length);
	assert_int_equal(peer->alone, 2);
	/* Longer than a run; and then beside one that is open. */
	host->copied_alone = false;
	assert_int_equal(pf_get(pair->peer, local, remote, length + 1, pair_completed, &done),
			 PF_PENDING);
	assert_int_equal(pf_get(pair->peer, local, remote, length, pair_completed, &done),
			 PF_PENDING);
	pair_await_done(pair, &done, 3);
	assert_int_equal(peer->alone, 0);
	free(local);
	pair_end(pair);
}

/* A transfer of one granule has no part for the partner, and is not offered. */
static void test_one_granule(void **state)
{
	struct pair *pair = pair_open(state, .window = WINDOW);
	const struct host_peer *peer = (struct host_peer *)pair->peer;
	const size_t granule = 1u << SHARE_GRANULE_SHIFT;
	uint8_t *local = test_alloc(LONGEST + 2 * GUARD);
	uint32_t offers;

	put_and_get(pair, local, granule);
	if (!strstr(pf_peer_path(pair->peer), "from both ends"))
		skip();
	offers = peer->share_generation;
	put_and_get(pair, local, granule);
	assert_int_equal(peer->share_generation, offers);
	put_and_get(pair, local, granule + 1);
	assert_int_not_equal(peer->share_generation, offers);
	free(local);
	pair_end(pair);
}

static void stop_polling(struct pair *me)
{
	pair_await(me, 0, 1);
	pair_say(me, 1);
	pair_watch(me, 0, 2);
}

/* Bytes moved without the partner: by single copy, or by /dev/exanest if there is one. */
static uint64_t moved_alone(const struct pair *pair)
{
	return pf_stat(pair->context, PF_STAT_SINGLE_COPY_BYTES) +
	       pf_stat(pair->context, PF_STAT_DEVICE_BYTES);
}

/* A partner that does not call libpf: the initiator, or the partner's service thread, moves all. */
static void test_partner_away(void **state)
{
	struct pair *pair = pair_open(state, .window = WINDOW, .work = stop_polling);
	uint8_t *local = test_alloc(LONGEST + 2 * GUARD);
	uint64_t before;

	pair_connect(pair);
	pair_say(pair, 1);
	pair_await(pair, 1, 1);
	before = moved_alone(pair);
	put_and_get(pair, local, LONGEST);
	assert_int_equal(moved_alone(pair) - before,
			 pair_over_net(&pair->options) ? 0 : 2 * LONGEST);
	pair_say(pair, 2);
	free(local);
	pair_end(pair);
}

/* Several transfers that were offered at the same time, without help, count as one. */
static void test_burst(void **state)
{
	struct pair *pair = pair_open(state, .window = WINDOW, .work = stop_polling);
	const struct host_peer *peer = (struct host_peer *)pair->peer;
	uint8_t *local = test_alloc(MIB);
	struct pair_done done = { 0 };
	int i;

	pair_connect(pair);
	if (!strstr(pf_peer_path(pair->peer), "from both ends"))
		skip();
	pair_say(pair, 1);
	pair_await(pair, 1, 1);
	for (i = 0; i < 4; i++)
		pair_post(pair, pair->peer, GET, local, pair_there(pair, 1, pair->window), MIB,
			  &done);
	pair_await_done(pair, &done, 4);
	assert_int_equal(peer->alone_next, SHARE_ALONE);
	assert_int_equal(peer->alone, SHARE_ALONE);
	pair_say(pair, 2);
	free(local);
	pair_end(pair);
}

static void ignore(pf_context *context, const pf_completion *completion)
{
	(void)context, (void)completion;
}

/* A context with a get under way. Its peer, a context of this process, has claimed a run of it. */
struct claimed {
	pf_context *context, *other;
	struct share *share;
	struct granules run;
	uint8_t *local, *remote;
	_Atomic bool ended; /* the run, or the peer */
};

/* Returns whether there is a share: not by /dev/exanest, and where single copy is permitted. */
static bool claim_run(struct claimed *claimed, const pf_options *options)
{
	const struct transfer *transfer;
	uint8_t address[PF_ADDRESS_MAX];
	size_t length = sizeof(address);
	pf_peer *peer;
	bool last;

	claimed->local = test_alloc(LONGEST);
	claimed->remote = test_alloc(LONGEST);
	assert_ok(pf_open(options, NULL, &claimed->context));
	assert_ok(pf_open(options, NULL, &claimed->other));
	pf_address(claimed->other, address, &length);
	assert_ok(pf_peer_open(claimed->context, address, length, NULL, &peer));
	assert_pending(pf_get(peer, claimed->local, remote_address(claimed->remote), LONGEST,
			      ignore, NULL));
	while (peer_state(peer) != PF_PEER_CONNECTED)
		pf_progress(claimed->context);
	if (!strstr(pf_peer_path(peer), "from both ends"))
		return false;
	transfer = (struct transfer *)claimed->context->operations.active.next;
	assert_non_null(transfer->share);
	claimed->share = transfer->share;
	assert_true(share_claim_back(claimed->share, ((struct host_peer *)peer)->share_generation,
				     1, 1, &claimed->run, &last));
	return true;
}

static void release_claimed(struct claimed *claimed)
{
	pf_close(claimed->context);
	pf_close(claimed->other);
	free(claimed->local);
	free(claimed->remote);
}

static void *end_run(void *arg)
{
	struct claimed *claimed = arg;

	usleep(50000);
	claimed->ended = true;
	share_add_moved(claimed->share, granules_count(claimed->run));
	return NULL;
}

static void *end_peer(void *arg)
{
	struct claimed *claimed = arg;

	usleep(50000);
	claimed->ended = true;
	pf_close(claimed->other);
	claimed->other = NULL;
	return NULL;
}

/* pf_close waits for a run that the peer is moving, as long as the peer lives. */
static void test_close_early(void **state)
{
	static void *(*const ends[])(void *arg) = { end_run, end_peer };
	pf_options options = pair_mode_options(state);
	size_t i;

	for (i = 0; i < ARRAY_SIZE(ends); i++) {
		struct claimed claimed = { 0 };
		pthread_t thread;

		if (!claim_run(&claimed, &options)) {
			release_claimed(&claimed);
			skip();
		}
		assert_int_equal(pthread_create(&thread, NULL, ends[i], &claimed), 0);
		pf_close(claimed.context);
		claimed.context = NULL;
		assert_true(claimed.ended);
		pthread_join(thread, NULL);
		release_claimed(&claimed);
	}
}

static void count_done(pf_context *context, const pf_completion *completion)
{
	(void)context;
	assert_ok(completion->status);
	(*(unsigned *)completion->arg)++;
}

#define SHORT_PUTS 300
#define SHORT_APART 2048
#define SHORT_BAD_HERE 100
#define SHORT_BAD_THERE 200
/* Transfers that may be pending all the same: a page that the kernel moves is absent for an instant. */
#define SHORT_FEW 4
/* No page is longer. */
#define BAD_PAGE ((size_t)64 << 10)
/* Bytes of the piece at SHORT_BAD_HERE before the bad ones. */
#define SHORT_GOOD 7

static size_t short_length(size_t i)
{
	return 1 + i * 37 % TRANSFER_SHORT;
}

struct short_row {
	pf_context *context, *other;
	pf_peer *peer;
	uint8_t *local, *remote, *bad;
	struct pair_done done[SHORT_PUTS];
};

static void short_row_open(struct short_row *row, const pf_options *options)
{
	const size_t length = SHORT_PUTS * SHORT_APART;
	uint8_t address[PF_ADDRESS_MAX];
	size_t size = sizeof(address);

	*row = (struct short_row){ .local = test_alloc(length), .remote = test_alloc(length) };
	row->bad = mmap(NULL, 2 * BAD_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			0);
	assert_true(row->bad != MAP_FAILED);
	memset(row->bad, 0, BAD_PAGE);
	row->bad += BAD_PAGE;
	assert_int_equal(mprotect(row->bad, BAD_PAGE, PROT_NONE), 0);
	assert_ok(pf_open(options, NULL, &row->context));
	assert_ok(pf_open(options, NULL, &row->other));
	pf_address(row->other, address, &size);
	assert_ok(pf_peer_open(row->context, address, size, NULL, &row->peer));
	/* The first of all connects. */
	assert_pending(pf_put(row->peer, row->local, remote_address(row->remote), 1, 0,
			      pair_completed, &row->done[0]));
	while (!row->done[0].count) {
		pf_progress(row->context);
		pf_progress(row->other);
	}
}

static void short_row_close(struct short_row *row)
{
	pf_close(row->context);
	pf_close(row->other);
	munmap(row->bad - BAD_PAGE, 2 * BAD_PAGE);
	free(row->local);
	free(row->remote);
}

/*
 * Post all, a piece that ends at bad addresses here and another at bad addresses there. Returns how many
 * are complete.
 */
static unsigned short_row_post(struct short_row *row, enum pair_direction direction)
{
	unsigned complete = 0;
	size_t i;

	memset(row->done, 0, sizeof(row->done));
	for (i = 0; i < SHORT_PUTS; i++) {
		uint8_t *here = row->local + i * SHORT_APART;
		uint8_t *there = row->remote + i * SHORT_APART;
		int status;

		pattern_fill(direction == PUT ? here : there, SHORT_APART, i);
		memset(direction == PUT ? there : here, 0, SHORT_APART);
		if (i == SHORT_BAD_HERE)
			here = row->bad - SHORT_GOOD;
		if (i == SHORT_BAD_THERE)
			there = row->bad + 8;
		status = direction == PUT ?
				 pf_put(row->peer, here, remote_address(there), short_length(i), 0,
					pair_completed, &row->done[i]) :
				 pf_get(row->peer, here, remote_address(there), short_length(i),
					pair_completed, &row->done[i]);
		if (status == PF_OK) {
			row->done[i].count = 1;
			complete++;
			continue;
		}
		assert_pending(status);
	}
	return complete;
}

/* Check that each has ended once, with a fault where the address is bad. */
static void short_row_check(const struct short_row *row, enum pair_direction direction)
{
	const uint8_t *target = direction == PUT ? row->remote : row->local;
	size_t i, length;

	for (i = 0; i < SHORT_PUTS; i++, target += SHORT_APART) {
		length = short_length(i);
		assert_int_equal(row->done[i].count, 1);
		if (i == SHORT_BAD_HERE || i == SHORT_BAD_THERE) {
			assert_fault(row->done[i].last,
				     i == SHORT_BAD_HERE ? PF_SIDE_LOCAL : PF_SIDE_REMOTE,
				     remote_address(i == SHORT_BAD_HERE ? row->bad : row->bad + 8));
			assert_int_equal(target[length], 0);
			continue;
		}
		assert_ok(row->done[i].last.status);
		assert_int_equal(pattern_differs(target, length, i), length);
		assert_int_equal(target[length], 0);
	}
}

static void short_row_finish(struct short_row *row)
{
	while (pf_flush_test(row->context, NULL, pf_posted(row->context, NULL)) == PF_PENDING) {
		pf_progress(row->context);
		pf_progress(row->other);
	}
}

/* Puts that go along in one message. */
static void test_short_messages(void **state)
{
	pf_options options = pair_mode_options(state);
	struct short_row row;

	short_row_open(&row, &options);
	assert_int_equal(short_row_post(&row, PUT), 0);
	pf_progress(row.context);
	assert_in_range(((struct host_peer *)row.peer)->requests_waiting, 1, SHORT_PUTS / 8);
	short_row_finish(&row);
	short_row_check(&row, PUT);
	short_row_close(&row);
}

static unsigned short_row_ended(const struct short_row *row)
{
	unsigned ended = 0, i;

	for (i = 0; i < SHORT_PUTS; i++)
		ended += row->done[i].count;
	return ended;
}

/* Let progress end all but the two with bad addresses. Returns the number of polls. */
static unsigned short_row_move(struct short_row *row)
{
	unsigned polls = 0;

	for (; short_row_ended(row) < SHORT_PUTS - 2; polls++) {
		pf_progress(row->context);
		pf_progress(row->other);
	}
	return polls;
}

/* Begin with single copy, or skip. */
static void short_row_open_copies(struct short_row *row, void **state)
{
	pf_options options = pair_mode_options(state);

	short_row_open(row, &options);
	if (host_peer_route((struct host_peer *)row->peer) == &route_copy)
		return;
	short_row_close(row);
	skip();
}

/* The first of a row are copied when they are posted, all others together by few system calls. */
static void test_short_copies(void **state)
{
	enum pair_direction direction;
	struct short_row row;

	short_row_open_copies(&row, state);
	for (direction = PUT; direction <= GET; direction++) {
		assert_in_range(short_row_post(&row, direction), 1, SHORT_BAD_HERE - 1);
		/* A poll copies once. */
		assert_in_range(short_row_move(&row), 1, SHORT_PUTS / 16);
		short_row_finish(&row);
		short_row_check(&row, direction);
		/* The row has ended with the last transfer. */
		assert_ok(pf_put(row.peer, row.local, remote_address(row.remote), 1, 0,
				 pair_completed, &row.done[0]));
		pf_progress(row.context);
	}
	short_row_close(&row);
}

/* Post count short puts to the peer. Returns how many are not complete; all others are. */
static unsigned short_row_pending(struct short_row *row, unsigned count)
{
	unsigned pending = 0, i;
	int status;

	for (i = 0; i < count; i++) {
		status = pf_put(row->peer, row->local, remote_address(row->remote), 8, 0, NULL,
				NULL);
		assert_in_range(status, PF_OK, PF_PENDING);
		pending += status == PF_PENDING;
	}
	return pending;
}

/* A short transfer waits only in a row, where a poll copies soon, and up to a bound. */
static void test_short_alone(void **state)
{
	const unsigned alone = 8, most = 1024;
	struct pair_done done = { 0 };
	struct short_row row;
	unsigned i, pending = 0;

	short_row_open_copies(&row, state);
	for (i = 0; i < SHORT_PUTS; i++) {
		pending += short_row_pending(&row, alone);
		if (i % 2)
			pf_progress(row.context);
		else
			assert_ok(pf_flush(row.context, row.peer, PF_FOREVER));
	}
	assert_true(pending <= SHORT_FEW);
	/* A long transfer, here to the same peer, has polls of its own. */
	assert_pending(pf_get(row.peer, row.local, remote_address(row.remote),
			      SHORT_PUTS * SHORT_APART, pair_completed, &done));
	assert_true(short_row_pending(&row, SHORT_PUTS) <= SHORT_FEW);
	short_row_finish(&row);
	assert_int_equal(done.count, 1);
	/* Memory has a bound without a poll. */
	pf_progress(row.context);
	pending = short_row_pending(&row, 20 * most);
	assert_in_range(pending, most - alone, most - alone + SHORT_FEW);
	short_row_finish(&row);
	assert_true(short_row_pending(&row, alone) <= SHORT_FEW);
	/* Threads may sleep in progress. */
	pf_allow_threads(row.context);
	assert_true(short_row_pending(&row, SHORT_PUTS) <= SHORT_FEW);
	short_row_close(&row);
}

/* Where operations_max is reached by others, a short transfer is copied all the same. */
static void test_short_full(void **state)
{
	pf_options options = pair_mode_options(state);
	struct pair_done done = { 0 };
	struct short_row row;
	unsigned i, refused = 0;
	int status;

	options.operations_max = 16;
	short_row_open(&row, &options);
	if (host_peer_route((struct host_peer *)row.peer) != &route_copy) {
		short_row_close(&row);
		skip();
	}
	for (i = 0; i < options.operations_max; i++)
		assert_pending(pf_atomic(row.peer, PF_ATOMIC_ADD, 8, remote_address(row.remote), 0,
					 0, pair_completed, &done));
	assert_true(short_row_pending(&row, SHORT_PUTS) <= SHORT_FEW);
	short_row_finish(&row);
	assert_int_equal(done.count, options.operations_max);
	/* And by the row, a poll makes room. */
	for (i = 0; i < SHORT_PUTS; i++) {
		while ((status = pf_put(row.peer, row.local, remote_address(row.remote), 8, 0, NULL,
					NULL)) == PF_ERR_AGAIN) {
			refused++;
			pf_progress(row.context);
		}
		assert_in_range(status, PF_OK, PF_PENDING);
	}
	assert_true(refused > 0);
	short_row_finish(&row);
	short_row_close(&row);
}

/* Bytes through the ring count once, at the initiator. */
static void test_stream_bytes(void **state)
{
	pf_options options = pair_mode_options(state);
	uint8_t *local = test_alloc(LONGEST), *remote = test_alloc(LONGEST);
	uint8_t address[PF_ADDRESS_MAX];
	size_t length = sizeof(address);
	pf_context *context, *other;
	unsigned done = 0;
	pf_peer *peer;

	assert_ok(pf_open(&options, NULL, &context));
	assert_ok(pf_open(&options, NULL, &other));
	pf_address(other, address, &length);
	assert_ok(pf_peer_open(context, address, length, NULL, &peer));
	assert_pending(pf_put(peer, local, remote_address(remote), LONGEST, 0, count_done, &done));
	assert_pending(pf_get(peer, local, remote_address(remote), LONGEST, count_done, &done));
	while (done < 2) {
		pf_progress(context);
		pf_progress(other);
	}
	assert_int_equal(pf_stat(context, PF_STAT_STREAM_BYTES), 2 * LONGEST);
	assert_int_equal(pf_stat(other, PF_STAT_STREAM_BYTES), 0);
	pf_close(context);
	pf_close(other);
	free(local);
	free(remote);
}

/* Put to and get from each other's half of the window. */
static void cross(struct pair *me)
{
	struct random_numbers numbers = { 2 * me->side + 1 };
	uint8_t *own = test_alloc(2 * MIB), *theirs = me->window + (me->side ? 0 : WINDOW / 2);
	unsigned i;

	for (i = 0; i < REPEAT(200); i++) {
		size_t length = 1 +
				random_below(&numbers, random_below(&numbers, 2) ? 2 * MIB : 9000);

		pair_exchange(me, !me->side, own, theirs, length, i);
	}
	free(own);
}

static void test_crossing(void **state)
{
	struct pair *pair = pair_open(state, .window = WINDOW, .work = cross);

	cross(pair);
	pair_await(pair, 1, PAIR_DONE);
	if (!pair_over_net(&pair->options))
		assert_true(((struct host_peer *)pair->peer)->shares_free == CHANNEL_SHARES_ALL);
	pair_end(pair);
}

/* The two sides may have rings and blocks of different sizes. */
static void test_unlike(void **state)
{
	static const uint64_t rings[][2] = { { 16384, MIB }, { MIB, 16384 }, { 32768, 16384 } };
	uint8_t *local = test_alloc(MIB);
	size_t i;

	for (i = 0; i < ARRAY_SIZE(rings); i++) {
		struct pair_setup setup = { PAIR_MODE(state), .window = 4 * MIB };
		struct pair *pair;

		setup.here.ring_size = rings[i][0];
		setup.there.ring_size = rings[i][1];
		setup.here.block_size = MIB;
		pair = pair_start(&setup);
		put_and_get(pair, local, 300001);
		pair_end(pair);
	}
	free(local);
}

/* An argument is a pattern for the names of the tests that run. */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		IN_MODE(test_sizes, DEFAULT),
		IN_MODE(test_sizes, SHARE_ALL),
		IN_MODE(test_sizes, STREAM),
		IN_MODE(test_sizes, SMALL_RING),
		IN_MODE(test_sizes, SMALL_RING_STREAM),
		IN_MODE(test_sizes, THREADS),
		IN_MODE(test_sizes, SHORT_RUNS),
		IN_MODE(test_sizes, SMALL_BLOCKS),
		IN_MODE(test_sizes, WAIT),
		IN_MODE(test_many, DEFAULT),
		IN_MODE(test_many, SHARE_ALL),
		IN_MODE(test_many, STREAM),
		IN_MODE(test_many, SMALL_RING),
		IN_MODE(test_many, SMALL_RING_STREAM),
		IN_MODE(test_many, THREADS),
		IN_MODE(test_many, SHORT_RUNS),
		IN_MODE(test_many, WAIT),
		IN_MODE(test_crossing, DEFAULT),
		IN_MODE(test_crossing, STREAM),
		IN_MODE(test_crossing, THREADS),
		IN_MODE(test_nothing, DEFAULT),
		IN_MODE(test_overflow, DEFAULT),
		IN_MODE(test_overflow, STREAM),
#ifdef __aarch64__
		IN_MODE(test_tags, DEFAULT),
		IN_MODE(test_tags, STREAM),
#endif
		IN_MODE(test_flush, DEFAULT),
		IN_MODE(test_flush, STREAM),
		IN_MODE(test_flush, WAIT),
		IN_MODE(test_both_ends, DEFAULT),
		IN_MODE_UNLESS(net, test_busy, DEFAULT),
		IN_MODE_UNLESS(net, test_burst, DEFAULT),
		IN_MODE_UNLESS(net, test_postponed, DEFAULT),
		IN_MODE_UNLESS(either, test_alone, DEFAULT),
		IN_MODE_UNLESS(net, test_one_granule, SHARE_ALL),
		IN_MODE(test_partner_away, DEFAULT),
		IN_MODE_UNLESS(either, test_close_early, SHARE_ALL),
		IN_MODE_UNLESS(either, test_short_messages, STREAM),
		IN_MODE_UNLESS(either, test_short_messages, SMALL_RING_STREAM),
		IN_MODE_UNLESS(either, test_short_copies, DEFAULT),
		IN_MODE_UNLESS(either, test_short_alone, DEFAULT),
		IN_MODE_UNLESS(either, test_short_full, DEFAULT),
		IN_MODE_UNLESS(either, test_stream_bytes, STREAM),
		IN_MODE(test_unlike, STREAM),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return pair_run_tests("transfer", tests);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Puts and gets between two processes, verified byte by byte, in every way that bytes can go. */
#include "pair.h"

#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define LONGEST (9 * MIB)
#define GUARD ((size_t)64)
#define WINDOW (32 * MIB)

enum mode {
	MODE_DEFAULT,
	MODE_SHARE_ALL,
	MODE_STREAM,
	MODE_SMALL_RING,
	MODE_SMALL_RING_STREAM,
	MODE_THREADS,
	MODE_SHORT_RUNS,
	MODE_SMALL_BLOCKS,
	MODE_IDLE,
	MODE_COUNT,
};

static pf_options options_of(enum mode mode)
{
	pf_options options = pair_options();

	switch (mode) {
	case MODE_SHARE_ALL:
		options.share_min = 4096;
		break;
	case MODE_STREAM:
		options.single_copy = 0;
		break;
	case MODE_SMALL_RING:
		options.ring_size = 16384;
		break;
	case MODE_SMALL_RING_STREAM:
		options.ring_size = 16384;
		options.single_copy = 0;
		break;
	case MODE_THREADS:
		options.threads = 1;
		break;
	case MODE_SHORT_RUNS:
		options.run_max = 4096;
		options.share_min = 8192;
		break;
	case MODE_SMALL_BLOCKS:
		options.block_size = 4096;
		break;
	case MODE_IDLE:
		options.idle_polls = 1;
		break;
	default:
		break;
	}
	return options;
}

static struct pair *start(void **state)
{
	enum mode mode = (enum mode)(uintptr_t)*state;
	struct pair_setup setup = {
		.here = options_of(mode),
		.there = options_of(mode),
		.window = WINDOW,
	};

	return pair_start(&setup);
}

/* A buffer between guards. */
static void fill_guarded(uint8_t *buffer, size_t length, uint64_t what)
{
	memset(buffer - GUARD, 0xa5, GUARD);
	pattern_fill(buffer, length, what);
	memset(buffer + length, 0x5a, GUARD);
}

static void check_guarded(const uint8_t *buffer, size_t length, uint64_t what)
{
	size_t i;

	i = pattern_differs(buffer, length, what);
	if (i < length)
		fail_msg("of %zu bytes, byte %zu is wrong", length, i);
	for (i = 0; i < GUARD; i++) {
		if (buffer[(ptrdiff_t)i - GUARD] != 0xa5 || buffer[length + i] != 0x5a)
			fail_msg("%zu bytes, and more was written than that", length);
	}
}

static void one_put(struct pair *pair, uint8_t *local, uint8_t *remote, size_t length,
		    uint64_t what)
{
	pf_completion completion;

	fill_guarded(remote, length, what + 1);
	fill_guarded(local, length, what);
	completion = pair_put(pair, pair->peer, local, pair_there(pair, 1, remote), length);
	assert_int_equal(completion.status, PF_OK);
	check_guarded(remote, length, what);
	check_guarded(local, length, what);
}

static void one_get(struct pair *pair, uint8_t *local, uint8_t *remote, size_t length,
		    uint64_t what)
{
	pf_completion completion;

	fill_guarded(remote, length, what);
	fill_guarded(local, length, what + 1);
	completion = pair_get(pair, pair->peer, local, pair_there(pair, 1, remote), length);
	assert_int_equal(completion.status, PF_OK);
	check_guarded(local, length, what);
	check_guarded(remote, length, what);
}

static void test_sizes(void **state)
{
	static const struct {
		size_t local, remote;
	} offsets[] = { { 0, 0 }, { 1, 3 }, { 4095, 8 } };
	struct pair *pair = start(state);
	pf_options options = options_of((enum mode)(uintptr_t)*state);
	const size_t sizes[] = {
		1,
		7,
		8,
		4095,
		4096,
		4097,
		options.ring_size / 4 - 1,
		options.ring_size / 4,
		options.ring_size / 4 + 1,
		options.block_size - 1,
		options.block_size,
		options.block_size + 1,
		options.share_min - 1,
		options.share_min,
		options.share_min + 1,
		options.run_max - 1,
		options.run_max,
		options.run_max + 1,
		MIB + 3,
		LONGEST,
	};
	uint8_t *local = malloc(LONGEST + 8192);
	uint64_t puts = 0, bytes = 0;
	size_t i, j;

	assert_non_null(local);
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		for (j = 0; j < sizeof(offsets) / sizeof(offsets[0]); j++) {
			uint8_t *here = local + GUARD + offsets[j].local;
			uint8_t *there = pair->window + 4096 + offsets[j].remote;

			if (sizes[i] > LONGEST || (sizes[i] == LONGEST && !j))
				continue;
			one_put(pair, here, there, sizes[i], i);
			one_get(pair, here, there, sizes[i], i + 100);
			puts++;
			bytes += 2 * sizes[i];
		}
	}
	assert_int_equal(pf_stat(pair->context, PF_STAT_PUTS), puts);
	assert_int_equal(pf_stat(pair->context, PF_STAT_GETS), puts);
	assert_int_equal(pf_stat(pair->context, PF_STAT_FAULT_ERRORS), 0);
#ifdef PAIR_OVER_NET
	assert_non_null(strstr(pf_peer_path(pair->peer), "over the network"));
	assert_int_equal(pf_stat(pair->context, PF_STAT_SINGLE_COPY_BYTES), 0);
	assert_true(pf_stat(pair->context, PF_STAT_NET_BYTES) > bytes / 2);
	free(local);
	pair_end(pair);
	return;
#endif
	if (pair_on_device(&options)) {
		assert_non_null(strstr(pf_peer_path(pair->peer), "/dev/exanest"));
		assert_int_equal(pf_stat(pair->context, PF_STAT_DEVICE_BYTES), bytes);
	} else if (!options.single_copy) {
		assert_non_null(strstr(pf_peer_path(pair->peer), "through the ring"));
		assert_int_equal(pf_stat(pair->context, PF_STAT_SINGLE_COPY_BYTES), 0);
		assert_int_equal(pf_stat(pair->context, PF_STAT_STREAM_BYTES), bytes);
	} else {
		assert_non_null(strstr(pf_peer_path(pair->peer), "single copy"));
		assert_int_equal(pf_stat(pair->context, PF_STAT_STREAM_BYTES), 0);
		assert_true(pf_stat(pair->context, PF_STAT_SINGLE_COPY_BYTES) <= bytes);
	}
	free(local);
	pair_end(pair);
}

static void test_nothing(void **state)
{
	struct pair *pair = start(state);
	struct pair_done done = { 0 };

	assert_int_equal(pf_put(pair->peer, NULL, 0, 0, pair_completed, &done), PF_DONE);
	assert_int_equal(pf_get(pair->peer, pair->window, 1, 0, pair_completed, &done), PF_DONE);
	pf_progress(pair->context);
	assert_int_equal(done.count, 0);
	pair_end(pair);
}

static void test_overflow(void **state)
{
	struct pair *pair = start(state);
	uint8_t *memory = pair->window;

	assert_int_equal(pf_put(pair->peer, memory, UINT64_MAX - 7, 16, NULL, NULL),
			 PF_ERR_ARGUMENT);
	assert_int_equal(pf_get(pair->peer, memory, UINT64_MAX, 2, NULL, NULL), PF_ERR_ARGUMENT);
	assert_int_equal(pf_put(pair->peer, memory, pair_there(pair, 1, memory), SIZE_MAX, NULL,
				NULL),
			 PF_ERR_ARGUMENT);
	assert_int_equal(pf_get(pair->peer, (void *)(UINTPTR_MAX - 7), pair_there(pair, 1, memory),
				16, NULL, NULL),
			 PF_ERR_ARGUMENT);
	/* No harm came from that. */
	one_put(pair, memory + 4096, memory + 16384, 8192, 1);
	pair_end(pair);
}

/* Completion NULL: nobody cares, but flush waits for it all the same. */
static void test_flush(void **state)
{
	struct pair *pair = start(state);
	uint8_t *local = malloc(MIB);
	size_t i;

	assert_non_null(local);
	assert_int_equal(pf_flush(pair->context, NULL), PF_OK);
	for (i = 0; i < 8; i++) {
		pattern_fill(local, MIB, i);
		assert_in_range(pf_put(pair->peer, local,
				       pair_there(pair, 1, pair->window + i * MIB), MIB - i, NULL,
				       NULL),
				PF_OK, PF_DONE);
		assert_int_equal(pf_flush(pair->context, i & 1 ? pair->peer : NULL), PF_OK);
		assert_int_equal(pattern_differs(pair->window + i * MIB, MIB - i, i), MIB - i);
	}
	assert_int_equal(pf_stat(pair->context, PF_STAT_PUTS), 8);
	free(local);
	pair_end(pair);
}

#define MANY 200
#define MANY_LONGEST ((size_t)100 << 10)

struct many {
	uint8_t *local, *remote;
	size_t length;
	bool put;
	uint64_t what;
	struct pair_done done;
};

static void count_message(pf_context *context, pf_peer *from, uint8_t tag, void *data,
			  size_t length, void *arg)
{
	struct pair *me = arg;
	uint64_t expected = atomic_fetch_add(pair_value(me, me->side, 0), 1);

	pair_check(me, tag == (uint8_t)expected);
	pair_check(me, pattern_differs(data, length, expected) == length);
}

/* All under way at the same time, with messages in between. */
static void test_many(void **state)
{
	enum mode mode = (enum mode)(uintptr_t)*state;
	struct random_numbers numbers = random_start("many transfers");
	struct pair_setup setup = {
		.here = options_of(mode),
		.there = options_of(mode),
		.window = MANY * (MANY_LONGEST + 4 * GUARD),
		.receive = count_message,
	};
	struct many *many = calloc(MANY, sizeof(*many));
	uint8_t *local, message[256];
	struct pair *pair;
	uint64_t sent = 0;
	int i, status;

	pair = pair_start(&setup);
	local = malloc(setup.window);
	assert_non_null(local);
	assert_non_null(many);
	for (i = 0; i < MANY; i++) {
		struct many *one = &many[i];
		size_t at = (size_t)i * (MANY_LONGEST + 4 * GUARD) + GUARD;

		one->length = 1 + random_below(&numbers,
					       random_below(&numbers, 3) ? MANY_LONGEST : 9000);
		one->local = local + at + random_below(&numbers, GUARD);
		one->remote = pair->window + at + random_below(&numbers, GUARD);
		one->put = random_below(&numbers, 2);
		one->what = random_next(&numbers);
		fill_guarded(one->local, one->length, one->what + !one->put);
		fill_guarded(one->remote, one->length, one->what + one->put);
	}
	for (i = 0; i < MANY; i++) {
		struct many *one = &many[i];
		size_t length = random_below(&numbers, sizeof(message));

		status = one->put ? pf_put(pair->peer, one->local, pair_there(pair, 1, one->remote),
					   one->length, pair_completed, &one->done) :
				    pf_get(pair->peer, one->local, pair_there(pair, 1, one->remote),
					   one->length, pair_completed, &one->done);
		assert_in_range(status, PF_OK, PF_DONE);
		one->done.count += status == PF_DONE;
		pattern_fill(message, length, sent);
		assert_int_equal(pair_send(pair, pair->peer, (uint8_t)sent, message, length),
				 PF_DONE);
		sent++;
	}
	assert_int_equal(pf_flush(pair->context, pair->peer), PF_OK);
	for (i = 0; i < MANY; i++) {
		assert_int_equal(many[i].done.count, 1);
		assert_int_equal(many[i].done.failed, 0);
		check_guarded(many[i].local, many[i].length, many[i].what);
		check_guarded(many[i].remote, many[i].length, many[i].what);
	}
	while (atomic_load(pair_value(pair, 1, 0)) < sent)
		pair_progress(pair);
	free(local);
	free(many);
	pair_end(pair);
}

/* With a partner that polls, both ends work; with one that does not, the initiator does it alone. */
static void test_both_ends(void **state)
{
	struct pair_setup setup = { .here = pair_options(),
				    .there = pair_options(),
				    .window = WINDOW };
	struct pair *pair = pair_start(&setup);
	uint8_t *local = malloc(LONGEST + 2 * GUARD);
	uint64_t bytes = 0;
	int rounds = 0;

	assert_non_null(local);
	/* A machine with one free core may give the partner none for a while. */
	while (bytes == pf_stat(pair->context, PF_STAT_SINGLE_COPY_BYTES)) {
		one_put(pair, local + GUARD, pair->window + 4096, LONGEST, 1);
		one_get(pair, local + GUARD, pair->window + 4096, LONGEST, 2);
		bytes += 2 * LONGEST;
		assert_true(rounds++ < 500);
	}
	free(local);
	pair_end(pair);
}

static void look_away(struct pair *me)
{
	pair_await(me, 0, 1);
	pair_say(me, 1);
	/* Not in libpf at all, and yet the transfers complete. */
	pair_watch(me, 0, 2);
	pair_serve(me);
}

static void test_partner_away(void **state)
{
	struct pair_setup setup = { .here = pair_options(),
				    .there = pair_options(),
				    .window = WINDOW,
				    .partner = look_away };
	struct pair *pair = pair_start(&setup);
	uint8_t *local = malloc(LONGEST + 2 * GUARD);
	enum pf_stat moved = pair_on_device(&setup.here) ? PF_STAT_DEVICE_BYTES :
							   PF_STAT_SINGLE_COPY_BYTES;
	uint64_t before;

	assert_non_null(local);
	one_put(pair, local + GUARD, pair->window + 4096, 8, 1);
	pair_say(pair, 1);
	pair_await(pair, 1, 1);
	before = pf_stat(pair->context, moved);
	one_put(pair, local + GUARD, pair->window + 4096, LONGEST, 1);
	one_get(pair, local + GUARD, pair->window + 4096, LONGEST, 2);
	/* Over the network its service thread has done it; there is no other way. */
#ifndef PAIR_OVER_NET
	assert_int_equal(pf_stat(pair->context, moved) - before, 2 * LONGEST);
#else
	assert_int_equal(pf_stat(pair->context, moved), before);
#endif
	pair_say(pair, 2);
	free(local);
	pair_end(pair);
}

/* Both put and get to each other at the same time, in the same memory halves. */
static void cross(struct pair *me, unsigned seed)
{
	struct random_numbers numbers = { 2 * seed + 1 };
	uint8_t *own = malloc(2 * MIB), *theirs = me->window + (me->side ? 0 : WINDOW / 2);
	int i;

	pair_check(me, own);
	for (i = 0; i < REPEAT(200); i++) {
		size_t length = 1 +
				random_below(&numbers, random_below(&numbers, 2) ? 2 * MIB : 9000);
		pf_completion completion;

		pattern_fill(own, length, (uint64_t)i);
		completion = pair_put(me, me->peer, own, pair_there(me, !me->side, theirs), length);
		pair_check(me, completion.status == PF_OK);
		memset(own, 0, length);
		completion = pair_get(me, me->peer, own, pair_there(me, !me->side, theirs), length);
		pair_check(me, completion.status == PF_OK);
		pair_check(me, pattern_differs(own, length, (uint64_t)i) == length);
	}
	free(own);
}

static void cross_partner(struct pair *me)
{
	cross(me, 1);
	pair_say(me, 1);
	pair_serve(me);
}

static void test_crossing(void **state)
{
	enum mode mode = (enum mode)(uintptr_t)*state;
	struct pair_setup setup = {
		.here = options_of(mode),
		.there = options_of(mode),
		.window = WINDOW,
		.partner = cross_partner,
	};
	struct pair *pair;

	pair = pair_start(&setup);
	cross(pair, 2);
	pair_await(pair, 1, 1);
	pair_end(pair);
}

/* The two sides need not be configured alike. */
static void test_unlike(void **state)
{
	static const struct {
		uint64_t here, there;
	} rings[] = { { 16384, 1 << 20 }, { 1 << 20, 16384 }, { 32768, 16384 } };
	size_t i;

	for (i = 0; i < sizeof(rings) / sizeof(rings[0]); i++) {
		struct pair_setup setup = { .here = pair_options(),
					    .there = pair_options(),
					    .window = 4 * MIB };
		uint8_t *local = malloc(MIB);
		struct pair *pair;

		setup.here.single_copy = setup.there.single_copy = 0;
		setup.here.ring_size = rings[i].here;
		setup.there.ring_size = rings[i].there;
		setup.here.block_size = 1 << 20;
		pair = pair_start(&setup);
		assert_non_null(local);
		one_put(pair, local + GUARD, pair->window + 4096, 300001, 1);
		one_get(pair, local + GUARD, pair->window + 4096, 300001, 2);
		free(local);
		pair_end(pair);
	}
}

#define IN_MODE(test, mode)                                                                        \
	{                                                                                          \
#test " " #mode, test, NULL, pair_teardown, (void *)(uintptr_t)MODE_##mode         \
	}

int main(void)
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
		IN_MODE(test_sizes, IDLE),
		IN_MODE(test_many, DEFAULT),
		IN_MODE(test_many, SHARE_ALL),
		IN_MODE(test_many, STREAM),
		IN_MODE(test_many, SMALL_RING),
		IN_MODE(test_many, SMALL_RING_STREAM),
		IN_MODE(test_many, THREADS),
		IN_MODE(test_many, SHORT_RUNS),
		IN_MODE(test_many, IDLE),
		IN_MODE(test_crossing, DEFAULT),
		IN_MODE(test_crossing, STREAM),
		IN_MODE(test_crossing, THREADS),
		IN_MODE(test_nothing, DEFAULT),
		IN_MODE(test_overflow, DEFAULT),
		IN_MODE(test_overflow, STREAM),
		IN_MODE(test_flush, DEFAULT),
		IN_MODE(test_flush, STREAM),
		IN_MODE(test_flush, IDLE),
		IN_MODE(test_both_ends, DEFAULT),
		IN_MODE(test_partner_away, DEFAULT),
		IN_MODE(test_unlike, DEFAULT),
	};

	return cmocka_run_group_tests_name("transfer", tests, NULL, NULL);
}

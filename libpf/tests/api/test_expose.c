/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Exposed ranges: partner 1 has the option expose, and the test is its peer. What the partner does not
 * expose is neither read nor written.
 */
#include "page.h"
#include "pair.h"

#include <pthread.h>
#include <sys/uio.h>
#include <unistd.h>

#define KIB ((size_t)1 << 10)
#define WINDOW (4 * MIB)
#define GUARD 0xe7
#define HERE 0x5c
#define READ PF_EXPOSE_READ
#define WRITE PF_EXPOSE_WRITE
#define BOTH (READ | WRITE)
#define NOWHERE SIZE_MAX

/* ---- of the partner ---- */

enum command { EXPOSE, UNEXPOSE, COUNT, TRANSFER, TO_SELF, TOGGLE, STOP, PAGED };
/* Numbers of the partner. */
enum { NOTICES, SHARED, SINGLE, REFUSED, DIFFERS, SELF_STATUS, SUPPLIED, PAGED_START };

static struct toggle {
	pthread_t thread;
	_Atomic bool stop;
	struct pair *me;
} toggle;

/* Expose and take back the first MiB, again and again. */
static void *toggle_main(void *arg)
{
	struct pair *me = toggle.me;

	while (!toggle.stop) {
		pair_check_status(me, pf_expose(me->context, me->window, MIB, BOTH), PF_OK);
		usleep(50);
		pair_check_status(me, pf_unexpose(me->context, me->window, MIB / 2), PF_OK);
		pair_check_status(me, pf_unexpose(me->context, me->window + MIB / 2, MIB / 2),
				  PF_OK);
	}
	return arg;
}

/* A transfer of the partner, from memory that is not exposed, to the test, which exposes all. */
static void transfer_back(struct pair *me, size_t offset, size_t length)
{
	uint8_t *local = test_map(length);
	uint64_t remote = pair_there(me, 0, me->window + offset);

	pattern_fill(local, length, offset + length);
	pair_check_status(me, pair_put(me, me->peer, local, remote, length).status, PF_OK);
	memset(local, 0, length);
	pair_check_status(me, pair_get(me, me->peer, local, remote, length).status, PF_OK);
	*pair_value(me, 1, DIFFERS) = pattern_differs(local, length, offset + length) != length;
	munmap(local, length);
}

#define PAGES 8

/* Note which pages were supplied: a bit for each. */
static int supply(pf_context *context, uint64_t address, void *page, size_t length, void *arg)
{
	struct pair *me = arg;

	memset(page, GUARD, length);
	atomic_fetch_or(pair_value(me, 1, SUPPLIED),
			UINT64_C(1) << (address - *pair_value(me, 1, PAGED_START)) / PAGE);
	return PF_OK;
}

/* Memory of a pager, with the first pages exposed. */
static void make_paged(struct pair *me, uint64_t pages)
{
	uint8_t *start = test_map(PAGES * PAGE);
	pf_pager *pager;

	*pair_value(me, 1, PAGED_START) = remote_address(start);
	*pair_value(me, 1, SUPPLIED) = 0;
	pair_check_status(
		me, pf_pager_register(me->context, start, PAGES * PAGE, supply, me, &pager), PF_OK);
	pair_check_status(me, pf_expose(me->context, start, pages * PAGE, BOTH), PF_OK);
}

static void command(struct pair *me, const uint64_t *arguments)
{
	/* A test of an address outside the window wraps around. */
	uint8_t *start = (uint8_t *)(uintptr_t)(remote_address(me->window) + arguments[1]);
	uint64_t word = 7;

	switch ((enum command)arguments[0]) {
	case EXPOSE:
		pair_check_status(
			me, pf_expose(me->context, start, arguments[2], (unsigned)arguments[3]),
			PF_OK);
		break;
	case UNEXPOSE:
		pair_check_status(me, pf_unexpose(me->context, start, arguments[2]), PF_OK);
		break;
	case COUNT:
		*pair_value(me, 1, SHARED) = pf_stat(me->context, PF_STAT_SHARED_BYTES);
		*pair_value(me, 1, SINGLE) = pf_stat(me->context, PF_STAT_SINGLE_COPY_BYTES);
		*pair_value(me, 1, REFUSED) = pf_stat(me->context, PF_STAT_NOT_EXPOSED);
		break;
	case TRANSFER:
		transfer_back(me, arguments[1], arguments[2]);
		break;
	case TO_SELF:
		*pair_value(me, 1, SELF_STATUS) = (uint64_t)pair_put(me, pair_peer(me, 1), &word,
								     remote_address(start), 8)
							  .status;
		break;
	case TOGGLE:
		toggle.stop = false;
		toggle.me = me;
		pair_check(me, !pthread_create(&toggle.thread, NULL, toggle_main, NULL));
		break;
	case PAGED:
		make_paged(me, arguments[1]);
		break;
	case STOP:
		toggle.stop = true;
		pthread_join(toggle.thread, NULL);
		break;
	}
}

static void note(pf_context *context, pf_peer *from, uint64_t remote, size_t length, uint64_t value,
		 void *arg)
{
	(*pair_value(arg, 1, NOTICES))++;
}

/* ---- of the test ---- */

/* What the partner exposes in most tests. */
static const struct exposed {
	size_t start, length;
	unsigned rights;
} exposed[] = {
	{ 64 * KIB, 64 * KIB, BOTH },
	{ 256 * KIB, 768 * KIB, READ },
	{ MIB, MIB, WRITE },
};

static unsigned rights_at(size_t offset)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(exposed); i++) {
		if (offset - exposed[i].start < exposed[i].length)
			return exposed[i].rights;
	}
	return 0;
}

/* The first byte of the range without the rights; NOWHERE: none. */
static size_t first_without(size_t offset, size_t length, unsigned rights)
{
	size_t at;

	for (at = offset; at < offset + length; at++) {
		if (rights & ~rights_at(at))
			return at;
	}
	return NOWHERE;
}

static struct pair *start_empty(void **state)
{
	struct pair_setup setup = {
		.window = WINDOW, .command = command, .notice = note, PAIR_MODE(state)
	};

	setup.there.expose = 1;
	return pair_start(&setup);
}

static struct pair *start(void **state)
{
	struct pair *pair = start_empty(state);
	size_t i;

	for (i = 0; i < ARRAY_SIZE(exposed); i++)
		pair_command(pair, EXPOSE, exposed[i].start, exposed[i].length, exposed[i].rights);
	memset(pair->window, GUARD, WINDOW);
	return pair;
}

static void check_refused(pf_completion completion, uint64_t address)
{
	assert_status(completion.status, PF_ERR_FAULT);
	assert_int_equal(completion.side, PF_SIDE_REMOTE);
	assert_int_equal(completion.address, address);
	assert_int_equal(completion.reason, PF_REASON_NOT_EXPOSED);
}

static void check_fault(struct pair *pair, const pf_completion *completion, size_t offset)
{
	if (offset == NOWHERE) {
		assert_ok(completion->status);
		assert_int_equal(completion->reason, PF_REASON_NONE);
		return;
	}
	check_refused(*completion, pair_there(pair, 1, pair->window + offset));
}

/* Check that no byte was written that may not be, and set all to GUARD again. */
static void check_unwritten(struct pair *pair)
{
	size_t at;

	for (at = 0; at < WINDOW; at++) {
		if (!(rights_at(at) & WRITE) && pair->window[at] != GUARD)
			fail_msg("byte %zu was written", at);
	}
	memset(pair->window, GUARD, WINDOW);
}

/*
 * Check that what the test got has nothing of the partner's memory, which is full of GUARD, that it may
 * not read. Between hosts, other packets may be received where the bytes of a get are expected.
 */
static void check_unread(struct pair *pair, const uint8_t *local, size_t offset, size_t length)
{
	const bool net = pair_over_net(&pair->options);
	size_t at, run = 0;

	for (at = 0; at < length; at++) {
		if (rights_at(offset + at) & READ || local[at] == HERE ||
		    (net && local[at] != GUARD))
			run = 0;
		else
			run++;
		if (run > (net ? 16 : 0))
			fail_msg("byte %zu was read", offset + at);
	}
}

static void check_put(struct pair *pair, uint8_t *local, size_t offset, size_t length)
{
	size_t bad = first_without(offset, length, WRITE);
	pf_completion completion;

	pattern_fill(local, length, offset);
	completion = pair_put(pair, pair->peer, local, pair_there(pair, 1, pair->window + offset),
			      length);
	check_fault(pair, &completion, bad);
	if (bad == NOWHERE)
		assert_pattern(pair->window + offset, length, offset);
	check_unwritten(pair);
}

static void check_get(struct pair *pair, uint8_t *local, size_t offset, size_t length)
{
	size_t bad = first_without(offset, length, READ);
	pf_completion completion;

	memset(local, HERE, length);
	if (bad == NOWHERE)
		pattern_fill(pair->window + offset, length, offset);
	completion = pair_get(pair, pair->peer, local, pair_there(pair, 1, pair->window + offset),
			      length);
	check_fault(pair, &completion, bad);
	if (bad == NOWHERE)
		assert_pattern(local, length, offset);
	check_unread(pair, local, offset, length);
	memset(pair->window, GUARD, WINDOW);
}

static void test_transfers(void **state)
{
	static const struct {
		size_t offset, length;
	} cases[] = {
		{ 64 * KIB, 64 * KIB },
		{ 70 * KIB + 3, 8 },
		{ 64 * KIB - 1, 2 },
		{ 128 * KIB - 1, 2 },
		{ 160 * KIB, 4096 },
		{ 100 * KIB, 100 * KIB },
		{ 63 * KIB, 66 * KIB },
		{ 300 * KIB + 8, 500 * KIB },
		{ MIB, MIB },
		{ MIB - 8, 16 },
		{ MIB - 100000, 200000 },
		{ 2 * MIB - 100, 200 },
		{ 2 * MIB - 100000, MIB },
		{ 0, WINDOW },
		{ 2 * MIB - 8, 8 },
		{ 2 * MIB, 8 },
		{ 256 * KIB, 768 * KIB + 1 },
	};
	struct pair *pair = start(state);
	uint8_t *local = test_map(WINDOW);
	size_t i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		check_put(pair, local, cases[i].offset, cases[i].length);
		check_get(pair, local, cases[i].offset, cases[i].length);
	}
	/* No byte went another way than by the partner's check. */
	pair_command(pair, COUNT);
	assert_int_equal(*pair_value(pair, 1, SHARED), 0);
	assert_true(*pair_value(pair, 1, REFUSED) > 0);
	assert_int_equal(pf_stat(pair->context, PF_STAT_SINGLE_COPY_BYTES), 0);
	assert_int_equal(pf_stat(pair->context, PF_STAT_DEVICE_BYTES), 0);
	munmap(local, WINDOW);
	pair_end(pair);
}

/* Many short pieces, and one of them elsewhere. */
static void check_vector(struct pair *pair, uint8_t *local, enum pair_direction direction,
			 size_t elsewhere, size_t length)
{
	enum { PIECES = 100, WRONG = 50, WRONG_AT = 2 * MIB };
	const unsigned needed = direction == PUT ? WRITE : READ;
	const size_t start = 64 * KIB, stride = 64 * KIB / PIECES / 8 * 8;
	pf_piece pieces[PIECES];
	pf_completion completion;
	unsigned i;

	memset(local, HERE, WINDOW);
	for (i = 0; i < PIECES; i++)
		pieces[i] = (pf_piece){ local + i * KIB,
					pair_there(pair, 1, pair->window + start + i * stride),
					200 };
	pieces[WRONG] = (pf_piece){ local + WRONG_AT, pair_there(pair, 1, pair->window + elsewhere),
				    length };
	completion = pair_transfer_vector(pair, pair->peer, direction, pieces, PIECES);
	check_fault(pair, &completion, first_without(elsewhere, length, needed));
	if (direction == GET)
		check_unread(pair, local + WRONG_AT, elsewhere, length);
	check_unwritten(pair);
}

static void test_vectors(void **state)
{
	struct pair *pair = start(state);
	uint8_t *local = test_map(WINDOW);
	enum pair_direction direction;

	for (direction = PUT; direction <= GET; direction++) {
		check_vector(pair, local, direction, 120 * KIB, 200);
		check_vector(pair, local, direction, 0, 200);
		check_vector(pair, local, direction, 128 * KIB - 100, 200);
		check_vector(pair, local, direction, MIB - 100, 200);
		check_vector(pair, local, direction, 300 * KIB, 200);
		check_vector(pair, local, direction, 3 * MIB, 500 * KIB);
	}
	munmap(local, WINDOW);
	pair_end(pair);
}

static void check_atomic(struct pair *pair, size_t offset, unsigned width)
{
	uint64_t *word = (uint64_t *)(void *)(pair->window + offset), before = load64(word);
	size_t bad = first_without(offset, width, BOTH) == NOWHERE ? NOWHERE : offset;
	pf_completion completion = pair_atomic(pair, pair->peer, PF_ATOMIC_ADD, width,
					       pair_there(pair, 1, word), 1, 0);

	check_fault(pair, &completion, bad);
	assert_int_equal(load64(word), before + (bad == NOWHERE));
	if (bad == NOWHERE)
		assert_int_equal(completion.value, width == 8 ? before : (uint32_t)before);
}

static void test_atomics(void **state)
{
	static const size_t offsets[] = { 64 * KIB,    128 * KIB - 8, 64 * KIB - 8, 128 * KIB,
					  0,           300 * KIB,     MIB - 8,      MIB,
					  2 * MIB - 8, WINDOW - 8,    96 * KIB };
	struct pair *pair = start(state);
	size_t i;

	for (i = 0; i < ARRAY_SIZE(offsets); i++) {
		check_atomic(pair, offsets[i], 8);
		check_atomic(pair, offsets[i], 4);
	}
	/* An integer across the end of a range. */
	pair_command(pair, UNEXPOSE, 96 * KIB + 4, 4);
	*(uint64_t *)(void *)(pair->window + 96 * KIB) = 5;
	check_refused(pair_atomic(pair, pair->peer, PF_ATOMIC_SWAP, 8,
				  pair_there(pair, 1, pair->window + 96 * KIB), 1, 0),
		      pair_there(pair, 1, pair->window + 96 * KIB + 4));
	assert_int_equal(load64(pair->window + 96 * KIB), 5);
	pair_end(pair);
}

static void check_signal(struct pair *pair, enum pf_signal_op op, size_t data, size_t length,
			 size_t word)
{
	uint64_t *there = (uint64_t *)(void *)(pair->window + word), before = 3;
	size_t bad = first_without(data, length, WRITE);
	uint8_t *local = test_alloc(length + 1);
	pf_completion completion;

	if (bad == NOWHERE && op != PF_SIGNAL_NOTICE)
		bad = first_without(word, 8, BOTH);
	*there = before;
	completion = pair_put_signal(pair, pair->peer, local,
				     pair_there(pair, 1, pair->window + data), length,
				     (pf_signal){ op, pair_there(pair, 1, there), 10 });
	check_fault(pair, &completion, bad);
	if (op != PF_SIGNAL_NOTICE)
		assert_int_equal(load64(there), bad != NOWHERE      ? before :
						op == PF_SIGNAL_ADD ? 13 :
								      10);
	memset(there, GUARD, sizeof(*there));
	check_unwritten(pair);
	free(local);
}

static void test_signals(void **state)
{
	static const size_t words[] = { 100 * KIB, 300 * KIB, MIB + 8, 3 * MIB, 128 * KIB };
	struct pair *pair = start(state);
	enum pf_signal_op op;
	uint64_t notices;
	size_t i;

	for (op = PF_SIGNAL_ADD; op <= PF_SIGNAL_SET; op++) {
		for (i = 0; i < ARRAY_SIZE(words); i++) {
			check_signal(pair, op, 3 * MIB + 64, 0, words[i]);
			check_signal(pair, op, 70 * KIB, 8, words[i]);
			check_signal(pair, op, MIB + 4096, 300 * KIB, words[i]);
		}
		check_signal(pair, op, 300 * KIB, 8, 100 * KIB);
		check_signal(pair, op, 2 * MIB - 100000, 200000, 100 * KIB);
	}
	/* A notice without bytes touches no memory. */
	check_signal(pair, PF_SIGNAL_NOTICE, 3 * MIB, 0, 100 * KIB);
	check_signal(pair, PF_SIGNAL_NOTICE, 70 * KIB, 8, 100 * KIB);
	notices = *pair_value(pair, 1, NOTICES);
	assert_int_equal(notices, 2);
	check_signal(pair, PF_SIGNAL_NOTICE, 3 * MIB, 8, 100 * KIB);
	assert_int_equal(*pair_value(pair, 1, NOTICES), notices);
	pair_end(pair);
}

/* The partner takes back what it has exposed, and exposes it again. */
static void test_changes(void **state)
{
	static const size_t lengths[] = { 8, 4096, 300000, MIB };
	struct pair *pair = start_empty(state);
	uint64_t there = pair_there(pair, 1, pair->window);
	uint8_t *local = test_map(MIB);
	size_t i;

	for (i = 0; i < ARRAY_SIZE(lengths); i++) {
		size_t length = lengths[i];

		check_refused(pair_put(pair, pair->peer, local, there, length), there);
		check_refused(pair_get(pair, pair->peer, local, there, length), there);
		pair_command(pair, EXPOSE, 0, length, BOTH);
		pair_exchange(pair, 1, local, pair->window, length, i);
		/* Part of a range. */
		pair_command(pair, UNEXPOSE, length / 2, 2);
		pair_exchange(pair, 1, local, pair->window, length / 2, i);
		check_refused(pair_put(pair, pair->peer, local, there, length), there + length / 2);
		check_refused(pair_get(pair, pair->peer, local, there, length), there + length / 2);
		pair_exchange(pair, 1, local, pair->window + length / 2 + 2, length / 2 - 2, i);
		/* Other rights. */
		pair_command(pair, EXPOSE, 0, length, READ);
		assert_ok(pair_get(pair, pair->peer, local, there, length).status);
		check_refused(pair_put(pair, pair->peer, local, there, length), there);
		pair_command(pair, UNEXPOSE, 0, WINDOW);
	}
	/* Memory may be exposed before it is mapped, and be unmapped again. */
	check_refused(pair_get(pair, pair->peer, local, 4096, 8), 4096);
	pair_command(pair, EXPOSE, 4096 - remote_address(pair->window), 8, BOTH);
	if (there == remote_address(pair->window)) {
		pf_completion completion = pair_get(pair, pair->peer, local, 4096, 8);

		assert_fault(completion, PF_SIDE_REMOTE, 4096);
	}
	munmap(local, MIB);
	pair_end(pair);
}

/* A thread of the partner changes the ranges while the partner answers. */
static void test_threads(void **state)
{
	struct pair_setup setup = { .window = WINDOW, .command = command, PAIR_MODE(state) };
	uint8_t *local = test_map(MIB);
	struct pair *pair;
	uint64_t there;
	unsigned i;

	setup.there.expose = setup.there.threads = 1;
	pair = pair_start(&setup);
	there = pair_there(pair, 1, pair->window);
	memset(pair->window, GUARD, WINDOW);
	pair_command(pair, TOGGLE);
	for (i = 0; i < REPEAT(200); i++) {
		size_t length = i % 2 ? 1000 : 200000;
		pf_completion completion = pair_transfer(pair, pair->peer, i % 4 < 2 ? PUT : GET,
							 local, there + i * 100, length);

		if (completion.status != PF_OK) {
			assert_status(completion.status, PF_ERR_FAULT);
			assert_true(completion.address - there - i * 100 < length);
		}
	}
	pair_command(pair, STOP);
	memset(pair->window, GUARD, WINDOW);
	check_refused(pair_put(pair, pair->peer, local, there, MIB), there);
	for (i = 0; i < WINDOW; i++)
		assert_int_equal(pair->window[i], GUARD);
	munmap(local, MIB);
	pair_end(pair);
}

/* What the partner does itself is not limited. */
/* A page behind the exposed ones, in the same block, is not brought for a peer. */
static void test_paged(void **state)
{
	struct pair *pair = start_empty(state);
	uint8_t *local = test_map(4 * PAGE);
	uint64_t there;

	pair_command(pair, PAGED, 3);
	there = *pair_value(pair, 1, PAGED_START);
	check_refused(pair_put(pair, pair->peer, local, there, 4 * PAGE), there + 3 * PAGE);
	check_refused(pair_get(pair, pair->peer, local, there, 4 * PAGE), there + 3 * PAGE);
	assert_int_equal(*pair_value(pair, 1, SUPPLIED) & ~UINT64_C(7), 0);
	assert_ok(pair_put(pair, pair->peer, local, there, 3 * PAGE).status);
	assert_int_equal(*pair_value(pair, 1, SUPPLIED), 7);
	munmap(local, 4 * PAGE);
	pair_end(pair);
}

static void test_own(void **state)
{
	struct pair *pair = start_empty(state);

	pair_command(pair, TRANSFER, 0, 100);
	assert_pattern(pair->window, 100, 100);
	assert_int_equal(*pair_value(pair, 1, DIFFERS), 0);
	pair_command(pair, TRANSFER, 4096, 3 * MIB);
	assert_pattern(pair->window + 4096, 3 * MIB, 4096 + 3 * MIB);
	assert_int_equal(*pair_value(pair, 1, DIFFERS), 0);
	pair_command(pair, COUNT);
	/* The test moves no end of them. */
	assert_int_equal(pf_stat(pair->context, PF_STAT_SHARED_BYTES), 0);
	assert_int_equal(*pair_value(pair, 1, REFUSED), 0);
	/* As its own peer, the partner is a peer. */
	pair_command(pair, TO_SELF, 0);
	assert_status((int)*pair_value(pair, 1, SELF_STATUS), PF_ERR_FAULT);
	pair_command(pair, EXPOSE, 0, 8, BOTH);
	pair_command(pair, TO_SELF, 0);
	assert_ok((int)*pair_value(pair, 1, SELF_STATUS));
	assert_int_equal(load64(pair->window), 7);
	pair_end(pair);
}

/* A filter of system calls may forbid it; QEMU's user-mode emulator does not have it. */
static bool has_single_copy(void)
{
	uint8_t from = 1, to = 0;
	struct iovec remote = { &from, 1 }, local = { &to, 1 };

	return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == 1;
}

/* Each side says which way the bytes go. */
static void test_path(void **state)
{
	struct pair *pair = start_empty(state);
	const char *path;

	assert_ok(pf_peer_contact(pair->peer, 0, NULL));
	while (pf_peer_state(pair->peer) != PF_PEER_CONNECTED)
		pair_progress(pair);
	path = pf_peer_path(pair->peer);
	if (!has_single_copy())
		skip();
	assert_int_equal(strncmp(path, PF_PATH_RING, strlen(PF_PATH_RING)), 0);
	assert_non_null(strstr(path, "expose"));
	pair_command(pair, TRANSFER, 0, MIB);
	pair_command(pair, COUNT);
	assert_int_equal(*pair_value(pair, 1, SINGLE), 2 * MIB);
	assert_int_equal(pf_stat(pair->context, PF_STAT_SHARED_BYTES), 0);
	pair_end(pair);
}

static void test_arguments(void **state)
{
	pf_options options = pair_options();
	pf_context *context;
	uint64_t word;

	assert_ok(pf_open(&options, NULL, &context));
	assert_status(pf_expose(context, &word, 8, BOTH), PF_ERR_ARGUMENT);
	assert_status(pf_unexpose(context, &word, 8), PF_ERR_ARGUMENT);
	pf_close(context);
	options.expose = 2;
	assert_status(pf_open(&options, NULL, &context), PF_ERR_ARGUMENT);
	options.expose = 1;
	assert_ok(pf_open(&options, NULL, &context));
	assert_ok(pf_expose(context, &word, 8, READ));
	assert_ok(pf_expose(context, &word, 0, WRITE));
	assert_ok(pf_expose(context, NULL, 4096, BOTH));
	assert_status(pf_expose(context, &word, 8, 0), PF_ERR_ARGUMENT);
	assert_status(pf_expose(context, &word, 8, 4), PF_ERR_ARGUMENT);
	assert_status(pf_expose(context, &word, SIZE_MAX, READ), PF_ERR_ARGUMENT);
	assert_status(pf_unexpose(context, &word, SIZE_MAX), PF_ERR_ARGUMENT);
	assert_ok(pf_unexpose(context, &word, 4096));
	assert_ok(pf_unexpose(context, NULL, SIZE_MAX));
	pf_close(context);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_MODE(test_transfers, DEFAULT),  IN_MODE(test_transfers, SHARE_ALL),
		IN_MODE(test_transfers, STREAM),   IN_MODE(test_transfers, SMALL_RING),
		IN_MODE(test_transfers, THREADS),  IN_MODE(test_vectors, DEFAULT),
		IN_MODE(test_vectors, SMALL_RING), PAIR_TEST(test_atomics),
		IN_MODE(test_signals, DEFAULT),    IN_MODE(test_signals, STREAM),
		PAIR_TEST(test_changes),           IN_MODE(test_threads, DEFAULT),
		IN_MODE(test_paged, DEFAULT),      IN_MODE(test_paged, THREADS),
		IN_MODE(test_threads, THREADS),    IN_MODE(test_own, DEFAULT),
		IN_MODE(test_own, SHARE_ALL),      IN_MODE(test_own, STREAM),
		PAIR_TEST_UNLESS(net, test_path),  PAIR_TEST(test_arguments),
	};

	return pair_run_tests("expose", tests);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peers that were accepted and write wrong data into the memory that they share with a context.
 * They can disturb their own traffic; they cannot crash or hang the context, or reach other peers.
 */
#include "peers.h"
#include "stranger.h"

#include <pthread.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/context.h"
#include "host/block.h"
#include "host/inbox.h"
#include "host/message.h"
#include "host/peer.h"
#include "host/state.h"

/* A filter of system calls may forbid it; QEMU's user-mode emulator does not have it. */
static bool has_single_copy(void)
{
	uint8_t from = 1, to = 0;
	struct iovec remote = { &from, 1 }, local = { &to, 1 };

	return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == 1;
}

static void progress(pf_context *context, unsigned times)
{
	while (times--)
		pf_progress(context);
}

/* Disconnected, with one error, because of this message. */
static void check_disconnects(uint8_t kind, const void *payload, size_t length, const char *what)
{
	pf_context *context = stranger_context(NULL);
	struct intruder intruder;

	intruder_enter(&intruder, context);
	/* The correct message before it is delivered, the one behind it is not. */
	assert_true(intruder_write(&intruder, MESSAGE_USER, "hello", 5));
	assert_true(intruder_write(&intruder, kind, payload, length));
	assert_true(intruder_write(&intruder, MESSAGE_USER, "hello", 5));
	if (!stranger_await_error(context))
		fail_msg("not disconnected: %s", what);
	assert_status(observed.status, PF_ERR_PROTOCOL);
	assert_int_equal(observed.messages, 1);
	intruder_leave(&intruder);
	progress(context, 20);
	assert_int_equal(observed.errors, 1);
	pf_close(context);
}

static void test_kinds(void **state)
{
	uint64_t zeros[8] = { 0 };
	unsigned kind;

	for (kind = MESSAGE_RESOLVED + 1; kind < RING_SKIP; kind += 20)
		check_disconnects((uint8_t)kind, zeros, sizeof(zeros), "unknown kind");
}

/* Each kind of message, too short and too long. */
static void test_lengths(void **state)
{
	static const struct {
		uint8_t kind;
		size_t length;
		bool or_longer;
	} kinds[] = {
		{ MESSAGE_OFFER, sizeof(struct message_offer), false },
		{ MESSAGE_PUT_BLOCK, sizeof(struct message_block), true },
		{ MESSAGE_GET_BLOCK, sizeof(struct message_block), false },
		{ MESSAGE_ATOMIC, sizeof(struct message_atomic), false },
		{ MESSAGE_PUT_ANSWER, sizeof(struct message_answer), true },
		{ MESSAGE_GET_ANSWER, sizeof(struct message_answer), true },
		{ MESSAGE_ATOMIC_ANSWER, sizeof(struct message_answer), true },
		{ MESSAGE_PUT_BLOCKS, sizeof(struct message_blocks), true },
		{ MESSAGE_COLLAPSE, sizeof(struct message_collapse), false },
		{ MESSAGE_RESOLVE, sizeof(struct resolve), false },
		{ MESSAGE_RESOLVED, sizeof(struct resolve), false },
	};
	uint8_t zeros[256] = { 0 };
	size_t i;

	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		check_disconnects(kinds[i].kind, zeros, 0, "empty");
		check_disconnects(kinds[i].kind, zeros, kinds[i].length - 1, "one byte short");
		if (!kinds[i].or_longer)
			check_disconnects(kinds[i].kind, zeros, kinds[i].length + 1,
					  "one byte long");
	}
}

static void test_pieces(void **state)
{
	static const struct {
		const char *what;
		uint32_t first, gap;
		size_t length;
	} cases[] = {
		{ "pieces without their lengths", 128, 0, 7 },
		{ "pieces without a second", 128, 0, 8 + 128 },
		{ "a second piece without bytes", 128, 63, 8 + 128 + 63 },
		{ "a first piece beyond the message", 2048, 0, 1024 },
		{ "a first piece far beyond the message", UINT32_MAX - 7, 0, 1024 },
		{ "a first piece that is too short", 120, 0, 1024 },
		{ "a second piece that is not aligned", 129, 0, 1024 },
		{ "a gap that is too long", 128, MESSAGE_ALIGNMENT, 1024 },
		{ "a gap far beyond the message", 128, UINT32_MAX, 1024 },
	};
	uint32_t pieces[256] = { 0 };
	size_t i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		pieces[0] = cases[i].first;
		pieces[1] = cases[i].gap;
		check_disconnects(MESSAGE_PIECES, pieces, cases[i].length, cases[i].what);
	}
}

static void test_offers(void **state)
{
	static const uint64_t most = (uint64_t)SHARE_GRANULES_MAX << SHARE_GRANULE_SHIFT;
	static const uint8_t shift = SHARE_GRANULE_SHIFT;
	const struct {
		const char *what;
		uint64_t initiator, target, length;
		uint16_t slot;
		uint8_t shift;
	} cases[] = {
		{ "slot that does not exist", MIB, MIB, MIB, CHANNEL_SHARES, shift },
		{ "slot far away", MIB, MIB, MIB, UINT16_MAX, shift },
		{ "granules too small", MIB, MIB, MIB, 0, shift - 1 },
		{ "shift too large", MIB, MIB, MIB, 0, 64 },
		{ "shift far too large", MIB, MIB, MIB, 0, 255 },
		{ "no bytes", MIB, MIB, 0, 0, shift },
		{ "more granules than claims can name", MIB, MIB, most + 1, 0, shift },
		{ "initiator's range wraps around", UINT64_MAX - 100, MIB, MIB, 0, shift },
		{ "target's range wraps around", MIB, UINT64_MAX - 100, MIB, 0, shift },
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		struct message_offer offer = { .initiator = cases[i].initiator,
					       .target = cases[i].target,
					       .length = cases[i].length,
					       .generation = 1,
					       .slot = cases[i].slot,
					       .put = 1,
					       .shift = cases[i].shift };

		check_disconnects(MESSAGE_OFFER, &offer, sizeof(offer), cases[i].what);
	}
}

static void test_blocks(void **state)
{
	struct {
		struct message_block block;
		uint8_t bytes[64];
	} put = { .block = { .token = 1, .address = 4096 } };
	static const uint64_t lengths[] = {
		0, 1, 63, 65, 1ull << 32, UINT64_MAX, UINT64_MAX - sizeof(struct message_block) + 1
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(lengths); i++) {
		put.block.length = lengths[i];
		check_disconnects(MESSAGE_PUT_BLOCK, &put, sizeof(put), "block of another length");
	}
	put.block.length = 0;
	check_disconnects(MESSAGE_PUT_BLOCK, &put.block, sizeof(put.block), "empty put");
	check_disconnects(MESSAGE_GET_BLOCK, &put.block, sizeof(put.block), "empty get");
}

/* Several blocks in one message. */
static void test_several_blocks(void **state)
{
	static const struct {
		const char *what;
		uint32_t count;
		uint64_t lengths[2];
		size_t length;
	} cases[] = {
		{ "blocks without their number", 2, { 32, 32 }, 15 },
		{ "no blocks", 0, { 32, 32 }, 112 },
		{ "too many blocks", MESSAGE_BLOCKS_MOST + 1, { 0, 0 }, 2048 },
		{ "far too many blocks", UINT32_MAX, { 32, 32 }, 112 },
		{ "blocks without their lengths", 2, { 32, 32 }, 47 },
		{ "blocks without bytes", 2, { 32, 32 }, 48 },
		{ "a block of no bytes", 2, { 0, 64 }, 112 },
		{ "blocks longer than the message", 2, { 32, 33 }, 112 },
		{ "blocks shorter than the message", 2, { 32, 31 }, 112 },
		{ "blocks whose lengths wrap around", 2, { UINT64_MAX, 65 }, 112 },
	};
	struct {
		struct message_blocks blocks;
		struct message_piece pieces[2];
		uint8_t bytes[2048];
	} put = { .blocks = { .token = 1 } };
	size_t i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		put.blocks.count = cases[i].count;
		put.pieces[0] = (struct message_piece){ 4096, cases[i].lengths[0] };
		put.pieces[1] = (struct message_piece){ 4096, cases[i].lengths[1] };
		check_disconnects(MESSAGE_PUT_BLOCKS, &put, cases[i].length, cases[i].what);
	}
}

static void check_atomic(unsigned op, unsigned width, uint64_t address, const char *what)
{
	struct message_atomic atomic = {
		.token = 1,
		.request = { .address = address, .op = (uint8_t)op, .width = (uint8_t)width }
	};

	check_disconnects(MESSAGE_ATOMIC, &atomic, sizeof(atomic), what);
}

static void test_atomics(void **state)
{
	unsigned width;

	check_atomic(MESSAGE_OP_NOTICE + 1, 8, 4096, "unknown operation");
	check_atomic(255, 8, 4096, "unknown operation");
	for (width = 0; width < 17; width++) {
		if (width != 4 && width != 8)
			check_atomic(PF_ATOMIC_ADD, width, 4096, "unsupported width");
	}
	check_atomic(PF_ATOMIC_ADD, 8, 4100, "not aligned");
}

static void test_answers(void **state)
{
	static const struct {
		uint8_t kind;
		int32_t status;
	} cases[] = { { MESSAGE_PUT_ANSWER, PF_PENDING },
		      { MESSAGE_ATOMIC_ANSWER, 12345 },
		      { MESSAGE_GET_ANSWER, PF_ERR_SYSTEM - 1 },
		      { MESSAGE_PUT_ANSWER, INT32_MIN } };
	size_t i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		struct message_answer answer = { .token = 1, .status = cases[i].status };

		check_disconnects(cases[i].kind, &answer, sizeof(answer),
				  "answer with a value that is no status");
	}
}

/* An answer without a request is ignored: the request may have been abandoned. */
static void test_unasked_answers(void **state)
{
	struct random_numbers numbers = random_start("hostile, unasked answers");
	pf_context *context = stranger_context(NULL);
	struct intruder intruder;
	struct message_answer answer = { 0 };
	unsigned i;

	intruder_enter(&intruder, context);
	for (i = 0; i < 3000; i++) {
		answer.token = i % 2 ? random_next(&numbers) : i;
		answer.value = random_next(&numbers);
		if (!intruder_write(&intruder, (uint8_t)(MESSAGE_PUT_ANSWER + i % 3), &answer,
				    sizeof(answer)))
			progress(context, 1);
	}
	while (!intruder_write(&intruder, MESSAGE_USER, "hello", 5) && !observed.errors)
		progress(context, 1);
	for (i = 0; i < 3000 && !observed.messages; i++) {
		progress(context, 1);
		usleep(100);
	}
	assert_int_equal(observed.messages, 1);
	assert_int_equal(observed.errors, 0);
	intruder_leave(&intruder);
	pf_close(context);
}

/* A claim word with random contents: nothing outside the offer changes. */
static void test_random_claims(void **state)
{
	struct random_numbers numbers = random_start("hostile, random claims");
	uint64_t moved = 0;
	const size_t length = MIB, room = 64 * MIB, guard = 65536;
	uint8_t *memory = test_map(room), *target = memory + room / 2;
	unsigned round, i;

	if (!has_single_copy())
		skip();
	for (round = 0; round < 50; round++) {
		pf_context *context = stranger_context(NULL);
		struct intruder intruder = { 0 };
		/* The intruder offers the end of a put: the context reads and writes in this process. */
		struct message_offer offer = { .initiator = (uintptr_t)memory,
					       .target = (uintptr_t)target,
					       .length = length,
					       .generation = 5,
					       .put = 1,
					       .shift = SHARE_GRANULE_SHIFT };
		struct share *share;

		intruder_enter(&intruder, context);
		share = &intruder.channel.memory->shares[0];
		memset(target - guard, 0xee, guard);
		memset(target + length, 0xee, guard);
		for (i = 0; i < 100; i++) {
			uint64_t claim = random_next(&numbers) & ((1ull << 40) - 1);

			/* Half of them are plausible. */
			if (i % 2)
				claim = (uint64_t)random_below(&numbers, 300) << 20 |
					random_below(&numbers, 300);
			share->claim = (uint64_t)offer.generation << 40 | claim;
			intruder_write(&intruder, MESSAGE_OFFER, &offer, sizeof(offer));
			progress(context, 3);
		}
		assert_int_equal(target[-1], 0xee);
		assert_int_equal(target[length], 0xee);
		assert_memory_equal(target - guard, target - guard + 1, guard - 1);
		assert_memory_equal(target + length, target + length + 1, guard - 1);
		moved += pf_stat(context, PF_STAT_SHARED_BYTES);
		intruder_leave(&intruder);
		pf_close(context);
	}
	/* Some were accepted. */
	assert_true(moved > 0);
	munmap(memory, room);
}

/* A context that exposes one range, and an intruder that names other memory. */
static void check_exposed(uint8_t kind, const void *message, size_t length)
{
	pf_options options;
	struct intruder intruder = { 0 };
	pf_context *context;
	unsigned tries;
	uint64_t word;

	assert_ok(pf_options_init(&options, sizeof(options), NULL));
	options.expose = 1;
	context = stranger_context(&options);
	assert_ok(pf_expose(context, &word, sizeof(word), PF_EXPOSE_READ | PF_EXPOSE_WRITE));
	intruder_enter(&intruder, context);
	share_open(&intruder.channel.memory->shares[0], 1, 1, 16);
	assert_true(intruder_write(&intruder, kind, message, length));
	assert_true(intruder_write(&intruder, MESSAGE_USER, "hello", 5));
	for (tries = 0; tries < 30000 && !observed.messages; tries++) {
		progress(context, 1);
		usleep(100);
	}
	/* The answer finds no listener: then the intruder counts as ended. */
	progress(context, 10);
	assert_int_equal(observed.messages, 1);
	/* An offer is ignored, and all else is refused. */
	if (kind == MESSAGE_OFFER)
		assert_false(share_joined(&intruder.channel.memory->shares[0], 16));
	else
		assert_true(pf_stat(context, PF_STAT_NOT_EXPOSED) > 0);
	assert_int_equal(pf_stat(context, PF_STAT_SHARED_BYTES), 0);
	intruder_leave(&intruder);
	pf_close(context);
}

/* Peers do not look at what the context exposes: the context does, for each message. */
static void test_exposed(void **state)
{
	uint8_t *memory = test_alloc(MIB), *expected = test_alloc(MIB);
	const uint64_t address = (uintptr_t)memory;
	struct {
		struct message_block block;
		uint8_t bytes[64];
	} put = { .block = { .token = 1, .address = address, .length = 64, .may_wait = 1 } };
	struct {
		struct message_blocks blocks;
		struct message_piece pieces[2];
		uint8_t bytes[64];
	} puts = { .blocks = { .token = 1, .count = 2 },
		   .pieces = { { address, 32 }, { address + 4096, 32 } } };
	struct message_atomic atomic = {
		.token = 1,
		.request = { .address = address, .operand = 1, .op = PF_ATOMIC_ADD, .width = 8 }
	};
	struct message_offer offer = { .initiator = address + MIB / 2,
				       .target = address,
				       .length = 16ull << SHARE_GRANULE_SHIFT,
				       .generation = 1,
				       .put = 1,
				       .shift = SHARE_GRANULE_SHIFT };

	memset(memory + MIB / 2, 1, MIB / 2);
	memcpy(expected, memory, MIB);
	memset(put.bytes, 1, sizeof(put.bytes));
	memset(puts.bytes, 1, sizeof(puts.bytes));
	check_exposed(MESSAGE_PUT_BLOCK, &put, sizeof(put));
	check_exposed(MESSAGE_PUT_BLOCKS, &puts, sizeof(puts));
	check_exposed(MESSAGE_GET_BLOCK, &put.block, sizeof(put.block));
	check_exposed(MESSAGE_ATOMIC, &atomic, sizeof(atomic));
	check_exposed(MESSAGE_OFFER, &offer, sizeof(offer));
	/* Seen from the context, the offer of a get would write to the intruder. */
	offer.put = 0;
	check_exposed(MESSAGE_OFFER, &offer, sizeof(offer));
	assert_memory_equal(memory, expected, MIB);
	free(expected);
	free(memory);
}

/* A message with random contents. Its lengths and kinds are plausible in part. */
static void write_random(struct intruder *intruder, struct random_numbers *numbers)
{
	uint8_t kind = (uint8_t)random_below(numbers, MESSAGE_RESOLVED + 2);
	uint64_t words[64];
	size_t length = random_below(numbers, sizeof(words)), i;

	for (i = 0; i < ARRAY_SIZE(words); i++) {
		/* Small and huge numbers, neither of which is a valid address. */
		words[i] = random_next(numbers) >> (random_below(numbers, 2) ? 56 : 0);
		words[i] |= words[i] > 256 ? 1ull << 63 : 0;
	}
	if (kind == MESSAGE_GET_BLOCK || kind == MESSAGE_PUT_BLOCK) {
		words[2] = random_below(numbers, 400);
		if (random_below(numbers, 4))
			length = sizeof(struct message_block) +
				 (kind == MESSAGE_PUT_BLOCK ? words[2] : 0);
	} else if (random_below(numbers, 2)) {
		length = kind == MESSAGE_OFFER    ? sizeof(struct message_offer) :
			 kind == MESSAGE_ATOMIC   ? sizeof(struct message_atomic) :
			 kind == MESSAGE_COLLAPSE ? sizeof(struct message_collapse) :
			 kind == MESSAGE_RESOLVE  ? sizeof(struct resolve) :
			 kind == MESSAGE_RESOLVED ? sizeof(struct resolve) :
						    sizeof(struct message_answer);
	}
	if (kind)
		intruder_write(intruder, kind, words, length);
}

static void test_random_messages(void **state)
{
	struct random_numbers numbers = random_start("hostile, random messages");
	pf_context *context = stranger_context(NULL), *other = stranger_context(NULL);
	struct address address = stranger_address_of(context);
	unsigned round, i, disconnected = 0, before;
	pf_peer *peer;

	assert_ok(pf_peer_open(other, &address, sizeof(address), NULL, &peer));
	for (round = 0; round < 300; round++) {
		struct intruder intruder;

		observed.errors = 0;
		intruder_enter(&intruder, context);
		for (i = 0; i < 60 && !observed.errors; i++) {
			write_random(&intruder, &numbers);
			progress(context, 1);
		}
		disconnected += observed.errors != 0;
		/* The whole ring. */
		if (round % 3 == 0) {
			for (i = 0; i < intruder.channel.ring.size; i += 8)
				*(uint64_t *)(void *)(intruder.channel.ring.base + i) =
					random_next(&numbers) >> random_below(&numbers, 64);
			progress(context, 20);
		}
		before = observed.messages;
		assert_status(pf_send(peer, 1, "x", 1, NULL, 0), PF_OK);
		for (i = 0; i < 3000 && observed.messages == before; i++) {
			pf_progress(other);
			pf_progress(context);
			usleep(i > 100);
		}
		assert_true(observed.messages > before);
		intruder_leave(&intruder);
		progress(context, 5);
	}
	assert_true(disconnected > 100);
	pf_close(other);
	pf_close(context);
}

/* ---- an initiator whose target is hostile ---- */

struct target {
	struct address address;
	struct channel channel; /* from the initiator */
	uint64_t cookie;
	int listener, socket;
	uint32_t life; /* the word in its inbox: life.h */
	struct inbox inbox;
	_Atomic bool stop;
	struct random_numbers numbers;
};

/* Accept the context's hello, as a process that it may copy from: this one. */
static void *accept_hello(void *arg)
{
	struct target *target = arg;
	struct connection_message hello, message;
	int inbox = stranger_inbox(), fd;

	if (inbox_view(&target->inbox, inbox) != PF_OK)
		abort();
	atomic_store(life_word(target->inbox.memory), target->life);
	target->socket = stranger_accept(target->listener);
	if (stranger_hear(target->socket, &hello, &fd) != PF_OK ||
	    channel_map(&target->channel, fd) != PF_OK)
		abort();
	message = stranger_welcome(&target->address, &hello,
				   (struct welcome){ .cookie_address = (uintptr_t)&target->cookie,
						     .cookie = target->cookie });
	stranger_say_message(target->socket, &message, &inbox, 1);
	close(inbox);
	return NULL;
}

/* Overwrite all that the target may write, as fast as possible. */
static void *overwrite(void *arg)
{
	struct target *target = arg;
	struct random_numbers *numbers = &target->numbers;

	while (!target->stop) {
		struct share *share = &target->channel.memory->shares[random_below(numbers, 4)];

		switch (random_below(numbers, 6)) {
		case 0:
			share->claim = random_next(numbers);
			break;
		case 1:
			share->claim = share->claim ^ 1ull << random_below(numbers, 40);
			break;
		case 2:
			share->moved = random_below(numbers, 300);
			break;
		case 3:
			share->moved = random_next(numbers);
			break;
		case 4:
			share->returned = random_below(numbers, 300) << 32 |
					  random_below(numbers, 300);
			break;
		default:
			target->channel.memory->tail = random_next(numbers);
			target->channel.memory->polled = (uint32_t)random_next(numbers);
		}
		if (!random_below(numbers, 64))
			usleep(10);
	}
	return NULL;
}

static unsigned completed;
static int completed_status; /* of the last */

static void on_complete(pf_context *context, const pf_completion *completion)
{
	completed++;
	completed_status = completion->status;
}

/* Answer the oldest request of the context, in place of the target that was asked. */
static void write_answer(pf_context *context, pf_context *target, uint8_t kind, size_t length)
{
	struct transfer *transfer = (struct transfer *)context->operations.active.next;
	struct host_peer *back = (struct host_peer *)first_peer(target);
	struct message_answer *answer;
	int status;

	host_peer_lock(back);
	answer = (struct message_answer *)host_peer_reserve(back, sizeof(*answer) + length,
							    &status);
	assert_non_null(answer);
	*answer = (struct message_answer){ .token = TAILQ_FIRST(&transfer->blocks)->token };
	memset(answer + 1, 0x44, length);
	host_peer_commit(back, sizeof(*answer) + length, kind, 0);
	host_peer_unlock(back);
}

/* An answer to a put is none to a get, and puts that went along take no bytes. */
static void test_wrong_answers(void **state)
{
	uint8_t local[128], remote[128];
	pf_context *context, *target;
	struct address address;
	pf_options options;
	pf_peer *peer;
	size_t i;

	assert_ok(pf_options_init(&options, sizeof(options), NULL));
	options.single_copy = 0;
	context = stranger_context(&options);
	target = stranger_context(&options);
	address = stranger_address_of(target);
	memset(local, 0x33, sizeof(local));
	assert_ok(pf_peer_open(context, &address, sizeof(address), NULL, &peer));
	completed = 0;
	assert_pending(pf_put(peer, local, (uintptr_t)remote, 1, 0, on_complete, NULL));
	while (!completed) {
		progress(context, 1);
		progress(target, 1);
	}
	completed = 0;
	for (i = 0; i < 2; i++)
		assert_pending(
			pf_put(peer, local + 64 * i, (uintptr_t)remote, 64, 0, on_complete, NULL));
	progress(context, 1);
	write_answer(context, target, MESSAGE_GET_ANSWER, 64);
	progress(context, 10);
	assert_int_equal(completed, 2);
	assert_status(completed_status, PF_ERR_PROTOCOL);
	assert_pending(pf_get(peer, local, (uintptr_t)remote, 64, on_complete, NULL));
	progress(context, 1);
	write_answer(context, target, MESSAGE_PUT_ANSWER, 0);
	progress(context, 10);
	assert_int_equal(completed, 3);
	assert_status(completed_status, PF_ERR_PROTOCOL);
	for (i = 0; i < sizeof(local); i++)
		assert_int_equal(local[i], 0x33);
	pf_close(target);
	pf_close(context);
}

static void test_overwriting_target(void **state)
{
	const size_t length = 2 * MIB, guard = MIB, room = 2 * guard + length;
	uint8_t *local = test_map(room), *remote = test_map(room);
	uint64_t remote_start = (uintptr_t)remote + guard;
	struct random_numbers numbers = random_start("hostile, overwriting target");
	unsigned round, i;

	if (!has_single_copy())
		skip();
	for (round = 0; round < 8; round++) {
		struct target target = { .address = stranger_address(),
					 .cookie = random_next(&numbers) };
		pf_context *context = stranger_context(NULL);
		pthread_t thread;
		pf_peer *peer;

		memset(local, 0x33, room);
		memset(remote, 0x33, room);
		target.numbers.state = random_next(&numbers) | 1;
		target.listener = stranger_listen(&target.address);
		assert_ok(pf_peer_open(context, &target.address, sizeof(target.address), NULL,
				       &peer));
		assert_int_equal(pthread_create(&thread, NULL, accept_hello, &target), 0);
		while (!strstr(pf_peer_path(peer), "both ends")) {
			pf_send(peer, 0, NULL, 0, NULL, 0);
			progress(context, 1);
		}
		pthread_join(thread, NULL);
		assert_int_equal(pthread_create(&thread, NULL, overwrite, &target), 0);
		completed = 0;
		for (i = 0; i < 200; i++) {
			assert_pending(i % 2 ? pf_put(peer, local + guard, remote_start, length - i,
						      0, on_complete, NULL) :
					       pf_get(peer, local + guard, remote_start, length - i,
						      on_complete, NULL));
			progress(context, 20);
		}
		progress(context, 2000);
		/* Transfers that still wait for the target end with it. */
		target.stop = true;
		pthread_join(thread, NULL);
		close(target.socket);
		assert_ok(pf_flush(context, NULL, PF_FOREVER));
		assert_int_equal(completed, 200);
		for (i = 0; i < room; i++) {
			if (local[i] != 0x33 || remote[i] != 0x33)
				fail_msg("round %u, byte %zd: %#x here, %#x there", round,
					 (ssize_t)(i - guard), local[i], remote[i]);
		}
		assert_true(stranger_await_error(context));
		assert_int_equal(observed.errors, 1);
		pf_close(context);
		channel_destroy(&target.channel);
		inbox_destroy(&target.inbox);
		close(target.listener);
	}
	munmap(local, room);
	munmap(remote, room);
}

/*
 * A target that is given up may live, and be inside its copy of a run. The transfer is complete only when
 * the target has moved the run or has ended.
 */
static void check_given_up(bool ends)
{
	const uint32_t alive = 1;
	struct target target = { .address = stranger_address(), .cookie = 17, .life = alive };
	pf_context *context = stranger_context(NULL);
	uint8_t *local = test_map(8 * MIB), *remote = test_map(8 * MIB);
	struct share *share = NULL;
	struct granules run;
	pthread_t thread;
	pf_peer *peer;
	bool last;

	target.listener = stranger_listen(&target.address);
	assert_ok(pf_peer_open(context, &target.address, sizeof(target.address), NULL, &peer));
	assert_int_equal(pthread_create(&thread, NULL, accept_hello, &target), 0);
	pf_peer_contact(peer, 0, NULL);
	while (!strstr(pf_peer_path(peer), "both ends"))
		stranger_progress(context, 1);
	pthread_join(thread, NULL);
	/* Present: no fault makes a notice. */
	memset(local, 1, 8 * MIB);
	memset(remote, 2, 8 * MIB);
	completed = 0;
	assert_pending(pf_get(peer, local, (uintptr_t)remote, 8 * MIB, on_complete, NULL));
	progress(context, 1);
	share = &target.channel.memory->shares[0];
	assert_true(share_claim_back(share, (uint32_t)(share->claim >> 40), 1, 1, &run, &last));
	close(target.socket);
	while (!process_is_dead(((struct host_peer *)peer)->process) ||
	       !notices_waiting(&context->host->notices))
		usleep(1000);
	progress(context, 1000);
	assert_int_equal(completed, 0);
	assert_int_equal(observed.errors, 0);
	/* No more of it can be claimed. */
	assert_false(share_claim_back(share, (uint32_t)(share->claim >> 40), 1, 1, &run, &last));
	if (ends)
		atomic_store(life_word(target.inbox.memory), alive | FUTEX_OWNER_DIED);
	else
		share_add_moved(share, 1);
	assert_true(stranger_await_error(context));
	assert_int_equal(completed, 1);
	assert_status(observed.status, PF_ERR_PEER);
	pf_close(context);
	inbox_destroy(&target.inbox);
	channel_destroy(&target.channel);
	close(target.listener);
	munmap(local, 8 * MIB);
	munmap(remote, 8 * MIB);
}

static void test_given_up(void **state)
{
	if (!has_single_copy())
		skip();
	check_given_up(true);
	check_given_up(false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kinds),
		cmocka_unit_test(test_lengths),
		cmocka_unit_test(test_pieces),
		cmocka_unit_test(test_offers),
		cmocka_unit_test(test_blocks),
		cmocka_unit_test(test_atomics),
		cmocka_unit_test(test_several_blocks),
		cmocka_unit_test(test_answers),
		cmocka_unit_test(test_unasked_answers),
		cmocka_unit_test(test_random_claims),
		cmocka_unit_test(test_random_messages),
		cmocka_unit_test(test_wrong_answers),
		cmocka_unit_test(test_overwriting_target),
		cmocka_unit_test(test_given_up),
		cmocka_unit_test(test_exposed),
	};

	return cmocka_run_group_tests_name("hostile", tests, stranger_set_up, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peers that were let in and write what they like into the memory that is
 * shared with them. They may break their own traffic; they may not crash us,
 * hang us, or reach anybody else's.
 */
#include "stranger.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host/inbox.h"
#include "host/message.h"

static struct {
	unsigned count;
	int status;
} error;

static unsigned arrived;

static void on_error(pf_context *context, pf_peer *peer, int status, const char *text, void *arg)
{
	error.count++;
	error.status = status;
}

static void on_message(pf_context *context, pf_peer *from, uint8_t tag, void *data, size_t length,
		       void *arg)
{
	arrived++;
}

static pf_context *open_context(const pf_options *options)
{
	pf_context *context;

	memset(&error, 0, sizeof(error));
	arrived = 0;
	assert_int_equal(pf_open(options, &context), PF_OK);
	pf_set_error(context, on_error, NULL);
	pf_set_receive(context, on_message, NULL);
	return context;
}

static void progress(pf_context *context, unsigned times)
{
	while (times--)
		pf_progress(context);
}

static bool await_error(pf_context *context)
{
	unsigned i;

	for (i = 0; i < 3000 && !error.count; i++) {
		progress(context, 10);
		usleep(100);
	}
	return error.count != 0;
}

/* Thrown out, once, for this message alone. */
static void throws_out(uint8_t kind, const void *payload, size_t length, const char *what)
{
	pf_context *context = open_context(NULL);
	struct intruder intruder;

	intruder_enter(&intruder, context);
	/* A message that is in order comes through before it. */
	assert_true(intruder_write(&intruder, MESSAGE_USER, "hello", 5));
	assert_true(intruder_write(&intruder, kind, payload, length));
	assert_true(intruder_write(&intruder, MESSAGE_USER, "hello", 5));
	if (!await_error(context))
		fail_msg("not thrown out: %s", what);
	progress(context, 10);
	assert_int_equal(error.count, 1);
	assert_int_equal(error.status, PF_ERR_REFUSED);
	assert_int_equal(arrived, 1);
	intruder_leave(&intruder);
	progress(context, 10);
	assert_int_equal(error.count, 1);
	pf_close(context);
}

static void test_kinds(void **state)
{
	uint64_t nothing[8] = { 0 };
	unsigned kind;

	for (kind = MESSAGE_ATOMIC_ANSWER + 1; kind < RING_SKIP; kind += 20)
		throws_out((uint8_t)kind, nothing, sizeof(nothing), "a kind that does not exist");
	throws_out(RING_SKIP, nothing, 8, "a skip that leads nowhere");
}

/* Every kind of message, cut short in every way. */
static void test_short(void **state)
{
	static const struct {
		uint8_t kind;
		size_t length;
		bool at_least;
	} kinds[] = {
		{ MESSAGE_OFFER, sizeof(struct message_offer), false },
		{ MESSAGE_PUT_BLOCK, sizeof(struct message_block), true },
		{ MESSAGE_GET_BLOCK, sizeof(struct message_block), false },
		{ MESSAGE_ATOMIC, sizeof(struct message_atomic), false },
		{ MESSAGE_PUT_ANSWER, sizeof(struct message_answer), true },
		{ MESSAGE_GET_ANSWER, sizeof(struct message_answer), true },
		{ MESSAGE_ATOMIC_ANSWER, sizeof(struct message_answer), true },
	};
	uint8_t nothing[256] = { 0 };
	size_t i;

	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		throws_out(kinds[i].kind, nothing, 0, "empty");
		throws_out(kinds[i].kind, nothing, kinds[i].length - 1, "one byte short");
		if (!kinds[i].at_least)
			throws_out(kinds[i].kind, nothing, kinds[i].length + 1, "one byte long");
	}
}

static void test_long(void **state)
{
	uint64_t pieces[1024] = { 0 };

	throws_out(MESSAGE_LONG, pieces, 0, "long message without a count");
	throws_out(MESSAGE_LONG, pieces, 7, "long message with half a count");
	pieces[0] = sizeof(pieces) - 7;
	throws_out(MESSAGE_LONG, pieces, sizeof(pieces), "more written than there is");
	pieces[0] = UINT64_MAX;
	throws_out(MESSAGE_LONG, pieces, sizeof(pieces), "much more written than there is");
}

static void test_offers(void **state)
{
	const struct message_offer good = { .initiator = 1 << 20,
					    .target = 1 << 20,
					    .length = 1 << 20,
					    .generation = 1,
					    .slot = 0,
					    .put = 1,
					    .shift = SHARE_GRANULE_SHIFT };
	struct message_offer offer;

	offer = good;
	offer.slot = CHANNEL_SHARES;
	throws_out(MESSAGE_OFFER, &offer, sizeof(offer), "slot that does not exist");
	offer.slot = UINT16_MAX;
	throws_out(MESSAGE_OFFER, &offer, sizeof(offer), "slot far away");
	offer = good;
	offer.shift = SHARE_GRANULE_SHIFT - 1;
	throws_out(MESSAGE_OFFER, &offer, sizeof(offer), "granules too small");
	offer.shift = 64;
	throws_out(MESSAGE_OFFER, &offer, sizeof(offer), "shift too far");
	offer.shift = 255;
	throws_out(MESSAGE_OFFER, &offer, sizeof(offer), "shift much too far");
	offer = good;
	offer.length = 0;
	throws_out(MESSAGE_OFFER, &offer, sizeof(offer), "offer of nothing");
	offer.length = (uint64_t)SHARE_GRANULES_MAX << SHARE_GRANULE_SHIFT;
	offer.length++;
	throws_out(MESSAGE_OFFER, &offer, sizeof(offer), "more granules than claims can name");
	offer = good;
	offer.initiator = UINT64_MAX - 100;
	throws_out(MESSAGE_OFFER, &offer, sizeof(offer), "initiator's end beyond memory");
	offer = good;
	offer.target = UINT64_MAX - 100;
	throws_out(MESSAGE_OFFER, &offer, sizeof(offer), "target's end beyond memory");
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

	for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		put.block.length = lengths[i];
		throws_out(MESSAGE_PUT_BLOCK, &put, sizeof(put), "block of another length");
	}
}

static void test_atomics(void **state)
{
	const struct message_atomic good = {
		.token = 1, .request = { .address = 4096, .op = PF_ADD, .width = 8 }
	};
	struct message_atomic atomic = good;
	unsigned width;

	atomic.request.op = PF_COMPARE_SWAP + 1;
	throws_out(MESSAGE_ATOMIC, &atomic, sizeof(atomic), "no such operation");
	atomic.request.op = 255;
	throws_out(MESSAGE_ATOMIC, &atomic, sizeof(atomic), "no such operation");
	atomic = good;
	for (width = 0; width < 17; width++) {
		atomic.request.width = (uint8_t)width;
		if (width != 4 && width != 8)
			throws_out(MESSAGE_ATOMIC, &atomic, sizeof(atomic), "no such width");
	}
	atomic = good;
	atomic.request.address += 4;
	throws_out(MESSAGE_ATOMIC, &atomic, sizeof(atomic), "not aligned");
}

static void test_answers(void **state)
{
	struct message_answer answer = { .token = 1, .status = PF_DONE };

	throws_out(MESSAGE_PUT_ANSWER, &answer, sizeof(answer), "answer that is no status");
	answer.status = 12345;
	throws_out(MESSAGE_ATOMIC_ANSWER, &answer, sizeof(answer), "answer that is no status");
	answer.status = PF_ERR_SYSTEM - 1;
	throws_out(MESSAGE_GET_ANSWER, &answer, sizeof(answer), "answer that is no status");
	answer.status = INT32_MIN;
	throws_out(MESSAGE_PUT_ANSWER, &answer, sizeof(answer), "answer that is no status");
}

/* Answers to what was never asked are nothing to get excited about: ours may have been abandoned. */
static void test_unasked_answers(void **state)
{
	struct random_numbers numbers = random_start("hostile, unasked answers");
	pf_context *context = open_context(NULL);
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
	assert_true(intruder_write(&intruder, MESSAGE_USER, "hello", 5));
	for (i = 0; i < 3000 && !arrived; i++) {
		progress(context, 1);
		usleep(100);
	}
	assert_int_equal(arrived, 1);
	assert_int_equal(error.count, 0);
	intruder_leave(&intruder);
	pf_close(context);
}

/* A claim word that runs wild: nothing outside the offer is touched. */
static void test_wild_claims(void **state)
{
	struct random_numbers numbers = random_start("hostile, wild claims");
	uint64_t moved = 0;
	const size_t length = 1 << 20, room = 64 << 20;
	uint8_t *memory = mmap(NULL, room, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint8_t *target = memory + room / 2;
	unsigned round, i;

	assert_ptr_not_equal(memory, MAP_FAILED);
	for (round = 0; round < 50; round++) {
		pf_context *context = open_context(NULL);
		struct intruder intruder = { 0 };
		/* The intruder offers the back of a put to us: we read there and write here. */
		struct message_offer offer = { .initiator = (uint64_t)(uintptr_t)memory,
					       .target = (uint64_t)(uintptr_t)target,
					       .length = length,
					       .generation = 5,
					       .put = 1,
					       .shift = SHARE_GRANULE_SHIFT };
		struct share *share;

		intruder_enter(&intruder, context);
		share = &intruder.channel.memory->shares[0];
		memset(target - 65536, 0xee, 65536);
		memset(target + length, 0xee, 65536);
		for (i = 0; i < 100; i++) {
			uint64_t claim = random_next(&numbers) & ((1ull << 40) - 1);

			/* Half of them near the truth. */
			if (i % 2)
				claim = (uint64_t)random_below(&numbers, 300) << 20 |
					random_below(&numbers, 300);
			atomic_store(&share->claim, (uint64_t)offer.generation << 40 | claim);
			intruder_write(&intruder, MESSAGE_OFFER, &offer, sizeof(offer));
			progress(context, 3);
		}
		for (i = 0; i < 65536; i++) {
			assert_int_equal(target[-1 - (ptrdiff_t)i], 0xee);
			assert_int_equal(target[length + i], 0xee);
		}
		moved += pf_stat(context, PF_STAT_SHARED_BYTES);
		intruder_leave(&intruder);
		pf_close(context);
	}
	/* It did believe some. */
	assert_true(moved > 0);
	munmap(memory, room);
}

/* Whatever bytes, in whatever order: never a crash, and others go on. */
static void test_random(void **state)
{
	struct random_numbers numbers = random_start("hostile, random messages");
	pf_context *context = open_context(NULL), *friend = open_context(NULL);
	struct address address = stranger_address_of(context);
	unsigned round, i, thrown_out = 0, sent = 0;
	uint64_t bytes[64];
	pf_peer *peer;

	assert_int_equal(pf_peer_open(friend, &address, sizeof(address), NULL, &peer), PF_OK);
	pf_set_receive(context, on_message, NULL);
	for (round = 0; round < 300; round++) {
		struct intruder intruder;
		unsigned before;

		error.count = 0;
		intruder_enter(&intruder, context);
		for (i = 0; i < 60 && !error.count; i++) {
			uint8_t kind = (uint8_t)random_below(&numbers, MESSAGE_ATOMIC_ANSWER + 2);
			size_t length = random_below(&numbers, sizeof(bytes)), j;

			for (j = 0; j < 64; j++) {
				/* Small numbers and huge ones; neither is an address of ours. */
				bytes[j] = random_next(&numbers) >>
					   (random_below(&numbers, 2) ? 56 : 0);
				bytes[j] |= bytes[j] > 256 ? 1ull << 63 : 0;
			}
			if (kind == MESSAGE_GET_BLOCK || kind == MESSAGE_PUT_BLOCK) {
				bytes[2] = random_below(&numbers, 400);
				if (random_below(&numbers, 4))
					length = sizeof(struct message_block) +
						 (kind == MESSAGE_PUT_BLOCK ? bytes[2] : 0);
			} else if (random_below(&numbers, 2)) {
				length = kind == MESSAGE_OFFER  ? sizeof(struct message_offer) :
					 kind == MESSAGE_ATOMIC ? sizeof(struct message_atomic) :
								  sizeof(struct message_answer);
			}
			if (kind)
				intruder_write(&intruder, kind, bytes, length);
			progress(context, 1);
		}
		thrown_out += error.count != 0;
		/* The whole ring as it comes. */
		if (round % 3 == 0) {
			for (i = 0; i < intruder.channel.ring.size; i += 8)
				*(uint64_t *)(void *)(intruder.channel.ring.base + i) =
					random_next(&numbers) >> random_below(&numbers, 64);
			progress(context, 20);
		}
		before = arrived;
		assert_int_equal(pf_send(peer, 1, "x", 1, NULL, 0), PF_DONE);
		sent++;
		for (i = 0; i < 3000 && arrived == before; i++) {
			pf_progress(friend);
			pf_progress(context);
			usleep(i > 100);
		}
		assert_true(arrived > before);
		intruder_leave(&intruder);
		progress(context, 5);
	}
	assert_true(thrown_out > 100);
	pf_close(friend);
	pf_close(context);
}

/* ---- an initiator whose target is hostile ---- */

struct target {
	struct address address;
	struct channel channel; /* from the initiator */
	struct inbox_memory *inbox;
	uint64_t cookie;
	int listener, socket;
	_Atomic bool stop;
	struct random_numbers numbers;
};

/* Let the context's hello in, as a process that may be copied from: this one. */
static void *welcome(void *arg)
{
	struct target *target = arg;
	struct connection_message message;
	struct welcome answer = { .cookie_address = (uint64_t)(uintptr_t)&target->cookie,
				  .cookie = target->cookie };
	int inbox = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING), fd;

	target->socket = stranger_accept(target->listener);
	if (stranger_hear(target->socket, &message, &fd) != PF_OK ||
	    channel_map(&target->channel, fd) != PF_OK ||
	    ftruncate(inbox, sizeof(struct inbox_memory)) < 0 ||
	    fcntl(inbox, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) < 0)
		abort();
	memcpy(answer.nonce, message.u.handshake.nonce, sizeof(answer.nonce));
	memset(&message, 0, sizeof(message));
	connection_message_seal(&message, CONNECTION_WELCOME, &answer, target->address.key);
	stranger_say(target->socket, &message, connection_message_length(CONNECTION_WELCOME),
		     &inbox, 1);
	close(inbox);
	return NULL;
}

/* Scribble over all that the target may write, as fast as it goes. */
static void *scribble(void *arg)
{
	struct target *target = arg;
	struct share *share;

	while (!atomic_load(&target->stop)) {
		share = &target->channel.memory->shares[random_below(&target->numbers, 4)];
		switch (random_below(&target->numbers, 6)) {
		case 0:
			atomic_store(&share->claim, random_next(&target->numbers));
			break;
		case 1:
			atomic_store(&share->claim,
				     atomic_load(&share->claim) ^
					     1ull << random_below(&target->numbers, 40));
			break;
		case 2:
			atomic_store(&share->moved, random_below(&target->numbers, 300));
			break;
		case 3:
			atomic_store(&share->moved, random_next(&target->numbers));
			break;
		case 4:
			atomic_store(&share->returned, random_below(&target->numbers, 300) << 32 |
							       random_below(&target->numbers, 300));
			break;
		default:
			atomic_store(&target->channel.memory->tail, random_next(&target->numbers));
			atomic_store(&target->channel.memory->polled,
				     (uint32_t)random_next(&target->numbers));
		}
		if (!random_below(&target->numbers, 64))
			usleep(10);
	}
	return NULL;
}

static unsigned completed;

static void on_complete(pf_context *context, const pf_completion *completion)
{
	completed++;
}

static void test_scribbling_target(void **state)
{
	const size_t length = 1 << 20, guard = 1 << 20;
	uint8_t *local = mmap(NULL, 2 * guard + length, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t *remote = mmap(NULL, 2 * guard + length, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct random_numbers numbers = random_start("hostile, scribbling target");
	unsigned round;

	for (round = 0; round < 8; round++) {
		struct target target = { .address = stranger_address(),
					 .cookie = random_next(&numbers) };
		pf_context *context = open_context(NULL);
		unsigned posted = 0, i;
		pthread_t thread;
		pf_peer *peer;
		size_t j;

		memset(local, 0x33, 2 * guard + length);
		memset(remote, 0x33, 2 * guard + length);
		target.numbers.state = random_next(&numbers) | 1;
		target.listener = stranger_listen(&target.address);
		assert_int_equal(pf_peer_open(context, &target.address, sizeof(target.address),
					      NULL, &peer),
				 PF_OK);
		assert_int_equal(pthread_create(&thread, NULL, welcome, &target), 0);
		while (strstr(pf_peer_path(peer), "both ends") == NULL) {
			pf_send(peer, 0, NULL, 0, NULL, 0);
			progress(context, 1);
		}
		pthread_join(thread, NULL);
		assert_int_equal(pthread_create(&thread, NULL, scribble, &target), 0);
		completed = 0;
		for (i = 0; i < 200; i++) {
			int status = i % 2 ? pf_put(peer, local + guard,
						    (uint64_t)(uintptr_t)remote + guard, length - i,
						    on_complete, NULL) :
					     pf_get(peer, local + guard,
						    (uint64_t)(uintptr_t)remote + guard, length - i,
						    on_complete, NULL);

			assert_int_equal(status, PF_OK);
			posted++;
			progress(context, 20);
		}
		progress(context, 2000);
		/* Whatever it made us wait for ends with it. */
		atomic_store(&target.stop, true);
		pthread_join(thread, NULL);
		close(target.socket);
		assert_int_equal(pf_flush(context, NULL), PF_OK);
		assert_int_equal(completed, posted);
		for (j = 0; j < 2 * guard + length; j++) {
			if (local[j] != 0x33 || remote[j] != 0x33)
				fail_msg("round %u, byte %zd: %#x here, %#x there", round,
					 (ssize_t)(j - guard), local[j], remote[j]);
		}
		assert_true(await_error(context));
		assert_int_equal(error.count, 1);
		pf_close(context);
		channel_destroy(&target.channel);
		close(target.listener);
	}
	munmap(local, 2 * guard + length);
	munmap(remote, 2 * guard + length);
}

static int set_up(void **state)
{
	alarm(60);
	return sodium_init() < 0 ? -1 : 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kinds),
		cmocka_unit_test(test_short),
		cmocka_unit_test(test_long),
		cmocka_unit_test(test_offers),
		cmocka_unit_test(test_blocks),
		cmocka_unit_test(test_atomics),
		cmocka_unit_test(test_answers),
		cmocka_unit_test(test_unasked_answers),
		cmocka_unit_test(test_wild_claims),
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_scribbling_target),
	};

	return cmocka_run_group_tests_name("hostile", tests, set_up, NULL);
}

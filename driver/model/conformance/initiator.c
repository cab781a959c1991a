// SPDX-License-Identifier: GPL-2.0
/*
 * Conformance: a block at the initiator, packet by packet. The test plays the
 * target: engine.md, sections 8 and 9.
 */
#include "test.h"

#define A 0x7f0012340000ull
#define REMOTE 0x7f0077770000ull
#define TIMEOUT 1000000ull /* ns: as guest_open gives it */

struct play {
	struct guest *guest;
	struct tables tables;
	struct wire wire;  /* the last packet that the engine sent */
	uint64_t sequence; /* and of the block, as is: */
	uint32_t slot;
};

/* The next packet of the engine is of that type, and its header is right. */
static void expect(struct play *play, uint8_t type)
{
	struct wire *wire = &play->wire;

	test_expect(play->guest, wire, type);
	play->sequence = wire_get64(wire, 32);
	play->slot = wire_get32(wire, 40);
	if (type != WIRE_HELLO) {
		assert_int_equal(wire_get64(wire, 24), 1000 + OTHER);
		assert_int_not_equal(play->sequence, 0);
		assert_in_range(play->slot, 0, 255);
	}
}

static void reply(struct play *play, struct wire *wire)
{
	guest_receive(play->guest, wire->bytes, wire->length);
}

static void reply_ack(struct play *play, uint32_t status, uint64_t value, uint64_t address)
{
	struct wire wire;

	wire_begin(&wire, WIRE_ACK, 72, OTHER, NODE, play->sequence, play->slot);
	wire_set32(&wire, 48, status);
	wire_set64(&wire, 56, value);
	wire_set64(&wire, 64, address);
	reply(play, &wire);
}

static void reply_nack(struct play *play)
{
	struct wire wire;

	wire_begin(&wire, WIRE_NACK, 48, OTHER, NODE, play->sequence, play->slot);
	reply(play, &wire);
}

static void reply_again(struct play *play, uint64_t mask)
{
	struct wire wire;

	wire_begin(&wire, WIRE_AGAIN, 56, OTHER, NODE, play->sequence, play->slot);
	wire_set64(&wire, 48, mask);
	reply(play, &wire);
}

static void reply_data(struct play *play, uint32_t offset, uint32_t length, uint8_t byte)
{
	struct wire wire;

	wire_begin(&wire, WIRE_DATA, 56 + length, OTHER, NODE, play->sequence, play->slot);
	wire_set32(&wire, 48, offset);
	wire_set32(&wire, 52, length);
	memset(wire.bytes + 56, byte, length);
	reply(play, &wire);
}

/* An attached space with memory, and a peer whose incarnation is known. */
static void open_play(struct play *play, void **state)
{
	struct wire wire;

	play->guest = *state;
	guest_attach(play->guest, &play->tables, 3, 9, 12, 48);
	guest_map(play->guest, &play->tables, A, 65536, true);
	assert_int_equal(guest_command(play->guest, EXANEST_COMMAND_PEER_SET, 0, OTHER, 0),
			 EXANEST_COMMAND_OK);
	wire_begin(&wire, WIRE_HELLO, 48, OTHER, NODE, 0, 0);
	reply(play, &wire);
	test_expect_nothing(play->guest);
}

static void submit(struct play *play, uint8_t operation, uint64_t tag, uint32_t length)
{
	struct exanest_engine_submission submission = {
		.operation = operation,
		.space = 3,
		.tag = tag,
		.local = operation == EXANEST_ENGINE_ATOMIC ? 0 : A,
		.remote = REMOTE,
		.length = length,
		.node = OTHER,
		.remote_space = 77,
		.generation = 88,
	};

	guest_submit(play->guest, &submission);
}

/* What a request says of the block. */
static void check_request(struct play *play, uint64_t address, uint32_t length, uint32_t ahead)
{
	const struct wire *wire = &play->wire;

	assert_true(wire_get64(wire, 48) == play->tables.key[0]);
	assert_true(wire_get64(wire, 56) == play->tables.key[1]);
	assert_int_equal(wire_get32(wire, 64), 77);
	assert_int_equal(wire_get32(wire, 68), 88);
	assert_true(wire_get64(wire, 72) == address);
	assert_int_equal(wire_get32(wire, 80), length);
	assert_int_equal(wire_get32(wire, 84), ahead);
}

/* PUT packets until the granules of the mask were sent; each once. */
static void expect_put(struct play *play, uint64_t granules, uint32_t length, uint32_t ahead)
{
	uint32_t offset, bytes, i;
	uint64_t mask;

	while (granules) {
		expect(play, WIRE_PUT);
		check_request(play, REMOTE, length, ahead);
		offset = wire_get32(&play->wire, 88);
		bytes = wire_get32(&play->wire, 92);
		assert_in_range(bytes, 1, guest_read32(play->guest, EXANEST_REG_LINK_PAYLOAD));
		assert_int_equal(play->wire.length, 96 + bytes);
		assert_int_equal(offset % 256, 0);
		assert_true((offset + bytes) % 256 == 0 || offset + bytes == length);
		mask = (bytes + 255) / 256 == 64 ? UINT64_MAX : (1ull << (bytes + 255) / 256) - 1;
		mask <<= offset / 256;
		assert_true((granules & mask) == mask);
		granules &= ~mask;
		for (i = 0; i < bytes; i++)
			assert_int_equal(play->wire.bytes[96 + i],
					 *(uint8_t *)guest_at(play->guest, &play->tables,
							      A + offset + i));
	}
}

static void expect_probe(struct play *play)
{
	expect(play, WIRE_PUT);
	assert_int_equal(play->wire.length, 96);
	assert_int_equal(wire_get32(&play->wire, 88), 0);
	assert_int_equal(wire_get32(&play->wire, 92), 0);
}

static void wait_for(struct play *play, uint64_t time)
{
	/* Not before it is due, but then. */
	guest_advance(play->guest, play->guest->now + time - 1000);
	test_expect_nothing(play->guest);
	guest_advance(play->guest, play->guest->now + 1000);
}

static void test_put(void **state)
{
	struct play play;

	open_play(&play, state);
	test_fill(guest_at(play.guest, &play.tables, A), 4096, 3);
	submit(&play, EXANEST_ENGINE_PUT, 1, 3000);
	expect_put(&play, 0xfff, 3000, 0);
	test_expect_nothing(play.guest);
	reply_ack(&play, EXANEST_STATUS_OK, 0, 0);
	guest_expect_completion(play.guest, 1, EXANEST_STATUS_OK);
	/* Another ACK finds no block. */
	reply_ack(&play, EXANEST_STATUS_OK, 0, 0);
	assert_int_equal(guest_counter(play.guest, EXANEST_COUNTER_PACKETS_DROPPED), 1);
}

static void test_payload(void **state)
{
	static const uint32_t payloads[] = { 256, 512, 1024, 2048, 4096 };
	struct play play;
	unsigned int i;

	for (i = 0; i < 5; i++) {
		guest_disable(*state);
		((struct guest *)*state)->next = 1 << 20;
		memset(((struct guest *)*state)->ram + (1 << 20), 0, GUEST_RAM - (1 << 20));
		guest_write32(*state, EXANEST_REG_LINK_PAYLOAD, payloads[i]);
		guest_enable(*state);
		open_play(&play, state);
		submit(&play, EXANEST_ENGINE_PUT, 1, 16384 + 100);
		/* Blocks may be sent in turn: look at the first alone. */
		guest_command(play.guest, EXANEST_COMMAND_ABORT, 0, 1, 0);
		submit(&play, EXANEST_ENGINE_PUT, 2, 16384);
		expect_put(&play, UINT64_MAX, 16384, 0);
		test_expect_nothing(play.guest);
	}
}

static void test_put_again(void **state)
{
	struct play play;

	open_play(&play, state);
	submit(&play, EXANEST_ENGINE_PUT, 1, 16384);
	expect_put(&play, UINT64_MAX, 16384, 0);
	reply_again(&play, 0x8000000000010006);
	expect_put(&play, 0x8000000000010006, 16384, 0);
	test_expect_nothing(play.guest);
	reply_nack(&play);
	test_expect_nothing(play.guest);
	/* Parked: the time-out is longer. */
	wait_for(&play, 16 * TIMEOUT);
	expect_probe(&play);
	reply_nack(&play);
	test_expect_nothing(play.guest);
	reply_again(&play, 0xff00);
	expect_put(&play, 0xff00, 16384, 0);
	reply_ack(&play, EXANEST_STATUS_OK, 0, 0);
	guest_expect_completion(play.guest, 1, EXANEST_STATUS_OK);
	assert_int_equal(guest_counter(play.guest, EXANEST_COUNTER_TIMEOUTS), 1);
}

/* Answers that do not belong to a block change nothing. */
static void test_put_strays(void **state)
{
	struct play play, stray;
	struct wire wire;

	open_play(&play, state);
	submit(&play, EXANEST_ENGINE_PUT, 1, 300);
	expect_put(&play, 3, 300, 0);
	stray = play;
	stray.sequence++;
	reply_ack(&stray, EXANEST_STATUS_OK, 0, 0);
	stray = play;
	stray.slot = (play.slot + 1) % 256;
	reply_ack(&stray, EXANEST_STATUS_OK, 0, 0);
	reply_data(&play, 0, 256, 0xff);
	reply_again(&play, 4); /* a granule that the block does not have */
	wire_begin(&wire, WIRE_ACK, 72, THIRD, NODE, play.sequence, play.slot);
	reply(&play, &wire);
	assert_int_equal(guest_command(play.guest, EXANEST_COMMAND_PEER_SET, 0, THIRD, 0),
			 EXANEST_COMMAND_OK);
	wire_begin(&wire, WIRE_HELLO, 48, THIRD, NODE, 0, 0);
	reply(&play, &wire);
	wire_begin(&wire, WIRE_ACK, 72, THIRD, NODE, play.sequence, play.slot);
	reply(&play, &wire);
	test_expect_nothing(play.guest);
	assert_int_equal(play.guest->indices->completion_producer, 0);
	assert_int_equal(guest_counter(play.guest, EXANEST_COUNTER_PACKETS_DROPPED), 6);
	reply_ack(&play, EXANEST_STATUS_OK, 0, 0);
	guest_expect_completion(play.guest, 1, EXANEST_STATUS_OK);
}

static void test_put_errors(void **state)
{
	static const struct {
		uint32_t sent, status;
		bool address;
	} errors[] = {
		{ EXANEST_STATUS_INVALID, EXANEST_STATUS_INVALID, false },
		{ EXANEST_STATUS_UNREACHABLE, EXANEST_STATUS_UNREACHABLE, false },
		{ EXANEST_STATUS_FAULT, EXANEST_STATUS_FAULT, true },
		{ EXANEST_STATUS_FAULT_TIMEOUT, EXANEST_STATUS_FAULT_TIMEOUT, true },
		{ EXANEST_STATUS_FAULT_BUSY, EXANEST_STATUS_FAULT_BUSY, true },
		{ EXANEST_STATUS_FAULT_MEMORY, EXANEST_STATUS_FAULT_MEMORY, true },
		{ EXANEST_STATUS_MEMORY, EXANEST_STATUS_MEMORY, true },
		{ EXANEST_STATUS_ABORTED, EXANEST_STATUS_ABORTED, false },
		{ 11, EXANEST_STATUS_MEMORY, true },
		{ 0xffffffff, EXANEST_STATUS_MEMORY, true },
	};
	struct exanest_engine_completion completion;
	struct play play;
	unsigned int i;

	open_play(&play, state);
	for (i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		submit(&play, EXANEST_ENGINE_PUT, i, 100);
		expect_put(&play, 1, 100, 0);
		reply_ack(&play, errors[i].sent, 0, errors[i].address ? REMOTE + 1 : 0);
		completion = guest_expect_completion(play.guest, i, errors[i].status);
		assert_true(completion.address == (errors[i].address ? REMOTE + 1 : 0));
		assert_int_equal(completion.side, errors[i].address ? 2 : 0);
	}
}

static void test_put_timeouts(void **state)
{
	static const unsigned int factors[] = { 1, 2, 4, 8, 16 };
	struct play play;
	unsigned int i;

	open_play(&play, state);
	submit(&play, EXANEST_ENGINE_PUT, 1, 100);
	expect_put(&play, 1, 100, 0);
	for (i = 0; i < 3; i++) {
		wait_for(&play, factors[i] * TIMEOUT);
		expect_probe(&play);
		test_expect_nothing(play.guest);
	}
	/* An answer begins the count anew. */
	reply_again(&play, 1);
	expect_put(&play, 1, 100, 0);
	for (i = 0; i < 5; i++) {
		wait_for(&play, factors[i] * TIMEOUT);
		expect_probe(&play);
	}
	assert_int_equal(play.guest->indices->completion_producer, 0);
	wait_for(&play, 16 * TIMEOUT);
	guest_expect_completion(play.guest, 1, EXANEST_STATUS_LINK_TIMEOUT);
	test_expect_nothing(play.guest);
	assert_int_equal(guest_counter(play.guest, EXANEST_COUNTER_TIMEOUTS), 9);
}

static void test_get(void **state)
{
	struct play play;
	uint8_t *memory;

	open_play(&play, state);
	memory = guest_at(play.guest, &play.tables, A);
	submit(&play, EXANEST_ENGINE_GET, 1, 3000);
	expect(&play, WIRE_GET);
	assert_int_equal(play.wire.length, 96);
	check_request(&play, REMOTE, 3000, 0);
	assert_true(wire_get64(&play.wire, 88) == 0xfff);
	test_expect_nothing(play.guest);
	memset(memory, 0, 4096);
	reply_data(&play, 256, 512, 0x11);
	assert_int_equal(memory[255], 0);
	assert_int_equal(memory[256], 0x11);
	assert_int_equal(memory[767], 0x11);
	assert_int_equal(memory[768], 0);
	/* What is missing is asked for again. */
	wait_for(&play, TIMEOUT);
	expect(&play, WIRE_GET);
	assert_true(wire_get64(&play.wire, 88) == 0xff9);
	/* Beyond the block, not whole granules, ACK with OK: dropped. */
	reply_data(&play, 2816, 256, 0x33);
	reply_data(&play, 0, 100, 0x33);
	reply_data(&play, 100, 256, 0x33);
	reply_ack(&play, EXANEST_STATUS_OK, 0, 0);
	reply_again(&play, 1);
	assert_int_equal(memory[0], 0);
	assert_int_equal(memory[2816], 0);
	assert_int_equal(guest_counter(play.guest, EXANEST_COUNTER_PACKETS_DROPPED), 5);
	reply_nack(&play);
	wait_for(&play, 16 * TIMEOUT);
	expect(&play, WIRE_GET);
	assert_true(wire_get64(&play.wire, 88) == 0xff9);
	reply_data(&play, 0, 256, 0x22);
	reply_data(&play, 768, 2232, 0x44);
	guest_expect_completion(play.guest, 1, EXANEST_STATUS_OK);
	assert_int_equal(memory[0], 0x22);
	assert_int_equal(memory[300], 0x11);
	assert_int_equal(memory[2999], 0x44);
	assert_int_equal(memory[3000], 0);
	/* A late packet writes nothing. */
	reply_data(&play, 0, 256, 0x99);
	assert_int_equal(memory[0], 0x22);
}

static void test_get_fault(void **state)
{
	struct exanest_engine_fault fault;
	struct play play;

	open_play(&play, state);
	submit(&play, EXANEST_ENGINE_GET, 1, 8192);
	guest_unmap(play.guest, &play.tables, A + 4096, 4096);
	expect(&play, WIRE_GET);
	/* A packet over both pages: nothing of it is written. */
	memset(guest_at(play.guest, &play.tables, A), 0, 4096);
	reply_data(&play, 2048, 4096, 0x11);
	assert_int_equal(*(uint8_t *)guest_at(play.guest, &play.tables, A + 2048), 0);
	fault = guest_expect_fault(play.guest, A + 4096);
	assert_int_equal(fault.length, 4096);
	reply_data(&play, 0, 2048, 0x22);
	assert_int_equal(guest_counter(play.guest, EXANEST_COUNTER_PACKETS_DROPPED), 1);
	/* No time-out while the driver resolves it. */
	guest_advance(play.guest, play.guest->now + 1000 * TIMEOUT);
	test_expect_nothing(play.guest);
	guest_map(play.guest, &play.tables, A + 4096, 4096, true);
	guest_command(play.guest, EXANEST_COMMAND_RESUME, 0, fault.fault, 0);
	expect(&play, WIRE_GET);
	assert_true(wire_get64(&play.wire, 88) == 0xffffffff);
	reply_data(&play, 0, 4096, 0x33);
	reply_data(&play, 4096, 4096, 0x44);
	guest_expect_completion(play.guest, 1, EXANEST_STATUS_OK);
	assert_int_equal(*(uint8_t *)guest_at(play.guest, &play.tables, A + 8191), 0x44);
}

/* NACK before the request was sent: it is sent, because the target does not keep what was dropped here. */
static void test_get_nack_first(void **state)
{
	struct exanest_engine_fault fault;
	struct play play;

	open_play(&play, state);
	submit(&play, EXANEST_ENGINE_GET, 1, 8192);
	guest_unmap(play.guest, &play.tables, A, 4096);
	expect(&play, WIRE_GET);
	reply_data(&play, 0, 256, 0x11);
	fault = guest_expect_fault(play.guest, A);
	guest_map(play.guest, &play.tables, A, 4096, true);
	guest_command(play.guest, EXANEST_COMMAND_RESUME, 0, fault.fault, 0);
	reply_nack(&play);
	reply_nack(&play);
	expect(&play, WIRE_GET);
	assert_true(wire_get64(&play.wire, 88) == 0xffffffff);
	test_expect_nothing(play.guest);
	/* PARKED; DATA ends that, whether or not it was there before. */
	reply_data(&play, 0, 256, 0x11);
	reply_nack(&play);
	reply_data(&play, 0, 256, 0x11);
	wait_for(&play, TIMEOUT);
	expect(&play, WIRE_GET);
	assert_true(wire_get64(&play.wire, 88) == 0xfffffffe);
	reply_data(&play, 256, 3840, 0x22);
	reply_data(&play, 4096, 4096, 0x33);
	guest_expect_completion(play.guest, 1, EXANEST_STATUS_OK);
}

/* A question that the link has not taken has no answer, however long that lasts. */
static void test_question_waits(void **state)
{
	struct play play;

	open_play(&play, state);
	submit(&play, EXANEST_ENGINE_PUT, 1, 100);
	expect_put(&play, 1, 100, 0);
	guest_advance(play.guest, play.guest->now + TIMEOUT);
	guest_advance(play.guest, play.guest->now + 1000 * TIMEOUT);
	guest_advance(play.guest, play.guest->now + 1000 * TIMEOUT);
	assert_int_equal(guest_counter(play.guest, EXANEST_COUNTER_TIMEOUTS), 1);
	expect_probe(&play);
	wait_for(&play, 2 * TIMEOUT);
	expect_probe(&play);
	assert_int_equal(guest_counter(play.guest, EXANEST_COUNTER_TIMEOUTS), 2);
	reply_ack(&play, EXANEST_STATUS_OK, 0, 0);
	guest_expect_completion(play.guest, 1, EXANEST_STATUS_OK);
}

static void test_atomic(void **state)
{
	struct exanest_engine_submission submission;
	struct exanest_engine_completion completion;
	struct play play;

	open_play(&play, state);
	submission = (struct exanest_engine_submission){
		.operation = EXANEST_ENGINE_ATOMIC,
		.atomic = 5,
		.space = 3,
		.tag = 1,
		.remote = REMOTE + 8,
		.length = 8,
		.node = OTHER,
		.remote_space = 77,
		.generation = 88,
		.operand = 0x1234567890abcdef,
		.compare = 0xfedcba0987654321,
	};
	guest_submit(play.guest, &submission);
	expect(&play, WIRE_ATOMIC);
	assert_int_equal(play.wire.length, 112);
	check_request(&play, REMOTE + 8, 8, 0);
	assert_int_equal(play.wire.bytes[88], 5);
	assert_true(wire_get64(&play.wire, 96) == submission.operand);
	assert_true(wire_get64(&play.wire, 104) == submission.compare);
	wait_for(&play, TIMEOUT);
	expect(&play, WIRE_ATOMIC);
	reply_nack(&play);
	wait_for(&play, 16 * TIMEOUT);
	expect(&play, WIRE_ATOMIC);
	reply_ack(&play, EXANEST_STATUS_OK, 0xabcdef, 0);
	completion = guest_expect_completion(play.guest, 1, EXANEST_STATUS_OK);
	assert_int_equal(completion.value, 0xabcdef);
}

/* A PUT that was sent ends only when the target has answered the CANCEL, or is silent for too long. */
static void test_cancel(void **state)
{
	unsigned int i;
	struct play play;

	open_play(&play, state);
	submit(&play, EXANEST_ENGINE_PUT, 1, 100);
	expect_put(&play, 1, 100, 0);
	guest_command(play.guest, EXANEST_COMMAND_ABORT, 0, 1, 0);
	expect(&play, WIRE_CANCEL);
	assert_int_equal(play.wire.length, 48);
	assert_int_equal(play.guest->indices->completion_producer, 0);
	/* Only an ACK counts: a peer that goes on sending others delays no end. */
	reply_again(&play, 1);
	reply_nack(&play);
	test_expect_nothing(play.guest);
	assert_int_equal(guest_counter(play.guest, EXANEST_COUNTER_PACKETS_DROPPED), 2);
	wait_for(&play, TIMEOUT);
	expect(&play, WIRE_CANCEL);
	reply_ack(&play, EXANEST_STATUS_OK, 0, 0);
	guest_expect_completion(play.guest, 1, EXANEST_STATUS_ABORTED);
	/* Without an answer; the space is gone at once. */
	submit(&play, EXANEST_ENGINE_PUT, 2, 100);
	submit(&play, EXANEST_ENGINE_GET, 3, 100);
	expect(&play, WIRE_PUT);
	expect(&play, WIRE_GET);
	assert_int_equal(guest_command(play.guest, EXANEST_COMMAND_SPACE_DETACH, 3, 0, 0),
			 EXANEST_COMMAND_OK);
	guest_expect_completion(play.guest, 3, EXANEST_STATUS_ABORTED);
	memset(guest_at(play.guest, &play.tables, A), 0, 256);
	reply_data(&play, 0, 100, 0x77);
	assert_int_equal(*(uint8_t *)guest_at(play.guest, &play.tables, A), 0);
	expect(&play, WIRE_CANCEL);
	for (i = 0; i < 5; i++) {
		wait_for(&play, TIMEOUT << (i < 4 ? i : 4));
		expect(&play, WIRE_CANCEL);
	}
	wait_for(&play, TIMEOUT << 4);
	guest_expect_completion(play.guest, 2, EXANEST_STATUS_ABORTED);
	test_expect_nothing(play.guest);
}

/* Nothing was sent: it ends at once. */
static void test_cancel_unsent(void **state)
{
	struct exanest_engine_fault fault;
	struct play play;

	open_play(&play, state);
	guest_unmap(play.guest, &play.tables, A, 4096);
	submit(&play, EXANEST_ENGINE_PUT, 1, 100);
	test_expect_nothing(play.guest);
	fault = guest_expect_fault(play.guest, A);
	guest_command(play.guest, EXANEST_COMMAND_REJECT, 0, fault.fault,
		      EXANEST_STATUS_FAULT_BUSY);
	guest_expect_completion(play.guest, 1, EXANEST_STATUS_FAULT_BUSY);
	test_expect_nothing(play.guest);
}

/* The first packet to a peer is HELLO; nothing else before its incarnation is known. */
static void test_hello(void **state)
{
	struct wire wire;
	struct play play;
	unsigned int i;

	open_play(&play, state);
	assert_int_equal(guest_command(play.guest, EXANEST_COMMAND_PEER_CLEAR, 0, OTHER, 0),
			 EXANEST_COMMAND_OK);
	assert_int_equal(guest_command(play.guest, EXANEST_COMMAND_PEER_SET, 0, OTHER, 0),
			 EXANEST_COMMAND_OK);
	submit(&play, EXANEST_ENGINE_PUT, 1, 100);
	expect(&play, WIRE_HELLO);
	assert_int_equal(play.wire.length, 48);
	assert_int_equal(wire_get64(&play.wire, 24), 0);
	assert_int_equal(play.sequence, 0);
	test_expect_nothing(play.guest);
	wait_for(&play, TIMEOUT);
	expect(&play, WIRE_HELLO);
	test_expect_nothing(play.guest);
	wire_begin(&wire, WIRE_HELLO, 48, OTHER, NODE, 0, 0);
	reply(&play, &wire);
	expect_put(&play, 1, 100, 0);
	reply_ack(&play, EXANEST_STATUS_OK, 0, 0);
	guest_expect_completion(play.guest, 1, EXANEST_STATUS_OK);
	/* A peer that never answers. */
	guest_command(play.guest, EXANEST_COMMAND_PEER_CLEAR, 0, OTHER, 0);
	guest_command(play.guest, EXANEST_COMMAND_PEER_SET, 0, OTHER, 0);
	submit(&play, EXANEST_ENGINE_PUT, 2, 100);
	expect(&play, WIRE_HELLO);
	for (i = 0; i < 5; i++) {
		wait_for(&play, TIMEOUT << (i < 4 ? i : 4));
		expect(&play, WIRE_HELLO);
	}
	wait_for(&play, TIMEOUT << 4);
	guest_expect_completion(play.guest, 2, EXANEST_STATUS_LINK_TIMEOUT);
}

static void test_peer_reset(void **state)
{
	struct wire wire;
	struct play play;

	open_play(&play, state);
	submit(&play, EXANEST_ENGINE_PUT, 1, 100);
	expect_put(&play, 1, 100, 0);
	/* Of an older incarnation: dropped. */
	wire_begin(&wire, WIRE_HELLO, 48, OTHER, NODE, 0, 0);
	wire_set64(&wire, 16, 999);
	reply(&play, &wire);
	test_expect_nothing(play.guest);
	/* A packet of a newer one that is not HELLO: asked. */
	wire_begin(&wire, WIRE_NACK, 48, OTHER, NODE, play.sequence, play.slot);
	wire_set64(&wire, 16, 5000);
	reply(&play, &wire);
	assert_int_equal(play.guest->indices->completion_producer, 0);
	expect(&play, WIRE_HELLO);
	assert_int_equal(wire_get64(&play.wire, 24), 1000 + OTHER);
	wire_begin(&wire, WIRE_HELLO, 48, OTHER, NODE, 0, 0);
	wire_set64(&wire, 16, 5000);
	reply(&play, &wire);
	guest_expect_completion(play.guest, 1, EXANEST_STATUS_PEER_RESET);
	submit(&play, EXANEST_ENGINE_PUT, 2, 100);
	play.wire.length = guest_transmit(play.guest, play.wire.bytes);
	assert_int_equal(play.wire.bytes[1], WIRE_PUT);
	assert_int_equal(wire_get64(&play.wire, 24), 5000);
	/* What the earlier incarnation had sent is dropped. */
	play.sequence = wire_get64(&play.wire, 32);
	play.slot = wire_get32(&play.wire, 40);
	reply_ack(&play, EXANEST_STATUS_OK, 0, 0);
	assert_int_equal(play.guest->indices->completion_producer, 1);
	guest_command(play.guest, EXANEST_COMMAND_PEER_CLEAR, 0, OTHER, 0);
	guest_expect_completion(play.guest, 2, EXANEST_STATUS_UNREACHABLE);
}

/* At most TRANSFER_BLOCKS of a transfer are outstanding, and each has its slot. */
static void test_blocks(void **state)
{
	uint32_t limit = guest_read32(*state, EXANEST_REG_TRANSFER_BLOCKS), packets = 0, count = 0;
	uint64_t sequences[256] = { 0 };
	struct wire wire;
	struct play play;
	uint64_t address;
	unsigned int i;

	open_play(&play, state);
	for (i = 0; i < 2 * limit * 16384; i += 4096)
		guest_map_to(play.guest, &play.tables, A + i, 4096, 4096, 0);
	submit(&play, EXANEST_ENGINE_GET, 1, 2 * limit * 16384);
	while ((wire.length = guest_transmit(play.guest, wire.bytes))) {
		assert_int_equal(wire.bytes[1], WIRE_GET);
		address = wire_get64(&wire, 72);
		assert_int_equal((address - REMOTE) % 16384, 0);
		assert_int_equal(wire_get32(&wire, 84),
				 2 * limit * 16384 - (address - REMOTE) - 16384);
		i = wire_get32(&wire, 40);
		assert_int_equal(sequences[i], 0);
		sequences[i] = wire_get64(&wire, 32);
		packets++;
	}
	assert_int_equal(packets, limit);
	/* The first error counts, and no further block is begun. */
	for (i = 0; i < 256; i++) {
		if (!sequences[i])
			continue;
		play.slot = i;
		play.sequence = sequences[i];
		reply_ack(&play, count ? EXANEST_STATUS_UNREACHABLE : EXANEST_STATUS_FAULT, 0,
			  count ? 0 : REMOTE + 123);
		count++;
		test_expect_nothing(play.guest);
	}
	assert_int_equal(guest_expect_completion(play.guest, 1, EXANEST_STATUS_FAULT).address,
			 REMOTE + 123);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_put),
		TEST(test_payload),
		TEST(test_put_again),
		TEST(test_put_strays),
		TEST(test_put_errors),
		TEST(test_put_timeouts),
		TEST(test_get),
		TEST(test_get_fault),
		TEST(test_atomic),
		TEST(test_cancel),
		TEST(test_cancel_unsent),
		TEST(test_hello),
		TEST(test_peer_reset),
		TEST(test_blocks),
		TEST(test_get_nack_first),
		TEST(test_question_waits),
	};

	return cmocka_run_group_tests_name("conformance: initiator", tests, NULL, NULL);
}

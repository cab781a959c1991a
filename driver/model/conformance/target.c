// SPDX-License-Identifier: GPL-2.0
/*
 * Conformance: a block at the target, malformed packets, incarnations. The
 * test plays the initiator: engine.md, sections 9 and 10.
 */
#include "test.h"

#define A 0x7f0012340000ull

struct play {
	struct guest *guest;
	struct tables tables;
	struct wire wire; /* the last packet that the engine sent */
};

static void send(struct play *play, const struct wire *wire)
{
	guest_receive(play->guest, wire->bytes, wire->length);
}

/* The answer of the engine to a block. */
static void expect(struct play *play, uint8_t type, uint64_t sequence, uint32_t slot)
{
	test_expect(play->guest, &play->wire, type);
	assert_int_equal(wire_get64(&play->wire, 32), sequence);
	assert_int_equal(wire_get32(&play->wire, 40), slot);
}

static void expect_ack(struct play *play, uint64_t sequence, uint32_t slot, uint32_t status,
		       uint64_t value, uint64_t address)
{
	expect(play, WIRE_ACK, sequence, slot);
	assert_int_equal(play->wire.length, 72);
	assert_int_equal(wire_get32(&play->wire, 48), status);
	assert_int_equal(wire_get32(&play->wire, 52), 0);
	assert_true(wire_get64(&play->wire, 56) == value);
	assert_true(wire_get64(&play->wire, 64) == address);
	test_expect_nothing(play->guest);
}

static struct wire make_put(const struct play *play, uint64_t sequence, uint32_t slot,
			    uint64_t address, uint32_t block, uint32_t offset, uint32_t length)
{
	struct wire wire;

	wire_begin(&wire, WIRE_PUT, 96 + length, OTHER, NODE, sequence, slot);
	wire_request(&wire, &play->tables, address, block);
	wire_set32(&wire, 84, 4711);
	wire_set32(&wire, 88, offset);
	wire_set32(&wire, 92, length);
	memset(wire.bytes + 96, (int)(sequence & 0xff), length);
	return wire;
}

static struct wire make_get(const struct play *play, uint64_t sequence, uint32_t slot,
			    uint64_t address, uint32_t block, uint64_t mask)
{
	struct wire wire;

	wire_begin(&wire, WIRE_GET, 96, OTHER, NODE, sequence, slot);
	wire_request(&wire, &play->tables, address, block);
	wire_set64(&wire, 88, mask);
	return wire;
}

static struct wire make_add(const struct play *play, uint64_t sequence, uint32_t slot,
			    uint64_t address, uint64_t operand)
{
	struct wire wire;

	wire_begin(&wire, WIRE_ATOMIC, 112, OTHER, NODE, sequence, slot);
	wire_request(&wire, &play->tables, address, 8);
	wire_set64(&wire, 96, operand);
	return wire;
}

static struct wire make_cancel(uint64_t sequence, uint32_t slot)
{
	struct wire wire;

	wire_begin(&wire, WIRE_CANCEL, 48, OTHER, NODE, sequence, slot);
	return wire;
}

static void hello(struct play *play, uint64_t incarnation)
{
	struct wire wire;

	wire_begin(&wire, WIRE_HELLO, 48, OTHER, NODE, 0, 0);
	wire_set64(&wire, 16, incarnation);
	send(play, &wire);
}

static void open_play(struct play *play, void **state)
{
	play->guest = *state;
	guest_attach(play->guest, &play->tables, 3, 9, 12, 48);
	guest_map(play->guest, &play->tables, A, 65536, true);
	assert_int_equal(guest_command(play->guest, EXANEST_COMMAND_PEER_SET, 0, OTHER, 0),
			 EXANEST_COMMAND_OK);
	hello(play, 1000 + OTHER);
	test_expect_nothing(play->guest);
}

static uint8_t *at(struct play *play, uint64_t address)
{
	return guest_at(play->guest, &play->tables, address);
}

static void test_put(void **state)
{
	struct play play;
	struct wire wire;

	open_play(&play, state);
	memset(at(&play, A), 0, 4096);
	/* In any order, and again. */
	wire = make_put(&play, 5, 255, A + 100, 700, 512, 188);
	send(&play, &wire);
	send(&play, &wire);
	test_expect_nothing(play.guest);
	wire = make_put(&play, 5, 255, A + 100, 700, 0, 0);
	send(&play, &wire);
	expect(&play, WIRE_AGAIN, 5, 255);
	assert_int_equal(wire_get64(&play.wire, 48), 3);
	wire = make_put(&play, 5, 255, A + 100, 700, 0, 512);
	send(&play, &wire);
	expect_ack(&play, 5, 255, EXANEST_STATUS_OK, 0, 0);
	assert_int_equal(at(&play, A)[99], 0);
	assert_int_equal(at(&play, A)[100], 5);
	assert_int_equal(at(&play, A)[799], 5);
	assert_int_equal(at(&play, A)[800], 0);
	/* Once it has ended nothing is written any more; the ACK comes again. */
	memset(at(&play, A), 0, 4096);
	send(&play, &wire);
	expect_ack(&play, 5, 255, EXANEST_STATUS_OK, 0, 0);
	assert_int_equal(at(&play, A)[100], 0);
	/* A lower sequence is dropped, another block with the same one too. */
	wire = make_put(&play, 4, 255, A, 100, 0, 100);
	send(&play, &wire);
	wire = make_put(&play, 5, 255, A + 101, 700, 0, 512);
	send(&play, &wire);
	wire = make_put(&play, 5, 255, A + 100, 701, 0, 512);
	send(&play, &wire);
	test_expect_nothing(play.guest);
	assert_int_equal(at(&play, A)[0], 0);
	assert_int_equal(guest_counter(play.guest, EXANEST_COUNTER_PACKETS_DROPPED), 3);
	/* A higher one begins anew. */
	wire = make_put(&play, 1ull << 60, 255, A, 100, 0, 100);
	wire.bytes[96] = 0xab;
	send(&play, &wire);
	expect_ack(&play, 1ull << 60, 255, EXANEST_STATUS_OK, 0, 0);
	assert_int_equal(at(&play, A)[0], 0xab);
}

static void test_put_fault(void **state)
{
	struct exanest_engine_fault fault;
	struct play play;
	struct wire wire;

	open_play(&play, state);
	guest_unmap(play.guest, &play.tables, A + 4096, 4096);
	memset(at(&play, A), 0, 4096);
	wire = make_put(&play, 7, 0, A, 16384, 0, 256);
	send(&play, &wire);
	/* Over the end of the page: none of it is written. */
	wire = make_put(&play, 7, 0, A, 16384, 2048, 4096);
	send(&play, &wire);
	expect(&play, WIRE_NACK, 7, 0);
	assert_int_equal(at(&play, A)[0], 7);
	assert_int_equal(at(&play, A)[2048], 0);
	fault = guest_expect_fault(play.guest, A + 4096);
	assert_int_equal(fault.length, 12288);
	assert_int_equal(fault.flags, EXANEST_ENGINE_FAULT_WRITE | EXANEST_ENGINE_FAULT_REMOTE);
	assert_int_equal(fault.space, 3);
	assert_int_equal(fault.generation, 9);
	assert_int_equal(fault.node, OTHER);
	assert_int_equal(fault.ahead, 4711);
	/* While it is parked nothing is written, and there is one fault. */
	wire = make_put(&play, 7, 0, A, 16384, 256, 256);
	send(&play, &wire);
	expect(&play, WIRE_NACK, 7, 0);
	assert_int_equal(at(&play, A)[256], 0);
	wire = make_put(&play, 7, 0, A, 16384, 0, 0);
	send(&play, &wire);
	expect(&play, WIRE_NACK, 7, 0);
	assert_false(guest_fault(play.guest, &fault));
	guest_map(play.guest, &play.tables, A + 4096, 4096, true);
	assert_int_equal(guest_command(play.guest, EXANEST_COMMAND_RESUME, 0, fault.fault, 0),
			 EXANEST_COMMAND_OK);
	expect(&play, WIRE_AGAIN, 7, 0);
	assert_true(wire_get64(&play.wire, 48) == ~1ull);
	wire = make_put(&play, 7, 0, A, 16384, 256, 3840);
	send(&play, &wire);
	wire = make_put(&play, 7, 0, A, 16384, 4096, 4096);
	send(&play, &wire);
	wire = make_put(&play, 7, 0, A, 16384, 8192, 4096);
	send(&play, &wire);
	test_expect_nothing(play.guest);
	wire = make_put(&play, 7, 0, A, 16384, 12288, 4096);
	send(&play, &wire);
	expect_ack(&play, 7, 0, EXANEST_STATUS_OK, 0, 0);
	assert_int_equal(at(&play, A + 16383)[0], 7);
}

/* A PUT of a block whose only page is absent: the fault that it meets. */
static struct exanest_engine_fault put_absent(struct play *play, uint64_t sequence, uint32_t slot,
					      uint64_t address, uint32_t length)
{
	struct wire wire = make_put(play, sequence, slot, address, length, 0, length);

	send(play, &wire);
	expect(play, WIRE_NACK, sequence, slot);
	return guest_expect_fault(play->guest, address);
}

/* REJECT names the byte that cannot be had; one that is not of the block is not believed. */
static void test_reject_address(void **state)
{
	const struct {
		uint64_t given, reported;
	} cases[] = { { 50, 50 }, { 99, 99 }, { 100, 10 }, { 9, 10 } };
	struct exanest_engine_command reject = { .operation = EXANEST_COMMAND_REJECT };
	struct play play;
	unsigned int i;

	open_play(&play, state);
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		reject.argument[0] = put_absent(&play, 7 + i, 0, A + 65536 + 10, 90).fault;
		reject.argument[1] = EXANEST_STATUS_FAULT;
		reject.argument[2] = A + 65536 + cases[i].given;
		assert_int_equal(guest_execute(play.guest, &reject), EXANEST_COMMAND_OK);
		expect_ack(&play, 7 + i, 0, EXANEST_STATUS_FAULT, 0, A + 65536 + cases[i].reported);
	}
}

/* All faults of one block say that they are of it, and those of another that they are not. */
static void test_fault_request(void **state)
{
	struct exanest_engine_fault first, second, other;
	struct play play;

	open_play(&play, state);
	first = put_absent(&play, 7, 0, A + 65536, 100);
	guest_command(play.guest, EXANEST_COMMAND_RESUME, 0, first.fault, 0);
	expect(&play, WIRE_AGAIN, 7, 0);
	second = put_absent(&play, 7, 0, A + 65536, 100);
	assert_int_not_equal(first.request, 0);
	assert_int_equal(first.request, second.request);
	other = put_absent(&play, 8, 0, A + 65536, 100);
	assert_int_not_equal(first.request, other.request);
}

static void test_put_reject(void **state)
{
	struct exanest_engine_fault fault;
	struct play play;
	struct wire wire;

	open_play(&play, state);
	fault = put_absent(&play, 7, 0, A + 65536, 100);
	assert_int_equal(guest_command(play.guest, EXANEST_COMMAND_REJECT, 0, fault.fault,
				       EXANEST_STATUS_FAULT_TIMEOUT),
			 EXANEST_COMMAND_OK);
	expect_ack(&play, 7, 0, EXANEST_STATUS_FAULT_TIMEOUT, 0, A + 65536);
	wire = make_put(&play, 7, 0, A + 65536, 100, 0, 100);
	send(&play, &wire);
	expect_ack(&play, 7, 0, EXANEST_STATUS_FAULT_TIMEOUT, 0, A + 65536);
	/* Beyond the bits of the space. */
	wire = make_put(&play, 8, 0, (1ull << 48) - 10, 100, 0, 100);
	send(&play, &wire);
	expect(&play, WIRE_NACK, 8, 0);
	guest_map(play.guest, &play.tables, (1ull << 48) - 10, 10, true);
	fault = guest_expect_fault(play.guest, (1ull << 48) - 10);
	guest_command(play.guest, EXANEST_COMMAND_RESUME, 0, fault.fault, 0);
	expect(&play, WIRE_AGAIN, 8, 0);
	send(&play, &wire);
	expect_ack(&play, 8, 0, EXANEST_STATUS_FAULT, 0, 1ull << 48);
}

/* A new block in the slot of one that is parked: that one's fault is gone. */
static void test_fault_superseded(void **state)
{
	struct exanest_engine_fault fault;
	struct play play;
	struct wire wire;

	open_play(&play, state);
	fault = put_absent(&play, 7, 9, A + 65536, 100);
	wire = make_put(&play, 8, 9, A, 100, 0, 100);
	send(&play, &wire);
	expect_ack(&play, 8, 9, EXANEST_STATUS_OK, 0, 0);
	assert_int_equal(guest_command(play.guest, EXANEST_COMMAND_RESUME, 0, fault.fault, 0),
			 EXANEST_COMMAND_NOT_FOUND);
}

/* DATA until the granules of the mask have come, each once. */
static void expect_data(struct play *play, uint64_t sequence, uint32_t slot, uint64_t address,
			uint32_t block, uint64_t granules)
{
	uint32_t offset, length, i;
	uint64_t mask;

	while (granules) {
		expect(play, WIRE_DATA, sequence, slot);
		offset = wire_get32(&play->wire, 48);
		length = wire_get32(&play->wire, 52);
		assert_in_range(length, 1, guest_read32(play->guest, EXANEST_REG_LINK_PAYLOAD));
		assert_int_equal(play->wire.length, 56 + length);
		assert_true(offset % 256 == 0 &&
			    ((offset + length) % 256 == 0 || offset + length == block));
		mask = (length + 255) / 256 == 64 ? UINT64_MAX : (1ull << (length + 255) / 256) - 1;
		mask <<= offset / 256;
		assert_true((granules & mask) == mask);
		granules &= ~mask;
		for (i = 0; i < length; i++)
			assert_int_equal(play->wire.bytes[56 + i], *at(play, address + offset + i));
	}
}

static void test_get(void **state)
{
	struct exanest_engine_fault fault;
	struct play play;
	struct wire wire;

	open_play(&play, state);
	test_fill(at(&play, A), 4096, 1);
	wire = make_get(&play, 3, 17, A + 50, 3000, 0xfff);
	send(&play, &wire);
	expect_data(&play, 3, 17, A + 50, 3000, 0xfff);
	test_expect_nothing(play.guest);
	wire = make_get(&play, 3, 17, A + 50, 3000, 0x804);
	send(&play, &wire);
	expect_data(&play, 3, 17, A + 50, 3000, 0x804);
	test_expect_nothing(play.guest);
	/* A fault keeps what was asked for. */
	guest_unmap(play.guest, &play.tables, A, 4096);
	send(&play, &wire);
	expect(&play, WIRE_NACK, 3, 17);
	fault = guest_expect_fault(play.guest, A + 50 + 512);
	assert_int_equal(fault.flags, EXANEST_ENGINE_FAULT_REMOTE);
	assert_int_equal(fault.length, 3000 - 512);
	wire = make_get(&play, 3, 17, A + 50, 3000, 0x1);
	send(&play, &wire);
	expect(&play, WIRE_NACK, 3, 17);
	guest_map(play.guest, &play.tables, A, 4096, false);
	guest_command(play.guest, EXANEST_COMMAND_RESUME, 0, fault.fault, 0);
	expect_data(&play, 3, 17, A + 50, 3000, 0x805);
	test_expect_nothing(play.guest);
}

/* DATA that is due after an invalidation is not read through the old translation. */
static void test_get_invalidated(void **state)
{
	struct exanest_engine_fault fault;
	struct play play;
	struct wire wire;

	open_play(&play, state);
	wire = make_get(&play, 3, 17, A, 16384, UINT64_MAX);
	send(&play, &wire);
	expect(&play, WIRE_DATA, 3, 17);
	guest_unmap(play.guest, &play.tables, A, 16384);
	expect(&play, WIRE_NACK, 3, 17);
	fault = guest_expect_fault(play.guest, A + wire_get32(&play.wire, 48) + 4096);
	guest_command(play.guest, EXANEST_COMMAND_SPACE_DETACH, 3, 0, 0);
	expect_ack(&play, 3, 17, EXANEST_STATUS_UNREACHABLE, 0, 0);
	assert_int_equal(guest_command(play.guest, EXANEST_COMMAND_RESUME, 0, fault.fault, 0),
			 EXANEST_COMMAND_NOT_FOUND);
}

static void test_atomic(void **state)
{
	uint64_t *word;
	struct exanest_engine_fault fault;
	struct play play;
	struct wire wire;

	open_play(&play, state);
	word = (uint64_t *)at(&play, A + 8);
	*word = 10;
	wire = make_add(&play, 3, 0, A + 8, 5);
	send(&play, &wire);
	expect_ack(&play, 3, 0, EXANEST_STATUS_OK, 10, 0);
	/* Asked again: not executed again. */
	send(&play, &wire);
	send(&play, &wire);
	expect_ack(&play, 3, 0, EXANEST_STATUS_OK, 10, 0);
	assert_int_equal(*word, 15);
	guest_unmap(play.guest, &play.tables, A, 4096);
	wire = make_add(&play, 4, 0, A + 8, 5);
	send(&play, &wire);
	expect(&play, WIRE_NACK, 4, 0);
	fault = guest_expect_fault(play.guest, A + 8);
	assert_int_equal(fault.flags, EXANEST_ENGINE_FAULT_WRITE | EXANEST_ENGINE_FAULT_REMOTE |
					      EXANEST_ENGINE_FAULT_ATOMIC);
	guest_map(play.guest, &play.tables, A, 4096, true);
	guest_command(play.guest, EXANEST_COMMAND_RESUME, 0, fault.fault, 0);
	expect_ack(&play, 4, 0, EXANEST_STATUS_OK, 0, 0);
	assert_int_equal(*(uint64_t *)at(&play, A + 8), 5);
	/* Asked again when its space is gone: it was executed, and is not denied. */
	assert_int_equal(guest_command(play.guest, EXANEST_COMMAND_SPACE_DETACH, 3, 0, 0),
			 EXANEST_COMMAND_OK);
	send(&play, &wire);
	expect_ack(&play, 4, 0, EXANEST_STATUS_OK, 0, 0);
	assert_int_equal(guest_counter(play.guest, EXANEST_COUNTER_PACKETS_DENIED), 0);
	assert_int_equal(guest_counter(play.guest, EXANEST_COUNTER_ATOMICS_DONE), 2);
}

static void test_cancel(void **state)
{
	struct exanest_engine_fault fault;
	struct play play;
	struct wire wire, cancel;

	open_play(&play, state);
	memset(at(&play, A), 0, 4096);
	wire = make_put(&play, 7, 9, A, 512, 0, 256);
	send(&play, &wire);
	cancel = make_cancel(7, 9);
	send(&play, &cancel);
	expect_ack(&play, 7, 9, EXANEST_STATUS_ABORTED, 0, 0);
	wire = make_put(&play, 7, 9, A, 512, 256, 256);
	send(&play, &wire);
	expect_ack(&play, 7, 9, EXANEST_STATUS_ABORTED, 0, 0);
	assert_int_equal(at(&play, A)[256], 0);
	/* Before the block: the block finds it ended. */
	cancel = make_cancel(8, 9);
	send(&play, &cancel);
	expect_ack(&play, 8, 9, EXANEST_STATUS_ABORTED, 0, 0);
	wire = make_put(&play, 8, 9, A, 256, 0, 256);
	send(&play, &wire);
	assert_int_equal(at(&play, A)[0], 7);
	/* A parked block. */
	while (guest_transmit(play.guest, play.wire.bytes))
		;
	wire = make_put(&play, 10, 9, A + 65536, 256, 0, 256);
	send(&play, &wire);
	expect(&play, WIRE_NACK, 10, 9);
	fault = guest_expect_fault(play.guest, A + 65536);
	cancel = make_cancel(10, 9);
	send(&play, &cancel);
	expect_ack(&play, 10, 9, EXANEST_STATUS_ABORTED, 0, 0);
	assert_int_equal(guest_command(play.guest, EXANEST_COMMAND_RESUME, 0, fault.fault, 0),
			 EXANEST_COMMAND_NOT_FOUND);
	/* One that is done stays done. */
	wire = make_put(&play, 11, 9, A, 256, 0, 256);
	send(&play, &wire);
	expect_ack(&play, 11, 9, EXANEST_STATUS_OK, 0, 0);
	cancel = make_cancel(11, 9);
	send(&play, &cancel);
	expect_ack(&play, 11, 9, EXANEST_STATUS_OK, 0, 0);
}

/* Requests without right reach nothing. */
static void test_denied(void **state)
{
	static const struct {
		unsigned int offset;
		uint32_t change;
	} changes[] = { { 48, 1 }, { 52, 1u << 31 }, { 56, 1 }, { 60, 1u << 31 },
			{ 64, 1 }, { 64, 1u << 31 }, { 68, 1 } };
	struct play play;
	struct wire wire;
	unsigned int i;

	open_play(&play, state);
	memset(at(&play, A), 0, 4096);
	for (i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		wire = make_put(&play, 3 * i + 1, 9, A, 256, 0, 256);
		wire_set32(&wire, changes[i].offset,
			   wire_get32(&wire, changes[i].offset) ^ changes[i].change);
		send(&play, &wire);
		expect_ack(&play, 3 * i + 1, 9, EXANEST_STATUS_UNREACHABLE, 0, 0);
		wire = make_get(&play, 3 * i + 2, 9, A, 256, 1);
		wire_set32(&wire, changes[i].offset,
			   wire_get32(&wire, changes[i].offset) ^ changes[i].change);
		send(&play, &wire);
		expect_ack(&play, 3 * i + 2, 9, EXANEST_STATUS_UNREACHABLE, 0, 0);
		wire = make_add(&play, 3 * i + 3, 9, A, 1);
		wire_set32(&wire, changes[i].offset,
			   wire_get32(&wire, changes[i].offset) ^ changes[i].change);
		send(&play, &wire);
		expect_ack(&play, 3 * i + 3, 9, EXANEST_STATUS_UNREACHABLE, 0, 0);
	}
	assert_int_equal(at(&play, A)[0], 0);
	assert_int_equal(guest_counter(play.guest, EXANEST_COUNTER_PACKETS_DENIED), 21);
	/* In the middle of a block the space is detached, and its number attached anew. */
	wire = make_put(&play, 100, 9, A, 512, 0, 256);
	send(&play, &wire);
	guest_command(play.guest, EXANEST_COMMAND_SPACE_DETACH, 3, 0, 0);
	expect_ack(&play, 100, 9, EXANEST_STATUS_UNREACHABLE, 0, 0);
	memset(at(&play, A), 0, 4096);
	play.tables.generation++;
	assert_int_equal(guest_attach_tables(play.guest, &play.tables), EXANEST_COMMAND_OK);
	wire_set32(&wire, 88, 256);
	send(&play, &wire);
	expect_ack(&play, 100, 9, EXANEST_STATUS_UNREACHABLE, 0, 0);
	assert_int_equal(at(&play, A)[256], 0);
}

/* Each change makes a packet malformed: it is dropped without an answer or an effect. */
static const struct {
	uint8_t type; /* of the packet that is changed */
	unsigned int offset, width;
	uint64_t value;
} malformed[] = {
	{ WIRE_PUT, 0, 1, 0 },
	{ WIRE_PUT, 0, 1, 2 },
	{ WIRE_PUT, 1, 1, 0 },
	{ WIRE_PUT, 1, 1, 10 },
	{ WIRE_PUT, 1, 1, 255 },
	{ WIRE_PUT, 1, 1, WIRE_GET },
	{ WIRE_PUT, 1, 1, WIRE_ACK },
	{ WIRE_PUT, 2, 1, 1 },
	{ WIRE_PUT, 3, 1, 1 },
	{ WIRE_PUT, 4, 4, 0 },
	{ WIRE_PUT, 4, 4, 96 },
	{ WIRE_PUT, 4, 4, 0xffffffff },
	{ WIRE_PUT, 8, 4, 0 },
	{ WIRE_PUT, 8, 4, NODE },
	{ WIRE_PUT, 8, 4, THIRD },
	{ WIRE_PUT, 8, 4, OTHER | 0x10000 },
	{ WIRE_PUT, 12, 4, 0 },
	{ WIRE_PUT, 12, 4, OTHER },
	{ WIRE_PUT, 16, 8, 0 },
	{ WIRE_PUT, 16, 8, 999 + OTHER },
	{ WIRE_PUT, 32, 8, 0 },
	{ WIRE_PUT, 40, 4, 256 },
	{ WIRE_PUT, 40, 4, 0xffffffff },
	{ WIRE_PUT, 44, 4, 1 },
	{ WIRE_PUT, 72, 8, (1ull << 57) - 255 },
	{ WIRE_PUT, 72, 8, UINT64_MAX - 100 },
	{ WIRE_PUT, 80, 4, 0 },
	{ WIRE_PUT, 80, 4, 255 },
	{ WIRE_PUT, 80, 4, 16385 },
	{ WIRE_PUT, 80, 4, 0xffffffff },
	{ WIRE_PUT, 88, 4, 1 },
	{ WIRE_PUT, 88, 4, 512 },
	{ WIRE_PUT, 88, 4, 0xffffff00 },
	{ WIRE_PUT, 92, 4, 0 },
	{ WIRE_PUT, 92, 4, 255 },
	{ WIRE_PUT, 92, 4, 257 },
	{ WIRE_PUT, 92, 4, 0xffffffff },
	{ WIRE_GET, 88, 8, 0 },
	{ WIRE_GET, 88, 8, 4 },
	{ WIRE_GET, 80, 4, 0 },
	{ WIRE_GET, 72, 8, 1ull << 57 },
	{ WIRE_GET, 4, 4, 97 },
	{ WIRE_ATOMIC, 80, 4, 2 },
	{ WIRE_ATOMIC, 80, 4, 16 },
	{ WIRE_ATOMIC, 72, 8, A + 4 },
	{ WIRE_ATOMIC, 88, 1, 6 },
	{ WIRE_ATOMIC, 88, 1, 255 },
	{ WIRE_ATOMIC, 89, 1, 1 },
	{ WIRE_ATOMIC, 95, 1, 1 },
	{ WIRE_CANCEL, 32, 8, 0 },
	{ WIRE_CANCEL, 4, 4, 56 },
	{ WIRE_CANCEL, 1, 1, WIRE_NACK }, /* no block waits for it, as for: */
	{ WIRE_CANCEL, 1, 1, WIRE_AGAIN },
	{ WIRE_HELLO, 32, 8, 1 },
	{ WIRE_HELLO, 40, 4, 1 },
	{ WIRE_HELLO, 16, 8, 999 },
	{ WIRE_HELLO, 8, 4, THIRD },
	{ WIRE_HELLO, 12, 4, THIRD },
};

static struct wire good(const struct play *play, uint8_t type, uint64_t sequence)
{
	struct wire wire;

	switch (type) {
	case WIRE_PUT:
		return make_put(play, sequence, 9, A, 512, 0, 256);
	case WIRE_GET:
		return make_get(play, sequence, 9, A, 512, 3);
	case WIRE_ATOMIC:
		return make_add(play, sequence, 9, A, 1);
	case WIRE_CANCEL:
		return make_cancel(sequence, 9);
	default:
		wire_begin(&wire, WIRE_HELLO, 48, OTHER, NODE, 0, 0);
		return wire;
	}
}

static void test_malformed(void **state)
{
	struct play play;
	struct wire wire;
	unsigned int i, type;

	open_play(&play, state);
	memset(at(&play, A), 0, 4096);
	for (i = 0; i < sizeof(malformed) / sizeof(malformed[0]); i++) {
		wire = good(&play, malformed[i].type, i + 1);
		memcpy(wire.bytes + malformed[i].offset, &malformed[i].value, malformed[i].width);
		send(&play, &wire);
		if (guest_transmit(play.guest, wire.bytes))
			fail_msg("change %u of the table has an answer", i);
		if (guest_counter(play.guest, EXANEST_COUNTER_PACKETS_DROPPED) != i + 1)
			fail_msg("change %u of the table is not dropped", i);
	}
	/* Shorter than they say, and longer. */
	for (type = WIRE_HELLO; type <= WIRE_CANCEL; type++) {
		wire = good(&play, (uint8_t)type, 1000);
		for (i = 0; i < wire.length; i++)
			guest_receive(play.guest, wire.bytes, i);
		guest_receive(play.guest, wire.bytes, wire.length + 1);
		test_expect_nothing(play.guest);
	}
	for (i = 0; i < 4096; i++)
		assert_int_equal(at(&play, A)[i], 0);
}

/* Requests for another incarnation of this engine, or before HELLO. */
static void test_incarnations(void **state)
{
	struct play play;
	struct wire wire;

	open_play(&play, state);
	*(uint64_t *)at(&play, A) = 0;
	wire = make_add(&play, 5, 0, A, 1);
	wire_set64(&wire, 24, 999 + NODE);
	send(&play, &wire);
	expect(&play, WIRE_HELLO, 0, 0);
	assert_int_equal(wire_get64(&play.wire, 24), 1000 + OTHER);
	test_expect_nothing(play.guest);
	wire = make_add(&play, 5, 0, A, 1);
	send(&play, &wire);
	expect_ack(&play, 5, 0, EXANEST_STATUS_OK, 0, 0);
	/* After a reset of this engine the same packet is not executed again. */
	guest_disable(play.guest);
	guest_write64(play.guest, EXANEST_REG_INCARNATION, 2000 + NODE);
	guest_enable(play.guest);
	assert_int_equal(guest_attach_tables(play.guest, &play.tables), EXANEST_COMMAND_OK);
	send(&play, &wire);
	test_expect_nothing(play.guest); /* the node is not set */
	assert_int_equal(guest_command(play.guest, EXANEST_COMMAND_PEER_SET, 0, OTHER, 0),
			 EXANEST_COMMAND_OK);
	send(&play, &wire);
	play.wire.length = guest_transmit(play.guest, play.wire.bytes);
	assert_int_equal(play.wire.bytes[1], WIRE_HELLO);
	assert_int_equal(wire_get64(&play.wire, 16), 2000 + NODE);
	assert_int_equal(wire_get64(&play.wire, 24), 0);
	assert_int_equal(*(uint64_t *)at(&play, A), 1);
	/* HELLO that does not know this engine yet is answered. */
	wire_begin(&wire, WIRE_HELLO, 48, OTHER, NODE, 0, 0);
	wire_set64(&wire, 24, 0);
	send(&play, &wire);
	play.wire.length = guest_transmit(play.guest, play.wire.bytes);
	assert_int_equal(play.wire.bytes[1], WIRE_HELLO);
	assert_int_equal(wire_get64(&play.wire, 24), 1000 + OTHER);
	test_expect_nothing(play.guest);
}

/* A peer that was reset: its records are gone, and its sequences begin anew. */
static void test_peer_reset(void **state)
{
	struct exanest_engine_fault fault;
	struct play play;
	struct wire wire;

	open_play(&play, state);
	wire = make_put(&play, 50, 0, A + 65536, 256, 0, 256);
	send(&play, &wire);
	expect(&play, WIRE_NACK, 50, 0);
	fault = guest_expect_fault(play.guest, A + 65536);
	hello(&play, 5000);
	test_expect_nothing(play.guest);
	assert_int_equal(guest_command(play.guest, EXANEST_COMMAND_RESUME, 0, fault.fault, 0),
			 EXANEST_COMMAND_NOT_FOUND);
	/* What the earlier incarnation had sent is dropped. */
	wire = make_put(&play, 51, 0, A, 256, 0, 256);
	send(&play, &wire);
	test_expect_nothing(play.guest);
	wire = make_put(&play, 1, 0, A, 256, 0, 256);
	wire_set64(&wire, 16, 5000);
	send(&play, &wire);
	expect_ack(&play, 1, 0, EXANEST_STATUS_OK, 0, 0);
	hello(&play, 4999);
	wire = make_put(&play, 2, 0, A, 256, 0, 256);
	wire_set64(&wire, 16, 5000);
	send(&play, &wire);
	expect_ack(&play, 2, 0, EXANEST_STATUS_OK, 0, 0);
}

static void test_peer_clear(void **state)
{
	struct exanest_engine_fault fault;
	struct play play;
	struct wire wire;

	open_play(&play, state);
	wire = make_put(&play, 50, 0, A + 65536, 256, 0, 256);
	send(&play, &wire);
	fault = guest_expect_fault(play.guest, A + 65536);
	assert_int_equal(guest_command(play.guest, EXANEST_COMMAND_PEER_CLEAR, 0, OTHER, 0),
			 EXANEST_COMMAND_OK);
	assert_int_equal(guest_command(play.guest, EXANEST_COMMAND_RESUME, 0, fault.fault, 0),
			 EXANEST_COMMAND_NOT_FOUND);
	send(&play, &wire);
	test_expect_nothing(play.guest);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_put),           TEST(test_put_fault),
		TEST(test_put_reject),    TEST(test_reject_address),
		TEST(test_fault_request), TEST(test_fault_superseded),
		TEST(test_get),           TEST(test_get_invalidated),
		TEST(test_atomic),        TEST(test_cancel),
		TEST(test_denied),        TEST(test_malformed),
		TEST(test_incarnations),  TEST(test_peer_reset),
		TEST(test_peer_clear),
	};

	return cmocka_run_group_tests_name("conformance: target", tests, NULL, NULL);
}

// SPDX-License-Identifier: GPL-2.0
/* Conformance: transfers of a node to itself, and their faults: engine.md, sections 7 and 8. */
#include "../../uapi/exanest.h"
#include "test.h"

#define A 0x7f0012340000ull
#define B 0x7f0045670000ull
#define BYTES (6u * 16384)

struct pair {
	struct guest *guest;
	struct tables a, b;
};

static void open_pair(struct pair *pair, void **state)
{
	pair->guest = *state;
	guest_attach(pair->guest, &pair->a, 0, 3, 12, 48);
	guest_attach(pair->guest, &pair->b, 1, 4, 12, 48);
}

/* Submit from a at A + local to b at B + remote, and let the engine work. */
static void transfer(struct pair *pair, uint8_t operation, uint64_t tag, uint64_t local,
		     uint64_t remote, uint32_t length)
{
	struct exanest_engine_submission submission = guest_transfer(
		operation, tag, &pair->a, A + local, NODE, &pair->b, B + remote, length);

	guest_submit(pair->guest, &submission);
	guest_settle(pair->guest);
}

static void resume(struct pair *pair, const struct exanest_engine_fault *fault)
{
	assert_int_equal(guest_command(pair->guest, EXANEST_COMMAND_RESUME, 0, fault->fault, 0),
			 EXANEST_COMMAND_OK);
	guest_settle(pair->guest);
}

static const struct {
	uint32_t local, remote, length;
} lengths[] = {
	{ 0, 0, 1 },          { 0, 0, 255 },       { 0, 0, 256 },       { 0, 0, 257 },
	{ 1, 2, 4096 },       { 4095, 1, 2 },      { 0, 0, 16384 },     { 0, 0, 16385 },
	{ 100, 3000, 16383 }, { 4000, 4001, 500 }, { 0, 0, 5 * 16384 }, { 777, 4095, 70000 },
};

static void test_lengths(void **state)
{
	static uint8_t bytes[BYTES], before[BYTES];
	struct pair pair;
	unsigned int i, operation;

	open_pair(&pair, state);
	guest_map(pair.guest, &pair.a, A, BYTES, true);
	guest_map(pair.guest, &pair.b, B, BYTES, true);
	for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		for (operation = EXANEST_ENGINE_PUT; operation <= EXANEST_ENGINE_GET; operation++) {
			bool put = operation == EXANEST_ENGINE_PUT;
			const struct tables *from = put ? &pair.a : &pair.b;
			const struct tables *to = put ? &pair.b : &pair.a;
			uint64_t source = put ? A + lengths[i].local : B + lengths[i].remote;
			uint64_t destination = put ? B + lengths[i].remote : A + lengths[i].local;
			uint64_t base = put ? B : A;

			test_fill(bytes, lengths[i].length, i + operation);
			memset(before, 0x55, sizeof(before));
			test_store(pair.guest, to, base, before, sizeof(before));
			test_store(pair.guest, from, source, bytes, lengths[i].length);
			transfer(&pair, (uint8_t)operation, i, lengths[i].local, lengths[i].remote,
				 lengths[i].length);
			guest_expect_completion(pair.guest, i, EXANEST_STATUS_OK);
			assert_true(
				test_equal(pair.guest, to, destination, bytes, lengths[i].length));
			/* Nothing outside of the destination was changed. */
			assert_true(test_equal(pair.guest, to, base, before, destination - base));
			assert_true(test_equal(pair.guest, to, destination + lengths[i].length,
					       before,
					       BYTES - (destination - base) - lengths[i].length));
		}
	}
	assert_int_equal(guest_counter(pair.guest, EXANEST_COUNTER_PACKETS_SENT), 0);
}

static void test_longest(void **state)
{
	uint32_t longest = guest_read32(*state, EXANEST_REG_TRANSFER_MAX), i;
	uint64_t physical;
	struct pair pair;

	open_pair(&pair, state);
	/* All of it is the same page on each side. */
	physical = guest_allocate(pair.guest, 8192, 4096);
	if (longest > 4u << 20)
		longest = 4u << 20; /* tables for more do not fit into the memory of the test */
	for (i = 0; i < longest; i += 4096) {
		guest_map_to(pair.guest, &pair.a, A + i, 4096, physical, 0);
		guest_map_to(pair.guest, &pair.b, B + i, 4096, physical + 4096, EXANEST_PTE_WRITE);
	}
	memset(guest_memory(pair.guest, physical), 0x77, 4096);
	transfer(&pair, EXANEST_ENGINE_PUT, 1, 0, 0, longest);
	guest_expect_completion(pair.guest, 1, EXANEST_STATUS_OK);
	assert_int_equal(guest_counter(pair.guest, EXANEST_COUNTER_BYTES), longest);
	assert_int_equal(guest_counter(pair.guest, EXANEST_COUNTER_BLOCKS_DONE), longest / 16384);
	assert_int_equal(*(uint8_t *)guest_memory(pair.guest, physical + 8191), 0x77);
}

static uint64_t expected(unsigned int operation, uint64_t value, uint64_t operand, uint64_t compare)
{
	const uint64_t results[] = {
		[EXANEST_ATOMIC_ADD] = value + operand,
		[EXANEST_ATOMIC_AND] = value & operand,
		[EXANEST_ATOMIC_OR] = value | operand,
		[EXANEST_ATOMIC_XOR] = value ^ operand,
		[EXANEST_ATOMIC_SWAP] = operand,
		[EXANEST_ATOMIC_COMPARE_SWAP] = value == compare ? operand : value,
	};

	return results[operation];
}

static void test_atomics(void **state)
{
	const uint64_t value = 0xfedcba9876543210, operand = 0xff00ff00f0f0f0f0;
	struct exanest_engine_submission submission;
	struct exanest_engine_completion completion;
	uint32_t supported = guest_read32(*state, EXANEST_REG_ATOMICS), width;
	uint64_t *words, mask, wanted;
	unsigned int operation, equal;
	struct pair pair;

	open_pair(&pair, state);
	guest_map(pair.guest, &pair.b, B, 4096, true);
	words = guest_at(pair.guest, &pair.b, B + 1024);
	for (operation = 0; operation < 6; operation++) {
		for (width = 4; width <= 8; width += 4) {
			for (equal = 0; equal < 2; equal++) {
				if (!(supported >> (operation + (width == 8 ? 16 : 0)) & 1))
					continue;
				mask = width == 4 ? UINT32_MAX : UINT64_MAX;
				words[0] = words[1] = words[2] = value;
				submission = guest_transfer(EXANEST_ENGINE_ATOMIC, 9, &pair.a, 0,
							    NODE, &pair.b, B + 1032, width);
				submission.atomic = (uint8_t)operation;
				submission.operand = operand;
				if (operation == EXANEST_ATOMIC_COMPARE_SWAP)
					submission.compare = equal ? value : 1;
				guest_submit(pair.guest, &submission);
				guest_settle(pair.guest);
				completion = guest_expect_completion(pair.guest, 9,
								     EXANEST_STATUS_OK);
				assert_true(completion.value == (value & mask));
				wanted = expected(operation, value & mask, operand & mask,
						  submission.compare & mask);
				wanted = (value & ~mask) | (wanted & mask);
				assert_true(words[1] == wanted);
				assert_true(words[0] == value && words[2] == value);
			}
		}
	}
	assert_int_equal(guest_counter(pair.guest, EXANEST_COUNTER_FAULTS_LOCAL), 0);
}

/* A fault on each side, and both: what the entry says; the bytes after it was resolved. */
static void test_faults(void **state)
{
	static uint8_t bytes[40000];
	struct exanest_engine_fault fault = { .fault = 0 };
	struct pair pair;
	unsigned int sides;

	open_pair(&pair, state);
	for (sides = 1; sides <= 3; sides++) {
		guest_map(pair.guest, &pair.a, A, sizeof(bytes), true);
		guest_map(pair.guest, &pair.b, B, sizeof(bytes), true);
		test_fill(bytes, sizeof(bytes), sides);
		test_store(pair.guest, &pair.a, A, bytes, sizeof(bytes));
		/* The second page of the second block. */
		if (sides & 1)
			*guest_entry(pair.guest, &pair.a, A + 20480, 0) &= ~EXANEST_PTE_VALID;
		if (sides & 2)
			*guest_entry(pair.guest, &pair.b, B + 20480, 0) &= ~EXANEST_PTE_VALID;
		transfer(&pair, EXANEST_ENGINE_PUT, sides, 0, 0, sizeof(bytes));
		if (sides & 1) {
			fault = guest_expect_fault(pair.guest, A + 20480);
			assert_int_equal(fault.length, 3 * 4096);
			assert_int_equal(fault.flags, 0);
			assert_int_equal(fault.space, 0);
			assert_true(fault.block == A + 16384);
			assert_int_equal(fault.generation, 3);
			assert_int_equal(fault.node, NODE);
			assert_int_equal(fault.ahead, sizeof(bytes) - 32768);
			assert_int_equal(fault.tag, sides);
			*guest_entry(pair.guest, &pair.a, A + 20480, 0) |= EXANEST_PTE_VALID;
			resume(&pair, &fault);
		}
		if (sides & 2) {
			fault = guest_expect_fault(pair.guest, B + 20480);
			assert_int_equal(fault.length, 3 * 4096);
			assert_int_equal(fault.flags,
					 EXANEST_ENGINE_FAULT_WRITE | EXANEST_ENGINE_FAULT_REMOTE);
			assert_int_equal(fault.space, 1);
			assert_true(fault.block == B + 16384);
			assert_int_equal(fault.generation, 4);
			assert_int_equal(fault.node, NODE);
			assert_int_equal(fault.ahead, sizeof(bytes) - 32768);
			assert_int_equal(fault.tag, 0);
			*guest_entry(pair.guest, &pair.b, B + 20480, 0) |= EXANEST_PTE_VALID;
			resume(&pair, &fault);
		}
		guest_expect_completion(pair.guest, sides, EXANEST_STATUS_OK);
		assert_true(test_equal(pair.guest, &pair.b, B, bytes, sizeof(bytes)));
		assert_int_equal(guest_command(pair.guest, EXANEST_COMMAND_RESUME, 0, fault.fault,
					       0),
				 EXANEST_COMMAND_NOT_FOUND);
		guest_unmap(pair.guest, &pair.a, A, sizeof(bytes));
		guest_unmap(pair.guest, &pair.b, B, sizeof(bytes));
	}
	assert_int_equal(guest_counter(pair.guest, EXANEST_COUNTER_FAULTS_LOCAL), 2);
	assert_int_equal(guest_counter(pair.guest, EXANEST_COUNTER_FAULTS_REMOTE), 2);
	assert_int_equal(guest_counter(pair.guest, EXANEST_COUNTER_RESUMES), 4);
	assert_int_equal(guest_counter(pair.guest, EXANEST_COUNTER_BLOCKS_AGAIN), 4);
}

static void test_get_faults(void **state)
{
	static uint8_t bytes[16384];
	struct exanest_engine_fault fault;
	struct pair pair;

	open_pair(&pair, state);
	transfer(&pair, EXANEST_ENGINE_GET, 5, 0, 0, sizeof(bytes));
	fault = guest_expect_fault(pair.guest, B);
	assert_int_equal(fault.flags, EXANEST_ENGINE_FAULT_REMOTE);
	assert_int_equal(fault.length, sizeof(bytes));
	guest_map(pair.guest, &pair.b, B, sizeof(bytes), false);
	test_fill(bytes, sizeof(bytes), 1);
	test_store(pair.guest, &pair.b, B, bytes, sizeof(bytes));
	resume(&pair, &fault);
	fault = guest_expect_fault(pair.guest, A);
	assert_int_equal(fault.flags, EXANEST_ENGINE_FAULT_WRITE);
	assert_int_equal(fault.tag, 5);
	guest_map(pair.guest, &pair.a, A, sizeof(bytes), true);
	resume(&pair, &fault);
	guest_expect_completion(pair.guest, 5, EXANEST_STATUS_OK);
	assert_true(test_equal(pair.guest, &pair.a, A, bytes, sizeof(bytes)));
	/* The DATA that met the second page fault moved nothing. */
	assert_int_equal(guest_counter(pair.guest, EXANEST_COUNTER_BLOCKS_AGAIN), 1);
}

static void test_atomic_fault(void **state)
{
	struct exanest_engine_submission submission;
	struct exanest_engine_fault fault;
	struct pair pair;

	open_pair(&pair, state);
	submission = guest_transfer(EXANEST_ENGINE_ATOMIC, 6, &pair.a, 0, NODE, &pair.b, B + 8, 8);
	submission.operand = 5;
	guest_submit(pair.guest, &submission);
	guest_settle(pair.guest);
	fault = guest_expect_fault(pair.guest, B + 8);
	assert_int_equal(fault.flags, EXANEST_ENGINE_FAULT_WRITE | EXANEST_ENGINE_FAULT_REMOTE |
					      EXANEST_ENGINE_FAULT_ATOMIC);
	assert_int_equal(fault.length, 8);
	guest_map(pair.guest, &pair.b, B, 4096, true);
	resume(&pair, &fault);
	guest_expect_completion(pair.guest, 6, EXANEST_STATUS_OK);
	assert_int_equal(*(uint64_t *)guest_at(pair.guest, &pair.b, B + 8), 5);
	assert_int_equal(guest_counter(pair.guest, EXANEST_COUNTER_ATOMICS_DONE), 1);
}

/* A page that is absent still is a new fault; another that is absent is the next. */
static void test_fault_again(void **state)
{
	struct exanest_engine_fault first, second, third;
	struct pair pair;

	open_pair(&pair, state);
	guest_map(pair.guest, &pair.a, A, 16384, true);
	transfer(&pair, EXANEST_ENGINE_PUT, 1, 0, 0, 16384);
	first = guest_expect_fault(pair.guest, B);
	resume(&pair, &first);
	second = guest_expect_fault(pair.guest, B);
	assert_int_not_equal(second.fault, first.fault);
	assert_int_equal(guest_command(pair.guest, EXANEST_COMMAND_RESUME, 0, first.fault, 0),
			 EXANEST_COMMAND_NOT_FOUND);
	guest_map(pair.guest, &pair.b, B, 8192, true);
	resume(&pair, &second);
	third = guest_expect_fault(pair.guest, B + 8192);
	guest_map(pair.guest, &pair.b, B + 8192, 8192, true);
	resume(&pair, &third);
	guest_expect_completion(pair.guest, 1, EXANEST_STATUS_OK);
}

static void test_reject(void **state)
{
	struct exanest_engine_completion completion;
	struct exanest_engine_fault fault;
	struct pair pair;
	uint32_t status;

	open_pair(&pair, state);
	for (status = EXANEST_STATUS_FAULT; status <= EXANEST_STATUS_FAULT_MEMORY; status++) {
		transfer(&pair, EXANEST_ENGINE_PUT, status, 5, 0, 100);
		fault = guest_expect_fault(pair.guest, A + 5);
		assert_int_equal(guest_command(pair.guest, EXANEST_COMMAND_REJECT, 0, fault.fault,
					       status),
				 EXANEST_COMMAND_OK);
		guest_settle(pair.guest);
		completion = guest_expect_completion(pair.guest, status, status);
		assert_int_equal(completion.side, 1);
		assert_int_equal(completion.address, A + 5);
		transfer(&pair, EXANEST_ENGINE_GET, status, 0, 9, 100);
		fault = guest_expect_fault(pair.guest, B + 9);
		assert_int_equal(guest_command(pair.guest, EXANEST_COMMAND_REJECT, 0, fault.fault,
					       status),
				 EXANEST_COMMAND_OK);
		guest_settle(pair.guest);
		completion = guest_expect_completion(pair.guest, status, status);
		assert_int_equal(completion.side, 2);
		assert_int_equal(completion.address, B + 9);
		assert_int_equal(guest_command(pair.guest, EXANEST_COMMAND_REJECT, 0, fault.fault,
					       status),
				 EXANEST_COMMAND_NOT_FOUND);
	}
	assert_int_equal(guest_counter(pair.guest, EXANEST_COUNTER_REJECTS), 8);
}

/* A block that is parked delays no other transfer, and other blocks of its own go on. */
static void test_parked_delays_nothing(void **state)
{
	struct exanest_engine_fault fault;
	uint8_t bytes[100];
	struct pair pair;
	unsigned int i;

	open_pair(&pair, state);
	guest_map(pair.guest, &pair.a, A, BYTES, true);
	guest_map(pair.guest, &pair.b, B + 16384, BYTES - 16384, true);
	memset(guest_at(pair.guest, &pair.a, A + 5 * 16384), 0x99, 16384);
	transfer(&pair, EXANEST_ENGINE_PUT, 1, 0, 0, BYTES);
	assert_int_equal(*(uint8_t *)guest_at(pair.guest, &pair.b, B + 5 * 16384 + 99), 0x99);
	for (i = 0; i < 20; i++) {
		test_fill(bytes, sizeof(bytes), i);
		test_store(pair.guest, &pair.a, A + 20000, bytes, sizeof(bytes));
		transfer(&pair, EXANEST_ENGINE_PUT, 100 + i, 20000, 30000, sizeof(bytes));
		guest_expect_completion(pair.guest, 100 + i, EXANEST_STATUS_OK);
		assert_true(test_equal(pair.guest, &pair.b, B + 30000, bytes, sizeof(bytes)));
	}
	fault = guest_expect_fault(pair.guest, B);
	guest_map(pair.guest, &pair.b, B, 16384, true);
	resume(&pair, &fault);
	guest_expect_completion(pair.guest, 1, EXANEST_STATUS_OK);
}

/* Faults wait for room in their queue, none is lost. */
static void test_fault_room(void **state)
{
	struct exanest_engine_fault fault;
	struct guest *guest = *state;
	struct pair pair;
	unsigned int i;

	guest_disable(guest);
	guest->fault_entries = 2;
	guest_write32(guest, EXANEST_REG_FAULT_ENTRIES, 2);
	guest_enable(guest);
	open_pair(&pair, state);
	for (i = 0; i < 10; i++)
		transfer(&pair, EXANEST_ENGINE_PUT, i, i * 4096ull, 0, 100);
	assert_int_equal(guest->indices->fault_producer, 2);
	/* One that ended meanwhile needs no entry. */
	assert_int_equal(guest_command(guest, EXANEST_COMMAND_ABORT, 0, 9, 0), EXANEST_COMMAND_OK);
	guest_expect_completion(guest, 9, EXANEST_STATUS_ABORTED);
	for (i = 0; i < 9; i++) {
		fault = guest_expect_fault(guest, A + i * 4096ull);
		assert_int_equal(fault.tag, i);
		guest_command(guest, EXANEST_COMMAND_REJECT, 0, fault.fault, EXANEST_STATUS_FAULT);
		guest_expect_completion(guest, i, EXANEST_STATUS_FAULT);
	}
	assert_false(guest_fault(guest, &fault));
}

static void test_abort(void **state)
{
	struct exanest_engine_fault local, remote;
	struct pair pair;

	open_pair(&pair, state);
	guest_map(pair.guest, &pair.a, A, 4096, true);
	transfer(&pair, EXANEST_ENGINE_PUT, 1, 4096, 0, 8);
	local = guest_expect_fault(pair.guest, A + 4096);
	transfer(&pair, EXANEST_ENGINE_PUT, 2, 0, 0, 8);
	remote = guest_expect_fault(pair.guest, B);
	assert_int_equal(guest_command(pair.guest, EXANEST_COMMAND_ABORT, 0, 1, 0),
			 EXANEST_COMMAND_OK);
	guest_settle(pair.guest);
	guest_expect_completion(pair.guest, 1, EXANEST_STATUS_ABORTED);
	assert_int_equal(guest_command(pair.guest, EXANEST_COMMAND_ABORT, 0, 2, 0),
			 EXANEST_COMMAND_OK);
	guest_settle(pair.guest);
	guest_expect_completion(pair.guest, 2, EXANEST_STATUS_ABORTED);
	assert_int_equal(guest_command(pair.guest, EXANEST_COMMAND_RESUME, 0, local.fault, 0),
			 EXANEST_COMMAND_NOT_FOUND);
	assert_int_equal(guest_command(pair.guest, EXANEST_COMMAND_RESUME, 0, remote.fault, 0),
			 EXANEST_COMMAND_NOT_FOUND);
	assert_int_equal(guest_command(pair.guest, EXANEST_COMMAND_ABORT, 0, 2, 0),
			 EXANEST_COMMAND_NOT_FOUND);
}

/* Both ends of a detached space: its own transfers, and those of others in it. */
static void test_detach(void **state)
{
	struct exanest_engine_submission submission;
	struct exanest_engine_fault fault;
	struct pair pair;

	open_pair(&pair, state);
	guest_map(pair.guest, &pair.a, A, 4096, true);
	transfer(&pair, EXANEST_ENGINE_PUT, 1, 0, 0, 8);
	fault = guest_expect_fault(pair.guest, B);
	submission = guest_transfer(EXANEST_ENGINE_PUT, 2, &pair.b, B, NODE, &pair.a, A, 8);
	guest_submit(pair.guest, &submission);
	guest_settle(pair.guest);
	guest_expect_fault(pair.guest, B);
	assert_int_equal(guest_command(pair.guest, EXANEST_COMMAND_SPACE_DETACH, 1, 0, 0),
			 EXANEST_COMMAND_OK);
	guest_settle(pair.guest);
	guest_expect_completion(pair.guest, 2, EXANEST_STATUS_ABORTED);
	guest_expect_completion(pair.guest, 1, EXANEST_STATUS_UNREACHABLE);
	assert_int_equal(guest_command(pair.guest, EXANEST_COMMAND_RESUME, 0, fault.fault, 0),
			 EXANEST_COMMAND_NOT_FOUND);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_lengths),     TEST(test_longest),    TEST(test_atomics),
		TEST(test_faults),      TEST(test_get_faults), TEST(test_atomic_fault),
		TEST(test_fault_again), TEST(test_reject),     TEST(test_parked_delays_nothing),
		TEST(test_fault_room),  TEST(test_abort),      TEST(test_detach),
	};

	return cmocka_run_group_tests_name("conformance: transfers", tests, NULL, NULL);
}

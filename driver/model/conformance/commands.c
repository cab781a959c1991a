// SPDX-License-Identifier: GPL-2.0
/* Conformance: commands and submissions that are not allowed: engine.md, section 7. */
#include "test.h"

static const struct {
	struct exanest_engine_command command;
	uint32_t status;
} commands[] = {
	{ { .operation = EXANEST_COMMAND_NOP }, EXANEST_COMMAND_OK },
	{ { .operation = EXANEST_COMMAND_NOP, .space = 1 }, EXANEST_COMMAND_INVALID },
	{ { .operation = EXANEST_COMMAND_NOP, .argument = { 1 } }, EXANEST_COMMAND_INVALID },
	{ { .operation = EXANEST_COMMAND_NOP, .argument = { 0, 0, 0, 0, 0, 1 } },
	  EXANEST_COMMAND_INVALID },
	{ { .operation = EXANEST_COMMAND_NOP, .reserved = 1 }, EXANEST_COMMAND_INVALID },
	{ { .operation = 9 }, EXANEST_COMMAND_INVALID },
	{ { .operation = 0xffffffff }, EXANEST_COMMAND_INVALID },
	{ { .operation = EXANEST_COMMAND_SPACE_ATTACH,
	    .argument = { 4096, 1, 0, EXANEST_ATTACH_SHAPE(1, 12, 48) } },
	  EXANEST_COMMAND_OK },
	{ { .operation = EXANEST_COMMAND_SPACE_ATTACH,
	    .argument = { 4096, 1, 0, EXANEST_ATTACH_SHAPE(2, 12, 48) } },
	  EXANEST_COMMAND_EXISTS },
	{ { .operation = EXANEST_COMMAND_SPACE_ATTACH,
	    .space = 1,
	    .argument = { 4096, 0, 0, EXANEST_ATTACH_SHAPE(1, 12, 48) } },
	  EXANEST_COMMAND_INVALID },
	{ { .operation = EXANEST_COMMAND_SPACE_ATTACH,
	    .space = 1,
	    .argument = { 4096, 0, 1, EXANEST_ATTACH_SHAPE(0, 12, 48) } },
	  EXANEST_COMMAND_INVALID },
	{ { .operation = EXANEST_COMMAND_SPACE_ATTACH,
	    .space = 1,
	    .argument = { 4096, 1, 0, EXANEST_ATTACH_SHAPE(1, 13, 48) } },
	  EXANEST_COMMAND_INVALID },
	{ { .operation = EXANEST_COMMAND_SPACE_ATTACH,
	    .space = 1,
	    .argument = { 4096, 1, 0, EXANEST_ATTACH_SHAPE(1, 12, 12) } },
	  EXANEST_COMMAND_INVALID },
	{ { .operation = EXANEST_COMMAND_SPACE_ATTACH,
	    .space = 1,
	    .argument = { 4096, 1, 0, EXANEST_ATTACH_SHAPE(1, 12, 58) } },
	  EXANEST_COMMAND_INVALID },
	{ { .operation = EXANEST_COMMAND_SPACE_ATTACH,
	    .space = 1,
	    .argument = { 4096 + 8, 1, 0, EXANEST_ATTACH_SHAPE(1, 12, 48) } },
	  EXANEST_COMMAND_INVALID },
	{ { .operation = EXANEST_COMMAND_SPACE_ATTACH,
	    .space = 1,
	    .argument = { 4096, 1, 0, EXANEST_ATTACH_SHAPE(1, 14, 48) } },
	  EXANEST_COMMAND_INVALID },
	{ { .operation = EXANEST_COMMAND_SPACE_ATTACH,
	    .space = 1,
	    .argument = { 1ull << 60, 1, 0, EXANEST_ATTACH_SHAPE(1, 12, 48) } },
	  EXANEST_COMMAND_INVALID },
	{ { .operation = EXANEST_COMMAND_SPACE_ATTACH,
	    .space = 1,
	    .argument = { 4096, 1, 0, EXANEST_ATTACH_SHAPE(1, 12, 48) | 1ull << 48 } },
	  EXANEST_COMMAND_INVALID },
	{ { .operation = EXANEST_COMMAND_SPACE_ATTACH,
	    .space = 0x7fffffff,
	    .argument = { 4096, 1, 0, EXANEST_ATTACH_SHAPE(1, 12, 48) } },
	  EXANEST_COMMAND_INVALID },
	{ { .operation = EXANEST_COMMAND_INVALIDATE, .argument = { 0, 4096 } },
	  EXANEST_COMMAND_OK },
	{ { .operation = EXANEST_COMMAND_INVALIDATE, .argument = { 0, UINT64_MAX } },
	  EXANEST_COMMAND_OK },
	{ { .operation = EXANEST_COMMAND_INVALIDATE, .argument = { 0, 0 } },
	  EXANEST_COMMAND_INVALID },
	{ { .operation = EXANEST_COMMAND_INVALIDATE, .argument = { 2, UINT64_MAX - 1 } },
	  EXANEST_COMMAND_INVALID },
	{ { .operation = EXANEST_COMMAND_INVALIDATE, .space = 1, .argument = { 0, 1 } },
	  EXANEST_COMMAND_NOT_FOUND },
	{ { .operation = EXANEST_COMMAND_INVALIDATE, .space = UINT32_MAX, .argument = { 0, 1 } },
	  EXANEST_COMMAND_INVALID },
	{ { .operation = EXANEST_COMMAND_SPACE_DETACH, .space = 1 }, EXANEST_COMMAND_NOT_FOUND },
	{ { .operation = EXANEST_COMMAND_SPACE_DETACH, .argument = { 1 } },
	  EXANEST_COMMAND_INVALID },
	{ { .operation = EXANEST_COMMAND_SPACE_DETACH }, EXANEST_COMMAND_OK },
	{ { .operation = EXANEST_COMMAND_SPACE_DETACH }, EXANEST_COMMAND_NOT_FOUND },
	{ { .operation = EXANEST_COMMAND_PEER_SET, .argument = { 0 } }, EXANEST_COMMAND_INVALID },
	{ { .operation = EXANEST_COMMAND_PEER_SET, .argument = { NODE } },
	  EXANEST_COMMAND_INVALID },
	{ { .operation = EXANEST_COMMAND_PEER_SET, .argument = { 65536 } },
	  EXANEST_COMMAND_INVALID },
	{ { .operation = EXANEST_COMMAND_PEER_SET, .argument = { OTHER | 1ull << 32 } },
	  EXANEST_COMMAND_INVALID },
	{ { .operation = EXANEST_COMMAND_PEER_SET, .argument = { OTHER } }, EXANEST_COMMAND_OK },
	{ { .operation = EXANEST_COMMAND_PEER_SET, .argument = { OTHER } },
	  EXANEST_COMMAND_EXISTS },
	{ { .operation = EXANEST_COMMAND_PEER_CLEAR, .argument = { NODE } },
	  EXANEST_COMMAND_INVALID },
	{ { .operation = EXANEST_COMMAND_PEER_CLEAR, .argument = { OTHER } }, EXANEST_COMMAND_OK },
	{ { .operation = EXANEST_COMMAND_PEER_CLEAR, .argument = { OTHER } },
	  EXANEST_COMMAND_NOT_FOUND },
	{ { .operation = EXANEST_COMMAND_RESUME, .argument = { 0 } }, EXANEST_COMMAND_NOT_FOUND },
	{ { .operation = EXANEST_COMMAND_RESUME, .argument = { UINT64_MAX } },
	  EXANEST_COMMAND_NOT_FOUND },
	{ { .operation = EXANEST_COMMAND_RESUME, .argument = { 1ull << 31 } },
	  EXANEST_COMMAND_NOT_FOUND },
	{ { .operation = EXANEST_COMMAND_RESUME, .argument = { 0x40000000 } },
	  EXANEST_COMMAND_NOT_FOUND },
	{ { .operation = EXANEST_COMMAND_REJECT, .argument = { 1, EXANEST_STATUS_FAULT } },
	  EXANEST_COMMAND_NOT_FOUND },
	{ { .operation = EXANEST_COMMAND_REJECT, .argument = { 1, EXANEST_STATUS_MEMORY } },
	  EXANEST_COMMAND_INVALID },
	{ { .operation = EXANEST_COMMAND_REJECT, .argument = { 1, EXANEST_STATUS_OK } },
	  EXANEST_COMMAND_INVALID },
	{ { .operation = EXANEST_COMMAND_ABORT, .argument = { 77 } }, EXANEST_COMMAND_NOT_FOUND },
};

static void test_commands(void **state)
{
	uint32_t status;
	unsigned int i;

	for (i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		status = guest_execute(*state, &commands[i].command);
		if (status != commands[i].status)
			fail_msg("command %u of the table: status %u, not %u", i, status,
				 commands[i].status);
	}
}

static void test_peers_full(void **state)
{
	struct guest *guest = *state;
	uint32_t peers = guest_read32(guest, EXANEST_REG_PEERS), i;

	for (i = 0; i < peers; i++)
		assert_int_equal(guest_command(guest, EXANEST_COMMAND_PEER_SET, 0, OTHER + i, 0),
				 EXANEST_COMMAND_OK);
	if (OTHER + peers > 65535)
		return;
	assert_int_equal(guest_command(guest, EXANEST_COMMAND_PEER_SET, 0, OTHER + peers, 0),
			 EXANEST_COMMAND_FULL);
	guest_command(guest, EXANEST_COMMAND_PEER_CLEAR, 0, OTHER, 0);
	assert_int_equal(guest_command(guest, EXANEST_COMMAND_PEER_SET, 0, OTHER + peers, 0),
			 EXANEST_COMMAND_OK);
}

/* Several commands with one doorbell are executed in order. */
static void test_commands_in_order(void **state)
{
	struct guest *guest = *state;
	unsigned int i;

	for (i = 0; i < 8; i++)
		guest->commands[guest->command_producer++ % guest->command_entries] =
			(struct exanest_engine_command){
				.operation = i % 2 ? EXANEST_COMMAND_PEER_CLEAR :
						     EXANEST_COMMAND_PEER_SET,
				.argument = { OTHER },
				.status = 0xffffffff,
			};
	guest_write32(guest, EXANEST_REG_COMMAND_PRODUCER, guest->command_producer);
	guest_doorbell(guest, EXANEST_DOORBELL_COMMAND);
	assert_int_equal(guest->indices->command_consumer, 8);
	for (i = 0; i < 8; i++)
		assert_int_equal(guest->commands[i].status, EXANEST_COMMAND_OK);
}

/* A transfer that is allowed, with one field changed. */
#define GOOD                                                                                       \
	.operation = EXANEST_ENGINE_PUT, .space = 0, .local = 0x10000, .remote = 0x20000,          \
	.length = 8, .node = NODE, .remote_space = 0, .generation = 5
#define GOOD_ATOMIC                                                                                \
	.operation = EXANEST_ENGINE_ATOMIC, .space = 0, .remote = 0x20000, .length = 8,            \
	.node = NODE, .remote_space = 0, .generation = 5

static const struct {
	struct exanest_engine_submission submission;
	uint32_t status;
} submissions[] = {
	{ { GOOD }, EXANEST_STATUS_OK },
	{ { GOOD_ATOMIC }, EXANEST_STATUS_OK },
	{ { .operation = EXANEST_ENGINE_NOP }, EXANEST_STATUS_OK },
	{ { .operation = EXANEST_ENGINE_NOP, .node = 1 }, EXANEST_STATUS_INVALID },
	{ { .operation = EXANEST_ENGINE_NOP, .length = 1 }, EXANEST_STATUS_INVALID },
	{ { .operation = 4 }, EXANEST_STATUS_INVALID },
	{ { .operation = 255 }, EXANEST_STATUS_INVALID },
	{ { GOOD, .reserved = { 1, 0 } }, EXANEST_STATUS_INVALID },
	{ { GOOD, .atomic = 1 }, EXANEST_STATUS_INVALID },
	{ { GOOD, .operand = 1 }, EXANEST_STATUS_INVALID },
	{ { GOOD, .compare = 1 }, EXANEST_STATUS_INVALID },
	{ { GOOD_ATOMIC, .local = 8 }, EXANEST_STATUS_INVALID },
	{ { GOOD_ATOMIC, .compare = 8 }, EXANEST_STATUS_INVALID },
	{ { GOOD_ATOMIC, .atomic = 5, .compare = 8 }, EXANEST_STATUS_OK },
	{ { GOOD_ATOMIC, .atomic = 6 }, EXANEST_STATUS_INVALID },
	{ { .operation = EXANEST_ENGINE_ATOMIC,
	    .remote = 0x20000,
	    .length = 2,
	    .node = NODE,
	    .generation = 5 },
	  EXANEST_STATUS_INVALID },
	{ { .operation = EXANEST_ENGINE_ATOMIC,
	    .remote = 0x20004,
	    .length = 8,
	    .node = NODE,
	    .generation = 5 },
	  EXANEST_STATUS_INVALID },
	{ { .operation = EXANEST_ENGINE_ATOMIC,
	    .remote = 0x20004,
	    .length = 4,
	    .node = NODE,
	    .generation = 5 },
	  EXANEST_STATUS_OK },
	{ { .operation = EXANEST_ENGINE_PUT, .space = 1, .length = 8, .node = NODE },
	  EXANEST_STATUS_INVALID },
	{ { .operation = EXANEST_ENGINE_PUT, .space = 0xffffffff, .length = 8, .node = NODE },
	  EXANEST_STATUS_INVALID },
	{ { .operation = EXANEST_ENGINE_PUT, .length = 0, .node = NODE }, EXANEST_STATUS_INVALID },
	{ { .operation = EXANEST_ENGINE_PUT, .length = 0xffffffff, .node = NODE },
	  EXANEST_STATUS_INVALID },
	{ { .operation = EXANEST_ENGINE_GET, .local = (1ull << 48) - 7, .length = 8, .node = NODE },
	  EXANEST_STATUS_INVALID },
	{ { .operation = EXANEST_ENGINE_PUT, .local = UINT64_MAX - 3, .length = 8, .node = NODE },
	  EXANEST_STATUS_INVALID },
	{ { .operation = EXANEST_ENGINE_PUT, .remote = UINT64_MAX - 3, .length = 8, .node = NODE },
	  EXANEST_STATUS_INVALID },
	{ { .operation = EXANEST_ENGINE_PUT, .remote = (1ull << 57) - 7, .length = 8, .node = NODE },
	  EXANEST_STATUS_INVALID },
	{ { .operation = EXANEST_ENGINE_PUT, .length = 8, .node = 0 }, EXANEST_STATUS_UNREACHABLE },
	{ { .operation = EXANEST_ENGINE_PUT, .length = 8, .node = OTHER },
	  EXANEST_STATUS_UNREACHABLE },
	{ { .operation = EXANEST_ENGINE_PUT, .length = 8, .node = 65536 + NODE },
	  EXANEST_STATUS_UNREACHABLE },
	/* The space of the destination. */
	{ { .operation = EXANEST_ENGINE_PUT,
	    .local = 0x10000,
	    .remote = 0x20000,
	    .length = 8,
	    .node = NODE,
	    .remote_space = 0,
	    .generation = 6 },
	  EXANEST_STATUS_UNREACHABLE },
	{ { .operation = EXANEST_ENGINE_PUT,
	    .local = 0x10000,
	    .remote = 0x20000,
	    .length = 8,
	    .node = NODE,
	    .remote_space = 1,
	    .generation = 5 },
	  EXANEST_STATUS_UNREACHABLE },
	{ { .operation = EXANEST_ENGINE_GET,
	    .local = 0x10000,
	    .remote = 0x20000,
	    .length = 8,
	    .node = NODE,
	    .remote_space = 0x12345678,
	    .generation = 5 },
	  EXANEST_STATUS_UNREACHABLE },
};

static void test_submissions(void **state)
{
	struct exanest_engine_completion completion;
	struct exanest_engine_submission submission;
	struct guest *guest = *state;
	struct tables tables;
	unsigned int i;

	guest_attach(guest, &tables, 0, 5, 12, 48);
	guest_map(guest, &tables, 0x10000, 4096, true);
	guest_map(guest, &tables, 0x20000, 4096, true);
	for (i = 0; i < sizeof(submissions) / sizeof(submissions[0]); i++) {
		submission = submissions[i].submission;
		submission.tag = i + 1000;
		guest_submit(guest, &submission);
		guest_settle(guest);
		assert_true(guest_completion(guest, &completion));
		assert_int_equal(completion.tag, i + 1000);
		if (completion.status != submissions[i].status)
			fail_msg("submission %u of the table: status %u, not %u", i,
				 completion.status, submissions[i].status);
	}
}

/* The key of another domain does not reach a space. */
static void test_key(void **state)
{
	struct exanest_engine_submission submission;
	struct tables a, b, c;
	struct guest *guest = *state;
	unsigned int half;

	guest_attach(guest, &a, 0, 5, 12, 48);
	guest_map(guest, &a, 0x10000, 4096, true);
	for (half = 0; half < 2; half++) {
		b = a;
		b.space = 1 + half;
		b.key[half] ^= 1ull << 63;
		assert_int_equal(guest_attach_tables(guest, &b), EXANEST_COMMAND_OK);
		submission = guest_transfer(EXANEST_ENGINE_PUT, 1, &a, 0x10000, NODE, &b, 0x10100,
					    8);
		guest_submit(guest, &submission);
		guest_settle(guest);
		guest_expect_completion(guest, 1, EXANEST_STATUS_UNREACHABLE);
	}
	c = a;
	c.space = 3;
	assert_int_equal(guest_attach_tables(guest, &c), EXANEST_COMMAND_OK);
	submission = guest_transfer(EXANEST_ENGINE_PUT, 2, &a, 0x10000, NODE, &c, 0x10100, 8);
	guest_submit(guest, &submission);
	guest_settle(guest);
	guest_expect_completion(guest, 2, EXANEST_STATUS_OK);
	assert_int_equal(guest_counter(guest, EXANEST_COUNTER_PACKETS_DENIED), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_commands),    TEST(test_peers_full), TEST(test_commands_in_order),
		TEST(test_submissions), TEST(test_key),
	};

	return cmocka_run_group_tests_name("conformance: commands", tests, NULL, NULL);
}

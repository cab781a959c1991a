/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory for the protocol core, with exposed ranges: each function refuses a peer's bytes outside of
 * them, also after the look that precedes a packet.
 */
#include "unit.h"

#include "context/contents.h"
#include "net/memory.h"

#define PAGE 4096u
#define MIDDLE 2048u

static struct {
	pf_context *context;
	struct net_memory memory;
	struct net_memory_operations functions;
	uint8_t *page;
} test;

/* The first half of the page is exposed to readers and writers. */
static int set_up(void **state)
{
	pf_options options;

	assert_ok(pf_options_init(&options, sizeof(options), NULL));
	options.network = PF_NETWORK_OFF;
	options.expose = true;
	assert_ok(pf_open(&options, NULL, &test.context));
	memset(&test.memory, 0, sizeof(test.memory));
	net_memory_open(&test.memory, test.context, NULL);
	test.functions = net_memory_functions(&test.memory);
	test.page = test_map(PAGE);
	memset(test.page, 7, PAGE);
	assert_ok(pf_expose(test.context, test.page, MIDDLE, PF_EXPOSE_READ | PF_EXPOSE_WRITE));
	return 0;
}

static int tear_down(void **state)
{
	net_memory_close(&test.memory);
	pf_close(test.context);
	munmap(test.page, PAGE);
	return 0;
}

static uint64_t address_at(unsigned offset)
{
	return (uintptr_t)test.page + offset;
}

static struct net_wait wait_for(unsigned offset, uint64_t length, bool write, bool foreign)
{
	return (struct net_wait){ .address = address_at(offset),
				  .length = length,
				  .end = address_at(offset) + length,
				  .write = write,
				  .foreign = foreign };
}

/* Every function, for 8 bytes at offset; at the middle byte the refusal begins. */
static void check_each(unsigned offset, bool foreign, int expected)
{
	const struct net_wait read = wait_for(offset, 8, false, foreign);
	const struct net_wait write = wait_for(offset, 8, true, foreign);
	void *user = test.functions.user;
	uint64_t bad[4] = { 0 }, bytes = 5, value;
	unsigned i;

	assert_status(test.functions.source(user, &read, read.address, 8, &bad[0]), expected);
	assert_status(test.functions.destination(user, &write, write.address, 8, &bad[1]),
		      expected);
	assert_status(test.functions.place(user, &write, write.address, &bytes, 8, &bad[2]),
		      expected);
	assert_status(test.functions.fetch(user, &read, read.address, &bytes, 8, &bad[3]),
		      expected);
	for (i = 0; i < 4 && expected != PF_OK; i++)
		assert_int_equal(bad[i], address_at(MIDDLE));
	if (offset % 8 == 0)
		assert_status(test.functions.atomic(user, &write, PF_ATOMIC_ADD, 8, 1, 0, &value,
						    &bad[0]),
			      expected);
}

static void test_each_function(void **state)
{
	check_each(0, true, PF_OK);
	check_each(MIDDLE - 8, true, PF_OK);
	check_each(MIDDLE - 4, true, PF_ERR_REFUSED);
	check_each(MIDDLE, true, PF_ERR_REFUSED);
	/* An own operation reaches all memory. */
	check_each(MIDDLE, false, PF_OK);
}

/* Pieces of packets that were permitted before their range was withdrawn. */
static void test_pieces(void **state)
{
	static const uint8_t bytes[64] = { [0 ... 63] = 9 };
	struct net_piece pieces[] = {
		{ address_at(0), bytes, 16, true },
		{ address_at(MIDDLE + 16), bytes, 16, false },
		{ address_at(MIDDLE - 8), bytes, 16, true },
		{ address_at(64), bytes, 16, true },
	};
	unsigned i;

	/* As many as before the first that is refused: the core asks for each of the others alone. */
	assert_int_equal(test.functions.place_many(test.functions.user, pieces, 4), 2);
	for (i = 0; i < PAGE; i++)
		assert_int_equal(test.page[i],
				 i < 16 || (i >= MIDDLE + 16 && i < MIDDLE + 32) ? 9 : 7);
	assert_ok(pf_unexpose(test.context, test.page, MIDDLE));
	assert_int_equal(test.functions.place_many(test.functions.user, pieces, 1), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_each_function, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_pieces, set_up, tear_down),
	};

	return cmocka_run_group_tests_name("net_memory", tests, NULL, NULL);
}

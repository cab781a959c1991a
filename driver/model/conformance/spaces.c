// SPDX-License-Identifier: GPL-2.0
/* Conformance: page tables, accesses, translation cache, invalidation: engine.md, section 6. */
#include "test.h"

#define A 0x7f0012345000ull
#define B 0x7f0023456000ull

/* Put within the node; returns the status. */
static uint32_t put(struct guest *guest, const struct tables *from, uint64_t local,
		    const struct tables *to, uint64_t remote, uint32_t length)
{
	struct exanest_engine_submission submission =
		guest_transfer(EXANEST_ENGINE_PUT, 7, from, local, NODE, to, remote, length);
	struct exanest_engine_completion completion;

	guest_submit(guest, &submission);
	guest_settle(guest);
	if (!guest_completion(guest, &completion))
		return UINT32_MAX;
	return completion.status;
}

static const struct {
	unsigned int page_shift, bits;
	uint64_t address;
} shapes[] = {
	{ 12, 48, 0x7f0012345000 }, { 12, 57, 0x17f001234567000 }, { 12, 13, 0x1000 },
	{ 12, 21, 0x1ff000 },       { 12, 22, 0x3ff000 },          { 14, 48, 0xffff00124000 },
	{ 14, 47, 0x7fff00124000 }, { 14, 57, 0x1fffffffffec000 }, { 14, 26, 0x3ffc000 },
	{ 16, 48, 0x7f0012340000 }, { 16, 57, 0x1ffffffffff0000 }, { 16, 52, 0x8000000010000 },
	{ 16, 17, 0x10000 },
};

/* All page sizes and widths: the last page of a table is found, with the right index at each level. */
static void test_shapes(void **state)
{
	struct guest *guest = *state;
	uint8_t bytes[4096];
	struct tables tables, flat;
	unsigned int i;

	for (i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		if (shapes[i].bits > guest_read32(guest, EXANEST_REG_ADDRESS_BITS))
			continue;
		guest->next = 1 << 20; /* memory of the shape before is used again */
		memset(guest->ram + (1 << 20), 0, GUEST_RAM - (1 << 20));
		guest_attach(guest, &tables, 2 * i, 1, shapes[i].page_shift, shapes[i].bits);
		guest_attach(guest, &flat, 2 * i + 1, 1, 12, 48);
		guest_map(guest, &flat, A, 4096, false);
		guest_map(guest, &tables, shapes[i].address, 4096, true);
		test_fill(bytes, sizeof(bytes), i);
		test_store(guest, &flat, A, bytes, sizeof(bytes));
		assert_int_equal(put(guest, &flat, A, &tables, shapes[i].address, 4096),
				 EXANEST_STATUS_OK);
		assert_true(test_equal(guest, &tables, shapes[i].address, bytes, sizeof(bytes)));
		guest_command(guest, EXANEST_COMMAND_SPACE_DETACH, 2 * i, 0, 0);
		guest_command(guest, EXANEST_COMMAND_SPACE_DETACH, 2 * i + 1, 0, 0);
	}
}

static void test_range(void **state)
{
	struct exanest_engine_completion completion;
	struct exanest_engine_submission submission;
	struct guest *guest = *state;
	struct tables a, b;

	guest_attach(guest, &a, 0, 1, 12, 48);
	guest_attach(guest, &b, 1, 1, 12, 21);
	guest_map(guest, &a, A, 8192, true);
	guest_map(guest, &b, 0x1ff000, 4096, true);
	submission = guest_transfer(EXANEST_ENGINE_PUT, 1, &a, A, NODE, &b, 0x1fff00, 0x200);
	guest_submit(guest, &submission);
	guest_settle(guest);
	completion = guest_expect_completion(guest, 1, EXANEST_STATUS_FAULT);
	assert_int_equal(completion.address, 0x200000);
	assert_int_equal(completion.side, 2);
}

/* Entries that break the rules, at each level. */
static const struct {
	unsigned int level;
	uint64_t clear, set;
} malformed[] = {
	{ 0, EXANEST_PTE_LEAF, 0 },
	{ 0, 0, 1 << 5 },
	{ 0, 0, 1 << 11 },
	{ 0, EXANEST_PTE_ADDRESS, 1ull << 51 }, /* not memory */
	{ 1, 0, EXANEST_PTE_WRITE },
	{ 1, 0, EXANEST_PTE_ACCESSED },
	{ 1, 0, EXANEST_PTE_DIRTY },
	{ 1, 0, 1 << 8 },
	{ 1, EXANEST_PTE_ADDRESS, 1ull << 51 },
	{ 1, 0, EXANEST_PTE_LEAF | 1 << 12 }, /* a large page that is not aligned */
	{ 2, 0, EXANEST_PTE_LEAF },
	{ 2, 0, 1 << 6 },
	{ 3, 0, EXANEST_PTE_LEAF },
	{ 3, EXANEST_PTE_ADDRESS, 1ull << 50 },
};

static void test_malformed(void **state)
{
	struct exanest_engine_completion completion;
	struct exanest_engine_submission submission;
	struct guest *guest = *state;
	uint64_t before, *entry;
	struct tables a, b;
	unsigned int i, side;

	guest_attach(guest, &a, 0, 1, 12, 48);
	guest_attach(guest, &b, 1, 1, 12, 48);
	guest_map(guest, &a, A, 4096, true);
	guest_map(guest, &b, B, 4096, true);
	for (i = 0; i < sizeof(malformed) / sizeof(malformed[0]); i++) {
		for (side = 1; side <= 2; side++) {
			entry = side == 1 ? guest_entry(guest, &a, A, malformed[i].level) :
					    guest_entry(guest, &b, B, malformed[i].level);
			before = *entry;
			*entry = (before & ~malformed[i].clear) | malformed[i].set;
			submission = guest_transfer(EXANEST_ENGINE_PUT, i, &a, A, NODE, &b, B, 16);
			guest_submit(guest, &submission);
			guest_settle(guest);
			completion = guest_expect_completion(guest, i, EXANEST_STATUS_MEMORY);
			assert_int_equal(completion.side, side);
			assert_int_equal(completion.address, side == 1 ? A : B);
			*entry = before;
			guest_command(guest, EXANEST_COMMAND_INVALIDATE, 0, 0, UINT64_MAX);
			guest_command(guest, EXANEST_COMMAND_INVALIDATE, 1, 0, UINT64_MAX);
			assert_int_equal(put(guest, &a, A, &b, B, 16), EXANEST_STATUS_OK);
			guest_command(guest, EXANEST_COMMAND_INVALIDATE, 0, 0, UINT64_MAX);
			guest_command(guest, EXANEST_COMMAND_INVALIDATE, 1, 0, UINT64_MAX);
		}
	}
}

static void test_ignored_bits(void **state)
{
	struct guest *guest = *state;
	struct tables a, b;
	unsigned int level;

	guest_attach(guest, &a, 0, 1, 12, 48);
	guest_attach(guest, &b, 1, 1, 12, 48);
	guest_map(guest, &a, A, 4096, true);
	guest_map(guest, &b, B, 4096, true);
	for (level = 0; level < 4; level++)
		*guest_entry(guest, &a, A, level) |= 0xfffull << 52;
	assert_int_equal(put(guest, &a, A, &b, B, 16), EXANEST_STATUS_OK);
}

static uint64_t flags(struct guest *guest, const struct tables *tables, uint64_t address)
{
	return *guest_entry(guest, tables, address, 0) & (EXANEST_PTE_ACCESSED | EXANEST_PTE_DIRTY);
}

static void test_accessed_dirty(void **state)
{
	struct guest *guest = *state;
	struct tables a, b;

	guest_attach(guest, &a, 0, 1, 12, 48);
	guest_attach(guest, &b, 1, 1, 12, 48);
	guest_map(guest, &a, A, 3 * 4096, true);
	guest_map(guest, &b, B, 3 * 4096, true);
	assert_int_equal(put(guest, &a, A + 4096, &b, B + 4096, 4096), EXANEST_STATUS_OK);
	assert_int_equal(flags(guest, &a, A + 4096), EXANEST_PTE_ACCESSED);
	assert_int_equal(flags(guest, &b, B + 4096), EXANEST_PTE_ACCESSED | EXANEST_PTE_DIRTY);
	assert_int_equal(flags(guest, &b, B) & EXANEST_PTE_DIRTY, 0);
	assert_int_equal(flags(guest, &b, B + 8192) & EXANEST_PTE_DIRTY, 0);
	/* A page that was read is written: DIRTY is set although the translation is cached. */
	assert_int_equal(put(guest, &b, B + 8192, &a, A + 8192, 64), EXANEST_STATUS_OK);
	assert_int_equal(flags(guest, &b, B + 8192), EXANEST_PTE_ACCESSED);
	assert_int_equal(put(guest, &a, A, &b, B + 8192, 64), EXANEST_STATUS_OK);
	assert_int_equal(flags(guest, &b, B + 8192), EXANEST_PTE_ACCESSED | EXANEST_PTE_DIRTY);
	/* And again, after the driver cleared the flags and invalidated. */
	*guest_entry(guest, &b, B + 8192, 0) &= ~(EXANEST_PTE_ACCESSED | EXANEST_PTE_DIRTY);
	guest_command(guest, EXANEST_COMMAND_INVALIDATE, 1, B + 8192, 1);
	assert_int_equal(put(guest, &a, A, &b, B + 8192, 64), EXANEST_STATUS_OK);
	assert_int_equal(flags(guest, &b, B + 8192), EXANEST_PTE_ACCESSED | EXANEST_PTE_DIRTY);
	assert_int_equal(guest_unmap(guest, &b, B + 8192, 1) & EXANEST_PTE_DIRTY,
			 EXANEST_PTE_DIRTY);
}

/* Absent becomes valid, and read-only becomes writable, without INVALIDATE. */
static void test_upgrades(void **state)
{
	struct exanest_engine_submission submission;
	struct exanest_engine_fault fault;
	struct guest *guest = *state;
	struct tables a, b;

	guest_attach(guest, &a, 0, 1, 12, 48);
	guest_attach(guest, &b, 1, 1, 12, 48);
	guest_map(guest, &a, A, 4096, false);
	guest_map(guest, &b, B, 4096, false);
	assert_int_equal(put(guest, &b, B, &a, A, 1), UINT32_MAX);
	fault = guest_expect_fault(guest, A);
	assert_int_equal(fault.flags, EXANEST_ENGINE_FAULT_WRITE | EXANEST_ENGINE_FAULT_REMOTE);
	*guest_entry(guest, &a, A, 0) |= EXANEST_PTE_WRITE;
	assert_int_equal(guest_command(guest, EXANEST_COMMAND_RESUME, 0, fault.fault, 0),
			 EXANEST_COMMAND_OK);
	guest_settle(guest);
	guest_expect_completion(guest, 7, EXANEST_STATUS_OK);
	submission = guest_transfer(EXANEST_ENGINE_GET, 8, &a, A + 4096, NODE, &b, B, 16);
	guest_submit(guest, &submission);
	guest_settle(guest);
	fault = guest_expect_fault(guest, A + 4096);
	assert_int_equal(fault.flags, EXANEST_ENGINE_FAULT_WRITE);
	guest_map(guest, &a, A + 4096, 4096, true);
	guest_command(guest, EXANEST_COMMAND_RESUME, 0, fault.fault, 0);
	guest_settle(guest);
	guest_expect_completion(guest, 8, EXANEST_STATUS_OK);
}

/* After INVALIDATE, neither side of a transfer uses the page that was there. */
static void test_invalidate(void **state)
{
	uint64_t old_source, old_destination;
	struct guest *guest = *state;
	uint8_t bytes[64];
	struct tables a, b;
	unsigned int i;

	guest_attach(guest, &a, 0, 1, 12, 48);
	guest_attach(guest, &b, 1, 1, 12, 48);
	for (i = 0; i < 50; i++) {
		old_source = guest_map(guest, &a, A, 4096, true);
		old_destination = guest_map(guest, &b, B, 4096, true);
		test_fill(bytes, sizeof(bytes), i);
		test_store(guest, &a, A, bytes, sizeof(bytes));
		assert_int_equal(put(guest, &a, A, &b, B, 64), EXANEST_STATUS_OK);
		assert_true(test_equal(guest, &b, B, bytes, sizeof(bytes)));
		guest_unmap(guest, &a, A, 4096);
		guest_unmap(guest, &b, B, 4096);
		memset(guest_memory(guest, old_source), 0xee, 4096);
		memset(guest_memory(guest, old_destination), 0xdd, 4096);
		/* Other pages are there now; the old ones are neither read nor written. */
		guest_map(guest, &a, A, 4096, true);
		guest_map(guest, &b, B, 4096, true);
		test_store(guest, &a, A, bytes, sizeof(bytes));
		assert_int_equal(put(guest, &a, A, &b, B, 64), EXANEST_STATUS_OK);
		assert_true(test_equal(guest, &b, B, bytes, sizeof(bytes)));
		assert_int_equal(*(uint8_t *)guest_memory(guest, old_destination), 0xdd);
		guest_unmap(guest, &a, A, 1);
		guest_unmap(guest, &b, B + 4095, 1);
		guest->next -= 4 * 4096;
	}
	assert_int_equal(guest_counter(guest, EXANEST_COUNTER_INVALIDATIONS), 200);
}

/* A range that only touches a large page ends all of it; its entry's flags are set like others. */
static void test_large_page(void **state)
{
	const uint64_t large = 2 << 20;
	uint64_t address = A & ~(large - 1), physical, *entry;
	struct guest *guest = *state;
	uint8_t bytes[4096];
	struct tables a, b;

	if (!(guest->adapter->read64(guest->engine, EXANEST_REG_FEATURES) &
	      EXANEST_ENGINE_LARGE_PAGES))
		skip();
	guest_attach(guest, &a, 0, 1, 12, 48);
	guest_attach(guest, &b, 1, 1, 12, 48);
	guest_map(guest, &b, B, 4096, true);
	physical = guest_allocate(guest, large, large);
	entry = guest_entry(guest, &a, address, 1);
	*entry = physical | EXANEST_PTE_VALID | EXANEST_PTE_LEAF | EXANEST_PTE_WRITE;
	test_fill(bytes, sizeof(bytes), 3);
	memcpy(guest_memory(guest, physical + 0x54321), bytes, sizeof(bytes));
	assert_int_equal(put(guest, &a, address + 0x54321, &b, B, 4096), EXANEST_STATUS_OK);
	assert_true(test_equal(guest, &b, B, bytes, sizeof(bytes)));
	assert_int_equal(*entry & (EXANEST_PTE_ACCESSED | EXANEST_PTE_DIRTY), EXANEST_PTE_ACCESSED);
	assert_int_equal(put(guest, &b, B, &a, address + large - 4096, 4096), EXANEST_STATUS_OK);
	assert_memory_equal(guest_memory(guest, physical + large - 4096), bytes, sizeof(bytes));
	assert_true(*entry & EXANEST_PTE_DIRTY);
	*entry = 0;
	guest_command(guest, EXANEST_COMMAND_INVALIDATE, 0, address + 8, 1);
	assert_int_equal(put(guest, &b, B, &a, address + large - 4096, 8), UINT32_MAX);
	guest_expect_fault(guest, address + large - 4096);
	assert_int_equal(put(guest, &a, address + 0x54321, &b, B, 8), UINT32_MAX);
	guest_expect_fault(guest, address + 0x54321);
}

/* Spaces with the same addresses are apart, also one that takes a number over. */
static void test_spaces_apart(void **state)
{
	struct guest *guest = *state;
	struct tables a, b, c;
	uint32_t generation;
	uint64_t root;

	guest_attach(guest, &a, 0, 1, 12, 48);
	guest_attach(guest, &b, 1, 1, 12, 48);
	guest_map(guest, &a, A, 4096, true);
	guest_map(guest, &b, A, 4096, true);
	memset(guest_at(guest, &a, A), 0xaa, 64);
	memset(guest_at(guest, &b, A), 0xbb, 64);
	assert_int_equal(put(guest, &a, A, &b, A + 128, 64), EXANEST_STATUS_OK);
	assert_int_equal(*(uint8_t *)guest_at(guest, &b, A + 128), 0xaa);
	assert_int_equal(guest_command(guest, EXANEST_COMMAND_SPACE_DETACH, 1, 0, 0),
			 EXANEST_COMMAND_OK);
	assert_int_equal(put(guest, &a, A, &b, A, 64), EXANEST_STATUS_UNREACHABLE);
	guest_attach(guest, &c, 1, 2, 12, 48);
	root = c.root;
	guest_map(guest, &c, A, 4096, true);
	assert_int_equal(put(guest, &a, A, &b, A, 64), EXANEST_STATUS_UNREACHABLE);
	assert_int_equal(put(guest, &a, A, &c, A, 64), EXANEST_STATUS_OK);
	assert_int_equal(*(uint8_t *)guest_at(guest, &c, A), 0xaa);
	assert_int_equal(*(uint8_t *)guest_at(guest, &b, A), 0xbb);
	/* Whatever a cache makes of the generation. */
	for (generation = 3; generation < 600; generation++) {
		guest_command(guest, EXANEST_COMMAND_SPACE_DETACH, 1, 0, 0);
		c.generation = generation;
		c.root = generation / 256 % 2 ? b.root : root;
		assert_int_equal(guest_attach_tables(guest, &c), EXANEST_COMMAND_OK);
		memset(guest_at(guest, &c, A), 0, 64);
		assert_int_equal(put(guest, &a, A, &c, A, 64), EXANEST_STATUS_OK);
		assert_int_equal(*(uint8_t *)guest_at(guest, &c, A), 0xaa);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_shapes),       TEST(test_range),          TEST(test_malformed),
		TEST(test_ignored_bits), TEST(test_accessed_dirty), TEST(test_upgrades),
		TEST(test_invalidate),   TEST(test_large_page),     TEST(test_spaces_apart),
	};

	return cmocka_run_group_tests_name("conformance: spaces", tests, NULL, NULL);
}

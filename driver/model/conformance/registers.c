// SPDX-License-Identifier: GPL-2.0
/* Conformance: identification, enabling, reset, errors, interrupts: engine.md, sections 3 to 5. */
#include "test.h"

static void test_identification(void **state)
{
	struct guest *guest = *state;
	uint32_t value;

	assert_int_equal(guest_read32(guest, EXANEST_REG_MAGIC), EXANEST_MAGIC);
	assert_int_equal(guest_read32(guest, EXANEST_REG_VERSION) >> 16, 1);
	assert_int_equal(guest_read32(guest, EXANEST_REG_BLOCK_SIZE), 16384);
	value = guest_read32(guest, EXANEST_REG_BLOCKS);
	assert_in_range(value, 1, 256);
	assert_in_range(guest_read32(guest, EXANEST_REG_SPACES), 1, 65536);
	assert_in_range(guest_read32(guest, EXANEST_REG_PEERS), 1, 65534);
	value = guest_read32(guest, EXANEST_REG_QUEUE_ENTRIES);
	assert_in_range(value, 64, 65536);
	assert_int_equal(value & (value - 1), 0);
	value = guest_read32(guest, EXANEST_REG_TRANSFER_MAX);
	assert_in_range(value, 16384, 1 << 30);
	assert_int_equal(value % 16384, 0);
	value = 1 << 12 | 1 << 14 | 1 << 16;
	assert_int_equal(guest_read32(guest, EXANEST_REG_PAGE_SIZES) & value, value);
	assert_in_range(guest_read32(guest, EXANEST_REG_ADDRESS_BITS), 48, 57);
	assert_in_range(guest_read32(guest, EXANEST_REG_PHYSICAL_BITS), 32, 52);
	assert_in_range(guest_read32(guest, EXANEST_REG_TRANSFER_BLOCKS), 1, 256);
	assert_in_range(guest_read32(guest, EXANEST_REG_COMMAND_TIME), 1, UINT32_MAX);
	assert_int_equal(guest_read32(guest, EXANEST_REG_ERROR), 0);
}

static void test_enable_twice(void **state)
{
	struct guest *guest = *state;
	struct tables tables;

	guest_attach(guest, &tables, 0, 1, 12, 48);
	guest_doorbell(guest, EXANEST_DOORBELL_CONTROL);
	assert_int_equal(guest_read32(guest, EXANEST_REG_STATUS), EXANEST_ENGINE_READY);
	assert_int_equal(guest_attach_tables(guest, &tables), EXANEST_COMMAND_EXISTS);
	/* A reset forgets spaces and peers, and the indices begin anew. */
	guest_disable(guest);
	guest_enable(guest);
	assert_int_equal(guest->indices->command_consumer, 0);
	assert_int_equal(guest_attach_tables(guest, &tables), EXANEST_COMMAND_OK);
}

static const struct {
	unsigned int offset;
	bool wide;
	uint64_t value;
} bad_values[] = {
	{ EXANEST_REG_CONTROL, false, 2 },
	{ EXANEST_REG_CONTROL, false, 0xffffffff },
	{ EXANEST_REG_NODE, false, 0 },
	{ EXANEST_REG_NODE, false, 65536 },
	{ EXANEST_REG_LINK_PAYLOAD, false, 0 },
	{ EXANEST_REG_LINK_PAYLOAD, false, 128 },
	{ EXANEST_REG_LINK_PAYLOAD, false, 8192 },
	{ EXANEST_REG_LINK_PAYLOAD, false, 768 },
	{ EXANEST_REG_LINK_TIMEOUT, false, 0 },
	{ EXANEST_REG_LINK_TIMEOUT, false, 10000001 },
	{ EXANEST_REG_LINK_RETRIES, false, 0 },
	{ EXANEST_REG_LINK_RETRIES, false, 256 },
	{ EXANEST_REG_INCARNATION, true, 0 },
	{ EXANEST_REG_INDEX_BASE, true, 4096 + 32 },
	{ EXANEST_REG_INDEX_BASE, true, UINT64_MAX - 63 },
	{ EXANEST_REG_COMMAND_BASE, true, 4096 + 8 },
	{ EXANEST_REG_COMMAND_BASE, true, 1ull << 63 },
	{ EXANEST_REG_COMMAND_ENTRIES, false, 0 },
	{ EXANEST_REG_COMMAND_ENTRIES, false, 1 },
	{ EXANEST_REG_COMMAND_ENTRIES, false, 3 },
	{ EXANEST_REG_SUBMISSION_BASE, true, 1 },
	{ EXANEST_REG_SUBMISSION_ENTRIES, false, 1u << 31 },
	{ EXANEST_REG_COMPLETION_BASE, true, 4096 + 63 },
	{ EXANEST_REG_COMPLETION_ENTRIES, false, 100 },
	{ EXANEST_REG_FAULT_BASE, true, UINT64_MAX - 63 },
	{ EXANEST_REG_FAULT_ENTRIES, false, 0 },
};

static void test_bad_configuration(void **state)
{
	struct guest guest;
	unsigned int i;

	for (i = 0; i < sizeof(bad_values) / sizeof(bad_values[0]); i++) {
		guest_open(&guest, &conformance_adapter, NODE);
		assert_int_equal(guest_read32(&guest, EXANEST_REG_STATUS), EXANEST_ENGINE_DISABLED);
		guest_write32(&guest, EXANEST_REG_CONTROL, 1);
		if (bad_values[i].wide)
			guest_write64(&guest, bad_values[i].offset, bad_values[i].value);
		else
			guest_write32(&guest, bad_values[i].offset, (uint32_t)bad_values[i].value);
		guest_doorbell(&guest, EXANEST_DOORBELL_CONTROL);
		assert_int_equal(guest_read32(&guest, EXANEST_REG_STATUS), EXANEST_ENGINE_FAILED);
		assert_int_equal(guest_read32(&guest, EXANEST_REG_ERROR),
				 EXANEST_ERROR_CONFIGURATION);
		assert_int_equal(guest_read32(&guest, EXANEST_REG_ERROR_DETAIL),
				 bad_values[i].offset);
		assert_int_equal(guest.adapter->interrupts(guest.engine),
				 1 << EXANEST_VECTOR_STATUS);
		/* It stays FAILED until it is disabled. */
		guest_write32(&guest, EXANEST_REG_CONTROL, 1);
		guest_doorbell(&guest, EXANEST_DOORBELL_CONTROL);
		assert_int_equal(guest_read32(&guest, EXANEST_REG_STATUS), EXANEST_ENGINE_FAILED);
		guest_disable(&guest);
		assert_int_equal(guest_read32(&guest, EXANEST_REG_ERROR), 0);
		guest_close(&guest);
	}
	guest_disable(*state);
}

static void test_queue_outside_memory(void **state)
{
	static const unsigned int offsets[] = { EXANEST_REG_INDEX_BASE, EXANEST_REG_COMMAND_BASE,
						EXANEST_REG_SUBMISSION_BASE,
						EXANEST_REG_COMPLETION_BASE };
	struct guest guest;
	unsigned int i;

	for (i = 0; i < 4; i++) {
		guest_open(&guest, &conformance_adapter, NODE);
		guest_write64(&guest, offsets[i], GUEST_RAM + 4096);
		guest_write32(&guest, EXANEST_REG_CONTROL, 1);
		guest_doorbell(&guest, EXANEST_DOORBELL_CONTROL);
		guest_write32(&guest, EXANEST_REG_COMMAND_PRODUCER, i == 1);
		guest_doorbell(&guest, EXANEST_DOORBELL_COMMAND);
		/* A NOP of zeros leads to a completion. */
		guest_write32(&guest, EXANEST_REG_SUBMISSION_PRODUCER, i >= 2);
		guest_doorbell(&guest, EXANEST_DOORBELL_SUBMISSION);
		assert_int_equal(guest_read32(&guest, EXANEST_REG_STATUS), EXANEST_ENGINE_FAILED);
		assert_int_equal(guest_read32(&guest, EXANEST_REG_ERROR), EXANEST_ERROR_MEMORY);
		assert_int_equal(guest.adapter->read64(guest.engine, EXANEST_REG_ERROR_DETAIL),
				 GUEST_RAM + 4096);
		guest_close(&guest);
	}
	guest_disable(*state);
}

static const struct {
	unsigned int offset, doorbell;
	uint32_t value;
} bad_indices[] = {
	{ EXANEST_REG_COMMAND_PRODUCER, EXANEST_DOORBELL_COMMAND, 17 },
	{ EXANEST_REG_COMMAND_PRODUCER, EXANEST_DOORBELL_COMMAND, 0xffffffff },
	{ EXANEST_REG_SUBMISSION_PRODUCER, EXANEST_DOORBELL_SUBMISSION, 65 },
	{ EXANEST_REG_COMPLETION_CONSUMER, EXANEST_DOORBELL_SUBMISSION, 1 },
	{ EXANEST_REG_FAULT_CONSUMER, EXANEST_DOORBELL_FAULT, 1 },
	{ EXANEST_REG_FAULT_CONSUMER, EXANEST_DOORBELL_FAULT, 0x80000000 },
};

static void test_bad_index(void **state)
{
	struct guest *guest = *state;
	unsigned int i;

	for (i = 0; i < sizeof(bad_indices) / sizeof(bad_indices[0]); i++) {
		guest_write32(guest, bad_indices[i].offset, bad_indices[i].value);
		guest_doorbell(guest, bad_indices[i].doorbell);
		assert_int_equal(guest_read32(guest, EXANEST_REG_STATUS), EXANEST_ENGINE_FAILED);
		assert_int_equal(guest_read32(guest, EXANEST_REG_ERROR), EXANEST_ERROR_INDEX);
		assert_int_equal(guest_read32(guest, EXANEST_REG_ERROR_DETAIL),
				 bad_indices[i].offset);
		guest_disable(guest);
		guest_enable(guest);
	}
}

static void test_producer_backwards(void **state)
{
	struct guest *guest = *state;

	assert_int_equal(guest_command(guest, EXANEST_COMMAND_NOP, 0, 0, 0), EXANEST_COMMAND_OK);
	guest_write32(guest, EXANEST_REG_COMMAND_PRODUCER, 0);
	guest_doorbell(guest, EXANEST_DOORBELL_COMMAND);
	assert_int_equal(guest_read32(guest, EXANEST_REG_ERROR), EXANEST_ERROR_INDEX);
}

static void test_failed_is_silent(void **state)
{
	struct exanest_engine_submission nop = { .operation = EXANEST_ENGINE_NOP };
	struct guest *guest = *state;

	guest_write32(guest, EXANEST_REG_FAULT_CONSUMER, 7);
	guest_doorbell(guest, EXANEST_DOORBELL_FAULT);
	guest->adapter->interrupts(guest->engine);
	guest_submit(guest, &nop);
	guest_write32(guest, EXANEST_REG_COMMAND_PRODUCER, 1);
	guest_doorbell(guest, EXANEST_DOORBELL_COMMAND);
	guest_advance(guest, guest->now + 1000000000);
	test_expect_nothing(guest);
	assert_int_equal(guest->indices->completion_producer, 0);
	assert_int_equal(guest->indices->command_consumer, 0);
	assert_int_equal(guest->adapter->interrupts(guest->engine), 0);
}

static void test_ignored_doorbells(void **state)
{
	struct guest *guest = *state;

	guest_doorbell(guest, 4);
	guest_doorbell(guest, 65535);
	guest_disable(guest);
	guest_write32(guest, EXANEST_REG_COMMAND_PRODUCER, 1000);
	guest_doorbell(guest, EXANEST_DOORBELL_COMMAND);
	guest_doorbell(guest, EXANEST_DOORBELL_SUBMISSION);
	guest_doorbell(guest, EXANEST_DOORBELL_FAULT);
	assert_int_equal(guest_read32(guest, EXANEST_REG_STATUS), EXANEST_ENGINE_DISABLED);
}

static void test_interrupts(void **state)
{
	struct exanest_engine_submission nop = { .operation = EXANEST_ENGINE_NOP };
	struct guest *guest = *state;

	guest->adapter->interrupts(guest->engine);
	guest_command(guest, EXANEST_COMMAND_NOP, 0, 0, 0);
	assert_int_equal(guest->adapter->interrupts(guest->engine), 1 << EXANEST_VECTOR_COMMAND);
	guest_submit(guest, &nop);
	assert_int_equal(guest->adapter->interrupts(guest->engine), 1 << EXANEST_VECTOR_COMPLETION);
	/* Not enabled: not raised, not even later. */
	guest_write32(guest, EXANEST_REG_IRQ_ENABLE, 0);
	guest_submit(guest, &nop);
	guest_command(guest, EXANEST_COMMAND_NOP, 0, 0, 0);
	guest_write32(guest, EXANEST_REG_IRQ_ENABLE, 0xf);
	guest_advance(guest, guest->now + 1000000);
	assert_int_equal(guest->adapter->interrupts(guest->engine), 0);
	assert_int_equal(guest_counter(guest, EXANEST_COUNTER_TRANSFERS), 2);
}

/* No more submissions are taken than have room for their completions. */
static void test_completion_room(void **state)
{
	struct exanest_engine_submission nop = { .operation = EXANEST_ENGINE_NOP };
	struct guest *guest = *state;
	unsigned int i;

	guest_disable(guest);
	guest->completion_entries = 4;
	guest_write32(guest, EXANEST_REG_COMPLETION_ENTRIES, 4);
	guest_enable(guest);
	for (i = 0; i < 10; i++) {
		nop.tag = i;
		guest_put_submission(guest, &nop);
	}
	nop.tag = i;
	guest_submit(guest, &nop);
	assert_int_equal(guest->indices->completion_producer, 4);
	assert_int_equal(guest->indices->submission_consumer, 4);
	for (i = 0; i < 11; i++)
		guest_expect_completion(guest, i, EXANEST_STATUS_OK);
	assert_int_equal(guest->indices->submission_consumer, 11);
}

/* Indices are free-running: queues go around, and the counters too. */
static void test_around(void **state)
{
	struct exanest_engine_submission nop = { .operation = EXANEST_ENGINE_NOP };
	struct guest *guest = *state;
	unsigned int i;

	for (i = 0; i < 1000; i++) {
		nop.tag = i;
		guest_submit(guest, &nop);
		guest_expect_completion(guest, i, EXANEST_STATUS_OK);
		assert_int_equal(guest_command(guest, EXANEST_COMMAND_NOP, 0, 0, 0),
				 EXANEST_COMMAND_OK);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_identification),
		TEST(test_enable_twice),
		TEST(test_bad_configuration),
		TEST(test_queue_outside_memory),
		TEST(test_bad_index),
		TEST(test_producer_backwards),
		TEST(test_failed_is_silent),
		TEST(test_ignored_doorbells),
		TEST(test_interrupts),
		TEST(test_completion_room),
		TEST(test_around),
	};

	return cmocka_run_group_tests_name("conformance: registers", tests, NULL, NULL);
}

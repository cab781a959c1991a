// SPDX-License-Identifier: GPL-2.0
#include "guest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define PAGE 4096u

uint32_t guest_read32(struct guest *guest, unsigned int offset)
{
	return guest->adapter->read32(guest->engine, offset);
}

uint64_t guest_counter(struct guest *guest, enum exanest_engine_counter counter)
{
	return guest->adapter->read64(guest->engine, EXANEST_REG_COUNTERS + 8 * counter);
}

void guest_write32(struct guest *guest, unsigned int offset, uint32_t value)
{
	guest->adapter->write32(guest->engine, offset, value);
}

void guest_write64(struct guest *guest, unsigned int offset, uint64_t value)
{
	guest->adapter->write64(guest->engine, offset, value);
}

void guest_doorbell(struct guest *guest, unsigned int number)
{
	guest->adapter->doorbell(guest->engine, number, guest->now);
}

uint64_t guest_allocate(struct guest *guest, size_t size, size_t align)
{
	uint64_t at = (guest->next + align - 1) / align * align;

	assert_true(at + size <= GUEST_RAM);
	guest->next = at + size;
	memset(guest->ram + at, 0, size);
	return at;
}

void *guest_memory(struct guest *guest, uint64_t physical)
{
	assert_true(physical < GUEST_RAM);
	return guest->ram + physical;
}

static void *make_queue(struct guest *guest, unsigned int offset, uint32_t entries, size_t size)
{
	uint64_t at = guest_allocate(guest, entries * size, 64);

	guest_write64(guest, offset, at);
	guest_write32(guest, offset + 8, entries);
	return guest_memory(guest, at);
}

void guest_open(struct guest *guest, const struct adapter *adapter, uint32_t node)
{
	uint64_t at;

	memset(guest, 0, sizeof(*guest));
	guest->adapter = adapter;
	guest->now = 1000000000;
	guest->next = PAGE; /* address 0 stays unused */
	guest->ram = adapter->allocate(GUEST_RAM);
	assert_non_null(guest->ram);
	guest->engine = adapter->create(guest->ram, GUEST_RAM);
	assert_non_null(guest->engine);
	at = guest_allocate(guest, sizeof(*guest->indices), 64);
	guest->indices = guest_memory(guest, at);
	guest_write64(guest, EXANEST_REG_INDEX_BASE, at);
	guest->command_entries = 16;
	guest->submission_entries = 64;
	guest->completion_entries = 64;
	guest->fault_entries = 64;
	guest->commands = make_queue(guest, EXANEST_REG_COMMAND_BASE, guest->command_entries,
				     sizeof(*guest->commands));
	guest->submissions = make_queue(guest, EXANEST_REG_SUBMISSION_BASE,
					guest->submission_entries, sizeof(*guest->submissions));
	guest->completions = make_queue(guest, EXANEST_REG_COMPLETION_BASE,
					guest->completion_entries, sizeof(*guest->completions));
	guest->faults = make_queue(guest, EXANEST_REG_FAULT_BASE, guest->fault_entries,
				   sizeof(*guest->faults));
	guest_write32(guest, EXANEST_REG_IRQ_ENABLE, 0xf);
	guest_write32(guest, EXANEST_REG_NODE, node);
	guest_write32(guest, EXANEST_REG_LINK_PAYLOAD, 4096);
	guest_write32(guest, EXANEST_REG_LINK_TIMEOUT, 1000);
	guest_write32(guest, EXANEST_REG_LINK_RETRIES, 5);
	guest_write64(guest, EXANEST_REG_INCARNATION, 1000 + node);
}

void guest_close(struct guest *guest)
{
	guest->adapter->destroy(guest->engine);
	guest->adapter->release(guest->ram, GUEST_RAM);
}

void guest_enable(struct guest *guest)
{
	guest->command_producer = guest->submission_producer = 0;
	guest->completion_consumer = guest->fault_consumer = 0;
	guest_write32(guest, EXANEST_REG_COMMAND_PRODUCER, 0);
	guest_write32(guest, EXANEST_REG_SUBMISSION_PRODUCER, 0);
	guest_write32(guest, EXANEST_REG_COMPLETION_CONSUMER, 0);
	guest_write32(guest, EXANEST_REG_FAULT_CONSUMER, 0);
	guest_write32(guest, EXANEST_REG_CONTROL, 1);
	guest_doorbell(guest, EXANEST_DOORBELL_CONTROL);
	assert_int_equal(guest_read32(guest, EXANEST_REG_STATUS), EXANEST_ENGINE_READY);
}

void guest_disable(struct guest *guest)
{
	guest_write32(guest, EXANEST_REG_CONTROL, 0);
	guest_doorbell(guest, EXANEST_DOORBELL_CONTROL);
	assert_int_equal(guest_read32(guest, EXANEST_REG_STATUS), EXANEST_ENGINE_DISABLED);
}

static struct exanest_engine_command *put_command(struct guest *guest,
						  const struct exanest_engine_command *command)
{
	struct exanest_engine_command *entry =
		&guest->commands[guest->command_producer % guest->command_entries];

	*entry = *command;
	entry->status = 0xffffffff;
	guest_write32(guest, EXANEST_REG_COMMAND_PRODUCER, ++guest->command_producer);
	return entry;
}

void guest_put_resume(struct guest *guest, uint64_t fault)
{
	const struct exanest_engine_command command = {
		.operation = EXANEST_COMMAND_RESUME,
		.argument = { fault },
	};

	put_command(guest, &command);
}

uint32_t guest_execute(struct guest *guest, const struct exanest_engine_command *command)
{
	struct exanest_engine_command *entry = put_command(guest, command);

	guest_doorbell(guest, EXANEST_DOORBELL_COMMAND);
	assert_int_equal(guest->indices->command_consumer, guest->command_producer);
	return entry->status;
}

uint32_t guest_command(struct guest *guest, uint32_t operation, uint32_t space, uint64_t first,
		       uint64_t second)
{
	struct exanest_engine_command command = {
		.operation = operation,
		.space = space,
		.argument = { first, second },
	};

	return guest_execute(guest, &command);
}

uint32_t guest_attach_tables(struct guest *guest, const struct tables *tables)
{
	struct exanest_engine_command command = {
		.operation = EXANEST_COMMAND_SPACE_ATTACH,
		.space = tables->space,
		.argument = { tables->root, tables->key[0], tables->key[1],
			      EXANEST_ATTACH_SHAPE(tables->generation, tables->page_shift,
						   tables->bits) },
	};

	return guest_execute(guest, &command);
}

void guest_attach(struct guest *guest, struct tables *tables, uint32_t space, uint32_t generation,
		  unsigned int page_shift, unsigned int bits)
{
	*tables = (struct tables){
		.space = space,
		.generation = generation,
		.page_shift = page_shift,
		.bits = bits,
		.key = { 0x1122334455667788, 0x99aabbccddeeff00 },
		.root = guest_allocate(guest, 1ull << page_shift, 1ull << page_shift),
	};
	assert_int_equal(guest_attach_tables(guest, tables), EXANEST_COMMAND_OK);
}

uint64_t *guest_entry(struct guest *guest, const struct tables *tables, uint64_t address,
		      unsigned int wanted)
{
	unsigned int bits = tables->page_shift - 3, level = 0, shift;
	uint64_t *table = guest_memory(guest, tables->root), *entry;
	size_t page = 1ull << tables->page_shift;

	while (tables->page_shift + (level + 1) * bits < tables->bits)
		level++;
	for (;; level--) {
		shift = tables->page_shift + level * bits;
		entry = &table[address >> shift & ((1ull << bits) - 1)];
		if (level == wanted)
			return entry;
		if (!(*entry & EXANEST_PTE_VALID))
			*entry = guest_allocate(guest, page, page) | EXANEST_PTE_VALID;
		table = guest_memory(guest, *entry & EXANEST_PTE_ADDRESS);
	}
}

void guest_map_to(struct guest *guest, const struct tables *tables, uint64_t address,
		  uint64_t length, uint64_t physical, uint64_t flags)
{
	uint64_t page = 1ull << tables->page_shift, first = address & ~(page - 1), at;

	for (at = first; at < address + length; at += page)
		*guest_entry(guest, tables, at, 0) = (physical + (at - first)) | EXANEST_PTE_VALID |
						     EXANEST_PTE_LEAF | flags;
}

uint64_t guest_map(struct guest *guest, const struct tables *tables, uint64_t address,
		   uint64_t length, bool write)
{
	uint64_t page = 1ull << tables->page_shift;
	uint64_t size = ((address & (page - 1)) + length + page - 1) & ~(page - 1);
	uint64_t physical = guest_allocate(guest, size, page);

	guest_map_to(guest, tables, address, length, physical, write ? EXANEST_PTE_WRITE : 0);
	return physical;
}

uint64_t guest_unmap(struct guest *guest, const struct tables *tables, uint64_t address,
		     uint64_t length)
{
	uint64_t page = 1ull << tables->page_shift, at, flags = 0;

	for (at = address & ~(page - 1); at < address + length; at += page)
		flags |= __atomic_exchange_n(guest_entry(guest, tables, at, 0), 0,
					     __ATOMIC_SEQ_CST);
	assert_int_equal(guest_command(guest, EXANEST_COMMAND_INVALIDATE, tables->space, address,
				       length),
			 EXANEST_COMMAND_OK);
	return flags & ~EXANEST_PTE_ADDRESS;
}

void *guest_at(struct guest *guest, const struct tables *tables, uint64_t address)
{
	uint64_t entry = *guest_entry(guest, tables, address, 0);

	assert_true(entry & EXANEST_PTE_VALID);
	return guest_memory(guest, (entry & EXANEST_PTE_ADDRESS) +
					   (address & ((1ull << tables->page_shift) - 1)));
}

void guest_put_submission(struct guest *guest, const struct exanest_engine_submission *submission)
{
	guest->submissions[guest->submission_producer++ % guest->submission_entries] = *submission;
}

static void ring_submission(struct guest *guest)
{
	guest_write32(guest, EXANEST_REG_COMPLETION_CONSUMER, guest->completion_consumer);
	guest_write32(guest, EXANEST_REG_SUBMISSION_PRODUCER, guest->submission_producer);
	guest_doorbell(guest, EXANEST_DOORBELL_SUBMISSION);
}

void guest_submit(struct guest *guest, const struct exanest_engine_submission *submission)
{
	guest_put_submission(guest, submission);
	ring_submission(guest);
}

struct exanest_engine_submission guest_transfer(uint8_t operation, uint64_t tag,
						const struct tables *local_tables, uint64_t local,
						uint32_t node, const struct tables *remote_tables,
						uint64_t remote, uint32_t length)
{
	return (struct exanest_engine_submission){
		.operation = operation,
		.space = local_tables->space,
		.tag = tag,
		.local = local,
		.remote = remote,
		.length = length,
		.node = node,
		.remote_space = remote_tables->space,
		.generation = remote_tables->generation,
	};
}

bool guest_completion(struct guest *guest, struct exanest_engine_completion *completion)
{
	if (__atomic_load_n(&guest->indices->completion_producer, __ATOMIC_ACQUIRE) ==
	    guest->completion_consumer)
		return false;
	*completion = guest->completions[guest->completion_consumer++ % guest->completion_entries];
	ring_submission(guest);
	return true;
}

bool guest_fault(struct guest *guest, struct exanest_engine_fault *fault)
{
	if (__atomic_load_n(&guest->indices->fault_producer, __ATOMIC_ACQUIRE) ==
	    guest->fault_consumer)
		return false;
	*fault = guest->faults[guest->fault_consumer++ % guest->fault_entries];
	guest_write32(guest, EXANEST_REG_FAULT_CONSUMER, guest->fault_consumer);
	guest_doorbell(guest, EXANEST_DOORBELL_FAULT);
	return true;
}

struct exanest_engine_completion guest_expect_completion(struct guest *guest, uint64_t tag,
							 uint32_t status)
{
	struct exanest_engine_completion completion = { 0 };

	assert_true(guest_completion(guest, &completion));
	assert_int_equal(completion.tag, tag);
	assert_int_equal(completion.status, status);
	if (status < EXANEST_STATUS_FAULT || status > EXANEST_STATUS_MEMORY) {
		assert_int_equal(completion.address, 0);
		assert_int_equal(completion.side, 0);
	}
	return completion;
}

struct exanest_engine_fault guest_expect_fault(struct guest *guest, uint64_t address)
{
	struct exanest_engine_fault fault = { 0 };

	assert_true(guest_fault(guest, &fault));
	assert_int_equal(fault.address, address);
	assert_int_not_equal(fault.fault, 0);
	if (!(fault.flags & EXANEST_ENGINE_FAULT_REMOTE))
		assert_int_equal(fault.request, 0);
	return fault;
}

size_t guest_transmit(struct guest *guest, uint8_t packet[GUEST_PACKET])
{
	return guest->adapter->transmit(guest->engine, packet, GUEST_PACKET, guest->now);
}

void guest_receive(struct guest *guest, const uint8_t *packet, size_t length)
{
	guest->adapter->receive(guest->engine, packet, length, guest->now);
}

uint64_t guest_advance(struct guest *guest, uint64_t now)
{
	if (now > guest->now)
		guest->now = now;
	return guest->adapter->advance(guest->engine, guest->now);
}

void guest_settle(struct guest *guest)
{
	uint8_t packet[GUEST_PACKET];

	assert_int_equal(guest_transmit(guest, packet), 0);
	guest_advance(guest, guest->now);
}

// SPDX-License-Identifier: GPL-2.0
#include "hostile.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../registers.h"
#include "../conformance/adapter.h"

#define PAGE 4096u
#define RAM (48u * PAGE)
#define ENTRIES 8u
/* Pages of the memory, in order: indices, four queues, tables, data, and pages that nothing names. */
#define PAGE_INDICES 1u
#define PAGE_QUEUES 2u
#define PAGE_TABLES 6u
#define PAGE_DATA 10u
#define PAGE_NONE 42u
#define ADDRESS 0x200000ull
#define NODE 1u
#define OTHER 2u
#define CANARY 0xc5
#define PEERS_MOST 1024u

struct hostile {
	const uint8_t *bytes, *end;
	void *engine;
	uint8_t *ram;
	uint64_t now;
	uint32_t peers[PEERS_MOST]; /* nodes of commands that set a peer */
	unsigned int peers_count;
	uint32_t producers[2]; /* commands, submissions */
	uint32_t consumers[2]; /* completions, faults */
};

static uint8_t next(struct hostile *hostile)
{
	return hostile->bytes < hostile->end ? *hostile->bytes++ : 0;
}

static uint64_t next64(struct hostile *hostile, unsigned int count)
{
	uint64_t value = 0;

	while (count--)
		value = value << 8 | next(hostile);
	return value;
}

static void require(bool condition, const char *promise)
{
	if (condition)
		return;
	fprintf(stderr, "broken: %s\n", promise);
	abort();
}

static uint32_t get32(const void *place)
{
	uint32_t value;

	memcpy(&value, place, sizeof(value));
	return value;
}

static void set64(uint8_t *place, uint64_t value)
{
	memcpy(place, &value, sizeof(value));
}

static uint8_t *page(struct hostile *hostile, unsigned int number)
{
	return hostile->ram + (size_t)number * PAGE;
}

static void write32(struct hostile *hostile, unsigned int offset, uint32_t value)
{
	conformance_adapter.write32(hostile->engine, offset, value);
}

static void doorbell(struct hostile *hostile, unsigned int number)
{
	conformance_adapter.doorbell(hostile->engine, number, hostile->now);
}

/* Three levels for one space of 39 bits: the data pages from ADDRESS on. */
static void make_tables(struct hostile *hostile)
{
	unsigned int i;

	for (i = 0; i < 2; i++)
		set64(page(hostile, PAGE_TABLES + i) + (i ? 8 : 0),
		      (uint64_t)(PAGE_TABLES + i + 1) * PAGE | EXANEST_PTE_VALID);
	for (i = 0; i < PAGE_NONE - PAGE_DATA; i++)
		set64(page(hostile, PAGE_TABLES + 2) + 8ul * i,
		      (uint64_t)(PAGE_DATA + i) * PAGE | EXANEST_PTE_VALID | EXANEST_PTE_LEAF |
			      (i % 3 ? EXANEST_PTE_WRITE : 0));
}

static bool is_peer(const struct hostile *hostile, uint32_t node)
{
	unsigned int i;

	for (i = 0; i < hostile->peers_count; i++) {
		if (hostile->peers[i] == node)
			return true;
	}
	return false;
}

static void command(struct hostile *hostile, const struct exanest_engine_command *entry)
{
	uint64_t node = entry->argument[0];

	/* Others are INVALID. */
	if (entry->operation == EXANEST_COMMAND_PEER_SET && node && node < 65536 && node != NODE &&
	    !is_peer(hostile, (uint32_t)node)) {
		require(hostile->peers_count < PEERS_MOST, "room for the test's peers");
		hostile->peers[hostile->peers_count++] = (uint32_t)node;
	}
	memcpy(page(hostile, PAGE_QUEUES) + sizeof(*entry) * (hostile->producers[0]++ % ENTRIES),
	       entry, sizeof(*entry));
	write32(hostile, EXANEST_REG_COMMAND_PRODUCER, hostile->producers[0]);
	doorbell(hostile, EXANEST_DOORBELL_COMMAND);
}

/* A value that is likely to mean something: small, or a multiple of a page, or anything. */
static uint64_t value(struct hostile *hostile)
{
	switch (next(hostile) % 8) {
	case 0:
		return next64(hostile, 8);
	case 1:
		return ADDRESS + next64(hostile, 3) % (40 * PAGE);
	case 2:
		return (uint64_t)next(hostile) * PAGE;
	case 3:
		return (uint64_t)(int64_t)(int8_t)next(hostile);
	case 4:
		return 1ull << (next(hostile) % 64);
	default:
		return next(hostile) % 8;
	}
}

static void attach(struct hostile *hostile)
{
	struct exanest_engine_command entry = {
		.operation = EXANEST_COMMAND_SPACE_ATTACH,
		.argument = { PAGE_TABLES * PAGE, 7, 8, EXANEST_ATTACH_SHAPE(1, 12, 39) },
	};

	command(hostile, &entry);
	entry = (struct exanest_engine_command){ .operation = EXANEST_COMMAND_PEER_SET,
						 .argument = { OTHER } };
	command(hostile, &entry);
}

static void enable(struct hostile *hostile)
{
	static const unsigned int bases[] = { EXANEST_REG_COMMAND_BASE, EXANEST_REG_SUBMISSION_BASE,
					      EXANEST_REG_COMPLETION_BASE, EXANEST_REG_FAULT_BASE };
	unsigned int i;

	write32(hostile, EXANEST_REG_CONTROL, 0);
	doorbell(hostile, EXANEST_DOORBELL_CONTROL);
	write32(hostile, EXANEST_REG_IRQ_ENABLE, 0xf);
	write32(hostile, EXANEST_REG_NODE, NODE);
	write32(hostile, EXANEST_REG_LINK_PAYLOAD, 512);
	write32(hostile, EXANEST_REG_LINK_TIMEOUT, 100);
	write32(hostile, EXANEST_REG_LINK_RETRIES, 3);
	conformance_adapter.write64(hostile->engine, EXANEST_REG_INCARNATION, 100);
	conformance_adapter.write64(hostile->engine, EXANEST_REG_INDEX_BASE, PAGE_INDICES * PAGE);
	for (i = 0; i < 4; i++) {
		conformance_adapter.write64(hostile->engine, bases[i],
					    (uint64_t)(PAGE_QUEUES + i) * PAGE);
		write32(hostile, bases[i] + 8, ENTRIES);
		write32(hostile, EXANEST_REG_COMMAND_PRODUCER + 4 * i, 0);
	}
	memset(hostile->producers, 0, sizeof(hostile->producers));
	memset(hostile->consumers, 0, sizeof(hostile->consumers));
	write32(hostile, EXANEST_REG_CONTROL, 1);
	doorbell(hostile, EXANEST_DOORBELL_CONTROL);
	require(conformance_adapter.read32(hostile->engine, EXANEST_REG_STATUS) ==
			EXANEST_ENGINE_READY,
		"an engine can be enabled again");
	attach(hostile);
}

static void do_command(struct hostile *hostile)
{
	struct exanest_engine_command entry = { .operation = next(hostile) % 10 };
	unsigned int i, count = next(hostile) % 5;

	entry.space = (uint32_t)value(hostile);
	for (i = 0; i < count; i++)
		entry.argument[i] = value(hostile);
	/* A fault that was reported. */
	if (next(hostile) % 2)
		memcpy(&entry.argument[0],
		       page(hostile, PAGE_QUEUES + 3) +
			       sizeof(struct exanest_engine_fault) * (next(hostile) % ENTRIES),
		       8);
	command(hostile, &entry);
}

static void do_submission(struct hostile *hostile)
{
	struct exanest_engine_submission entry = {
		.operation = next(hostile) % 5,
		.tag = next(hostile),
		.local = ADDRESS + next64(hostile, 2),
		.remote = ADDRESS + next64(hostile, 2),
		.length = (uint32_t)next64(hostile, 2),
		.node = 1 + next(hostile) % 2,
		.generation = 1,
	};
	uint8_t change = next(hostile);

	if (entry.operation == EXANEST_ENGINE_ATOMIC) {
		entry.local = 0;
		entry.length = 8;
		entry.remote &= ~7ull;
		entry.atomic = next(hostile) % 6;
	}
	if (change % 4 == 0)
		((uint8_t *)&entry)[change % sizeof(entry)] = next(hostile);
	memcpy(page(hostile, PAGE_QUEUES + 1) + sizeof(entry) * (hostile->producers[1]++ % ENTRIES),
	       &entry, sizeof(entry));
	write32(hostile, EXANEST_REG_SUBMISSION_PRODUCER, hostile->producers[1]);
	doorbell(hostile, EXANEST_DOORBELL_SUBMISSION);
}

static void do_packet(struct hostile *hostile)
{
	static const uint16_t lengths[] = { 48, 48, 96, 96, 112, 48, 56, 72, 48, 56, 48 };
	uint8_t packet[4192] = { 1 }, type = next(hostile) % 11, change;
	size_t length = lengths[type];
	uint32_t block = 1 + next(hostile) * 64u;

	packet[1] = type;
	packet[8] = OTHER;
	packet[12] = NODE;
	set64(packet + 16, 200);
	set64(packet + 24, 100);
	if (type != 1) {
		set64(packet + 32, 1 + next(hostile) % 8);
		packet[40] = next(hostile) % 4;
	}
	if (type >= 2 && type <= 4) {
		set64(packet + 48, 7);
		set64(packet + 56, 8);
		packet[68] = 1;
		set64(packet + 72, ADDRESS + (next64(hostile, 2) & ~7ull));
		set64(packet + 80, type == 4 ? 8 : block);
	}
	if (type == 2 || type == 6) {
		uint32_t bytes = next(hostile) % 3 * 256;

		set64(packet + length - 8, (uint64_t)bytes << 32 | (next(hostile) % 4 * 256u));
		length += bytes;
	} else if (type == 3 || type == 9) {
		set64(packet + length - 8, next(hostile));
	} else if (type == 7) {
		packet[48] = next(hostile) % 12;
	}
	set64(packet + 4, length | (uint64_t)OTHER << 32);
	for (change = next(hostile) % 3; change; change--)
		packet[next64(hostile, 2) % length] = next(hostile);
	if (next(hostile) % 16 == 0)
		length = next64(hostile, 2) % sizeof(packet);
	conformance_adapter.receive(hostile->engine, packet, length, hostile->now);
}

static void do_transmit(struct hostile *hostile)
{
	unsigned int count = next(hostile) % 64;
	uint8_t packet[4192];
	size_t length;

	while (count--) {
		length = conformance_adapter.transmit(hostile->engine, packet, sizeof(packet),
						      hostile->now);
		if (!length)
			return;
		require(length >= 48 && length == get32(packet + 4), "a packet has its length");
		require(get32(packet + 8) == NODE && is_peer(hostile, get32(packet + 12)),
			"a packet goes to a peer that was set");
	}
}

static void do_table(struct hostile *hostile)
{
	uint8_t *place = page(hostile, PAGE_TABLES + next(hostile) % 3) + 8u * (next(hostile) % 32);

	/* The pages that nothing names are never named: the engine must not find them. */
	uint64_t entry = value(hostile) | next(hostile) % 32;

	if ((entry & EXANEST_PTE_ADDRESS) / PAGE >= PAGE_NONE &&
	    (entry & EXANEST_PTE_ADDRESS) < RAM)
		entry = 0;
	/* Nor what would let data overwrite them as a large page, or the tables as data. */
	if (entry & EXANEST_PTE_LEAF && (place < page(hostile, PAGE_TABLES + 2) ||
					 (entry & EXANEST_PTE_ADDRESS) / PAGE < PAGE_DATA))
		entry &= ~EXANEST_PTE_VALID;
	set64(place, entry);
}

static void do_consume(struct hostile *hostile)
{
	const struct exanest_engine_indices *indices = (const void *)page(hostile, PAGE_INDICES);

	hostile->consumers[0] = indices->completion_producer;
	hostile->consumers[1] = indices->fault_producer;
	write32(hostile, EXANEST_REG_COMPLETION_CONSUMER, hostile->consumers[0]);
	write32(hostile, EXANEST_REG_FAULT_CONSUMER, hostile->consumers[1]);
	doorbell(hostile, EXANEST_DOORBELL_SUBMISSION);
	doorbell(hostile, EXANEST_DOORBELL_FAULT);
}

static void do_register(struct hostile *hostile)
{
	/* Bases stay where the test looks. */
	unsigned int offset = next(hostile) % 2 ? EXANEST_REG_COMMAND_PRODUCER :
						  EXANEST_REG_CONTROL;

	const struct exanest_engine_indices *indices = (const void *)page(hostile, PAGE_INDICES);
	unsigned int number;

	write32(hostile, offset + 4 * (next(hostile) % 4), (uint32_t)value(hostile));
	doorbell(hostile, next(hostile) % 6);
	for (number = EXANEST_DOORBELL_COMMAND; number < EXANEST_DOORBELLS; number++)
		doorbell(hostile, number);
	if (conformance_adapter.read32(hostile->engine, EXANEST_REG_STATUS) != EXANEST_ENGINE_READY)
		return;
	/* It accepted what was written: go on from there. */
	hostile->producers[0] = indices->command_consumer;
	hostile->producers[1] = conformance_adapter.read32(hostile->engine,
							   EXANEST_REG_SUBMISSION_PRODUCER);
	do_consume(hostile);
}

static void check(struct hostile *hostile)
{
	const struct exanest_engine_indices *indices = (const void *)page(hostile, PAGE_INDICES);
	uint32_t status = conformance_adapter.read32(hostile->engine, EXANEST_REG_STATUS);
	const uint8_t *bytes = page(hostile, PAGE_NONE);
	size_t others = RAM - (size_t)PAGE_NONE * PAGE - 1;

	require(*bytes == CANARY && !memcmp(bytes, bytes + 1, others),
		"memory that nothing names is not written");
	require(status <= EXANEST_ENGINE_FAILED, "a status of engine.md");
	if (status != EXANEST_ENGINE_READY) {
		enable(hostile);
		return;
	}
	require(indices->completion_producer - hostile->consumers[0] <= ENTRIES,
		"completions have room");
	require(indices->fault_producer - hostile->consumers[1] <= ENTRIES, "faults have room");
	require(indices->command_consumer == hostile->producers[0], "commands are executed");
	require(hostile->producers[1] - indices->submission_consumer <= ENTRIES,
		"submissions are taken in order");
	/* Do not overwrite submissions that were not taken. */
	if (hostile->producers[1] - indices->submission_consumer == ENTRIES)
		do_consume(hostile);
	if (hostile->producers[1] - indices->submission_consumer == ENTRIES)
		enable(hostile);
}

void hostile_run(const uint8_t *bytes, size_t length)
{
	struct hostile hostile = { .bytes = bytes, .end = bytes + length, .now = 1000000 };

	hostile.ram = conformance_adapter.allocate(RAM);
	require(hostile.ram, "memory for the test");
	memset(page(&hostile, PAGE_NONE), CANARY, RAM - (size_t)PAGE_NONE * PAGE);
	make_tables(&hostile);
	hostile.engine = conformance_adapter.create(hostile.ram, RAM);
	require(hostile.engine, "an engine for the test");
	enable(&hostile);
	while (hostile.bytes < hostile.end) {
		switch (next(&hostile) % 16) {
		case 0:
		case 1:
		case 2:
		case 3:
			do_packet(&hostile);
			break;
		case 4:
		case 5:
		case 6:
			do_submission(&hostile);
			break;
		case 7:
		case 8:
			do_command(&hostile);
			break;
		case 9:
		case 10:
		case 11:
			do_transmit(&hostile);
			break;
		case 12:
			do_table(&hostile);
			break;
		case 13:
			do_consume(&hostile);
			break;
		case 14:
			hostile.now += next(&hostile) * 10000u;
			conformance_adapter.advance(hostile.engine, hostile.now);
			break;
		default:
			do_register(&hostile);
			break;
		}
		check(&hostile);
	}
	conformance_adapter.destroy(hostile.engine);
	conformance_adapter.release(hostile.ram, RAM);
}

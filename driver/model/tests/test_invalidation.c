// SPDX-License-Identifier: GPL-2.0
/*
 * Every access of an engine to a page of data is checked against what the page
 * tables permit: no byte is read or written through a translation after its
 * INVALIDATE was completed. Two engines, a link that reorders and loses, pages
 * that come, go and become read-only at any time. EXANEST_SEED repeats a run.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "../conformance/adapted.h"
#include "../conformance/guest.h"

#define BASE 0x7f0012340000ull
#define PAGES 48u  /* of each space, by virtual address */
#define FRAMES 64u /* of memory, for data */
#define STEPS 60000u
#define FLYING 512u
#define NONE UINT32_MAX

/* What a frame may be used for. */
enum permission {
	FRAME_FREE,
	FRAME_READ,
	FRAME_WRITE,
};

struct node {
	struct adapted adapted;
	uint8_t *ram;
	uint64_t frames; /* physical address of the first */
	uint8_t permission[FRAMES];
	uint32_t frame[PAGES]; /* of each page; NONE: absent */
	uint64_t accesses;
};

static struct node *creating;
static uint64_t seed;

static uint64_t draw(uint64_t below)
{
	/* xorshift64* */
	seed ^= seed >> 12;
	seed ^= seed << 25;
	seed ^= seed >> 27;
	return (seed * 0x2545f4914f6cdd1dull >> 33) % below;
}

/* Of data: are all frames of an access permitted? Queues and tables are not checked. */
static void check(struct node *node, uint64_t address, size_t length, enum permission wanted)
{
	uint64_t frame;

	assert_true(address + length <= GUEST_RAM);
	if (!node->frames || address < node->frames || address >= node->frames + FRAMES * 4096ull)
		return;
	node->accesses++;
	for (frame = (address - node->frames) / 4096;
	     frame <= (address + length - 1 - node->frames) / 4096; frame++)
		if (node->permission[frame] < wanted)
			fail_msg("an access to frame %u that no entry permits",
				 (unsigned int)frame);
}

static bool memory_read(void *context, uint64_t address, void *bytes, size_t length)
{
	struct node *node = context;

	check(node, address, length, FRAME_READ);
	memcpy(bytes, node->ram + address, length);
	return true;
}

static bool memory_write(void *context, uint64_t address, const void *bytes, size_t length)
{
	struct node *node = context;

	check(node, address, length, FRAME_WRITE);
	memcpy(node->ram + address, bytes, length);
	return true;
}

static bool memory_compare_swap(void *context, uint64_t address, unsigned int width,
				uint64_t *value, uint64_t desired)
{
	struct node *node = context;
	uint64_t before = 0;

	check(node, address, width, FRAME_WRITE);
	memcpy(&before, node->ram + address, width);
	if (before == *value)
		memcpy(node->ram + address, &desired, width);
	*value = before;
	return true;
}

static void *allocate(size_t size)
{
	return calloc(1, size);
}

static void release(void *ram, size_t size)
{
	free(ram);
}

static void *create(void *ram, size_t size)
{
	struct memory memory = {
		.context = creating,
		.read = memory_read,
		.write = memory_write,
		.compare_swap = memory_compare_swap,
	};

	creating->ram = ram;
	creating->adapted.engine = engine_create(&memory, creating->adapted.registers, 0);
	return creating;
}

static void destroy(void *engine)
{
	engine_destroy(((struct node *)engine)->adapted.engine);
}

/* One packet at a time: the test changes tables between any two. */
static size_t transmit(void *engine, void *packet, size_t size, uint64_t now)
{
	uint32_t node;

	return engine_transmit(((struct node *)engine)->adapted.engine, packet, &node, now);
}

static const struct adapter adapter = {
	.name = "checked",
	.allocate = allocate,
	.release = release,
	.create = create,
	.destroy = destroy,
	.transmit = transmit,
	ADAPTED_FUNCTIONS,
};

struct world {
	struct node node[2];
	struct guest guest[2];
	struct tables tables[2];
	struct {
		unsigned int to;
		size_t length;
		uint8_t bytes[GUEST_PACKET];
	} flying[FLYING];
	unsigned int count;
	unsigned int submitted[2], done[2], faults;
};

/* Make a page absent: its entry first, then INVALIDATE, and then its frame is another's. */
static void take_page(struct world *world, unsigned int i, unsigned int page)
{
	struct node *node = &world->node[i];
	uint64_t address = BASE + page * 4096ull;

	if (node->frame[page] == NONE)
		return;
	guest_unmap(&world->guest[i], &world->tables[i], address, 4096);
	node->permission[node->frame[page]] = FRAME_FREE;
	memset(node->ram + node->frames + node->frame[page] * 4096ull, 0xdd, 4096);
	node->frame[page] = NONE;
}

static void protect_page(struct world *world, unsigned int i, unsigned int page)
{
	struct node *node = &world->node[i];
	uint64_t address = BASE + page * 4096ull;

	if (node->frame[page] == NONE)
		return;
	__atomic_fetch_and(guest_entry(&world->guest[i], &world->tables[i], address, 0),
			   ~EXANEST_PTE_WRITE, __ATOMIC_SEQ_CST);
	guest_command(&world->guest[i], EXANEST_COMMAND_INVALIDATE, 1, address, 4096);
	node->permission[node->frame[page]] = FRAME_READ;
}

static void give_page(struct world *world, unsigned int i, unsigned int page, bool write)
{
	struct node *node = &world->node[i];
	uint64_t address = BASE + page * 4096ull;
	uint32_t frame;

	if (node->frame[page] == NONE) {
		do
			frame = (uint32_t)draw(FRAMES);
		while (node->permission[frame] != FRAME_FREE);
		node->frame[page] = frame;
		node->permission[frame] = write ? FRAME_WRITE : FRAME_READ;
		guest_map_to(&world->guest[i], &world->tables[i], address, 4096,
			     node->frames + frame * 4096ull, write ? EXANEST_PTE_WRITE : 0);
	} else if (write) {
		node->permission[node->frame[page]] = FRAME_WRITE;
		__atomic_fetch_or(guest_entry(&world->guest[i], &world->tables[i], address, 0),
				  EXANEST_PTE_WRITE, __ATOMIC_SEQ_CST);
	}
}

static void resolve(struct world *world, unsigned int i)
{
	struct exanest_engine_fault fault;
	uint64_t at;

	while (guest_fault(&world->guest[i], &fault)) {
		world->faults++;
		for (at = fault.block & ~4095ull; at < fault.address + fault.length; at += 4096)
			give_page(world, i, (unsigned int)((at - BASE) / 4096),
				  fault.flags & EXANEST_ENGINE_FAULT_WRITE);
		guest_command(&world->guest[i], EXANEST_COMMAND_RESUME, 0, fault.fault, 0);
	}
}

static void submit(struct world *world, unsigned int i)
{
	uint32_t length = 1 + (uint32_t)draw(24576), node = 1 + (uint32_t)draw(2);
	uint8_t operation = (uint8_t)(1 + draw(3));
	struct exanest_engine_submission submission;

	if (world->submitted[i] - world->done[i] >= 20)
		return;
	if (operation == EXANEST_ENGINE_ATOMIC)
		length = 8;
	submission = guest_transfer(
		operation, world->submitted[i]++, &world->tables[i],
		operation == EXANEST_ENGINE_ATOMIC ? 0 : BASE + draw(PAGES * 4096ull - length),
		node, &world->tables[node - 1], (BASE + draw(PAGES * 4096ull - length)) & ~7ull,
		length);
	guest_submit(&world->guest[i], &submission);
}

static void move_packets(struct world *world, unsigned int i)
{
	unsigned int pick;

	if (world->count < FLYING) {
		world->flying[world->count].length =
			guest_transmit(&world->guest[i], world->flying[world->count].bytes);
		world->flying[world->count].to = !i;
		if (world->flying[world->count].length && draw(20))
			world->count++;
	}
	if (world->count && draw(2)) {
		pick = (unsigned int)draw(world->count < 8 ? world->count : 8);
		guest_receive(&world->guest[world->flying[pick].to], world->flying[pick].bytes,
			      world->flying[pick].length);
		world->flying[pick] = world->flying[--world->count];
	}
}

static void open_world(struct world *world)
{
	unsigned int i, page;

	for (i = 0; i < 2; i++) {
		creating = &world->node[i];
		guest_open(&world->guest[i], &adapter, i + 1);
		guest_write32(&world->guest[i], EXANEST_REG_LINK_PAYLOAD, i ? 512 : 4096);
		guest_write32(&world->guest[i], EXANEST_REG_LINK_RETRIES, 255);
		guest_enable(&world->guest[i]);
		guest_attach(&world->guest[i], &world->tables[i], 1, 5, 12, 48);
		guest_command(&world->guest[i], EXANEST_COMMAND_PEER_SET, 0, 2 - i, 0);
		world->node[i].frames = guest_allocate(&world->guest[i], FRAMES * 4096ul, 4096);
		for (page = 0; page < PAGES; page++)
			world->node[i].frame[page] = NONE;
	}
}

static void test_invalidation(void **state)
{
	const char *given = getenv("EXANEST_SEED");
	struct exanest_engine_completion completion;
	struct world *world = aligned_alloc(64, (sizeof(*world) + 63) / 64 * 64);
	unsigned int step, i;

	assert_non_null(world);
	memset(world, 0, sizeof(*world));
	seed = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL) * 2654435761u + 1;
	print_message("seed: EXANEST_SEED=%llu\n", (unsigned long long)seed);
	open_world(world);
	for (step = 0; step < STEPS; step++) {
		i = (unsigned int)draw(2);
		switch (draw(16)) {
		case 0:
			take_page(world, i, (unsigned int)draw(PAGES));
			break;
		case 1:
			protect_page(world, i, (unsigned int)draw(PAGES));
			break;
		case 2:
			submit(world, i);
			break;
		case 3:
		case 4:
			resolve(world, i);
			break;
		case 5:
			guest_advance(&world->guest[i], world->guest[i].now + 20000);
			break;
		default:
			move_packets(world, i);
			break;
		}
		while (guest_completion(&world->guest[i], &completion)) {
			assert_int_equal(completion.status, EXANEST_STATUS_OK);
			world->done[i]++;
		}
	}
	/* It did something. */
	assert_true(world->done[0] > 100 && world->done[1] > 100 && world->faults > 500);
	assert_true(world->node[0].accesses > 5000 && world->node[1].accesses > 5000);
	for (i = 0; i < 2; i++) {
		assert_true(guest_counter(&world->guest[i], EXANEST_COUNTER_CACHE_HITS) > 1000);
		guest_close(&world->guest[i]);
	}
	free(world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_invalidation),
	};

	return cmocka_run_group_tests_name("invalidation", tests, NULL, NULL);
}

// SPDX-License-Identifier: GPL-2.0
/*
 * Conformance: two engines and a link that loses, repeats, delays and reorders
 * packets, with absent pages on both sides. Bytes are compared, atomics counted.
 * EXANEST_SEED repeats a run.
 */
#include <time.h>

#include "test.h"

#define A 0x7f0012340000ull
#define B 0x7f0045670000ull
#define SPAN (64u * 4096)
#define PACKETS_MAX 4096

struct flying {
	uint64_t arrives;
	unsigned int to;
	struct wire wire;
};

struct link {
	unsigned int loss, repeat; /* of 1000 */
	uint64_t delay;            /* ns at most: what arrives is in another order */
	struct flying *flying;
	unsigned int count;
};

struct side {
	struct guest guest;
	struct tables tables;
	uint64_t base;
	/* Where the pages of the span are, or would be. */
	uint64_t pages;
};

struct world {
	struct side side[2];
	struct link link;
	uint64_t random;
	uint64_t now;
};

static uint64_t draw(struct world *world, uint64_t below)
{
	/* xorshift64* */
	world->random ^= world->random >> 12;
	world->random ^= world->random << 25;
	world->random ^= world->random >> 27;
	return (world->random * 0x2545f4914f6cdd1dull >> 33) % below;
}

static void fly(struct world *world, unsigned int to, const struct wire *wire)
{
	struct link *link = &world->link;

	if (draw(world, 1000) < link->loss || link->count == PACKETS_MAX)
		return;
	link->flying[link->count++] = (struct flying){
		.arrives = world->now + 1000 + (link->delay ? draw(world, link->delay) : 0),
		.to = to,
		.wire = *wire,
	};
}

/* What the engines have to send goes on its way. */
static void collect(struct world *world)
{
	struct wire wire;
	unsigned int i;

	for (i = 0; i < 2; i++) {
		world->side[i].guest.now = world->now;
		while ((wire.length = guest_transmit(&world->side[i].guest, wire.bytes))) {
			assert_int_equal(wire_get32(&wire, 12), i ? NODE : OTHER);
			fly(world, !i, &wire);
			if (draw(world, 1000) < world->link.repeat)
				fly(world, !i, &wire);
		}
	}
}

/* The next arrival or timer. false: nothing will happen by itself. */
static bool step(struct world *world)
{
	struct link *link = &world->link;
	struct flying *first = NULL, packet;
	uint64_t next = UINT64_MAX, timer;
	unsigned int i;

	collect(world);
	for (i = 0; i < link->count; i++)
		if (!first || link->flying[i].arrives < first->arrives)
			first = &link->flying[i];
	for (i = 0; i < 2; i++) {
		timer = guest_advance(&world->side[i].guest, world->now);
		next = timer < next ? timer : next;
	}
	if (first && first->arrives <= next) {
		packet = *first;
		*first = link->flying[--link->count];
		world->now = packet.arrives > world->now ? packet.arrives : world->now;
		world->side[packet.to].guest.now = world->now;
		guest_receive(&world->side[packet.to].guest, packet.wire.bytes, packet.wire.length);
		return true;
	}
	if (next == UINT64_MAX)
		return false;
	world->now = next;
	for (i = 0; i < 2; i++)
		guest_advance(&world->side[i].guest, world->now);
	return true;
}

static void map_page(struct side *side, unsigned int page, bool write)
{
	guest_map_to(&side->guest, &side->tables, side->base + page * 4096ull, 4096,
		     side->pages + page * 4096ull, write ? EXANEST_PTE_WRITE : 0);
}

static void unmap_page(struct side *side, unsigned int page)
{
	guest_unmap(&side->guest, &side->tables, side->base + page * 4096ull, 4096);
}

/* Resolve what the fault says, as a driver does. */
static bool resolve(struct side *side)
{
	struct exanest_engine_fault fault;
	uint64_t at;

	if (!guest_fault(&side->guest, &fault))
		return false;
	for (at = fault.address & ~4095ull; at < fault.address + fault.length; at += 4096)
		map_page(side, (unsigned int)((at - side->base) / 4096), true);
	guest_command(&side->guest, EXANEST_COMMAND_RESUME, 0, fault.fault, 0);
	return true;
}

static void open_world(struct world *world, const struct link *link)
{
	static const struct adapter *const adapters[] = { &conformance_adapter,
							  &CONFORMANCE_OTHER };
	const char *seed = getenv("EXANEST_SEED");
	unsigned int i;

	memset(world, 0, sizeof(*world));
	world->random = seed ? strtoull(seed, NULL, 0) : (uint64_t)time(NULL) * 2654435761u + 1;
	print_message("seed: EXANEST_SEED=%llu\n", (unsigned long long)world->random);
	world->now = 1000000000;
	world->link = *link;
	world->link.flying = calloc(PACKETS_MAX, sizeof(*world->link.flying));
	assert_non_null(world->link.flying);
	for (i = 0; i < 2; i++) {
		struct side *side = &world->side[i];

		guest_open(&side->guest, adapters[i], i ? OTHER : NODE);
		guest_write32(&side->guest, EXANEST_REG_LINK_RETRIES, 200);
		guest_write32(&side->guest, EXANEST_REG_LINK_PAYLOAD, i ? 1024 : 4096);
		guest_enable(&side->guest);
		guest_attach(&side->guest, &side->tables, i, 7 + i, 12, 48);
		side->base = i ? B : A;
		side->pages = guest_allocate(&side->guest, SPAN, 4096);
		guest_command(&side->guest, EXANEST_COMMAND_PEER_SET, 0, i ? NODE : OTHER, 0);
	}
}

static void close_world(struct world *world)
{
	guest_close(&world->side[0].guest);
	guest_close(&world->side[1].guest);
	free(world->link.flying);
}

static uint8_t *bytes_of(struct side *side)
{
	return guest_memory(&side->guest, side->pages);
}

/* Transfers in both directions, one after another; pages go away at any time. */
static void exchange(const struct link *link, unsigned int transfers)
{
	struct exanest_engine_submission submission;
	struct exanest_engine_completion completion;
	static uint8_t expected[2][SPAN];
	uint32_t length, local, remote;
	unsigned int i, from, sides, idle = 0;
	struct world world;
	struct side *a, *b;

	open_world(&world, link);
	memset(expected, 0, sizeof(expected));
	for (i = 0; i < transfers; i++) {
		from = (unsigned int)draw(&world, 2);
		a = &world.side[from];
		b = &world.side[!from];
		length = 1 + (uint32_t)draw(&world, draw(&world, 2) ? 300 : SPAN / 2);
		local = (uint32_t)draw(&world, SPAN - length);
		remote = (uint32_t)draw(&world, SPAN - length);
		submission = guest_transfer(
			draw(&world, 2) ? EXANEST_ENGINE_PUT : EXANEST_ENGINE_GET, i, &a->tables,
			a->base + local, from ? NODE : OTHER, &b->tables, b->base + remote, length);
		if (submission.operation == EXANEST_ENGINE_PUT) {
			test_fill(bytes_of(a) + local, length, i);
			memcpy(expected[from] + local, bytes_of(a) + local, length);
			memcpy(expected[!from] + remote, bytes_of(a) + local, length);
		} else {
			test_fill(bytes_of(b) + remote, length, i);
			memcpy(expected[!from] + remote, bytes_of(b) + remote, length);
			memcpy(expected[from] + local, bytes_of(b) + remote, length);
		}
		guest_submit(&a->guest, &submission);
		while (!guest_completion(&a->guest, &completion)) {
			sides = (unsigned int)resolve(a) + (unsigned int)resolve(b);
			if (!draw(&world, 5))
				unmap_page(&world.side[draw(&world, 2)],
					   (unsigned int)draw(&world, SPAN / 4096));
			/* A fault that this step met is seen in the next round. */
			idle = step(&world) || sides ? 0 : idle + 1;
			if (idle == 3)
				fail_msg("transfer %u does not go on", i);
		}
		assert_int_equal(completion.tag, i);
		assert_int_equal(completion.status, EXANEST_STATUS_OK);
		if (memcmp(bytes_of(&world.side[0]), expected[0], SPAN) ||
		    memcmp(bytes_of(&world.side[1]), expected[1], SPAN))
			fail_msg("bytes differ after transfer %u", i);
	}
	close_world(&world);
}

static void test_perfect(void **state)
{
	const struct link link = { .loss = 0 };

	(void)state;
	exchange(&link, 300);
}

static void test_reorder(void **state)
{
	const struct link link = { .repeat = 100, .delay = 300000 };

	(void)state;
	exchange(&link, 200);
}

static void test_loss(void **state)
{
	const struct link link = { .loss = 100, .repeat = 20, .delay = 50000 };

	(void)state;
	exchange(&link, 200);
}

/* Delays longer than time-outs. */
static void test_slow(void **state)
{
	const struct link link = { .loss = 200, .repeat = 200, .delay = 20000000 };

	(void)state;
	exchange(&link, 100);
}

/* Many at a time from both sides to the same words: none is lost, none is executed twice. */
static void test_atomics(void **state)
{
	const struct link link = { .loss = 150, .repeat = 150, .delay = 3000000 };
	unsigned int done[2] = { 0 }, submitted[2] = { 0 }, i;
	struct exanest_engine_submission submission;
	struct exanest_engine_completion completion;
	uint64_t *word;
	struct world world;

	(void)state;
	open_world(&world, &link);
	while (done[0] < 500 || done[1] < 500) {
		for (i = 0; i < 2; i++) {
			while (submitted[i] < 500 && submitted[i] - done[i] < 30) {
				submission = guest_transfer(EXANEST_ENGINE_ATOMIC, submitted[i]++,
							    &world.side[i].tables, 0, OTHER,
							    &world.side[1].tables, B, 8);
				submission.operand = i ? 1ull << 32 : 1;
				/* Node 2 uses its own memory, node 1 that of node 2. */
				guest_submit(&world.side[i].guest, &submission);
			}
			while (guest_completion(&world.side[i].guest, &completion)) {
				assert_int_equal(completion.status, EXANEST_STATUS_OK);
				done[i]++;
			}
			resolve(&world.side[i]);
		}
		if (!draw(&world, 50))
			unmap_page(&world.side[1], 0);
		step(&world);
	}
	word = (uint64_t *)bytes_of(&world.side[1]);
	assert_true(*word == (500ull << 32 | 500));
	close_world(&world);
}

/* The other engine is reset again and again: transfers end, and then go on. */
static void test_resets(void **state)
{
	const struct link link = { .loss = 20, .delay = 30000 };
	struct exanest_engine_submission submission;
	struct exanest_engine_completion completion;
	unsigned int i, ok = 0, reset = 0;
	struct world world;
	struct side *b;

	(void)state;
	open_world(&world, &link);
	b = &world.side[1];
	for (i = 0; i < 64; i++) {
		map_page(&world.side[0], i, true);
		map_page(b, i, true);
	}
	for (i = 0; i < 100; i++) {
		submission = guest_transfer(EXANEST_ENGINE_PUT, i, &world.side[0].tables, A, OTHER,
					    &b->tables, B, SPAN);
		guest_submit(&world.side[0].guest, &submission);
		while (!guest_completion(&world.side[0].guest, &completion)) {
			if (!draw(&world, 400)) {
				guest_disable(&b->guest);
				guest_write64(&b->guest, EXANEST_REG_INCARNATION, 5000 + world.now);
				guest_enable(&b->guest);
				assert_int_equal(guest_attach_tables(&b->guest, &b->tables),
						 EXANEST_COMMAND_OK);
				guest_command(&b->guest, EXANEST_COMMAND_PEER_SET, 0, NODE, 0);
			}
			assert_true(step(&world));
		}
		ok += completion.status == EXANEST_STATUS_OK;
		reset += completion.status == EXANEST_STATUS_PEER_RESET;
	}
	assert_int_equal(ok + reset, 100);
	assert_true(ok && reset);
	close_world(&world);
}

#define SELF_FAULTS 8u

/* A node that transfers from a space of its own to another one. */
struct self {
	struct world world;
	struct tables destination;
	uint64_t pages; /* of the destination */
	struct exanest_engine_fault faults[SELF_FAULTS];
	unsigned int count;
};

static void self_map(struct self *self, uint32_t space, uint64_t address)
{
	struct side *side = &self->world.side[0];

	if (space == side->tables.space)
		map_page(side, (unsigned int)((address - A) / 4096), true);
	else
		guest_map_to(&side->guest, &self->destination, address, 4096,
			     self->pages + (address - B), EXANEST_PTE_WRITE);
}

/*
 * Some of the page faults, in any order, with one doorbell. Not each is resolved: then the block
 * meets it again.
 */
static void self_resume(struct self *self)
{
	struct exanest_engine_fault fault;
	unsigned int resumed, i;
	uint64_t at;

	for (resumed = 0; self->count && draw(&self->world, 4); resumed++) {
		i = (unsigned int)draw(&self->world, self->count);
		fault = self->faults[i];
		self->faults[i] = self->faults[--self->count];
		for (at = fault.address & ~4095ull; at < fault.address + fault.length; at += 4096)
			if (draw(&self->world, 2))
				self_map(self, fault.space, at);
		guest_put_resume(&self->world.side[0].guest, fault.fault);
	}
	if (resumed)
		guest_doorbell(&self->world.side[0].guest, EXANEST_DOORBELL_COMMAND);
}

static void self_unmap(struct self *self)
{
	unsigned int page = (unsigned int)draw(&self->world, SPAN / 4096);

	if (draw(&self->world, 2))
		unmap_page(&self->world.side[0], page);
	else
		guest_unmap(&self->world.side[0].guest, &self->destination, B + page * 4096ull,
			    4096);
}

/* Until the transfer has ended. */
static void self_finish(struct self *self, uint64_t tag)
{
	struct guest *guest = &self->world.side[0].guest;
	struct exanest_engine_completion completion;
	uint8_t bytes[GUEST_PACKET];
	unsigned int idle = 0;

	while (!guest_completion(guest, &completion)) {
		guest_transmit(guest, bytes);
		while (self->count < SELF_FAULTS && guest_fault(guest, &self->faults[self->count]))
			self->count++;
		/* A transfer that waits for no page has ended by the next round. */
		idle = self->count ? 0 : idle + 1;
		if (idle == 3)
			fail_msg("transfer %u does not end, and waits for no page",
				 (unsigned int)tag);
		self_resume(self);
	}
	assert_int_equal(completion.tag, tag);
	assert_int_equal(completion.status, EXANEST_STATUS_OK);
	self->count = 0;
}

/*
 * A node and itself have no time-outs: whatever order page faults of both sides are met and
 * resolved in, a transfer ends.
 */
static void test_itself(void **state)
{
	struct exanest_engine_submission submission;
	const struct link link = { .loss = 0 };
	uint32_t length, local, remote;
	struct guest *guest;
	struct self self;
	unsigned int i;

	(void)state;
	memset(&self, 0, sizeof(self));
	open_world(&self.world, &link);
	guest = &self.world.side[0].guest;
	guest_attach(guest, &self.destination, 2, 9, 12, 48);
	self.pages = guest_allocate(guest, SPAN, 4096);
	for (i = 0; i < 3000; i++) {
		while (draw(&self.world, 8))
			self_unmap(&self);
		length = 1 + (uint32_t)draw(&self.world, SPAN / 8);
		local = (uint32_t)draw(&self.world, SPAN - length);
		remote = (uint32_t)draw(&self.world, SPAN - length);
		submission = guest_transfer(draw(&self.world, 2) ? EXANEST_ENGINE_PUT :
								   EXANEST_ENGINE_GET,
					    i, &self.world.side[0].tables, A + local, NODE,
					    &self.destination, B + remote, length);
		guest_submit(guest, &submission);
		self_finish(&self, i);
	}
	close_world(&self.world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_perfect), cmocka_unit_test(test_reorder),
		cmocka_unit_test(test_loss),    cmocka_unit_test(test_slow),
		cmocka_unit_test(test_atomics), cmocka_unit_test(test_resets),
		cmocka_unit_test(test_itself),
	};

	return cmocka_run_group_tests_name("conformance: pair", tests, NULL, NULL);
}

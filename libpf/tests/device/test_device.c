/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * /dev/exanest: its rings, without a device; which options fail where there is no device; which
 * processes it connects where there is one.
 */
#include "pair.h"

#include <unistd.h>

#include "device/device.h"

#define ENTRIES 4

/* ---- rings, with this program in the place of the kernel ---- */

struct ring_memory {
	struct exanest_ring_head head;
	union {
		struct exanest_submission submissions[ENTRIES];
		struct exanest_completion completions[ENTRIES];
		struct exanest_fault faults[ENTRIES];
	} u;
};

/* First values of the counters, which run freely: also such that they wrap around. */
static const uint32_t starts[] = { 0, UINT32_MAX - 2, 1u << 31 };

static struct device_ring ring_over(struct ring_memory *memory, uint32_t start)
{
	memset(memory, 0, sizeof(*memory));
	memory->head.producer = memory->head.consumer = start;
	return (struct device_ring){
		.head = &memory->head, .entries = &memory->u, .count = ENTRIES, .own = start
	};
}

static void test_submissions(void **state)
{
	struct ring_memory memory;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(starts); i++) {
		struct device_ring ring = ring_over(&memory, starts[i]);
		uint64_t put = 0, taken = 0;

		while (put < 40) {
			struct exanest_submission submission = { .cookie = put };

			assert_int_equal(device_ring_full(&ring), put - taken == ENTRIES);
			if (device_ring_put(&ring, &submission)) {
				assert_int_equal(memory.head.producer,
						 (uint32_t)(starts[i] + ++put));
				continue;
			}
			assert_int_equal(put - taken, ENTRIES);
			/* Take some, then all. */
			do {
				uint32_t slot = memory.head.consumer & (ENTRIES - 1);

				assert_int_equal(memory.u.submissions[slot].cookie, taken++);
				memory.head.consumer++;
			} while (taken % 3 && taken < put);
		}
	}
}

static void test_completions(void **state)
{
	struct exanest_completion completion;
	struct exanest_fault fault;
	struct ring_memory memory;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(starts); i++) {
		struct device_ring ring = ring_over(&memory, starts[i]);
		uint64_t given = 0, taken = 0;

		assert_false(device_ring_take_completion(&ring, &completion));
		while (taken < 40) {
			while (given - taken < 1 + taken % ENTRIES) {
				uint32_t slot = memory.head.producer & (ENTRIES - 1);

				memory.u.completions[slot].cookie = given++;
				memory.head.producer++;
			}
			while (device_ring_take_completion(&ring, &completion)) {
				assert_int_equal(completion.cookie, taken++);
				assert_int_equal(memory.head.consumer,
						 (uint32_t)(starts[i] + taken));
			}
			assert_int_equal(taken, given);
			assert_true(device_ring_empty(&ring));
		}
		ring = ring_over(&memory, starts[i]);
		assert_false(device_ring_take_fault(&ring, &fault));
		memory.u.faults[starts[i] & (ENTRIES - 1)].ticket = 77;
		memory.head.producer++;
		assert_true(device_ring_take_fault(&ring, &fault));
		assert_int_equal(fault.ticket, 77);
		assert_false(device_ring_take_fault(&ring, &fault));
	}
}

static void test_doorbell(void **state)
{
	struct ring_memory memory;
	struct device_ring ring = ring_over(&memory, 0);

	assert_false(device_ring_asleep(&ring));
	memory.head.flags = EXANEST_RING_OVERFLOW;
	assert_false(device_ring_asleep(&ring));
	memory.head.flags |= EXANEST_RING_NEED_DOORBELL;
	assert_true(device_ring_asleep(&ring));
}

/* ---- between processes ---- */

static struct pair *start(uint64_t transport, unsigned partners, void (*opened)(struct pair *))
{
	struct pair_setup setup = { .here = pair_options(),
				    .there = pair_options(),
				    .partners = partners,
				    .opened = opened,
				    .window = 32 * MIB };

	setup.here.transport = setup.there.transport = transport;
	return pair_start(&setup);
}

/* Without a device: auto does without it, device fails and says so. */
static void test_absent(void **state)
{
	static const uint64_t transports[] = { PF_TRANSPORT_AUTO, PF_TRANSPORT_HOST,
					       PF_TRANSPORT_DEVICE };
	uint8_t *local = test_alloc(MIB);
	size_t i;

	for (i = 0; i < ARRAY_SIZE(transports); i++) {
		struct pair *pair = start(transports[i], 1, NULL);
		uint64_t there = pair_there(pair, 1, pair->window);
		int expected = transports[i] == PF_TRANSPORT_DEVICE ? PF_ERR_UNREACHABLE : PF_OK;

		assert_status(pair_put(pair, pair->peer, local, there, MIB).status, expected);
		assert_status(pair_get(pair, pair->peer, local, there, 8).status, expected);
		if (expected != PF_OK)
			assert_non_null(strstr(pf_peer_path(pair->peer), "/dev/exanest"));
		/* Messages, and so atomics, do not use the device. */
		assert_ok(pair_atomic(pair, pair->peer, PF_ATOMIC_ADD, 8, there, 5, 0).status);
		pair_end(pair);
	}
	free(local);
}

static void put_and_get(struct pair *pair, unsigned side, uint8_t *local, bool reaches, bool forced)
{
	uint8_t *window = pair->window + side * MIB;
	uint64_t before = pf_stat(pair->context, PF_STAT_DEVICE_BYTES);

	if (!reaches && forced) {
		assert_status(pair_put(pair, pair_peer(pair, side), local,
				       pair_there(pair, side, window), MIB)
				      .status,
			      PF_ERR_UNREACHABLE);
		return;
	}
	pair_exchange(pair, side, local, window, MIB, side);
	assert_int_equal(pf_stat(pair->context, PF_STAT_DEVICE_BYTES) - before,
			 reaches ? 2 * MIB : 0);
}

static const struct domain_case {
	unsigned jobs[4]; /* of the test and of three partners, as told to pf_join */
	bool reaches[4];  /* whether the device connects the test to that side */
} domain_cases[] = {
	{ { 1, 1, 1, 1 }, { true, true, true, true } },
	{ { 1, 1, 2, 1 }, { true, true, false, true } },
	{ { 1, 2, 2, 2 }, { true, false, false, false } },
};
static const struct domain_case *domain_case;

static void join_own(struct pair *me)
{
	static const char *const secrets[] = { NULL, "one job", "another job" };
	const char *secret = secrets[domain_case->jobs[me->side]];

	pf_join(me->context, secret, strlen(secret));
}

static void check_domains(uint64_t transport)
{
	uint8_t *local = test_alloc(MIB);
	unsigned i, side;

	for (i = 0; i < ARRAY_SIZE(domain_cases); i++) {
		struct pair *pair;

		domain_case = &domain_cases[i];
		pair = start(transport, 3, join_own);
		for (side = 0; side < 4; side++)
			put_and_get(pair, side, local, domain_case->reaches[side],
				    transport == PF_TRANSPORT_DEVICE);
		pair_end(pair);
	}
	free(local);
}

static void test_domains_auto(void **state)
{
	check_domains(PF_TRANSPORT_AUTO);
}

static void test_domains_device(void **state)
{
	check_domains(PF_TRANSPORT_DEVICE);
}

/* Two processes without pf_join find each other by their addresses. Nothing is pinned. */
static void test_pair(void **state)
{
	static const uint64_t transports[] = { PF_TRANSPORT_AUTO, PF_TRANSPORT_DEVICE };
	uint8_t *local = test_alloc(MIB);
	size_t i;

	for (i = 0; i < ARRAY_SIZE(transports); i++) {
		struct pair *pair = start(transports[i], 1, NULL);

		put_and_get(pair, 1, local, true, false);
		assert_non_null(strstr(pf_peer_path(pair->peer), "engine of /dev/exanest"));
		pair_check_not_pinned(pair);
		pair_end(pair);
	}
	free(local);
}

/* A peer is killed during transfers: they end, and no memory of this process changes afterwards. */
static void test_killed(void **state)
{
	struct random_numbers numbers = random_start("device, killed");
	uint8_t *local = test_alloc(32 * MIB);
	int round;

	for (round = 0; round < 8; round++) {
		struct pair *pair = start(PF_TRANSPORT_DEVICE, 1, NULL);
		struct pair_done done = { 0 };
		unsigned i;

		put_and_get(pair, 1, local, true, true);
		for (i = 0; i < 32; i++)
			pair_post(pair, pair->peer, i & 1 ? PUT : GET, local + i * MIB,
				  pair_there(pair, 1, pair->window + i * MIB), MIB, &done);
		/* More than the ring has room for: some of them are never submitted. */
		for (i = 0; i < 1000; i++)
			assert_pending(pf_atomic(pair->peer, PF_ATOMIC_ADD, 8,
						 pair_there(pair, 1, pair->window), 1, 0,
						 pair_completed, &done));
		for (i = (unsigned)random_below(&numbers, 100); i; i--)
			pf_progress(pair->context);
		pair_kill(pair, 1);
		while (done.count < 1032)
			pf_progress(pair->context);
		memset(local, 0xa5, 32 * MIB);
		usleep(20000);
		assert_true(local[0] == 0xa5 && !memcmp(local, local + 1, 32 * MIB - 1));
		pair_end(pair);
	}
	free(local);
}

int main(void)
{
	const struct CMUnitTest rings[] = {
		cmocka_unit_test(test_submissions),
		cmocka_unit_test(test_completions),
		cmocka_unit_test(test_doorbell),
	};
	const struct CMUnitTest absent[] = { PAIR_TEST(test_absent) };
	const struct CMUnitTest present[] = {
		PAIR_TEST(test_pair),
		PAIR_TEST(test_domains_auto),
		PAIR_TEST(test_domains_device),
		PAIR_TEST(test_killed),
	};
	int failed = pair_run_tests("device", rings);
	char text[192];

	if (device_describe(text, sizeof(text)))
		failed += pair_run_tests("device, present", present);
	else
		failed += pair_run_tests("device, absent", absent);
	return failed;
}

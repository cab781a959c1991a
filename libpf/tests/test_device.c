/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * /dev/exanest: its rings by themselves; where there is no device, what the
 * options make of that; where there is one, who reaches whom.
 */
#include "pair.h"

#include <sys/wait.h>
#include <unistd.h>

#include "device/device.h"

#define MIB ((size_t)1 << 20)
#define ENTRIES 4

/* ---- rings, with this program in the kernel's place ---- */

struct ring_memory {
	struct exanest_ring_head head;
	union {
		struct exanest_submission submissions[ENTRIES];
		struct exanest_completion completions[ENTRIES];
		struct exanest_fault faults[ENTRIES];
	} u;
};

static struct device_ring ring_over(struct ring_memory *memory, uint32_t start)
{
	memset(memory, 0, sizeof(*memory));
	memory->head.producer = memory->head.consumer = start;
	return (struct device_ring){
		.head = &memory->head, .entries = &memory->u, .count = ENTRIES, .own = start
	};
}

/* Counters run freely: near the end of their range nothing is different. */
static void test_submissions(void **state)
{
	static const uint32_t starts[] = { 0, UINT32_MAX - 2, 1u << 31 };
	struct ring_memory memory;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
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
			/* Some, then all of them. */
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
	static const uint32_t starts[] = { 0, UINT32_MAX - 2, 1u << 31 };
	struct exanest_completion completion;
	struct exanest_fault fault;
	struct ring_memory memory;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
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

	(void)state;
	assert_false(device_ring_asleep(&ring));
	memory.head.flags = EXANEST_RING_OVERFLOW;
	assert_false(device_ring_asleep(&ring));
	memory.head.flags |= EXANEST_RING_NEED_DOORBELL;
	assert_true(device_ring_asleep(&ring));
}

/* ---- between processes ---- */

static bool has_device(void)
{
	char text[192];

	return device_describe(text, sizeof(text));
}

static uint64_t by_device(const struct pair *pair)
{
	return pf_stat(pair->context, PF_STAT_DEVICE_BYTES);
}

/* Where there is none: auto does without, device fails and says so. */
static void test_absent(void **state)
{
	static const uint64_t transports[] = { PF_TRANSPORT_AUTO, PF_TRANSPORT_HOST,
					       PF_TRANSPORT_DEVICE };
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(transports) / sizeof(transports[0]); i++) {
		struct pair_setup setup = { .here = pair_options(),
					    .there = pair_options(),
					    .window = MIB };
		uint8_t *local = calloc(1, MIB);
		struct pair *pair;
		int expected = transports[i] == PF_TRANSPORT_DEVICE ? PF_ERR_UNREACHABLE : PF_OK;

		assert_non_null(local);
		setup.here.transport = setup.there.transport = transports[i];
		pair = pair_start(&setup);
		assert_int_equal(pair_put(pair, pair->peer, local,
					  pair_there(pair, 1, pair->window), MIB)
					 .status,
				 expected);
		assert_int_equal(pair_get(pair, pair->peer, local,
					  pair_there(pair, 1, pair->window), 8)
					 .status,
				 expected);
		if (expected != PF_OK)
			assert_non_null(strstr(pf_peer_path(pair->peer), "/dev/exanest"));
		/* Messages and what they carry are no business of the device's. */
		assert_int_equal(pair_atomic(pair, pair->peer, PF_ADD, 8,
					     pair_there(pair, 1, pair->window), 5, 0)
					 .status,
				 PF_OK);
		free(local);
		pair_end(pair);
	}
}

/* Each side says by pf_join in which of two jobs it is; 0: it says nothing. */
static unsigned job_of[PAIR_SIDES];

static void join_own(struct pair *me)
{
	static const char *const secrets[] = { NULL, "one job", "another job" };

	if (job_of[me->side])
		pf_join(me->context, secrets[job_of[me->side]], strlen(secrets[job_of[me->side]]));
}

struct reach {
	unsigned jobs[4]; /* of the test, of three partners */
	bool reaches[4];  /* does the device take the test to that partner? */
};

static void put_and_get(struct pair *pair, unsigned side, uint8_t *local, bool reaches, bool forced)
{
	uint8_t *window = pair->window + side * MIB;
	pf_peer *peer = pair_peer(pair, side);
	uint64_t before = by_device(pair), there = pair_there(pair, side, window);
	pf_completion completion;

	pattern_fill(local, MIB, side);
	memset(window, 0, MIB);
	completion = pair_put(pair, peer, local, there, MIB);
	if (!reaches && forced) {
		assert_int_equal(completion.status, PF_ERR_UNREACHABLE);
		return;
	}
	assert_int_equal(completion.status, PF_OK);
	assert_int_equal(pattern_differs(window, MIB, side), MIB);
	memset(local, 0, MIB);
	assert_int_equal(pair_get(pair, peer, local, there, MIB).status, PF_OK);
	assert_int_equal(pattern_differs(local, MIB, side), MIB);
	assert_int_equal(by_device(pair) - before, reaches ? 2 * MIB : 0);
}

static void test_domains(void **state)
{
	static const struct reach cases[] = {
		{ { 1, 1, 1, 1 }, { true, true, true, true } },
		{ { 1, 1, 2, 1 }, { true, true, false, true } },
		{ { 1, 2, 2, 2 }, { true, false, false, false } },
	};
	bool forced = *state != NULL;
	unsigned i, side;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct pair_setup setup = { .partners = 3,
					    .here = pair_options(),
					    .there = pair_options(),
					    .window = 4 * MIB,
					    .opened = join_own };
		uint8_t *local = malloc(MIB);
		struct pair *pair;

		assert_non_null(local);
		setup.here.transport = setup.there.transport = forced ? PF_TRANSPORT_DEVICE :
									PF_TRANSPORT_AUTO;
		memcpy(job_of, cases[i].jobs, sizeof(cases[i].jobs));
		pair = pair_start(&setup);
		for (side = 0; side < 4; side++)
			put_and_get(pair, side, local, cases[i].reaches[side], forced);
		free(local);
		pair_end(pair);
	}
}

/* Two that were told nothing find each other by their addresses. */
static void test_pair(void **state)
{
	struct pair_setup setup = { .here = pair_options(),
				    .there = pair_options(),
				    .window = 2 * MIB };
	uint8_t *local = malloc(MIB);
	struct pair *pair;

	(void)state;
	assert_non_null(local);
	setup.here.transport = setup.there.transport = PF_TRANSPORT_AUTO;
	pair = pair_start(&setup);
	put_and_get(pair, 1, local, true, false);
	assert_non_null(strstr(pf_peer_path(pair->peer), "engine of /dev/exanest"));
	free(local);
	pair_end(pair);
}

/* Killed while its memory is written and read: the transfers end, and nothing is written here later. */
static void test_killed(void **state)
{
	struct pair_setup setup = { .here = pair_options(),
				    .there = pair_options(),
				    .window = 32 * MIB };
	struct random_numbers numbers = random_start("device, killed");
	uint8_t *local = malloc(32 * MIB);
	int round;

	(void)state;
	assert_non_null(local);
	setup.here.transport = setup.there.transport = PF_TRANSPORT_DEVICE;
	for (round = 0; round < 8; round++) {
		struct pair *pair = pair_start(&setup);
		struct pair_done done = { 0 };
		unsigned i, posted = 0;

		put_and_get(pair, 1, local, true, true);
		for (i = 0; i < 32; i++) {
			uint64_t there = pair_there(pair, 1, pair->window + i * MIB);
			int status = i & 1 ? pf_put(pair->peer, local + i * MIB, there, MIB,
						    pair_completed, &done) :
					     pf_get(pair->peer, local + i * MIB, there, MIB,
						    pair_completed, &done);

			assert_int_equal(status, PF_OK);
			posted++;
		}
		/* More than the ring has room for: some of them are never submitted. */
		for (i = 0; i < 1000; i++, posted++)
			assert_int_equal(pf_atomic(pair->peer, PF_ADD, 8, i & 1,
						   pair_there(pair, 1, pair->window), 1, 0,
						   pair_completed, &done),
					 PF_OK);
		for (i = (unsigned)random_below(&numbers, 100); i; i--)
			pf_progress(pair->context);
		pair_kill(pair, 1);
		while (done.count < posted)
			pf_progress(pair->context);
		memset(local, 0xa5, 32 * MIB);
		usleep(20000);
		for (i = 0; i < 32; i++)
			assert_true(local[i * MIB] == 0xa5 &&
				    !memcmp(local + i * MIB, local + i * MIB + 1, MIB - 1));
		pair_end(pair);
	}
	free(local);
}

/* The line of /proc/self/status, in KiB. */
static long status_line(const char *name)
{
	FILE *file = fopen("/proc/self/status", "re");
	char line[128];
	long value = -1;

	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		if (!strncmp(line, name, strlen(name)))
			value = strtol(line + strlen(name) + 1, NULL, 10);
	}
	fclose(file);
	return value;
}

static void test_nothing_pinned(void **state)
{
	struct pair_setup setup = { .here = pair_options(),
				    .there = pair_options(),
				    .window = 2 * MIB };
	uint8_t *local = malloc(MIB);
	struct pair *pair;

	(void)state;
	assert_non_null(local);
	setup.here.transport = setup.there.transport = PF_TRANSPORT_DEVICE;
	pair = pair_start(&setup);
	put_and_get(pair, 1, local, true, true);
	assert_int_equal(status_line("VmLck:"), 0);
	assert_int_equal(status_line("VmPin:"), 0);
	free(local);
	pair_end(pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_submissions),
		cmocka_unit_test(test_completions),
		cmocka_unit_test(test_doorbell),
	};
	const struct CMUnitTest absent[] = {
		cmocka_unit_test_teardown(test_absent, pair_teardown),
	};
	const struct CMUnitTest device[] = {
		cmocka_unit_test_teardown(test_pair, pair_teardown),
		{ "test_domains auto", test_domains, NULL, pair_teardown, NULL },
		{ "test_domains device", test_domains, NULL, pair_teardown, (void *)1 },
		cmocka_unit_test_teardown(test_killed, pair_teardown),
		cmocka_unit_test_teardown(test_nothing_pinned, pair_teardown),
	};
	int failed = cmocka_run_group_tests_name("device", tests, NULL, NULL);

	if (has_device())
		failed += cmocka_run_group_tests_name("device, present", device, NULL, NULL);
	else
		failed += cmocka_run_group_tests_name("device, absent", absent, NULL, NULL);
	return failed;
}

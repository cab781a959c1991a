/* SPDX-License-Identifier: BSD-3-Clause */
/* When a process sleeps whose polls find nothing, and for how long, in virtual time. */
#include "unit.h"

/* NOLINTNEXTLINE(bugprone-suspicious-include): the component has no library for tests */
#include "../../../ompi-btl-exanest/btl_exanest_idle.c"

#define MICROSECOND 1000ull
#define MILLISECOND (1000 * MICROSECOND)
#define SECOND (1000 * MILLISECOND)

/* A process whose polls find nothing, and what its policy made it do. */
struct process {
	struct mca_btl_exanest_idle idle;
	uint64_t now;     /* ns */
	uint64_t between; /* from one poll to the next, ns */
	uint64_t polls;   /* of the option */
	uint64_t longest; /* sleep, ns */
	uint64_t others;  /* time that other processes run for after a yield, ns */
	uint64_t yields, yielded_at;
	uint64_t timed; /* looks at the clock */
	uint64_t polled, slept_at, sleeps, asleep;
};

static struct process process_start(uint64_t between, uint64_t polls)
{
	struct process process = { .now = 7 * SECOND, .between = between, .polls = polls };

	process.longest = 4 * MILLISECOND;
	mca_btl_exanest_idle_init(&process.idle);
	return process;
}

/* One empty poll, and the sleep behind it. Returns the length of that, ns. */
static uint64_t process_poll(struct process *process)
{
	enum idle_step step = IDLE_POLL;
	uint64_t length;

	process->now += process->between;
	process->polled++;
	if (idle_polled(&process->idle)) {
		bool timed = idle_is_timed(&process->idle, process->polls);

		process->timed += timed;
		step = mca_btl_exanest_idle_next(&process->idle, timed ? process->now : 0,
						 process->polls);
	}
	if (step == IDLE_YIELD) {
		if (!process->yields++)
			process->yielded_at = process->polled;
		process->now += process->others;
		return 0;
	}
	if (step == IDLE_POLL)
		return 0;
	length = mca_btl_exanest_idle_length(&process->idle, process->now, process->longest);
	if (!process->sleeps++)
		process->slept_at = process->polled;
	process->now += length;
	process->asleep += length;
	return length;
}

static void process_poll_for(struct process *process, uint64_t duration)
{
	uint64_t end = process->now + duration;

	while (process->now < end)
		process_poll(process);
}

static void test_first(void **state)
{
	static const uint64_t numbers[] = { 1, 2, 4, 5, 31, 32, 33, 64, 1000, 1013 };
	unsigned i;

	for (i = 0; i < ARRAY_SIZE(numbers); i++) {
		struct process process = process_start(100, numbers[i]);

		process_poll_for(&process, MILLISECOND);
		assert_true(process.sleeps > 0);
		assert_in_range(process.slept_at, numbers[i], numbers[i] + 2 * IDLE_ROUND);
	}
}

/* Between two sleeps in vain is one round. A second of waiting costs some hundred sleeps. */
static void test_in_vain(void **state)
{
	struct process process = process_start(100, 1000);
	uint64_t polled;

	process_poll_for(&process, SECOND);
	assert_in_range(process.sleeps, 200, 500);
	assert_int_equal(process.polled, process.slept_at + IDLE_ROUND * process.sleeps -
						 IDLE_ROUND +
						 (process.polled - process.slept_at) % IDLE_ROUND);
	/* From the longest sleep on. */
	polled = process.polled;
	process_poll_for(&process, SECOND);
	assert_in_range(process.polled - polled, 250 * IDLE_ROUND - IDLE_ROUND, 251 * IDLE_ROUND);
	assert_true(process.asleep > 1990 * MILLISECOND);
}

/* Whatever is not told by a message is noticed late by a small part of the time waited. */
static void test_late(void **state)
{
	struct process process = process_start(100, 1000);
	uint64_t begin = process.now, length;

	process.longest = SECOND;
	while (process.now < begin + 10 * SECOND) {
		length = process_poll(&process);
		assert_true(length <= IDLE_SLEEP_LEAST ||
			    length <= (process.now - begin) / IDLE_SHARE);
	}
}

/* A caller that works between polls is left alone, however short its pieces are above the limit. */
static void test_work(void **state)
{
	static const uint64_t pieces[] = { IDLE_WORK_NANOSECONDS, 1500, 5000, MILLISECOND };
	unsigned i;

	for (i = 0; i < ARRAY_SIZE(pieces); i++) {
		struct process process = process_start(pieces[i], 1000);

		process_poll_for(&process, 10 * SECOND);
		assert_int_equal(process.sleeps, 0);
	}
}

/* One that asks twice, or three times, between pieces of work, too. */
static void test_several_looks(void **state)
{
	unsigned looks, i;

	for (looks = 2; looks <= 3; looks++) {
		struct process process = process_start(0, 100);

		for (i = 0; i < 100000; i++) {
			process.between = i % looks ? 100 : 10000;
			process_poll(&process);
		}
		assert_int_equal(process.sleeps, 0);
	}
}

/* Sleeps of the longest length end at the same times in all processes. */
static void test_together(void **state)
{
	struct process process = process_start(100, 1000);
	unsigned i;

	process_poll_for(&process, SECOND + 123456);
	for (i = 0; i < 100; i++) {
		while (!process_poll(&process))
			;
		assert_int_equal(process.now % process.longest, 0);
	}
}

/* One that begins to work after sleeps in vain does not sleep again. */
static void test_work_later(void **state)
{
	struct process process = process_start(100, 1000);
	uint64_t sleeps;

	process_poll_for(&process, SECOND);
	sleeps = process.sleeps;
	process.between = 2000;
	process_poll_for(&process, SECOND);
	assert_in_range(process.sleeps, sleeps, sleeps + 1);
}

/* One that loses its processor for longer than a round sleeps after the next round. */
static void test_preempted(void **state)
{
	struct process process = process_start(100, 1000);
	uint64_t polled;

	process_poll_for(&process, SECOND);
	polled = process.polled;
	while (!process_poll(&process))
		;
	process_poll(&process);
	process.now += 3 * MILLISECOND;
	process_poll(&process);
	polled = process.polled;
	while (!process_poll(&process))
		;
	assert_true(process.polled - polled <= 2 * IDLE_ROUND);
}

/* Ranks that yield to many others, which take longer than any work, sleep all the same. */
static void test_shared(void **state)
{
	struct process process = process_start(100, 1000);

	process.others = MILLISECOND;
	process_poll_for(&process, SECOND);
	assert_true(process.sleeps > 0);
	assert_in_range(process.slept_at, 1000, 1000 + 2 * IDLE_ROUND);
}

/* From the first yield on each round ends with one, whether the caller waits or works. */
static void test_yields(void **state)
{
	struct process waits = process_start(100, UINT64_MAX / 2);
	struct process works = process_start(MICROSECOND, 1000);

	process_poll_for(&waits, MILLISECOND);
	assert_int_equal(waits.yielded_at, IDLE_YIELD_FIRST);
	assert_int_equal(waits.yields, (waits.polled - IDLE_YIELD_FIRST) / IDLE_ROUND + 1);
	process_poll_for(&works, MILLISECOND);
	assert_int_equal(works.yielded_at, IDLE_YIELD_FIRST);
	assert_int_equal(works.yields, (works.polled - IDLE_YIELD_FIRST) / IDLE_ROUND + 1);
	/* After an event none for a while. */
	idle_end(&waits.idle);
	waits.polled = waits.yields = 0;
	while (!waits.yields)
		process_poll(&waits);
	assert_int_equal(waits.yielded_at, IDLE_YIELD_FIRST);
}

/* Waits that end after so many polls each. Returns the poll of the first yield of a longer one. */
static uint64_t process_wait(struct process *process, unsigned waits, unsigned polls)
{
	unsigned i, j;

	for (i = 0; i < waits; i++) {
		for (j = 0; j < polls; j++)
			process_poll(process);
		idle_end(&process->idle);
	}
	process->yields = process->polled = 0;
	while (!process->yields)
		process_poll(process);
	idle_end(&process->idle);
	return process->yielded_at;
}

/* A process whose polls find nothing before the yield yields after the first round. */
static void test_patience(void **state)
{
	struct process process = process_start(100, 1000);
	const unsigned patient = IDLE_YIELD_FIRST, impatient = IDLE_ROUND;
	unsigned i, trials = 0;

	assert_int_equal(process_wait(&process, 0, 0), patient);
	/* Waits that end within the first round tell nothing. */
	assert_int_equal(process_wait(&process, 100, IDLE_ROUND - 1), patient);
	/* All 16 are patient; the wait of process_wait may be a trial, and the next is none. */
	process_wait(&process, IDLE_PATIENCE, IDLE_YIELD_FIRST);
	assert_int_equal(process_wait(&process, 0, 0), impatient);
	/* Waits that end after a yield do not show that polls would have ended them. */
	for (i = 0; i < 100 * IDLE_TRIAL; i++)
		trials += process_wait(&process, 0, 0) == patient;
	assert_int_equal(trials, 100);
	/* A trial that finds the event brings patience back, one that does not takes it. */
	process_wait(&process, IDLE_TRIAL, IDLE_YIELD_FIRST - 1);
	assert_int_equal(process_wait(&process, 0, 0), patient);
	process_wait(&process, 100, IDLE_YIELD_FIRST);
	assert_int_equal(process.idle.patience, 0);
}

/* The first long round after a sleep, whose caches are cold, ends with neither yield nor sleep. */
static void test_cold(void **state)
{
	struct process process = process_start(100, 1000);
	uint64_t sleeps;
	unsigned i;

	process_poll_for(&process, SECOND);
	while (!process_poll(&process))
		;
	process.yields = 0;
	sleeps = process.sleeps;
	process.between = MICROSECOND;
	for (i = 0; i < IDLE_ROUND; i++)
		process_poll(&process);
	assert_int_equal(process.yields, 0);
	for (i = 0; i < IDLE_ROUND; i++)
		process_poll(&process);
	assert_int_equal(process.yields, 1);
	assert_int_equal(process.sleeps, sleeps);
}

/* Long before a sleep the clock is read at the first yield alone, which begins the time waited. */
static void test_clock(void **state)
{
	struct process process = process_start(100, 1000);
	uint64_t untimed = 1000 - IDLE_ROUND, first;

	while (!process.yields)
		process_poll(&process);
	assert_int_equal(process.timed, 1);
	first = process.now;
	while (process.polled < untimed)
		process_poll(&process);
	assert_int_equal(process.timed, 1);
	while (!process.sleeps)
		process_poll(&process);
	assert_int_equal(process.idle.since, first);
}

/* After an event everything begins anew. */
static void test_event(void **state)
{
	struct process process = process_start(100, 1000);

	process_poll_for(&process, SECOND);
	idle_end(&process.idle);
	process.polled = process.sleeps = 0;
	while (!process.sleeps)
		process_poll(&process);
	assert_in_range(process.slept_at, 1000, 1000 + 2 * IDLE_ROUND);
	assert_int_equal(mca_btl_exanest_idle_length(&process.idle, process.idle.since, SECOND),
			 IDLE_SLEEP_LEAST);
	/* The caller's limit is lower than the least. */
	assert_int_equal(mca_btl_exanest_idle_length(&process.idle, process.idle.since, 1000),
			 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first),      cmocka_unit_test(test_in_vain),
		cmocka_unit_test(test_late),       cmocka_unit_test(test_work),
		cmocka_unit_test(test_together),   cmocka_unit_test(test_several_looks),
		cmocka_unit_test(test_work_later), cmocka_unit_test(test_preempted),
		cmocka_unit_test(test_shared),     cmocka_unit_test(test_yields),
		cmocka_unit_test(test_patience),   cmocka_unit_test(test_cold),
		cmocka_unit_test(test_clock),      cmocka_unit_test(test_event),
	};

	return cmocka_run_group_tests_name("idle rounds", tests, NULL, NULL);
}

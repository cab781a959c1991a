/* SPDX-License-Identifier: BSD-3-Clause */
/* When a process sleeps whose polls find nothing, and for how long, in virtual time. */
#include "unit.h"

#include "base/idle.h"

#define MICROSECOND 1000ull
#define MILLISECOND (1000 * MICROSECOND)
#define SECOND (1000 * MILLISECOND)

/* A process whose polls find nothing, and what its policy made it do. */
struct process {
	struct idle idle;
	uint64_t now;     /* ns */
	uint64_t between; /* from one poll to the next, ns */
	uint64_t polls;   /* of the option */
	uint64_t ahead;
	uint64_t longest; /* sleep, ns */
	uint64_t others;  /* time that other processes run for after a yield, ns */
	uint64_t yields, yielded_at;
	uint64_t timed; /* looks at the clock */
	bool early;     /* of idle_next */
	uint64_t polled, announced_at, slept_at, sleeps, asleep;
};

static struct process process_start(uint64_t between, uint64_t polls, uint64_t ahead)
{
	struct process process = {
		.now = 7 * SECOND, .between = between, .polls = polls, .ahead = ahead
	};

	process.longest = 4 * MILLISECOND;
	idle_init(&process.idle);
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
		bool timed = process->early ||
			     idle_is_timed(&process->idle, process->polls, process->ahead);

		process->timed += timed;
		step = idle_next(&process->idle, timed ? process->now : 0, process->polls,
				 process->ahead, process->early);
	}
	if (step == IDLE_YIELD) {
		if (!process->yields++)
			process->yielded_at = process->polled;
		process->now += process->others;
		return 0;
	}
	if (step == IDLE_ANNOUNCE) {
		assert_int_equal(process->announced_at, 0);
		process->announced_at = process->polled;
	}
	/* As progress does where an announcement needs no time. */
	if (step == IDLE_POLL || (step == IDLE_ANNOUNCE && process->ahead))
		return 0;
	length = idle_length(&process->idle, process->now, process->longest);
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
		const uint64_t ahead = numbers[i] > 32 ? 32 : 0;
		struct process process = process_start(100, numbers[i], ahead);

		process_poll_for(&process, MILLISECOND);
		assert_true(process.sleeps > 0);
		assert_in_range(process.slept_at, numbers[i], numbers[i] + 2 * IDLE_ROUND);
		assert_true(process.announced_at > 0);
		assert_true(process.slept_at - process.announced_at >= ahead);
	}
}

/* Between two sleeps in vain is one round. A second of waiting costs some hundred sleeps. */
static void test_in_vain(void **state)
{
	struct process process = process_start(100, 1000, 32);
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
	struct process process = process_start(100, 1000, 32);
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
		struct process process = process_start(pieces[i], 1000, 32);

		process_poll_for(&process, 10 * SECOND);
		assert_int_equal(process.sleeps, 0);
	}
}

/* One that asks twice, or three times, between pieces of work, too. */
static void test_several_looks(void **state)
{
	unsigned looks, i;

	for (looks = 2; looks <= 3; looks++) {
		struct process process = process_start(0, 100, 32);

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
	struct process process = process_start(100, 1000, 32);
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
	struct process process = process_start(100, 1000, 32);
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
	struct process process = process_start(100, 1000, 32);
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
	struct process process = process_start(100, 1000, 32);

	process.others = MILLISECOND;
	process_poll_for(&process, SECOND);
	assert_true(process.sleeps > 0);
	assert_in_range(process.slept_at, 1000, 1000 + 2 * IDLE_ROUND);
}

/* From the first yield on each round ends with one, whether the caller waits or works. */
static void test_yields(void **state)
{
	struct process waits = process_start(100, UINT64_MAX / 2, 32);
	struct process works = process_start(MICROSECOND, 1000, 32);

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

/* Where the peer needs the processor the first yield follows the first short round. */
static void test_early(void **state)
{
	struct process waits = process_start(100, 1000, 32);
	struct process works = process_start(MICROSECOND, 1000, 32);
	unsigned i;

	waits.early = works.early = true;
	while (!waits.yields)
		process_poll(&waits);
	assert_int_equal(waits.yielded_at, IDLE_ROUND);
	while (!works.yields)
		process_poll(&works);
	assert_int_equal(works.yielded_at, IDLE_YIELD_FIRST);
	/* A round whose beginning was not timed is none to yield after. */
	waits = process_start(100, 1000, 32);
	for (i = 0; i < 3; i++)
		process_poll(&waits);
	waits.early = true;
	while (!waits.yields)
		process_poll(&waits);
	assert_int_equal(waits.yielded_at, 2 * IDLE_ROUND);
}

/* Long before a sleep the clock is read at the first yield alone, which begins the time waited. */
static void test_clock(void **state)
{
	struct process process = process_start(100, 1000, 32);
	uint64_t untimed = 1000 - 32 - IDLE_ROUND, first;

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
	struct process process = process_start(100, 1000, 32);

	process_poll_for(&process, SECOND);
	assert_true(idle_end(&process.idle));
	assert_false(idle_end(&process.idle));
	process.polled = process.announced_at = process.sleeps = 0;
	while (!process.sleeps)
		process_poll(&process);
	assert_in_range(process.slept_at, 1000, 1000 + 2 * IDLE_ROUND);
	assert_int_equal(idle_length(&process.idle, process.idle.since, SECOND), IDLE_SLEEP_LEAST);
	/* The caller's limit is lower than the least. */
	assert_int_equal(idle_length(&process.idle, process.idle.since, 1000), 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first),      cmocka_unit_test(test_in_vain),
		cmocka_unit_test(test_late),       cmocka_unit_test(test_work),
		cmocka_unit_test(test_together),   cmocka_unit_test(test_several_looks),
		cmocka_unit_test(test_work_later), cmocka_unit_test(test_preempted),
		cmocka_unit_test(test_shared),     cmocka_unit_test(test_yields),
		cmocka_unit_test(test_early),      cmocka_unit_test(test_clock),
		cmocka_unit_test(test_event),
	};

	return cmocka_run_group_tests_name("idle rounds", tests, NULL, NULL);
}

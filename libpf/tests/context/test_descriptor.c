/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sides that wait for libpf with poll(2). A sleep of the waiter lasts longer than a wait here may
 * take: a lost wake-up is a test that fails.
 */
#include "pair.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "base/clock.h"
#include "common/context.h"

#define SLEEP 10000000 /* us */
#define PATIENCE 9000  /* ms, shorter than that */

/* What a side knows beside its struct pair; threads have each their own. */
static _Thread_local struct {
	int fd;
	unsigned calls; /* of pf_progress */
	unsigned waits; /* of poll */
} own;

/* Before the address is known. */
static void open_descriptor(struct pair *me)
{
	pair_check_status(me, pf_descriptor(me->context, &own.fd), PF_OK);
	me->context->sleep_longest = SLEEP;
	own.calls = own.waits = 0;
	if (pair_on_device(&me->options))
		pf_join(me->context, "tests", strlen("tests"));
}

static void progress(struct pair *me)
{
	own.calls++;
	pf_progress(me->context);
}

static void wait_readable(struct pair *me)
{
	struct pollfd readable = { .fd = own.fd, .events = POLLIN };

	own.waits++;
	pair_check(me, poll(&readable, 1, PATIENCE) == 1);
}

/* What a program does in a loop, at whose top it looks for what it waits for. */
static void step(struct pair *me)
{
	int status = pf_arm(me->context);

	if (status == PF_ERR_AGAIN) {
		progress(me);
		return;
	}
	pair_check_status(me, status, PF_OK);
	wait_readable(me);
}

static void await(struct pair *me, unsigned side, unsigned which, uint64_t least)
{
	while (*pair_value(me, side, which) < least)
		step(me);
}

/* ---- messages, and transfers that meet page faults ---- */

#define TRANSFER_EACH 50
#define LENGTH ((size_t)100000)

static int supply(pf_context *context, uint64_t address, void *page, size_t length, void *arg)
{
	usleep(20);
	memset(page, 0, length);
	return PF_OK;
}

struct paged {
	uint8_t *memory;
	size_t size;
	pf_pager *pager;
};

static void paged_open(struct paged *paged, struct pair *me)
{
	paged->size = 2 * 65536;
	paged->memory = test_map(paged->size);
	pair_check_status(me,
			  pf_pager_register(me->context, paged->memory, paged->size, supply, NULL,
					    &paged->pager),
			  PF_OK);
}

static void paged_evict(struct paged *paged, struct pair *me)
{
	pair_check_status(me, pf_pager_evict(paged->pager, paged->memory, paged->size), PF_OK);
}

static void paged_close(struct paged *paged)
{
	pf_pager_unregister(paged->pager);
	munmap(paged->memory, paged->size);
}

/*
 * Calls of pf_progress for a message or a transfer. Each needs a handful; a side that polls while it
 * waits needs hundreds for a page fault alone. That is so while a ring is full, which a peer without
 * a processor may leave so, up to the number of calls after which pf_arm lets the side wait.
 */
#define CALLS_MOST 8
#define CALLS_FULL 300

static void check_calls(struct pair *me, unsigned messages)
{
	unsigned events = messages +
			  2 * (messages / TRANSFER_EACH) * (unsigned)(LENGTH / 16384 + 1);

	printf("# side %u: %u calls of pf_progress and %u waits for %u messages\n", me->side,
	       own.calls, own.waits, messages);
	pair_check(me,
		   own.calls <= CALLS_MOST * events + 2 * CALLS_FULL * (messages / TRANSFER_EACH));
}

/*
 * Answer as many messages as number 2 of the test says. Number 1: where the memory is. Number 3, at
 * the end: how often this side waited.
 */
static void answer_all(struct pair *me)
{
	struct paged paged;
	unsigned messages, i;

	pair_watch(me, 0, 1);
	messages = (unsigned)*pair_value(me, 0, 2);
	paged_open(&paged, me);
	*pair_value(me, me->side, 1) = remote_address(paged.memory);
	for (i = 0; i < messages; i++) {
		await(me, me->side, 0, i + 1);
		if (i % TRANSFER_EACH == 0)
			paged_evict(&paged, me);
		pair_check_status(me, pf_send(me->peer, 0, &i, sizeof(i), NULL, 0), PF_OK);
	}
	/* The last transfers need it. */
	await(me, me->side, 0, messages + 1);
	check_calls(me, messages);
	*pair_value(me, me->side, 3) = own.waits;
	paged_close(&paged);
}

static void transfer(struct pair *me, enum pair_direction direction, void *local, uint64_t remote)
{
	struct pair_done done = { 0 };

	pair_post(me, me->peer, direction, local, remote, LENGTH, &done);
	while (!done.count)
		step(me);
	pair_check_status(me, done.last.status, PF_OK);
}

static void test_exchange(void **state)
{
	struct pair *pair = pair_start(&(struct pair_setup){ .here = pair_mode_options(state),
							     .there = pair_mode_options(state),
							     .opened = open_descriptor,
							     .partner = answer_all,
							     .receive = pair_count_message,
							     .receive_here = pair_count_message });
	unsigned messages = REPEAT(quick_or(1000, 2000));
	uint8_t *local = test_alloc(LENGTH);
	struct paged paged;
	unsigned i;

	paged_open(&paged, pair);
	*pair_value(pair, 0, 2) = messages;
	pair_say(pair, 1);
	for (i = 0; i < messages; i++) {
		assert_status(pf_send(pair->peer, 0, &i, sizeof(i), NULL, 0), PF_OK);
		await(pair, 0, 0, i + 1);
		if (i % TRANSFER_EACH)
			continue;
		/* Absent there, then here. */
		pattern_fill(local, LENGTH, i);
		transfer(pair, PUT, local, *pair_value(pair, 1, 1));
		paged_evict(&paged, pair);
		transfer(pair, GET, paged.memory, *pair_value(pair, 1, 1));
		assert_pattern(paged.memory, LENGTH, i);
	}
	assert_status(pf_send(pair->peer, 0, &i, sizeof(i), NULL, 0), PF_OK);
	check_calls(pair, messages);
	pair_wait_exit(pair, 1);
	/* One side may wait seldom: a message that wakes the other one has its answer before this one arms. */
	assert_true(own.waits + *pair_value(pair, 1, 3) > messages / 20);
	assert_true(pf_stat(pair->context, PF_STAT_LOCAL_FAULTS) > 0);
	paged_close(&paged);
	free(local);
	pair_end(pair);
}

/* Atomics, which the peer answers, and marks. */
static void answer_atomics(struct pair *me)
{
	await(me, me->side, 0, 1);
}

static void test_atomics(void **state)
{
	struct pair *pair = pair_start(&(struct pair_setup){ .here = pair_mode_options(state),
							     .there = pair_mode_options(state),
							     .window = 4096,
							     .opened = open_descriptor,
							     .partner = answer_atomics,
							     .receive = pair_count_message });
	unsigned i;

	for (i = 0; i < REPEAT(2000); i++) {
		assert_pending(pf_atomic(pair->peer, PF_ATOMIC_ADD, 8, remote_address(pair->window),
					 1, 0, NULL, NULL));
		if (i % 4)
			continue;
		while (pf_flush_test(pair->context, NULL, pf_posted(pair->context, NULL)) ==
		       PF_PENDING)
			step(pair);
		assert_int_equal(load64(pair->window), i + 1);
	}
	assert_true(own.calls < 20 * i);
	while (pf_flush_test(pair->context, NULL, pf_posted(pair->context, NULL)) == PF_PENDING)
		step(pair);
	assert_status(pf_send(pair->peer, 0, &i, sizeof(i), NULL, 0), PF_OK);
	pair_wait_exit(pair, 1);
	pair_end(pair);
}

/* ---- news at any moment of the protocol ---- */

#define MOMENTS REPEAT(quick_or(2000, 5000))

/* At most about so long, often much shorter. */
static void pause_randomly(struct random_numbers *numbers, uint64_t microseconds)
{
	uint64_t nanoseconds = random_below(numbers,
					    1 + random_below(numbers, microseconds * 1000));

	if (random_below(numbers, 4) == 0)
		sched_yield();
	else
		pair_compute(nanoseconds);
}

/* Number 1 of the test: the messages that it took. */
static void send_at_moments(struct pair *me)
{
	struct random_numbers numbers = random_start("descriptor, sender");
	unsigned i;

	for (i = 0; i < MOMENTS; i++) {
		while (*pair_value(me, 0, 1) < i)
			sched_yield();
		pause_randomly(&numbers, 60);
		pair_check_status(me, pf_send(me->peer, 0, &i, sizeof(i), NULL, 0), PF_OK);
	}
	/* What goes over the network goes while this context lives. */
	while (*pair_value(me, 0, 1) < i)
		sched_yield();
}

/* Each sleep is so long that a lost wake-up is found. */
static void sleep_long(pf_context *context)
{
	context->sleep_unrung = context->sleep_longest = SLEEP;
}

static void open_receiver(struct pair *me)
{
	if (me->side)
		return;
	open_descriptor(me);
	sleep_long(me->context);
}

/* The receiver arms, does something else or nothing, and waits, in poll or in pf_wait. */
static void test_moments(void **state)
{
	struct random_numbers numbers = random_start("descriptor, receiver");
	struct pair *pair = pair_start(&(struct pair_setup){ .here = pair_mode_options(state),
							     .there = pair_options(),
							     .opened = open_receiver,
							     .partner = send_at_moments,
							     .receive_here = pair_count_message });
	unsigned ways = pair->options.wake ? 5 : 4, i;
	uint64_t start;

	for (i = 1; i <= MOMENTS; i++) {
		start = clock_nanoseconds(CLOCK_MONOTONIC);
		while (*pair_value(pair, 0, 0) < i) {
			pause_randomly(&numbers, 30);
			if (pf_arm(pair->context) != PF_OK) {
				progress(pair);
				continue;
			}
			pause_randomly(&numbers, 30);
			switch (random_below(&numbers, ways)) {
			case 0:
				/* This may undo it: arm again. */
				progress(pair);
				break;
			case 4:
				/* The waiter and this thread sleep at the same time. */
				while (*pair_value(pair, 0, 0) < i)
					pf_wait(pair->context, PF_FOREVER);
				break;
			default:
				wait_readable(pair);
			}
		}
		assert_true(clock_nanoseconds(CLOCK_MONOTONIC) - start < PATIENCE * 1000000ull);
		*pair_value(pair, 0, 1) = i;
	}
	pair_wait_exit(pair, 1);
	pair_end(pair);
}

/* ---- many peers ---- */

#define SENDERS 12
#define FEW 200

static void send_few(struct pair *me)
{
	int i;

	for (i = 0; i < FEW; i++) {
		while (pf_send(me->peer, 0, &i, sizeof(i), NULL, 0) == PF_ERR_AGAIN)
			pf_progress(me->context);
		usleep(me->side * 10);
	}
	pair_watch(me, 0, 1);
}

/* More senders than are polled. Then all are idle, and so is this side: they are known to ring. */
static void test_many_senders(void **state)
{
	struct pair *pair = pair_start(&(struct pair_setup){ .partners = SENDERS,
							     .here = pair_mode_options(state),
							     .there = pair_options(),
							     .opened = open_descriptor,
							     .partner = send_few,
							     .receive_here = pair_count_message });
	struct pollfd readable = { .fd = own.fd, .events = POLLIN };
	unsigned side;
	uint64_t end;

	await(pair, 0, 0, SENDERS * FEW);
	end = clock_nanoseconds(CLOCK_MONOTONIC) + 200000000;
	own.waits = 0;
	while (clock_nanoseconds(CLOCK_MONOTONIC) < end) {
		if (pf_arm(pair->context) == PF_ERR_AGAIN) {
			progress(pair);
			continue;
		}
		own.waits++;
		poll(&readable, 1, 50);
	}
	/* 200, once a millisecond, if it did not rely on them. */
	assert_true(own.waits < 100);
	pair_say(pair, 1);
	for (side = 1; side <= SENDERS; side++)
		pair_wait_exit(pair, side);
	pair_end(pair);
}

static void wait_for_end(struct pair *me)
{
	pair_check_status(me, pf_send(me->peer, 0, "x", 1, NULL, 0), PF_OK);
	pair_watch(me, 0, 1);
}

/* The end of a peer is news. Threads cannot be killed; the network finds out only after peer_timeout. */
static __attribute__((unused)) void test_gone(void **state)
{
	struct pair *pair = pair_start(&(struct pair_setup){ .here = pair_mode_options(state),
							     .there = pair_options(),
							     .opened = open_descriptor,
							     .partner = wait_for_end,
							     .receive_here = pair_count_message,
							     .peer_event_here = pair_note_end });

	await(pair, 0, 0, 1);
	assert_status(pf_send(pair->peer, 0, "x", 1, NULL, 0), PF_OK);
	while (pf_arm(pair->context) != PF_OK)
		progress(pair);
	pair_kill(pair, 1);
	while (!pair->errors.count)
		step(pair);
	assert_int_equal(pair->errors.status, PF_ERR_PEER);
	pair_end(pair);
}

/* ---- this process alone ---- */

static bool is_readable(int milliseconds)
{
	struct pollfd readable = { .fd = own.fd, .events = POLLIN };

	return poll(&readable, 1, milliseconds) == 1;
}

static pf_context *open_alone(bool wake, uint64_t sleep)
{
	pf_options options = pair_options();
	pf_context *context;

	options.wake = wake;
	assert_ok(pf_open(&options, NULL, &context));
	context->sleep_longest = sleep;
	return context;
}

/* What it costs, and when it is readable. */
static void test_alone(void **state)
{
	pf_context *context = open_alone(false, SLEEP);
	unsigned threads = count_entries("/proc/self/task"), i;
	int again;

	pf_wake(context);
	assert_status(pf_arm(context), PF_ERR_ARGUMENT);
	assert_int_equal(count_entries("/proc/self/task"), threads);
	assert_ok(pf_descriptor(context, &own.fd));
	assert_ok(pf_descriptor(context, &again));
	assert_int_equal(own.fd, again);
	assert_int_equal(count_entries("/proc/self/task"), threads + 1);
	/* That one was before. */
	assert_status(pf_arm(context), PF_ERR_AGAIN);
	for (i = 0; i < 3; i++) {
		/* The waiter may be late with its signal of the time before, which is only one. */
		assert_ok(pf_arm(context));
		if (is_readable(20)) {
			assert_ok(pf_arm(context));
			assert_false(is_readable(20));
		}
		pf_wake(context);
		assert_true(is_readable(PATIENCE));
		assert_status(pf_arm(context), PF_ERR_AGAIN);
		assert_int_equal(pf_progress(context), 0);
	}
	assert_int_equal(pf_stat(context, PF_STAT_SLEEPS), 0);
	assert_ok(pf_arm(context));
	pf_close(context);

	/* At the latest after a sleep. */
	context = open_alone(false, 1000);
	assert_ok(pf_descriptor(context, &own.fd));
	assert_ok(pf_arm(context));
	assert_true(is_readable(PATIENCE));
	pf_close(context);
}

struct waker {
	pf_context *context;
	_Atomic unsigned said, heard;
	unsigned count;
};

static void *wake_at_moments(void *arg)
{
	struct random_numbers numbers = random_start("descriptor, waker");
	struct waker *waker = arg;
	unsigned i;

	for (i = 1; i <= waker->count; i++) {
		pause_randomly(&numbers, 60);
		waker->said = i;
		pf_wake(waker->context);
		while (waker->heard < i)
			sched_yield();
	}
	return NULL;
}

/* A thread stores something, then wakes the one that waits for it. */
static void wake(bool in_wait)
{
	struct random_numbers numbers = random_start("descriptor, woken");
	pf_context *context = open_alone(in_wait, SLEEP);
	struct waker waker = { .context = context, .count = MOMENTS };
	bool slept;
	pthread_t thread;
	uint64_t start;

	sleep_long(context);
	if (!in_wait)
		assert_ok(pf_descriptor(context, &own.fd));
	assert_int_equal(pthread_create(&thread, NULL, wake_at_moments, &waker), 0);
	start = clock_nanoseconds(CLOCK_MONOTONIC);
	while (waker.heard < waker.count) {
		if (waker.said != waker.heard) {
			assert_true(clock_nanoseconds(CLOCK_MONOTONIC) - start <
				    PATIENCE * 1000000ull);
			start = clock_nanoseconds(CLOCK_MONOTONIC);
			waker.heard = waker.said;
			continue;
		}
		pause_randomly(&numbers, 30);
		if (in_wait)
			pf_wait(context, PF_FOREVER);
		else if (pf_arm(context) == PF_ERR_AGAIN)
			pf_progress(context);
		else
			assert_true(is_readable(PATIENCE));
	}
	pthread_join(thread, NULL);
	slept = pf_stat(context, PF_STAT_SLEEPS) > 0;
	pf_close(context);
	assert_true(slept || !in_wait);
}

static void test_wake(void **state)
{
	wake(false);
}

static void test_wake_wait(void **state)
{
	wake(true);
}

/* It is refused once a peer may have learned that it need not ring. */
static __attribute__((unused)) void test_late(void **state)
{
	struct pair *pair = pair_start(&(struct pair_setup){ .here = pair_options(),
							     .there = pair_options(),
							     .partner = wait_for_end,
							     .receive_here = pair_count_message });
	int fd;

	while (*pair_value(pair, 0, 0) < 1)
		pair_progress(pair);
	assert_status(pf_descriptor(pair->context, &fd), PF_ERR_ARGUMENT);
	assert_status(pf_arm(pair->context), PF_ERR_ARGUMENT);
	pair_say(pair, 1);
	pair_wait_exit(pair, 1);
	pair_end(pair);
}

/* What the program itself posts after pf_arm is news, too. */
static void test_post(void **state)
{
	struct pair *pair = pair_start(&(struct pair_setup){ .here = pair_mode_options(state),
							     .there = pair_options(),
							     .window = 4096,
							     .opened = open_descriptor });
	struct pair_done done = { 0 };
	unsigned i;

	for (i = 1; i <= 100; i++) {
		while (pf_arm(pair->context) != PF_OK)
			progress(pair);
		assert_pending(pf_atomic(pair->peer, PF_ATOMIC_ADD, 8, remote_address(pair->window),
					 1, 0, pair_completed, &done));
		wait_readable(pair);
		while (done.count < i)
			step(pair);
	}
	pair_end(pair);
}

/* Number 0 of the test: not 0 when the page may come. */
static _Atomic uint64_t *wanted;

static int supply_late(pf_context *context, uint64_t address, void *page, size_t length, void *arg)
{
	while (!*wanted)
		usleep(1000);
	memset(page, 0, length);
	return PF_OK;
}

/* Its own number 0: the address of a page that comes late. It does not poll from its step 2 to the test's. */
static void serve_late(struct pair *me)
{
	void *memory = test_map(65536);
	pf_pager *pager;

	wanted = pair_value(me, 0, 0);
	pair_check_status(me,
			  pf_pager_register(me->context, memory, 65536, supply_late, NULL, &pager),
			  PF_OK);
	*pair_value(me, 1, 0) = remote_address(memory);
	pair_say(me, 1);
	pair_await(me, 0, 1);
	pair_say(me, 2);
	pair_watch(me, 0, 2);
	pair_await(me, 0, 3);
	pf_pager_unregister(pager);
}

/*
 * No answer to another operation tells of the room that a transfer waits for. While the peer does
 * not read, the program waits, from sleep to sleep.
 */
static void test_full_ring(void **state)
{
	pf_options here = pair_mode_options(state), there = pair_mode_options(state);
	struct pair_done late = { 0 }, put = { 0 };
	uint8_t *local = test_alloc(65536);
	struct pair *pair;
	unsigned i;

	here.ring_size = there.ring_size = 65536;
	pair = pair_start(&(struct pair_setup){ .here = here,
						.there = there,
						.window = 65536,
						.opened = open_descriptor,
						.partner = serve_late });
	pair_await(pair, 1, 1);
	pair_connect(pair);
	pair_say(pair, 1);
	pair_await(pair, 1, 2);
	assert_pending(pf_atomic(pair->peer, PF_ATOMIC_ADD, 8, *pair_value(pair, 1, 0), 1, 0,
				 pair_completed, &late));
	for (i = 0; i < 20; i++)
		progress(pair);
	for (i = 0; i < 60; i++)
		assert_status(pf_send(pair->peer, 0, local, 1000, NULL, 0), PF_OK);
	pair_post(pair, pair->peer, PUT, local, pair_there(pair, 1, pair->window), 16384, &put);
	own.calls = own.waits = 0;
	while (own.waits < 10 && own.calls <= CALLS_FULL + CALLS_MOST * own.waits)
		step(pair);
	assert_in_range(own.calls, CALLS_FULL / 2, CALLS_FULL + CALLS_MOST * own.waits);
	assert_int_equal(put.count, 0);
	pair_say(pair, 2);
	while (!put.count)
		step(pair);
	assert_int_equal(late.count, 0);
	*pair_value(pair, 0, 0) = 1;
	while (!late.count)
		step(pair);
	assert_ok(late.last.status);
	pair_say(pair, 3);
	free(local);
	pair_end(pair);
}

/* The program may have more to wait for: pf_progress never sleeps. */
static void test_never_sleeps(void **state)
{
	pf_context *context = open_alone(true, SLEEP);
	unsigned i;

	for (i = 0; i < 10000; i++)
		pf_progress(context);
	assert_int_equal(pf_stat(context, PF_STAT_SLEEPS), 0);
	pf_close(context);
}

#define IN_ALL(test)                                                                               \
	IN_MODE(test, DEFAULT), IN_MODE(test, STREAM), IN_MODE(test, THREADS), IN_MODE(test, WAIT)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_ALL(test_exchange),
		IN_ALL(test_atomics),
		IN_MODE(test_moments, DEFAULT),
		IN_MODE(test_moments, THREADS),
		IN_MODE(test_moments, WAIT),
		IN_ALL(test_many_senders),
		IN_MODE(test_post, DEFAULT),
		IN_MODE(test_post, THREADS),
		IN_MODE_UNLESS(either, test_gone, DEFAULT),
		PAIR_TEST_UNLESS(either, test_late),
		IN_MODE_UNLESS(either, test_full_ring, STREAM),
		/* After the others: a context left open would have a thread when they fork. */
		cmocka_unit_test(test_alone),
		cmocka_unit_test(test_wake),
		cmocka_unit_test(test_wake_wait),
		cmocka_unit_test(test_never_sleeps),
	};

	return pair_run_tests("descriptor", tests);
}

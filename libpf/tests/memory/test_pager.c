/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory whose pages come from a callback: for transfers of either side, and for loads. */
#include "page.h"
#include "pair.h"
#include "patience.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/context.h"

/* Of Linux 5.11; the headers of the build may be older. */
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

#define LENGTH (2 * MIB)
#define PART (LENGTH / 16) /* whole pages, whatever their size */
#define UNALIGNED 77

static const size_t lengths[] = { 1, 4096, 16385, 300001, LENGTH };

/* A pager's memory, and what its callback is to do. */
struct paged {
	uint8_t *start;
	pf_pager *pager;
	_Atomic unsigned calls; /* of the callback */
	_Atomic bool held;      /* wait while this is set */
	unsigned delay;         /* of each call, us */
	_Atomic uint64_t bad;   /* the page that it cannot supply */
	bool small;             /* there is room for one page only: */
	_Atomic uint64_t last;  /* this one */
};

static int supply(pf_context *context, uint64_t address, void *page, size_t length, void *arg)
{
	struct paged *paged = arg;
	size_t at;

	atomic_fetch_add(&paged->calls, 1);
	while (paged->held)
		usleep(1000);
	if (paged->delay)
		usleep(paged->delay);
	if (paged->bad >= address && paged->bad < address + length)
		return PF_ERR_SYSTEM;
	if (paged->small) {
		uint64_t last = atomic_exchange(&paged->last, address);

		if (last && last != address)
			madvise((void *)(uintptr_t)last, PAGE, MADV_DONTNEED);
	}
	for (at = 0; at < length; at += PAGE)
		pattern_fill((uint8_t *)page + at, PAGE, address + at);
	return PF_OK;
}

/* For either side. After the range of the pager comes an absent page that is not its own. */
static void paged_open(struct paged *paged, struct pair *me)
{
	paged->start = test_map(LENGTH + PAGE);
	pair_check_status(me,
			  pf_pager_register(me->context, paged->start, LENGTH, supply, paged,
					    &paged->pager),
			  PF_OK);
}

static void paged_close(struct paged *paged)
{
	pf_pager_unregister(paged->pager);
	munmap(paged->start, LENGTH + PAGE);
}

static void evict_all(struct paged *paged)
{
	assert_ok(pf_pager_evict(paged->pager, paged->start, LENGTH));
}

/* Do these bytes, from this address in a pager's memory, hold what its callback supplied? */
static bool is_supplied(const uint8_t *bytes, uint64_t from, size_t length)
{
	size_t at, here;

	for (at = 0; at < length; at += here) {
		uint64_t page = (from + at) & ~(uint64_t)(PAGE - 1), offset = from + at - page;

		here = PAGE - offset < length - at ? PAGE - offset : length - at;
		if (pattern_differs_from(bytes + at, here, page, offset) != here)
			return false;
	}
	return true;
}

static void test_local(void **state)
{
	struct pair *pair = pair_open(state, .window = LENGTH);
	uint64_t window = pair_there(pair, 1, pair->window);
	struct paged paged = { 0 };
	size_t i;

	paged_open(&paged, pair);
	for (i = 0; i < ARRAY_SIZE(lengths); i++) {
		size_t before = lengths[i] < LENGTH ? UNALIGNED : 0;
		uint8_t *local = paged.start + before;

		evict_all(&paged);
		assert_ok(pair_put(pair, pair->peer, local, window, lengths[i]).status);
		assert_true(is_supplied(pair->window, remote_address(local), lengths[i]));
		/* A get writes only its part of a page: the rest is the pager's. */
		evict_all(&paged);
		pattern_fill(pair->window, lengths[i], i);
		assert_ok(pair_get(pair, pair->peer, local, window, lengths[i]).status);
		pair_check_pattern(pair, local, lengths[i], i);
		assert_true(is_supplied(paged.start, remote_address(paged.start), before));
	}
	assert_true(pf_stat(pair->context, PF_STAT_LOCAL_PAGER) > 0);
	assert_int_equal(pf_stat(pair->context, PF_STAT_FAULT_ERRORS), 0);
	paged_close(&paged);
	pair_end(pair);
}

/*
 * A pager that never has more than one page present, which is less than a block. Not over the
 * network: a packet needs all its pages at once.
 */
static void test_small(void **state)
{
	struct pair *pair = pair_open(state, .window = LENGTH);
	struct paged paged = { .small = true };
	uint8_t *local;
	const size_t length = 300001;

	if (pair_over_net(&pair->options)) {
		pair_end(pair);
		return;
	}
	paged_open(&paged, pair);
	local = paged.start + UNALIGNED;
	assert_ok(
		pair_put(pair, pair->peer, local, pair_there(pair, 1, pair->window), length).status);
	assert_true(is_supplied(pair->window, remote_address(local), length));
	paged_close(&paged);
	pair_end(pair);
}

/* ---- memory of the partner: number 0 is its address ---- */

static struct paged remote_paged;

/* Argument: the page that cannot be supplied, or 0. Number 1: the faults of the partner's pager. */
static void evict_remote(struct pair *me, const uint64_t *arguments)
{
	*pair_value(me, 1, 1) = pf_stat(me->context, PF_STAT_LOCAL_PAGER);
	remote_paged.bad = arguments[0];
	evict_all(&remote_paged);
}

static void serve_paged(struct pair *me)
{
	paged_open(&remote_paged, me);
	*pair_value(me, 1, 0) = remote_address(remote_paged.start);
	pair_say(me, 1);
	pair_serve(me);
	paged_close(&remote_paged);
}

static uint64_t await_remote(struct pair *pair)
{
	pair_await(pair, 1, 1);
	return *pair_value(pair, 1, 0);
}

static void test_remote(void **state)
{
	struct pair *pair = pair_open(state, .partner = serve_paged, .command = evict_remote);
	uint8_t *local = test_alloc(LENGTH);
	uint64_t remote = await_remote(pair);
	pf_completion completion;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(lengths); i++) {
		uint64_t at = remote + (lengths[i] < LENGTH ? UNALIGNED : 0);

		pair_command(pair, 0);
		assert_ok(pair_get(pair, pair->peer, local, at, lengths[i]).status);
		assert_true(is_supplied(local, at, lengths[i]));
		pair_command(pair, 0);
		pattern_fill(local, lengths[i], i);
		assert_ok(pair_put(pair, pair->peer, local, at, lengths[i]).status);
		memset(local, 0, lengths[i]);
		assert_ok(pair_get(pair, pair->peer, local, at, lengths[i]).status);
		pair_check_pattern(pair, local, lengths[i], i);
	}
	/* Over the device and the network, the owner of the memory counts its faults. */
	if (pair_on_device(&pair->options) || pair_over_net(&pair->options))
		assert_true(*pair_value(pair, 1, 1) > 0);
	else
		assert_true(pf_stat(pair->context, PF_STAT_REMOTE_PAGER) > 0);
	/* If a page cannot be supplied, the transfer fails with its address; the next one works. */
	pair_command(pair, remote + 20 * PAGE);
	completion = pair_get(pair, pair->peer, local, remote, LENGTH);
	assert_fault(completion, PF_SIDE_REMOTE, remote + 20 * PAGE);
	pair_command(pair, 0);
	assert_ok(pair_get(pair, pair->peer, local, remote, LENGTH).status);
	assert_true(is_supplied(local, remote, LENGTH));
	free(local);
	pair_end(pair);
}

/* Touch each page, and count wrong ones. */
static void *touch(void *arg)
{
	struct paged *paged = arg;
	uintptr_t wrong = 0;
	size_t i;

	for (i = 0; i < LENGTH / PAGE; i++)
		wrong += !is_supplied(paged->start + i * PAGE,
				      remote_address(paged->start + i * PAGE), 64);
	return (void *)wrong;
}

/* Loads of two threads and transfers, while pages are evicted at any time. */
static void test_loads(void **state)
{
	struct pair *pair = pair_open(state, .window = LENGTH);
	struct paged paged = { 0 };
	uint64_t window = pair_there(pair, 1, pair->window);
	pthread_t threads[2];
	unsigned rounds = quick_or(2, 6), round, i;
	void *wrong;

	paged_open(&paged, pair);
	assert_ok(pf_pager_set_ahead(paged.pager, PART));
	for (round = 0; round < rounds; round++) {
		for (i = 0; i < 2; i++)
			assert_int_equal(pthread_create(&threads[i], NULL, touch, &paged), 0);
		for (i = 0; i < 8; i++) {
			assert_ok(pf_pager_evict(paged.pager, paged.start + i * PART, PART));
			assert_ok(pair_put(pair, pair->peer, paged.start, window, LENGTH).status);
			assert_true(is_supplied(pair->window, remote_address(paged.start), LENGTH));
		}
		for (i = 0; i < 2; i++) {
			pthread_join(threads[i], &wrong);
			assert_null(wrong);
		}
	}
	paged_close(&paged);
	pair_end(pair);
}

static bool is_present(const struct paged *paged, size_t number)
{
	unsigned char present;

	assert_ok(mincore(paged->start + number * PAGE, PAGE, &present));
	return present & 1;
}

/* Units of three pages; the range has a shorter one at its end. */
static void test_units(void **state)
{
	struct pair *pair = pair_open(state, .window = LENGTH);
	const size_t last = LENGTH / PAGE - 1, wrong[] = { 0, PAGE - 1, PAGE + 1 };
	struct paged paged = { 0 };
	volatile uint8_t *bytes;
	size_t i;

	paged_open(&paged, pair);
	bytes = paged.start;
	for (i = 0; i < ARRAY_SIZE(wrong); i++)
		assert_status(pf_pager_set_unit(paged.pager, wrong[i]), PF_ERR_ARGUMENT);
	assert_ok(pf_pager_set_unit(paged.pager, 3 * PAGE));
	(void)bytes[4 * PAGE];
	assert_int_equal(paged.calls, 1);
	for (i = 2; i <= 6; i++)
		assert_int_equal(is_present(&paged, i), i >= 3 && i <= 5);
	/* Present pages of a unit stay, also between absent ones. */
	pattern_fill(paged.start + 4 * PAGE, PAGE, 1);
	assert_ok(pf_pager_evict(paged.pager, paged.start + 3 * PAGE, PAGE));
	assert_ok(pf_pager_evict(paged.pager, paged.start + 5 * PAGE, PAGE));
	(void)bytes[5 * PAGE];
	assert_int_equal(paged.calls, 2);
	assert_true(is_present(&paged, 3));
	assert_true(
		is_supplied(paged.start + 3 * PAGE, remote_address(paged.start + 3 * PAGE), PAGE));
	assert_true(
		is_supplied(paged.start + 5 * PAGE, remote_address(paged.start + 5 * PAGE), PAGE));
	pair_check_pattern(pair, paged.start + 4 * PAGE, PAGE, 1);
	(void)bytes[last * PAGE];
	assert_int_equal(paged.calls, 3);
	assert_true(is_present(&paged, last - 1) && !is_present(&paged, last - 2));
	/* A transfer needs fewer calls than there are pages. */
	evict_all(&paged);
	assert_ok(pair_put(pair, pair->peer, paged.start, pair_there(pair, 1, pair->window), LENGTH)
			  .status);
	assert_true(is_supplied(pair->window, remote_address(paged.start), LENGTH));
	assert_in_range(paged.calls, 3 + (last + 3) / 3, 3 + last);
	/* The kernel splits the mapping within a unit. */
	evict_all(&paged);
	assert_ok(madvise(paged.start + 4 * PAGE, PAGE, MADV_DONTDUMP));
	assert_true(is_supplied(paged.start + 3 * PAGE, remote_address(paged.start + 3 * PAGE),
				3 * PAGE));
	assert_ok(madvise(paged.start + 4 * PAGE, PAGE, MADV_DODUMP));
	/* More than the range. */
	assert_ok(pf_pager_set_unit(paged.pager, 2 * LENGTH));
	evict_all(&paged);
	assert_true(is_supplied(paged.start, remote_address(paged.start), LENGTH));
	paged_close(&paged);
	pair_end(pair);
}

static void *load(void *address)
{
	return (void *)(uintptr_t) * (volatile uint8_t *)address;
}

/* A unit is supplied once for page faults on several of its pages. */
static void test_unit_once(void **state)
{
	struct pair *pair = pair_open(state, .window = LENGTH);
	struct paged paged = { .held = true };
	pthread_t threads[4];
	size_t i;

	paged_open(&paged, pair);
	assert_ok(pf_pager_set_unit(paged.pager, 4 * PAGE));
	/* The first keeps a thread busy, the others are on pages of another unit. */
	for (i = 0; i < ARRAY_SIZE(threads); i++) {
		assert_int_equal(pthread_create(&threads[i], NULL, load,
						paged.start + (i ? 3 + i : 0) * PAGE),
				 0);
		while (!paged.calls)
			usleep(1000);
	}
	/* Time for their page faults; if it is too short, there are fewer to be answered. */
	usleep(50000);
	paged.held = false;
	for (i = 0; i < ARRAY_SIZE(threads); i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(paged.calls, 2);
	paged_close(&paged);
	pair_end(pair);
}

/* Load a page, and wait until what follows it is present up to the page last, and not more. */
static void load_ahead(struct paged *paged, size_t number, size_t last)
{
	uint8_t *page = paged->start + number * PAGE;

	(void)*(volatile uint8_t *)page;
	while (!is_present(paged, last))
		usleep(1000);
	/* Time for more than that, which would be wrong. */
	usleep(20000);
	assert_true(is_supplied(page, remote_address(page), (last + 1 - number) * PAGE));
	assert_false(is_present(paged, last + 1));
}

/* Page faults in order have the service thread supply what comes next. */
static void test_ahead(void **state)
{
	struct pair *pair = pair_open(state, .window = LENGTH);
	const size_t last = LENGTH / PAGE - 1;
	struct paged paged = { 0 };
	volatile uint8_t *bytes;
	unsigned calls, i;

	paged_open(&paged, pair);
	bytes = paged.start;
	assert_status(pf_pager_set_ahead(paged.pager, PAGE + 1), PF_ERR_ARGUMENT);
	assert_ok(pf_pager_set_ahead(paged.pager, 4 * PAGE));
	load_ahead(&paged, 0, 0);
	load_ahead(&paged, 1, 3);
	load_ahead(&paged, 4, 8);
	assert_int_equal(paged.calls, 9);
	/* Not in order. */
	load_ahead(&paged, 20, 20);
	assert_false(is_present(&paged, 18));
	(void)bytes[19 * PAGE];
	assert_int_equal(paged.calls, 11);
	/* Up to what is present. */
	load_ahead(&paged, 9, 13);
	load_ahead(&paged, 16, 16);
	(void)bytes[14 * PAGE];
	load_ahead(&paged, 15, 16);
	assert_int_equal(paged.calls, 19);
	/* As little as a unit, and as far as the range. */
	assert_ok(pf_pager_set_ahead(paged.pager, PAGE));
	load_ahead(&paged, 30, 30);
	load_ahead(&paged, 31, 32);
	assert_ok(pf_pager_set_ahead(paged.pager, 4 * PAGE));
	load_ahead(&paged, last - 5, last - 5);
	load_ahead(&paged, last - 4, last - 2);
	(void)bytes[(last - 1) * PAGE];
	while (!is_present(&paged, last))
		usleep(1000);
	usleep(20000);
	assert_int_equal(paged.calls, 28);
	/* In units. */
	evict_all(&paged);
	assert_ok(pf_pager_set_unit(paged.pager, 2 * PAGE));
	load_ahead(&paged, 0, 1);
	load_ahead(&paged, 3, 7);
	/* What cannot be supplied ends it; only an access that needs it fails. */
	calls = paged.calls;
	paged.bad = remote_address(paged.start + 10 * PAGE);
	load_ahead(&paged, 8, 9);
	while (paged.calls < calls + 2)
		usleep(1000);
	usleep(20000);
	assert_int_equal(paged.calls, calls + 2);
	paged.bad = 0;
	load_ahead(&paged, 10, 15);
	assert_ok(pf_pager_set_ahead(paged.pager, 3 * PAGE));
	load_ahead(&paged, 16, 19);
	assert_ok(pf_pager_set_ahead(paged.pager, 0));
	load_ahead(&paged, 20, 21);
	paged_close(&paged);
	/* It ends while pages are being supplied. */
	for (i = 0; i < 100; i++) {
		paged_open(&paged, pair);
		assert_ok(pf_pager_set_ahead(paged.pager, LENGTH));
		(void)((volatile uint8_t *)paged.start)[0];
		(void)((volatile uint8_t *)paged.start)[PAGE];
		(void)((volatile uint8_t *)paged.start)[4 * PAGE];
		paged_close(&paged);
	}
	pair_end(pair);
}

static _Atomic bool evicting;

static void *evict_always(void *arg)
{
	struct paged *paged = arg;
	unsigned turn;

	for (turn = 0; evicting; turn++) {
		usleep(turn % 60);
		if (pf_pager_evict(paged->pager, paged->start, LENGTH) != PF_OK)
			break;
	}
	return NULL;
}

static void serve_evicted(struct pair *me)
{
	pthread_t thread;

	evicting = true;
	me->awake = true;
	paged_open(&remote_paged, me);
	pair_check(me, pthread_create(&thread, NULL, evict_always, &remote_paged) == 0);
	*pair_value(me, 1, 0) = remote_address(remote_paged.start);
	pair_say(me, 1);
	pair_serve(me);
	evicting = false;
	pthread_join(thread, NULL);
	paged_close(&remote_paged);
}

/* An eviction at any time, also of part of a block that is being supplied, is no error. */
static void test_evicted(void **state)
{
	struct pair *pair = pair_open(state, .partner = serve_evicted);
	const size_t length = 65536;
	uint8_t *local = test_alloc(length);
	unsigned rounds = quick_or(REPEAT(200), REPEAT(500));
	uint64_t remote = await_remote(pair) + UNALIGNED;

	pair->awake = true;
	while (rounds--) {
		assert_ok(pair_get(pair, pair->peer, local, remote, length).status);
		assert_true(is_supplied(local, remote, length));
	}
	free(local);
	pair_end(pair);
}

/* Move memory some of whose pages the pager holds back: others move meanwhile, this ends with them. */
static void transfer_held(struct pair *pair, struct paged *paged, enum pair_direction direction,
			  uint8_t *memory, size_t length)
{
	struct pair_done slow = { 0 };
	uint8_t other[PAGE_MOST];
	unsigned calls = paged->calls, i;

	paged->held = true;
	pair_post(pair, pair->peer, direction, memory, pair_there(pair, 1, pair->window), length,
		  &slow);
	/* If the first call came after the hold, supply would count as quick, and be called on this thread. */
	while (paged->calls == calls)
		pair_progress(pair);
	for (i = 0; i < 100; i++) {
		pair_verify(pair, 1, PUT, other, pair->window + LENGTH / 2, PAGE, 5);
		assert_int_equal(slow.count, 0);
	}
	paged->held = false;
	pair_await_done(pair, &slow, 1);
	assert_ok(slow.last.status);
}

/* A slow pager delays its own transfer, not the caller and not another transfer. */
static void test_slow(void **state)
{
	struct pair *pair = pair_open(state, .window = LENGTH);
	struct paged paged = { 0 };

	paged_open(&paged, pair);
	pair_connect(pair);
	transfer_held(pair, &paged, PUT, paged.start, 4 * PAGE);
	assert_true(is_supplied(pair->window, remote_address(paged.start), 4 * PAGE));
	paged_close(&paged);
	pair_end(pair);
}

/* Two pagers for loads: the supply of the first waits for that of the second. */
struct ordered {
	sem_t second;
	_Atomic bool first;
};

static int supply_first(pf_context *context, uint64_t address, void *page, size_t length, void *arg)
{
	struct ordered *ordered = arg;

	(void)context, (void)address;
	ordered->first = true;
	sem_wait(&ordered->second);
	memset(page, 1, length);
	return PF_OK;
}

static int supply_second(pf_context *context, uint64_t address, void *page, size_t length,
			 void *arg)
{
	struct ordered *ordered = arg;

	(void)context, (void)address;
	sem_post(&ordered->second);
	memset(page, 2, length);
	return PF_OK;
}

static void *load_byte(void *arg)
{
	const volatile uint8_t *byte = arg;

	return (void *)(uintptr_t)*byte;
}

/* A slow supply for a load does not stop the service thread, which reads the messages of loads. */
static void test_slow_load(void **state)
{
	struct pair *pair = pair_open(state, .window = PAGE);
	uint8_t *first = test_map(PAGE), *second = test_map(PAGE);
	struct ordered ordered = { .first = false };
	pf_pager *slow, *other;
	pthread_t thread;
	void *loaded;

	sem_init(&ordered.second, 0, 0);
	assert_ok(pf_pager_register(pair->context, first, PAGE, supply_first, &ordered, &slow));
	assert_ok(pf_pager_register(pair->context, second, PAGE, supply_second, &ordered, &other));
	assert_ok(pthread_create(&thread, NULL, load_byte, first));
	while (!ordered.first)
		usleep(100);
	assert_int_equal(*(volatile uint8_t *)second, 2);
	pthread_join(thread, &loaded);
	assert_int_equal((uintptr_t)loaded, 1);
	pf_pager_unregister(slow);
	pf_pager_unregister(other);
	sem_destroy(&ordered.second);
	munmap(first, PAGE);
	munmap(second, PAGE);
	pair_end(pair);
}

struct later_load {
	_Atomic bool now;
	const volatile uint8_t *byte;
};

static void *load_later(void *arg)
{
	const struct later_load *load = arg;

	while (!load->now)
		usleep(100);
	return (void *)(uintptr_t)*load->byte;
}

/* Without memory for a unit its load waits for some; only an error of supply raises SIGBUS. */
static void test_shortage(void **state)
{
	struct pair *pair = pair_open(state, .window = PAGE);
	const size_t length = 64 * MIB;
	uint8_t *memory = test_map(length);
	struct paged paged = { .start = memory };
	struct later_load load = { .byte = memory + 1 };
	struct rlimit before, none;
	pthread_t thread;
	void *loaded;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	/* Their malloc ends the program. */
	skip();
#endif
	assert_ok(pf_pager_register(pair->context, memory, length, supply, &paged, &paged.pager));
	assert_ok(pf_pager_set_unit(paged.pager, length));
	assert_ok(getrlimit(RLIMIT_AS, &before));
	none = (struct rlimit){ 1, before.rlim_max };
	assert_ok(pthread_create(&thread, NULL, load_later, &load));
	assert_ok(setrlimit(RLIMIT_AS, &none));
	load.now = true;
	usleep(30000);
	assert_ok(setrlimit(RLIMIT_AS, &before));
	pthread_join(thread, &loaded);
	assert_int_equal((uintptr_t)loaded, memory[1]);
	assert_true(is_supplied(memory, remote_address(memory), length));
	pf_pager_unregister(paged.pager);
	munmap(memory, length);
	pair_end(pair);
}

/* However slow this machine is, a pager with this callback is quick. */
static int supply_nines(pf_context *context, uint64_t address, void *page, size_t length, void *arg)
{
	memset(page, 9, length);
	return PF_OK;
}

/* Also where a block begins with a page of a pager that is known to be quick. */
static void test_quick_and_slow(void **state)
{
	struct pair *pair = pair_open(state, .window = LENGTH);
	uint8_t *memory = test_map(2 * PAGE);
	struct paged quick = { .start = memory }, slow = { .start = memory + PAGE };
	uint8_t nines[PAGE_MOST];
	bool is_quick = false;

	memset(nines, 9, PAGE);
	assert_ok(
		pf_pager_register(pair->context, memory, PAGE, supply_nines, &quick, &quick.pager));
	assert_ok(pf_pager_register(pair->context, slow.start, PAGE, supply, &slow, &slow.pager));
	pair_connect(pair);
	while (!is_quick) {
		assert_ok(pf_pager_evict(quick.pager, memory, PAGE));
		pair_verify(pair, 1, GET, memory, pair->window, PAGE, 3);
		assert_true(pager_owns(&pair->context->memory.pagers, remote_address(memory),
				       &is_quick));
	}
	assert_ok(pf_pager_evict(quick.pager, memory, PAGE));
	transfer_held(pair, &slow, PUT, memory, 2 * PAGE);
	assert_memory_equal(pair->window, nines, PAGE);
	assert_true(is_supplied(pair->window + PAGE, remote_address(memory) + PAGE, PAGE));
	pf_pager_unregister(quick.pager);
	pf_pager_unregister(slow.pager);
	munmap(memory, 2 * PAGE);
	pair_end(pair);
}

/* Calls of a slow pager that overlap do not keep other pagers from being registered. */
static void test_registered_meanwhile(void **state)
{
	struct pair_setup setup = { PAIR_MODE(state), .window = LENGTH };
	struct paged paged = { .delay = 1000 }, other = { 0 };
	struct pair_done done = { 0 };
	struct pair *pair;
	unsigned before;

	/* Blocks of the same length keep several resolver threads busy until the end. */
	setup.here.policy = PF_POLICY_TOUCH;
	pair = pair_start(&setup);
	paged_open(&paged, pair);
	pair_connect(pair);
	pair_post(pair, pair->peer, PUT, paged.start, pair_there(pair, 1, pair->window), LENGTH,
		  &done);
	while (pf_stat(pair->context, PF_STAT_LOCAL_FAULTS) < LENGTH / 16384 / 2)
		pf_progress(pair->context);
	before = paged.calls;
	paged_open(&other, pair);
	paged_close(&other);
	assert_true(paged.calls < (before + LENGTH / PAGE) / 2);
	pair_await_done(pair, &done, 1);
	assert_ok(done.last.status);
	assert_true(is_supplied(pair->window, remote_address(paged.start), LENGTH));
	paged_close(&paged);
	pair_end(pair);
}

/* The same where a buffer begins with ordinary memory, close enough to be looked at together. */
static void test_beside(void **state)
{
	struct pair *pair = pair_open(state, .window = LENGTH);
	uint8_t *memory = test_map(8 * PAGE + LENGTH);
	struct paged paged = { .start = memory + 8 * PAGE };
	enum pair_direction direction;

	assert_ok(pf_pager_register(pair->context, paged.start, LENGTH, supply, &paged,
				    &paged.pager));
	pair_connect(pair);
	for (direction = PUT; direction <= GET; direction++) {
		evict_all(&paged);
		madvise(memory, 8 * PAGE, MADV_DONTNEED);
		pattern_fill(pair->window, 16 * PAGE, 7);
		transfer_held(pair, &paged, direction, memory, 16 * PAGE);
		if (direction == PUT)
			assert_true(is_supplied(pair->window + 8 * PAGE,
						remote_address(paged.start), 8 * PAGE));
		else
			assert_pattern(memory, 16 * PAGE, 7);
	}
	pf_pager_unregister(paged.pager);
	munmap(memory, 8 * PAGE + LENGTH);
	pair_end(pair);
}

/* Pages that mremap adds behind a pager's range are ordinary memory: zeros, and no supply. */
static void test_grown(void **state)
{
	struct pair *pair = pair_open(state, .window = LENGTH);
	uint64_t window = pair_there(pair, 1, pair->window);
	struct paged paged = { 0 };
	uint8_t *grown, *room;

	/* Room for the range to grow in place. */
	room = mmap(NULL, 2 * LENGTH, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(room, MAP_FAILED);
	paged.start = mmap(room, LENGTH, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	assert_ptr_equal(paged.start, room);
	assert_int_equal(pf_pager_register(pair->context, paged.start, LENGTH, supply, &paged,
					   &paged.pager),
			 PF_OK);
	munmap(room + LENGTH, LENGTH);
	if (mremap(paged.start, LENGTH, 2 * LENGTH, 0) != paged.start)
		skip();
	grown = paged.start + LENGTH;
	/* If a load or store never returns, the alarm of pair_start ends this program. */
	assert_int_equal(grown[0], 0);
	grown[PAGE] = 1;
	assert_int_equal(grown[PAGE], 1);
	assert_int_equal(paged.calls, 0);
	memset(pair->window, 1, LENGTH);
	assert_int_equal(pair_put(pair, pair->peer, grown + PART, window, PART).status, PF_OK);
	assert_int_equal(pair->window[0], 0);
	assert_memory_equal(pair->window, pair->window + 1, PART - 1);
	pattern_fill(pair->window, PART, 7);
	assert_int_equal(pair_get(pair, pair->peer, grown + 2 * PART + 1, window, PART).status,
			 PF_OK);
	assert_int_equal(pattern_differs(grown + 2 * PART + 1, PART, 7), PART);
	assert_int_equal(paged.calls, 0);
	/* The range itself is as before. */
	assert_true(is_supplied(paged.start, remote_address(paged.start), LENGTH));
	pf_pager_unregister(paged.pager);
	assert_int_equal(grown[4 * PART], 0);
	assert_int_equal(pair_put(pair, pair->peer, grown + 5 * PART, window, PART).status, PF_OK);
	assert_int_equal(pair->window[0], 0);
	munmap(paged.start, 2 * LENGTH);
	pair_end(pair);
}

/* A pager of another context owns the memory: a resolver thread of this one has it supply the pages. */
static void test_other_context(void **state)
{
	struct pair *pair = pair_open(state, .window = LENGTH);
	uint64_t window = pair_there(pair, 1, pair->window);
	struct paged paged = { 0 }, other = { .start = test_map(LENGTH) };
	pf_options options = pair_mode_options(state);
	pf_context *context;

	paged_open(&paged, pair);
	assert_ok(pf_open(&options, NULL, &context));
	assert_ok(pf_pager_register(context, other.start, LENGTH, supply, &other, &other.pager));
	assert_ok(pair_put(pair, pair->peer, other.start, window, LENGTH).status);
	assert_true(other.calls > 0);
	assert_true(is_supplied(pair->window, remote_address(other.start), LENGTH));
	evict_all(&other);
	pattern_fill(pair->window, PART, 7);
	assert_ok(pair_get(pair, pair->peer, other.start + PART, window, PART).status);
	assert_int_equal(pattern_differs(other.start + PART, PART, 7), PART);
	assert_true(is_supplied(other.start, remote_address(other.start), PART));
	pf_pager_unregister(other.pager);
	munmap(other.start, LENGTH);
	pf_close(context);
	paged_close(&paged);
	pair_end(pair);
}

/*
 * Pages that are moved have no pager any more: absent ones are zeros. The addresses that they
 * left are unmapped, though their pager is still registered.
 */
static void test_moved(void **state)
{
	struct pair *pair = pair_open(state, .window = LENGTH);
	uint64_t window = pair_there(pair, 1, pair->window);
	uint8_t *target = test_map(LENGTH), *moved;
	struct paged paged = { 0 };
	pf_completion completion;

	paged_open(&paged, pair);
	assert_true(is_supplied(paged.start, remote_address(paged.start), PAGE));
	moved = mremap(paged.start, LENGTH, LENGTH, MREMAP_MAYMOVE | MREMAP_FIXED, target);
	assert_ptr_equal(moved, target);
	assert_true(is_supplied(moved, remote_address(paged.start), PAGE));
	assert_int_equal(moved[PAGE], 0);
	memset(pair->window, 1, LENGTH);
	assert_ok(pair_put(pair, pair->peer, moved + 16 * PAGE, window, 32 * PAGE).status);
	assert_int_equal(pair->window[0], 0);
	assert_memory_equal(pair->window, pair->window + 1, 32 * PAGE - 1);
	assert_int_equal(paged.calls, 1);
	completion = pair_put(pair, pair->peer, paged.start, window, PAGE);
	assert_fault(completion, PF_SIDE_LOCAL, remote_address(paged.start));
	/* Other memory that is mapped there has no pager. */
	assert_ptr_equal(mmap(paged.start, LENGTH, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
			 paged.start);
	assert_int_equal(paged.start[2 * PAGE], 0);
	pf_pager_unregister(paged.pager);
	assert_ok(pair_put(pair, pair->peer, paged.start, window, LENGTH).status);
	/* The new addresses can have a pager of their own. */
	assert_status(pf_pager_register(pair->context, moved, LENGTH, supply, &paged, &paged.pager),
		      PF_OK);
	assert_true(is_supplied(moved + 64 * PAGE, remote_address(moved + 64 * PAGE), PAGE));
	pf_pager_unregister(paged.pager);
	munmap(paged.start, LENGTH + PAGE);
	munmap(moved, LENGTH);
	pair_end(pair);
}

/* In a child the range is ordinary memory: a copy of what was present, otherwise zeros. */
static void test_forked(void **state)
{
	struct pair *pair = pair_open(state, .window = LENGTH);
	uint64_t window = pair_there(pair, 1, pair->window);
	struct paged paged = { 0 };
	int status;
	pid_t child;

	paged_open(&paged, pair);
	assert_true(is_supplied(paged.start, remote_address(paged.start), PAGE));
	child = fork();
	assert_true(child >= 0);
	if (!child) {
		/* If the load of an absent page never returns, the alarm ends this process too. */
		alarm(20 * patience());
		if (!is_supplied(paged.start, remote_address(paged.start), PAGE))
			_exit(1);
		paged.start[0]++;
		_exit(paged.start[PAGE] || madvise(paged.start, PAGE, MADV_DONTNEED) ||
		      paged.start[0]);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_ok(pair_put(pair, pair->peer, paged.start, window, LENGTH).status);
	assert_true(is_supplied(pair->window, remote_address(paged.start), LENGTH));
	paged_close(&paged);
	pair_end(pair);
}

/* What is not private and anonymous, in whole or in part, is refused, and stays as it is. */
static void test_other_memory(void **state)
{
	struct pair *pair = pair_open(state);
	int fd = memfd_create("test", MFD_CLOEXEC);
	struct paged paged = { 0 };
	uint8_t *memory[5];
	size_t i;

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, LENGTH), 0);
	memory[0] = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	memory[1] = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	memory[2] = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	memory[3] = test_map(LENGTH);
	assert_ptr_not_equal(mmap(memory[3] + LENGTH / 2, LENGTH / 2, PROT_READ | PROT_WRITE,
				  MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
			     MAP_FAILED);
	/* A gap. */
	memory[4] = test_map(LENGTH);
	munmap(memory[4] + PAGE, PAGE);
	for (i = 0; i < ARRAY_SIZE(memory); i++) {
		assert_ptr_not_equal(memory[i], MAP_FAILED);
		assert_status(pf_pager_register(pair->context, memory[i], LENGTH, supply, &paged,
						&paged.pager),
			      PF_ERR_ARGUMENT);
		assert_int_equal(memory[i][LENGTH - PAGE], 0);
	}
	assert_int_equal(paged.calls, 0);
	/* Neighbours of different permissions are several mappings, and are accepted. */
	munmap(memory[4], LENGTH);
	memory[4] = test_map(LENGTH);
	assert_int_equal(mprotect(memory[4] + PAGE, PAGE, PROT_READ), 0);
	assert_status(pf_pager_register(pair->context, memory[4], LENGTH, supply, &paged,
					&paged.pager),
		      PF_OK);
	assert_true(is_supplied(memory[4], remote_address(memory[4]), LENGTH));
	pf_pager_unregister(paged.pager);
	for (i = 0; i < ARRAY_SIZE(memory); i++)
		munmap(memory[i], LENGTH);
	close(fd);
	pair_end(pair);
}

/* A range that is refused stays ordinary memory. */
static void test_huge(void **state)
{
	struct pair *pair = pair_open(state);
	uint8_t *memory = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	struct paged paged = { 0 };

	if (memory == MAP_FAILED) {
		pair_end(pair);
		skip(); /* no huge pages are reserved */
	}
	assert_int_equal(pf_pager_register(pair->context, memory, LENGTH, supply, &paged,
					   &paged.pager),
			 PF_ERR_ARGUMENT);
	memory[0] = 1;
	munmap(memory, LENGTH);
	pair_end(pair);
}

#define PAYLOAD ((size_t)4000)

static void copy_payload(void *destination, size_t length, void *from)
{
	memcpy(destination, from, length);
}

/* A message is the address of a page, and what the pager supplied for it. */
static void check_message(pf_context *context, pf_peer *from, uint32_t tag, void *data,
			  size_t length, void *arg)
{
	struct pair *me = arg;
	uint64_t address;

	pair_check(me, length == sizeof(address) + PAYLOAD);
	memcpy(&address, data, sizeof(address));
	pair_check(me, is_supplied((uint8_t *)data + sizeof(address), address, PAYLOAD));
	(*pair_value(me, 1, 0))++;
}

static void send_always(struct pair *me)
{
	do {
		if (pf_send(me->peer, 9, NULL, 0, "message", 8) == PF_ERR_AGAIN)
			sched_yield();
	} while (pair_progress(me));
}

/* Messages from absent pages, which the service thread resolves while messages arrive. */
static void test_messages(void **state)
{
	struct pair_setup setup = { PAIR_MODE(state), .receive = check_message,
				    .receive_here = pair_count_message, .partner = send_always };
	unsigned rounds = quick_or(REPEAT(200), REPEAT(2000)), round;
	struct paged paged = { 0 };
	struct pair *pair;
	int status;

	/* When pf_wait sleeps, the service thread receives from the network. */
	setup.here.wake = 1;
	pair = pair_start(&setup);
	paged_open(&paged, pair);
	for (round = 0; round < rounds; round++) {
		uint8_t *page = paged.start + round % (LENGTH / PAGE) * PAGE;
		uint64_t address = remote_address(page);

		assert_ok(pf_pager_evict(paged.pager, page, PAGE));
		do {
			pair_progress(pair);
			status = round % 2 ? pf_send(pair->peer, 1, &address, sizeof(address), page,
						     PAYLOAD) :
					     pf_send_pack(pair->peer, 1, &address, sizeof(address),
							  PAYLOAD, copy_payload, page);
		} while (status == PF_ERR_AGAIN);
		assert_status(status, PF_OK);
	}
	pair_await_value(pair, 1, 0, rounds);
	paged_close(&paged);
	pair_end(pair);
}

/* The page of an atomic may be evicted again before the operation. */
static void test_atomics(void **state)
{
	struct random_numbers numbers = random_start("pager, atomics");
	unsigned rounds = quick_or(REPEAT(200), REPEAT(2000)), i;
	struct pair_setup setup = { PAIR_MODE(state), .partner = serve_evicted };
	struct pair *pair;
	uint64_t remote;

	setup.there.wake = 1;
	pair = pair_start(&setup);
	remote = await_remote(pair);
	for (i = 0; i < rounds; i++)
		assert_ok(pair_atomic(pair, pair->peer, PF_ATOMIC_ADD, 8,
				      remote + random_below(&numbers, LENGTH / 8) * 8, 1, 0)
				  .status);
	pair_end(pair);
}

/* Packets for absent pages that the pager supplies at once are not lost. */
static void test_none_lost(void **state)
{
	struct pair *pair = pair_open(state, .partner = serve_paged, .command = evict_remote);
	uint8_t *local = test_alloc(LENGTH);
	uint64_t remote = await_remote(pair), before;
	unsigned round, i;

	/* On a busy machine some may be lost, but not in each round. */
	for (round = 0; round < 50; round++) {
		before = pf_stat(pair->context, PF_STAT_NET_LOST);
		for (i = 0; i < 10; i++) {
			pair_command(pair, 0);
			assert_ok(pair_put(pair, pair->peer, local, remote, LENGTH / 2).status);
		}
		if (pf_stat(pair->context, PF_STAT_NET_LOST) == before)
			break;
	}
	assert_int_not_equal(round, 50);
	free(local);
	pair_end(pair);
}

static void test_arguments(void **state)
{
	/* Offset from the pager's memory, and length. */
	const size_t overlapping[][2] = { { PAGE, PAGE }, { 1, PAGE }, { 0, 0 } };
	const size_t outside[][2] = { { LENGTH, PAGE }, { 1, PAGE }, { 0, LENGTH + PAGE } };
	struct pair *pair = pair_open(state, .window = LENGTH);
	struct paged paged = { 0 };
	pf_pager *other;
	size_t i;

	paged_open(&paged, pair);
	for (i = 0; i < ARRAY_SIZE(overlapping); i++) {
		assert_status(pf_pager_register(pair->context, paged.start + overlapping[i][0],
						overlapping[i][1], supply, &paged, &other),
			      PF_ERR_ARGUMENT);
		assert_status(pf_pager_evict(paged.pager, paged.start + outside[i][0],
					     outside[i][1]),
			      PF_ERR_ARGUMENT);
	}
	assert_status(pf_pager_register(pair->context, NULL, PAGE, supply, &paged, &other),
		      PF_ERR_ARGUMENT);
	paged_close(&paged);
	/* The same addresses again. */
	paged_open(&paged, pair);
	assert_true(is_supplied(paged.start, remote_address(paged.start), 100));
	paged_close(&paged);
	pair_end(pair);
}

/* Number 0: where its pager's memory is, whose pages come after step 2. */
static void own_held(struct pair *me)
{
	struct paged paged = { .held = true };

	paged_open(&paged, me);
	*pair_value(me, 1, 0) = remote_address(paged.start);
	pair_await(me, 0, 2);
	paged.held = false;
	pair_await(me, 0, PAIR_DONE);
	paged_close(&paged);
}

static void post_to_held(struct pair *pair, uint8_t *local, struct pair_done *done)
{
	struct memory *memory = &pair->context->memory;

	pair_await_value(pair, 1, 0, 1);
	assert_false(pace_is_resolving(&memory->pace));
	pair_post(pair, pair->peer, PUT, local, *pair_value(pair, 1, 0), PAGE, done);
	while (!pf_stat(pair->context, PF_STAT_REMOTE_FAULTS))
		assert_true(pair_progress(pair));
	assert_true(pace_is_resolving(&memory->pace));
}

/*
 * While a block waits for the peer, progress leaves its processor to what brings the page: the peer,
 * or a thread of the kernel.
 */
static void test_paced(void **state)
{
	struct pair *pair = pair_open(state, .work = own_held);
	struct memory *memory = &pair->context->memory;
	struct pair_done done = { 0 };
	uint8_t *local = test_alloc(PAGE);

	if (!pair_on_device(&pair->options)) {
		post_to_held(pair, local, &done);
		pair_say(pair, 2);
		pair_await_done(pair, &done, 1);
		assert_ok(done.last.status);
		assert_false(pace_is_resolving(&memory->pace));
	}
	free(local);
	pair_end(pair);
}

/* The same until the peer ends. */
static void test_paced_gone(void **state)
{
	struct pair *pair = pair_open(state, .work = own_held, .peer_event_here = pair_note_end);
	struct memory *memory = &pair->context->memory;
	struct pair_done done = { 0 };
	uint8_t *local = test_alloc(PAGE);

	if (!pair_on_device(&pair->options)) {
		post_to_held(pair, local, &done);
		pair_kill(pair, 1);
		pair_await_done(pair, &done, 1);
		assert_status(done.last.status, PF_ERR_PEER);
		assert_false(pace_is_resolving(&memory->pace));
	}
	free(local);
	pair_end(pair);
}

#define IN_ALL(test)                                                                               \
	IN_MODE(test, DEFAULT), IN_MODE(test, ALONE), IN_MODE(test, STREAM), IN_MODE(test, THREADS)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		IN_ALL(test_local),
		IN_MODE(test_messages, DEFAULT),
		IN_MODE(test_messages, THREADS),
		IN_ALL(test_remote),
		IN_ALL(test_loads),
		IN_ALL(test_units),
		IN_ALL(test_unit_once),
		IN_ALL(test_ahead),
		IN_ALL(test_slow),
		IN_MODE(test_slow_load, DEFAULT),
		IN_MODE(test_shortage, DEFAULT),
		IN_MODE(test_quick_and_slow, DEFAULT),
		IN_ALL(test_beside),
		IN_ALL(test_grown),
		IN_ALL(test_other_context),
		IN_ALL(test_moved),
		IN_ALL(test_forked),
		PAIR_TEST(test_other_memory),
		IN_MODE(test_huge, DEFAULT),
		IN_ALL(test_evicted),
		IN_MODE(test_atomics, DEFAULT),
		IN_MODE(test_atomics, THREADS),
		PAIR_TEST(test_arguments),
	};
	const struct CMUnitTest host[] = {
		IN_ALL(test_small),
		IN_ALL(test_paced),
		PAIR_TEST(test_paced_gone),
		IN_MODE(test_registered_meanwhile, ALONE),
		IN_MODE(test_registered_meanwhile, THREADS),
	};
	const struct CMUnitTest net[] = { IN_MODE(test_none_lost, DEFAULT) };
	pf_options options = pair_options();
	int failed;

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	failed = pair_run_tests("pager", tests);
	if (pair_over_net(&options))
		failed += pair_run_tests("pager, network", net);
	else
		failed += pair_run_tests("pager, host", host);
	return failed;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory whose pages come from a callback: to transfers, from either side, and to loads. */
#include "pair.h"

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE ((size_t)4096)
#define LENGTH ((size_t)2 << 20)

enum mode { MODE_SHARED, MODE_ALONE, MODE_STREAM, MODE_THREADS };

static pf_options options_of(enum mode mode)
{
	pf_options options = pair_options();

	options.share_min = mode == MODE_ALONE ? UINT64_MAX : options.share_min;
	options.single_copy = mode != MODE_STREAM;
	options.threads = mode == MODE_THREADS;
	return options;
}

/* The mode is the test's state; partner: NULL to serve. */
static struct pair *start(void **state, void (*partner)(struct pair *me))
{
	enum mode mode = (enum mode)(uintptr_t)*state;
	struct pair_setup setup = { .here = options_of(mode),
				    .there = options_of(mode),
				    .window = LENGTH,
				    .partner = partner };

	return pair_start(&setup);
}

/* A pager's memory, and what its supply is to do. */
struct paged {
	uint8_t *start;
	pf_pager *pager;
	_Atomic unsigned calls;
	_Atomic bool held;     /* supplies nothing until told to */
	_Atomic uint64_t bad;  /* the page that it cannot supply */
	bool small;            /* there is room for one page only: */
	_Atomic uint64_t last; /* this one */
};

static int supply(pf_context *context, uint64_t address, void *page, size_t length, void *arg)
{
	struct paged *paged = arg;

	atomic_fetch_add(&paged->calls, 1);
	while (atomic_load(&paged->held))
		usleep(1000);
	if (address == atomic_load(&paged->bad))
		return PF_ERR_SYSTEM;
	if (paged->small) {
		uint64_t last = atomic_exchange(&paged->last, address);

		if (last && last != address)
			madvise((void *)(uintptr_t)last, PAGE, MADV_DONTNEED);
	}
	pattern_fill(page, length, address);
	return PF_OK;
}

static int paged_open(struct paged *paged, pf_context *context)
{
	paged->start = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			    0);
	if (paged->start == MAP_FAILED)
		return PF_ERR_MEMORY;
	return pf_pager_register(context, paged->start, LENGTH, supply, paged, &paged->pager);
}

static void paged_close(struct paged *paged)
{
	pf_pager_unregister(paged->pager);
	munmap(paged->start, LENGTH);
}

/* Do these bytes, from there in a pager's memory, hold what its supply gave? */
static bool is_supplied(const uint8_t *bytes, uint64_t from, size_t length)
{
	uint8_t page[4096];
	size_t at, here;

	for (at = 0; at < length; at += here) {
		uint64_t start = (from + at) & ~(uint64_t)(PAGE - 1), offset = from + at - start;

		here = PAGE - offset < length - at ? PAGE - offset : length - at;
		pattern_fill(page, PAGE, start);
		if (memcmp(bytes + at, page + offset, here))
			return false;
	}
	return true;
}

static const size_t lengths[] = { 1, 4096, 16385, 300001, LENGTH };

static void test_local(void **state)
{
	struct pair *pair = start(state, NULL);
	struct paged paged = { 0 };
	size_t i;

	assert_int_equal(paged_open(&paged, pair->context), PF_OK);
	for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		uint8_t *local = paged.start + (lengths[i] < LENGTH ? 77 : 0);
		uint64_t window = pair_there(pair, 1, pair->window);

		/* Out of absent pages. */
		assert_int_equal(pf_pager_evict(paged.pager, paged.start, LENGTH), PF_OK);
		assert_int_equal(pair_put(pair, pair->peer, local, window, lengths[i]).status,
				 PF_OK);
		assert_true(is_supplied(pair->window, remote_address(local), lengths[i]));
		/* And into them: what is around the transfer is the pager's. */
		assert_int_equal(pf_pager_evict(paged.pager, paged.start, LENGTH), PF_OK);
		pattern_fill(pair->window, lengths[i], i);
		assert_int_equal(pair_get(pair, pair->peer, local, window, lengths[i]).status,
				 PF_OK);
		assert_int_equal(pattern_differs(local, lengths[i], i), lengths[i]);
		assert_true(is_supplied(paged.start, remote_address(paged.start),
					(size_t)(local - paged.start)));
	}
	assert_true(pf_stat(pair->context, PF_STAT_LOCAL_PAGER) > 0);
	assert_int_equal(pf_stat(pair->context, PF_STAT_FAULT_ERRORS), 0);
	paged_close(&paged);
	pair_end(pair);
}

/* A packet goes out from all of its pages at once. */
#ifndef PAIR_OVER_NET
/* A pager that never has more than one page present, which is less than a block. */
static void test_small(void **state)
{
	struct pair *pair = start(state, NULL);
	struct paged paged = { .small = true };
	const size_t length = 300001;

	assert_int_equal(paged_open(&paged, pair->context), PF_OK);
	assert_int_equal(pair_put(pair, pair->peer, paged.start + 77,
				  pair_there(pair, 1, pair->window), length)
				 .status,
			 PF_OK);
	assert_true(is_supplied(pair->window, remote_address(paged.start + 77), length));
	paged_close(&paged);
	pair_end(pair);
}

#endif

/*
 * The partner's values: 0 where its memory is, 1 its pager's faults; set by the
 * test: 1 the page it cannot supply.
 */
static void serve_paged(struct pair *me)
{
	struct paged paged = { 0 };
	unsigned wish, done = 0;

	pair_check_status(me, paged_open(&paged, me->context), PF_OK);
	atomic_store(pair_value(me, 1, 0), remote_address(paged.start));
	pair_say(me, 1);
	while (pair_progress(me)) {
		wish = (unsigned)atomic_load(pair_value(me, 0, 0));
		if (wish == done)
			continue;
		done = wish;
		atomic_store(pair_value(me, 1, 1), pf_stat(me->context, PF_STAT_LOCAL_PAGER));
		atomic_store(&paged.bad, atomic_load(pair_value(me, 0, 1)));
		pair_check_status(me, pf_pager_evict(paged.pager, paged.start, LENGTH), PF_OK);
		pair_say(me, 1 + done);
	}
	paged_close(&paged);
}

static void wish(struct pair *pair, unsigned number, uint64_t bad)
{
	atomic_store(pair_value(pair, 0, 1), bad);
	atomic_store(pair_value(pair, 0, 0), number);
	pair_await(pair, 1, 1 + number);
}

static void test_remote(void **state)
{
	pf_options options = options_of((enum mode)(uintptr_t)*state);
	struct pair *pair = start(state, serve_paged);
	uint8_t *local = malloc(LENGTH);
	pf_completion completion;
	unsigned number = 0;
	uint64_t remote;
	size_t i;

	pair_await(pair, 1, 1);
	remote = atomic_load(pair_value(pair, 1, 0));
	for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		uint64_t at = remote + (lengths[i] < LENGTH ? 77 : 0);

		wish(pair, ++number, 0);
		assert_int_equal(pair_get(pair, pair->peer, local, at, lengths[i]).status, PF_OK);
		assert_true(is_supplied(local, at, lengths[i]));
		wish(pair, ++number, 0);
		pattern_fill(local, lengths[i], i);
		assert_int_equal(pair_put(pair, pair->peer, local, at, lengths[i]).status, PF_OK);
		memset(local, 0, lengths[i]);
		assert_int_equal(pair_get(pair, pair->peer, local, at, lengths[i]).status, PF_OK);
		assert_int_equal(pattern_differs(local, lengths[i], i), lengths[i]);
	}
	/* Over the device and the network, whoever has the memory counts its faults. */
	if (pair_on_device(&options) || options.network == PF_NETWORK_ALWAYS)
		assert_true(atomic_load(pair_value(pair, 1, 1)) > 0);
	else
		assert_true(pf_stat(pair->context, PF_STAT_REMOTE_PAGER) > 0);
	/* A page that cannot be had is an error with its address, and the next transfer is as ever. */
	wish(pair, ++number, remote + 20 * PAGE);
	completion = pair_get(pair, pair->peer, local, remote, LENGTH);
	assert_int_equal(completion.status, PF_ERR_FAULT);
	assert_int_equal(completion.side, PF_SIDE_REMOTE);
	assert_true(completion.address == remote + 20 * PAGE);
	wish(pair, ++number, 0);
	assert_int_equal(pair_get(pair, pair->peer, local, remote, LENGTH).status, PF_OK);
	assert_true(is_supplied(local, remote, LENGTH));
	free(local);
	pair_end(pair);
}

struct toucher {
	struct paged *paged;
	size_t wrong;
};

static void *touch(void *arg)
{
	struct toucher *toucher = arg;
	size_t i;

	for (i = 0; i < LENGTH / PAGE; i++)
		toucher->wrong += !is_supplied(toucher->paged->start + i * PAGE,
					       remote_address(toucher->paged->start + i * PAGE),
					       64);
	return NULL;
}

/* Loads of two threads, transfers, and pages that go at any time. */
static void test_loads(void **state)
{
	struct pair *pair = start(state, NULL);
	struct paged paged = { 0 };
	struct toucher touchers[2] = { { &paged, 0 }, { &paged, 0 } };
	uint64_t window = pair_there(pair, 1, pair->window);
	pthread_t threads[2];
	unsigned rounds = getenv("PF_TEST_QUICK") ? 2 : 20, round, i;

	assert_int_equal(paged_open(&paged, pair->context), PF_OK);
	for (round = 0; round < rounds; round++) {
		for (i = 0; i < 2; i++)
			assert_int_equal(pthread_create(&threads[i], NULL, touch, &touchers[i]), 0);
		for (i = 0; i < 8; i++) {
			assert_int_equal(pf_pager_evict(paged.pager, paged.start + i * 32 * PAGE,
							32 * PAGE),
					 PF_OK);
			assert_int_equal(
				pair_put(pair, pair->peer, paged.start, window, LENGTH).status,
				PF_OK);
			assert_true(is_supplied(pair->window, remote_address(paged.start), LENGTH));
		}
		for (i = 0; i < 2; i++) {
			pthread_join(threads[i], NULL);
			assert_int_equal(touchers[i].wrong, 0);
		}
	}
	paged_close(&paged);
	pair_end(pair);
}

static _Atomic bool evicting;

static void *evict(void *arg)
{
	struct paged *paged = arg;
	unsigned turn;

	for (turn = 0; atomic_load(&evicting); turn++) {
		usleep(turn % 60);
		if (pf_pager_evict(paged->pager, paged->start, LENGTH) != PF_OK)
			break;
	}
	return NULL;
}

static void serve_evicted(struct pair *me)
{
	struct paged paged = { 0 };
	pthread_t thread;

	pair_check_status(me, paged_open(&paged, me->context), PF_OK);
	atomic_store(pair_value(me, 1, 0), remote_address(paged.start));
	atomic_store(&evicting, true);
	pair_check(me, pthread_create(&thread, NULL, evict, &paged) == 0);
	pair_say(me, 1);
	pair_serve(me);
	atomic_store(&evicting, false);
	pthread_join(thread, NULL);
	paged_close(&paged);
}

/* Whatever part of a block is there when another part is asked for: no eviction is an error. */
static void test_evicted(void **state)
{
	struct pair *pair = start(state, serve_evicted);
	const size_t length = 65536;
	uint8_t *local = malloc(length);
	unsigned rounds = getenv("PF_TEST_QUICK") ? 200 : REPEAT(2000), i;
	uint64_t remote;

	pair_await(pair, 1, 1);
	remote = atomic_load(pair_value(pair, 1, 0)) + 77;
	for (i = 0; i < rounds; i++) {
		assert_int_equal(pair_get(pair, pair->peer, local, remote, length).status, PF_OK);
		assert_true(is_supplied(local, remote, length));
	}
	free(local);
	pair_end(pair);
}

/* A slow pager holds up its own transfer, and neither the caller nor another one. */
static void test_slow(void **state)
{
	struct pair *pair = start(state, NULL);
	uint64_t window = pair_there(pair, 1, pair->window);
	struct pair_done slow = { 0 };
	struct paged paged = { 0 };
	uint8_t *other = malloc(PAGE);
	unsigned i;

	assert_int_equal(paged_open(&paged, pair->context), PF_OK);
	pattern_fill(other, PAGE, 5);
	assert_int_equal(pair_put(pair, pair->peer, other, window, 8).status, PF_OK);
	atomic_store(&paged.held, true);
	assert_int_equal(pf_put(pair->peer, paged.start, window, 4 * PAGE, pair_completed, &slow),
			 PF_OK);
	for (i = 0; i < 100; i++) {
		assert_int_equal(
			pair_put(pair, pair->peer, other, window + LENGTH / 2, PAGE).status, PF_OK);
		assert_int_equal(slow.count, 0);
	}
	atomic_store(&paged.held, false);
	pair_await_done(pair, &slow, 1);
	assert_int_equal(slow.last.status, PF_OK);
	assert_true(is_supplied(pair->window, remote_address(paged.start), 4 * PAGE));
	free(other);
	paged_close(&paged);
	pair_end(pair);
}

/* Pages that mremap adds behind a pager's range are ordinary memory: zeros, and no supply. */
static void test_grown(void **state)
{
	struct pair *pair = start(state, NULL);
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
	assert_int_equal(atomic_load(&paged.calls), 0);
	memset(pair->window, 1, LENGTH);
	assert_int_equal(pair_put(pair, pair->peer, grown + 16 * PAGE, window, 32 * PAGE).status,
			 PF_OK);
	assert_int_equal(pair->window[0], 0);
	assert_memory_equal(pair->window, pair->window + 1, 32 * PAGE - 1);
	pattern_fill(pair->window, 32 * PAGE, 7);
	assert_int_equal(
		pair_get(pair, pair->peer, grown + 64 * PAGE + 1, window, 32 * PAGE).status, PF_OK);
	assert_int_equal(pattern_differs(grown + 64 * PAGE + 1, 32 * PAGE, 7), 32 * PAGE);
	assert_int_equal(atomic_load(&paged.calls), 0);
	/* The range itself is as before. */
	assert_true(is_supplied(paged.start, remote_address(paged.start), LENGTH));
	pf_pager_unregister(paged.pager);
	assert_int_equal(grown[128 * PAGE], 0);
	assert_int_equal(pair_put(pair, pair->peer, grown + 160 * PAGE, window, 32 * PAGE).status,
			 PF_OK);
	assert_int_equal(pair->window[0], 0);
	munmap(paged.start, 2 * LENGTH);
	pair_end(pair);
}

/* A range that is refused stays ordinary memory. */
static void test_huge(void **state)
{
	struct pair *pair = start(state, NULL);
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

#define LETTER ((size_t)4000)

static void letter(void *destination, size_t length, void *from)
{
	memcpy(destination, from, length);
}

static _Atomic unsigned letters;

/* A page's address, then what the pager has for it. */
static void receive_letter(pf_context *context, pf_peer *from, uint8_t tag, void *data,
			   size_t length, void *arg)
{
	struct pair *me = arg;
	uint64_t address;

	pair_check(me, length == sizeof(address) + LETTER);
	memcpy(&address, data, sizeof(address));
	pair_check(me, is_supplied((uint8_t *)data + sizeof(address), address, LETTER));
	atomic_fetch_add(&letters, 1);
}

static void disturb(struct pair *me)
{
	uint64_t number = 0;

	do {
		number++;
		if (pf_send(me->peer, 9, NULL, 0, &number, sizeof(number)) == PF_ERR_AGAIN)
			sched_yield();
		atomic_store(pair_value(me, 1, 0), atomic_load(&letters));
	} while (pair_progress(me));
}

static void ignore(pf_context *context, pf_peer *from, uint8_t tag, void *data, size_t length,
		   void *arg)
{
}

/*
 * Messages out of absent pages, which the service thread has to bring while it
 * has messages of the peer's to look after as well.
 */
static void test_messages(void **state)
{
	struct pair_setup setup = { .here = options_of((enum mode)(uintptr_t)*state),
				    .there = options_of((enum mode)(uintptr_t)*state),
				    .receive = receive_letter,
				    .receive_here = ignore,
				    .partner = disturb };
	unsigned rounds = getenv("PF_TEST_QUICK") ? 200 : REPEAT(2000), round;
	struct paged paged = { 0 };
	struct pair *pair;
	int status;

	/* One that sleeps has the service thread look after the network at all times. */
	setup.here.idle_polls = 100;
	pair = pair_start(&setup);
	assert_int_equal(paged_open(&paged, pair->context), PF_OK);
	for (round = 0; round < rounds; round++) {
		uint8_t *page = paged.start + round % (LENGTH / PAGE) * PAGE;
		uint64_t address = remote_address(page);

		assert_int_equal(pf_pager_evict(paged.pager, page, PAGE), PF_OK);
		do {
			pair_progress(pair);
			status = round % 2 ? pf_send(pair->peer, 1, &address, sizeof(address), page,
						     LETTER) :
					     pf_send_pack(pair->peer, 1, &address, sizeof(address),
							  LETTER, letter, page);
		} while (status == PF_ERR_AGAIN);
		assert_int_equal(status, PF_DONE);
	}
	while (atomic_load(pair_value(pair, 1, 0)) < rounds)
		pair_progress(pair);
	paged_close(&paged);
	pair_end(pair);
}

#ifdef PAIR_OVER_NET
/* An atomic's page may go again before it is carried out, by whichever thread. */
static void test_atomics(void **state)
{
	unsigned rounds = getenv("PF_TEST_QUICK") ? 200 : REPEAT(2000), i;
	struct pair_setup setup = { .here = options_of((enum mode)(uintptr_t)*state),
				    .there = options_of((enum mode)(uintptr_t)*state),
				    .partner = serve_evicted };
	struct pair *pair;
	uint64_t remote;

	setup.there.idle_polls = 100;
	pair = pair_start(&setup);
	pair_await(pair, 1, 1);
	remote = atomic_load(pair_value(pair, 1, 0));
	for (i = 0; i < rounds; i++)
		assert_int_equal(pair_atomic(pair, pair->peer, PF_ADD, 8,
					     remote + random() % (LENGTH / 8) * 8, 1, 0)
					 .status,
				 PF_OK);
	pair_end(pair);
}

/* What comes for absent pages of a quick pager is not lost for that. */
static void test_none_lost(void **state)
{
	struct pair *pair = start(state, serve_paged);
	uint8_t *local = calloc(1, LENGTH);
	unsigned number = 0, round, i;
	uint64_t before, remote;

	assert_non_null(local);
	pair_await(pair, 1, 1);
	remote = atomic_load(pair_value(pair, 1, 0));
	/* A machine that is busy elsewhere may lose some: but not in all rounds. */
	for (round = 0; round < 50; round++) {
		before = pf_stat(pair->context, PF_STAT_NET_LOST);
		for (i = 0; i < 10; i++) {
			wish(pair, ++number, 0);
			assert_int_equal(
				pair_put(pair, pair->peer, local, remote, LENGTH / 2).status,
				PF_OK);
		}
		if (pf_stat(pair->context, PF_STAT_NET_LOST) == before)
			break;
	}
	assert_int_not_equal(round, 50);
	free(local);
	pair_end(pair);
}
#endif

static void test_arguments(void **state)
{
	struct pair_setup setup = { .here = pair_options(), .there = pair_options() };
	struct pair *pair = pair_start(&setup);
	struct paged paged = { 0 };
	pf_pager *other;

	assert_int_equal(paged_open(&paged, pair->context), PF_OK);
	assert_int_equal(pf_pager_register(pair->context, paged.start + PAGE, PAGE, supply, &paged,
					   &other),
			 PF_ERR_ARGUMENT);
	assert_int_equal(pf_pager_register(pair->context, paged.start + 1, PAGE, supply, &paged,
					   &other),
			 PF_ERR_ARGUMENT);
	assert_int_equal(pf_pager_register(pair->context, paged.start, 0, supply, &paged, &other),
			 PF_ERR_ARGUMENT);
	assert_int_equal(pf_pager_register(pair->context, NULL, PAGE, supply, &paged, &other),
			 PF_ERR_ARGUMENT);
	assert_int_equal(pf_pager_evict(paged.pager, paged.start + LENGTH, PAGE), PF_ERR_ARGUMENT);
	assert_int_equal(pf_pager_evict(paged.pager, paged.start + 1, PAGE), PF_ERR_ARGUMENT);
	assert_int_equal(pf_pager_evict(paged.pager, paged.start, LENGTH + PAGE), PF_ERR_ARGUMENT);
	paged_close(&paged);
	/* The same place again. */
	assert_int_equal(paged_open(&paged, pair->context), PF_OK);
	assert_true(is_supplied(paged.start, remote_address(paged.start), 100));
	paged_close(&paged);
	pair_end(pair);
}

#define IN(test, mode)                                                                             \
	{                                                                                          \
#test " " #mode, test, NULL, pair_teardown, (void *)(uintptr_t)MODE_##mode         \
	}
#define IN_ALL(test) IN(test, SHARED), IN(test, ALONE), IN(test, STREAM), IN(test, THREADS)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_ALL(test_local),
#ifndef PAIR_OVER_NET
		IN_ALL(test_small),
#else
		IN(test_atomics, SHARED),
		IN(test_atomics, THREADS),
		IN(test_none_lost, SHARED),
#endif
		IN(test_messages, SHARED),
		IN(test_messages, THREADS),
		IN_ALL(test_remote),
		IN_ALL(test_loads),
		IN_ALL(test_slow),
		IN_ALL(test_grown),
		IN(test_huge, SHARED),
		IN_ALL(test_evicted),
		cmocka_unit_test_teardown(test_arguments, pair_teardown),
	};

	return cmocka_run_group_tests_name("pager", tests, NULL, NULL);
}

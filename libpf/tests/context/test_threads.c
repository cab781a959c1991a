/* SPDX-License-Identifier: BSD-3-Clause */
/* One context, several threads that use all of its functions at the same time. */
#include "pair.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "host/peer.h"

/* UFFD_USER_MODE_ONLY of Linux 5.11; the headers of the build may be older. */
#define USER_MODE_ONLY 1
#define REGION ((size_t)256 << 10)
#define THREADS 4
#define ROUNDS REPEAT(400)
#define LENGTH ((size_t)200 << 10)

struct worker {
	struct pair *pair;
	pf_peer *peer;
	unsigned number;
	uint8_t *local;
	_Atomic unsigned completed, failed;
	_Atomic bool end;
	unsigned wrong;
	pthread_t thread;
};

static struct pair_setup setup_of(void **state)
{
	struct pair_setup setup = { PAIR_MODE(state), .window = (THREADS + 1) * MIB };

	setup.here.threads = setup.there.threads = 1;
	return setup;
}

static void start_worker(struct worker *worker, struct pair *pair, void *(*run)(void *))
{
	worker->pair = pair;
	worker->peer = pair->peer;
	assert_int_equal(pthread_create(&worker->thread, NULL, run, worker), 0);
}

/* Called on any thread that calls pf_progress. */
static void on_complete(pf_context *context, const pf_completion *completion)
{
	struct worker *worker = completion->arg;

	worker->failed += completion->status != PF_OK;
	worker->completed++;
}

static void await_completed(struct worker *worker, unsigned count)
{
	while (worker->completed < count) {
		if (!pf_progress(worker->pair->context))
			sched_yield();
	}
}

static void one_transfer(struct worker *worker, enum pair_direction direction, size_t length,
			 uint64_t seed, unsigned *count)
{
	uint64_t remote = pair_there(worker->pair, 1, worker->pair->window + worker->number * MIB);
	int status;

	if (direction == PUT) {
		pattern_fill(worker->local, length, seed);
		status = pf_put(worker->peer, worker->local, remote, length, 0, on_complete,
				worker);
	} else {
		status = pf_get(worker->peer, worker->local, remote, length, on_complete, worker);
	}
	if (status == PF_PENDING)
		await_completed(worker, ++*count);
	else
		worker->wrong += status != PF_OK;
	worker->wrong += pattern_differs(worker->local, length, seed) != length;
}

static void *work(void *arg)
{
	struct worker *worker = arg;
	pf_context *context = worker->pair->context;
	struct random_numbers numbers = { 2 * worker->number + 1 };
	uint64_t counter = pair_there(worker->pair, 1, worker->pair->window + THREADS * MIB);
	unsigned count = 0, i;
	uint32_t message[2] = { worker->number, 0 };

	for (i = 0; i < ROUNDS; i++) {
		size_t length = 1 +
				random_below(&numbers, random_below(&numbers, 2) ? LENGTH : 5000);
		int status;

		one_transfer(worker, PUT, length, i, &count);
		memset(worker->local, 0, length);
		one_transfer(worker, GET, length, i, &count);
		worker->wrong += pf_atomic(worker->peer, PF_ATOMIC_ADD, 8, counter, 1, 0,
					   on_complete, worker) != PF_PENDING;
		count++;
		if (i % 2)
			await_completed(worker, count);
		message[1] = i;
		while ((status = pf_send(worker->peer, (uint8_t)worker->number, message, 4,
					 message + 1, 4)) == PF_ERR_AGAIN)
			pf_progress(context);
		worker->wrong += status != PF_OK;
		if (i % 10 == 0) {
			uint64_t mark = pf_posted(context, worker->peer);

			while (pf_flush_test(context, worker->peer, mark) == PF_PENDING)
				pf_progress(context);
			worker->wrong += worker->completed != count;
		}
		if (i % 50 == 0)
			worker->wrong += pf_flush(context, i % 100 ? worker->peer : NULL,
						  PF_FOREVER) != PF_OK;
		pf_peer_path(worker->peer);
		pf_stat(context, PF_STAT_SENDS);
	}
	await_completed(worker, count);
	worker->wrong += worker->failed + (worker->completed != count);
	return NULL;
}

/* The partner's number 0: messages received; 1: wrong ones. Each thread's arrive in order. */
static void check_order(pf_context *context, pf_peer *from, uint32_t tag, void *data, size_t length,
			void *arg)
{
	static uint32_t next[THREADS];
	struct pair *me = arg;
	uint32_t message[2];

	if (*pair_value(me, me->side, 0) == 0)
		memset(next, 0, sizeof(next));
	memcpy(message, data, sizeof(message));
	if (length != 8 || message[0] != tag || tag >= THREADS || message[1] != next[tag]++)
		(*pair_value(me, me->side, 1))++;
	(*pair_value(me, me->side, 0))++;
}

/* In progress: no other thread uses the context yet. */
static void allow_threads(pf_context *context, const pf_completion *completion)
{
	(void)completion;
	pf_allow_threads(context);
	assert_int_equal(pf_flush(context, NULL, PF_FOREVER), PF_ERR_ARGUMENT);
}

static void run(void **state, bool in_thread, bool later)
{
	static const enum pf_stat stats[] = { PF_STAT_SENDS, PF_STAT_PUTS, PF_STAT_GETS,
					      PF_STAT_ATOMICS };
	struct pair_setup setup = setup_of(state);
	struct worker workers[THREADS] = { { 0 } };
	struct pair *pair;
	unsigned i;

	setup.receive = check_order;
	setup.thread = in_thread;
	setup.here.threads = !later;
	pair = pair_start(&setup);
	if (later) {
		assert_pending(pf_atomic(pair->peer, PF_ATOMIC_ADD, 8,
					 remote_address(pair->window + THREADS * MIB), 0, 0,
					 allow_threads, NULL));
		assert_ok(pf_flush(pair->context, NULL, PF_FOREVER));
	}
	for (i = 0; i < THREADS; i++) {
		workers[i].number = i;
		workers[i].local = test_alloc(LENGTH);
		start_worker(&workers[i], pair, work);
	}
	for (i = 0; i < THREADS; i++) {
		pthread_join(workers[i].thread, NULL);
		free(workers[i].local);
	}
	pair_await_value(pair, 1, 0, (uint64_t)THREADS * ROUNDS);
	for (i = 0; i < THREADS; i++)
		assert_int_equal(workers[i].wrong, 0);
	assert_int_equal(*pair_value(pair, 1, 1), 0);
	assert_int_equal(load64(pair->window + THREADS * MIB), THREADS * ROUNDS);
	for (i = 0; i < ARRAY_SIZE(stats); i++)
		assert_int_equal(pf_stat(pair->context, stats[i]),
				 THREADS * ROUNDS + (later && stats[i] == PF_STAT_ATOMICS));
	pair_end(pair);
}

static void test_one_partner(void **state)
{
	run(state, false, false);
}

static void test_allowed_later(void **state)
{
	run(state, false, true);
}

/* The partner's context is in the same process. */
static void test_two_contexts(void **state)
{
	run(state, true, false);
}

static void *progress_always(void *arg)
{
	struct worker *worker = arg;

	while (!worker->end)
		pf_progress(worker->pair->context);
	return NULL;
}

static void slow_callback(pf_context *context, const pf_completion *completion)
{
	_Atomic unsigned *done = completion->arg;

	usleep(2000);
	(*done)++;
}

/* When pf_flush returns, callbacks have returned, also those that another thread runs. */
static void test_flush(void **state)
{
	struct pair_setup setup = setup_of(state);
	struct pair *pair = pair_start(&setup);
	struct worker worker = { 0 };
	unsigned i;

	start_worker(&worker, pair, progress_always);
	for (i = 0; i < 50; i++) {
		_Atomic unsigned done = 0;

		assert_pending(pf_atomic(pair->peer, PF_ATOMIC_ADD, 8, remote_address(pair->window),
					 1, 0, slow_callback, (void *)&done));
		assert_ok(pf_flush(pair->context, pair->peer, PF_FOREVER));
		assert_int_equal(done, 1);
	}
	worker.end = true;
	pthread_join(worker.thread, NULL);
	pair_end(pair);
}

static void *wait_always(void *arg)
{
	struct worker *worker = arg;

	while (!worker->end)
		pf_wait(worker->pair->context, PF_FOREVER);
	return NULL;
}

/*
 * While two threads sleep in pf_wait, a third can post, and the first completes the operation.
 * pf_wake ends the sleeps.
 */
static void test_sleeper(void **state)
{
	struct pair_setup setup = setup_of(state);
	struct worker worker = { 0 }, beside = { 0 };
	struct pair *pair;
	unsigned i;

	setup.here.wake = 1;
	pair = pair_start(&setup);
	pair_connect(pair);
	start_worker(&worker, pair, wait_always);
	start_worker(&beside, pair, wait_always);
	for (i = 0; i < 20; i++) {
		usleep(2000);
		if (i == 10) {
			/* The other thread may take the wake-up: the thread then looks after a sleep. */
			beside.end = true;
			pf_wake(pair->context);
			pthread_join(beside.thread, NULL);
		}
		assert_pending(pf_atomic(pair->peer, PF_ATOMIC_ADD, 8, remote_address(pair->window),
					 1, 0, on_complete, &worker));
		while (worker.completed <= i)
			usleep(100);
	}
	worker.end = true;
	pf_wake(pair->context);
	pthread_join(worker.thread, NULL);
	pair_end(pair);
}

static void *open_peers(void *arg)
{
	struct worker *worker = arg;
	unsigned i, j;

	for (i = 0; i < 200; i++) {
		for (j = 1; j <= worker->pair->partners; j++) {
			pf_peer *peer = pair_peer(worker->pair, j);

			worker->wrong += pf_peer_user(peer) != worker->pair;
			if (i == 0)
				worker->wrong += pf_send(peer, 0, "x", 1, NULL, 0) != PF_OK;
		}
	}
	return NULL;
}

/* Several threads open the same peers. */
static void test_open(void **state)
{
	struct pair_setup setup = setup_of(state);
	struct worker workers[THREADS] = { { 0 } };
	struct pair *pair;
	unsigned i;

	setup.partners = 4;
	pair = pair_start(&setup);
	for (i = 0; i < THREADS; i++)
		start_worker(&workers[i], pair, open_peers);
	for (i = 0; i < THREADS; i++) {
		pthread_join(workers[i].thread, NULL);
		assert_int_equal(workers[i].wrong, 0);
	}
	assert_int_equal(pf_stat(pair->context, PF_STAT_PEERS), 4);
	pair_end(pair);
}

/* Memory that this program supplies itself, by a thread that needs the peer's lock for it. */
struct supplied {
	struct host_peer *peer;
	int userfault;
	struct uffdio_range range;
	int locked; /* what pthread_mutex_trylock returned at the page fault */
	pthread_t thread;
};

static void *supply_page(void *arg)
{
	struct supplied *supplied = arg;
	struct uffdio_zeropage pages = { .range = supplied->range };
	struct uffd_msg message;

	assert_int_equal(read(supplied->userfault, &message, sizeof(message)), sizeof(message));
	supplied->locked = pthread_mutex_trylock(&supplied->peer->lock);
	if (!supplied->locked)
		pthread_mutex_unlock(&supplied->peer->lock);
	ioctl(supplied->userfault, UFFDIO_ZEROPAGE, &pages);
	return NULL;
}

/* A page fault of a payload does not happen under the peer's lock. */
static void test_absent_payload(void **state)
{
	struct pair_setup setup = setup_of(state);
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register all = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	struct supplied supplied = { .userfault = (int)syscall(SYS_userfaultfd,
							       O_CLOEXEC | USER_MODE_ONLY) };
	static const size_t lengths[] = { 8, 3000, 20000 }; /* in one piece, and in two */
	uint8_t *payload;
	struct pair *pair;
	size_t i;

	if (supplied.userfault < 0 || ioctl(supplied.userfault, UFFDIO_API, &api))
		skip(); /* the kernel does not permit userfaultfd */
	pair = pair_start(&setup);
	pair_connect(pair);
	supplied.peer = (struct host_peer *)pair->peer;
	for (i = 0; i < ARRAY_SIZE(lengths); i++) {
		payload = test_map(REGION);
		all.range = supplied.range = (struct uffdio_range){ remote_address(payload),
								    REGION };
		assert_int_equal(ioctl(supplied.userfault, UFFDIO_REGISTER, &all), 0);
		supplied.locked = -1;
		assert_int_equal(pthread_create(&supplied.thread, NULL, supply_page, &supplied), 0);
		assert_int_equal(pf_send(pair->peer, 0, NULL, 0, payload + REGION - lengths[i],
					 lengths[i]),
				 PF_OK);
		pthread_join(supplied.thread, NULL);
		assert_int_equal(supplied.locked, 0);
		munmap(payload, REGION);
	}
	close(supplied.userfault);
	pair_end(pair);
}

#define IN_ALL(test)                                                                               \
	IN_MODE(test, DEFAULT), IN_MODE(test, STREAM), IN_MODE(test, SMALL_RING),                  \
		IN_MODE(test, WAIT)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_ALL(test_one_partner),
		IN_ALL(test_two_contexts),
		IN_ALL(test_allowed_later),
		IN_MODE(test_flush, DEFAULT),
		IN_MODE(test_sleeper, DEFAULT),
		IN_MODE(test_open, DEFAULT),
		IN_MODE_UNLESS(net, test_absent_payload, DEFAULT),
	};

	return pair_run_tests("threads", tests);
}

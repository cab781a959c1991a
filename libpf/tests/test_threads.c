/* SPDX-License-Identifier: BSD-3-Clause */
/* One context, several threads that do everything with it at the same time. */
#include "pair.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#define THREADS 4
#define ROUNDS REPEAT(400)
#define LENGTH ((size_t)200 << 10)
#define SLICE ((size_t)1 << 20)

struct worker {
	struct pair *pair;
	pf_peer *peer;
	unsigned number;
	uint8_t *local;
	_Atomic unsigned completed, failed;
	unsigned wrong;
	pthread_t thread;
};

/* On whichever thread happens to progress. */
static void on_complete(pf_context *context, const pf_completion *completion)
{
	struct worker *worker = completion->arg;

	if (completion->status != PF_OK)
		atomic_fetch_add(&worker->failed, 1);
	atomic_fetch_add(&worker->completed, 1);
}

static void await_completed(struct worker *worker, unsigned count)
{
	while (atomic_load(&worker->completed) < count) {
		if (!pf_progress(worker->pair->context))
			sched_yield();
	}
}

static void one_transfer(struct worker *worker, bool put, size_t length, uint64_t what,
			 unsigned *count)
{
	uint8_t *remote = worker->pair->window + worker->number * SLICE;
	int status;

	if (put)
		pattern_fill(worker->local, length, what);
	status = put ? pf_put(worker->peer, worker->local, pair_there(worker->pair, 1, remote),
			      length, on_complete, worker) :
		       pf_get(worker->peer, worker->local, pair_there(worker->pair, 1, remote),
			      length, on_complete, worker);
	if (status == PF_OK)
		await_completed(worker, ++*count);
	else
		worker->wrong += status != PF_DONE;
	if (!put)
		worker->wrong += pattern_differs(worker->local, length, what) != length;
}

static void *work(void *arg)
{
	struct worker *worker = arg;
	struct random_numbers numbers = { 2 * worker->number + 1 };
	uint64_t counter = pair_there(worker->pair, 1, worker->pair->window + THREADS * SLICE);
	unsigned count = 0, i;
	uint32_t message[2] = { worker->number, 0 };

	for (i = 0; i < ROUNDS; i++) {
		size_t length = 1 +
				random_below(&numbers, random_below(&numbers, 2) ? LENGTH : 5000);
		int status;

		one_transfer(worker, true, length, i, &count);
		one_transfer(worker, false, length, i, &count);
		worker->wrong += pf_atomic(worker->peer, PF_ADD, 8, 1, counter, 1, 0, on_complete,
					   worker) != PF_OK;
		count++;
		if (i % 2)
			await_completed(worker, count);
		message[1] = i;
		while ((status = pf_send(worker->peer, (uint8_t)worker->number, message, 4,
					 message + 1, 4)) == PF_ERR_AGAIN)
			pf_progress(worker->pair->context);
		worker->wrong += status != PF_DONE;
		if (i % 50 == 0)
			worker->wrong += pf_flush(worker->pair->context,
						  i % 100 ? worker->peer : NULL) != PF_OK;
		pf_peer_path(worker->peer);
		pf_stat(worker->pair->context, PF_STAT_SENDS);
	}
	await_completed(worker, count);
	worker->wrong += atomic_load(&worker->failed);
	worker->wrong += atomic_load(&worker->completed) != count;
	return NULL;
}

/* Values of the partner: 0 messages received, 1 wrong ones. Order holds for each sending thread. */
static void check_order(pf_context *context, pf_peer *from, uint8_t tag, void *data, size_t length,
			void *arg)
{
	struct pair *me = arg;
	uint32_t *next = me->user, message[2];

	memcpy(message, data, sizeof(message));
	if (length != 8 || message[0] != tag || tag >= THREADS || message[1] != next[tag]++)
		atomic_fetch_add(pair_value(me, me->side, 1), 1);
	atomic_fetch_add(pair_value(me, me->side, 0), 1);
}

static void give_counters(struct pair *me)
{
	me->user = calloc(THREADS, sizeof(uint32_t));
	pair_check(me, me->user);
}

static void serve(struct pair *me)
{
	pair_serve(me);
	free(me->user);
}

enum mode { MODE_DEFAULT, MODE_STREAM, MODE_SMALL_RING, MODE_IDLE };

static pf_options options_of(enum mode mode)
{
	pf_options options = pair_options();

	options.threads = 1;
	switch (mode) {
	case MODE_STREAM:
		options.single_copy = 0;
		break;
	case MODE_SMALL_RING:
		options.ring_size = 16384;
		break;
	case MODE_IDLE:
		options.idle_polls = 1;
		break;
	default:
		break;
	}
	return options;
}

static void run(void **state, bool in_thread)
{
	enum mode mode = (enum mode)(uintptr_t)*state;
	struct pair_setup setup = {
		.here = options_of(mode),
		.there = options_of(mode),
		.window = (THREADS + 1) * SLICE,
		.receive = check_order,
		.prepare = give_counters,
		.partner = serve,
		.thread = in_thread,
	};
	struct worker workers[THREADS] = { { 0 } };
	struct pair *pair = pair_start(&setup);
	unsigned i;

	for (i = 0; i < THREADS; i++) {
		workers[i].pair = pair;
		workers[i].peer = pair->peer;
		workers[i].number = i;
		workers[i].local = malloc(LENGTH);
		assert_non_null(workers[i].local);
		assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	}
	for (i = 0; i < THREADS; i++) {
		pthread_join(workers[i].thread, NULL);
		free(workers[i].local);
	}
	while (atomic_load(pair_value(pair, 1, 0)) < (uint64_t)THREADS * ROUNDS)
		pair_progress(pair);
	for (i = 0; i < THREADS; i++)
		assert_int_equal(workers[i].wrong, 0);
	assert_int_equal(atomic_load(pair_value(pair, 1, 1)), 0);
	assert_int_equal(__atomic_load_n((uint64_t *)(pair->window + THREADS * SLICE),
					 __ATOMIC_RELAXED),
			 THREADS * ROUNDS);
	assert_int_equal(pf_stat(pair->context, PF_STAT_SENDS), THREADS * ROUNDS);
	assert_int_equal(pf_stat(pair->context, PF_STAT_PUTS), THREADS * ROUNDS);
	assert_int_equal(pf_stat(pair->context, PF_STAT_GETS), THREADS * ROUNDS);
	assert_int_equal(pf_stat(pair->context, PF_STAT_ATOMICS), THREADS * ROUNDS);
	pair_end(pair);
}

static void test_one_partner(void **state)
{
	run(state, false);
}

/* The partner's context lives in the same process. */
static void test_two_contexts(void **state)
{
	run(state, true);
}

/* ---- flush means that the callbacks have run, whoever ran them ---- */

static void *progress_always(void *arg)
{
	struct worker *worker = arg;

	while (!atomic_load(&worker->failed))
		pf_progress(worker->pair->context);
	return NULL;
}

static void slow_callback(pf_context *context, const pf_completion *completion)
{
	_Atomic unsigned *done = completion->arg;

	usleep(2000);
	atomic_fetch_add(done, 1);
}

static void test_flush(void **state)
{
	struct pair_setup setup = { .here = options_of(MODE_DEFAULT),
				    .there = options_of(MODE_DEFAULT),
				    .window = SLICE };
	struct pair *pair = pair_start(&setup);
	struct worker worker = { .pair = pair };
	unsigned i;

	assert_int_equal(pthread_create(&worker.thread, NULL, progress_always, &worker), 0);
	for (i = 0; i < 50; i++) {
		_Atomic unsigned done = 0;

		assert_int_equal(pf_atomic(pair->peer, PF_ADD, 8, 1, remote_address(pair->window),
					   1, 0, slow_callback, (void *)&done),
				 PF_OK);
		assert_int_equal(pf_flush(pair->context, pair->peer), PF_OK);
		assert_int_equal(atomic_load(&done), 1);
	}
	atomic_store(&worker.failed, 1);
	pthread_join(worker.thread, NULL);
	pair_end(pair);
}

/* ---- a thread asleep in pf_progress does not hold up one that has something to do ---- */

static void test_sleeper(void **state)
{
	struct pair_setup setup = { .here = options_of(MODE_IDLE),
				    .there = options_of(MODE_DEFAULT),
				    .window = SLICE };
	struct worker worker = { 0 };
	struct pair *pair;
	unsigned i;

	setup.here.idle_sleep = 10000000;
	pair = pair_start(&setup);
	worker.pair = pair;
	worker.peer = pair->peer;
	assert_int_equal(
		pair_put(pair, pair->peer, pair->shared, remote_address(pair->window), 8).status,
		PF_OK);
	assert_int_equal(pthread_create(&worker.thread, NULL, progress_always, &worker), 0);
	for (i = 0; i < 20; i++) {
		usleep(2000);
		assert_int_equal(pf_atomic(pair->peer, PF_ADD, 8, 1, remote_address(pair->window),
					   1, 0, on_complete, &worker),
				 PF_OK);
		/* The other one does it all. */
		while (atomic_load(&worker.completed) <= i)
			usleep(100);
	}
	atomic_store(&worker.failed, 1);
	/* So that it wakes up once more. */
	pf_atomic(pair->peer, PF_ADD, 8, 1, remote_address(pair->window), 1, 0, NULL, NULL);
	pthread_join(worker.thread, NULL);
	pair_end(pair);
}

/* ---- many threads, each with peers of its own to open ---- */

static void *open_peers(void *arg)
{
	struct worker *worker = arg;
	unsigned i, j;

	for (i = 0; i < 200; i++) {
		for (j = 1; j <= worker->pair->partners; j++) {
			pf_peer *peer = pair_peer(worker->pair, j);

			worker->wrong += pf_peer_user(peer) != worker->pair;
			if (i == 0)
				worker->wrong += pf_send(peer, 0, "x", 1, NULL, 0) != PF_DONE;
		}
	}
	return NULL;
}

static void test_open(void **state)
{
	struct pair_setup setup = { .partners = 4,
				    .here = options_of(MODE_DEFAULT),
				    .there = options_of(MODE_DEFAULT) };
	struct pair *pair = pair_start(&setup);
	struct worker workers[THREADS] = { { 0 } };
	unsigned i;

	for (i = 0; i < THREADS; i++) {
		workers[i].pair = pair;
		assert_int_equal(pthread_create(&workers[i].thread, NULL, open_peers, &workers[i]),
				 0);
	}
	for (i = 0; i < THREADS; i++) {
		pthread_join(workers[i].thread, NULL);
		assert_int_equal(workers[i].wrong, 0);
	}
	assert_int_equal(pf_stat(pair->context, PF_STAT_PEERS), 4);
	pair_end(pair);
}

#define IN_MODE(test, mode)                                                                        \
	{                                                                                          \
#test " " #mode, test, NULL, pair_teardown, (void *)(uintptr_t)MODE_##mode         \
	}
#define IN_ALL(test)                                                                               \
	IN_MODE(test, DEFAULT), IN_MODE(test, STREAM), IN_MODE(test, SMALL_RING),                  \
		IN_MODE(test, IDLE)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_ALL(test_one_partner),     IN_ALL(test_two_contexts),
		IN_MODE(test_flush, DEFAULT), IN_MODE(test_sleeper, DEFAULT),
		IN_MODE(test_open, DEFAULT),
	};

	return cmocka_run_group_tests_name("threads", tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* PF_ERR_AGAIN, and who is told when there is room again: pf_room_fn, operations_max. */
#include "page.h"
#include "pair.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "common/context.h"
#include "net/network.h"
#include "net/process.h"

#define TOLD_MOST 16

/* Of this process, which is the side that is refused. */
static struct {
	unsigned count;
	pf_peer *peers[TOLD_MOST];
	bool calling; /* a call that may be refused is running */
} told;

static void note_room(pf_context *context, pf_peer *peer, void *arg)
{
	struct pair *me = arg;

	assert_ptr_equal(context, me->context);
	assert_false(told.calling);
	assert_in_range(told.count, 0, TOLD_MOST - 1);
	told.peers[told.count++] = peer;
}

static struct pair *start(struct pair_setup *setup, pf_room_fn room)
{
	memset(&told, 0, sizeof(told));
	setup->room_here = room;
	return pair_start(setup);
}

static size_t send_max(const struct pair *me)
{
	pf_attributes attributes;

	pf_query(me->context, &attributes, sizeof(attributes));
	return attributes.send_max;
}

static int send_bytes(pf_peer *peer, const void *bytes, size_t length)
{
	int status;

	told.calling = true;
	status = pf_send(peer, 0, bytes, length, NULL, 0);
	told.calling = false;
	return status;
}

/*
 * Is anything under way to the peer? The service thread of a peer that does not poll may still make
 * room by reading that.
 */
static bool is_sending(const struct pair *pair, const pf_peer *peer)
{
	struct network *network = pair->context->network;
	struct net_path_info info;
	bool sending = false;
	unsigned path;

	if (!pair_over_net(&pair->context->options))
		return false;
	network_lock(network);
	for (path = 0; path < NET_PATHS_MOST; path++) {
		if (net_path_info(net_peer(peer)->association, path, &info) && info.in_flight)
			sending = true;
	}
	network_unlock(network);
	return sending;
}

/* Until the peer, which does not poll, has no room for long. Returns how many it took. */
static uint64_t fill(struct pair *pair, pf_peer *peer, const void *bytes, size_t length)
{
	const unsigned before = told.count;
	uint64_t count = 0;
	unsigned i;
	int status;

	do {
		told.count = before;
		while ((status = send_bytes(peer, bytes, length)) == PF_OK)
			count++;
		assert_status(status, PF_ERR_AGAIN);
		while (is_sending(pair, peer))
			pair_linger(pair);
		for (i = 0; i < 10; i++)
			pair_linger(pair);
	} while (told.count != before);
	return count;
}

static void await_told(struct pair *pair, unsigned count)
{
	while (told.count < count)
		pair_progress(pair);
	assert_int_equal(told.count, count);
}

/* A partner that polls before step 1 of the test, and after its step 2. */
static void pause_polling(struct pair *me)
{
	pair_await(me, 0, 1);
	pair_say(me, 1);
	pair_watch(me, 0, 2);
}

static void check_once(void **state, bool longest)
{
	struct pair_setup setup = { PAIR_MODE(state), .work = pause_polling,
				    .receive = pair_count_message, .window = 65536 };
	struct pair *pair = start(&setup, note_room);
	size_t length = longest ? send_max(pair) : 40;
	uint8_t *bytes = test_alloc(length);
	uint64_t count;

	pair_connect(pair);
	pair_say(pair, 1);
	pair_await(pair, 1, 1);
	count = fill(pair, pair->peer, bytes, length);
	/* However many are refused, and however long the program does other things. */
	assert_status(send_bytes(pair->peer, bytes, length), PF_ERR_AGAIN);
	pair_linger(pair);
	assert_int_equal(told.count, 0);

	pair_say(pair, 2);
	await_told(pair, 1);
	assert_ptr_equal(told.peers[0], pair->peer);
	/* The room is there. */
	assert_status(send_bytes(pair->peer, bytes, length), PF_OK);
	pair_await_value(pair, 1, 0, count + 1);
	pair_linger(pair);
	assert_int_equal(told.count, 1);
	free(bytes);
	pair_end(pair);
}

static void test_once(void **state)
{
	check_once(state, false);
}

static void test_once_longest(void **state)
{
	check_once(state, true);
}

#define PUMPED REPEAT(50000)

struct pump {
	pf_peer *peer;
	uint64_t sent;
	_Atomic uint64_t *refused; /* how often */
};

/* Send until it is refused. */
static void pump(struct pump *pump)
{
	uint64_t bytes[125] = { 0 };
	int status;

	while (pump->sent < PUMPED) {
		bytes[0] = pump->sent;
		status = send_bytes(pump->peer, bytes, sizeof(bytes));
		if (status == PF_ERR_AGAIN) {
			++*pump->refused;
			break;
		}
		assert_status(status, PF_OK);
		pump->sent++;
	}
}

static void go_on(pf_context *context, pf_peer *peer, void *arg)
{
	struct pair *me = arg;
	struct pump *work = me->user;

	assert_ptr_equal(peer, work->peer);
	assert_false(told.calling);
	told.count++;
	pump(work);
}

static void check_number(pf_context *context, pf_peer *from, uint32_t tag, void *data,
			 size_t length, void *arg)
{
	struct pair *me = arg;
	_Atomic uint64_t *next = pair_value(me, me->side, 0);

	pair_check(me, length == 1000 && load64(data) == *next);
	++*next;
	/* There are more than fit. */
	while (!*pair_value(me, 0, 1))
		usleep(100);
}

static void check_inside(struct pair *pair, pf_peer *peer, unsigned side)
{
	struct pump work = { .peer = peer, .refused = pair_value(pair, 0, 1) };

	pair->user = &work;
	pump(&work);
	pair_await_value(pair, side, 0, PUMPED);
	assert_int_equal(work.sent, PUMPED);
	assert_int_equal(told.count, *work.refused);
	pair_end(pair);
}

/* All but the first messages are sent from inside the callback. */
static void test_inside(void **state)
{
	struct pair_setup setup = { PAIR_MODE(state), .receive = check_number };
	struct pair *pair = start(&setup, go_on);

	check_inside(pair, pair->peer, 1);
}

static void test_self(void **state)
{
	struct pair_setup setup = { PAIR_MODE(state), .receive_here = check_number };
	struct pair *pair = start(&setup, go_on);

	check_inside(pair, pair_peer(pair, 0), 0);
}

/* Refused in a callback: a later pf_progress tells, though this one makes room. */
static void fill_own(pf_context *context, pf_peer *from, uint32_t tag, void *data, size_t length,
		     void *arg)
{
	const uint8_t bytes[1000] = { 0 };
	_Atomic uint64_t *received = pair_value(arg, 0, 0);
	int status = PF_OK;

	if ((*received)++)
		return;
	while (status == PF_OK)
		status = send_bytes(from, bytes, sizeof(bytes));
	assert_status(status, PF_ERR_AGAIN);
}

static void test_callback(void **state)
{
	struct pair_setup setup = { PAIR_MODE(state), .receive_here = fill_own };
	struct pair *pair = start(&setup, note_room);

	assert_status(pf_send(pair_peer(pair, 0), 0, "x", 1, NULL, 0), PF_OK);
	while (!*pair_value(pair, 0, 0)) {
		pf_progress(pair->context);
		assert_int_equal(told.count, 0);
	}
	await_told(pair, 1);
	pair_end(pair);
}

#define PARTNERS 3

static void pause_and_report(struct pair *me)
{
	pause_polling(me);
	pair_await_value(me, me->side, 0, *pair_value(me, 0, me->side));
	pair_say(me, 3);
}

/* Those that were refused are told of in that order. */
static void test_order(void **state)
{
	static const unsigned order[PARTNERS] = { 2, 3, 1 };
	struct pair_setup setup = { PAIR_MODE(state), .partners = PARTNERS,
				    .receive = pair_count_message, .work = pause_and_report };
	struct pair *pair = start(&setup, note_room);
	const uint8_t bytes[1000] = { 0 };
	unsigned i;

	for (i = 0; i < PARTNERS; i++)
		assert_status(pair_send(pair, pair_peer(pair, order[i]), 0, bytes, 1), PF_OK);
	for (i = 0; i < PARTNERS; i++)
		pair_await_value(pair, order[i], 0, 1);
	pair_say(pair, 1);
	pair_await_all(pair, 1);
	for (i = 0; i < PARTNERS; i++)
		*pair_value(pair, 0, order[i]) = 1 + fill(pair, pair_peer(pair, order[i]), bytes,
							  sizeof(bytes));
	assert_int_equal(told.count, 0);
	/* All have room before progress looks. */
	pair_say(pair, 2);
	for (i = 0; i < PARTNERS; i++)
		pair_watch(pair, order[i], 3);
	await_told(pair, PARTNERS);
	for (i = 0; i < PARTNERS; i++)
		assert_ptr_equal(told.peers[i], pair_peer(pair, order[i]));
	pair_end(pair);
}

/* A peer with room does not wait for one that was refused before and has none. */
static void stay_away(struct pair *me)
{
	pair_await(me, 0, 1);
	pair_say(me, 1);
	pair_watch(me, 0, 1 + me->side);
}

static void test_no_wait(void **state)
{
	struct pair_setup setup = { PAIR_MODE(state), .partners = 2, .work = stay_away };
	struct pair *pair = start(&setup, note_room);
	const uint8_t bytes[1000] = { 0 };

	pair_say(pair, 1);
	pair_await_all(pair, 1);
	fill(pair, pair_peer(pair, 2), bytes, sizeof(bytes));
	fill(pair, pair_peer(pair, 1), bytes, sizeof(bytes));
	pair_say(pair, 2);
	await_told(pair, 1);
	assert_ptr_equal(told.peers[0], pair_peer(pair, 1));
	pair_say(pair, 3);
	await_told(pair, 2);
	assert_ptr_equal(told.peers[1], pair_peer(pair, 2));
	pair_end(pair);
}

static void test_death(void **state)
{
	struct pair_setup setup = { PAIR_MODE(state), .work = pause_polling,
				    .peer_event_here = pair_note_end, .window = 65536 };
	const uint8_t bytes[1000] = { 0 };
	struct pair *pair;

	setup.here.peer_timeout = 2;
	pair = start(&setup, note_room);
	pair_connect(pair);
	pair_say(pair, 1);
	pair_await(pair, 1, 1);
	fill(pair, pair->peer, bytes, sizeof(bytes));
	pair_kill(pair, 1);
	while (!told.count)
		pf_progress(pair->context);
	assert_int_equal(told.count, 1);
	assert_in_range(-send_bytes(pair->peer, bytes, sizeof(bytes)), -PF_ERR_PEER,
			-PF_ERR_PROTOCOL);
	while (!pair->errors.count)
		pf_progress(pair->context);
	pair_linger(pair);
	assert_int_equal(told.count, 1);
	pair_end(pair);
}

/* After the end of a peer that is not open the application has no pointer to the peer: no room. */
static void test_death_closed(void **state)
{
	struct pair_setup setup = { PAIR_MODE(state), .work = pause_polling,
				    .peer_event_here = pair_note_end, .window = 65536 };
	const uint8_t bytes[1000] = { 0 };
	struct pair *pair;

	setup.here.peer_timeout = 2;
	pair = start(&setup, note_room);
	pair_connect(pair);
	pair_say(pair, 1);
	pair_await(pair, 1, 1);
	fill(pair, pair->peer, bytes, sizeof(bytes));
	pf_peer_close(pair->peer);
	pair_kill(pair, 1);
	while (!pair->errors.count)
		pf_progress(pair->context);
	pair_linger(pair);
	assert_int_equal(told.count, 0);
	pair_end(pair);
}

/* ---- operations_max ---- */

/* More than run_max: a call does not copy all at once. */
#define LENGTH (2 * MIB)
#define OPERATIONS 4

static int put(struct pair *pair, unsigned side, const void *local, size_t length,
	       struct pair_done *done)
{
	int status;

	told.calling = true;
	status = pf_put(pair_peer(pair, side), local, pair_there(pair, side, pair->window), length,
			0, pair_completed, done);
	told.calling = false;
	return status;
}

static void test_operations(void **state)
{
	struct pair_setup setup = { PAIR_MODE(state), .window = LENGTH };
	struct pair_done done = { 0 };
	uint8_t *local = test_alloc(LENGTH);
	uint64_t there;
	struct pair *pair;
	unsigned i;

	setup.here.operations_max = OPERATIONS;
	pair = start(&setup, note_room);
	there = pair_there(pair, 1, pair->window);
	/* From then on what is short is copied at once, where that is possible. */
	pair_transfer(pair, pair->peer, PUT, local, there, LENGTH);
	for (i = 0; i < OPERATIONS; i++)
		assert_pending(put(pair, 1, local, LENGTH, &done));
	assert_status(put(pair, 1, local, LENGTH, &done), PF_ERR_AGAIN);
	assert_status(pf_get(pair->peer, local, there, LENGTH, pair_completed, &done),
		      PF_ERR_AGAIN);
	assert_status(pf_atomic(pair->peer, PF_ATOMIC_ADD, 8, there, 1, 0, pair_completed, &done),
		      PF_ERR_AGAIN);
	assert_status(put(pair, 1, local, 64, &done),
		      pair_over_net(&setup.here) || pair_on_device(&setup.here) ? PF_ERR_AGAIN :
										  PF_OK);
	/* Messages have room of their own. */
	assert_status(pf_send(pair->peer, 0, "x", 1, NULL, 0), PF_OK);
	assert_int_equal(told.count, 0);
	assert_int_equal(done.count, 0);

	await_told(pair, 1);
	assert_ptr_equal(told.peers[0], pair->peer);
	assert_in_range(done.count, 1, OPERATIONS);
	assert_pending(pf_atomic(pair->peer, PF_ATOMIC_ADD, 8, there, 1, 0, pair_completed, &done));
	pair_await_done(pair, &done, OPERATIONS + 1);
	assert_int_equal(done.failed, 0);
	pair_linger(pair);
	assert_int_equal(told.count, 1);
	free(local);
	pair_end(pair);
}

#define CHAIN 50

struct chain {
	struct pair *pair;
	uint8_t *local;
	unsigned left;
};

static void put_next(pf_context *context, const pf_completion *completion)
{
	struct chain *chain = completion->arg;

	assert_ok(completion->status);
	if (!--chain->left)
		return;
	assert_pending(pf_put(chain->pair->peer, chain->local,
			      pair_there(chain->pair, 1, chain->pair->window), LENGTH, 0, put_next,
			      chain));
}

/* An operation that completes has made room for another in its callback. */
static void test_chain(void **state)
{
	struct pair_setup setup = { PAIR_MODE(state), .window = LENGTH };
	struct chain chain = { .left = CHAIN };
	struct pair *pair;

	setup.here.operations_max = 1;
	pair = start(&setup, note_room);
	chain.pair = pair;
	chain.local = test_alloc(LENGTH);
	assert_pending(pf_put(pair->peer, chain.local, pair_there(pair, 1, pair->window), LENGTH, 0,
			      put_next, &chain));
	while (chain.left)
		pair_progress(pair);
	assert_int_equal(told.count, 0);
	free(chain.local);
	pair_end(pair);
}

struct turns {
	const uint8_t *local;
	struct pair_done done;
	unsigned left[3];
};

static void put_in_turn(pf_context *context, pf_peer *peer, void *arg)
{
	struct pair *me = arg;
	struct turns *turns = me->user;
	unsigned side = peer == pair_peer(me, 1) ? 1 : 2;

	assert_false(told.calling);
	told.peers[told.count++] = peer;
	if (!turns->left[side])
		return;
	assert_pending(put(me, side, turns->local, LENGTH, &turns->done));
	if (--turns->left[side])
		assert_status(put(me, side, turns->local, LENGTH, &turns->done), PF_ERR_AGAIN);
}

/* One operation at a time: peers that are refused get it in turns. */
static void test_turns(void **state)
{
	struct pair_setup setup = { PAIR_MODE(state), .partners = 2, .window = LENGTH };
	struct turns turns = { .left = { 0, 3, 3 } };
	uint8_t *local = test_alloc(LENGTH);
	struct pair *pair;
	unsigned i;

	setup.here.operations_max = 1;
	pair = start(&setup, put_in_turn);
	turns.local = local;
	pair->user = &turns;
	assert_pending(put(pair, 1, local, LENGTH, &turns.done));
	assert_status(put(pair, 2, local, LENGTH, &turns.done), PF_ERR_AGAIN);
	assert_status(put(pair, 1, local, LENGTH, &turns.done), PF_ERR_AGAIN);
	pair_await_done(pair, &turns.done, 7);
	assert_int_equal(told.count, 6);
	for (i = 0; i < 6; i++)
		assert_ptr_equal(told.peers[i], pair_peer(pair, 2 - i % 2));
	free(local);
	pair_end(pair);
}

/* ---- several threads ---- */

#define THREADS 4
#define MESSAGES REPEAT(20000)

/* The pattern of pf.h: the lock is held around the call and the record. */
struct senders {
	struct pair *pair;
	pthread_mutex_t lock;
	bool refused;
	unsigned told;
	_Atomic unsigned sent, wrong;
};

static void clear_refused(pf_context *context, pf_peer *peer, void *arg)
{
	struct senders *senders = ((struct pair *)arg)->user;

	pthread_mutex_lock(&senders->lock);
	senders->refused = false;
	senders->told++;
	pthread_mutex_unlock(&senders->lock);
}

static void *send_many(void *arg)
{
	struct senders *senders = arg;
	const uint8_t bytes[400] = { 0 };
	unsigned count = 0;
	int status;

	while (count < MESSAGES) {
		status = PF_ERR_AGAIN;
		pthread_mutex_lock(&senders->lock);
		if (!senders->refused) {
			status = pf_send(senders->pair->peer, 0, bytes, sizeof(bytes), NULL, 0);
			senders->refused = status == PF_ERR_AGAIN;
		}
		pthread_mutex_unlock(&senders->lock);
		if (status == PF_OK) {
			count++;
			continue;
		}
		senders->wrong += status != PF_ERR_AGAIN;
		if (!pf_progress(senders->pair->context))
			sched_yield();
	}
	senders->sent += count;
	return NULL;
}

static void test_threads(void **state)
{
	struct pair_setup setup = { PAIR_MODE(state), .receive = pair_count_message };
	struct senders senders = { .refused = false };
	pthread_t threads[THREADS];
	struct pair *pair;
	unsigned i;

	setup.here.threads = 1;
	setup.here.ring_size = 16384;
	pair = start(&setup, clear_refused);
	senders.pair = pair;
	pair->user = &senders;
	pthread_mutex_init(&senders.lock, NULL);
	for (i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, send_many, &senders), 0);
	for (i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(senders.wrong, 0);
	assert_int_equal(senders.sent, THREADS * MESSAGES);
	assert_true(senders.told > 0);
	pair_await_value(pair, 1, 0, THREADS * MESSAGES);
	pthread_mutex_destroy(&senders.lock);
	pair_end(pair);
}

/* The partner's, behind the address that it tells as its number 0. */
static void map_two_pages(struct pair *me)
{
	*pair_value(me, 1, 0) = remote_address(test_map(2 * PAGE));
}

static void unmap_second(struct pair *me, const uint64_t *arguments)
{
	munmap((void *)(uintptr_t)(*pair_value(me, 1, 0) + PAGE), PAGE);
}

/* A put that moved its first bytes at once goes on, whatever the limit: it was started. */
static void test_part(void **state)
{
	pf_options here = pair_mode_options(state);
	struct pair_done word = { 0 }, put = { 0 };
	uint8_t *local = test_alloc(2 * PAGE);
	struct pair *pair;
	uint64_t remote;

	here.operations_max = 1;
	here.residency = 1000000;
	pair = pair_start(&(struct pair_setup){ .here = here,
						.there = pair_mode_options(state),
						.window = PAGE,
						.work = map_two_pages,
						.command = unmap_second });
	pair_await(pair, 1, PAIR_DONE);
	remote = *pair_value(pair, 1, 0);
	/* Until its pages count as present. */
	while (pf_put(pair->peer, local, remote, 2 * PAGE, 0, NULL, NULL) != PF_OK)
		assert_ok(pf_flush(pair->context, NULL, PF_FOREVER));
	pair_command(pair, 0);
	assert_status(pf_atomic(pair->peer, PF_ATOMIC_ADD, 8, pair_there(pair, 1, pair->window), 1,
				0, pair_completed, &word),
		      PF_PENDING);
	assert_status(pf_put(pair->peer, local, remote, 2 * PAGE, 0, pair_completed, &put),
		      PF_PENDING);
	pair_await_done(pair, &put, 1);
	pair_await_done(pair, &word, 1);
	assert_status(put.last.status, PF_ERR_FAULT);
	assert_int_equal(put.last.address, remote + PAGE);
	free(local);
	pair_end(pair);
}

#define IN_ALL(test)                                                                               \
	IN_MODE(test, DEFAULT), IN_MODE(test, SMALL_RING), IN_MODE(test, THREADS),                 \
		IN_MODE(test, WAIT)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_ALL(test_once),
		IN_ALL(test_once_longest),
		IN_ALL(test_inside),
		IN_ALL(test_self),
		IN_MODE(test_callback, DEFAULT),
		IN_MODE(test_callback, SMALL_RING),
		IN_MODE(test_order, DEFAULT),
		IN_MODE(test_order, SMALL_RING),
		IN_MODE(test_no_wait, DEFAULT),
		IN_MODE_UNLESS(threads, test_death, DEFAULT),
		IN_MODE_UNLESS(threads, test_death, WAIT),
		IN_MODE_UNLESS(threads, test_death_closed, DEFAULT),
		IN_MODE_UNLESS(threads, test_death_closed, WAIT),
		IN_ALL(test_operations),
		IN_MODE(test_chain, DEFAULT),
		IN_MODE(test_turns, DEFAULT),
		IN_MODE_UNLESS(net, test_part, DEFAULT),
		IN_MODE(test_threads, DEFAULT),
		IN_MODE(test_threads, WAIT),
	};

	return pair_run_tests("room", tests);
}

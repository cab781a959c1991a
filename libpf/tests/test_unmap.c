/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that a thread takes away and brings back while transfers from and to it
 * are under way: they succeed, or end with PF_ERR_FAULT and an address in it;
 * nobody gets a signal, and what goes on beside them is right.
 */
#include "pair.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define PAGE ((size_t)4096)
#define VICTIM (4 * MIB)
#define AREA (2 * MIB) /* of one transfer beside them */
#define BESIDE 3
#define MESSAGES 40

/* How memory is taken away. What is truncated comes back empty, and only when nothing is under way. */
enum kind { NOTHING, PROTECTED, REPLACED, TRUNCATED, KINDS };

/* A thread, and the memory that it takes away. */
struct thief {
	pthread_t thread;
	struct random_numbers numbers;
	uint8_t *memory;
	int fd;
	_Atomic unsigned wanted, present; /* kinds: what it is to do, and does */
	_Atomic bool end;
};

static void must(bool condition)
{
	if (!condition)
		abort();
}

static void take_away(struct thief *thief, enum kind kind, uint8_t *start, size_t length)
{
	if (kind == PROTECTED)
		must(!mprotect(start, length, PROT_NONE));
	else if (kind == REPLACED)
		must(mmap(start, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
			  0) == start);
	else
		must(!ftruncate(thief->fd, start - thief->memory));
}

static void bring_back(struct thief *thief, enum kind kind, uint8_t *start, size_t length)
{
	if (kind == PROTECTED)
		must(!mprotect(start, length, PROT_READ | PROT_WRITE));
	else if (kind == REPLACED)
		must(mmap(start, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, thief->fd,
			  start - thief->memory) == start);
	else
		must(!ftruncate(thief->fd, VICTIM));
}

static void rob(struct thief *thief, enum kind kind)
{
	size_t first = random_below(&thief->numbers, VICTIM / PAGE);
	size_t count = 1 + random_below(&thief->numbers, VICTIM / PAGE - first);
	uint8_t *start = thief->memory + first * PAGE;

	usleep((useconds_t)random_below(&thief->numbers, 1000));
	take_away(thief, kind, start, count * PAGE);
	if (random_below(&thief->numbers, 2))
		usleep((useconds_t)random_below(&thief->numbers, 200));
	while (kind == TRUNCATED && atomic_load(&thief->wanted) == TRUNCATED)
		usleep(100);
	bring_back(thief, kind, start, count * PAGE);
}

static void *steal(void *arg)
{
	struct thief *thief = arg;

	while (!atomic_load(&thief->end)) {
		enum kind kind = (enum kind)atomic_load(&thief->wanted);

		atomic_store(&thief->present, kind);
		if (kind == NOTHING)
			usleep(100);
		else
			rob(thief, kind);
	}
	return NULL;
}

static void thief_start(struct thief *thief, uint64_t seed)
{
	*thief = (struct thief){ .numbers = { seed | 1 } };
	thief->fd = memfd_create("victim", MFD_CLOEXEC);
	must(thief->fd >= 0 && !ftruncate(thief->fd, VICTIM));
	thief->memory = mmap(NULL, VICTIM, PROT_READ | PROT_WRITE, MAP_SHARED, thief->fd, 0);
	must(thief->memory != MAP_FAILED);
	must(!pthread_create(&thief->thread, NULL, steal, thief));
}

/* Returns when it does so: after NOTHING all is there again. */
static void thief_set(struct thief *thief, enum kind kind)
{
	atomic_store(&thief->wanted, kind);
	while (atomic_load(&thief->present) != kind)
		usleep(100);
}

static void thief_end(struct thief *thief)
{
	thief_set(thief, NOTHING);
	atomic_store(&thief->end, true);
	pthread_join(thief->thread, NULL);
	munmap(thief->memory, VICTIM);
	close(thief->fd);
}

/* ---- the partner ---- */

static void receive(pf_context *context, pf_peer *from, uint8_t tag, void *data, size_t length,
		    void *arg)
{
	struct pair *me = arg;

	pair_check(me, pattern_differs(data, length, length) == length);
	atomic_fetch_add(pair_value(me, me->side, 1), 1);
}

static void serve(struct pair *me)
{
	struct thief thief;
	unsigned done = 0;

	pair_await(me, 0, 1);
	thief_start(&thief, atomic_load(pair_value(me, 0, 1)));
	atomic_store(pair_value(me, me->side, 0), remote_address(thief.memory));
	pair_say(me, ++done);
	while (pair_progress(me)) {
		if (atomic_load(pair_value(me, 0, 2)) <= done)
			continue;
		thief_set(&thief, (enum kind)atomic_load(pair_value(me, 0, 3)));
		pair_say(me, ++done);
	}
	thief_end(&thief);
}

/* ---- the test ---- */

struct sides {
	struct pair *pair;
	struct random_numbers numbers;
	struct thief thief;
	uint64_t remote; /* the partner's victim */
	unsigned steps;
	uint64_t messages;
	uint8_t *local;            /* VICTIM bytes, then as many as go on beside */
	unsigned faults, survived; /* transfers */
};

static void set_thief(struct sides *sides, enum pf_side side, enum kind kind)
{
	if (side == PF_SIDE_LOCAL) {
		thief_set(&sides->thief, kind);
		return;
	}
	atomic_store(pair_value(sides->pair, 0, 3), kind);
	atomic_store(pair_value(sides->pair, 0, 2), ++sides->steps);
	pair_await(sides->pair, 1, sides->steps);
}

static struct sides *start(enum pf_auth auth, enum pf_net_fault net_fault)
{
	struct sides *sides = calloc(1, sizeof(*sides));
	struct pair_setup setup = { .here = pair_options(),
				    .there = pair_options(),
				    .window = VICTIM + BESIDE * AREA,
				    .partner = serve,
				    .receive = receive };
	struct pair *pair;

	assert_non_null(sides);
	/* cmocka would go on, without what the library was about to do. */
	signal(SIGSEGV, SIG_DFL);
	signal(SIGBUS, SIG_DFL);
	setup.here.auth = setup.there.auth = auth;
	setup.here.net_fault = setup.there.net_fault = net_fault;
	sides->numbers = random_start("unmap");
	sides->pair = pair = pair_start(&setup);
	atomic_store(pair_value(pair, 0, 1), random_next(&sides->numbers));
	pair_say(pair, 1);
	pair_await(pair, 1, ++sides->steps);
	sides->remote = atomic_load(pair_value(pair, 1, 0));
	sides->local = malloc(VICTIM + BESIDE * AREA);
	assert_non_null(sides->local);
	thief_start(&sides->thief, random_next(&sides->numbers));
	return sides;
}

static void end(struct sides *sides)
{
	print_message("# %u transfers failed, %u did not\n", sides->faults, sides->survived);
	/* It would be no test of either. */
	assert_true(sides->faults && sides->survived);
	thief_end(&sides->thief);
	pair_end(sides->pair);
	free(sides->local);
	free(sides);
}

static void post(struct sides *sides, bool put, uint8_t *local, uint64_t remote, size_t length,
		 struct pair_done *done)
{
	pf_peer *peer = sides->pair->peer;
	int status = put ? pf_put(peer, local, remote, length, pair_completed, done) :
			   pf_get(peer, local, remote, length, pair_completed, done);

	assert_in_range(status, PF_OK, PF_DONE);
	if (status == PF_DONE)
		done->count++;
}

/* From or to the victim, all over it. */
static void post_victim(struct sides *sides, bool put, enum pf_side side, struct pair_done *done)
{
	size_t length = 1 + random_below(&sides->numbers, VICTIM);
	size_t at = random_below(&sides->numbers, VICTIM - length + 1);
	uint8_t *window = sides->pair->window;

	if (side == PF_SIDE_LOCAL)
		post(sides, put, sides->thief.memory + at, remote_address(window + at), length,
		     done);
	else
		post(sides, put, sides->local + at, sides->remote + at, length, done);
}

static void send_message(struct sides *sides)
{
	uint8_t bytes[3000];
	size_t length = 1 + random_below(&sides->numbers, sizeof(bytes));

	pattern_fill(bytes, length, length);
	assert_int_equal(pair_send(sides->pair, sides->pair->peer, 0, bytes, length), PF_DONE);
	sides->messages++;
}

/* When the memory is there again it can be used again. */
static void check_alive(struct sides *sides)
{
	struct pair *pair = sides->pair;
	uint8_t *local = sides->local, *mine = sides->thief.memory;

	pattern_fill(mine, VICTIM, 77);
	assert_int_equal(pair_put(pair, pair->peer, mine, sides->remote, VICTIM).status, PF_OK);
	assert_int_equal(pair_get(pair, pair->peer, local, sides->remote, VICTIM).status, PF_OK);
	assert_int_equal(pattern_differs(local, VICTIM, 77), VICTIM);
}

static void check_failure(struct sides *sides, const struct pair_done *done, enum pf_side side)
{
	uint64_t victim = side == PF_SIDE_LOCAL ? remote_address(sides->thief.memory) :
						  sides->remote;

	sides->faults += done->failed;
	sides->survived += done->count - done->failed;
	if (!done->failed)
		return;
	assert_int_equal(done->failure.status, PF_ERR_FAULT);
	assert_int_equal(done->failure.side, side);
	assert_true(done->failure.address - victim < VICTIM);
}

static void one_round(struct sides *sides, bool put, enum pf_side side, enum kind kind)
{
	struct pair_done bad = { 0 }, good = { 0 };
	struct pair *pair = sides->pair;
	uint64_t what = random_next(&sides->numbers);
	size_t lengths[BESIDE];
	unsigned i;

	set_thief(sides, side, kind);
	for (i = 0; i < BESIDE; i++) {
		uint8_t *local = sides->local + VICTIM + i * AREA;
		uint8_t *window = pair->window + VICTIM + i * AREA;

		lengths[i] = 1 + random_below(&sides->numbers, AREA);
		pattern_fill(put ? local : window, lengths[i], what + i);
		memset(put ? window : local, 0, lengths[i]);
		post_victim(sides, put, side, &bad);
		post(sides, put, local, remote_address(window), lengths[i], &good);
		post_victim(sides, put, side, &bad);
	}
	for (i = 0; i < MESSAGES; i++) {
		send_message(sides);
		pf_progress(pair->context);
	}
	pair_await_done(pair, &good, BESIDE);
	pair_await_done(pair, &bad, 2 * BESIDE);
	while (atomic_load(pair_value(pair, 1, 1)) < sides->messages)
		pair_progress(pair);
	set_thief(sides, side, NOTHING);
	assert_int_equal(good.failed, 0);
	for (i = 0; i < BESIDE; i++)
		assert_int_equal(
			pattern_differs((put ? pair->window : sides->local) + VICTIM + i * AREA,
					lengths[i], what + i),
			lengths[i]);
	check_failure(sides, &bad, side);
	check_alive(sides);
}

static void each_round(enum pf_auth auth, enum pf_net_fault net_fault)
{
	struct sides *sides = start(auth, net_fault);
	unsigned rounds = getenv("PF_TEST_QUICK") ? 1 : (REPEAT(8) + 1) / 2, round, kind;

	for (round = 0; round < rounds; round++) {
		for (kind = PROTECTED; kind < KINDS; kind++) {
			one_round(sides, true, PF_SIDE_REMOTE, (enum kind)kind);
			one_round(sides, true, PF_SIDE_LOCAL, (enum kind)kind);
			one_round(sides, false, PF_SIDE_REMOTE, (enum kind)kind);
			one_round(sides, false, PF_SIDE_LOCAL, (enum kind)kind);
		}
	}
	end(sides);
}

static void test_header(void **state)
{
	each_round(PF_AUTH_HEADER, PF_NET_FAULT_NACK);
}

static void test_backup(void **state)
{
	each_round(PF_AUTH_HEADER, PF_NET_FAULT_BACKUP);
}

static void test_full(void **state)
{
	each_round(PF_AUTH_FULL, PF_NET_FAULT_NACK);
}

static void test_encrypt(void **state)
{
	each_round(PF_AUTH_ENCRYPT, PF_NET_FAULT_NACK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_header, pair_teardown),
		cmocka_unit_test_teardown(test_backup, pair_teardown),
		cmocka_unit_test_teardown(test_full, pair_teardown),
		cmocka_unit_test_teardown(test_encrypt, pair_teardown),
	};

	return cmocka_run_group_tests_name("unmap", tests, NULL, NULL);
}

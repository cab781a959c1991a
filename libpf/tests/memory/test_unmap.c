/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that a thread takes away and gives back during transfers from and to it. They succeed, or
 * end with PF_ERR_FAULT and an address in that memory; there is no signal, and concurrent transfers
 * of other memory are not affected.
 */
#include "page.h"
#include "pair.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#define VICTIM (4 * MIB)
#define AREA (2 * MIB) /* of one concurrent transfer */
#define CONCURRENT 3
#define MESSAGES 40

/* How memory is taken away. A truncated file grows again only when no transfer is under way. */
enum kind { NONE, PROTECTED, REPLACED, TRUNCATED, KINDS };

/* A thread, and the memory that it takes away and gives back. */
struct thief {
	pthread_t thread;
	struct random_numbers numbers;
	uint8_t *memory; /* VICTIM bytes */
	int fd;
	_Atomic unsigned wanted, present; /* kinds: what it is to do, and does */
	_Atomic bool end;
};

static void must(bool condition)
{
	if (!condition)
		abort();
}

/* mmap over part of the victim: of its file, or of memory that cannot be accessed. */
static void map_over(struct thief *thief, uint8_t *start, size_t length, bool back)
{
	must(mmap(start, length, back ? PROT_READ | PROT_WRITE : PROT_NONE,
		  MAP_FIXED | (back ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS),
		  back ? thief->fd : -1, back ? start - thief->memory : 0) == start);
}

/* Take part of the memory away, and give it back. */
static void take(struct thief *thief, enum kind kind)
{
	size_t first = random_below(&thief->numbers, VICTIM / PAGE);
	size_t length = (1 + random_below(&thief->numbers, VICTIM / PAGE - first)) * PAGE;
	uint8_t *start = thief->memory + first * PAGE;

	usleep((useconds_t)random_below(&thief->numbers, 1000));
	if (kind == PROTECTED)
		must(!mprotect(start, length, PROT_NONE));
	else if (kind == REPLACED)
		map_over(thief, start, length, false);
	else
		must(!ftruncate(thief->fd, start - thief->memory));
	if (random_below(&thief->numbers, 2))
		usleep((useconds_t)random_below(&thief->numbers, 200));
	while (kind == TRUNCATED && thief->wanted == TRUNCATED)
		usleep(100);
	if (kind == PROTECTED)
		must(!mprotect(start, length, PROT_READ | PROT_WRITE));
	else if (kind == REPLACED)
		map_over(thief, start, length, true);
	else
		must(!ftruncate(thief->fd, VICTIM));
}

static void *run_thief(void *arg)
{
	struct thief *thief = arg;

	while (!thief->end) {
		enum kind kind = (enum kind)thief->wanted;

		thief->present = kind;
		if (kind == NONE)
			usleep(100);
		else
			take(thief, kind);
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
	must(!pthread_create(&thief->thread, NULL, run_thief, thief));
}

/* Returns when the thread does this. After NONE the memory is complete again. */
static void thief_set(struct thief *thief, enum kind kind)
{
	thief->wanted = kind;
	while (thief->present != kind)
		usleep(100);
}

static void thief_end(struct thief *thief)
{
	thief_set(thief, NONE);
	thief->end = true;
	pthread_join(thief->thread, NULL);
	munmap(thief->memory, VICTIM);
	close(thief->fd);
}

/* ---- the partner ---- */

/* The thief of this process: of the test, or of the partner. */
static struct thief own_thief;

/* Number 1 of the partner counts messages. */
static void check_message(pf_context *context, pf_peer *from, uint32_t tag, void *data,
			  size_t length, void *arg)
{
	struct pair *me = arg;

	pair_check_pattern(me, data, length, length);
	(*pair_value(me, me->side, 1))++;
}

/* Argument: the kind. */
static void set_own_thief(struct pair *me, const uint64_t *arguments)
{
	thief_set(&own_thief, (enum kind)arguments[0]);
}

/* Number 1 of the test: a seed. Number 0 of the partner: the address of its victim. */
static void serve(struct pair *me)
{
	pair_await(me, 0, 1);
	thief_start(&own_thief, *pair_value(me, 0, 1));
	*pair_value(me, me->side, 0) = remote_address(own_thief.memory);
	pair_say(me, 1);
	pair_serve(me);
	thief_end(&own_thief);
}

/* ---- the test ---- */

struct sides {
	struct pair *pair;
	struct random_numbers numbers;
	uint64_t remote; /* the partner's victim */
	uint64_t messages;
	uint8_t *local;             /* VICTIM bytes, then CONCURRENT areas, like the window */
	unsigned faults, successes; /* transfers of victims */
};

static void set_thief(struct sides *sides, enum pf_side side, enum kind kind)
{
	if (side == PF_SIDE_LOCAL)
		thief_set(&own_thief, kind);
	else
		pair_command(sides->pair, kind);
}

/* Transfer a random part of the victim of one side. */
static void post_victim(struct sides *sides, enum pair_direction direction, enum pf_side side,
			struct pair_done *done)
{
	struct pair *pair = sides->pair;
	size_t length = 1 + random_below(&sides->numbers, VICTIM);
	size_t at = random_below(&sides->numbers, VICTIM - length + 1);

	if (side == PF_SIDE_LOCAL)
		pair_post(pair, pair->peer, direction, own_thief.memory + at,
			  remote_address(pair->window + at), length, done);
	else
		pair_post(pair, pair->peer, direction, sides->local + at, sides->remote + at,
			  length, done);
}

static void send_message(struct sides *sides)
{
	uint8_t bytes[3000];
	size_t length = 1 + random_below(&sides->numbers, sizeof(bytes));

	pattern_fill(bytes, length, length);
	assert_status(pair_send(sides->pair, sides->pair->peer, 0, bytes, length), PF_OK);
	sides->messages++;
}

/* Complete memory can be used again. */
static void check_alive(struct sides *sides)
{
	struct pair *pair = sides->pair;

	pattern_fill(own_thief.memory, VICTIM, 77);
	assert_ok(pair_put(pair, pair->peer, own_thief.memory, sides->remote, VICTIM).status);
	assert_ok(pair_get(pair, pair->peer, sides->local, sides->remote, VICTIM).status);
	pair_check_pattern(pair, sides->local, VICTIM, 77);
}

static void check_failure(struct sides *sides, const struct pair_done *done, enum pf_side side)
{
	uint64_t victim = side == PF_SIDE_LOCAL ? remote_address(own_thief.memory) : sides->remote;

	sides->faults += done->failed;
	sides->successes += done->count - done->failed;
	if (!done->failed)
		return;
	assert_status(done->failure.status, PF_ERR_FAULT);
	assert_int_equal(done->failure.side, side);
	assert_true(done->failure.address - victim < VICTIM);
}

static void one_round(struct sides *sides, enum pair_direction direction, enum pf_side side,
		      enum kind kind)
{
	struct pair_done bad = { 0 }, good = { 0 };
	struct pair *pair = sides->pair;
	uint64_t seed = random_next(&sides->numbers);
	uint8_t *from = direction == PUT ? sides->local : pair->window;
	uint8_t *to = direction == PUT ? pair->window : sides->local;
	size_t lengths[CONCURRENT];
	unsigned i;

	set_thief(sides, side, kind);
	for (i = 0; i < CONCURRENT; i++) {
		size_t at = VICTIM + i * AREA;

		lengths[i] = 1 + random_below(&sides->numbers, AREA);
		pattern_fill(from + at, lengths[i], seed + i);
		memset(to + at, 0, lengths[i]);
		post_victim(sides, direction, side, &bad);
		pair_post(pair, pair->peer, direction, sides->local + at,
			  remote_address(pair->window + at), lengths[i], &good);
		post_victim(sides, direction, side, &bad);
	}
	for (i = 0; i < MESSAGES; i++) {
		send_message(sides);
		pf_progress(pair->context);
	}
	pair_await_done(pair, &good, CONCURRENT);
	pair_await_done(pair, &bad, 2 * CONCURRENT);
	pair_await_value(pair, 1, 1, sides->messages);
	set_thief(sides, side, NONE);
	assert_int_equal(good.failed, 0);
	for (i = 0; i < CONCURRENT; i++)
		pair_check_pattern(pair, to + VICTIM + i * AREA, lengths[i], seed + i);
	check_failure(sides, &bad, side);
	check_alive(sides);
}

static const struct unmap_case {
	const char *name;
	enum pf_auth auth;
	enum pf_net_fault net_fault;
} cases[] = {
	{ "header", PF_AUTH_HEADER, PF_NET_FAULT_NACK },
	{ "header, backup", PF_AUTH_HEADER, PF_NET_FAULT_BACKUP },
	{ "full", PF_AUTH_FULL, PF_NET_FAULT_NACK },
	{ "encrypt", PF_AUTH_ENCRYPT, PF_NET_FAULT_NACK },
};

static void test_unmap(void **state)
{
	const struct unmap_case *one = *state;
	struct pair_setup setup = { .here = pair_options(),
				    .there = pair_options(),
				    .window = VICTIM + CONCURRENT * AREA,
				    .partner = serve,
				    .command = set_own_thief,
				    .receive = check_message };
	unsigned rounds = quick_or(1, (REPEAT(8) + 1) / 2), round, kind;
	struct sides sides = { .numbers = random_start("unmap") };
	struct pair *pair;

	/* cmocka's handlers would jump out of the library. */
	signal(SIGSEGV, SIG_DFL);
	signal(SIGBUS, SIG_DFL);
	setup.here.auth = setup.there.auth = one->auth;
	setup.here.net_fault = setup.there.net_fault = one->net_fault;
	sides.pair = pair = pair_start(&setup);
	*pair_value(pair, 0, 1) = random_next(&sides.numbers);
	pair_say(pair, 1);
	pair_await(pair, 1, 1);
	sides.remote = *pair_value(pair, 1, 0);
	sides.local = test_alloc(VICTIM + CONCURRENT * AREA);
	thief_start(&own_thief, random_next(&sides.numbers));
	for (round = 0; round < rounds; round++) {
		for (kind = PROTECTED; kind < KINDS; kind++) {
			one_round(&sides, PUT, PF_SIDE_REMOTE, (enum kind)kind);
			one_round(&sides, PUT, PF_SIDE_LOCAL, (enum kind)kind);
			one_round(&sides, GET, PF_SIDE_REMOTE, (enum kind)kind);
			one_round(&sides, GET, PF_SIDE_LOCAL, (enum kind)kind);
		}
	}
	print_message("# %u transfers failed, %u did not\n", sides.faults, sides.successes);
	/* Otherwise it tested only one of them. */
	assert_true(sides.faults && sides.successes);
	thief_end(&own_thief);
	pair_end(pair);
	free(sides.local);
}

int main(void)
{
	struct CMUnitTest tests[ARRAY_SIZE(cases)];
	size_t i;

	pair_use_net();
	for (i = 0; i < ARRAY_SIZE(cases); i++)
		tests[i] = (struct CMUnitTest){ cases[i].name, test_unmap, NULL, pair_teardown,
						(void *)&cases[i] };
	return pair_run_tests("unmap", tests);
}

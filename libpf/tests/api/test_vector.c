/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations of many pieces, by every route: contents, limits, page faults, errors, and the end of
 * the peer. */
#include "page.h"
#include "pair.h"

#include <limits.h>
#include <sched.h>
#include <sys/mman.h>

#define WINDOW (16 * MIB)
#define MOST PF_VECTOR_MOST
#define GUARD 0xe7

/* ---- pieces ---- */

struct vector {
	enum pair_direction direction;
	uint8_t *local, *window; /* both of size bytes */
	size_t size;
	unsigned count;
	size_t offsets[MOST][2], lengths[MOST]; /* in local and in the window */
};

static struct vector *vector_new(enum pair_direction direction, uint8_t *local, struct pair *pair)
{
	struct vector *vector = test_alloc(sizeof(*vector));

	memset(vector, 0, sizeof(*vector));
	vector->direction = direction;
	vector->local = local;
	vector->window = pair->window;
	vector->size = WINDOW;
	return vector;
}

static void vector_add(struct vector *vector, size_t local, size_t window, size_t length)
{
	vector->offsets[vector->count][0] = local;
	vector->offsets[vector->count][1] = window;
	vector->lengths[vector->count++] = length;
}

static unsigned vector_pieces(struct pair *pair, const struct vector *vector, pf_piece *pieces)
{
	unsigned i;

	for (i = 0; i < vector->count; i++) {
		const size_t *offsets = vector->offsets[i];

		pieces[i] = (pf_piece){ vector->local + offsets[0],
					pair_there(pair, 1, vector->window + offsets[1]),
					vector->lengths[i] };
	}
	return vector->count;
}

static pf_completion vector_move(struct pair *pair, const struct vector *vector)
{
	static pf_piece pieces[MOST];
	unsigned count = vector_pieces(pair, vector, pieces);

	return pair_transfer_vector(pair, pair->peer, vector->direction, pieces, count);
}

/* Fill the source with a pattern, and all of the destination's memory with GUARD. */
static void vector_prepare(const struct vector *vector, uint64_t seed)
{
	bool put = vector->direction == PUT;

	pattern_fill(put ? vector->local : vector->window, vector->size, seed);
	memset(put ? vector->window : vector->local, GUARD, vector->size);
}

/* Check that the destination has the pieces, and GUARD in between. The source is not changed. */
static void vector_check(const struct vector *vector)
{
	bool put = vector->direction == PUT;
	const uint8_t *source = put ? vector->local : vector->window;
	const uint8_t *found = put ? vector->window : vector->local;
	uint8_t *expected = test_alloc(vector->size);
	unsigned i;

	memset(expected, GUARD, vector->size);
	for (i = 0; i < vector->count; i++)
		memcpy(expected + vector->offsets[i][put], source + vector->offsets[i][!put],
		       vector->lengths[i]);
	if (memcmp(expected, found, vector->size)) {
		size_t at = 0;

		while (expected[at] == found[at])
			at++;
		fail_msg("%s of %u pieces: byte %zu is wrong",
			 vector->direction == PUT ? "put" : "get", vector->count, at);
	}
	free(expected);
}

static void vector_verify(struct pair *pair, const struct vector *vector, uint64_t seed)
{
	vector_prepare(vector, seed);
	assert_ok(vector_move(pair, vector).status);
	vector_check(vector);
}

/* ---- tests ---- */

static void columns(struct pair *pair, uint8_t *local, enum pair_direction direction,
		    unsigned count, size_t length, size_t stride)
{
	struct vector *vector = vector_new(direction, local, pair);
	unsigned i;

	vector->size = count * stride + PAGE;
	for (i = 0; i < count; i++)
		vector_add(vector, 24 + i * length, 8 + i * stride, length);
	vector_verify(pair, vector, count + length);
	free(vector);
}

/* A column of a matrix on the window's side, without gaps here. */
static void test_columns(void **state)
{
	static const unsigned counts[] = { 1, 2, 17, 64, 65, 1023, 1024 };
	struct pair *pair = pair_open(state, .window = WINDOW);
	uint8_t *local = test_map(WINDOW);
	uint64_t puts = 0;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(counts); i++, puts += 3) {
		enum pair_direction direction;

		for (direction = PUT; direction <= GET; direction++) {
			columns(pair, local, direction, counts[i], 8, 64);
			columns(pair, local, direction, counts[i], 8, 4096);
			columns(pair, local, direction, counts[i], 1500, 4000);
		}
	}
	/* A vector is one operation, whatever the number of pieces. */
	assert_int_equal(pf_stat(pair->context, PF_STAT_PUTS), puts);
	assert_int_equal(pf_stat(pair->context, PF_STAT_GETS), puts);
	munmap(local, WINDOW);
	pair_end(pair);
}

/* Some pieces empty, some long; the order in memory is not that of the array. */
static void add_random(struct vector *vector, struct random_numbers *numbers, size_t longest)
{
	unsigned count = 2 + (unsigned)random_below(numbers, random_below(numbers, 2) ? 20 : 1000);
	size_t here = 0, there = 0, place = vector->size / (count + 1), length;
	unsigned i, other;

	for (i = 0; i < count; i++) {
		length = random_below(numbers, random_below(numbers, 8) ? 100 : longest);
		if (length > place)
			length = random_below(numbers, place);
		here = i * place + random_below(numbers, place - length + 1);
		there = (count - 1 - i) * place + random_below(numbers, place - length + 1);
		vector_add(vector, here, there, random_below(numbers, 5) ? length : 0);
		other = (unsigned)random_below(numbers, i + 1);
		here = vector->offsets[other][0];
		there = vector->offsets[other][1];
		length = vector->lengths[other];
		memcpy(vector->offsets[other], vector->offsets[i], sizeof(vector->offsets[i]));
		vector->lengths[other] = vector->lengths[i];
		vector->offsets[i][0] = here;
		vector->offsets[i][1] = there;
		vector->lengths[i] = length;
	}
}

static void test_random(void **state)
{
	struct random_numbers numbers = random_start("vectors");
	struct pair *pair = pair_open(state, .window = WINDOW);
	uint8_t *local = test_map(WINDOW);
	unsigned i;

	for (i = 0; i < 2 + REPEAT(4); i++) {
		struct vector *vector = vector_new(i % 2 ? GET : PUT, local, pair);

		add_random(vector, &numbers, i < 2 ? 3 * MIB : 20000);
		vector_verify(pair, vector, i);
		free(vector);
	}
	munmap(local, WINDOW);
	pair_end(pair);
}

static void test_limits(void **state)
{
	struct pair *pair = pair_open(state, .window = WINDOW);
	static pf_piece pieces[MOST + 1];
	uint8_t *window = pair->window;
	uint64_t there = pair_there(pair, 1, window);
	struct pair_done done = { 0 };
	unsigned i;

	memset(window, GUARD, PAGE);
	for (i = 0; i <= MOST; i++)
		pieces[i] = (pf_piece){ window + PAGE, there, 0 };
	assert_status(pf_putv(pair->peer, NULL, 0, 0, pair_completed, &done), PF_OK);
	assert_status(pf_putv(pair->peer, NULL, 0, PF_PUT_UNREAD, pair_completed, &done), PF_OK);
	assert_status(pf_putv(pair->peer, NULL, 0, 2, pair_completed, &done), PF_ERR_ARGUMENT);
	assert_status(pf_put(pair->peer, NULL, 0, 0, UINT_MAX, pair_completed, &done),
		      PF_ERR_ARGUMENT);
	assert_status(pf_getv(pair->peer, pieces, MOST, pair_completed, &done), PF_OK);
	for (i = 0; i <= MOST; i++)
		pieces[i].length = 8;
	assert_status(pf_putv(pair->peer, pieces, MOST + 1, 0, pair_completed, &done),
		      PF_ERR_ARGUMENT);
	assert_status(pf_getv(pair->peer, pieces, UINT32_MAX, pair_completed, &done),
		      PF_ERR_ARGUMENT);
	/* Beyond the end of the address space, by one piece or in all. */
	pieces[7].remote = UINT64_MAX - 3;
	assert_status(pf_putv(pair->peer, pieces, MOST, 0, pair_completed, &done), PF_ERR_ARGUMENT);
	pieces[7] = (pf_piece){ (void *)(UINTPTR_MAX - 3), there, 8 };
	assert_status(pf_putv(pair->peer, pieces, MOST, 0, pair_completed, &done), PF_ERR_ARGUMENT);
	pieces[0] = (pf_piece){ NULL, 0, SIZE_MAX };
	pieces[1] = (pf_piece){ NULL, 0, 1 };
	assert_status(pf_putv(pair->peer, pieces, 2, 0, pair_completed, &done), PF_ERR_ARGUMENT);
	pair_linger(pair);
	assert_int_equal(done.count, 0);
	for (i = 0; i < PAGE; i++)
		assert_int_equal(window[i], GUARD);
	pair_end(pair);
}

/* A vector has one place in operations_max. */
static void test_operations_max(void **state)
{
	struct pair_setup setup = { PAIR_MODE(state), .window = WINDOW };
	static pf_piece pieces[MOST], more[1];
	uint8_t *local = test_map(WINDOW);
	struct pair_done done = { 0 };
	struct vector *vector;
	struct pair *pair;
	unsigned i;

	setup.here.operations_max = 1;
	pair = pair_start(&setup);
	pair_connect(pair);
	vector = vector_new(GET, local, pair);
	for (i = 0; i < MOST; i++)
		vector_add(vector, i * 16000, i * 16000, 15000);
	vector_prepare(vector, 3);
	pair_post_vector(pair, pair->peer, GET, pieces, vector_pieces(pair, vector, pieces), &done);
	more[0] = (pf_piece){ local, pair_there(pair, 1, pair->window), 15000000 };
	assert_int_equal(done.count, 0);
	assert_status(pf_getv(pair->peer, more, 1, pair_completed, &done), PF_ERR_AGAIN);
	pair_await_done(pair, &done, 1);
	assert_ok(done.last.status);
	vector_check(vector);
	free(vector);
	munmap(local, WINDOW);
	pair_end(pair);
}

/* Pages absent at both ends, in each other piece. */
static void test_absent(void **state)
{
	struct pair *pair = pair_open(state, .window = WINDOW, .command = pair_change);
	const unsigned count = (unsigned)quick_or(100, 400);
	enum pair_direction direction;
	unsigned i;

	for (direction = PUT; direction <= GET; direction++) {
		uint8_t *local = test_map(WINDOW);
		struct vector *vector = vector_new(direction, local, pair);

		vector->size = 2 * count * PAGE + PAGE;
		for (i = 0; i < count; i++)
			vector_add(vector, 2 * i * PAGE + 40, 2 * i * PAGE + 16, PAGE - 50);
		vector_prepare(vector, direction);
		for (i = 0; i < count; i += 2) {
			uint8_t *there = pair->window + 2 * i * PAGE;

			pair_change_side(pair, PF_SIDE_REMOTE, PAIR_DROP, there, PAGE, 0);
		}
		/* Never touched. */
		if (direction == GET) {
			munmap(local, WINDOW);
			vector->local = local = test_map(WINDOW);
		}
		assert_ok(vector_move(pair, vector).status);
		if (direction == GET) {
			for (i = 0; i < count; i++)
				assert_memory_equal(local + 2 * i * PAGE + 40,
						    pair->window + 2 * i * PAGE + 16, PAGE - 50);
		} else {
			vector_check(vector);
		}
		free(vector);
		munmap(local, WINDOW);
	}
	pair_end(pair);
}

/* A pager that gives its page only once all other pieces have arrived. */
struct waits {
	const uint8_t *arrived;
	size_t stride;
	unsigned count;
};

static int supply_last(pf_context *context, uint64_t address, void *page, size_t length, void *arg)
{
	const struct waits *waits = arg;
	unsigned i;

	(void)context;
	(void)address;
	for (i = 1; i < waits->count; i++) {
		while (load64(waits->arrived + i * waits->stride) != i)
			sched_yield();
	}
	memset(page, 0, length);
	return PF_OK;
}

/* The first piece waits for its page: all others move meanwhile. */
static void test_not_held(void **state)
{
	struct pair *pair = pair_open(state, .window = WINDOW);
	/* Between hosts less than TRANSFERS_MOST. */
	struct waits waits = { pair->window, 2 * PAGE, pair_over_net(&pair->options) ? 200 : 300 };
	uint8_t *paged = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			      0);
	uint64_t *local = test_alloc(waits.count * sizeof(*local));
	pf_piece pieces[300];
	pf_pager *pager;
	int status;
	unsigned i;

	memset(pair->window, GUARD, waits.count * waits.stride);
	for (i = 0; i < waits.count; i++) {
		local[i] = i;
		pieces[i] = (pf_piece){ i ? (void *)&local[i] : paged,
					pair_there(pair, 1, pair->window + i * waits.stride),
					sizeof(*local) };
	}
	status = pf_pager_register(pair->context, paged, PAGE, supply_last, &waits, &pager);
	if (status == PF_ERR_SYSTEM) {
		print_message("# no userfaultfd\n");
		skip();
	}
	assert_ok(status);
	assert_ok(pair_transfer_vector(pair, pair->peer, PUT, pieces, waits.count).status);
	for (i = 0; i < waits.count; i++)
		assert_int_equal(load64(pair->window + i * waits.stride), i);
	pf_pager_unregister(pager);
	free(local);
	munmap(paged, PAGE);
	pair_end(pair);
}

/* Pages bad and bad_too have no access: the first in the order of the pieces is reported. */
static void one_bad(struct pair *pair, uint8_t *local, enum pair_direction direction,
		    enum pf_side side, unsigned count, unsigned bad, unsigned bad_too)
{
	struct vector *vector = vector_new(direction, local, pair);
	uint8_t *memory = side == PF_SIDE_LOCAL ? local : pair->window;
	pf_completion completion;
	uint64_t errors = pf_stat(pair->context, PF_STAT_FAULT_ERRORS), address;
	unsigned i;

	/* Descending addresses: the order is that of the array. */
	vector->size = count * PAGE + PAGE;
	for (i = 0; i < count; i++)
		vector_add(vector, (count - i) * PAGE + 48, (count - i) * PAGE + 16, 100);
	vector_prepare(vector, bad);
	pair_change_side(pair, side, PAIR_PROTECT, memory + (count - bad) * PAGE, PAGE, PROT_NONE);
	pair_change_side(pair, side, PAIR_PROTECT, memory + (count - bad_too) * PAGE, PAGE,
			 PROT_NONE);
	completion = vector_move(pair, vector);
	pair_change_side(pair, side, PAIR_PROTECT, memory + (count - bad) * PAGE, PAGE,
			 PROT_READ | PROT_WRITE);
	pair_change_side(pair, side, PAIR_PROTECT, memory + (count - bad_too) * PAGE, PAGE,
			 PROT_READ | PROT_WRITE);
	address = remote_address(memory + (count - bad) * PAGE + (side == PF_SIDE_LOCAL ? 48 : 16));
	if (side == PF_SIDE_REMOTE)
		address = pair_there(pair, 1, (void *)(uintptr_t)address);
	if (!pair_is_fault(&completion, side, address))
		fail_msg("%s of %u pieces, %u and %u bad: %s, side %d, %lld bytes off",
			 direction == PUT ? "put" : "get", count, bad, bad_too,
			 pf_strerror(completion.status), completion.side,
			 (long long)(completion.address - address));
	assert_int_equal(pf_stat(pair->context, PF_STAT_FAULT_ERRORS), errors + 1);
	/* The pieces before the bad one were moved. */
	vector->count = bad;
	for (i = 0; i < bad; i++)
		assert_memory_equal(local + vector->offsets[i][0],
				    pair->window + vector->offsets[i][1], 100);
	vector->count = count;
	vector_verify(pair, vector, bad + 1);
	free(vector);
}

static void test_bad(void **state)
{
	static const unsigned places[][3] = { { 2, 0, 1 },       { 2, 1, 1 },
					      { 200, 0, 0 },     { 200, 71, 133 },
					      { 200, 199, 199 }, { 1024, 900, 1023 } };
	struct pair *pair = pair_open(state, .window = WINDOW, .command = pair_change);
	uint8_t *local = test_map(WINDOW);
	enum pair_direction direction;
	enum pf_side side;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(places); i++) {
		if ((places[i][0] + 1) * PAGE > WINDOW)
			continue;
		for (direction = PUT; direction <= GET; direction++) {
			for (side = PF_SIDE_LOCAL; side <= PF_SIDE_REMOTE; side++)
				one_bad(pair, local, direction, side, places[i][0], places[i][1],
					places[i][2]);
		}
	}
	munmap(local, WINDOW);
	pair_end(pair);
}

/* Pieces that share a source; and pieces that share a destination, of which one wins each byte. */
static void test_overlap(void **state)
{
	struct pair *pair = pair_open(state, .window = WINDOW);
	uint8_t *local = test_map(WINDOW);
	struct vector *vector = vector_new(PUT, local, pair);
	unsigned i;

	vector->size = MIB;
	for (i = 0; i < 100; i++)
		vector_add(vector, i, i * 1000, 900);
	vector_verify(pair, vector, 1);
	vector->count = 0;
	for (i = 0; i < 100; i++)
		vector_add(vector, i * 1000, 5000, 1000);
	for (i = 0; i < 100; i++)
		memset(local + i * 1000, (int)i, 1000);
	memset(pair->window, GUARD, MIB);
	assert_ok(vector_move(pair, vector).status);
	for (i = 0; i < MIB; i++)
		assert_true(i - 5000 < 1000 ? pair->window[i] < 100 : pair->window[i] == GUARD);
	free(vector);
	munmap(local, WINDOW);
	pair_end(pair);
}

static void test_self(void **state)
{
	struct pair *pair = pair_open(state, .window = WINDOW);
	pf_peer *self = pair_peer(pair, 0);
	uint8_t *from = test_map(MIB), *to = test_map(MIB);
	static pf_piece pieces[MOST];
	enum pair_direction direction;
	unsigned i;

	for (direction = PUT; direction <= GET; direction++) {
		pattern_fill(from, MIB, direction);
		memset(to, GUARD, MIB);
		for (i = 0; i < MOST; i++) {
			uint8_t *there = (direction == PUT ? to : from) + i * 1000;

			pieces[i] = (pf_piece){ (direction == PUT ? from : to) + i * 1000,
						remote_address(there), 999 };
		}
		assert_ok(pair_transfer_vector(pair, self, direction, pieces, MOST).status);
		for (i = 0; i < MOST; i++) {
			assert_memory_equal(from + i * 1000, to + i * 1000, 999);
			assert_int_equal(to[i * 1000 + 999], GUARD);
		}
	}
	munmap(from, MIB);
	munmap(to, MIB);
	pair_end(pair);
}

/* Many under way at the same time, mixed with single transfers. */
static void test_many(void **state)
{
	struct random_numbers numbers = random_start("many vectors");
	struct pair *pair = pair_open(state, .window = WINDOW);
	enum { VECTORS = 40, PLACE = WINDOW / VECTORS & ~4095 };
	struct vector *vectors[VECTORS];
	uint8_t *local = test_map(WINDOW);
	struct pair_done done = { 0 };
	static pf_piece pieces[MOST];
	unsigned i;

	for (i = 0; i < VECTORS; i++) {
		vectors[i] = vector_new(random_below(&numbers, 2) ? GET : PUT, local + i * PLACE,
					pair);
		vectors[i]->window += i * PLACE;
		vectors[i]->size = PLACE;
		if (i % 4)
			add_random(vectors[i], &numbers, 9000);
		else
			vector_add(vectors[i], 7, 9, random_below(&numbers, PLACE - 9));
		vector_prepare(vectors[i], i);
	}
	for (i = 0; i < VECTORS; i++)
		pair_post_vector(pair, pair->peer, vectors[i]->direction, pieces,
				 vector_pieces(pair, vectors[i], pieces), &done);
	pair_await_done(pair, &done, VECTORS);
	assert_int_equal(done.failed, 0);
	for (i = 0; i < VECTORS; i++) {
		vector_check(vectors[i]);
		free(vectors[i]);
	}
	munmap(local, WINDOW);
	pair_end(pair);
}

/* The peer dies while vectors are under way: each ends once. */
static void test_killed(void **state)
{
	struct pair *pair = pair_open(state, .window = WINDOW, .peer_event_here = pair_note_end);
	uint8_t *local = test_map(WINDOW);
	struct vector *vector = vector_new(PUT, local, pair);
	struct pair_done done = { 0 };
	static pf_piece pieces[MOST];
	unsigned i;

	pair_connect(pair);
	for (i = 0; i < MOST; i++)
		vector_add(vector, i * 15000, i * 15000, 14000);
	for (i = 0; i < 10; i++) {
		vector->direction = i % 2 ? GET : PUT;
		pair_post_vector(pair, pair->peer, vector->direction, pieces,
				 vector_pieces(pair, vector, pieces), &done);
		pf_progress(pair->context);
	}
	pair_kill(pair, 1);
	pair_await_done(pair, &done, 10);
	assert_true(done.failed > 0);
	assert_true(done.failure.status == PF_ERR_PEER || done.failure.status == PF_ERR_TIMEOUT);
	vector_pieces(pair, vector, pieces);
	assert_true(pf_putv(pair->peer, pieces, MOST, 0, pair_completed, &done) < 0);
	pair_linger(pair);
	assert_int_equal(done.count, 10);
	free(vector);
	munmap(local, WINDOW);
	pair_end(pair);
}

#define IN_ALL(test)                                                                               \
	IN_MODE(test, DEFAULT), IN_MODE(test, STREAM), IN_MODE(test, SMALL_RING_STREAM),           \
		IN_MODE(test, SHORT_RUNS), IN_MODE(test, THREADS)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_ALL(test_columns),
		IN_ALL(test_random),
		IN_MODE(test_random, SMALL_BLOCKS),
		IN_MODE(test_limits, DEFAULT),
		IN_MODE(test_operations_max, DEFAULT),
		IN_MODE(test_operations_max, STREAM),
		IN_MODE_UNLESS(threads, test_absent, DEFAULT),
		IN_MODE_UNLESS(threads, test_absent, STREAM),
		IN_MODE_UNLESS(threads, test_absent, SHORT_RUNS),
		IN_MODE(test_not_held, DEFAULT),
		IN_MODE(test_not_held, STREAM),
		IN_MODE_UNLESS(threads, test_bad, DEFAULT),
		IN_MODE_UNLESS(threads, test_bad, STREAM),
		IN_MODE_UNLESS(threads, test_bad, SHORT_RUNS),
		IN_ALL(test_overlap),
		IN_MODE(test_self, DEFAULT),
		IN_MODE(test_self, STREAM),
		IN_ALL(test_many),
		IN_MODE_UNLESS(threads, test_killed, DEFAULT),
		IN_MODE_UNLESS(threads, test_killed, STREAM),
	};

	return pair_run_tests("vector", tests);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pages that cannot be made accessible, on either side: the transfer ends with PF_ERR_FAULT and
 * names the side and such an address, nothing outside the destination changes, and both
 * processes go on.
 */
#include "page.h"
#include "pair.h"

#include <unistd.h>

#define LOCAL_LENGTH (4 * MIB)
#define WINDOW (8 * MIB)
#define GUARD 0xe7
#define AROUND 100000

struct sides {
	struct pair *pair;
	uint8_t *local;  /* LOCAL_LENGTH bytes */
	uint8_t *window; /* WINDOW bytes, the partner's memory */
	size_t length;   /* of the mode's transfers */
};

static struct sides open_sides(void **state)
{
	/* MODE_SHORT: less than share_min, so that one side copies. */
	size_t length = pair_mode(state) == MODE_SHORT ? 20000 : 1000000;
	struct pair *pair = pair_open(state, .window = WINDOW, .command = pair_change);

	/* From here on the library maps nothing: holes stay holes. */
	pair_connect(pair);
	return (struct sides){ pair, test_map(LOCAL_LENGTH), pair->window, length };
}

static void close_sides(struct sides *sides)
{
	munmap(sides->local, LOCAL_LENGTH);
	pair_end(sides->pair);
}

static pf_completion transfer(struct sides *sides, enum pair_direction direction, void *local,
			      const void *remote, size_t length)
{
	return pair_transfer(sides->pair, sides->pair->peer, direction, local,
			     remote_address(remote), length);
}

static void check_alive(struct sides *sides, uint8_t *local, uint8_t *remote, size_t length)
{
	pair_exchange(sides->pair, 1, local, remote, length, 11);
}

/* A destination of length bytes in [start, end). All else of it is filled with GUARD. */
struct destination {
	uint8_t *start, *to, *end;
	size_t length;
};

static void fill_guard(const struct destination *destination)
{
	memset(destination->start, GUARD, (size_t)(destination->end - destination->start));
	memset(destination->to, 0, destination->length);
}

static bool all_guard(const uint8_t *from, const uint8_t *to)
{
	/* Each byte equals the next one. */
	return from == to || (*from == GUARD && !memcmp(from, from + 1, (size_t)(to - from) - 1));
}

static void check_guard(const struct destination *destination)
{
	assert_true(all_guard(destination->start, destination->to));
	assert_true(all_guard(destination->to + destination->length, destination->end));
}

/*
 * Make pages of the buffer on one side inaccessible from offset at on, transfer, check the error,
 * make them accessible, transfer again.
 */
static void one_fault(struct sides *sides, enum pair_direction direction, enum pf_side side,
		      size_t length, size_t at, size_t pages, int protection)
{
	struct pair *pair = sides->pair;
	/* The good buffer is not on a page boundary. */
	uint8_t *local = sides->local + PAGE + (side == PF_SIDE_LOCAL ? 0 : 72);
	uint8_t *remote = sides->window + PAGE + (side == PF_SIDE_REMOTE ? 0 : 24);
	uint8_t *bad = (side == PF_SIDE_LOCAL ? local : remote) + at;
	uint8_t *to = direction == PUT ? remote : local;
	const struct destination destination = { direction == PUT ? sides->window : sides->local,
						 to, to + length + AROUND, length };
	pf_completion completion;
	uint64_t errors = pf_stat(pair->context, PF_STAT_FAULT_ERRORS);

	fill_guard(&destination);
	pair_change_side(pair, side, PAIR_PROTECT, bad, pages * PAGE, protection);
	completion = transfer(sides, direction, local, remote, length);
	pair_change_side(pair, side, PAIR_PROTECT, bad, pages * PAGE, PROT_READ | PROT_WRITE);
	if (!pair_is_fault(&completion, side, remote_address(bad)))
		fail_msg("%s of %zu bytes, %zu pages inaccessible from %zu",
			 direction == PUT ? "put" : "get", length, pages, at);
	assert_int_equal(pf_stat(pair->context, PF_STAT_FAULT_ERRORS), errors + 1);
	check_guard(&destination);
	check_alive(sides, local, remote, length);
}

static void each_place(struct sides *sides, enum pair_direction direction, enum pf_side side,
		       int protection)
{
	const size_t length = sides->length, last = (length - 1) / PAGE, middle = last / 2;
	const struct {
		size_t length, page, pages;
	} places[] = {
		{ 8, 0, 1 },         { length, 0, 1 },      { length, 0, last + 1 },
		{ length, 1, 1 },    { length, middle, 1 }, { length, middle, middle },
		{ length, last, 1 },
	};
	size_t i;

	/* Where pages are large, a short transfer has no middle. */
	for (i = 0; i < ARRAY_SIZE(places); i++) {
		if (!places[i].pages)
			continue;
		one_fault(sides, direction, side, places[i].length, places[i].page * PAGE,
			  places[i].pages, protection);
	}
}

static void test_no_access(void **state)
{
	struct sides sides = open_sides(state);

	each_place(&sides, PUT, PF_SIDE_REMOTE, PROT_NONE);
	each_place(&sides, GET, PF_SIDE_REMOTE, PROT_NONE);
	each_place(&sides, PUT, PF_SIDE_LOCAL, PROT_NONE);
	each_place(&sides, GET, PF_SIDE_LOCAL, PROT_NONE);
	close_sides(&sides);
}

/* A destination may not be read-only, a source may. */
static void test_read_only(void **state)
{
	struct sides sides = open_sides(state);
	struct pair *pair = sides.pair;
	uint8_t *remote = sides.window + PAGE, *local = sides.local + PAGE;
	const size_t length = sides.length;

	each_place(&sides, PUT, PF_SIDE_REMOTE, PROT_READ);
	each_place(&sides, GET, PF_SIDE_LOCAL, PROT_READ);
	pattern_fill(local, length, 1);
	pair_change_side(pair, PF_SIDE_LOCAL, PAIR_PROTECT, local, length, PROT_READ);
	assert_ok(transfer(&sides, PUT, local, remote, length).status);
	pair_check_pattern(pair, remote, length, 1);
	pair_change_side(pair, PF_SIDE_LOCAL, PAIR_PROTECT, local, length, PROT_READ | PROT_WRITE);
	pattern_fill(remote, length, 2);
	pair_change_side(pair, PF_SIDE_REMOTE, PAIR_PROTECT, remote, length, PROT_READ);
	assert_ok(transfer(&sides, GET, local, remote, length).status);
	pair_check_pattern(pair, local, length, 2);
	close_sides(&sides);
}

/* A buffer may end where memory ends; one byte more is an error. */
static void test_end_of_memory(void **state)
{
	struct sides sides = open_sides(state);
	const size_t length = sides.length;
	size_t margin = length / PAGE * PAGE + 2 * PAGE, spare;
	uint8_t *local_end = sides.local + margin, *remote_end = sides.window + margin;
	uint8_t *local = local_end - length, *remote = remote_end - length;
	enum pair_direction direction;
	pf_completion completion;

	pair_change_side(sides.pair, PF_SIDE_LOCAL, PAIR_UNMAP, local_end, PAGE, 0);
	pair_change_side(sides.pair, PF_SIDE_REMOTE, PAIR_UNMAP, remote_end, PAGE, 0);
	check_alive(&sides, local, remote, length);
	check_alive(&sides, local_end - 1, remote_end - 1, 1);
	check_alive(&sides, local_end - PAGE, remote_end - PAGE, PAGE);
	for (spare = 1; spare < 10000; spare *= 7) {
		for (direction = PUT; direction <= GET; direction++) {
			completion = transfer(&sides, direction, local, remote + spare, length);
			assert_fault(completion, PF_SIDE_REMOTE, remote_address(remote_end));
			completion = transfer(&sides, direction, local + spare, remote, length);
			assert_fault(completion, PF_SIDE_LOCAL, remote_address(local_end));
		}
	}
	check_alive(&sides, local, remote, length);
	close_sides(&sides);
}

/* Addresses that no process ever has. */
static void test_nowhere(void **state)
{
	static const uint64_t addresses[] = { 0, 8, 0x7fffffffffff, 1ull << 54,
					      UINT64_MAX - 100000000 };
	struct sides sides = open_sides(state);
	const size_t lengths[] = { 1, 8, sides.length };
	enum pair_direction direction;
	pf_completion completion;
	size_t i, length;

	for (i = 0; i < ARRAY_SIZE(addresses) * ARRAY_SIZE(lengths); i++) {
		uint64_t bad = addresses[i / ARRAY_SIZE(lengths)];
		void *nothing = (void *)(uintptr_t)bad;

		length = lengths[i % ARRAY_SIZE(lengths)];
		for (direction = PUT; direction <= GET; direction++) {
			completion = transfer(&sides, direction, sides.local, nothing, length);
			assert_fault(completion, PF_SIDE_REMOTE, bad);
			completion = transfer(&sides, direction, nothing, sides.window, length);
			assert_fault(completion, PF_SIDE_LOCAL, bad);
		}
	}
	check_alive(&sides, sides.local, sides.window, sides.length);
	close_sides(&sides);
}

/* Pages behind the end of a file, where a load raises SIGBUS. */
static void test_end_of_file(void **state)
{
	struct sides sides = open_sides(state);
	int fd = memfd_create("test", MFD_CLOEXEC);
	/* The transfer ends behind the last page of the file, whatever the page size. */
	const size_t before = sides.length / 2, end = (before / PAGE + 1) * PAGE;
	uint8_t *file;
	enum pair_direction direction;
	pf_completion completion;

	assert_int_equal(ftruncate(fd, (off_t)(end - PAGE + 5)), 0);
	file = mmap(NULL, LOCAL_LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(file, MAP_FAILED);
	for (direction = PUT; direction <= GET; direction++) {
		completion = transfer(&sides, direction, file + end - before, sides.window,
				      sides.length);
		assert_fault(completion, PF_SIDE_LOCAL, remote_address(file + end));
	}
	munmap(file, LOCAL_LENGTH);
	close(fd);
	close_sides(&sides);
}

/* One transfer of many fails; the others do not. */
static void test_among_others(void **state)
{
	struct sides sides = open_sides(state);
	struct pair *pair = sides.pair;
	/* In each stride, the second PAGE_MOST bytes begin with a page that only one transfer uses. */
	const size_t each = 100000, stride = 2 * PAGE_MOST + PAGE;
	struct pair_done good = { 0 }, bad = { 0 };
	uint8_t *hole = sides.window + 7 * stride + PAGE_MOST;
	unsigned i;

	pattern_fill(sides.local, LOCAL_LENGTH, 5);
	memset(sides.window, 0, LOCAL_LENGTH);
	pair_change_side(pair, PF_SIDE_REMOTE, PAIR_PROTECT, hole, PAGE, PROT_NONE);
	for (i = 0; i < 20; i++)
		pair_post(pair, pair->peer, PUT, sides.local + i * stride,
			  remote_address(sides.window + i * stride), each, i == 7 ? &bad : &good);
	pair_await_done(pair, &bad, 1);
	pair_await_done(pair, &good, 19);
	assert_int_equal(good.failed, 0);
	assert_fault(bad.last, PF_SIDE_REMOTE, remote_address(hole));
	for (i = 0; i < 20; i++) {
		if (i != 7)
			assert_memory_equal(sides.window + i * stride, sides.local + i * stride,
					    each);
	}
	close_sides(&sides);
}

/* Pages that were never touched are not errors, whatever page size the kernel chooses. */
static void test_untouched(void **state)
{
	struct sides sides = open_sides(state);
	const size_t length = sides.length;
	uint8_t *fresh = test_map(4 * LOCAL_LENGTH), *zeros = test_alloc(length);

	pattern_fill(sides.window, length, 3);
	assert_ok(transfer(&sides, GET, fresh, sides.window, length).status);
	pair_check_pattern(sides.pair, fresh, length, 3);
	assert_ok(transfer(&sides, PUT, fresh + LOCAL_LENGTH, sides.window, length).status);
	assert_memory_equal(sides.window, zeros, length);
	free(zeros);
	munmap(fresh, 4 * LOCAL_LENGTH);
	close_sides(&sides);
}

static void test_atomics(void **state)
{
	static const uint64_t addresses[] = { 0,          4096,           0x7ffffffffff8,
					      1ull << 54, UINT64_MAX - 7, UINT64_MAX - 4095 };
	struct sides sides = open_sides(state);
	struct pair *pair = sides.pair;
	uint64_t *target = (uint64_t *)(sides.window + PAGE);
	pf_completion completion;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(addresses); i++) {
		completion = pair_atomic(pair, pair->peer, PF_ATOMIC_ADD, 8, addresses[i], 1, 0);
		assert_fault(completion, PF_SIDE_REMOTE, addresses[i]);
	}
	*target = 5;
	pair_change_side(pair, PF_SIDE_REMOTE, PAIR_PROTECT, target, PAGE, PROT_READ);
	completion = pair_atomic(pair, pair->peer, PF_ATOMIC_ADD, 8, remote_address(target), 1, 0);
	assert_fault(completion, PF_SIDE_REMOTE, remote_address(target));
	assert_int_equal(*target, 5);
	pair_change_side(pair, PF_SIDE_REMOTE, PAIR_PROTECT, target, PAGE, PROT_READ | PROT_WRITE);
	completion = pair_atomic(pair, pair->peer, PF_ATOMIC_ADD, 8, remote_address(target), 1, 0);
	assert_ok(completion.status);
	assert_int_equal(completion.value, 5);
	assert_int_equal(*target, 6);
	close_sides(&sides);
}

#define IN_ALL(test)                                                                               \
	IN_MODE(test, SHORT), IN_MODE(test, DEFAULT), IN_MODE(test, ALONE), IN_MODE(test, STREAM), \
		IN_MODE(test, SMALL_RING_STREAM), IN_MODE(test, THREADS)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_ALL(test_no_access),         IN_ALL(test_read_only),
		IN_ALL(test_end_of_memory),     IN_ALL(test_nowhere),
		IN_ALL(test_end_of_file),       IN_ALL(test_among_others),
		IN_ALL(test_untouched),         IN_MODE(test_atomics, SHORT),
		IN_MODE(test_atomics, THREADS),
	};

	return pair_run_tests("fault", tests);
}

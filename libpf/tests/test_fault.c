/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Addresses that cannot be had, on either side: the transfer ends with
 * PF_ERR_FAULT and names the side and the first such address, nothing outside
 * the destination changes, and both processes go on.
 */
#include "pair.h"

#include <sys/mman.h>
#include <unistd.h>

#define PAGE ((size_t)4096)
#define LOCAL_LENGTH (4ul << 20)
#define WINDOW (8ul << 20)
#define GUARD 0xe7
#define AROUND 100000

enum mode { MODE_SHORT, MODE_SHARED, MODE_ALONE, MODE_STREAM, MODE_SMALL_RING, MODE_THREADS };

/* How long the buffers of a mode are, so that its way is the one taken. */
static size_t length_of(enum mode mode)
{
	return mode == MODE_SHORT ? 20000 : 1000000;
}

static pf_options options_of(enum mode mode)
{
	pf_options options = pair_options();

	switch (mode) {
	case MODE_ALONE:
		options.share_min = UINT64_MAX;
		break;
	case MODE_STREAM:
		options.single_copy = 0;
		break;
	case MODE_SMALL_RING:
		options.single_copy = 0;
		options.ring_size = 16384;
		break;
	case MODE_THREADS:
		options.threads = 1;
		break;
	default:
		break;
	}
	return options;
}

/* What the test asks its partner to do with its own mapping of the window. */
enum { PROTECT = 1, UNMAP, MAP };

static void change(int what, uint64_t address, uint64_t length, int protection)
{
	void *start = (void *)(uintptr_t)address;

	if (what == UNMAP)
		munmap(start, length);
	else
		mprotect(start, length, protection);
}

static void serve_changes(struct pair *me)
{
	unsigned done = 0;

	while (pair_progress(me)) {
		if (atomic_load(pair_value(me, 0, 0)) == done)
			continue;
		change((int)atomic_load(pair_value(me, 0, 1)), atomic_load(pair_value(me, 0, 2)),
		       atomic_load(pair_value(me, 0, 3)), (int)atomic_load(pair_value(me, 0, 4)));
		pair_say(me, ++done);
	}
}

struct sides {
	struct pair *pair;
	uint8_t *local; /* LOCAL_LENGTH bytes */
	unsigned changes;
	enum mode mode;
};

static struct sides open_sides(void **state)
{
	struct sides sides = { .mode = (enum mode)(uintptr_t)*state };
	struct pair_setup setup = {
		.here = options_of(sides.mode),
		.there = options_of(sides.mode),
		.window = WINDOW,
		.partner = serve_changes,
	};

	sides.pair = pair_start(&setup);
	sides.local = mmap(NULL, LOCAL_LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			   -1, 0);
	assert_ptr_not_equal(sides.local, MAP_FAILED);
	/* Both have mapped now what they ever will: holes stay holes. */
	assert_int_equal(pair_put(sides.pair, sides.pair->peer, sides.local,
				  remote_address(sides.pair->window), 8)
				 .status,
			 PF_OK);
	assert_int_equal(pair_atomic(sides.pair, sides.pair->peer, PF_ADD, 8,
				     remote_address(sides.pair->window), 1, 0)
				 .status,
			 PF_OK);
	return sides;
}

static void close_sides(struct sides *sides)
{
	munmap(sides->local, LOCAL_LENGTH);
	pair_end(sides->pair);
}

static void change_remote(struct sides *sides, int what, const void *start, size_t length,
			  int protection)
{
	struct pair *pair = sides->pair;

	atomic_store(pair_value(pair, 0, 1), (uint64_t)what);
	atomic_store(pair_value(pair, 0, 2), remote_address(start));
	atomic_store(pair_value(pair, 0, 3), length);
	atomic_store(pair_value(pair, 0, 4), (uint64_t)protection);
	atomic_store(pair_value(pair, 0, 0), ++sides->changes);
	pair_await(pair, 1, sides->changes);
}

static void change_side(struct sides *sides, enum pf_side side, int what, const void *start,
			size_t length, int protection)
{
	if (side == PF_SIDE_REMOTE)
		change_remote(sides, what, start, length, protection);
	else
		change(what, remote_address(start), length, protection);
}

/* A destination of length bytes at to, in memory that ends at end: all around it is guard. */
static void guard(uint8_t *start, uint8_t *to, size_t length, uint8_t *end)
{
	memset(start, GUARD, (size_t)(to - start));
	memset(to, 0, length);
	memset(to + length, GUARD, (size_t)(end - to) - length);
}

static bool all_guard(const uint8_t *from, const uint8_t *to)
{
	/* Each equals the next one. */
	return from == to || (*from == GUARD && !memcmp(from, from + 1, (size_t)(to - from) - 1));
}

static void check_guard(const uint8_t *start, const uint8_t *to, size_t length, const uint8_t *end)
{
	assert_true(all_guard(start, to));
	assert_true(all_guard(to + length, end));
}

static pf_completion transfer(struct sides *sides, bool put, uint8_t *local, uint8_t *remote,
			      size_t length)
{
	return put ? pair_put(sides->pair, sides->pair->peer, local, remote_address(remote),
			      length) :
		     pair_get(sides->pair, sides->pair->peer, local, remote_address(remote),
			      length);
}

/* Everything works, from and to the same addresses. */
static void check_alive(struct sides *sides, uint8_t *local, uint8_t *remote, size_t length)
{
	pattern_fill(local, length, 11);
	assert_int_equal(transfer(sides, true, local, remote, length).status, PF_OK);
	assert_int_equal(pattern_differs(remote, length, 11), length);
	pattern_fill(remote, length, 12);
	assert_int_equal(transfer(sides, false, local, remote, length).status, PF_OK);
	assert_int_equal(pattern_differs(local, length, 12), length);
}

/*
 * Make [at, at + pages) of the buffer on one side bad, transfer, look at the
 * error, make it good, transfer again.
 */
static void one_fault(struct sides *sides, bool put, enum pf_side side, size_t length, size_t at,
		      size_t pages, int protection)
{
	uint8_t *window = sides->pair->window + PAGE;
	/* Not on a page boundary, and not the same offset on both sides. */
	uint8_t *local = sides->local + PAGE + (side == PF_SIDE_LOCAL ? 0 : 72);
	uint8_t *remote = window + (side == PF_SIDE_REMOTE ? 0 : 24);
	uint8_t *bad = (side == PF_SIDE_LOCAL ? local : remote) + at;
	uint8_t *local_end = local + length + AROUND, *remote_end = remote + length + AROUND;
	pf_completion completion;
	uint64_t errors = pf_stat(sides->pair->context, PF_STAT_FAULT_ERRORS);

	if (put)
		guard(sides->pair->window, remote, length, remote_end);
	else
		guard(sides->local, local, length, local_end);
	change_side(sides, side, PROTECT, bad, pages * PAGE, protection);
	completion = transfer(sides, put, local, remote, length);
	change_side(sides, side, PROTECT, bad, pages * PAGE, PROT_READ | PROT_WRITE);

	assert_int_equal(completion.status, PF_ERR_FAULT);
	assert_int_equal(completion.side, side);
	if (completion.address != remote_address(bad))
		fail_msg("%s of %zu, bad at %zu: %td is reported", put ? "put" : "get", length, at,
			 (ptrdiff_t)(completion.address - remote_address(bad)) + (ptrdiff_t)at);
	assert_int_equal(pf_stat(sides->pair->context, PF_STAT_FAULT_ERRORS), errors + 1);
	if (put)
		check_guard(sides->pair->window, remote, length, remote_end);
	else
		check_guard(sides->local, local, length, local_end);
	check_alive(sides, local, remote, length);
}

static void each_place(struct sides *sides, bool put, enum pf_side side, int protection)
{
	size_t length = length_of(sides->mode), last = (length - 1) / PAGE;

	one_fault(sides, put, side, 8, 0, 1, protection);
	one_fault(sides, put, side, length, 0, 1, protection);
	one_fault(sides, put, side, length, 0, last + 1, protection);
	one_fault(sides, put, side, length, PAGE, 1, protection);
	one_fault(sides, put, side, length, last / 2 * PAGE, 1, protection);
	one_fault(sides, put, side, length, last / 2 * PAGE, last / 2, protection);
	one_fault(sides, put, side, length, last * PAGE, 1, protection);
}

static void test_no_access(void **state)
{
	struct sides sides = open_sides(state);

	each_place(&sides, true, PF_SIDE_REMOTE, PROT_NONE);
	each_place(&sides, false, PF_SIDE_REMOTE, PROT_NONE);
	each_place(&sides, true, PF_SIDE_LOCAL, PROT_NONE);
	each_place(&sides, false, PF_SIDE_LOCAL, PROT_NONE);
	close_sides(&sides);
}

static void test_read_only(void **state)
{
	struct sides sides = open_sides(state);
	uint8_t *remote = sides.pair->window + PAGE, *local = sides.local + PAGE;
	size_t length = length_of(sides.mode);

	each_place(&sides, true, PF_SIDE_REMOTE, PROT_READ);
	each_place(&sides, false, PF_SIDE_LOCAL, PROT_READ);
	/* A source may be read only. */
	pattern_fill(local, length, 1);
	change_side(&sides, PF_SIDE_LOCAL, PROTECT, local, length, PROT_READ);
	assert_int_equal(transfer(&sides, true, local, remote, length).status, PF_OK);
	assert_int_equal(pattern_differs(remote, length, 1), length);
	change_side(&sides, PF_SIDE_LOCAL, PROTECT, local, length, PROT_READ | PROT_WRITE);
	pattern_fill(remote, length, 2);
	change_side(&sides, PF_SIDE_REMOTE, PROTECT, remote, length, PROT_READ);
	assert_int_equal(transfer(&sides, false, local, remote, length).status, PF_OK);
	assert_int_equal(pattern_differs(local, length, 2), length);
	close_sides(&sides);
}

/* A buffer may end where memory ends; one byte more is one too many. */
static void test_end_of_memory(void **state)
{
	struct sides sides = open_sides(state);
	size_t length = length_of(sides.mode), margin = length / PAGE * PAGE + 2 * PAGE;
	uint8_t *local_end = sides.local + margin, *remote_end = sides.pair->window + margin;
	pf_completion completion;
	size_t spare, put;

	change_side(&sides, PF_SIDE_LOCAL, UNMAP, local_end, PAGE, 0);
	change_side(&sides, PF_SIDE_REMOTE, UNMAP, remote_end, PAGE, 0);
	check_alive(&sides, local_end - length, remote_end - length, length);
	check_alive(&sides, local_end - 1, remote_end - 1, 1);
	check_alive(&sides, local_end - 4096, remote_end - 4096, 4096);
	for (spare = 1; spare < 10000; spare *= 7) {
		for (put = 0; put < 2; put++) {
			completion = transfer(&sides, put, local_end - length,
					      remote_end - length + spare, length);
			assert_int_equal(completion.status, PF_ERR_FAULT);
			assert_int_equal(completion.side, PF_SIDE_REMOTE);
			assert_true(completion.address == remote_address(remote_end));
			completion = transfer(&sides, put, local_end - length + spare,
					      remote_end - length, length);
			assert_int_equal(completion.status, PF_ERR_FAULT);
			assert_int_equal(completion.side, PF_SIDE_LOCAL);
			assert_true(completion.address == remote_address(local_end));
		}
	}
	check_alive(&sides, local_end - length, remote_end - length, length);
	close_sides(&sides);
}

/* Addresses that no process ever has. */
static void test_nowhere(void **state)
{
	static const uint64_t nowhere[] = { 0, 8, 0x7fffffffffff, 1ull << 63,
					    UINT64_MAX - 100000000 };
	struct sides sides = open_sides(state);
	uint8_t *local = sides.local, *remote = sides.pair->window;
	const size_t lengths[] = { 1, 8, length_of(sides.mode) };
	size_t i, j;
	int put;

	for (i = 0; i < sizeof(nowhere) / sizeof(nowhere[0]); i++) {
		for (j = 0; j < sizeof(lengths) / sizeof(lengths[0]); j++) {
			for (put = 0; put < 2; put++) {
				uint8_t *bad = (uint8_t *)(uintptr_t)nowhere[i];
				pf_completion completion;

				completion = transfer(&sides, put, local, bad, lengths[j]);
				assert_int_equal(completion.status, PF_ERR_FAULT);
				assert_int_equal(completion.side, PF_SIDE_REMOTE);
				assert_true(completion.address == nowhere[i]);
				completion = transfer(&sides, put, bad, remote, lengths[j]);
				assert_int_equal(completion.status, PF_ERR_FAULT);
				assert_int_equal(completion.side, PF_SIDE_LOCAL);
				assert_true(completion.address == nowhere[i]);
			}
		}
	}
	check_alive(&sides, local, remote, length_of(sides.mode));
	close_sides(&sides);
}

/* Behind the end of a file, where a load would be a SIGBUS. */
static void test_end_of_file(void **state)
{
	struct sides sides = open_sides(state);
	size_t length = length_of(sides.mode);
	int fd = memfd_create("test", MFD_CLOEXEC);
	uint8_t *file;
	pf_completion completion;
	int put;

	assert_int_equal(ftruncate(fd, 3 * PAGE + 5), 0);
	file = mmap(NULL, LOCAL_LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(file, MAP_FAILED);
	for (put = 0; put < 2; put++) {
		completion = transfer(&sides, put, file, sides.pair->window, length);
		assert_int_equal(completion.status, PF_ERR_FAULT);
		assert_int_equal(completion.side, PF_SIDE_LOCAL);
		assert_true(completion.address == remote_address(file + 4 * PAGE));
	}
	munmap(file, LOCAL_LENGTH);
	close(fd);
	close_sides(&sides);
}

/* One that fails leaves those before, beside and behind it alone. */
static void test_among_others(void **state)
{
	struct sides sides = open_sides(state);
	const size_t length = 100000, stride = 25 * PAGE + 4 * PAGE;
	struct pair_done good = { 0 }, bad = { 0 };
	uint8_t *hole = sides.pair->window + 7 * stride + 12 * PAGE;
	unsigned i, finished = 0;

	pattern_fill(sides.local, LOCAL_LENGTH, 5);
	memset(sides.pair->window, 0, LOCAL_LENGTH);
	change_remote(&sides, PROTECT, hole, PAGE, PROT_NONE);
	for (i = 0; i < 20; i++) {
		int status = pf_put(sides.pair->peer, sides.local + i * stride,
				    remote_address(sides.pair->window + i * stride), length,
				    pair_completed, i == 7 ? &bad : &good);

		assert_in_range(status, PF_OK, PF_DONE);
		finished += status == PF_DONE;
	}
	pair_await_done(sides.pair, &bad, 1);
	pair_await_done(sides.pair, &good, 19 - finished);
	assert_int_equal(good.failed, 0);
	assert_int_equal(bad.last.status, PF_ERR_FAULT);
	assert_true(bad.last.address == remote_address(hole));
	for (i = 0; i < 20; i++) {
		if (i != 7)
			assert_memory_equal(sides.pair->window + i * stride,
					    sides.local + i * stride, length);
	}
	change_remote(&sides, PROTECT, hole, PAGE, PROT_READ | PROT_WRITE);
	close_sides(&sides);
}

/* Pages that were never touched are not errors, whichever page sizes the kernel picks. */
static void test_untouched(void **state)
{
	struct sides sides = open_sides(state);
	size_t length = length_of(sides.mode);
	uint8_t *fresh = mmap(NULL, 4 * LOCAL_LENGTH, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint8_t *zeros = calloc(1, length);

	assert_non_null(zeros);
	assert_ptr_not_equal(fresh, MAP_FAILED);
	pattern_fill(sides.pair->window, length, 3);
	assert_int_equal(transfer(&sides, false, fresh, sides.pair->window, length).status, PF_OK);
	assert_int_equal(pattern_differs(fresh, length, 3), length);
	assert_int_equal(
		transfer(&sides, true, fresh + LOCAL_LENGTH, sides.pair->window, length).status,
		PF_OK);
	assert_memory_equal(sides.pair->window, zeros, length);
	free(zeros);
	munmap(fresh, 4 * LOCAL_LENGTH);
	close_sides(&sides);
}

static void test_atomics(void **state)
{
	static const uint64_t nowhere[] = { 0,          4096,           0x7ffffffffff8,
					    1ull << 63, UINT64_MAX - 7, UINT64_MAX - 4095 };
	struct sides sides = open_sides(state);
	struct pair *pair = sides.pair;
	uint64_t *target = (uint64_t *)(pair->window + PAGE);
	pf_completion completion;
	size_t i;

	for (i = 0; i < sizeof(nowhere) / sizeof(nowhere[0]); i++) {
		completion = pair_atomic(pair, pair->peer, PF_ADD, 8, nowhere[i], 1, 0);
		assert_int_equal(completion.status, PF_ERR_FAULT);
		assert_int_equal(completion.side, PF_SIDE_REMOTE);
		assert_true(completion.address == nowhere[i]);
	}
	*target = 5;
	change_remote(&sides, PROTECT, target, PAGE, PROT_READ);
	completion = pair_atomic(pair, pair->peer, PF_ADD, 8, remote_address(target), 1, 0);
	assert_int_equal(completion.status, PF_ERR_FAULT);
	assert_true(completion.address == remote_address(target));
	assert_int_equal(*target, 5);
	change_remote(&sides, PROTECT, target, PAGE, PROT_READ | PROT_WRITE);
	completion = pair_atomic(pair, pair->peer, PF_ADD, 8, remote_address(target), 1, 0);
	assert_int_equal(completion.status, PF_OK);
	assert_int_equal(completion.value, 5);
	assert_int_equal(*target, 6);
	close_sides(&sides);
}

#define IN_MODE(test, mode)                                                                        \
	{                                                                                          \
#test " " #mode, test, NULL, pair_teardown, (void *)(uintptr_t)MODE_##mode         \
	}
#define IN_ALL(test)                                                                               \
	IN_MODE(test, SHORT), IN_MODE(test, SHARED), IN_MODE(test, ALONE), IN_MODE(test, STREAM),  \
		IN_MODE(test, SMALL_RING), IN_MODE(test, THREADS)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_ALL(test_no_access),         IN_ALL(test_read_only),
		IN_ALL(test_end_of_memory),     IN_ALL(test_nowhere),
		IN_ALL(test_end_of_file),       IN_ALL(test_among_others),
		IN_ALL(test_untouched),         IN_MODE(test_atomics, SHORT),
		IN_MODE(test_atomics, THREADS),
	};

	return cmocka_run_group_tests_name("fault", tests, NULL, NULL);
}

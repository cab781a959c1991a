/* SPDX-License-Identifier: BSD-3-Clause */
/* Access to this process's memory through the kernel: by system calls, or by a file if they are refused. */
#include "page.h"
#include "unit.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include "memory/access.h"

#define PAGES 200
#define HOLE 150 /* the inaccessible page */

static uint8_t *memory;
static struct access access_;

static int begin(void **state)
{
	access_open(&access_);
	access_.refused = *state != NULL;
	memory = test_map(PAGES * PAGE);
	return mprotect(memory + HOLE * PAGE, PAGE, PROT_NONE);
}

static int end(void **state)
{
	access_close(&access_);
	return munmap(memory, PAGES * PAGE);
}

static uint64_t at(size_t offset)
{
	return (uint64_t)(uintptr_t)memory + offset;
}

static void test_copies(void **state)
{
	static const size_t lengths[] = { 1, 8, 4095, 4097, 65536, 5 };
	static uint8_t bytes[65536], back[65536];
	uint64_t bad = 0;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(lengths); i++) {
		pattern_fill(bytes, lengths[i], i);
		assert_ok(access_write(&access_, at(i * 77), bytes, lengths[i], &bad));
		assert_pattern(memory + i * 77, lengths[i], i);
		assert_ok(access_read(&access_, at(i * 77), back, lengths[i], &bad));
		assert_pattern(back, lengths[i], i);
	}
}

/* Bytes before the inaccessible page are written. */
static void test_faults(void **state)
{
	static uint8_t bytes[3 * PAGE_MOST];
	uint64_t bad = 0, hole = at(HOLE * PAGE);

	pattern_fill(bytes, 3 * PAGE, 9);
	assert_status(access_write(&access_, hole - 100, bytes, 200, &bad), PF_ERR_FAULT);
	assert_true(bad == hole);
	assert_pattern(memory + HOLE * PAGE - 100, 100, 9);
	assert_status(access_read(&access_, hole - PAGE - 7, bytes, 3 * PAGE, &bad), PF_ERR_FAULT);
	assert_true(bad == hole);
	assert_status(access_read(&access_, hole + 5, bytes, 8, &bad), PF_ERR_FAULT);
	assert_true(bad == hole + 5);
	assert_status(access_write(&access_, 0, bytes, 8, &bad), PF_ERR_FAULT);
	assert_true(!bad);
	/* A read-only page. */
	assert_int_equal(mprotect(memory, PAGE, PROT_READ), 0);
	assert_status(access_write(&access_, at(8), bytes, 8, &bad), PF_ERR_FAULT);
	assert_true(bad == at(8));
	assert_ok(access_read(&access_, at(8), bytes, 8, &bad));
	assert_int_equal(mprotect(memory, PAGE, PROT_READ | PROT_WRITE), 0);
}

static void test_looks(void **state)
{
	uint64_t bad = 0, hole = at(HOLE * PAGE);

	assert_ok(access_look(&access_, at(3), HOLE * PAGE - 3, &bad));
	assert_ok(access_look(&access_, at(HOLE * PAGE - 1), 1, &bad));
	assert_status(access_look(&access_, at(3), PAGES * PAGE - 3, &bad), PF_ERR_FAULT);
	assert_true(bad == hole);
	assert_status(access_look(&access_, hole - 1, 2, &bad), PF_ERR_FAULT);
	assert_true(bad == hole);
	assert_status(access_look(&access_, hole + 9, 2, &bad), PF_ERR_FAULT);
	assert_true(bad == hole + 9);
	assert_ok(access_look(&access_, hole + PAGE, 2 * PAGE, &bad));
}

/* Pieces in any order, more than one system call accepts; all or none. */
static void test_gathers(void **state)
{
	static uint8_t bytes[3000 * 4], expected[sizeof(bytes)];
	static struct iovec from[3000];
	size_t i, length = 0;

	for (i = 0; i < PAGE; i++)
		memory[i] = (uint8_t)(i * 7 + i / 256);
	for (i = 0; i < 3000; i++) {
		from[i] = (struct iovec){ memory + i * 1237 % (PAGE - 4), i % 5 };
		memcpy(expected + length, from[i].iov_base, from[i].iov_len);
		length += from[i].iov_len;
	}
	assert_ok(access_gather(&access_, from, 3000, bytes));
	assert_memory_equal(bytes, expected, length);
	assert_ok(access_gather(&access_, from, 0, bytes));
	from[2998].iov_base = memory + HOLE * PAGE - 1;
	assert_status(access_gather(&access_, from, 3000, bytes), PF_ERR_FAULT);
	assert_status(access_gather(&access_, from + 2998, 1, bytes), PF_ERR_FAULT);
	assert_ok(access_gather(&access_, from, 2998, bytes));
}

/* The bytes before the inaccessible page are written, whatever vectors they are in. */
static void test_scatters(void **state)
{
	static uint8_t bytes[3 * 4096];
	struct iovec from[3] = { { bytes, 100 }, { bytes + 200, 4096 }, { bytes + 5000, 804 } };
	struct iovec to[2] = { { memory + 77, 3000 }, { memory + 2 * PAGE, 2000 } };
	size_t i;

	for (i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 7 + i / 256);
	assert_int_equal(access_scatter(&access_, from, 3, to, 2), 5000);
	assert_memory_equal(memory + 77, bytes, 100);
	assert_memory_equal(memory + 177, bytes + 200, 2900);
	assert_memory_equal(memory + 2 * PAGE, bytes + 3100, 1196);
	assert_memory_equal(memory + 2 * PAGE + 1196, bytes + 5000, 804);
	/* At the beginning of a vector, and within one. */
	to[1].iov_base = memory + HOLE * PAGE;
	assert_int_equal(access_scatter(&access_, from, 3, to, 2), 3000);
	to[1].iov_base = memory + HOLE * PAGE - 500;
	assert_in_range(access_scatter(&access_, from, 3, to, 2), 3000, 3500);
	to[0].iov_base = memory + HOLE * PAGE;
	assert_int_equal(access_scatter(&access_, from, 3, to, 2), 0);
}

/* A file that may not be so long is an error, and not SIGXFSZ. */
static void test_short_files(void **state)
{
	uint8_t bytes[100] = { 0 };
	const struct iovec here = { bytes, sizeof(bytes) }, there = { memory, sizeof(bytes) };
	struct rlimit before, limit;
	uint64_t bad = 0;
	unsigned i;

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	/* Before the file is made, and with a file. */
	for (i = 0; i < 2; i++) {
		limit = (struct rlimit){ sizeof(bytes) - 1, before.rlim_max };
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
		assert_status(access_write(&access_, at(0), bytes, sizeof(bytes), &bad),
			      PF_ERR_MEMORY);
		assert_status(access_read(&access_, at(0), bytes, sizeof(bytes), &bad),
			      PF_ERR_MEMORY);
		assert_status(access_gather(&access_, &there, 1, bytes), PF_ERR_MEMORY);
		assert_int_equal(access_scatter(&access_, &here, 1, &there, 1), 0);
		assert_ok(access_write(&access_, at(0), bytes, sizeof(bytes) - 1, &bad));
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
		assert_ok(access_write(&access_, at(0), bytes, sizeof(bytes), &bad));
	}
}

#define BOTH(test)                                                                                 \
	{ #test " calls", test, begin, end, NULL },                                                \
	{                                                                                          \
#test " file", test, begin, end, &access_                                          \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(test_copies),
		BOTH(test_faults),
		BOTH(test_looks),
		BOTH(test_gathers),
		BOTH(test_scatters),
		{ "test_short_files file", test_short_files, begin, end, &access_ }
	};

	return cmocka_run_group_tests_name("access", tests, NULL, NULL);
}

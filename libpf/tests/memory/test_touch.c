/* SPDX-License-Identifier: BSD-3-Clause */
#include "page.h"
#include "unit.h"

#include <sys/mman.h>
#include <unistd.h>

#include "memory/touch.h"
#include <libpf/pf.h>

#define PAGES ((size_t)16)

static int map_pages(void **state)
{
	*state = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		      0);
	return *state == MAP_FAILED ? -1 : 0;
}

static int unmap_pages(void **state)
{
	return munmap(*state, PAGES * PAGE);
}

static int resident(char *memory)
{
	unsigned char pages[PAGES];
	size_t i;
	int count = 0;

	assert_int_equal(mincore(memory, PAGES * PAGE, pages), 0);
	for (i = 0; i < PAGES; i++)
		count += pages[i] & 1;
	return count;
}

static int touch(const void *address, uint64_t length, bool write, uint64_t *failed)
{
	*failed = 0;
	return touch_range((uint64_t)(uintptr_t)address, length, write, failed);
}

static void test_brings_in(void **state)
{
	char *memory = *state;
	uint64_t failed;

	/* All the pages that the range has a byte in, and no other. */
	madvise(memory, PAGES * PAGE, MADV_NOHUGEPAGE);
	assert_int_equal(resident(memory), 0);
	assert_int_equal(touch(memory + 2 * PAGE - 1, 2, true, &failed), PF_OK);
	assert_int_equal(resident(memory), 2);
	assert_int_equal(touch(memory + 5 * PAGE, PAGE, true, &failed), PF_OK);
	assert_int_equal(resident(memory), 3);
	assert_int_equal(touch(memory, PAGES * PAGE, true, &failed), PF_OK);
	assert_int_equal(resident(memory), PAGES);
}

static void test_keeps_contents(void **state)
{
	char *memory = *state;
	uint64_t failed;

	pattern_fill(memory, PAGES * PAGE, 3);
	assert_int_equal(touch(memory, PAGES * PAGE, false, &failed), PF_OK);
	assert_int_equal(touch(memory, PAGES * PAGE, true, &failed), PF_OK);
	assert_int_equal(pattern_differs(memory, PAGES * PAGE, 3), PAGES * PAGE);
}

static void fails_at(const void *address, uint64_t length, bool write, const void *where)
{
	uint64_t failed;

	assert_int_equal(touch(address, length, write, &failed), PF_ERR_FAULT);
	assert_true(failed == (uint64_t)(uintptr_t)where);
}

static void test_first_address(void **state)
{
	char *memory = *state, *gap = memory + 9 * PAGE;
	uint64_t failed;

	assert_int_equal(munmap(gap, PAGE), 0);
	fails_at(memory, PAGES * PAGE, false, gap);
	fails_at(gap - 1, 2, true, gap);
	fails_at(gap, 1, false, gap);
	/* Not the start of the page: the first byte that was asked for. */
	fails_at(gap + 100, 8, false, gap + 100);
	fails_at(gap + PAGE - 1, 2, false, gap + PAGE - 1);
	assert_int_equal(touch(gap - 1, 1, true, &failed), PF_OK);
	assert_int_equal(touch(gap + PAGE, 1, true, &failed), PF_OK);
	fails_at(NULL, 1, false, NULL);
}

static void test_permissions(void **state)
{
	char *memory = *state;
	uint64_t failed;

	assert_int_equal(mprotect(memory + 4 * PAGE, PAGE, PROT_READ), 0);
	assert_int_equal(mprotect(memory + 8 * PAGE, PAGE, PROT_NONE), 0);
	assert_int_equal(touch(memory, 8 * PAGE, false, &failed), PF_OK);
	fails_at(memory, 8 * PAGE, true, memory + 4 * PAGE);
	fails_at(memory, PAGES * PAGE, false, memory + 8 * PAGE);
}

static void test_end_of_file(void **state)
{
	int fd = memfd_create("test", MFD_CLOEXEC);
	char *file;

	assert_int_equal(ftruncate(fd, PAGE + 10), 0);
	file = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(file, MAP_FAILED);
	/* The kernel's SIGBUS, which must not become ours. */
	fails_at(file, 4 * PAGE, true, file + 2 * PAGE);
	fails_at(file + 3 * PAGE + 5, 1, false, file + 3 * PAGE + 5);
	munmap(file, 4 * PAGE);
	close(fd);
}

/* Ranges at or over the end of the address space, which no process can have. */
static void test_end_of_memory(void **state)
{
	static const struct {
		uint64_t address, length;
	} ranges[] = {
		{ UINT64_MAX - 7, 8 },       { UINT64_MAX - 4095, 4096 },
		{ UINT64_MAX - 4095, 4095 }, { UINT64_MAX - 8191, 8192 },
		{ UINT64_MAX, 1 },           { UINT64_MAX - 7, 4 },
		{ UINT64_MAX - 7, 100 },     { 1ull << 63, 8 },
		{ 1ull << 63, 1ull << 63 },  { 4096, UINT64_MAX },
	};
	uint64_t failed;
	size_t i;

	for (i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		failed = 0;
		if (touch_range(ranges[i].address, ranges[i].length, true, &failed) != PF_ERR_FAULT)
			fail_msg("%#llx + %#llx is said to be there",
				 (unsigned long long)ranges[i].address,
				 (unsigned long long)ranges[i].length);
		assert_true(failed == ranges[i].address);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_brings_in, map_pages, unmap_pages),
		cmocka_unit_test_setup_teardown(test_keeps_contents, map_pages, unmap_pages),
		cmocka_unit_test_setup_teardown(test_first_address, map_pages, unmap_pages),
		cmocka_unit_test_setup_teardown(test_permissions, map_pages, unmap_pages),
		cmocka_unit_test(test_end_of_file),
		cmocka_unit_test(test_end_of_memory),
	};

	return cmocka_run_group_tests_name("touch", tests, NULL, NULL);
}

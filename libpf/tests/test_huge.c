/* SPDX-License-Identifier: BSD-3-Clause */
/* Huge pages: their size, hints for memory that will be written, and collapsing hot ranges. */
#include "unit.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/page.h"
#include "memory/memory.h"

/* The size that a file with this text says. */
static uint64_t size_from(const char *text)
{
	int fd = memfd_create("size", MFD_CLOEXEC);
	uint64_t size;
	char path[64];

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	size = huge_page_size(path);
	close(fd);
	return size;
}

static void test_size(void **state)
{
	static const char *const useless[] = { "",     "\n",    "none\n",     "0\n",
					       "17\n", "4096x", "33554431\n", "1\n2\n" };
	size_t i;

	(void)state;
	assert_int_equal(size_from("2097152\n"), 2 << 20);
	assert_int_equal(size_from("33554432\n"), 32 << 20);
	assert_int_equal(size_from("536870912\n"), 512 << 20);
	for (i = 0; i < sizeof(useless) / sizeof(useless[0]); i++)
		assert_int_equal(size_from(useless[i]), HUGE_PAGE_DEFAULT);
	assert_int_equal(huge_page_size("/nonexistent"), HUGE_PAGE_DEFAULT);
}

/* Bytes from the start of the mapping at address that have the flag "hg" (MADV_HUGEPAGE). */
static uint64_t hinted_bytes(uint64_t address)
{
	FILE *file = fopen("/proc/self/smaps", "re");
	uint64_t start = 0, end = 0, from, to, hinted = 0;
	char line[512];

	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " ", &from, &to) == 2) {
			start = from;
			end = to;
		}
		if (start == address && !strncmp(line, "VmFlags:", 8) && strstr(line, " hg"))
			hinted = end - start;
	}
	fclose(file);
	return hinted;
}

/* The hint is for the whole huge pages within the range, whatever their size. */
static void test_expect(void **state)
{
	static struct memory memory;
	const uint64_t sizes[] = { 64 << 10, 2 << 20, 32 << 20 };
	size_t i;

	(void)state;
	residency_open(&memory.residency, getpid(), 0, NULL);
	memory.policy = PF_POLICY_ADAPTIVE;
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		uint64_t size = sizes[i], start;
		char *map = mmap(NULL, 6 * size, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		assert_ptr_not_equal(map, MAP_FAILED);
		memory.huge_size = size;
		start = ((uint64_t)(uintptr_t)map / size + 1) * size;
		memory_expect(&memory, start + 1, 2 * size - 2);
		assert_int_equal(hinted_bytes(start), 0);
		assert_int_equal(hinted_bytes(start + size), 0);
		memory_expect(&memory, start + 1, 4 * size - 1);
		assert_int_equal(hinted_bytes(start + size), 3 * size);
		munmap(map, 6 * size);
	}
	residency_close(&memory.residency);
}

static unsigned requests(const struct service *service)
{
	const struct task *task;
	unsigned count = 0;

	for (task = service->tasks; task; task = task->next)
		count++;
	return count;
}

/* A range of one huge page is requested once, when enough bytes were moved in it. */
static void test_collapse(void **state)
{
	const uint64_t sizes[] = { 2 << 20, 32 << 20, 512 << 20 };
	struct collapse collapse;
	struct service service;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		const uint64_t size = sizes[i], at = 5 * size;

		assert_int_equal(service_open(&service), PF_OK);
		collapse_init(&collapse, size, size, &service, NULL);
		/* The last byte of the range is missing; the rest lies in the next range. */
		collapse_note(&collapse, (void *)(uintptr_t)(at + 1), size);
		assert_int_equal(requests(&service), 0);
		collapse_note(&collapse, (void *)(uintptr_t)at, 1);
		assert_int_equal(requests(&service), 1);
		collapse_note(&collapse, (void *)(uintptr_t)at, size);
		assert_int_equal(requests(&service), 1);
		collapse_note(&collapse, (void *)(uintptr_t)(at + size), size - 1);
		assert_int_equal(requests(&service), 2);
		service_close(&service);
	}
}

/* One range, all of its pages present but the last one, in new memory. */
static char *all_but_one(uint64_t size, void **map)
{
	char *range;

	*map = mmap(NULL, 2 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(*map, MAP_FAILED);
	range = (char *)(uintptr_t)(((uint64_t)(uintptr_t)*map / size + 1) * size);
	madvise(range, size, MADV_NOHUGEPAGE);
	memset(range, 1, size - page_size());
	madvise(range, size, MADV_HUGEPAGE);
	return range;
}

/*
 * Only a range whose pages are all present is collapsed. The kernel's own thread may collapse it
 * before we look, and brings in the last page: hardly three times.
 */
static void test_collapse_range(void **state)
{
	const uint64_t size = huge_page_size(HUGE_PAGE_FILE);
	unsigned tries = 3;
	void *map;
	char *range;

	(void)state;
	for (;;) {
		range = all_but_one(size, &map);
		if (!collapse_range((uint64_t)(uintptr_t)range, size))
			break;
		munmap(map, 2 * size);
		assert_int_not_equal(--tries, 0);
	}
	memset(range, 1, size);
	if (!collapse_range((uint64_t)(uintptr_t)range, size)) {
		munmap(map, 2 * size);
		skip(); /* no huge pages, no MADV_COLLAPSE, or no memory for one */
	}
	assert_int_equal(*range, 1);
	munmap(map, 2 * size);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_size),
		cmocka_unit_test(test_expect),
		cmocka_unit_test(test_collapse),
		cmocka_unit_test(test_collapse_range),
	};

	return cmocka_run_group_tests_name("huge", tests, NULL, NULL);
}

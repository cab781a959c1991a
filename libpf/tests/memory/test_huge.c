/* SPDX-License-Identifier: BSD-3-Clause */
/* Huge pages: their size, and hints for memory that will be written. */
#include "unit.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/page.h"
#include "memory/memory.h"

int __wrap_clock_gettime(clockid_t clock, struct timespec *time);
int __real_clock_gettime(clockid_t clock, struct timespec *time);
/* The clock of hints stands still: no hint ends while the test waits for a processor. */
int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
	if (clock != CLOCK_MONOTONIC_COARSE)
		return __real_clock_gettime(clock, time);
	*time = (struct timespec){ .tv_sec = 1 };
	return 0;
}

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

/* What the kernel tells of the mappings within some memory. */
struct seen {
	unsigned mappings;
	uint64_t huge;  /* bytes in huge pages */
	bool marked;    /* MADV_HUGEPAGE */
	bool forbidden; /* MADV_NOHUGEPAGE */
};

static struct seen see(const char *start, uint64_t length)
{
	uint64_t at = (uint64_t)(uintptr_t)start, from = 0, to = 0, kilobytes;
	FILE *file = fopen("/proc/self/smaps", "re");
	struct seen seen = { 0 };
	char line[512];

	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " ", &from, &to) == 2)
			seen.mappings += from < at + length && to > at;
		if (from >= at + length || to <= at)
			continue;
		if (sscanf(line, "AnonHugePages: %" SCNu64, &kilobytes) == 1)
			seen.huge += kilobytes << 10;
		if (!strncmp(line, "VmFlags:", 8)) {
			seen.marked |= strstr(line, " hg") != NULL;
			seen.forbidden |= strstr(line, " nh") != NULL;
		}
	}
	fclose(file);
	return seen;
}

static struct memory *expecting(uint64_t size)
{
	static struct memory memory;

	memset(&memory, 0, sizeof(memory));
	residency_open(&memory.residency, getpid(), 10000, NULL);
	expected_init(&memory.expected, &memory.residency, &memory.pagers, size);
	return &memory;
}

static void expected_nothing(struct memory *memory)
{
	expected_destroy(&memory->expected);
	residency_close(&memory->residency);
}

/* size bytes at a multiple of size, and as many before and behind them. */
static char *map_around(uint64_t size, uint64_t pages, void **map)
{
	*map = mmap(NULL, (pages + 3) * size, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	assert_ptr_not_equal(*map, MAP_FAILED);
	return (char *)(uintptr_t)(((uint64_t)(uintptr_t)*map / size + 2) * size);
}

/* Huge pages where the memory was never touched, and no other trace of them. */
static void test_expect(void **state)
{
	const uint64_t size = huge_page_size(HUGE_PAGE_FILE);
	struct memory *memory = expecting(size);
	struct seen before, after;
	uint64_t address;
	void *map;
	char *start;

	(void)state;
	if (size > COLLAPSE_SIZE_MAX || collapse_setting(size) != COLLAPSE_MADVISE) {
		expected_nothing(memory);
		skip(); /* the kernel provides huge pages by itself, or none at all */
	}
	start = map_around(size, 4, &map);
	address = (uint64_t)(uintptr_t)start;
	/* The second of four was touched; the last is not written to its end. */
	start[size] = 1;
	before = see(map, 7 * size);
	memory_expect(memory, address - 1, 4 * size);
	after = see(map, 7 * size);
	munmap(map, 7 * size);
	expected_nothing(memory);
	assert_int_equal(after.mappings, before.mappings);
	assert_false(after.marked);
	if (!after.huge)
		skip(); /* no MADV_COLLAPSE, or no memory for a huge page */
	assert_int_equal(after.huge, 2 * size);
}

static void test_expect_forbidden(void **state)
{
	const uint64_t size = huge_page_size(HUGE_PAGE_FILE);
	struct memory *memory = expecting(size <= COLLAPSE_SIZE_MAX ? size : 0);
	struct seen seen;
	void *map;
	char *start = map_around(size, 2, &map);

	(void)state;
	madvise(map, 5 * size, MADV_NOHUGEPAGE);
	memory_expect(memory, (uint64_t)(uintptr_t)start, 2 * size);
	seen = see(map, 5 * size);
	munmap(map, 5 * size);
	expected_nothing(memory);
	assert_true(seen.forbidden);
	assert_false(seen.marked);
	assert_int_equal(seen.huge, 0);
	assert_int_equal(seen.mappings, 1);
}

/* Of a long transfer, the first and the last pages at once, and others as the copy comes to them. */
static void test_expect_long(void **state)
{
	const uint64_t size = huge_page_size(HUGE_PAGE_FILE);
	const uint64_t pages = EXPECTED_AT_ONCE / size + 10;
	struct memory *memory = expecting(size <= COLLAPSE_SIZE_MAX ? size : 0);
	uint64_t address, first, later, end;
	void *map;
	char *start = map_around(size, pages, &map);

	(void)state;
	address = (uint64_t)(uintptr_t)start;
	memory_expect(memory, address, pages * size);
	first = see(map, (pages + 3) * size).huge;
	expected_reach(&memory->expected, address + pages * size);
	later = see(map, (pages + 3) * size).huge;
	expected_reach(&memory->expected, address + EXPECTED_AT_ONCE / 2);
	end = see(map, (pages + 3) * size).huge;
	munmap(map, (pages + 3) * size);
	expected_nothing(memory);
	if (!first)
		skip(); /* as in test_expect */
	assert_int_equal(first, EXPECTED_AT_ONCE);
	assert_int_equal(later, first);
	assert_in_range(end, later + size, later + 10 * size);
}

/* A buffer is unmapped, and another is mapped at its address: it is seen as absent. */
static void test_mapped_anew(void **state)
{
	const uint64_t length = 512 << 10;
	struct memory *memory = expecting(0);
	uint64_t address, old, cold, renewed;
	char *start = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			   0);

	(void)state;
	assert_ptr_not_equal(start, MAP_FAILED);
	address = (uint64_t)(uintptr_t)start;
	memset(start, 1, length);
	assert_int_equal(residency_look(&memory->residency, address, length, &cold), length);
	assert_ptr_equal(mmap(start, length, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
			 start);
	residency_look(&memory->residency, address, length, &old);
	memory->residency.renewal_due = 0;
	memory_expect(memory, address, length);
	residency_look(&memory->residency, address, length, &renewed);
	munmap(start, length);
	expected_nothing(memory);
	assert_int_equal(cold, 0);
	assert_int_equal(old, 0); /* by the hints */
	assert_int_equal(renewed, length);
}

/* Renewals of 10 ms of virtual time, in which a transfer to the memory begins each 20 us. */
static unsigned renewals_count(struct residency *residency, uint64_t *now, uint64_t address,
			       uint64_t length)
{
	uint64_t end = *now + 10000000, due;
	unsigned count = 0;

	for (; *now < end; *now += 20000) {
		due = residency->renewal_due;
		residency_renew(residency, *now, address, length);
		count += residency->renewal_due != due;
	}
	return count;
}

/* Looks at memory that stays present become rare; where memory is mapped anew they do not. */
static void test_renewals(void **state)
{
	const uint64_t length = 256 << 10;
	struct memory *memory = expecting(0);
	uint64_t now = 1000000000, address;
	unsigned present, absent;
	char *start = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			   0);

	(void)state;
	assert_ptr_not_equal(start, MAP_FAILED);
	address = (uint64_t)(uintptr_t)start;
	memset(start, 1, length);
	present = renewals_count(&memory->residency, &now, address, length);
	assert_int_equal(madvise(start, length, MADV_DONTNEED), 0);
	renewals_count(&memory->residency, &now, address, length);
	absent = renewals_count(&memory->residency, &now, address, length);
	munmap(start, length);
	expected_nothing(memory);
	assert_in_range(present, 10, 16);
	assert_in_range(absent, 100, 500);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_size),
		cmocka_unit_test(test_expect),
		cmocka_unit_test(test_expect_forbidden),
		cmocka_unit_test(test_expect_long),
		cmocka_unit_test(test_mapped_anew),
		cmocka_unit_test(test_renewals),
	};

	return cmocka_run_group_tests_name("huge", tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* When a copy of short pieces at many places needs a look at the page tables, and when not. */
#include "unit.h"

#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "memory/residency.h"

#define PIECES 64
#define LENGTH (PIECES * RESIDENCY_PIECE)
#define LIFETIME_MICROSECONDS 30000000

static struct residency residency;
static uint8_t *memory;
static bool swaps;
static uint64_t inode; /* of memory */

/* The linker puts these in the place of the functions without the prefix. */
int __real_sysinfo(struct sysinfo *info);
int __wrap_sysinfo(struct sysinfo *info);
bool __wrap_mappings_find(struct mappings *mappings, uint64_t address, struct mapping *mapping);

/* Before Linux 6.11 the mappings are not known at all times. */
bool __wrap_mappings_find(struct mappings *mappings, uint64_t address, struct mapping *mapping)
{
	const uint64_t start = (uintptr_t)memory;

	(void)mappings;
	*mapping = (struct mapping){ .start = start, .end = start + LENGTH, .inode = inode };
	return address >= mapping->start && address < mapping->end;
}

int __wrap_sysinfo(struct sysinfo *info)
{
	int status = __real_sysinfo(info);

	info->totalswap = 2;
	info->freeswap = swaps ? 1 : 2;
	return status;
}

static uint64_t address_of(unsigned piece)
{
	return (uintptr_t)memory + piece * RESIDENCY_PIECE;
}

static int begin(void **state)
{
	(void)state;
	residency_open(&residency, getpid(), LIFETIME_MICROSECONDS, NULL);
	memory = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(memory != MAP_FAILED);
	memset(memory, 1, LENGTH);
	return 0;
}

static int end(void **state)
{
	(void)state;
	residency_close(&residency);
	munmap(memory, LENGTH);
	swaps = false;
	inode = 0;
	return 0;
}

static void look_at(unsigned pieces)
{
	uint64_t cold;
	unsigned i;

	for (i = 0; i < pieces; i++) {
		assert_int_equal(residency_look(&residency, address_of(i), 8, &cold), 8);
		assert_int_equal(cold, 0);
	}
}

static bool skips(unsigned piece, uint64_t length, bool cold)
{
	return residency_may_skip(&residency, address_of(piece), length, cold, residency_now());
}

/* Take a page away, and have a look there. */
static void look_at_absent(unsigned piece)
{
	uint64_t cold;

	assert_int_equal(madvise((void *)address_of(piece), RESIDENCY_PIECE, MADV_DONTNEED), 0);
	assert_int_equal(residency_look(&residency, address_of(piece), 8, &cold), 8);
	assert_int_equal(cold, 8);
}

/* After a row of looks the whole mapping counts as memory that does not wait. */
static void test_steady(void **state)
{
	(void)state;
	assert_false(skips(0, 8, true));
	look_at(RESIDENCY_STEADY_LOOKS);
	assert_true(skips(PIECES - 1, RESIDENCY_STEADY_MOST, true));
	assert_false(skips(PIECES - 1, RESIDENCY_STEADY_MOST + 1, true));
	/* A copy that may not reach cold bytes needs a look, except where a look was. */
	assert_false(skips(PIECES - 1, 8, false));
	assert_true(skips(0, 8, false));
	/* A look is a look all the same, and an absent page ends the steady memory. */
	look_at_absent(PIECES - 1);
	assert_false(skips(PIECES - 2, 8, true));
}

static void test_row_too_short(void **state)
{
	(void)state;
	look_at(RESIDENCY_STEADY_LOOKS - 1);
	/* Known pieces need no look. */
	look_at(RESIDENCY_STEADY_LOOKS - 1);
	assert_false(skips(PIECES - 1, 8, true));
	look_at_absent(PIECES - 1);
	/* The row begins anew. */
	look_at(RESIDENCY_STEADY_LOOKS);
	assert_false(skips(PIECES - 2, 8, true));
}

static void test_swap(void **state)
{
	(void)state;
	swaps = true;
	look_at(2 * RESIDENCY_STEADY_LOOKS);
	assert_false(skips(PIECES - 1, 8, true));
}

static void test_lifetime(void **state)
{
	uint16_t now;

	(void)state;
	look_at(RESIDENCY_STEADY_LOOKS);
	now = residency_now();
	assert_true(residency_is_steady(&residency, address_of(0), 8, now));
	assert_false(residency_is_steady(&residency, address_of(0), 8,
					 (uint16_t)(now + LIFETIME_MICROSECONDS / 1000 + 1)));
}

/* Only the mapping, and memory of files never. */
static void test_mapping(void **state)
{
	uint16_t now;

	(void)state;
	inode = 1;
	look_at(RESIDENCY_STEADY_LOOKS);
	now = residency_now();
	assert_false(residency_is_steady(&residency, address_of(0), 8, now));
	end(state);
	begin(state);
	look_at(RESIDENCY_STEADY_LOOKS);
	now = residency_now();
	assert_true(residency_is_steady(&residency, address_of(0), 8, now));
	assert_false(residency_is_steady(&residency, address_of(0) - 4, 8, now));
	assert_true(residency_is_steady(&residency, address_of(PIECES) - 8, 8, now));
	assert_false(residency_is_steady(&residency, address_of(PIECES) - 4, 8, now));
}

/* Pieces looked at together count likewise. */
static void test_together(void **state)
{
	struct iovec range = { .iov_len = 8 };
	unsigned i;

	(void)state;
	for (i = 0; i < RESIDENCY_STEADY_LOOKS; i++) {
		range.iov_base = (void *)address_of(i);
		residency_look_ahead(&residency, &range, 1);
	}
	assert_true(residency_is_steady(&residency, address_of(PIECES - 1), 8, residency_now()));
}

#define RESIDENCY_TEST(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		RESIDENCY_TEST(test_steady),  RESIDENCY_TEST(test_row_too_short),
		RESIDENCY_TEST(test_swap),    RESIDENCY_TEST(test_lifetime),
		RESIDENCY_TEST(test_mapping), RESIDENCY_TEST(test_together),
	};

	return cmocka_run_group_tests_name("residency", tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranges in repeated use become huge pages, at the request of the process that looks up their pages. */
#include "pair.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/page.h"
#include "memory/collapse.h"

static unsigned requests(const struct service *service)
{
	const struct task *task;
	unsigned count = 0;

	STAILQ_FOREACH(task, &service->tasks, next)
		count++;
	return count;
}

/* A range of one huge page is worth it when enough bytes were looked up there, for each owner. */
static void test_worth(void **state)
{
	const uint64_t sizes[] = { 2 << 20, 32 << 20 };
	struct collapse collapse;
	struct collapse_entry *range;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		const uint64_t size = sizes[i], at = 5 * size;

		collapse_init(&collapse, size, size, NULL, NULL);
		assert_true(collapse_counts(&collapse, COLLAPSE_TRANSFER_MAX));
		assert_false(collapse_counts(&collapse, COLLAPSE_TRANSFER_MAX + 1));
		/* The last byte of the range is missing; the rest lies in the next range. */
		assert_null(collapse_note(&collapse, COLLAPSE_OWN, at + 1, size));
		/* The same address in another process. */
		assert_null(collapse_note(&collapse, 3, at, 1));
		range = collapse_note(&collapse, COLLAPSE_OWN, at, 1);
		assert_non_null(range);
		assert_int_equal(range->number, 5);
		assert_int_equal(range->owner, COLLAPSE_OWN);
		/* Until the owner was asked; then after as many bytes again. */
		assert_ptr_equal(collapse_note(&collapse, COLLAPSE_OWN, at, 1), range);
		collapse_asked(range);
		assert_null(collapse_note(&collapse, COLLAPSE_OWN, at, size));
		assert_ptr_equal(collapse_note(&collapse, COLLAPSE_OWN, at, 1), range);
		assert_non_null(collapse_note(&collapse, COLLAPSE_OWN, at + size, size - 1));
		assert_non_null(collapse_note(&collapse, 3, at, size - 1));
		/* The last range of the address space. */
		assert_null(collapse_note(&collapse, 3, -size, size - 1));
		collapse_destroy(&collapse);
	}
	collapse_init(&collapse, 1, 512 << 20, NULL, NULL);
	assert_false(collapse_counts(&collapse, 1));
}

static void write_file(const char *folder, const char *name, const char *text)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "w");
	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

static void remove_file(const char *folder, const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	assert_int_equal(remove(path), 0);
}

/* Since Linux 6.8 each size has a setting. */
static void test_setting(void **state)
{
	const char *of_size = "hugepages-2048kB/enabled";
	const uint64_t size = 2 << 20;
	char folder[] = "/tmp/libpf-test-XXXXXX", path[128];

	(void)state;
	assert_non_null(mkdtemp(folder));
	assert_int_equal(collapse_setting_in(folder, size), COLLAPSE_NEVER);
	write_file(folder, "enabled", "[always] madvise never\n");
	assert_int_equal(collapse_setting_in(folder, size), COLLAPSE_ALWAYS);
	write_file(folder, "enabled", "always [madvise] never\n");
	assert_int_equal(collapse_setting_in(folder, size), COLLAPSE_MADVISE);
	snprintf(path, sizeof(path), "%s/hugepages-2048kB", folder);
	assert_int_equal(mkdir(path, 0700), 0);
	write_file(folder, of_size, "always [inherit] madvise never\n");
	assert_int_equal(collapse_setting_in(folder, size), COLLAPSE_MADVISE);
	write_file(folder, of_size, "always inherit madvise [never]\n");
	assert_int_equal(collapse_setting_in(folder, size), COLLAPSE_NEVER);
	write_file(folder, of_size, "[always] inherit madvise never\n");
	assert_int_equal(collapse_setting_in(folder, size), COLLAPSE_ALWAYS);
	/* Another size has another setting. */
	assert_int_equal(collapse_setting_in(folder, 16 * size), COLLAPSE_MADVISE);
	remove_file(folder, of_size);
	remove_file(folder, "hugepages-2048kB");
	remove_file(folder, "enabled");
	assert_int_equal(rmdir(folder), 0);
}

/* A peer can ask as often as it likes: so many wait, and no more. */
static void test_requests(void **state)
{
	const uint64_t size = 2 << 20;
	struct collapse collapse;
	struct service service;
	unsigned i;

	(void)state;
	assert_int_equal(service_open(&service), PF_OK);
	collapse_init(&collapse, size, size, &service, NULL);
	/* No address of a range: nothing to do. */
	assert_true(collapse_request(&collapse, size + 1));
	assert_true(collapse_request(&collapse, -size));
	assert_int_equal(requests(&service), 0);
	for (i = 0; i < COLLAPSE_WAITING_MOST; i++)
		assert_true(collapse_request(&collapse, i * size));
	assert_false(collapse_request(&collapse, i * size));
	assert_int_equal(requests(&service), COLLAPSE_WAITING_MOST);
	service_close(&service);
	assert_int_equal(collapse.waiting_count, 0);
	collapse_destroy(&collapse);
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

/* ---- between processes ---- */

/* Values of the partner. */
enum { START, COLLAPSED, SHARED };

static char *make_range(uint64_t size, void **map)
{
	char *range = all_but_one(size, map);

	memset(range, 1, size);
	return range;
}

static bool machine_collapses(uint64_t size)
{
	void *map;
	char *range = make_range(size, &map);
	bool collapses = collapse_range((uint64_t)(uintptr_t)range, size);

	munmap(map, 2 * size);
	return collapses;
}

static void map_source(struct pair *me)
{
	void *map;

	*pair_value(me, 1,
		    START) = remote_address(make_range(huge_page_size(HUGE_PAGE_FILE), &map));
}

static void count_collapsed(struct pair *me, const uint64_t *arguments)
{
	*pair_value(me, 1, COLLAPSED) = pf_stat(me->context, PF_STAT_COLLAPSED);
	*pair_value(me, 1, SHARED) = pf_stat(me->context, PF_STAT_SHARED_BYTES);
}

/* A pair of which the partner has a range, or skip the test. */
static struct pair *open_pair(void **state, bool partner_copies)
{
	const uint64_t size = huge_page_size(HUGE_PAGE_FILE);
	struct pair_setup setup = { PAIR_MODE(state), .work = map_source,
				    .command = count_collapsed };
	struct pair *pair;
	uint8_t byte;

	if (size > COLLAPSE_TRANSFER_MAX || !machine_collapses(size))
		skip();
	setup.here.transport = setup.there.transport = PF_TRANSPORT_HOST;
	setup.here.collapse = setup.there.collapse = 2 * size;
	/* A process that may sleep moves everything itself. */
	setup.here.wake = !partner_copies;
	pair = pair_start(&setup);
	pair_await(pair, 1, PAIR_DONE);
	pair_check_status(pair,
			  pair_get(pair, pair->peer, &byte, *pair_value(pair, 1, START), 1).status,
			  PF_OK);
	if (pf_stat(pair->context, PF_STAT_SINGLE_COPY_BYTES))
		return pair;
	pair_end(pair);
	skip();
	return NULL;
}

static void check_asked(void **state, bool put)
{
	const uint64_t size = huge_page_size(HUGE_PAGE_FILE), half = size / 2;
	struct pair *pair = open_pair(state, false);
	uint64_t start = *pair_value(pair, 1, START), remote;
	uint8_t *local = test_map(size);
	unsigned i;

	do {
		for (i = 0; i < 8; i++) {
			remote = start + i % 2 * half;
			assert_ok(put ? pair_put(pair, pair->peer, local, remote, half).status :
					pair_get(pair, pair->peer, local, remote, half).status);
		}
		pair_command(pair, 0);
	} while (!*pair_value(pair, 1, COLLAPSED));
	/* The partner looked up no page of this side. */
	assert_int_equal(pf_stat(pair->context, PF_STAT_COLLAPSED), 0);
	munmap(local, size);
	pair_end(pair);
}

static void test_source(void **state)
{
	check_asked(state, false);
}

static void test_destination(void **state)
{
	check_asked(state, true);
}

/* The partner looks up pages of this side, if it has the time to help. */
static void test_helped(void **state)
{
	const uint64_t size = huge_page_size(HUGE_PAGE_FILE);
	struct pair *pair = open_pair(state, true);
	uint64_t start = *pair_value(pair, 1, START);
	unsigned rounds;
	char *local;
	void *map;

	local = make_range(size, &map);
	for (rounds = 0; rounds < 20000 && !pf_stat(pair->context, PF_STAT_COLLAPSED); rounds++)
		assert_ok(pair_get(pair, pair->peer, local, start, size).status);
	pair_command(pair, 0);
	if (!pf_stat(pair->context, PF_STAT_COLLAPSED))
		assert_true(*pair_value(pair, 1, SHARED) < 8 * size);
	munmap(map, 2 * size);
	pair_end(pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_worth),    cmocka_unit_test(test_setting),
		cmocka_unit_test(test_requests), cmocka_unit_test(test_collapse_range),
		PAIR_TEST(test_source),          PAIR_TEST(test_destination),
		PAIR_TEST(test_helped),
	};

	return pair_run_tests("collapse", tests);
}

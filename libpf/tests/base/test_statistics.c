/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/statistics.h"

#define PAGE "/memfd:" STATISTICS_NAME " (deleted)"

/* The linker replaces memfd_create by it. */
int __wrap_memfd_create(const char *name, unsigned flags);
int __real_memfd_create(const char *name, unsigned flags);
static bool no_memfd;

int __wrap_memfd_create(const char *name, unsigned flags)
{
	if (!no_memfd)
		return __real_memfd_create(name, flags);
	errno = EMFILE;
	return -1;
}

static int create(void **state)
{
	struct statistics *statistics = mmap(NULL, sizeof(*statistics), PROT_READ | PROT_WRITE,
					     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	*state = statistics;
	if (statistics == MAP_FAILED)
		return -1;
	statistics_create(statistics, false);
	return 0;
}

static int destroy(void **state)
{
	struct statistics *statistics = *state;

	statistics_destroy(statistics);
	return munmap(statistics, sizeof(*statistics));
}

static int number_of_pages(void)
{
	char path[64], target[64];
	int fd, count = 0;

	for (fd = 0; fd < 64; fd++) {
		ssize_t length;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		length = readlink(path, target, sizeof(target));
		count += length == sizeof(PAGE) - 1 && !memcmp(target, PAGE, sizeof(PAGE) - 1);
	}
	return count;
}

static void test_found_in_proc(void **state)
{
	struct statistics *statistics = *state;

	assert_true(statistics->fd >= 0);
	assert_int_equal(number_of_pages(), 1);
}

/* What another process of this user can see and do. */
static void test_read_only(void **state)
{
	struct statistics *statistics = *state;
	struct statistics_page *page;
	struct stat file;
	char path[64];
	int fd, seals;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", statistics->fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &file), 0);
	assert_int_equal(file.st_size, STATISTICS_SIZE);
	seals = fcntl(fd, F_GET_SEALS);
	assert_true(seals & F_SEAL_SHRINK);
	assert_true(seals & F_SEAL_GROW);
	assert_int_equal(ftruncate(fd, 0), -1);
	assert_ptr_equal(mmap(NULL, STATISTICS_SIZE, PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
	assert_int_equal(pwrite(fd, "x", 1, 0), -1);

	page = mmap(NULL, STATISTICS_SIZE, PROT_READ, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(page, MAP_FAILED);
	close(fd);
	assert_int_equal(page->magic, STATISTICS_MAGIC);
	assert_int_equal(page->version, STATISTICS_VERSION);
	assert_int_equal(page->stats, PF_STAT_COUNT);
	assert_int_equal(page->buckets, PF_RESOLVE_BUCKETS);
	assert_int_equal(page->pid, getpid());
	assert_int_equal(statistic_read(page, PF_STAT_PUTS), 0);
	statistic_add(statistics, PF_STAT_PUTS, 3);
	statistic_add_concurrent(statistics, PF_STAT_PUTS, 4);
	assert_int_equal(statistic_read(page, PF_STAT_PUTS), 7);
	munmap(page, STATISTICS_SIZE);
}

static int create_without_memfd(void **state)
{
	int status;

	no_memfd = true;
	status = create(state);
	no_memfd = false;
	return status;
}

static void test_without_memfd(void **state)
{
	struct statistics *statistics = *state;

	assert_int_equal(statistics->fd, -1);
	assert_int_equal(number_of_pages(), 0);
	statistic_add(statistics, PF_STAT_PUTS, 3);
	statistic_resolved(statistics, 3);
	assert_int_equal(statistic_read(&statistics->page, PF_STAT_PUTS), 3);
	assert_int_equal(statistic_read_bucket(&statistics->page, 0), 1);
}

static void test_faults(void **state)
{
	static const enum pf_stat local[] = { PF_STAT_LOCAL_MINOR, PF_STAT_LOCAL_MAJOR,
					      PF_STAT_LOCAL_PAGER, PF_STAT_LOCAL_PERMISSION };
	static const enum pf_stat remote[] = { PF_STAT_REMOTE_MINOR, PF_STAT_REMOTE_MAJOR,
					       PF_STAT_REMOTE_PAGER, PF_STAT_REMOTE_PERMISSION };
	struct statistics *statistics = *state;
	int kind, i, stat;
	uint64_t sum = 0;

	for (kind = FAULT_MINOR; kind <= FAULT_PERMISSION; kind++) {
		for (i = 0; i <= kind; i++)
			statistic_fault(statistics, PF_SIDE_LOCAL, kind);
		for (i = 0; i < 10 * (kind + 1); i++)
			statistic_fault(statistics, PF_SIDE_REMOTE, kind);
		statistic_fault(statistics, PF_SIDE_NONE, kind);
	}
	for (kind = FAULT_MINOR; kind <= FAULT_PERMISSION; kind++) {
		assert_int_equal(statistic_read(&statistics->page, local[kind]), kind + 1);
		assert_int_equal(statistic_read(&statistics->page, remote[kind]), 10 * (kind + 1));
	}
	for (stat = 0; stat < PF_STAT_COUNT; stat++)
		sum += statistic_read(&statistics->page, stat);
	assert_int_equal(sum, 11 * (1 + 2 + 3 + 4));
}

/* Times on both sides of every bound, as pf.h defines them. */
static void test_buckets(void **state)
{
	struct statistics *statistics = *state;
	unsigned bucket, last = PF_RESOLVE_BUCKETS - 1;

	for (bucket = 0; bucket < last; bucket++) {
		uint64_t bound = 1ull << (bucket + 8);

		statistic_resolved(statistics, bound - 1);
		assert_int_equal(statistic_read_bucket(&statistics->page, bucket), bucket ? 2 : 1);
		assert_int_equal(statistic_read_bucket(&statistics->page, bucket + 1), 0);
		statistic_resolved(statistics, bound);
		assert_int_equal(statistic_read_bucket(&statistics->page, bucket + 1), 1);
	}
	statistic_resolved(statistics, 0);
	assert_int_equal(statistic_read_bucket(&statistics->page, 0), 2);
	statistic_resolved(statistics, UINT64_MAX);
	assert_int_equal(statistic_read_bucket(&statistics->page, last), 2);
}

#define THREADS 3
#define TIMES REPEAT(200000)

static void *add_elsewhere(void *arg)
{
	int i;

	for (i = 0; i < TIMES; i++) {
		statistic_add_concurrent(arg, PF_STAT_COLLAPSED, 1);
		statistic_fault(arg, PF_SIDE_LOCAL, FAULT_MAJOR);
		statistic_resolved(arg, 1000);
	}
	return NULL;
}

/* No count is lost: the caller counts with plain stores, other threads with atomics. */
static void test_threads(void **state)
{
	struct statistics *statistics = *state;
	pthread_t threads[THREADS];
	int i;

	for (i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, add_elsewhere, statistics), 0);
	for (i = 0; i < TIMES; i++)
		statistic_add(statistics, PF_STAT_COLLAPSED, 1);
	for (i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(statistic_read(&statistics->page, PF_STAT_COLLAPSED),
			 (THREADS + 1) * TIMES);
	assert_int_equal(statistic_read(&statistics->page, PF_STAT_LOCAL_MAJOR), THREADS * TIMES);
	assert_int_equal(statistic_read_bucket(&statistics->page, 2), THREADS * TIMES);
}

static void test_public(void **state)
{
	pf_context *context;
	unsigned i;

	assert_int_equal(pf_open(NULL, NULL, &context), PF_OK);
	assert_int_equal(number_of_pages(), 1);
	for (i = 0; i < PF_RESOLVE_BUCKETS + 2; i++)
		assert_int_equal(pf_stat_resolve_time(context, i), 0);
	assert_int_equal(pf_stat(context, PF_STAT_COUNT), 0);
	pf_close(context);
	assert_int_equal(number_of_pages(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_found_in_proc, create, destroy),
		cmocka_unit_test_setup_teardown(test_read_only, create, destroy),
		cmocka_unit_test_setup_teardown(test_without_memfd, create_without_memfd, destroy),
		cmocka_unit_test_setup_teardown(test_faults, create, destroy),
		cmocka_unit_test_setup_teardown(test_buckets, create, destroy),
		cmocka_unit_test_setup_teardown(test_threads, create, destroy),
		cmocka_unit_test(test_public),
	};

	return cmocka_run_group_tests_name("statistics", tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registration in each mode: what the kernel counts as locked (VmLck) and what is present, after
 * overlapping registrations, at limits, and when memory changes under the cache.
 */
#include "unit.h"

#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comparison/registration.h"

#define PAGES 64

static size_t page;
static struct registrations registrations;
static uint8_t *memory; /* PAGES pages */

static void map_at(void *address, size_t pages)
{
	assert_ptr_equal(mmap(address, pages * page, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
			 address);
	/* Pages are dropped and touched one by one. */
	madvise(address, pages * page, MADV_NOHUGEPAGE);
}

/* The number of locked pages of this process. */
static size_t locked(void)
{
	FILE *file = fopen("/proc/self/status", "re");
	char line[128];
	size_t kilobytes = SIZE_MAX;

	assert_non_null(file);
	while (kilobytes == SIZE_MAX && fgets(line, sizeof(line), file))
		sscanf(line, "VmLck: %zu", &kilobytes);
	fclose(file);
	assert_true(kilobytes != SIZE_MAX);
	return kilobytes * 1024 / page;
}

static size_t present(size_t first, size_t count)
{
	unsigned char map[PAGES];
	size_t i, found = 0;

	assert_int_equal(mincore(memory + first * page, count * page, map), 0);
	for (i = 0; i < count; i++)
		found += map[i] & 1;
	return found;
}

/* Skips where no page can be locked (ulimit -l 0, no CAP_IPC_LOCK). */
static void begin(enum registration_mode mode)
{
	long status = 0;

	memory = test_map(PAGES * page);
	madvise(memory, PAGES * page, MADV_NOHUGEPAGE);
	if (mode >= REGISTRATION_PIN) {
		status = syscall(SYS_mlock, memory, PAGES * page);
		munmap(memory, PAGES * page);
		map_at(memory, PAGES);
	}
	if (status < 0) {
		munmap(memory, PAGES * page);
		skip();
	}
	registrations_init(&registrations, mode);
}

/* registrations_destroy unlocks everything. */
static void end(void)
{
	registrations_destroy(&registrations);
	assert_int_equal(locked(), 0);
	munmap(memory, PAGES * page);
}

static struct registration *hold(size_t first, size_t count)
{
	struct registration *registration;

	assert_ok(registration_add(&registrations, memory + first * page, count * page, 1,
				   &registration));
	assert_non_null(registration);
	assert_int_equal(present(first, count), count);
	return registration;
}

/* Register and deregister. */
static void use(size_t first, size_t count)
{
	registration_remove(&registrations, hold(first, count));
}

/* A registration with this status, which gives no handle. */
#define expect_status(address, length, write, status)                                              \
	do {                                                                                       \
		struct registration *none_ = (void *)1;                                            \
		assert_status(registration_add(&registrations, address, length, write, &none_),    \
			      status);                                                             \
		assert_null(none_);                                                                \
	} while (0)

static void test_fault_mode(void **state)
{
	begin(REGISTRATION_FAULT);
	expect_status(memory, PAGES * page, 1, PF_OK);
	expect_status(NULL, SIZE_MAX, 1, PF_OK);
	assert_int_equal(present(0, PAGES), 0);
	assert_int_equal(locked(), 0);
	registration_remove(&registrations, NULL);
	end();
}

static void test_prefault_mode(void **state)
{
	begin(REGISTRATION_PREFAULT);
	/* From the middle of a page to the middle of another. */
	expect_status(memory + page + page / 2, 3 * page, 1, PF_OK);
	assert_int_equal(present(0, PAGES), 4);
	assert_int_equal(present(1, 4), 4);
	expect_status(memory, PAGES * page, 1, PF_OK);
	assert_int_equal(present(0, PAGES), PAGES);
	assert_int_equal(locked(), 0);
	end();
}

/* In the three modes that use the arguments. */
static void test_arguments(void **state)
{
	enum registration_mode mode;

	for (mode = REGISTRATION_PREFAULT; mode <= REGISTRATION_PIN_CACHE; mode++) {
		struct registration *registration;

		begin(mode);
		expect_status(memory, 0, 1, PF_OK);
		expect_status((void *)page, page, 0, PF_ERR_FAULT);
		expect_status((void *)UINTPTR_MAX, 1, 0, PF_ERR_FAULT);
		expect_status(memory, SIZE_MAX - page, 0, PF_ERR_FAULT);
		expect_status(memory, SIZE_MAX, 0, PF_ERR_FAULT);
		/* A hole in the middle: the pages before it do not stay locked. */
		munmap(memory + 9 * page, page);
		expect_status(memory, PAGES * page, 1, PF_ERR_FAULT);
		assert_int_equal(locked(), 0);
		mprotect(memory, 9 * page, PROT_READ);
		expect_status(memory, page, 1, PF_ERR_FAULT);
		assert_int_equal(locked(), 0);
		assert_ok(registration_add(&registrations, memory, page, 0, &registration));
		registration_remove(&registrations, registration);
		end();
	}
}

static void test_pin_mode(void **state)
{
	struct registration *registration;

	begin(REGISTRATION_PIN);
	registration = hold(0, PAGES);
	assert_int_equal(locked(), PAGES);
	registration_remove(&registrations, registration);
	assert_int_equal(locked(), 0);
	assert_ok(registration_add(&registrations, memory + page - 1, 2, 1, &registration));
	assert_int_equal(locked(), 2);
	end();
}

/* Random ranges, compared with a count for each page. */
static void test_overlap(void **state)
{
	struct random_numbers numbers = random_start("overlapping registrations");
	struct {
		struct registration *registration;
		size_t first, count;
	} held[12] = { 0 }, *one;
	unsigned counts[PAGES] = { 0 };
	size_t round, i, expected;

	begin(REGISTRATION_PIN);
	for (round = 0; round < REPEAT(2000); round++) {
		one = &held[random_below(&numbers, ARRAY_SIZE(held))];
		if (one->registration) {
			registration_remove(&registrations, one->registration);
			one->registration = NULL;
		} else {
			one->first = random_below(&numbers, PAGES);
			one->count = 1 + random_below(&numbers, PAGES - one->first);
			one->registration = hold(one->first, one->count);
		}
		for (i = one->first; i < one->first + one->count; i++)
			counts[i] += one->registration ? 1 : -1u;
		for (i = 0, expected = 0; i < PAGES; i++)
			expected += counts[i] > 0;
		assert_int_equal(locked(), expected);
	}
	end();
}

static void test_cache(void **state)
{
	struct registration *whole, *part;

	begin(REGISTRATION_PIN_CACHE);
	whole = hold(0, PAGES);
	registration_remove(&registrations, whole);
	assert_int_equal(locked(), PAGES);
	/* A part of a cached range is found, and both uses share it. */
	part = hold(1, 3);
	assert_ptr_equal(part, whole);
	assert_ptr_equal(hold(0, PAGES), whole);
	registration_remove(&registrations, part);
	registration_remove(&registrations, whole);
	assert_int_equal(locked(), PAGES);
	end();
}

/* Limits on bytes and ranges: the least recently used range is removed. */
static void test_cache_bounds(void **state)
{
	struct registration *used;
	size_t i;

	begin(REGISTRATION_PIN_CACHE);
	registrations.cache_bytes = 6 * page;
	/* The first two overlap: when the first is removed, only one page of it is unlocked. */
	use(0, 2);
	use(1, 2);
	assert_int_equal(locked(), 3);
	use(10, 2);
	assert_int_equal(locked(), 5);
	use(20, 1);
	assert_int_equal(locked(), 5);
	assert_int_equal(registrations.cached, 5 * page);
	/* A range in use does not count. */
	used = hold(30, 30);
	assert_int_equal(locked(), 35);
	registration_remove(&registrations, used);
	assert_int_equal(locked(), 0);

	registrations.cache_bytes = PAGES * page;
	registrations.cache_ranges = 4;
	for (i = 0; i < 10; i++) {
		use(2 * i, 1);
		/* Used all the time, so it stays. */
		use(0, 1);
		assert_true(locked() <= 4);
	}
	assert_int_equal(registrations.cached_ranges, 4);
	assert_int_equal(locked(), 4);
	end();
}

/* The application changes the mapping at a cached address. */
static void test_cache_changed(void **state)
{
	uint8_t *elsewhere;

	begin(REGISTRATION_PIN_CACHE);
	use(0, PAGES);
	/* Unmapped. */
	munmap(memory, PAGES * page);
	assert_int_equal(locked(), 0);
	expect_status(memory, PAGES * page, 1, PF_ERR_FAULT);
	/* Another mapping at the same address. */
	map_at(memory, PAGES);
	assert_int_equal(locked(), 0);
	use(0, PAGES);
	map_at(memory, PAGES);
	assert_int_equal(present(0, PAGES), 0);
	use(0, PAGES);
	assert_int_equal(locked(), PAGES);
	/* Another mapping in the middle, which was only read: a write would still fault. */
	map_at(memory + 20 * page, 4);
	assert_int_equal(memory[20 * page] + memory[22 * page], 0);
	assert_int_equal(locked(), PAGES - 4);
	use(19, 3);
	assert_int_equal(locked(), PAGES - 2);
	use(0, PAGES);
	assert_int_equal(locked(), PAGES);
	/* The kernel does not drop locked pages... */
	assert_int_equal(madvise(memory, page, MADV_DONTNEED), -1);
	/* ...unless they are unlocked first, or with MADV_DONTNEED_LOCKED (Linux 5.18). */
	assert_int_equal(syscall(SYS_munlock, memory, 8 * page), 0);
	assert_int_equal(madvise(memory, 8 * page, MADV_DONTNEED), 0);
	madvise(memory + 30 * page, 8 * page, 24 /* MADV_DONTNEED_LOCKED */);
	assert_in_range(present(0, PAGES), PAGES - 16, PAGES - 8);
	use(0, PAGES);
	assert_int_equal(locked(), PAGES);
	/* Moved: the lock moves too, and its old address has another mapping. */
	elsewhere = mremap(memory + 32 * page, 16 * page, 16 * page, MREMAP_MAYMOVE | MREMAP_FIXED,
			   test_map(16 * page));
	assert_ptr_not_equal(elsewhere, MAP_FAILED);
	map_at(memory + 32 * page, 16);
	use(0, PAGES);
	assert_int_equal(locked(), PAGES + 16);
	munmap(elsewhere, 16 * page);
	/* With holes, the other pages are unlocked all the same. */
	munmap(memory + 3 * page, page);
	munmap(memory + 11 * page, 7 * page);
	munmap(memory + 40 * page, 20 * page);
	assert_int_equal(locked(), PAGES - 28);
	end();
}

/* A transfer into a new mapping at a cached address arrives there. */
static void test_cache_transfer(void **state)
{
	uint8_t *source = test_map(PAGES * page);
	char address[PF_ADDRESS_MAX];
	size_t length = sizeof(address);
	struct registration *here, *there;
	pf_context *context;
	pf_peer *self;
	unsigned round;

	begin(REGISTRATION_PIN_CACHE);
	assert_ok(pf_open(NULL, NULL, &context));
	assert_ok(pf_address(context, address, &length));
	assert_ok(pf_peer_open(context, address, length, NULL, &self));
	for (round = 0; round < 20; round++) {
		pattern_fill(source, PAGES * page, round);
		assert_ok(registration_add(&registrations, source, PAGES * page, 1, &here));
		there = hold(0, PAGES);
		assert_true(pf_put(self, source, (uintptr_t)memory, PAGES * page, 0, NULL, NULL) >=
			    0);
		assert_ok(pf_flush(context, NULL, PF_FOREVER));
		registration_remove(&registrations, here);
		registration_remove(&registrations, there);
		assert_pattern(memory, PAGES * page, round);
		map_at(memory, PAGES);
	}
	pf_close(context);
	end();
	munmap(source, PAGES * page);
}

#ifndef __SANITIZE_THREAD__ /* whose mlock does nothing, and whose own memory faults */

/* After a fork, pages are shared until they are written. */
static void test_fork(void **state)
{
	struct registration *held;
	struct rusage before, after;
	int pipes[2], status;
	char word = 0;
	pid_t child;
	size_t i;

	begin(REGISTRATION_PIN_CACHE);
	held = hold(0, PAGES);
	assert_int_equal(pipe(pipes), 0);
	memset(memory, 1, PAGES * page);
	child = fork();
	assert_true(child >= 0);
	if (!child) {
		/* Locks are not inherited; the bytes are, whatever the parent writes. */
		close(pipes[1]);
		_exit(read(pipes[0], &word, 1) == 0 && locked() == 0 && memory[0] == 1 ? 0 : 1);
	}
	close(pipes[0]);
	assert_int_equal(locked(), PAGES);
	use(0, PAGES);
	/* The registration has copied every page: writing does not fault. */
	getrusage(RUSAGE_THREAD, &before);
	for (i = 0; i < PAGES; i++)
		memory[i * page] = 2;
	getrusage(RUSAGE_THREAD, &after);
	assert_true(after.ru_minflt - before.ru_minflt < PAGES / 2);
	close(pipes[1]);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	registration_remove(&registrations, held);
	end();
}

/* Without CAP_IPC_LOCK a limit applies. */
static void set_capability(bool on)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];
	const uint32_t bit = 1u << CAP_IPC_LOCK;

	assert_int_equal(syscall(SYS_capget, &header, data), 0);
	data[0].effective = on ? data[0].effective | (data[0].permitted & bit) :
				 data[0].effective & ~bit;
	assert_int_equal(syscall(SYS_capset, &header, data), 0);
}

static void limit(size_t pages)
{
	struct rlimit limit;

	assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &limit), 0);
	limit.rlim_cur = pages * page;
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
}

static struct rlimit limit_before;

static int set_limit(void **state)
{
	getrlimit(RLIMIT_MEMLOCK, &limit_before);
	return 0;
}

static int reset_limit(void **state)
{
	setrlimit(RLIMIT_MEMLOCK, &limit_before);
	set_capability(true);
	return 0;
}

static void test_limit(void **state)
{
	struct registration *held;
	enum registration_mode mode;

	for (mode = REGISTRATION_PIN; mode <= REGISTRATION_PIN_CACHE; mode++) {
		reset_limit(state);
		begin(mode);
		set_capability(false);
		limit(8);
		expect_status(memory, 9 * page, 1, PF_ERR_MEMORY);
		assert_int_equal(locked(), 0);
		held = hold(0, 8);
		expect_status(memory + 20 * page, page, 1, PF_ERR_MEMORY);
		/* A hole is not reported as a limit. */
		expect_status((void *)page, page, 0, PF_ERR_FAULT);
		assert_int_equal(locked(), 8);
		registration_remove(&registrations, held);
		use(20, 1);
		limit(0);
		expect_status(memory + 30 * page, page, 1, PF_ERR_MEMORY);
		end();
	}
}

/* At the limit the cache removes ranges to make room. */
static void test_limit_evicts(void **state)
{
	size_t i;

	begin(REGISTRATION_PIN_CACHE);
	set_capability(false);
	limit(8);
	for (i = 0; i + 3 <= PAGES; i++) {
		use(i, 3);
		assert_in_range(locked(), 3, 8);
	}
	use(0, 8);
	assert_int_equal(locked(), 8);
	end();
}

#endif

static int set_up(void **state)
{
	page = (size_t)sysconf(_SC_PAGESIZE);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fault_mode),
		cmocka_unit_test(test_prefault_mode),
		cmocka_unit_test(test_arguments),
		cmocka_unit_test(test_pin_mode),
		cmocka_unit_test(test_overlap),
		cmocka_unit_test(test_cache),
		cmocka_unit_test(test_cache_bounds),
		cmocka_unit_test(test_cache_changed),
		cmocka_unit_test(test_cache_transfer),
#ifndef __SANITIZE_THREAD__
		cmocka_unit_test(test_fork),
		cmocka_unit_test_setup_teardown(test_limit, set_limit, reset_limit),
		cmocka_unit_test_setup_teardown(test_limit_evicts, set_limit, reset_limit),
#endif
	};

	return cmocka_run_group_tests_name("registration", tests, set_up, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registration in each mode: what is locked, as the kernel counts it (VmLck),
 * and what is present, after registrations that overlap, limits, and memory
 * that changed under the cache.
 */
#include "unit.h"

#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "context/context.h"

#define PAGES 64

static size_t page;

static pf_context *open_mode(enum pf_mode mode)
{
	pf_context *context;
	pf_options options;

	pf_options_init(&options, NULL);
	options.mode = mode;
	assert_ok(pf_open(&options, &context));
	return context;
}

static uint8_t *map_at(void *address, size_t pages)
{
	int fixed = address ? MAP_FIXED_NOREPLACE : 0;
	uint8_t *memory = mmap(address, pages * page, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | fixed, -1, 0);

	assert_ptr_not_equal(memory, MAP_FAILED);
	if (address)
		assert_ptr_equal(memory, address);
	/* So that one page can come or go without 511 others. */
	madvise(memory, pages * page, MADV_NOHUGEPAGE);
	return memory;
}

/* A test of locks says nothing where no page may be locked (ulimit -l 0, no CAP_IPC_LOCK). */
static void needs_locks(void)
{
	uint8_t *memory = map_at(NULL, 2 * PAGES);
	long status = syscall(SYS_mlock, memory, 2 * PAGES * page);

	munmap(memory, 2 * PAGES * page);
	if (status < 0)
		skip();
}

/* Pages that the kernel counts as locked. */
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

static size_t present(const uint8_t *memory, size_t pages)
{
	unsigned char map[4 * PAGES];
	size_t i, count = 0;

	assert_true(pages <= sizeof(map));
	assert_int_equal(mincore((void *)memory, pages * page, map), 0);
	for (i = 0; i < pages; i++)
		count += map[i] & 1;
	return count;
}

static pf_registration *registered(pf_context *context, uint8_t *memory, size_t pages)
{
	pf_registration *registration;

	assert_ok(pf_register(context, memory, pages * page, 1, &registration));
	assert_non_null(registration);
	assert_int_equal(present(memory, pages), pages);
	return registration;
}

/* A macro, so that a failure names its line. */
#define expect_status(context, memory, length, write, status)                                      \
	do {                                                                                       \
		pf_registration *none_ = (void *)1;                                                \
		assert_int_equal(pf_register(context, memory, length, write, &none_), status);     \
		assert_null(none_);                                                                \
	} while (0)

static void test_fault_mode(void **state)
{
	pf_context *context = open_mode(PF_MODE_FAULT);
	uint8_t *memory = map_at(NULL, PAGES);

	expect_status(context, memory, PAGES * page, 1, PF_DONE);
	expect_status(context, NULL, SIZE_MAX, 1, PF_DONE);
	assert_int_equal(present(memory, PAGES), 0);
	assert_int_equal(locked(), 0);
	pf_deregister(context, NULL);
	pf_close(context);
	munmap(memory, PAGES * page);
}

static void test_prefault_mode(void **state)
{
	pf_context *context = open_mode(PF_MODE_PREFAULT);
	uint8_t *memory = map_at(NULL, PAGES);

	/* From the middle of a page to the middle of another. */
	expect_status(context, memory + page + page / 2, 3 * page, 1, PF_OK);
	assert_int_equal(present(memory, PAGES), 4);
	assert_int_equal(present(memory + page, 4), 4);
	expect_status(context, memory, PAGES * page, 1, PF_OK);
	assert_int_equal(present(memory, PAGES), PAGES);
	assert_int_equal(locked(), 0);
	assert_int_equal(pf_stat(context, PF_STAT_PREFAULT_BYTES), (3 + PAGES) * page);
	pf_close(context);
	munmap(memory, PAGES * page);
}

/* In all three modes that do something. */
static void test_arguments(void **state)
{
	enum pf_mode mode;

	needs_locks();
	for (mode = PF_MODE_PREFAULT; mode <= PF_MODE_PIN_CACHE; mode++) {
		pf_context *context = open_mode(mode);
		uint8_t *memory = map_at(NULL, PAGES);
		pf_registration *registration;

		expect_status(context, memory, 0, 1, PF_DONE);
		expect_status(context, (void *)page, page, 0, PF_ERR_FAULT);
		expect_status(context, (void *)UINTPTR_MAX, 1, 0, PF_ERR_FAULT);
		expect_status(context, memory, SIZE_MAX - page, 0, PF_ERR_FAULT);
		expect_status(context, memory, SIZE_MAX, 0, PF_ERR_FAULT);
		/* A hole in the middle: what comes before it does not stay locked. */
		munmap(memory + 9 * page, page);
		expect_status(context, memory, PAGES * page, 1, PF_ERR_FAULT);
		assert_int_equal(locked(), 0);
		/* Memory that may only be read can only be read from. */
		mprotect(memory, 9 * page, PROT_READ);
		expect_status(context, memory, page, 1, PF_ERR_FAULT);
		assert_int_equal(locked(), 0);
		assert_ok(pf_register(context, memory, page, 0, &registration));
		pf_deregister(context, registration);
		pf_close(context);
		munmap(memory, PAGES * page);
	}
}

static void test_pin_mode(void **state)
{
	pf_context *context = open_mode(PF_MODE_PIN);
	uint8_t *memory = map_at(NULL, PAGES);
	pf_registration *registration;

	needs_locks();
	registration = registered(context, memory, PAGES);
	assert_int_equal(locked(), PAGES);
	pf_deregister(context, registration);
	assert_int_equal(locked(), 0);
	assert_ok(pf_register(context, memory + page - 1, 2, 1, &registration));
	assert_int_equal(locked(), 2);
	assert_int_equal(pf_stat(context, PF_STAT_PIN_BYTES), PAGES * page + 2);
	/* pf_close unlocks what was not deregistered. */
	pf_close(context);
	assert_int_equal(locked(), 0);
	munmap(memory, PAGES * page);
}

/* Random ranges against a count for every page. */
static void test_overlap(void **state)
{
	struct random_numbers numbers = random_start("overlapping registrations");
	pf_context *context = open_mode(PF_MODE_PIN);
	uint8_t *memory = map_at(NULL, PAGES);
	struct {
		pf_registration *registration;
		size_t first, count;
	} held[12] = { 0 };
	unsigned counts[PAGES] = { 0 };
	size_t round, i, expected;

	needs_locks();
	for (round = 0; round < REPEAT(2000); round++) {
		size_t which = random_below(&numbers, 12);

		if (held[which].registration) {
			pf_deregister(context, held[which].registration);
			held[which].registration = NULL;
			for (i = 0; i < held[which].count; i++)
				counts[held[which].first + i]--;
		} else {
			held[which].first = random_below(&numbers, PAGES);
			held[which].count = 1 + random_below(&numbers, PAGES - held[which].first);
			held[which].registration = registered(
				context, memory + held[which].first * page, held[which].count);
			for (i = 0; i < held[which].count; i++)
				counts[held[which].first + i]++;
		}
		for (i = 0, expected = 0; i < PAGES; i++)
			expected += counts[i] > 0;
		assert_int_equal(locked(), expected);
	}
	pf_close(context);
	assert_int_equal(locked(), 0);
	munmap(memory, PAGES * page);
}

static void test_cache(void **state)
{
	pf_context *context = open_mode(PF_MODE_PIN_CACHE);
	uint8_t *memory = map_at(NULL, PAGES);
	pf_registration *whole, *part;

	needs_locks();
	whole = registered(context, memory, PAGES);
	pf_deregister(context, whole);
	assert_int_equal(locked(), PAGES);
	/* What lies within is found, and used by two it is still one. */
	part = registered(context, memory + page, 3);
	assert_ptr_equal(part, whole);
	assert_ptr_equal(registered(context, memory, PAGES), whole);
	pf_deregister(context, part);
	pf_deregister(context, whole);
	assert_int_equal(locked(), PAGES);
	assert_int_equal(pf_stat(context, PF_STAT_PIN_CACHE_BYTES), (2 * PAGES + 3) * page);
	pf_close(context);
	assert_int_equal(locked(), 0);
	munmap(memory, PAGES * page);
}

/* Bytes, and ranges: the one that was used the longest ago goes. */
static void test_cache_bounds(void **state)
{
	pf_context *context = open_mode(PF_MODE_PIN_CACHE);
	uint8_t *memory = map_at(NULL, PAGES);
	pf_registration *used;
	size_t i;

	needs_locks();
	context->registrations.cache_bytes = 6 * page;
	/* The first two overlap: of the first, one page goes when it goes, for the other is kept. */
	pf_deregister(context, registered(context, memory, 2));
	pf_deregister(context, registered(context, memory + page, 2));
	assert_int_equal(locked(), 3);
	pf_deregister(context, registered(context, memory + 10 * page, 2));
	assert_int_equal(locked(), 5);
	pf_deregister(context, registered(context, memory + 20 * page, 1));
	assert_int_equal(locked(), 5);
	assert_int_equal(context->registrations.cached, 5 * page);
	/* What is in use is no part of it. */
	used = registered(context, memory + 30 * page, 30);
	assert_int_equal(locked(), 35);
	pf_deregister(context, used);
	assert_int_equal(locked(), 0);

	context->registrations.cache_bytes = PAGES * page;
	context->registrations.cache_ranges = 4;
	for (i = 0; i < 10; i++) {
		pf_deregister(context, registered(context, memory + 2 * i * page, 1));
		/* Used all the time, so it stays. */
		pf_deregister(context, registered(context, memory, 1));
		assert_true(locked() <= 4);
	}
	assert_int_equal(context->registrations.cached_ranges, 4);
	assert_int_equal(locked(), 4);
	pf_close(context);
	assert_int_equal(locked(), 0);
	munmap(memory, PAGES * page);
}

/* The application changes what is mapped at a cached address, in each way there is. */
static void test_cache_changed(void **state)
{
	pf_context *context = open_mode(PF_MODE_PIN_CACHE);
	uint8_t *memory = map_at(NULL, PAGES), *elsewhere;

	needs_locks();
	pf_deregister(context, registered(context, memory, PAGES));
	/* Gone. */
	munmap(memory, PAGES * page);
	assert_int_equal(locked(), 0);
	expect_status(context, memory, PAGES * page, 1, PF_ERR_FAULT);
	/* Another mapping at the same address, before anybody else takes it. */
	memory = map_at(NULL, PAGES);
	assert_int_equal(locked(), 0);
	pf_deregister(context, registered(context, memory, PAGES));
	munmap(memory, PAGES * page);
	map_at(memory, PAGES);
	assert_int_equal(present(memory, PAGES), 0);
	pf_deregister(context, registered(context, memory, PAGES));
	assert_int_equal(locked(), PAGES);
	/* Another in the middle, there but only read so far: writing would still meet a fault. */
	assert_ptr_equal(mmap(memory + 20 * page, 4 * page, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
			 memory + 20 * page);
	assert_int_equal(memory[20 * page] + memory[22 * page], 0);
	assert_int_equal(locked(), PAGES - 4);
	pf_deregister(context, registered(context, memory + 19 * page, 3));
	assert_int_equal(locked(), PAGES - 2);
	pf_deregister(context, registered(context, memory, PAGES));
	assert_int_equal(locked(), PAGES);
	/* The kernel does not drop locked pages... */
	assert_int_equal(madvise(memory, page, MADV_DONTNEED), -1);
	/* ...unless the application unlocks them before, or says that it knows (Linux 5.18). */
	assert_int_equal(syscall(SYS_munlock, memory, 8 * page), 0);
	assert_int_equal(madvise(memory, 8 * page, MADV_DONTNEED), 0);
	madvise(memory + 30 * page, 8 * page, 24 /* MADV_DONTNEED_LOCKED */);
	assert_in_range(present(memory, PAGES), PAGES - 16, PAGES - 8);
	pf_deregister(context, registered(context, memory, PAGES));
	assert_int_equal(locked(), PAGES);
	/* Moved: the lock goes with it, and where it was there is another mapping. */
	elsewhere = mremap(memory + 32 * page, 16 * page, 16 * page, MREMAP_MAYMOVE | MREMAP_FIXED,
			   map_at(NULL, 16));
	assert_ptr_not_equal(elsewhere, MAP_FAILED);
	map_at(memory + 32 * page, 16);
	pf_deregister(context, registered(context, memory, PAGES));
	assert_int_equal(locked(), PAGES + 16);
	munmap(elsewhere, 16 * page);
	/* Holes everywhere: what is left is unlocked all the same. */
	munmap(memory + 3 * page, page);
	munmap(memory + 11 * page, 7 * page);
	munmap(memory + 40 * page, 20 * page);
	assert_int_equal(locked(), PAGES - 28);
	pf_close(context);
	assert_int_equal(locked(), 0);
	munmap(memory, PAGES * page);
}

/* A transfer into memory that was mapped anew at a cached address arrives there. */
static void test_cache_transfer(void **state)
{
	pf_context *context = open_mode(PF_MODE_PIN_CACHE);
	uint8_t *memory = map_at(NULL, PAGES), *source = map_at(NULL, PAGES);
	char address[PF_ADDRESS_MAX];
	size_t length = sizeof(address);
	pf_registration *here, *there;
	pf_peer *self;
	unsigned round;

	needs_locks();
	assert_ok(pf_address(context, address, &length));
	assert_ok(pf_peer_open(context, address, length, NULL, &self));
	for (round = 0; round < 20; round++) {
		pattern_fill(source, PAGES * page, round);
		here = registered(context, source, PAGES);
		there = registered(context, memory, PAGES);
		assert_true(pf_put(self, source, (uintptr_t)memory, PAGES * page, NULL, NULL) >= 0);
		assert_ok(pf_flush(context, NULL));
		pf_deregister(context, here);
		pf_deregister(context, there);
		assert_pattern(memory, PAGES * page, round);
		munmap(memory, PAGES * page);
		map_at(memory, PAGES);
	}
	pf_close(context);
	munmap(memory, PAGES * page);
	munmap(source, PAGES * page);
}

/* After a fork pages are shared until they are written to. */
static __attribute__((unused)) void test_fork(void **state)
{
	pf_context *context = open_mode(PF_MODE_PIN_CACHE);
	uint8_t *memory = map_at(NULL, PAGES);
	pf_registration *held;
	struct rusage before, after;
	int pipes[2], status;
	char word = 0;
	pid_t child;
	size_t i;

	needs_locks();
	held = registered(context, memory, PAGES);
	assert_int_equal(pipe(pipes), 0);
	memset(memory, 1, PAGES * page);
	child = fork();
	assert_true(child >= 0);
	if (!child) {
		/* Locks are not inherited, the bytes are, whatever the parent writes. */
		close(pipes[1]);
		_exit(read(pipes[0], &word, 1) == 0 && locked() == 0 && memory[0] == 1 ? 0 : 1);
	}
	close(pipes[0]);
	assert_int_equal(locked(), PAGES);
	pf_deregister(context, registered(context, memory, PAGES));
	/* Every page is ours alone again: writing meets no fault. */
	getrusage(RUSAGE_THREAD, &before);
	for (i = 0; i < PAGES; i++)
		memory[i * page] = 2;
	getrusage(RUSAGE_THREAD, &after);
	assert_true(after.ru_minflt - before.ru_minflt < PAGES / 2);
	close(pipes[1]);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	pf_deregister(context, held);
	pf_close(context);
	assert_int_equal(locked(), 0);
	munmap(memory, PAGES * page);
}

/* With CAP_IPC_LOCK there is no limit. */
static void permit_ignoring_limit(bool permit)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];
	const uint32_t bit = 1u << CAP_IPC_LOCK;

	assert_int_equal(syscall(SYS_capget, &header, data), 0);
	data[0].effective = permit ? data[0].effective | (data[0].permitted & bit) :
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

static __attribute__((unused)) int set_limit(void **state)
{
	static struct rlimit before;

	getrlimit(RLIMIT_MEMLOCK, &before);
	*state = &before;
	permit_ignoring_limit(false);
	return 0;
}

static __attribute__((unused)) int reset_limit(void **state)
{
	setrlimit(RLIMIT_MEMLOCK, *state);
	permit_ignoring_limit(true);
	return 0;
}

static __attribute__((unused)) void test_limit(void **state)
{
	uint8_t *memory = map_at(NULL, PAGES);
	pf_registration *held;
	enum pf_mode mode;

	needs_locks();
	for (mode = PF_MODE_PIN; mode <= PF_MODE_PIN_CACHE; mode++) {
		pf_context *context = open_mode(mode);

		limit(8);
		expect_status(context, memory, 9 * page, 1, PF_ERR_MEMORY);
		assert_int_equal(locked(), 0);
		held = registered(context, memory, 8);
		expect_status(context, memory + 20 * page, page, 1, PF_ERR_MEMORY);
		/* No hole is taken for a limit, nor the other way round. */
		expect_status(context, (void *)page, page, 0, PF_ERR_FAULT);
		assert_int_equal(locked(), 8);
		pf_deregister(context, held);
		held = registered(context, memory + 20 * page, 1);
		pf_deregister(context, held);
		limit(0);
		expect_status(context, memory + 30 * page, page, 1, PF_ERR_MEMORY);
		pf_close(context);
		assert_int_equal(locked(), 0);
	}
	munmap(memory, PAGES * page);
}

/* Where the limit is less than what passes through the cache, it makes room. */
static __attribute__((unused)) void test_limit_evicts(void **state)
{
	pf_context *context = open_mode(PF_MODE_PIN_CACHE);
	uint8_t *memory = map_at(NULL, PAGES);
	size_t i;

	needs_locks();
	limit(8);
	for (i = 0; i + 3 <= PAGES; i++) {
		pf_deregister(context, registered(context, memory + i * page, 3));
		assert_in_range(locked(), 3, 8);
	}
	/* Three at a time fit, with the last two of them kept when the third came. */
	pf_deregister(context, registered(context, memory, 8));
	assert_int_equal(locked(), 8);
	pf_close(context);
	assert_int_equal(locked(), 0);
	munmap(memory, PAGES * page);
}

static int set_up(void **state)
{
	page = (size_t)sysconf(_SC_PAGESIZE);
	unsetenv("PF_MODE");
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
#ifndef __SANITIZE_THREAD__ /* whose mlock does nothing, and whose own memory faults */
		cmocka_unit_test(test_fork),
		cmocka_unit_test_setup_teardown(test_limit, set_limit, reset_limit),
		cmocka_unit_test_setup_teardown(test_limit_evicts, set_limit, reset_limit),
#endif
	};

	return cmocka_run_group_tests_name("registration", tests, set_up, NULL);
}

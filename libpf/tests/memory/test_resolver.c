/* SPDX-License-Identifier: BSD-3-Clause */
/* Which thread resolves what: a resolution that takes long delays no other one. */
#include "unit.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/page.h"
#include "memory/resolver.h"

#define PAGES 4
/* UFFD_USER_MODE_ONLY of Linux 5.11; the headers of the build may be older. */
#define USER_MODE_ONLY 1
/* Of Linux 5.14. */
#define POPULATE_READ 22
#define POPULATE_WRITE 23

/* A kernel that tells that swap is in use, and one whose MADV_POPULATE_* does nothing. */
static struct {
	_Atomic bool swaps;
	_Atomic bool lies;
	_Atomic unsigned touches; /* calls of MADV_POPULATE_* while it lies */
} kernel;

/* The linker puts these in the place of the C library's functions. */
int __real_madvise(void *address, size_t length, int advice);
int __wrap_madvise(void *address, size_t length, int advice);
int __real_sysinfo(struct sysinfo *info);
int __wrap_sysinfo(struct sysinfo *info);

int __wrap_madvise(void *address, size_t length, int advice)
{
	if (!kernel.lies || (advice != POPULATE_READ && advice != POPULATE_WRITE))
		return __real_madvise(address, length, advice);
	kernel.touches++;
	return 0;
}

int __wrap_sysinfo(struct sysinfo *info)
{
	int status = __real_sysinfo(info);

	if (kernel.swaps) {
		info->totalswap = 2;
		info->freeswap = 1;
	}
	return status;
}

struct fixture {
	struct pagers pagers;
	struct residency residency;
	struct activity activity;
	struct pace pace;
	struct resolver resolver;
	char *pages;
};

struct asked {
	struct resolution resolution;
	sem_t *wait; /* for this, at its end, as a resolution that takes long; NULL: for nothing */
	sem_t done;
	unsigned order;
};

static void done(struct resolution *resolution)
{
	struct asked *asked = (struct asked *)resolution;

	if (asked->wait)
		sem_wait(asked->wait);
	sem_post(&asked->done);
}

/* With memory of that mapping. */
static void fixture_open_mapped(struct fixture *fixture, char *pages)
{
	assert_ptr_not_equal(pages, MAP_FAILED);
	*fixture = (struct fixture){ .pages = pages };
	pagers_init(&fixture->pagers, NULL, NULL);
	residency_open(&fixture->residency, getpid(), 0, NULL);
	pace_init(&fixture->pace, 100, &fixture->activity);
	resolver_init(&fixture->resolver, &fixture->pagers, &fixture->residency, &fixture->pace,
		      PF_POLICY_TOUCH, NULL);
}

static void fixture_open(struct fixture *fixture)
{
	fixture_open_mapped(fixture, mmap(NULL, PAGES * page_size(), PROT_READ | PROT_WRITE,
					  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}

static void fixture_close(struct fixture *fixture)
{
	resolver_destroy(&fixture->resolver);
	pace_destroy(&fixture->pace);
	residency_close(&fixture->residency);
	pagers_destroy(&fixture->pagers);
	munmap(fixture->pages, PAGES * page_size());
}

static void submit(struct fixture *fixture, struct asked *asked, unsigned page, sem_t *wait)
{
	*asked = (struct asked){
		.resolution = { .address = (uint64_t)(uintptr_t)fixture->pages + page * page_size(),
				.length = page_size(),
				.write = true,
				.done = done },
		.wait = wait,
	};
	sem_init(&asked->done, 0, 0);
	resolver_submit(&fixture->resolver, &asked->resolution);
}

static void submit_for(struct fixture *fixture, struct asked *asked, uint64_t asker,
		       void (*when_done)(struct resolution *resolution))
{
	*asked = (struct asked){
		.resolution = { .asker = asker,
				.address = (uint64_t)(uintptr_t)fixture->pages + page_size(),
				.length = page_size(),
				.done = when_done },
	};
	sem_init(&asked->done, 0, 0);
	resolver_submit(&fixture->resolver, &asked->resolution);
}

static unsigned queued(struct resolver *resolver)
{
	unsigned count;

	pthread_mutex_lock(&resolver->lock);
	count = resolver->queued;
	pthread_mutex_unlock(&resolver->lock);
	return count;
}

static bool idles(struct resolver *resolver)
{
	bool idle;

	pthread_mutex_lock(&resolver->lock);
	idle = resolver->idle == 1;
	pthread_mutex_unlock(&resolver->lock);
	return idle;
}

/* The calling thread maps pages of the page cache; a resolver thread does what may wait. */
static void test_cached(void **state)
{
	const size_t length = PAGES * page_size();
	char path[] = "/var/tmp/libpf-test-XXXXXX";
	int file = mkstemp(path);
	struct fixture fixture;
	struct asked asked;
	struct stat status;

	assert_true(file >= 0);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(ftruncate(file, (off_t)length), 0);
	assert_int_equal(pwrite(file, "x", 1, (off_t)page_size()), 1);
	/* QEMU's emulator of programs shows the mappings that there were at its opening. */
	fixture_open_mapped(&fixture,
			    mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
	assert_int_equal(fstat(file, &status), 0);
	if (major(status.st_dev)) {
		submit_for(&fixture, &asked, 1, done);
		sem_wait(&asked.done);
		assert_int_equal(fixture.resolver.started, 0);
		assert_int_equal(asked.resolution.status, PF_OK);
		/* Other pages of the file may need the disk. */
		assert_int_equal(asked.resolution.kind, FAULT_MAJOR);
		assert_int_equal(fixture.pages[page_size()], 'x');
	} else {
		print_message("# %s is on no disk\n", path);
	}
	submit(&fixture, &asked, 1, NULL);
	assert_int_equal(fixture.resolver.started, 1);
	sem_wait(&asked.done);
	assert_int_equal(asked.resolution.status, PF_OK);
	fixture_close(&fixture);
	/* Shared memory: a userfaultfd may keep its pages. */
	fixture_open_mapped(&fixture, mmap(NULL, length, PROT_READ | PROT_WRITE,
					   MAP_SHARED | MAP_ANONYMOUS, -1, 0));
	fixture.pages[0] = fixture.pages[page_size()] = 'y';
	assert_false(residency_maps_cache(&fixture.residency, (uintptr_t)fixture.pages, 1));
	fixture_close(&fixture);
	close(file);
}

static struct resolver *stopping_resolver;

static void done_when_stopping(struct resolution *resolution)
{
	bool stopping = false;

	while (!stopping) {
		pthread_mutex_lock(&stopping_resolver->lock);
		stopping = stopping_resolver->stopping;
		pthread_mutex_unlock(&stopping_resolver->lock);
		usleep(100);
	}
	sem_post(&((struct asked *)resolution)->done);
}

/* What no thread has begun when the context closes is dropped, which is no fault of the memory. */
static void test_dropped(void **state)
{
	struct asked busy[RESOLVER_THREADS], late;
	struct fixture fixture;
	unsigned i;

	fixture_open(&fixture);
	stopping_resolver = &fixture.resolver;
	for (i = 0; i < RESOLVER_THREADS; i++)
		submit_for(&fixture, &busy[i], 1, done_when_stopping);
	while (queued(&fixture.resolver))
		sched_yield();
	submit_for(&fixture, &late, 2, done);
	fixture_close(&fixture);
	for (i = 0; i < RESOLVER_THREADS; i++)
		assert_false(busy[i].resolution.dropped);
	assert_int_equal(sem_trywait(&late.done), 0);
	assert_true(late.resolution.dropped);
}

/* Two resolutions are submitted before the one idle thread runs: each gets a thread. */
static void test_two_at_once(void **state)
{
	struct asked first, slow, quick;
	struct fixture fixture;
	struct timespec until;
	unsigned round;
	sem_t release;
	bool late;

	(void)state;
	sem_init(&release, 0, 0);
	/* The thread may run between the two by chance, but not in every round. */
	for (round = 0; round < 50; round++) {
		fixture_open(&fixture);
		submit(&fixture, &first, 0, NULL);
		while (!idles(&fixture.resolver))
			sched_yield();
		submit(&fixture, &slow, 1, &release);
		submit(&fixture, &quick, 2, NULL);
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_sec += 10;
		late = sem_timedwait(&quick.done, &until) != 0;
		sem_post(&release);
		fixture_close(&fixture);
		assert_false(late);
		assert_int_equal(slow.resolution.status, PF_OK);
		assert_int_equal(quick.resolution.status, PF_OK);
	}
}

/* What is queued when the resolver ends is an error, and done all the same. */
static void test_end(void **state)
{
	struct asked slow[RESOLVER_THREADS], queued;
	struct fixture fixture;
	sem_t release;
	unsigned i;

	(void)state;
	sem_init(&release, 0, 0);
	fixture_open(&fixture);
	for (i = 0; i < RESOLVER_THREADS; i++)
		submit(&fixture, &slow[i], 0, &release);
	submit(&fixture, &queued, 1, NULL);
	assert_int_not_equal(sem_trywait(&queued.done), 0);
	pthread_mutex_lock(&fixture.resolver.lock);
	fixture.resolver.stopping = true;
	pthread_mutex_unlock(&fixture.resolver.lock);
	for (i = 0; i < RESOLVER_THREADS; i++)
		sem_post(&release);
	fixture_close(&fixture);
	assert_int_equal(sem_trywait(&queued.done), 0);
	assert_int_equal(queued.resolution.status, PF_ERR_FAULT);
	assert_true(queued.resolution.failed == queued.resolution.address);
}

/* Resolutions that ended, to number them by their order. */
static _Atomic unsigned ended;

static void done_in_order(struct resolution *resolution)
{
	struct asked *asked = (struct asked *)resolution;

	asked->order = ++ended;
	sem_post(&asked->done);
}

/* Askers have turns: one page fault of one does not wait for all of another that came before. */
static void test_askers(void **state)
{
	struct asked slow[RESOLVER_THREADS], many[20], one;
	struct fixture fixture;
	sem_t first, others;
	unsigned i;

	(void)state;
	sem_init(&first, 0, 0);
	sem_init(&others, 0, 0);
	fixture_open(&fixture);
	/* All threads are busy until the rest is queued. Then one of them resolves it. */
	for (i = 0; i < RESOLVER_THREADS; i++)
		submit(&fixture, &slow[i], 0, i ? &others : &first);
	while (queued(&fixture.resolver))
		sched_yield();
	for (i = 0; i < ARRAY_SIZE(many); i++)
		submit_for(&fixture, &many[i], 1, done_in_order);
	submit_for(&fixture, &one, 2, done_in_order);
	sem_post(&first);
	sem_wait(&one.done);
	sem_wait(&many[ARRAY_SIZE(many) - 1].done);
	assert_int_equal(one.order, 2);
	for (i = 1; i < ARRAY_SIZE(many); i++)
		assert_true(many[i - 1].order < many[i].order);
	for (i = 1; i < RESOLVER_THREADS; i++)
		sem_post(&others);
	fixture_close(&fixture);
}

/* A range that a peer made up is an error at once. */
static void test_bad_range(void **state)
{
	static const struct {
		uint64_t address, length;
	} ranges[] = { { 4096, 0 }, { 4096, RESOLVER_LENGTH_MAX + 1 }, { UINT64_MAX - 10, 100 } };
	struct asked asked;
	struct fixture fixture;
	size_t i;

	(void)state;
	fixture_open(&fixture);
	for (i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		asked = (struct asked){ .resolution = { .address = ranges[i].address,
							.length = ranges[i].length,
							.done = done } };
		sem_init(&asked.done, 0, 0);
		resolver_submit(&fixture.resolver, &asked.resolution);
		assert_int_equal(sem_trywait(&asked.done), 0);
		assert_int_equal(asked.resolution.status, PF_ERR_FAULT);
		assert_true(asked.resolution.failed == ranges[i].address);
	}
	assert_int_equal(fixture.resolver.started, 0);
	fixture_close(&fixture);
}

/* What mremap leaves when it grows memory out of a pager's range in place. */
static bool grow_out_of_pager(struct fixture *fixture)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register range = {
		.range = { (uintptr_t)fixture->pages, PAGES * page_size() },
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};
	int userfault = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | USER_MODE_ONLY);

	if (userfault < 0)
		return false;
	assert_int_equal(ioctl(userfault, UFFDIO_API, &api), 0);
	assert_int_equal(ioctl(userfault, UFFDIO_REGISTER, &range), 0);
	fixture->pagers.userfault = userfault;
	fixture->pagers.open = true;
	return true;
}

/*
 * Blocks that are not aligned share a page: two threads resolve it at once, and the one that
 * comes too late to fill it finds no error.
 */
static void test_shared_page(void **state)
{
	struct asked asked[RESOLVER_THREADS];
	struct fixture fixture;
	unsigned round, i;
	bool possible;

	(void)state;
	fixture_open(&fixture);
	possible = grow_out_of_pager(&fixture);
	for (round = 0; possible && round < 2000; round++) {
		madvise(fixture.pages, PAGES * page_size(), MADV_DONTNEED);
		for (i = 0; i < RESOLVER_THREADS; i++)
			submit(&fixture, &asked[i], round % PAGES, NULL);
		for (i = 0; i < RESOLVER_THREADS; i++)
			sem_wait(&asked[i].done);
		for (i = 0; i < RESOLVER_THREADS; i++)
			assert_int_equal(asked[i].resolution.status, PF_OK);
	}
	fixture_close(&fixture);
	if (!possible)
		skip(); /* the kernel does not permit userfaultfd */
}

/* Have shared memory for the pages; returns its address. */
static uint64_t share_pages(struct fixture *fixture)
{
	munmap(fixture->pages, PAGES * page_size());
	fixture->pages = mmap(NULL, PAGES * page_size(), PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(fixture->pages, MAP_FAILED);
	return (uint64_t)(uintptr_t)fixture->pages;
}

/*
 * Shared memory that is never touched, on a machine that uses swap: it may have to be read. If it looks
 * absent after it was resolved twice, it is accessed without a look; its neighbours are looked at.
 */
static void test_still_absent(void **state)
{
	const uint64_t page = page_size();
	struct fixture fixture;
	struct asked asked;
	uint64_t start, cold;

	(void)state;
	fixture_open(&fixture);
	start = share_pages(&fixture);
	kernel.touches = 0;
	kernel.swaps = true;
	kernel.lies = true;
	assert_int_equal(residency_look(&fixture.residency, start + page, page, &cold), 0);
	submit(&fixture, &asked, 1, NULL);
	sem_wait(&asked.done);
	assert_int_equal(asked.resolution.status, PF_OK);
	assert_int_equal(kernel.touches, 2);
	assert_int_equal(residency_look(&fixture.residency, start + page, page, &cold), page);
	assert_int_equal(residency_look(&fixture.residency, start + page, 2 * page, &cold), page);
	assert_int_equal(residency_look(&fixture.residency, start, page, &cold), 0);
	kernel.lies = false;
	kernel.swaps = false;
	fixture_close(&fixture);
}

/*
 * The same memory where MADV_POPULATE_* works: the first page shows that the others need not be read
 * either. A page in the page cache may have come from swap, and shows nothing.
 */
static void test_hole(void **state)
{
	const uint64_t page = page_size();
	struct fixture fixture;
	struct asked asked;
	uint64_t start, cold;

	(void)state;
	fixture_open(&fixture);
	fixture.residency.lifetime = 30000;
	start = share_pages(&fixture);
	kernel.swaps = true;
	fixture.pages[page] = 1;
	/* Present by now, as after another resolution: nothing is known of the file. */
	submit(&fixture, &asked, 1, NULL);
	sem_wait(&asked.done);
	assert_int_equal(asked.resolution.kind, FAULT_MAJOR);
	/* It leaves the page table, and stays in the page cache. */
	madvise(fixture.pages, PAGES * page, MADV_DONTNEED);
	submit(&fixture, &asked, 1, NULL);
	sem_wait(&asked.done);
	assert_int_equal(asked.resolution.status, PF_OK);
	assert_int_equal(asked.resolution.kind, FAULT_MAJOR);
	assert_int_equal(residency_look(&fixture.residency, start, page, &cold), 0);
	submit(&fixture, &asked, 2, NULL);
	sem_wait(&asked.done);
	assert_int_equal(asked.resolution.status, PF_OK);
	assert_int_equal(asked.resolution.kind, FAULT_MINOR);
	assert_int_equal(residency_look(&fixture.residency, start, page, &cold), page);
	assert_int_equal(cold, page);
	kernel.swaps = false;
	fixture_close(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cached),      cmocka_unit_test(test_dropped),
		cmocka_unit_test(test_two_at_once), cmocka_unit_test(test_askers),
		cmocka_unit_test(test_end),         cmocka_unit_test(test_bad_range),
		cmocka_unit_test(test_shared_page), cmocka_unit_test(test_still_absent),
		cmocka_unit_test(test_hole),
	};

	return cmocka_run_group_tests_name("resolver", tests, NULL, NULL);
}

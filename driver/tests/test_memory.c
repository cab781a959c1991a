// SPDX-License-Identifier: GPL-2.0
/*
 * Every kind of memory, on either side: what can be reached arrives whole, what
 * cannot is an error that names the side and such an address, and
 * nothing else happens.
 */
#include "device.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <linux/mman.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define LENGTH (3ul << 20)
#define HUGE (2ul << 20)
#define BLOCK 16384ul
/* Of transfers, one of which meets a page fault again and again. It took less than one. */
#define VANISH_SECONDS 60

static struct device device;
static struct partner partner;
static unsigned char *local;

static void start(unsigned int policy)
{
	struct device_options options = { .policy = policy };

	partner_start(&partner, &options);
	device_open(&device, &options);
	local = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(local != MAP_FAILED);
}

static void stop(void)
{
	device_close(&device);
	partner_stop(&partner);
}

static int put(uint64_t remote, size_t length)
{
	return device_transfer(&device, EXANEST_OP_PUT, partner.address, local, remote, length,
			       NULL);
}

static int get(uint64_t remote, size_t length)
{
	return device_transfer(&device, EXANEST_OP_GET, partner.address, local, remote, length,
			       NULL);
}

static uint64_t map_remote(size_t length, int protection)
{
	uint64_t remote = partner_ask(&partner, PARTNER_MAP, length, protection, 0);

	CHECK(remote != (uint64_t)-1);
	return remote;
}

/* The partner's memory takes what is put, and gives it back. */
static void round_trip(uint64_t remote, size_t length, uint64_t what)
{
	pattern_fill(local, length, what);
	CHECK_EQUAL(put(remote, length), 0);
	CHECK_EQUAL(partner_ask(&partner, PARTNER_DIFFERS, remote, length, what), length);
	memset(local, 0, length);
	CHECK_EQUAL(get(remote, length), 0);
	CHECK_EQUAL(pattern_differs(local, length, what), length);
}

static void untouched_with(unsigned int policy)
{
	struct exanest_statistics before, after;
	uint64_t remote;

	start(policy);
	remote = map_remote(LENGTH, PROT_READ | PROT_WRITE);
	/* Both sides absent; what was never written reads as zeros. */
	memset(local, 0x5a, LENGTH);
	CHECK_EQUAL(get(remote, LENGTH), 0);
	CHECK(!local[0] && !memcmp(local, local + 1, LENGTH - 1));
	CHECK(madvise(local, LENGTH, MADV_DONTNEED) == 0);
	round_trip(remote, LENGTH, 1);
	/* Warm: nothing is looked up any more. */
	before = device_statistics(&device);
	CHECK_EQUAL(put(remote, LENGTH), 0);
	CHECK_EQUAL(put(remote, LENGTH), 0);
	after = device_statistics(&device);
	CHECK_EQUAL(after.faults, before.faults);
	CHECK(after.blocks - before.blocks <= 2 * (LENGTH / 16384 + 2));
	stop();
}

static void untouched_touch(void)
{
	untouched_with(EXANEST_POLICY_TOUCH);
}

static void untouched_ahead(void)
{
	untouched_with(EXANEST_POLICY_AHEAD);
}

static void untouched_huge(void)
{
	untouched_with(EXANEST_POLICY_HUGE);
}

static void files(void)
{
	uint64_t remote;

	start(0);
	round_trip(partner_ask(&partner, PARTNER_FILE, LENGTH, 1, PROT_READ | PROT_WRITE), LENGTH,
		   1);
	round_trip(partner_ask(&partner, PARTNER_FILE, LENGTH, 0, PROT_READ | PROT_WRITE), LENGTH,
		   2);
	/* A read-only source is as good as any; a read-only destination is an error. */
	remote = partner_ask(&partner, PARTNER_FILE, LENGTH, 1, PROT_READ);
	CHECK_EQUAL(get(remote, LENGTH), 0);
	CHECK_EQUAL(put(remote, LENGTH), -EFAULT);
	stop();
}

/* A page shared after fork is copied before it is written, and the child's stays. */
static void copy_on_write(void)
{
	uint64_t remote;
	pid_t child;
	char name[64];
	unsigned char *page = malloc(LENGTH);
	int memory;

	start(0);
	if (partner_is_far(&partner))
		test_skip("what the child of a partner has is read in /proc");
	remote = map_remote(LENGTH, PROT_READ | PROT_WRITE);
	round_trip(remote, LENGTH, 1);
	child = partner_ask(&partner, PARTNER_FORK, 0, 0, 0);
	CHECK(child > 0);
	CHECK_EQUAL(get(remote, LENGTH), 0); /* translations without the permission to write */
	round_trip(remote, LENGTH, 2);
	snprintf(name, sizeof(name), "/proc/%d/mem", child);
	memory = open(name, O_RDONLY);
	CHECK(memory >= 0);
	CHECK(pread(memory, page, LENGTH, remote) == (ssize_t)LENGTH);
	CHECK_EQUAL(pattern_differs(page, LENGTH, 1), LENGTH);
	kill(child, SIGKILL);
	stop();
}

static void expect_fault(unsigned int op, const void *here, uint64_t there, size_t length,
			 unsigned int side, uint64_t address)
{
	struct exanest_completion completion;

	CHECK_EQUAL(device_transfer(&device, op, partner.address, here, there, length, &completion),
		    -EFAULT);
	CHECK_EQUAL(completion.fault_side, side);
	CHECK_EQUAL(completion.fault_address, address);
}

static void errors(void)
{
	unsigned char *here;
	uint64_t there;

	start(0);
	there = map_remote(LENGTH, PROT_READ | PROT_WRITE);
	round_trip(there, LENGTH, 1);

	/* Unmapped, in the middle, and at once. */
	partner_ask(&partner, PARTNER_UNMAP, there + 100 * PAGE, PAGE, 0);
	expect_fault(EXANEST_OP_PUT, local, there, LENGTH, EXANEST_SIDE_REMOTE, there + 100 * PAGE);
	expect_fault(EXANEST_OP_GET, local, there + 99 * PAGE + 5, 2 * PAGE, EXANEST_SIDE_REMOTE,
		     there + 100 * PAGE);
	expect_fault(EXANEST_OP_GET, local, there + 100 * PAGE + 7, 20, EXANEST_SIDE_REMOTE,
		     there + 100 * PAGE + 7);
	/* What does not touch it is none the worse. */
	CHECK_EQUAL(put(there, 100 * PAGE), 0);
	CHECK_EQUAL(put(there + 101 * PAGE, LENGTH - 101 * PAGE), 0);

	/* Read-only, and not even that. */
	partner_ask(&partner, PARTNER_PROTECT, there + 50 * PAGE, PAGE, PROT_READ);
	expect_fault(EXANEST_OP_PUT, local, there, 60 * PAGE, EXANEST_SIDE_REMOTE,
		     there + 50 * PAGE);
	CHECK_EQUAL(get(there, 60 * PAGE), 0);
	partner_ask(&partner, PARTNER_PROTECT, there + 50 * PAGE, PAGE, PROT_NONE);
	expect_fault(EXANEST_OP_GET, local, there, 60 * PAGE, EXANEST_SIDE_REMOTE,
		     there + 50 * PAGE);

	/* The same here. */
	here = mmap(NULL, 10 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK_EQUAL(device_transfer(&device, EXANEST_OP_PUT, partner.address, here, there,
				    10 * PAGE, NULL),
		    0);
	expect_fault(EXANEST_OP_GET, here, there, 10 * PAGE, EXANEST_SIDE_LOCAL, (uintptr_t)here);
	munmap(here, 10 * PAGE);
	expect_fault(EXANEST_OP_GET, here + 3, there, 10, EXANEST_SIDE_LOCAL, (uintptr_t)here + 3);

	/* Where there is nothing but the kernel, or not even an address. */
	expect_fault(EXANEST_OP_PUT, local, 0xffffffff81000000, 8, EXANEST_SIDE_REMOTE,
		     0xffffffff81000000);
	expect_fault(EXANEST_OP_GET, local, 0x7ffffffff000, 4096, EXANEST_SIDE_REMOTE,
		     0x7ffffffff000);
	expect_fault(EXANEST_OP_PUT, (void *)0x8000000000000000, there, 8, EXANEST_SIDE_LOCAL,
		     0x8000000000000000);
	expect_fault(EXANEST_OP_PUT, NULL, there, 8, EXANEST_SIDE_LOCAL, 0);
	CHECK_EQUAL(device_statistics(&device).fault_errors, 11);
	stop();
}

/* The first multiple of BLOCK from address on. */
static uint64_t block_behind(uint64_t address)
{
	return (address + BLOCK - 1) & ~(BLOCK - 1);
}

/*
 * Absent pages before the bad one of a block cost no transmission each. The one permitted is for a miss on the
 * local side. A miss brings in the translations of one span at most: local memory in two spans, where the
 * kernel may place it, would cost one more. A block at a multiple of BLOCK is in one.
 */
static void bad_behind_absent(void)
{
	unsigned char *here;
	uint64_t remote;

	if (PAGE >= BLOCK)
		test_skip("a block is in one page");
	start(EXANEST_POLICY_TOUCH);
	here = (unsigned char *)(uintptr_t)block_behind((uintptr_t)local);
	remote = block_behind(map_remote(2 * BLOCK, PROT_READ | PROT_WRITE));
	partner_ask(&partner, PARTNER_PROTECT, remote + BLOCK - PAGE, PAGE, PROT_NONE);
	memset(here, 1, BLOCK);
	expect_fault(EXANEST_OP_PUT, here, remote, BLOCK, EXANEST_SIDE_REMOTE,
		     remote + BLOCK - PAGE);
	CHECK(device_statistics(&device).retransmits <= 1);
	stop();
}

/*
 * Beyond the end of a file. The transfer is more than an engine is given at a time, and a later part of
 * it may meet the end before the first one does.
 */
static void end_of_file(void)
{
	const size_t unit = PAGE < BLOCK ? BLOCK : PAGE;
	unsigned char *here;
	FILE *file = tmpfile();
	uint64_t there;

	start(0);
	there = map_remote(LENGTH, PROT_READ | PROT_WRITE);
	CHECK(file && ftruncate(fileno(file), 5 * unit) == 0);
	here = mmap(NULL, 10 * unit, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
	CHECK(here != MAP_FAILED);
	expect_fault(EXANEST_OP_PUT, here, there, 10 * unit, EXANEST_SIDE_LOCAL,
		     (uintptr_t)here + 5 * unit);
	CHECK(ftruncate(fileno(file), 10 * unit) == 0);
	CHECK_EQUAL(device_transfer(&device, EXANEST_OP_PUT, partner.address, here, there,
				    10 * unit, NULL),
		    0);
	/* Pages that were there are not any more. */
	CHECK(ftruncate(fileno(file), 7 * unit) == 0);
	expect_fault(EXANEST_OP_PUT, here, there, 10 * unit, EXANEST_SIDE_LOCAL,
		     (uintptr_t)here + 7 * unit);
	stop();
}

/* Page frames that are no memory to the kernel: registers of any PCI device. */
static void no_struct_page(void)
{
	void *here = MAP_FAILED;
	glob_t found;
	size_t i;

	CHECK_EQUAL(glob("/sys/bus/pci/devices/*/resource[0-5]", 0, NULL, &found), 0);
	for (i = 0; i < found.gl_pathc && here == MAP_FAILED; i++) {
		int fd = open(found.gl_pathv[i], O_RDWR);

		/* Refused for ports. */
		here = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		close(fd);
	}
	globfree(&found);
	CHECK(here != MAP_FAILED);
	start(0);
	expect_fault(EXANEST_OP_PUT, here, map_remote(PAGE, PROT_READ | PROT_WRITE), 8,
		     EXANEST_SIDE_LOCAL, (uintptr_t)here);
	stop();
}

/* memfd_secret(2) takes its pages out of the kernel's own mapping. */
static void secret_memory(void)
{
	unsigned char *here;
	uint64_t there;
	int fd = syscall(447, 0);

	if (fd < 0)
		test_skip("no memfd_secret");
	start(0);
	there = map_remote(LENGTH, PROT_READ | PROT_WRITE);
	CHECK(ftruncate(fd, 4 * PAGE) == 0);
	here = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(here != MAP_FAILED);
	expect_fault(EXANEST_OP_PUT, here, there, PAGE, EXANEST_SIDE_LOCAL, (uintptr_t)here);
	memset(here, 1, 4 * PAGE); /* present */
	expect_fault(EXANEST_OP_PUT, here, there, PAGE, EXANEST_SIDE_LOCAL, (uintptr_t)here);
	expect_fault(EXANEST_OP_GET, here + PAGE, there, PAGE, EXANEST_SIDE_LOCAL,
		     (uintptr_t)here + PAGE);
	CHECK_EQUAL(here[PAGE], 1);
	stop();
}

static uint64_t map_huge(uint64_t length, uint64_t flags)
{
	unsigned char *memory = mmap(NULL, length + HUGE, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);

	if (memory == MAP_FAILED)
		return 0;
	memory = (void *)(((uintptr_t)memory + HUGE - 1) & ~(HUGE - 1));
	if (!flags)
		madvise(memory, length, MADV_HUGEPAGE);
	return (uintptr_t)memory;
}

static void huge_pages(void)
{
	uint64_t remote;

	start(EXANEST_POLICY_HUGE);
	remote = partner_ask(&partner, PARTNER_CALL, (uintptr_t)map_huge, 2 * HUGE, 0);
	round_trip(remote, LENGTH, 1);
	/* Split in the middle, by the owner. */
	CHECK_EQUAL(partner_ask(&partner, PARTNER_ADVISE, remote + 40 * PAGE, PAGE, MADV_DONTNEED),
		    0);
	CHECK_EQUAL(get(remote, LENGTH), 0);
	CHECK_EQUAL(pattern_differs(local, 40 * PAGE, 1), 40 * PAGE);
	CHECK(!local[40 * PAGE] && !memcmp(local + 40 * PAGE, local + 40 * PAGE + 1, PAGE - 1));
	round_trip(remote + PAGE + 1, LENGTH - PAGE - 1, 2);
	stop();
}

static void hugetlb(void)
{
	FILE *pool = fopen("/proc/sys/vm/nr_hugepages", "w");
	uint64_t remote;

	if (!pool || fputs("8", pool) < 0 || fclose(pool))
		test_skip("no hugetlb pages");
	start(0);
	remote = partner_ask(&partner, PARTNER_CALL, (uintptr_t)map_huge, 2 * HUGE, MAP_HUGETLB);
	if (!remote)
		test_skip("no hugetlb pages");
	round_trip(remote + 3, LENGTH, 1);
	round_trip(remote, LENGTH, 2);
	stop();
}

static void swapped(void)
{
	int round, end = quick_or(5, 12);
	uint64_t remote;

	start(0);
	remote = map_remote(LENGTH, PROT_READ | PROT_WRITE);
	round_trip(remote, LENGTH, 1);
	if (partner_ask(&partner, PARTNER_ADVISE, remote, LENGTH, MADV_PAGEOUT))
		test_skip("no MADV_PAGEOUT");
	for (round = 2; round < end; round++) {
		/*
		 * In from swap: pages that are clean, and have their old contents there. What is
		 * put must survive the next time they go out: it has made them dirty.
		 */
		CHECK_EQUAL(get(remote, LENGTH), 0);
		CHECK_EQUAL(pattern_differs(local, LENGTH, round - 1), LENGTH);
		pattern_fill(local, LENGTH, round);
		CHECK_EQUAL(put(remote, LENGTH), 0);
		CHECK_EQUAL(partner_ask(&partner, PARTNER_ADVISE, remote, LENGTH, MADV_PAGEOUT), 0);
		CHECK_EQUAL(partner_ask(&partner, PARTNER_ADVISE, remote, LENGTH, MADV_PAGEOUT), 0);
		CHECK_EQUAL(partner_ask(&partner, PARTNER_DIFFERS, remote, LENGTH, round), LENGTH);
		CHECK_EQUAL(partner_ask(&partner, PARTNER_ADVISE, remote, LENGTH, MADV_PAGEOUT), 0);
	}
	stop();
}

/* A page given up by MADV_FREE that is put to is in use again. */
static void freed_lazily(void)
{
	uint64_t remote;

	start(0);
	remote = map_remote(LENGTH, PROT_READ | PROT_WRITE);
	round_trip(remote, LENGTH, 1);
	CHECK_EQUAL(partner_ask(&partner, PARTNER_ADVISE, remote, LENGTH, MADV_FREE), 0);
	pattern_fill(local, LENGTH, 2);
	CHECK_EQUAL(put(remote, LENGTH), 0);
	CHECK_EQUAL(partner_ask(&partner, PARTNER_ADVISE, remote, LENGTH, MADV_PAGEOUT), 0);
	CHECK_EQUAL(partner_ask(&partner, PARTNER_DIFFERS, remote, LENGTH, 2), LENGTH);
	stop();
}

/* mremap(2) takes pages along: they are met at their new address, and not at the old one. */
static uint64_t move_pages_away(uint64_t address, uint64_t length)
{
	void *moved = mremap((void *)address, length, length, MREMAP_MAYMOVE | MREMAP_DONTUNMAP,
			     NULL);

	return moved == MAP_FAILED ? 0 : (uintptr_t)moved;
}

static void remapped(void)
{
	uint64_t remote, moved;

	start(0);
	remote = map_remote(LENGTH, PROT_READ | PROT_WRITE);
	round_trip(remote, LENGTH, 1);
	moved = partner_ask(&partner, PARTNER_CALL, (uintptr_t)move_pages_away, remote, LENGTH);
	CHECK(moved);
	CHECK_EQUAL(get(moved, LENGTH), 0);
	CHECK_EQUAL(pattern_differs(local, LENGTH, 1), LENGTH);
	CHECK_EQUAL(get(remote, LENGTH), 0);
	CHECK(!local[0] && !memcmp(local, local + 1, LENGTH - 1));
	round_trip(moved, LENGTH, 2);
	stop();
}

/* More spans than translations are kept of: each pushes another out. */
static void more_than_translations(void)
{
	enum { SPANS = 200 };
	unsigned int before = parameter_get("translations_max");
	int round, rounds = quick_or(1, 3), i;
	uint64_t remote;

	parameter_set("translations_max", 64);
	start(0);
	remote = map_remote(SPANS * HUGE, PROT_READ | PROT_WRITE);
	for (round = 0; round < rounds; round++) {
		for (i = 0; i < SPANS; i++) {
			memset(local, round + i, 64);
			CHECK_EQUAL(put(remote + i * HUGE, 64), 0);
		}
		for (i = 0; i < SPANS; i++) {
			CHECK_EQUAL(get(remote + i * HUGE, 64), 0);
			CHECK_EQUAL(local[63], (unsigned char)(round + i));
		}
	}
	stop();
	parameter_set("translations_max", before);
}

/* On the side of the partner: its pages go away as fast as they come. */
static unsigned char *vanishing;
static pthread_t vanisher;
static atomic_bool vanisher_stops;

static void *vanish(void *unused)
{
	(void)unused;
	while (!atomic_load(&vanisher_stops))
		madvise(vanishing, LENGTH, MADV_DONTNEED);
	return NULL;
}

static uint64_t vanish_start(uint64_t retries, uint64_t unused)
{
	(void)unused;
	parameter_set("retries", retries);
	vanishing = map_private(LENGTH, false);
	atomic_store(&vanisher_stops, false);
	CHECK(pthread_create(&vanisher, NULL, vanish, NULL) == 0);
	return (uintptr_t)vanishing;
}

static uint64_t vanish_stop(uint64_t retries, uint64_t unused)
{
	(void)unused;
	atomic_store(&vanisher_stops, true);
	CHECK(pthread_join(vanisher, NULL) == 0);
	parameter_set("retries", retries);
	return 0;
}

/* A block that never finds its page ends: with -EBUSY, at the address of the page. */
static void vanished(void)
{
	const uint64_t end = clock_ns(CLOCK_MONOTONIC) + VANISH_SECONDS * 1000000000ul;
	unsigned int before = parameter_get("retries");
	struct exanest_completion completion;
	uint64_t remote;
	int status;

	start(0);
	/* The engine knows the pages of this side: only those of the other meet page faults. */
	CHECK_EQUAL(put(map_remote(LENGTH, PROT_READ | PROT_WRITE), LENGTH), 0);
	remote = partner_ask(&partner, PARTNER_CALL, (uintptr_t)vanish_start, 1, 0);
	do
		status = device_transfer(&device, EXANEST_OP_PUT, partner.address, local, remote,
					 LENGTH, &completion);
	while (!status && clock_ns(CLOCK_MONOTONIC) < end);
	partner_ask(&partner, PARTNER_CALL, (uintptr_t)vanish_stop, before, 0);
	CHECK_EQUAL(status, -EBUSY);
	CHECK_EQUAL(completion.fault_side, EXANEST_SIDE_REMOTE);
	CHECK(completion.fault_address - remote < LENGTH);
	round_trip(remote, LENGTH, 1);
	stop();
}

static const struct test tests[] = {
	{ "untouched_touch", untouched_touch },
	{ "untouched_ahead", untouched_ahead },
	{ "untouched_huge", untouched_huge },
	{ "files", files },
	{ "copy_on_write", copy_on_write },
	{ "errors", errors },
	{ "bad_behind_absent", bad_behind_absent },
	{ "end_of_file", end_of_file },
	{ "no_struct_page", no_struct_page },
	{ "secret_memory", secret_memory },
	{ "huge_pages", huge_pages },
	{ "hugetlb", hugetlb },
	{ "swapped", swapped },
	{ "freed_lazily", freed_lazily },
	{ "remapped", remapped },
	{ "more_than_translations", more_than_translations },
	{ "vanished", vanished },
	{ NULL, NULL },
};

int main(int argc, char **argv)
{
	return tests_run("memory", tests, argc, argv);
}

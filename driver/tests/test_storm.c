// SPDX-License-Identifier: GPL-2.0
/*
 * Transfers while everything happens to their memory and to their processes.
 * EXANEST_TEST_SECONDS: for how long each test goes on (default 5).
 */
#include "device.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mman.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LENGTH (4ul << 20)
#define HUGE (2ul << 20)

/* What each test does at least, even if a slow machine needs longer for it than test_end says. */
#define TRANSFERS_LEAST 10
#define KILLS_LEAST 8

static struct device device;
static struct partner partner;
static unsigned char *local;

/* CLOCK_MONOTONIC, ns */
static uint64_t test_end(void)
{
	const char *text = getenv("EXANEST_TEST_SECONDS");

	return clock_ns(CLOCK_MONOTONIC) + (text ? atoi(text) : 5) * 1000000000ull;
}

static void *map(size_t length)
{
	unsigned char *memory = mmap(NULL, length + HUGE, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(memory != MAP_FAILED);
	return (void *)(((uintptr_t)memory + HUGE - 1) & ~(HUGE - 1));
}

static uint64_t partner_map(uint64_t length, uint64_t unused)
{
	(void)unused;
	return (uintptr_t)map(length);
}

static uint64_t partner_unmap(uint64_t memory, uint64_t length)
{
	return munmap((void *)memory, length);
}

/* Things that take pages away, or their translations, and leave what is in them as it is. */
static void churn_once(unsigned char *memory)
{
	size_t from = random_below(LENGTH / PAGE) * PAGE;
	size_t length = (1 + random_below((LENGTH - from) / PAGE)) * PAGE;
	char text[100];
	pid_t pid;

	switch (random_below(8)) {
	case 0:
		madvise(memory + from, length, MADV_PAGEOUT);
		break;
	case 1:
		madvise(memory + from, length, MADV_COLD);
		break;
	case 2:
		mprotect(memory + from, length, PROT_READ | PROT_WRITE | PROT_EXEC);
		mprotect(memory + from, length, PROT_READ | PROT_WRITE);
		break;
	case 3:
		pid = fork();
		if (pid == 0)
			_exit(0);
		waitpid(pid, NULL, 0);
		break;
	case 4:
		write_file("/proc/sys/vm/compact_memory", "1");
		break;
	case 5:
		madvise(memory, LENGTH, MADV_HUGEPAGE);
		madvise(memory + (from & ~(HUGE - 1)), HUGE, MADV_COLLAPSE);
		break;
	case 6:
		snprintf(text, sizeof(text), "%d,%#lx,%#lx", getpid(), (unsigned long)memory,
			 (unsigned long)memory + LENGTH);
		write_file("/sys/kernel/debug/split_huge_pages", text);
		break;
	case 7:
		write_file("/proc/self/clear_refs", "4");
		break;
	}
}

static volatile bool churning;

static void *churn(void *memory)
{
	while (churning)
		churn_once(memory);
	return NULL;
}

static pthread_t churner;

static uint64_t churn_start(uint64_t memory, uint64_t seed)
{
	random_set(seed);
	churning = true;
	return pthread_create(&churner, NULL, churn, (void *)memory);
}

static uint64_t churn_stop(uint64_t unused, uint64_t unused2)
{
	(void)unused, (void)unused2;
	churning = false;
	return pthread_join(churner, NULL);
}

#define ASK(partner, function, a, b)                                                               \
	partner_ask(partner, PARTNER_CALL, (uintptr_t)(function), (uint64_t)(a), (uint64_t)(b))

static void start(void)
{
	random_seed();
	partner_start(&partner, NULL);
	device_open(&device, NULL);
	local = map(LENGTH);
}

static void stop(void)
{
	device_close(&device);
	partner_stop(&partner);
}

/* Whatever is done to the pages on both sides, what arrives is what was sent. */
static void contents_survive(void)
{
	struct exanest_statistics statistics;
	uint64_t end = test_end(), remote, what;
	size_t from, length;

	start();
	remote = ASK(&partner, partner_map, LENGTH, 0);
	CHECK_EQUAL(ASK(&partner, churn_start, remote, random_next()), 0);
	CHECK_EQUAL(churn_start((uintptr_t)local, random_next()), 0);
	/* On a busy machine it takes its time until the two get in each other's way. */
	for (what = 1;
	     clock_ns(CLOCK_MONOTONIC) < end || device_statistics(&device).invalidations <= 10;
	     what++) {
		from = random_below(LENGTH - 1);
		length = 1 + random_below(LENGTH - from);
		pattern_fill(local + from, length, what);
		CHECK_EQUAL(device_transfer(&device, EXANEST_OP_PUT, partner.address, local + from,
					    remote + from, length, NULL),
			    0);
		CHECK_EQUAL(partner_ask(&partner, PARTNER_DIFFERS, remote + from, length, what),
			    length);
		memset(local + from, 0, length);
		CHECK_EQUAL(device_transfer(&device, EXANEST_OP_GET, partner.address, local + from,
					    remote + from, length, NULL),
			    0);
		CHECK_EQUAL(pattern_differs(local + from, length, what), length);
	}
	churn_stop(0, 0);
	CHECK_EQUAL(ASK(&partner, churn_stop, 0, 0), 0);
	statistics = device_statistics(&device);
	printf("# %llu transfers, %llu invalidations, %llu faults, %llu misses\n",
	       (unsigned long long)what * 2, (unsigned long long)statistics.invalidations,
	       (unsigned long long)statistics.faults,
	       (unsigned long long)statistics.translation_misses);
	stop();
}

/* Mappings that come and go, and pages that are dropped, in the middle of transfers. */
static void *unmap_and_map(void *memory)
{
	while (churning) {
		size_t from = random_below(LENGTH / PAGE) * PAGE;
		size_t length = (1 + random_below((LENGTH - from) / PAGE)) * PAGE;
		unsigned char *start = (unsigned char *)memory + from;
		void *again;

		switch (random_below(4)) {
		case 0:
			madvise(start, length, MADV_DONTNEED);
			break;
		case 1:
			munmap(start, length);
			again = mmap(start, length, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
			CHECK(again == start);
			break;
		case 2:
			mprotect(start, length, PROT_READ);
			mprotect(start, length, PROT_READ | PROT_WRITE);
			break;
		case 3: /* away, and back again */
			again = mremap(start, length, length, MREMAP_MAYMOVE | MREMAP_DONTUNMAP,
				       NULL);
			CHECK(again != MAP_FAILED);
			CHECK(mremap(again, length, length, MREMAP_MAYMOVE | MREMAP_FIXED, start) ==
			      start);
			break;
		}
	}
	return NULL;
}

static uint64_t unmap_start(uint64_t memory, uint64_t seed)
{
	random_set(seed);
	churning = true;
	return pthread_create(&churner, NULL, unmap_and_map, (void *)memory);
}

static void unmapped_in_flight(void)
{
	unsigned long ended[2] = { 0, 0 };
	struct exanest_completion completion;
	uint64_t end = test_end(), remote;
	unsigned char *quiet = map(LENGTH);

	start();
	remote = ASK(&partner, partner_map, LENGTH, 0);
	CHECK_EQUAL(ASK(&partner, unmap_start, remote, random_next()), 0);
	memset(local, 1, LENGTH);
	do {
		int op = random_below(2) ? EXANEST_OP_PUT : EXANEST_OP_GET;
		int status = device_transfer(&device, op, partner.address, local, remote, LENGTH,
					     &completion);

		CHECK(status == 0 || status == -EFAULT || status == -EBUSY);
		if (status) {
			CHECK_EQUAL(completion.fault_side, EXANEST_SIDE_REMOTE);
			CHECK(completion.fault_address >= remote &&
			      completion.fault_address < remote + LENGTH);
		}
		ended[!!status]++;
	} while (clock_ns(CLOCK_MONOTONIC) < end || ended[0] + ended[1] < TRANSFERS_LEAST);
	CHECK_EQUAL(ASK(&partner, churn_stop, 0, 0), 0);
	printf("# %lu well, %lu with an error\n", ended[0], ended[1]);
	/* All is as before. */
	pattern_fill(quiet, LENGTH, 4);
	CHECK_EQUAL(device_transfer(&device, EXANEST_OP_PUT, partner.address, quiet, remote, LENGTH,
				    NULL),
		    0);
	CHECK_EQUAL(partner_ask(&partner, PARTNER_DIFFERS, remote, LENGTH, 4), LENGTH);
	stop();
}

/* A process that transfers to and from all others, until it is killed. */
struct board {
	uint64_t address[8], memory[8];
};

static void victim(struct board *board, int self, uint64_t seed)
{
	struct exanest_completion completion;
	unsigned int posted = 0, done = 0;
	int threads = 0;

	random_set(seed);
	device_open(&device, NULL);
	local = map(LENGTH);
	__atomic_store_n(&board->memory[self], (uintptr_t)local, __ATOMIC_RELAXED);
	__atomic_store_n(&board->address[self], device.address, __ATOMIC_RELEASE);
	for (;;) {
		int peer = random_below(8);
		size_t length = random_below(LENGTH);
		struct exanest_submission submission = {
			.peer = __atomic_load_n(&board->address[peer], __ATOMIC_ACQUIRE),
			.local = (uintptr_t)local + random_below(LENGTH - length),
			.remote = board->memory[peer] + random_below(LENGTH - length),
			.length = length,
			.op = random_below(2) ? EXANEST_OP_PUT : EXANEST_OP_GET,
		};

		if (!random_below(20))
			madvise(local, LENGTH, MADV_DONTNEED);
		if (!random_below(50) && threads++ < 3 && fork() == 0)
			_exit(0);
		if (posted - done < 40) {
			device_submit(&device, &submission);
			posted++;
		}
		while (device_reap(&device, &completion)) {
			done++;
			CHECK(completion.status == 0 || completion.status == -EHOSTUNREACH ||
			      completion.status == -ECONNRESET || completion.status == -EFAULT);
		}
	}
}

static void killed(void)
{
	struct board *board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t end = test_end();
	pid_t pids[8] = { 0 };
	unsigned int kills = 0;
	int self, status;

	random_seed();
	CHECK(board != MAP_FAILED);
	while (clock_ns(CLOCK_MONOTONIC) < end || kills < KILLS_LEAST) {
		self = random_below(8);
		if (pids[self]) {
			CHECK_EQUAL(waitpid(pids[self], &status, WNOHANG), 0);
			kill(pids[self], SIGKILL);
			CHECK_EQUAL(waitpid(pids[self], &status, 0), pids[self]);
			kills++;
		}
		pids[self] = fork();
		CHECK(pids[self] >= 0);
		if (pids[self] == 0)
			victim(board, self, random_next());
		usleep(random_below(200000));
		random_next();
	}
	for (self = 0; self < 8; self++) {
		if (!pids[self])
			continue;
		CHECK_EQUAL(waitpid(pids[self], &status, WNOHANG), 0);
		kill(pids[self], SIGKILL);
		CHECK_EQUAL(waitpid(pids[self], &status, 0), pids[self]);
	}
	printf("# %u killed\n", kills);
}

#define GROUP "/sys/fs/cgroup/exanest-test"

/* In the partner. spared: by the kernel, when the group is out of memory. */
static uint64_t enter_group(uint64_t spared, uint64_t unused)
{
	char text[20];

	(void)unused;
	if (spared)
		CHECK(write_file("/proc/self/oom_score_adj", "-1000"));
	snprintf(text, sizeof(text), "%d", getpid());
	return write_file(GROUP "/cgroup.procs", text);
}

/* In the keeper. MiB that the group may have; 0: all. */
static uint64_t group_limit(uint64_t most, uint64_t unused)
{
	char text[20] = "max";

	(void)unused;
	if (most)
		snprintf(text, sizeof(text), "%uM", (unsigned int)most);
	return write_file(GROUP "/memory.max", text);
}

static uint64_t group_make(uint64_t most, uint64_t swap)
{
	write_file("/sys/fs/cgroup/cgroup.subtree_control", "+memory");
	rmdir(GROUP);
	return !mkdir(GROUP, 0755) && group_limit(most, 0) &&
	       write_file(GROUP "/memory.swap.max", swap ? "max" : "0");
}

static uint64_t group_current(uint64_t unused, uint64_t unused2)
{
	FILE *file = fopen(GROUP "/memory.current", "r");
	long bytes = -1;

	(void)unused, (void)unused2;
	CHECK(file && fscanf(file, "%ld", &bytes) == 1);
	fclose(file);
	return bytes;
}

/* What the kernel says of a process that it kills, with a backtrace, is kept off the console. */
static uint64_t console(uint64_t level, uint64_t unused)
{
	char text[2] = { '0' + level };

	(void)unused;
	return write_file("/proc/sys/kernel/printk", text);
}

/* Where the partner is, a second one, which is not in the group. */
static struct partner keeper;

/* spared: see enter_group. */
static void start_in_group(unsigned int most, bool swap, bool spared)
{
	start();
	partner_start(&keeper, NULL);
	CHECK(ASK(&keeper, console, 3, 0));
	if (!ASK(&keeper, group_make, most, swap))
		test_skip("no memory cgroup");
	CHECK(ASK(&partner, enter_group, spared, 0));
}

static uint64_t group_remove(uint64_t unused, uint64_t unused2)
{
	(void)unused, (void)unused2;
	return rmdir(GROUP);
}

/* The partner has ended. */
static void stop_group(void)
{
	CHECK(ASK(&keeper, console, 7, 0));
	ASK(&keeper, group_remove, 0, 0);
	partner_stop(&keeper);
}

#define FILES "/tmp/exanest-test"

/* In the partner: a sparse file of a file system that keeps it in the page cache. */
static uint64_t partner_map_file(uint64_t length, uint64_t unused)
{
	void *memory;
	int fd;

	(void)unused;
	mkdir(FILES, 0700);
	CHECK(mount("ramfs", FILES, "ramfs", 0, NULL) == 0);
	fd = open(FILES "/file", O_RDWR | O_CREAT, 0600);
	CHECK(fd >= 0 && ftruncate(fd, length) == 0);
	memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(memory != MAP_FAILED);
	close(fd);
	CHECK(umount2(FILES, MNT_DETACH) == 0);
	return (uintptr_t)memory;
}

/*
 * Bytes that a group may have been charged ahead: up to MEMCG_CHARGE_BATCH (64) pages for each
 * processor, which the kernel takes from before it charges more.
 */
static size_t charged_ahead(void)
{
	return 64 * PAGE * sysconf(_SC_NPROCESSORS_ONLN);
}

static void charged(uint64_t (*map_there)(uint64_t length, uint64_t unused))
{
	const size_t length = LENGTH + charged_ahead();
	unsigned char *from = map(length);
	uint64_t remote = ASK(&partner, map_there, length, 0);
	long before;

	memset(from, 1, length);
	before = ASK(&keeper, group_current, 0, 0);
	CHECK_EQUAL(device_transfer(&device, EXANEST_OP_PUT, partner.address, from, remote, length,
				    NULL),
		    0);
	CHECK((long)ASK(&keeper, group_current, 0, 0) - before >= (long)LENGTH * 9 / 10);
}

/* What a fault brings in is the owner's to pay for, not that of who caused it. */
static void charged_to_owner(void)
{
	start_in_group(0, true, false);
	charged(partner_map);
	charged(partner_map_file);
	stop();
	stop_group();
}

/* Twice as much as the owner may have: it swaps, and nothing is lost. */
static void under_pressure(void)
{
	enum { PIECES = 4 };
	uint64_t end = test_end(), remote;
	int piece, round, least = quick_or(1, 2);

	start_in_group(8, true, false);
	remote = ASK(&partner, partner_map, PIECES * LENGTH, 0);
	for (round = 0; round < least || clock_ns(CLOCK_MONOTONIC) < end; round++) {
		for (piece = 0; piece < PIECES; piece++) {
			pattern_fill(local, LENGTH, round + piece);
			CHECK_EQUAL(device_transfer(&device, EXANEST_OP_PUT, partner.address, local,
						    remote + piece * LENGTH, LENGTH, NULL),
				    0);
		}
		for (piece = 0; piece < PIECES; piece++) {
			CHECK_EQUAL(device_transfer(&device, EXANEST_OP_GET, partner.address, local,
						    remote + piece * LENGTH, LENGTH, NULL),
				    0);
			CHECK_EQUAL(pattern_differs(local, LENGTH, round + piece), LENGTH);
		}
	}
	stop();
	stop_group();
}

/*
 * More than the owner may have, and no swap: it is killed, and who asked is told.
 */
static void out_of_memory(void)
{
	uint64_t remote;
	int status;

	start_in_group(6, false, false);
	remote = ASK(&partner, partner_map, 8 * LENGTH, 0);
	local = map(8 * LENGTH);
	status = device_transfer(&device, EXANEST_OP_PUT, partner.address, local, remote,
				 8 * LENGTH, NULL);
	/* -ENOMEM: the group was full, and the kernel killed the partner for it. */
	CHECK(status == -ECONNRESET || status == -EHOSTUNREACH || status == -EFAULT ||
	      status == -EBUSY || status == -ENOMEM);
	status = partner_wait(&partner);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	device_close(&device);
	stop_group();
}

/* The same where the kernel may not kill the owner: who asked is told what was missing. */
static void no_memory(void)
{
	struct exanest_completion completion;
	uint64_t end = test_end(), remote;
	int round;

	start_in_group(6, false, true);
	local = map(8 * LENGTH);
	for (round = 0; round < 2 || clock_ns(CLOCK_MONOTONIC) < end; round++) {
		remote = ASK(&partner, partner_map, 8 * LENGTH, 0);
		CHECK(ASK(&keeper, group_limit, 6, 0));
		CHECK_EQUAL(device_transfer(&device, EXANEST_OP_PUT, partner.address, local, remote,
					    8 * LENGTH, &completion),
			    -ENOMEM);
		CHECK_EQUAL(completion.fault_side, EXANEST_SIDE_REMOTE);
		CHECK(completion.fault_address >= remote &&
		      completion.fault_address < remote + 8 * LENGTH);
		/* First, as the partner may wait for a page before it can give any back. */
		CHECK(ASK(&keeper, group_limit, 0, 0));
		CHECK(!ASK(&partner, partner_unmap, remote, 8 * LENGTH));
	}
	printf("# %d transfers\n", round);
	stop();
	stop_group();
}

static const struct test tests[] = {
	{ "contents_survive", contents_survive },
	{ "unmapped_in_flight", unmapped_in_flight },
	{ "killed", killed },
	{ "charged_to_owner", charged_to_owner },
	{ "under_pressure", under_pressure },
	{ "out_of_memory", out_of_memory },
	{ "no_memory", no_memory },
	{ NULL, NULL },
};

int main(int argc, char **argv)
{
	return tests_run("storm", tests, argc, argv);
}

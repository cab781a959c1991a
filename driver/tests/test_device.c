// SPDX-License-Identifier: GPL-2.0
/* What the device promises: transfers, atomics, order, who reaches whom, what is refused. */
#include "device.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WINDOW (5ul << 20)
#define GUARD 64

static void query(void)
{
	struct exanest_query query = { .size = sizeof(query) };
	unsigned char longer[sizeof(query) + 8] = { sizeof(longer) };
	int fd = open(EXANEST_DEVICE, O_RDWR);

	CHECK(fd >= 0);
	CHECK_EQUAL(ioctl(fd, EXANEST_IOC_QUERY, &query), 0);
	CHECK_EQUAL(query.abi_version, EXANEST_ABI_VERSION);
	CHECK_EQUAL(query.block_size, 16384);
	CHECK(!strcmp(query.engine, "software") || strchr(query.engine, ':')); /* of a PCI device */
	CHECK_EQUAL(query.features, EXANEST_FEATURE_ATOMICS | EXANEST_FEATURE_EVENTFD |
					    EXANEST_FEATURE_PAGER | EXANEST_FEATURE_POLL);

	/* An older caller: nothing beyond its structure is written. */
	memset(&query, 0x55, sizeof(query));
	query.size = 8;
	CHECK_EQUAL(ioctl(fd, EXANEST_IOC_QUERY, &query), 0);
	CHECK_EQUAL(query.size, sizeof(query));
	CHECK_EQUAL(query.abi_version, EXANEST_ABI_VERSION);
	CHECK_EQUAL(query.features, 0x5555555555555555);
	/* A newer one, and one that wants what this module does not have. */
	CHECK_EQUAL(ioctl(fd, EXANEST_IOC_QUERY, longer), 0);
	longer[0] = sizeof(longer);
	longer[sizeof(query)] = 1;
	CHECK(ioctl(fd, EXANEST_IOC_QUERY, longer) == -1 && errno == E2BIG);
	query.size = 3;
	CHECK(ioctl(fd, EXANEST_IOC_QUERY, &query) == -1 && errno == EINVAL);
	CHECK(ioctl(fd, EXANEST_IOC_QUERY, NULL) == -1 && errno == EFAULT);
	CHECK(ioctl(fd, _IO(EXANEST_IOC_MAGIC, 0x7f)) == -1 && errno == ENOTTY);
	close(fd);
}

/* Every call in the wrong order or with wrong values. */
static void setup(void)
{
	struct exanest_join join = { .size = sizeof(join) };
	struct exanest_rings rings = {
		.size = sizeof(rings),
		.submissions = 8,
		.completions = 8,
		.completion_eventfd = -1,
		.fault_eventfd = -1,
	};
	struct exanest_rings wrong;
	int fd = open(EXANEST_DEVICE, O_RDWR);

	CHECK(fd >= 0);
	CHECK(ioctl(fd, EXANEST_IOC_DOORBELL) == -1 && errno == ENXIO);
	CHECK(ioctl(fd, EXANEST_IOC_RINGS, &rings) == -1 && errno == ENOTCONN);
	CHECK(mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED);
	CHECK(ioctl(fd, EXANEST_IOC_JOIN, &join) == -1 && errno == EINVAL);
	join.secret[31] = 1;
	join.policy = 4;
	CHECK(ioctl(fd, EXANEST_IOC_JOIN, &join) == -1 && errno == EINVAL);
	join.policy = 0;
	CHECK_EQUAL(ioctl(fd, EXANEST_IOC_JOIN, &join), 0);
	CHECK(ioctl(fd, EXANEST_IOC_JOIN, &join) == -1 && errno == EALREADY);

	wrong = rings, wrong.submissions = 6;
	CHECK(ioctl(fd, EXANEST_IOC_RINGS, &wrong) == -1 && errno == EINVAL);
	wrong = rings, wrong.completions = 0;
	CHECK(ioctl(fd, EXANEST_IOC_RINGS, &wrong) == -1 && errno == EINVAL);
	wrong = rings, wrong.faults = 8192;
	CHECK(ioctl(fd, EXANEST_IOC_RINGS, &wrong) == -1 && errno == EINVAL);
	wrong = rings, wrong.reserved = 1;
	CHECK(ioctl(fd, EXANEST_IOC_RINGS, &wrong) == -1 && errno == EINVAL);
	wrong = rings, wrong.completion_eventfd = fd;
	CHECK(ioctl(fd, EXANEST_IOC_RINGS, &wrong) == -1 && errno == EINVAL);
	CHECK_EQUAL(ioctl(fd, EXANEST_IOC_RINGS, &rings), 0);
	CHECK(ioctl(fd, EXANEST_IOC_RINGS, &rings) == -1 && errno == EALREADY);
	CHECK(mmap(NULL, rings.map_bytes, PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED);
	CHECK(mmap(NULL, rings.map_bytes + 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED);
	CHECK(mmap(NULL, rings.map_bytes, PROT_READ, MAP_SHARED, fd, 4096) == MAP_FAILED);
	close(fd);
}

/* Both ways, of all lengths and alignments, and nothing beside the destination changes. */
static void contents(void)
{
	static const size_t lengths[] = { 1, 7, 64, 4095, 4096, 4097, 16384, 100000, 4ul << 20 };
	unsigned char *local = map_private(WINDOW, true), *copy = map_private(WINDOW, true);
	struct partner partner;
	struct device device;
	uint64_t remote, at;
	size_t length, from;
	int i;

	random_seed();
	partner_start(&partner, NULL);
	device_open(&device, NULL);
	remote = partner_ask(&partner, PARTNER_MAP, WINDOW, PROT_READ | PROT_WRITE, 0);
	for (i = 0; i < 60; i++) {
		length = i < 9 ? lengths[i] : 1 + random_below(1ul << random_below(22));
		from = GUARD + random_below(2) * random_below(WINDOW - length - 2 * GUARD);
		at = GUARD + random_below(2) * random_below(WINDOW - length - 2 * GUARD);
		memset(local, 0xee, WINDOW);
		pattern_fill(local + from, length, i);
		CHECK_EQUAL(device_transfer(&device, EXANEST_OP_PUT, partner.address, local + from,
					    remote + at, length, NULL),
			    0);
		CHECK_EQUAL(partner_ask(&partner, PARTNER_DIFFERS, remote + at, length, i), length);

		memset(copy, 0xee, WINDOW);
		CHECK_EQUAL(device_transfer(&device, EXANEST_OP_GET, partner.address, copy + from,
					    remote + at, length, NULL),
			    0);
		CHECK(!memcmp(local, copy, WINDOW));
	}
	CHECK_EQUAL(device_statistics(&device).transfers, 120);
	device_close(&device);
	partner_stop(&partner);
}

/* Many at a time, and to the process itself. */
static void many(void)
{
	enum { COUNT = 1000, LENGTH = 30000, SLOTS = 40 };
	unsigned char *local = map_private(SLOTS * LENGTH, true),
		      *copy = map_private(SLOTS * LENGTH, true);
	struct device_options options = { .submissions = 16, .completions = 8 };
	unsigned int posted = 0, done = 0, i;
	struct exanest_completion completion;
	bool seen[COUNT] = { false };
	struct device device;

	device_open(&device, &options);
	for (i = 0; i < SLOTS; i++)
		pattern_fill(local + i * LENGTH, LENGTH, i);
	while (done < COUNT) {
		struct exanest_submission submission = {
			.cookie = posted,
			.peer = device.address,
			.local = (uintptr_t)local + posted % SLOTS * LENGTH,
			.remote = (uintptr_t)copy + posted % SLOTS * LENGTH,
			.length = LENGTH,
			.op = EXANEST_OP_PUT,
		};

		if (posted < COUNT && posted - done < 16) {
			device_submit(&device, &submission);
			posted++;
			continue;
		}
		device_wait(&device, &completion);
		CHECK_EQUAL(completion.status, 0);
		CHECK(completion.cookie < COUNT);
		CHECK(!seen[completion.cookie]);
		seen[completion.cookie] = true;
		done++;
	}
	for (i = 0; i < SLOTS; i++)
		CHECK_EQUAL(pattern_differs(copy + i * LENGTH, LENGTH, i), LENGTH);
	device_close(&device);
}

static struct exanest_completion atomic(struct device *device, uint64_t peer, uint64_t remote,
					unsigned int op, unsigned int width, uint64_t operand,
					uint64_t compare)
{
	struct exanest_submission submission = {
		.peer = peer,
		.remote = remote,
		.length = width,
		.operand = operand,
		.compare = compare,
		.op = EXANEST_OP_ATOMIC,
		.atomic = op,
	};

	return device_do(device, &submission);
}

static void atomics(void)
{
	static const struct {
		unsigned int op;
		uint64_t operand, compare, after;
	} steps[] = {
		{ EXANEST_ATOMIC_SWAP, 0xfffffff0, 0, 0xfffffff0 },
		{ EXANEST_ATOMIC_ADD, 0x20, 0, 0x100000010 },
		{ EXANEST_ATOMIC_AND, 0x1000000ff, 0, 0x100000010 },
		{ EXANEST_ATOMIC_OR, 0x05, 0, 0x100000015 },
		{ EXANEST_ATOMIC_XOR, 0x11, 0, 0x100000004 },
		{ EXANEST_ATOMIC_COMPARE_SWAP, 7, 8, 0x100000004 },
		{ EXANEST_ATOMIC_COMPARE_SWAP, 7, 0x100000004, 7 },
	};
	uint64_t *words = map_private(4096, true), expect;
	struct device device;
	unsigned int i;

	device_open(&device, NULL);
	words[0] = words[1] = 77;
	expect = 77;
	for (i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		struct exanest_completion c = atomic(&device, device.address, (uintptr_t)words,
						     steps[i].op, 8, steps[i].operand,
						     steps[i].compare);

		CHECK_EQUAL(c.status, 0);
		CHECK_EQUAL(c.value, expect);
		expect = steps[i].after;
		CHECK_EQUAL(words[0], expect);
	}
	CHECK_EQUAL(words[1], 77);

	words[0] = 0xaaaaaaaaffffffff;
	CHECK_EQUAL(
		atomic(&device, device.address, (uintptr_t)words, EXANEST_ATOMIC_ADD, 4, 2, 0).value,
		0xffffffff);
	CHECK_EQUAL(words[0], 0xaaaaaaaa00000001);
	CHECK_EQUAL(atomic(&device, device.address, (uintptr_t)words + 4,
			   EXANEST_ATOMIC_COMPARE_SWAP, 4, 5, 0xaaaaaaaa)
			    .value,
		    0xaaaaaaaa);
	CHECK_EQUAL(words[0], 0x500000001);
	device_close(&device);
}

/* The owner's processor adds at the same time. */
static void atomics_together(void)
{
	enum { TIMES = 2000 };
	uint64_t *word = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
			      0);
	struct device device;
	pid_t pid;
	int i;

	CHECK(word != MAP_FAILED);
	pid = fork();
	if (pid == 0) {
		for (i = 0; i < 200 * TIMES; i++)
			__atomic_fetch_add(word, 1, __ATOMIC_SEQ_CST);
		_exit(0);
	}
	device_open(&device, NULL);
	for (i = 0; i < TIMES; i++)
		CHECK_EQUAL(atomic(&device, device.address, (uintptr_t)word, EXANEST_ATOMIC_ADD, 8,
				   1, 0)
				    .status,
			    0);
	CHECK(waitpid(pid, NULL, 0) == pid);
	CHECK_EQUAL(*word, 201 * TIMES);
	device_close(&device);
}

/* A fence comes after what was submitted before it to its peer. */
static void fences(void)
{
	enum { ROUNDS = 50, EACH = 5, LENGTH = 200000 };
	unsigned char *local = map_private(EACH * LENGTH, true),
		      *copy = map_private(EACH * LENGTH, true);
	struct exanest_completion completion;
	struct device device;
	int round, i, before;

	device_open(&device, NULL);
	for (round = 0; round < ROUNDS; round++) {
		struct exanest_submission submission = { .peer = device.address };

		madvise(copy, EACH * LENGTH, MADV_DONTNEED); /* some of them meet faults */
		submission.op = EXANEST_OP_PUT;
		for (i = 0; i < EACH; i++) {
			submission.cookie = i;
			submission.local = (uintptr_t)local + i * LENGTH;
			submission.remote = (uintptr_t)copy + i * LENGTH;
			submission.length = LENGTH;
			device_submit(&device, &submission);
		}
		memset(&submission, 0, sizeof(submission));
		submission.op = EXANEST_OP_FENCE;
		submission.peer = device.address;
		submission.cookie = 100;
		device_submit(&device, &submission);
		submission.cookie = 101;
		device_submit(&device, &submission);
		for (i = before = 0; i < EACH + 2; i++) {
			device_wait(&device, &completion);
			CHECK_EQUAL(completion.status, 0);
			if (completion.cookie >= 100)
				CHECK_EQUAL(before, EACH);
			else
				before++;
		}
	}
	device_close(&device);
}

static void malformed(void)
{
	static const struct {
		struct exanest_submission submission;
		int status;
	} cases[] = {
		{ { .op = EXANEST_OP_NOP }, 0 },
		{ { .op = EXANEST_OP_NOP, .length = 1 }, -EINVAL },
		{ { .op = 5 }, -EINVAL },
		{ { .op = 0xffff }, -EINVAL },
		{ { .op = EXANEST_OP_PUT, .reserved = 1 }, -EINVAL },
		{ { .op = EXANEST_OP_PUT, .operand = 1 }, -EINVAL },
		{ { .op = EXANEST_OP_PUT, .local = 0xfffffffffffff000, .length = 0x1001 },
		  -EINVAL },
		{ { .op = EXANEST_OP_GET, .remote = 0xfffffffffffff000, .length = 0x1001 },
		  -EINVAL },
		{ { .op = EXANEST_OP_GET, .length = (1ull << 40) + 1 }, -EINVAL },
		{ { .op = EXANEST_OP_PUT, .peer = 1ull << 60 }, -EHOSTUNREACH },
		{ { .op = EXANEST_OP_PUT, .peer = 0 }, -EHOSTUNREACH },
		{ { .op = EXANEST_OP_FENCE, .peer = 1ull << 60 }, -EHOSTUNREACH },
		{ { .op = EXANEST_OP_FENCE, .length = 1 }, -EINVAL },
		{ { .op = EXANEST_OP_ATOMIC, .length = 2 }, -EINVAL },
		{ { .op = EXANEST_OP_ATOMIC, .length = 8, .remote = 4 }, -EINVAL },
		{ { .op = EXANEST_OP_ATOMIC, .length = 4, .remote = 2 }, -EINVAL },
		{ { .op = EXANEST_OP_ATOMIC, .length = 8, .atomic = 6 }, -EINVAL },
		{ { .op = EXANEST_OP_ATOMIC, .length = 8, .local = 8 }, -EINVAL },
		{ { .op = EXANEST_OP_ATOMIC, .length = 8, .compare = 8 }, -EINVAL },
	};
	struct exanest_submission submission;
	struct device device;
	unsigned int i;

	device_open(&device, NULL);
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		submission = cases[i].submission;
		submission.cookie = i + 1000;
		CHECK_EQUAL(device_do(&device, &submission).status, cases[i].status);
	}
	/* Nothing at all, from nowhere, is fine. */
	CHECK_EQUAL(device_transfer(&device, EXANEST_OP_PUT, device.address, NULL, 0, 0, NULL), 0);
	device_close(&device);
}

static bool breaks(struct device *device)
{
	int i;

	for (i = 0; i < 10000; i++) {
		if (__atomic_load_n(&device_submission_head(device)->flags, __ATOMIC_ACQUIRE) &
		    EXANEST_RING_BROKEN)
			return true;
		usleep(1000);
	}
	return false;
}

/* Counters that cannot be: the ring is broken, the process is told, and nothing else happens. */
static void broken_counters(void)
{
	struct device device;

	device_open(&device, NULL);
	__atomic_store_n(&device_submission_head(&device)->producer, 65, __ATOMIC_RELEASE);
	CHECK_EQUAL(ioctl(device.fd, EXANEST_IOC_DOORBELL), 0);
	CHECK(breaks(&device));
	CHECK(ioctl(device.fd, EXANEST_IOC_DOORBELL) == -1 && errno == EPROTO);
	device_close(&device);

	device_open(&device, NULL);
	device_completion_head(&device)->consumer = 5;
	__atomic_store_n(&device_submission_head(&device)->producer, 1, __ATOMIC_RELEASE);
	CHECK_EQUAL(ioctl(device.fd, EXANEST_IOC_DOORBELL), 0);
	CHECK(breaks(&device));
	CHECK_EQUAL(device_completion_head(&device)->producer, 0);
	device_close(&device);
}

/* When the other thread sleeps. */
static void *break_later(void *argument)
{
	struct device *device = argument;

	usleep(200000);
	__atomic_store_n(&device_submission_head(device)->producer, 65, __ATOMIC_RELEASE);
	CHECK_EQUAL(ioctl(device->fd, EXANEST_IOC_DOORBELL), 0);
	return NULL;
}

/* Counters that cannot be wake a thread that sleeps in poll(2), and a reader of the eventfd. */
static void broken_wakes(void)
{
	struct device_options options = { .completion_eventfd = eventfd(0, EFD_NONBLOCK) };
	struct pollfd entry = { .events = POLLIN };
	struct exanest_ring_head *head;
	struct device device;
	pthread_t thread;
	uint64_t count;

	device_open(&device, &options);
	head = device_submission_head(&device);
	entry.fd = device.fd;
	CHECK(pthread_create(&thread, NULL, break_later, &device) == 0);
	CHECK_EQUAL(poll(&entry, 1, 60000), 1);
	CHECK(entry.revents & POLLERR);
	CHECK(head->flags & EXANEST_RING_BROKEN);
	pthread_join(thread, NULL);
	CHECK(read(options.completion_eventfd, &count, sizeof(count)) == sizeof(count));
	device_close(&device);
}

static _Atomic bool refilling;

static void *refill(void *argument)
{
	struct exanest_ring_head *submissions = device_submission_head(argument);
	struct exanest_ring_head *completions = device_completion_head(argument);
	struct device *device = argument;

	while (refilling) {
		__atomic_store_n(&completions->consumer,
				 __atomic_load_n(&completions->producer, __ATOMIC_ACQUIRE),
				 __ATOMIC_RELEASE);
		__atomic_store_n(&submissions->producer,
				 __atomic_load_n(&submissions->consumer, __ATOMIC_ACQUIRE) +
					 device->rings.submissions,
				 __ATOMIC_RELEASE);
		if (__atomic_load_n(&submissions->flags, __ATOMIC_RELAXED) &
		    EXANEST_RING_NEED_DOORBELL)
			ioctl(device->fd, EXANEST_IOC_DOORBELL);
	}
	return NULL;
}

/* A ring of NOPs that is never empty, as a stress; full_ring shows that others are served. */
static void refilled(void)
{
	struct device_options options = { .submissions = 1024, .completions = 1024 };
	unsigned char *local = map_private(WINDOW, true), *copy = map_private(WINDOW, true);
	struct device device, other;
	pthread_t thread;
	int i;

	device_open(&device, NULL);
	device_open(&other, &options);
	refilling = true;
	CHECK(pthread_create(&thread, NULL, refill, &other) == 0);
	for (i = 0; i < 200; i++) {
		pattern_fill(local, 4096, i);
		CHECK_EQUAL(device_transfer(&device, EXANEST_OP_PUT, device.address, local,
					    (uintptr_t)copy, 4096, NULL),
			    0);
		CHECK_EQUAL(pattern_differs(copy, 4096, i), 4096);
	}
	refilling = false;
	pthread_join(thread, NULL);
	device_close(&other);
	device_close(&device);
}

/*
 * A ring full of NOPs takes more than a turn: who comes while it is being served has a
 * turn before it is empty, as the counter of its completions shows. On a busy machine most
 * rounds show nothing: this process then does not run again before the ring is empty.
 */
static void full_ring(void)
{
	enum { ENTRIES = 4096, SECONDS = 60 };
	struct device_options options = { .submissions = ENTRIES, .completions = ENTRIES };
	struct exanest_ring_head *head;
	uint32_t from = 1, to, before, then;
	struct device device, other;
	time_t end = time(NULL) + SECONDS;
	bool shown = false;

	device_open(&device, NULL);
	device_open(&other, &options);
	head = device_completion_head(&other);
	while (!shown && time(NULL) < end) {
		before = __atomic_load_n(&head->producer, __ATOMIC_ACQUIRE);
		__atomic_store_n(&head->consumer, before, __ATOMIC_RELEASE);
		__atomic_fetch_add(&device_submission_head(&other)->producer, ENTRIES,
				   __ATOMIC_RELEASE);
		CHECK_EQUAL(ioctl(other.fd, EXANEST_IOC_DOORBELL), 0);
		while (__atomic_load_n(&head->producer, __ATOMIC_ACQUIRE) == before)
			sched_yield();
		CHECK_EQUAL(device_transfer(&device, EXANEST_OP_GET, device.address, &to,
					    (uintptr_t)&from, sizeof(to), NULL),
			    0);
		then = __atomic_load_n(&head->producer, __ATOMIC_ACQUIRE);
		while (__atomic_load_n(&head->producer, __ATOMIC_ACQUIRE) - before < ENTRIES)
			usleep(100);
		shown = then - before < ENTRIES;
	}
	CHECK(shown);
	device_close(&other);
	device_close(&device);
}

/* The mapping of the rings stays what it is: no child gets it, and no code is in it. */
static void mapping(void)
{
	struct device device;

	device_open(&device, NULL);
	CHECK(madvise(device.map, device.rings.map_bytes, MADV_DOFORK) == -1 && errno == EINVAL);
	CHECK(mprotect(device.map, device.rings.map_bytes, PROT_READ | PROT_EXEC) == -1 &&
	      errno == EACCES);
	/* It is no memory of transfers. */
	CHECK_EQUAL(device_transfer(&device, EXANEST_OP_GET, device.address, &device.submitted,
				    (uintptr_t)device.map, 4, NULL),
		    -EFAULT);
	device_close(&device);
}

/* A user has only so many contexts; a closed one counts until its kernel memory is free. */
static void limited(void)
{
	unsigned int before = parameter_get("contexts_max");
	int fds[4], fd, i, tries;

	for (i = 0; i < 4; i++)
		CHECK((fds[i] = open(EXANEST_DEVICE, O_RDWR)) >= 0);
	parameter_set("contexts_max", 4);
	fd = open(EXANEST_DEVICE, O_RDWR);
	CHECK(fd < 0 && errno == EMFILE);
	for (i = 0; i < 4; i++)
		close(fds[i]);
	for (tries = 0; fd < 0 && tries < 10000; tries++) {
		fd = open(EXANEST_DEVICE, O_RDWR);
		CHECK(fd >= 0 || errno == EMFILE);
		usleep(1000);
	}
	parameter_set("contexts_max", before);
	CHECK(fd >= 0);
	close(fd);
}

static int become(unsigned int id)
{
	return setresuid(-1, id, -1);
}

static void write_map(pid_t pid, const char *file, const char *text)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
	fd = open(path, O_WRONLY);
	CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
}

/* The ids that a user has in a namespace of its own raise no limit. */
static void subordinate_ids(void)
{
	unsigned int before = parameter_get("contexts_max"), id;
	int up[2], down[2], status, fd;
	char byte = 0;
	pid_t pid;

	CHECK(!pipe(up) && !pipe(down));
	CHECK(!chmod(EXANEST_DEVICE, 0666));
	parameter_set("contexts_max", 4);
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		CHECK(!setresuid(4711, 4711, 4711) && !unshare(CLONE_NEWUSER));
		CHECK(prctl(PR_SET_DUMPABLE, 1) == 0);
		CHECK(write(up[1], &byte, 1) == 1 && read(down[0], &byte, 1) == 1);
		CHECK(!setresuid(0, 0, 0));
		for (id = 0; id < 4; id++) {
			CHECK(!become(id) && (fd = open(EXANEST_DEVICE, O_RDWR)) >= 0);
			CHECK(!become(0));
		}
		for (id = 0; id < 8; id++) {
			CHECK(!become(id));
			CHECK(open(EXANEST_DEVICE, O_RDWR) == -1 && errno == EMFILE);
			CHECK(!become(0));
		}
		_exit(0);
	}
	CHECK(read(up[0], &byte, 1) == 1);
	write_map(pid, "uid_map", "0 4711 1\n1 100000 10\n");
	/* Another user's contexts, and its own ids that root gave a namespace, count apart. */
	CHECK((fd = open(EXANEST_DEVICE, O_RDWR)) >= 0);
	CHECK(write(down[1], &byte, 1) == 1);
	CHECK(waitpid(pid, &status, 0) == pid);
	parameter_set("contexts_max", before);
	CHECK(!chmod(EXANEST_DEVICE, 0600));
	CHECK_EQUAL(status, 0);
	close(fd);
}

static void on_signal(int number)
{
	(void)number;
}

/* open(2) does not fail because of a signal, though the handler does not ask for a restart. */
static void interrupted_open(void)
{
	struct itimerval often = { .it_interval.tv_usec = 50, .it_value.tv_usec = 50 };
	struct sigaction action = { .sa_handler = on_signal };
	int i, fd, rounds = quick_or(500, 3000);

	sigaction(SIGALRM, &action, NULL);
	CHECK(!setitimer(ITIMER_REAL, &often, NULL));
	for (i = 0; i < rounds; i++) {
		fd = open(EXANEST_DEVICE, O_RDWR);
		CHECK(fd >= 0 || errno == EMFILE); /* closed ones count until they are freed */
		if (fd >= 0)
			close(fd);
	}
}

/* After the end of a context nothing of it is made any more. */
static void left_early(void)
{
	struct exanest_join join = { .size = sizeof(join), .secret = { 1 } };
	struct exanest_rings rings = {
		.size = sizeof(rings),
		.submissions = 8,
		.completions = 8,
		.completion_eventfd = -1,
		.fault_eventfd = -1,
	};
	int fd = open(EXANEST_DEVICE, O_RDWR);

	CHECK_EQUAL(ioctl(fd, EXANEST_IOC_LEAVE), 0);
	CHECK(ioctl(fd, EXANEST_IOC_JOIN, &join) == -1 && errno == ESHUTDOWN);
	close(fd);
	fd = open(EXANEST_DEVICE, O_RDWR);
	CHECK_EQUAL(ioctl(fd, EXANEST_IOC_JOIN, &join), 0);
	CHECK_EQUAL(ioctl(fd, EXANEST_IOC_LEAVE), 0);
	CHECK(ioctl(fd, EXANEST_IOC_RINGS, &rings) == -1 && errno == ESHUTDOWN);
	close(fd);
}

static void *leave_now(void *argument)
{
	int fd = *(int *)argument;

	ioctl(fd, EXANEST_IOC_LEAVE);
	return NULL;
}

/* A thread leaves while another joins: no peer finds the context afterwards, whoever was first. */
static void left_meanwhile(void)
{
	struct device device;
	int round, fd;

	device_open(&device, NULL);
	for (round = 0; round < 300; round++) {
		struct exanest_join join = { .size = sizeof(join) };
		pthread_t thread;

		memset(join.secret, 's', sizeof(join.secret));
		while ((fd = open(EXANEST_DEVICE, O_RDWR)) < 0)
			CHECK(errno == EMFILE);
		CHECK(pthread_create(&thread, NULL, leave_now, &fd) == 0);
		if (ioctl(fd, EXANEST_IOC_JOIN, &join))
			CHECK(errno == ESHUTDOWN);
		pthread_join(thread, NULL);
		if (join.address)
			CHECK_EQUAL(device_transfer(&device, EXANEST_OP_PUT, join.address, &round,
						    (uintptr_t)&fd, sizeof(fd), NULL),
				    -EHOSTUNREACH);
		close(fd);
	}
	device_close(&device);
}

/* Its end, though a child has all that a closed descriptor would leave. */
static void left(void)
{
	unsigned char *local = map_private(WINDOW, true), *copy = map_private(WINDOW, true);
	struct device device, other;
	int status;
	pid_t pid;

	device_open(&device, NULL);
	device_open(&other, NULL);
	CHECK_EQUAL(device_transfer(&other, EXANEST_OP_PUT, device.address, local, (uintptr_t)copy,
				    WINDOW, NULL),
		    0);
	pid = fork();
	if (pid == 0) {
		CHECK(ioctl(device.fd, EXANEST_IOC_LEAVE) == -1 && errno == EPERM);
		pause();
	}
	CHECK_EQUAL(ioctl(device.fd, EXANEST_IOC_LEAVE), 0);
	CHECK_EQUAL(ioctl(device.fd, EXANEST_IOC_LEAVE), 0);
	CHECK_EQUAL(device_transfer(&other, EXANEST_OP_PUT, device.address, local, (uintptr_t)copy,
				    WINDOW, NULL),
		    -EHOSTUNREACH);
	device_close(&device);
	kill(pid, SIGKILL);
	CHECK(waitpid(pid, &status, 0) == pid);
	device_close(&other);
}

/* poll(2) and both eventfds wake who sleeps; nothing spins. */
static void waiting(void)
{
	struct device_options options = { .completion_eventfd = eventfd(0, EFD_NONBLOCK) };
	struct pollfd entries[2];
	struct exanest_submission nop = { .cookie = 1 };
	struct exanest_completion completion;
	struct device device;
	uint64_t count;
	int i;

	device_open(&device, &options);
	entries[0] = (struct pollfd){ .fd = device.fd, .events = POLLIN };
	entries[1] = (struct pollfd){ .fd = options.completion_eventfd, .events = POLLIN };
	CHECK_EQUAL(poll(entries, 2, 0), 0);
	for (i = 0; i < 100; i++) {
		device_submit(&device, &nop);
		CHECK_EQUAL(poll(entries, 1, 60000), 1);
		CHECK_EQUAL(entries[0].revents, POLLIN);
		CHECK_EQUAL(poll(entries + 1, 1, 60000), 1);
		CHECK(read(options.completion_eventfd, &count, sizeof(count)) == sizeof(count));
		CHECK(device_reap(&device, &completion));
		CHECK_EQUAL(poll(entries, 2, 0), 0);
	}
	device_close(&device);
}

/* While the engine watches the ring no doorbell is needed. */
static void watched(void)
{
	struct device_options options = { .poll_us = 1000000 };
	struct exanest_submission nop = { .cookie = 1 };
	struct exanest_completion completion;
	struct device device;
	int i;

	device_open(&device, &options);
	for (i = 0; i < 1000; i++) {
		device_submit(&device, &nop);
		device_wait(&device, &completion);
	}
	device_close(&device);
}

/* Another secret, and another user with the same secret, are out of reach. */
static void strangers(void)
{
	struct device_options other = { .secret = 'x' };
	unsigned char *local = map_private(4096, true);
	struct partner partner;
	struct device device;
	uint64_t remote;
	pid_t pid;
	int status;

	partner_start(&partner, NULL);
	remote = partner_ask(&partner, PARTNER_MAP, 4096, PROT_READ | PROT_WRITE, 0);
	partner_ask(&partner, PARTNER_FILL, remote, 4096, 3);
	device_open(&device, &other);
	CHECK_EQUAL(device_transfer(&device, EXANEST_OP_GET, partner.address, local, remote, 4096,
				    NULL),
		    -EHOSTUNREACH);
	CHECK_EQUAL(device_transfer(&device, EXANEST_OP_PUT, partner.address, local, remote, 4096,
				    NULL),
		    -EHOSTUNREACH);
	device_close(&device);

	CHECK(chmod(EXANEST_DEVICE, 0666) == 0);
	pid = fork();
	if (pid == 0) {
		CHECK(setuid(65534) == 0);
		device_open(&device, NULL);
		CHECK_EQUAL(device_transfer(&device, EXANEST_OP_GET, partner.address, local, remote,
					    4096, NULL),
			    -EHOSTUNREACH);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK_EQUAL(status, 0);
	CHECK(chmod(EXANEST_DEVICE, 0600) == 0);
	CHECK_EQUAL(partner_ask(&partner, PARTNER_DIFFERS, remote, 4096, 3), 4096);

	device_open(&device, NULL);
	CHECK_EQUAL(device_transfer(&device, EXANEST_OP_GET, partner.address, local, remote, 4096,
				    NULL),
		    0);
	CHECK_EQUAL(pattern_differs(local, 4096, 3), 4096);
	device_close(&device);
	partner_stop(&partner);
}

/* A child has its parent's descriptor, but not its context, nor its rings. */
static void forked(void)
{
	struct exanest_query query = { .size = sizeof(query) };
	struct device device;
	int status;
	pid_t pid;

	device_open(&device, NULL);
	pid = fork();
	if (pid == 0) {
		CHECK(ioctl(device.fd, EXANEST_IOC_QUERY, &query) == -1 && errno == EPERM);
		CHECK(ioctl(device.fd, EXANEST_IOC_DOORBELL) == -1 && errno == EPERM);
		CHECK(mmap(NULL, device.rings.map_bytes, PROT_READ, MAP_SHARED, device.fd, 0) ==
		      MAP_FAILED);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK_EQUAL(status, 0);
	pid = fork();
	if (pid == 0) {
		signal(SIGSEGV, SIG_DFL);
		_exit(*(volatile char *)device.map);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
	CHECK_EQUAL(device_transfer(&device, EXANEST_OP_PUT, device.address, &status,
				    (uintptr_t)&pid, 4, NULL),
		    0);
	device_close(&device);
}

/* A peer that executes another program, with the descriptor open, is gone. */
static uint64_t execute(uint64_t unused, uint64_t unused2)
{
	char fd[16];

	(void)unused, (void)unused2;
	snprintf(fd, sizeof(fd), "%d", partner_device.fd);
	fcntl(partner_device.fd, F_SETFD, 0);
	execl("/proc/self/exe", "test_device", "--executed", fd, (char *)NULL);
	return -errno;
}

static int executed(const char *fd)
{
	struct exanest_query query = { .size = sizeof(query) };

	if (ioctl(atoi(fd), EXANEST_IOC_QUERY, &query) != -1 || errno != EPERM)
		return 1;
	/* Stays, so that only the address space is gone. */
	pause();
	return 0;
}

static void exec_of_peer(void)
{
	unsigned char *local = map_private(WINDOW, true);
	struct partner partner;
	struct device device;
	uint64_t remote;
	int status;
	char gone;

	partner_start(&partner, NULL);
	device_open(&device, NULL);
	remote = partner_ask(&partner, PARTNER_MAP, WINDOW, PROT_READ | PROT_WRITE, 0);
	CHECK_EQUAL(device_transfer(&device, EXANEST_OP_PUT, partner.address, local, remote, WINDOW,
				    NULL),
		    0);
	/* Its socket is closed on exec. */
	struct {
		uint64_t words[4];
	} call = { { PARTNER_CALL, (uintptr_t)execute, 0, 0 } };
	CHECK(write(partner.socket, &call, sizeof(call)) == sizeof(call));
	CHECK_EQUAL(read(partner.socket, &gone, 1), 0);
	status = device_transfer(&device, EXANEST_OP_PUT, partner.address, local, remote, WINDOW,
				 NULL);
	CHECK_EQUAL(status, -ECONNRESET);
	CHECK_EQUAL(waitpid(partner.pid, &status, WNOHANG), 0); /* it is content */
	kill(partner.pid, SIGKILL);
	waitpid(partner.pid, &status, 0);
	do
		status = device_transfer(&device, EXANEST_OP_PUT, partner.address, local, remote,
					 WINDOW, NULL);
	while (status == -ECONNRESET);
	CHECK_EQUAL(status, -EHOSTUNREACH);
	device_close(&device);
}

/* An engine's idle threads and a context without work cost nothing. */
static void two_devices(void)
{
	unsigned char *local = map_private(WINDOW, true), *copy = map_private(WINDOW, true);
	struct device first, second;
	int i;

	device_open(&first, NULL);
	device_open(&second, NULL);
	CHECK(first.address != second.address);
	for (i = 0; i < 4; i++) {
		pattern_fill(local, WINDOW, i);
		CHECK_EQUAL(device_transfer(i & 1 ? &first : &second, EXANEST_OP_PUT,
					    i & 1 ? second.address : first.address, local,
					    (uintptr_t)copy, WINDOW, NULL),
			    0);
		CHECK_EQUAL(pattern_differs(copy, WINDOW, i), WINDOW);
	}
	device_close(&first);
	CHECK_EQUAL(device_transfer(&second, EXANEST_OP_PUT, first.address, local, (uintptr_t)copy,
				    WINDOW, NULL),
		    -EHOSTUNREACH);
	device_close(&second);
}

/* Nothing is pinned or locked by transfers. */
static void nothing_pinned(void)
{
	unsigned char *local = map_private(WINDOW, true), *copy = map_private(WINDOW, true);
	struct device device;

	device_open(&device, NULL);
	CHECK_EQUAL(device_transfer(&device, EXANEST_OP_PUT, device.address, local, (uintptr_t)copy,
				    WINDOW, NULL),
		    0);
	CHECK_EQUAL(pinned_kib(), 0);
	device_close(&device);
}

/*
 * While the system is frozen, as before an image of it is saved, nothing is moved,
 * though enough is submitted for longer. pm_test=freezer thaws after 5 s.
 */
static void frozen(void)
{
	enum { BYTES = 16 << 20, COUNT = 64 };
	struct exanest_submission put = { .op = EXANEST_OP_PUT, .length = BYTES };
	unsigned char *from = map_private(BYTES, true), *to = map_private(BYTES, true);
	struct exanest_completion completion;
	uint64_t before, during, running;
	struct device device;
	int i;

	if (!write_file("/sys/power/pm_test", "freezer"))
		test_skip("the kernel has no /sys/power/pm_test");
	device_open(&device, NULL);
	put.peer = device.address;
	put.local = (uintptr_t)from;
	put.remote = (uintptr_t)to;
	CHECK_EQUAL(device_do(&device, &put).status, 0);
	for (i = 0; i < COUNT; i++)
		device_submit(&device, &put);
	before = device_statistics(&device).bytes;
	usleep(200000);
	running = device_statistics(&device).bytes - before;
	before += running;
	if (before == (COUNT + 1) * (uint64_t)BYTES)
		test_skip("this machine moves all of it before it is frozen");
	CHECK(write_file("/sys/power/state", "freeze"));
	during = device_statistics(&device).bytes - before;
	printf("# %llu MiB in 0.2 s, %llu MiB around 5 s of being frozen\n",
	       (unsigned long long)running >> 20, (unsigned long long)during >> 20);
	for (i = 0; i < COUNT; i++)
		device_wait(&device, &completion);
	CHECK(write_file("/sys/power/pm_test", "none"));
	CHECK(before + during < (COUNT + 1) * (uint64_t)BYTES);
	device_close(&device);
}

static const struct test tests[] = {
	{ "query", query },
	{ "setup", setup },
	{ "contents", contents },
	{ "many", many },
	{ "atomics", atomics },
	{ "atomics_together", atomics_together },
	{ "fences", fences },
	{ "malformed", malformed },
	{ "broken_counters", broken_counters },
	{ "broken_wakes", broken_wakes },
	{ "mapping", mapping },
	{ "refilled", refilled },
	{ "full_ring", full_ring },
	{ "limited", limited },
	{ "subordinate_ids", subordinate_ids },
	{ "interrupted_open", interrupted_open },
	{ "left_early", left_early },
	{ "left_meanwhile", left_meanwhile },
	{ "left", left },
	{ "waiting", waiting },
	{ "watched", watched },
	{ "strangers", strangers },
	{ "forked", forked },
	{ "exec_of_peer", exec_of_peer },
	{ "two_devices", two_devices },
	{ "nothing_pinned", nothing_pinned },
	{ "frozen", frozen },
	{ NULL, NULL },
};

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "--executed"))
		return executed(argv[2]);
	return tests_run("device", tests, argc, argv);
}

// SPDX-License-Identifier: GPL-2.0
/* What the device promises: transfers, atomics, order, who reaches whom, what is refused. */
#include "device.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
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
	CHECK(!strcmp(query.engine, "software"));
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
 * A ring full of NOPs takes more than a turn: who comes meanwhile is served in the
 * midst of it. How far it was then the engine says itself: what is got is the
 * counter of its completions.
 */
static void full_ring(void)
{
	enum { ENTRIES = 4096, ROUNDS = 1000 };
	struct device_options options = { .submissions = ENTRIES, .completions = ENTRIES };
	struct exanest_ring_head *head;
	struct device device, other;
	uint32_t before, then = 0;
	int round;

	device_open(&device, NULL);
	device_open(&other, &options);
	head = device_completion_head(&other);
	for (round = 0; round < ROUNDS; round++) {
		before = __atomic_load_n(&head->producer, __ATOMIC_ACQUIRE);
		__atomic_store_n(&head->consumer, before, __ATOMIC_RELEASE);
		__atomic_fetch_add(&device_submission_head(&other)->producer, ENTRIES,
				   __ATOMIC_RELEASE);
		CHECK_EQUAL(ioctl(other.fd, EXANEST_IOC_DOORBELL), 0);
		CHECK_EQUAL(device_transfer(&device, EXANEST_OP_GET, other.address, &then,
					    (uintptr_t)&head->producer, sizeof(then), NULL),
			    0);
		while (__atomic_load_n(&head->producer, __ATOMIC_ACQUIRE) - before < ENTRIES)
			usleep(100);
		if (then != before && then - before < ENTRIES)
			break;
	}
	CHECK(round < ROUNDS);
	device_close(&other);
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
	char line[128];
	unsigned long value;
	struct device device;
	int found = 0;
	FILE *file;

	device_open(&device, NULL);
	CHECK_EQUAL(device_transfer(&device, EXANEST_OP_PUT, device.address, local, (uintptr_t)copy,
				    WINDOW, NULL),
		    0);
	file = fopen("/proc/self/status", "r");
	CHECK(file);
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "VmLck: %lu", &value) == 1 ||
		    sscanf(line, "VmPin: %lu", &value) == 1) {
			CHECK_EQUAL(value, 0);
			found++;
		}
	}
	CHECK_EQUAL(found, 2);
	fclose(file);
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
	{ "refilled", refilled },
	{ "full_ring", full_ring },
	{ "limited", limited },
	{ "left", left },
	{ "waiting", waiting },
	{ "watched", watched },
	{ "strangers", strangers },
	{ "forked", forked },
	{ "exec_of_peer", exec_of_peer },
	{ "two_devices", two_devices },
	{ "nothing_pinned", nothing_pinned },
	{ NULL, NULL },
};

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "--executed"))
		return executed(argv[2]);
	return tests_run("device", tests, argc, argv);
}

// SPDX-License-Identifier: GPL-2.0
/*
 * Random calls and random rings: fuzz [CALLS]. Nothing is checked but that the
 * kernel lives, that every call returns, and that a well-behaved process beside
 * it is served and finds its memory unharmed. EXANEST_TEST_SEED repeats a run
 * as far as threads let it.
 */
#include "device.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define DESCRIPTORS 6
#define AREA (4ul << 20)
/* No transfer is likely to get past so much that is not there. */
#define GUARD (8ul << 20)
#define WINDOW (1ul << 20)

struct context {
	int fd;
	unsigned char *window; /* WINDOW bytes of addresses for its rings */
	unsigned char *map;    /* the window, or NULL */
	struct exanest_rings rings;
	uint64_t address;
};

static struct context contexts[DESCRIPTORS];
static unsigned char *area;
static uint64_t addresses[DESCRIPTORS + 1];
static unsigned long done[16];

/*
 * Addresses that nothing else is put at: holes that random_memory leaves in the
 * area must not be where the next rings are, for it makes memory read-only too.
 */
static void *reserve(void *at, size_t size)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (at ? MAP_FIXED : 0);
	void *reserved = mmap(at, size, PROT_NONE, flags, -1, 0);

	CHECK(reserved != MAP_FAILED);
	return reserved;
}

static uint64_t interesting(void)
{
	static const uint64_t numbers[] = {
		0,
		1,
		2,
		3,
		4,
		7,
		8,
		15,
		16,
		63,
		64,
		65,
		4095,
		4096,
		4097,
		16384,
		65536,
		2097152,
		0x7fffffff,
		0x80000000,
		0xffffffff,
		0x100000000,
		1ull << 40,
		(1ull << 40) + 1,
		0x7ffffffff000,
		0x800000000000,
		1ull << 63,
		0xffffffff81000000,
		-4096ull,
		-1ull,
	};

	switch (random_below(6)) {
	case 0:
		return numbers[random_below(sizeof(numbers) / sizeof(numbers[0]))];
	case 1:
		return (uintptr_t)area + random_below(AREA);
	case 2:
		return ((uintptr_t)area + random_below(AREA)) & ~4095ull;
	case 3:
		return addresses[random_below(DESCRIPTORS + 1)];
	case 4:
		return random_below(100000);
	default:
		return random_next();
	}
}

static void random_bytes(void *memory, size_t size)
{
	uint64_t word;
	size_t i;

	for (i = 0; i + 8 <= size; i += 8) {
		word = interesting();
		memcpy((char *)memory + i, &word, 8);
	}
}

/* As a libpf that means it, but for a field here and there. */
static void likely_submission(struct exanest_submission *s)
{
	memset(s, 0, sizeof(*s));
	s->cookie = random_next();
	s->op = random_below(6);
	s->peer = s->op == EXANEST_OP_NOP ? 0 : addresses[random_below(DESCRIPTORS + 1)];
	if (s->op == EXANEST_OP_ATOMIC) {
		s->atomic = random_below(7);
		s->length = random_below(2) ? 4 : 8;
		s->remote = ((uintptr_t)area + random_below(AREA)) & ~7ull;
		s->operand = random_next();
	} else if (s->op == EXANEST_OP_PUT || s->op == EXANEST_OP_GET) {
		s->length = random_below(1ul << random_below(22));
		s->local = (uintptr_t)area + random_below(AREA);
		s->remote = (uintptr_t)area + random_below(AREA);
	}
	if (!random_below(8))
		((uint64_t *)s)[random_below(8)] = interesting();
}

static void scribble(struct context *context)
{
	struct exanest_submission *slots;
	struct exanest_ring_head *head;
	unsigned int i, count;

	if (!context->map)
		return;
	switch (random_below(16)) {
	case 0:
		random_bytes(context->map + (random_below(context->rings.map_bytes) & ~7ull), 8);
		break;
	default: /* some submissions, and a doorbell */
		head = (void *)(context->map + context->rings.submission_head);
		count = random_below(8);
		slots = (void *)(context->map + context->rings.submission_entries);
		for (i = 0; i < count; i++)
			likely_submission(
				&slots[(head->producer + i) & (context->rings.submissions - 1)]);
		__atomic_fetch_add(&head->producer, count, __ATOMIC_RELEASE);
		ioctl(context->fd, EXANEST_IOC_DOORBELL);
		head = (void *)(context->map + context->rings.completion_head);
		head->consumer = __atomic_load_n(&head->producer, __ATOMIC_ACQUIRE);
		if (context->rings.faults) {
			head = (void *)(context->map + context->rings.fault_head);
			head->consumer = __atomic_load_n(&head->producer, __ATOMIC_ACQUIRE);
		}
	}
}

static void context_close(struct context *context)
{
	if (context->map)
		reserve(context->window, WINDOW);
	if (context->fd >= 0)
		close(context->fd);
	context->map = NULL;
	context->fd = -1;
}

static void context_open(struct context *context)
{
	struct exanest_join join = { .size = sizeof(join), .policy = random_below(4) };
	struct exanest_rings *rings = &context->rings;

	context_close(context);
	context->fd = open(EXANEST_DEVICE, O_RDWR | O_CLOEXEC);
	if (context->fd < 0 || !random_below(8))
		return; /* for random calls to set up */
	memset(join.secret, 1 + random_below(2), sizeof(join.secret));
	if (ioctl(context->fd, EXANEST_IOC_JOIN, &join) == 0)
		addresses[context - contexts] = join.address;
	*rings = (struct exanest_rings){
		.size = sizeof(*rings),
		.submissions = 1u << random_below(7),
		.completions = 1u << random_below(7),
		.faults = random_below(2) << random_below(5),
		.completion_eventfd = -1,
		.fault_eventfd = -1,
		.poll_us = random_below(2) * random_below(1000),
	};
	if (ioctl(context->fd, EXANEST_IOC_RINGS, rings))
		return;
	CHECK(rings->map_bytes <= WINDOW);
	if (mmap(context->window, rings->map_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
		 context->fd, 0) != MAP_FAILED)
		context->map = context->window;
}

/* Sizes mostly right, the rest mostly not. */
static void random_ioctl(struct context *context)
{
	static const struct {
		unsigned int command;
		uint32_t size;
	} calls[] = {
		{ EXANEST_IOC_QUERY, sizeof(struct exanest_query) },
		{ EXANEST_IOC_JOIN, sizeof(struct exanest_join) },
		{ EXANEST_IOC_DOORBELL, 0 },
		{ EXANEST_IOC_PAGER, sizeof(struct exanest_pager) },
		{ EXANEST_IOC_PAGER, sizeof(struct exanest_pager) },
		{ EXANEST_IOC_RESOLVED, sizeof(struct exanest_resolved) },
		{ EXANEST_IOC_RESOLVED, sizeof(struct exanest_resolved) },
		{ EXANEST_IOC_STATISTICS, sizeof(struct exanest_statistics) },
		{ EXANEST_IOC_RINGS, sizeof(struct exanest_rings) },
	};
	unsigned int which = random_below(sizeof(calls) / sizeof(calls[0]));
	unsigned int command = calls[which].command;
	uint32_t size = calls[which].size;
	uint64_t argument[40];

	if (!random_below(16))
		command = _IOC(random_below(4), EXANEST_IOC_MAGIC, random_below(9),
			       random_below(200));
	random_bytes(argument, sizeof(argument));
	if (command == EXANEST_IOC_PAGER) {
		struct exanest_pager *pager = (void *)argument;

		pager->enable = random_below(2);
		pager->address = (uintptr_t)area + random_below(AREA / PAGE) * PAGE;
		pager->length = (1 + random_below(16)) * PAGE;
	} else if (command == EXANEST_IOC_RESOLVED) {
		struct exanest_resolved *resolved = (void *)argument;

		resolved->status = -(int)random_below(3);
		resolved->ticket = 1 + random_below(1000);
	}
	if (random_below(8))
		memcpy(argument, &size, sizeof(size));
	ioctl(context->fd, command, random_below(32) ? argument : (void *)interesting());
}

static void random_memory(void)
{
	unsigned char *start = area + random_below(AREA / PAGE) * PAGE;
	size_t length = (1 + random_below((area + AREA - start) / PAGE)) * PAGE;

	switch (random_below(6)) {
	case 0:
		madvise(start, length, MADV_DONTNEED);
		break;
	case 1:
		mprotect(start, length, random_below(4));
		break;
	case 2:
		reserve(start, length);
		break;
	case 3:
		munmap(start, length);
		break;
	default:
		(void)mmap(start, length, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		break;
	}
}

/* A child makes a few calls on what it inherited, and dies as children do. */
static void random_child(void)
{
	pid_t pid = fork();
	int i;

	if (pid == 0) {
		for (i = 0; i < 20; i++)
			random_ioctl(&contexts[random_below(DESCRIPTORS)]);
		if (random_below(2))
			context_open(&contexts[0]);
		_exit(0);
	}
	if (pid > 0)
		waitpid(pid, NULL, 0);
}

static void one_call(void)
{
	struct context *context = &contexts[random_below(DESCRIPTORS)];
	unsigned int kind = random_below(1000);

	if (kind < 1) {
		random_child();
		done[0]++;
	} else if (kind < 5) {
		context_open(context);
		done[1]++;
	} else if (kind < 8) {
		context_close(context);
		done[2]++;
	} else if (kind < 9) {
		if (context->fd >= 0)
			ioctl(context->fd, EXANEST_IOC_LEAVE);
		done[2]++;
	} else if (kind < 30) {
		random_memory();
		done[3]++;
	} else if (kind < 60) {
		scribble(context);
		done[4]++;
	} else {
		random_ioctl(context);
		done[5]++;
	}
}

/* Scribbles on rings that may be gone the next moment. */
static void *scribbler(void *unused)
{
	(void)unused;
	for (;;) {
		struct context *context = &contexts[random_below(DESCRIPTORS)];
		unsigned char *map = __atomic_load_n(&context->map, __ATOMIC_RELAXED);
		int null;

		/* By a call that fails, not by a store that faults, if it is gone. */
		null = open("/dev/zero", O_RDONLY | O_CLOEXEC);
		if (map && read(null, map + (random_below(4096) & ~3ull), 1 + random_below(4)) < 0)
			errno = 0;
		close(null);
		usleep(1000);
	}
	return NULL;
}

static void fuzz(unsigned long calls, uint64_t seed)
{
	pthread_t thread;
	int i;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	random_set(seed);
	for (i = 0; i < DESCRIPTORS; i++) {
		contexts[i].fd = -1;
		contexts[i].window = reserve(NULL, WINDOW);
	}
	addresses[DESCRIPTORS] = 1ull << 50;
	area = (unsigned char *)reserve(NULL, GUARD + AREA + GUARD) + GUARD;
	CHECK(!mprotect(area, AREA, PROT_READ | PROT_WRITE));
	CHECK(pthread_create(&thread, NULL, scribbler, NULL) == 0);
	while (calls--)
		one_call();
	printf("# %lu children, %lu opened, %lu closed, %lu memory, %lu rings, %lu ioctls\n",
	       done[0], done[1], done[2], done[3], done[4], done[5]);
	fflush(stdout);
	_exit(0);
}

/* The process beside it. */
static unsigned long neighbour(pid_t fuzzer, int *status)
{
	enum { LENGTH = 300000 };
	unsigned char *from = malloc(LENGTH), *to = malloc(LENGTH);
	struct device device;
	unsigned long round;

	device_open(&device, NULL);
	for (round = 0; waitpid(fuzzer, status, WNOHANG) == 0; round++) {
		pattern_fill(from, LENGTH, round);
		CHECK_EQUAL(device_transfer(&device, EXANEST_OP_PUT, device.address, from,
					    (uintptr_t)to, LENGTH, NULL),
			    0);
		CHECK_EQUAL(pattern_differs(to, LENGTH, round), LENGTH);
		usleep(10000);
	}
	device_close(&device);
	free(from);
	free(to);
	return round;
}

int main(int argc, char **argv)
{
	unsigned long calls = argc > 1 ? strtoul(argv[1], NULL, 0) : 1000000, rounds;
	uint64_t seed;
	int status;
	pid_t pid;

	random_seed();
	seed = random_next();
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		fuzz(calls, seed);
	CHECK(pid > 0);
	rounds = neighbour(pid, &status);
	CHECK_EQUAL(status, 0);
	printf("ok 1 - fuzz: %lu calls, %lu rounds beside them\n1..1\n", calls, rounds);
	return 0;
}

// SPDX-License-Identifier: GPL-2.0
#include "device.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WAIT_SECONDS 60
#define SKIPPED 77
/* Tests that take this long are in the list of the longest of tests/run. */
#define LONG_NS 1000000000ull

_Noreturn void check_failed(const char *file, int line, const char *what)
{
	printf("# %s:%d: %s does not hold (errno %d)\n", file, line, what, errno);
	fflush(stdout);
	_exit(1);
}

void check_equal(const char *file, int line, const char *what, int64_t a, int64_t b)
{
	if (a == b)
		return;
	printf("# %s:%d: %s: %lld, %lld\n", file, line, what, (long long)a, (long long)b);
	fflush(stdout);
	_exit(1);
}

_Noreturn void test_skip(const char *why)
{
	printf("# skipped: %s\n", why);
	fflush(stdout);
	_exit(SKIPPED);
}

static bool wanted(const char *name, int argc, char **argv)
{
	int i;

	for (i = 1; i < argc; i++)
		if (!strcmp(argv[i], name))
			return true;
	return argc < 2;
}

int tests_run(const char *program, const struct test *tests, int argc, char **argv)
{
	int number = 0, failed = 0, status;
	uint64_t begun, took;
	pid_t pid;

	if (argc == 3 && !strcmp(argv[1], "--partners"))
		return partners_serve(atoi(argv[2]));

	for (; tests->name; tests++) {
		if (!wanted(tests->name, argc, argv))
			continue;
		fflush(stdout);
		begun = clock_ns(CLOCK_MONOTONIC);
		pid = fork();
		if (pid == 0) {
			tests->run();
			fflush(stdout);
			_exit(0);
		}
		if (pid < 0 || waitpid(pid, &status, 0) != pid)
			status = -1;
		took = clock_ns(CLOCK_MONOTONIC) - begun;
		if (took >= LONG_NS)
			printf("# %s: %s: %.1f s\n", program, tests->name, took / 1e9);
		number++;
		if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED) {
			printf("ok %d - %s: %s # SKIP\n", number, program, tests->name);
			continue;
		}
		if (status)
			printf("# wait status %#x\n", (unsigned int)status);
		failed += status != 0;
		printf("%sok %d - %s: %s\n", status ? "not " : "", number, program, tests->name);
	}
	printf("1..%d\n", number);
	return failed || !number;
}

static uint64_t random_state = 1;

void random_set(uint64_t seed)
{
	random_state = seed * 2 + 1;
}

void random_seed(void)
{
	const char *text = getenv("EXANEST_TEST_SEED");
	struct timespec now;
	uint64_t seed;

	clock_gettime(CLOCK_REALTIME, &now);
	seed = text ? strtoull(text, NULL, 0) : (uint64_t)now.tv_sec * 1000000007 + now.tv_nsec;
	printf("# EXANEST_TEST_SEED=%llu\n", (unsigned long long)seed);
	random_set(seed);
}

/* xorshift64*: Vigna, ACM TOMS 42/4, 2016 */
uint64_t random_next(void)
{
	uint64_t x = random_state;

	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	random_state = x;
	return x * 0x2545f4914f6cdd1dull;
}

uint64_t random_below(uint64_t limit)
{
	return (random_next() >> 16) % limit;
}

/* The eight bytes of the pattern at position, a multiple of 8: an emulator takes long for bytes. */
static uint64_t pattern_word(size_t position, uint64_t what)
{
	uint64_t word = (position / 8 + 1) * 0x9e3779b97f4a7c15ull ^ what * 0xc2b2ae3d27d4eb4full;

	return htole64(word ^ word >> 29);
}

void pattern_fill(void *memory, size_t length, uint64_t what)
{
	unsigned char *bytes = memory;
	uint64_t word;
	size_t i;

	for (i = 0; i + sizeof(word) <= length; i += sizeof(word)) {
		word = pattern_word(i, what);
		memcpy(bytes + i, &word, sizeof(word));
	}
	word = pattern_word(i, what);
	memcpy(bytes + i, &word, length - i);
}

size_t pattern_differs(const void *memory, size_t length, uint64_t what)
{
	const unsigned char *bytes = memory;
	uint64_t word;
	size_t i;

	for (i = 0; i + sizeof(word) <= length; i += sizeof(word)) {
		memcpy(&word, bytes + i, sizeof(word));
		if (word != pattern_word(i, what))
			break;
	}
	word = pattern_word(i, what);
	for (; i < length && bytes[i] == ((unsigned char *)&word)[i % sizeof(word)]; i++)
		;
	return i;
}

unsigned int quick_or(unsigned int quick, unsigned int full)
{
	return getenv("EXANEST_TEST_QUICK") ? quick : full;
}

uint64_t clock_ns(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return (uint64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

unsigned long pinned_kib(void)
{
	unsigned long value, sum = 0;
	char line[128];
	int found = 0;
	FILE *file;

	file = fopen("/proc/self/status", "r");
	CHECK(file);
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "VmLck: %lu", &value) == 1 ||
		    sscanf(line, "VmPin: %lu", &value) == 1) {
			sum += value;
			found++;
		}
	}
	CHECK_EQUAL(found, 2);
	fclose(file);
	return sum;
}

bool write_file(const char *name, const char *text)
{
	int fd = open(name, O_WRONLY);
	bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	close(fd);
	return done;
}

static FILE *parameter_open(const char *name, const char *mode)
{
	char path[100];
	FILE *file;

	snprintf(path, sizeof(path), "/sys/module/exanest/parameters/%s", name);
	file = fopen(path, mode);
	CHECK(file);
	return file;
}

unsigned int parameter_get(const char *name)
{
	FILE *file = parameter_open(name, "r");
	unsigned int value;

	CHECK(fscanf(file, "%u", &value) == 1);
	fclose(file);
	return value;
}

void parameter_set(const char *name, unsigned int value)
{
	FILE *file = parameter_open(name, "w");

	CHECK(fprintf(file, "%u", value) > 0 && fclose(file) == 0);
}

void *map_private(size_t length, bool huge)
{
	void *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			    0);

	CHECK(memory != MAP_FAILED);
	if (!huge)
		madvise(memory, length, MADV_NOHUGEPAGE);
	return memory;
}

void device_open(struct device *device, const struct device_options *options)
{
	static const struct device_options defaults;
	struct exanest_join join = { .size = sizeof(join) };
	struct exanest_rings *rings = &device->rings;

	if (!options)
		options = &defaults;
	memset(device, 0, sizeof(*device));
	device->fd = open(EXANEST_DEVICE, O_RDWR | O_CLOEXEC);
	CHECK(device->fd >= 0);
	memset(join.secret, options->secret ? options->secret : 's', sizeof(join.secret));
	join.policy = options->policy;
	CHECK_EQUAL(ioctl(device->fd, EXANEST_IOC_JOIN, &join), 0);
	CHECK_EQUAL(join.size, sizeof(join));
	device->address = join.address;

	rings->size = sizeof(*rings);
	rings->submissions = options->submissions ? options->submissions : 64;
	rings->completions = options->completions ? options->completions : 64;
	rings->faults = options->faults;
	rings->completion_eventfd = options->completion_eventfd ? options->completion_eventfd : -1;
	rings->fault_eventfd = options->fault_eventfd ? options->fault_eventfd : -1;
	rings->poll_us = options->poll_us;
	CHECK_EQUAL(ioctl(device->fd, EXANEST_IOC_RINGS, rings), 0);
	device->map = mmap(NULL, rings->map_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, device->fd,
			   0);
	CHECK(device->map != MAP_FAILED);
}

void device_close(struct device *device)
{
	munmap(device->map, device->rings.map_bytes);
	close(device->fd);
}

struct exanest_ring_head *device_submission_head(const struct device *device)
{
	return (void *)(device->map + device->rings.submission_head);
}

struct exanest_ring_head *device_completion_head(const struct device *device)
{
	return (void *)(device->map + device->rings.completion_head);
}

static struct timespec deadline_start(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	now.tv_sec += WAIT_SECONDS;
	return now;
}

static bool deadline_passed(const struct timespec *deadline)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec >= deadline->tv_sec;
}

static void doorbell(struct device *device)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (__atomic_load_n(&device_submission_head(device)->flags, __ATOMIC_RELAXED) &
	    EXANEST_RING_NEED_DOORBELL)
		CHECK_EQUAL(ioctl(device->fd, EXANEST_IOC_DOORBELL), 0);
}

void device_submit(struct device *device, const struct exanest_submission *submission)
{
	struct exanest_ring_head *head = device_submission_head(device);
	struct exanest_submission *slots = (void *)(device->map + device->rings.submission_entries);
	struct timespec deadline = deadline_start();
	uint32_t entries = device->rings.submissions;

	while (device->submitted - __atomic_load_n(&head->consumer, __ATOMIC_ACQUIRE) == entries) {
		CHECK(!deadline_passed(&deadline));
		sched_yield();
	}
	slots[device->submitted & (entries - 1)] = *submission;
	__atomic_store_n(&head->producer, ++device->submitted, __ATOMIC_RELEASE);
	doorbell(device);
}

bool device_reap(struct device *device, struct exanest_completion *completion)
{
	struct exanest_ring_head *head = device_completion_head(device);
	struct exanest_completion *slots = (void *)(device->map + device->rings.completion_entries);

	if (__atomic_load_n(&head->producer, __ATOMIC_ACQUIRE) == device->reaped)
		return false;
	*completion = slots[device->reaped & (device->rings.completions - 1)];
	__atomic_store_n(&head->consumer, ++device->reaped, __ATOMIC_RELEASE);
	doorbell(device); /* submissions may have waited for the place */
	return true;
}

void device_wait(struct device *device, struct exanest_completion *completion)
{
	struct timespec deadline = deadline_start();

	while (!device_reap(device, completion)) {
		CHECK(!deadline_passed(&deadline));
		sched_yield();
	}
}

struct exanest_completion device_do(struct device *device,
				    const struct exanest_submission *submission)
{
	struct exanest_completion completion;

	device_submit(device, submission);
	device_wait(device, &completion);
	CHECK_EQUAL(completion.cookie, submission->cookie);
	return completion;
}

static struct exanest_submission transfer_of(const struct device *device, unsigned int op,
					     uint64_t peer, const void *local, uint64_t remote,
					     size_t length)
{
	return (struct exanest_submission){
		.cookie = device->submitted,
		.peer = peer,
		.local = (uintptr_t)local,
		.remote = remote,
		.length = length,
		.op = op,
	};
}

int device_transfer(struct device *device, unsigned int op, uint64_t peer, const void *local,
		    uint64_t remote, size_t length, struct exanest_completion *completion)
{
	struct exanest_submission submission = transfer_of(device, op, peer, local, remote, length);
	struct exanest_completion unused;

	if (!completion)
		completion = &unused;
	*completion = device_do(device, &submission);
	return completion->status;
}

void device_post(struct device *device, unsigned int op, uint64_t peer, const void *local,
		 uint64_t remote, size_t length)
{
	struct exanest_submission submission = transfer_of(device, op, peer, local, remote, length);

	device_submit(device, &submission);
}

void device_wait_asleep(struct device *device)
{
	struct pollfd entry = { .fd = device->fd, .events = POLLIN };
	struct exanest_completion completion;

	while (!device_reap(device, &completion))
		poll(&entry, 1, -1);
	CHECK_EQUAL(completion.status, 0);
}

bool device_fault(struct device *device, struct exanest_fault *fault)
{
	struct exanest_ring_head *head = (void *)(device->map + device->rings.fault_head);
	struct exanest_fault *slots = (void *)(device->map + device->rings.fault_entries);
	uint32_t consumer = head->consumer;

	if (__atomic_load_n(&head->producer, __ATOMIC_ACQUIRE) == consumer)
		return false;
	*fault = slots[consumer & (device->rings.faults - 1)];
	__atomic_store_n(&head->consumer, consumer + 1, __ATOMIC_RELEASE);
	return true;
}

int device_resolved(struct device *device, uint64_t ticket, int status)
{
	struct exanest_resolved resolved = {
		.size = sizeof(resolved),
		.status = status,
		.ticket = ticket,
	};

	return ioctl(device->fd, EXANEST_IOC_RESOLVED, &resolved) ? -errno : 0;
}

struct exanest_statistics device_statistics(const struct device *device)
{
	struct exanest_statistics statistics = { .size = sizeof(statistics) };

	CHECK_EQUAL(ioctl(device->fd, EXANEST_IOC_STATISTICS, &statistics), 0);
	return statistics;
}

const char *device_engine(const struct device *device)
{
	static struct exanest_query query;

	query = (struct exanest_query){ .size = sizeof(query) };
	CHECK_EQUAL(ioctl(device->fd, EXANEST_IOC_QUERY, &query), 0);
	return query.engine;
}

long engine_count(const char *engine, const char *name)
{
	FILE *file = fopen("/sys/kernel/debug/exanest/engines", "r");
	char line[1000], *word, *rest;
	size_t length = strlen(name);
	long value = -1;
	bool found;

	CHECK(file);
	while (fgets(line, sizeof(line), file)) {
		word = strtok_r(line, " \n", &rest);
		found = word && !strncmp(word, "engine=", 7) && !strcmp(word + 7, engine);
		while (found && (word = strtok_r(NULL, " \n", &rest)))
			if (!strncmp(word, name, length) && word[length] == '=')
				value = atol(word + length + 1);
	}
	fclose(file);
	return value;
}

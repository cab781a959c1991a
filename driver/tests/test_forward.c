// SPDX-License-Identifier: GPL-2.0
/* Ranges whose pages their process provides: faults are handed out, answered, or not answered. */
#include "device.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define LENGTH (1ul << 20)
/* Contexts that are closed with blocks on their way, and after how many us at most. */
#define LEFT_ROUNDS 200
#define LEFT_US 2000
/* Memory whose protection takes milliseconds to change. */
#define PROTECTED (32ul << 20)
/* Until the last one is freed, on a busy machine. */
#define LEFT_SECONDS 30

/*
 * A pager that runs in the partner: what it is asked for it writes, as pattern
 * 9 of the range.
 */
static unsigned char *provided;
static unsigned char *pattern;
static unsigned int faults_served;
static int userfault = -1;

static int events(void)
{
	return partner_device.rings.fault_eventfd;
}

static void provide(const struct exanest_fault *fault)
{
	uint64_t offset = fault->address - (uintptr_t)provided;
	struct uffdio_copy copy = {
		.dst = fault->address,
		.src = (uintptr_t)pattern + offset,
		.len = fault->length,
	};
	void *page;

	CHECK(offset % PAGE == 0 && fault->length % PAGE == 0 && fault->length);
	CHECK(offset + fault->length <= LENGTH);
	if (userfault < 0) {
		page = map_private(fault->length, false);
		memcpy(page, pattern + offset, fault->length);
		CHECK(mremap(page, fault->length, fault->length, MREMAP_MAYMOVE | MREMAP_FIXED,
			     provided + offset) == provided + offset);
	} else if (ioctl(userfault, UFFDIO_COPY, &copy)) {
		CHECK(errno == EEXIST);
	}
}

/* pretending: answers, and provides nothing. */
static void *serve(void *pretending)
{
	struct exanest_fault fault;
	uint64_t count;

	for (;;) {
		CHECK(read(events(), &count, sizeof(count)) == sizeof(count));
		while (device_fault(&partner_device, &fault)) {
			if (!pretending)
				provide(&fault);
			faults_served++;
			CHECK_EQUAL(device_resolved(&partner_device, fault.ticket, 0), 0);
		}
	}
	return NULL;
}

static int pager(struct device *device, int enable, void *address, size_t length)
{
	struct exanest_pager request = {
		.size = sizeof(request),
		.enable = enable,
		.address = (uintptr_t)address,
		.length = length,
	};

	return ioctl(device->fd, EXANEST_IOC_PAGER, &request) ? -errno : 0;
}

/* In the partner. serving: with a thread that answers. */
static uint64_t provide_range(uint64_t serving, uint64_t pretending)
{
	pthread_t thread;

	provided = map_private(LENGTH, false);
	pattern = map_private(LENGTH, false);
	pattern_fill(pattern, LENGTH, 9);
	CHECK_EQUAL(pager(&partner_device, 1, provided, LENGTH), 0);
	if (serving)
		CHECK(pthread_create(&thread, NULL, serve, (void *)pretending) == 0);
	return (uintptr_t)provided;
}

static uint64_t served(uint64_t unused, uint64_t unused2)
{
	(void)unused, (void)unused2;
	return faults_served;
}

static uint64_t next_fault(uint64_t wait_ms, uint64_t field)
{
	struct pollfd entry = { .fd = events(), .events = POLLIN };
	struct exanest_fault fault;
	uint64_t count;

	while (!device_fault(&partner_device, &fault)) {
		if (!poll(&entry, 1, wait_ms))
			return 0;
		CHECK(read(events(), &count, sizeof(count)) == sizeof(count));
	}
	return field ? fault.address : fault.ticket;
}

static uint64_t resolve(uint64_t ticket, uint64_t status)
{
	return device_resolved(&partner_device, ticket, (int)status);
}

static uint64_t give_back(uint64_t unused, uint64_t unused2)
{
	(void)unused, (void)unused2;
	return pager(&partner_device, 0, provided, LENGTH);
}

#define ASK(partner, function, a, b)                                                               \
	partner_ask(partner, PARTNER_CALL, (uintptr_t)(function), (uint64_t)(a), (uint64_t)(b))

static struct device device;
static struct partner partner;
static unsigned char *local;

static void start(unsigned int faults)
{
	struct device_options options = { .faults = faults };

	options.fault_eventfd = eventfd(0, EFD_CLOEXEC);
	partner_start(&partner, &options);
	options.fault_eventfd = 0;
	device_open(&device, &options);
	local = map_private(LENGTH, false);
}

static void stop(void)
{
	device_close(&device);
	partner_stop(&partner);
}

static void provided_on_demand(void)
{
	uint64_t remote;
	int round;

	start(64);
	remote = ASK(&partner, provide_range, 1, 0);
	for (round = 0; round < 5; round++) {
		memset(local, 0, LENGTH);
		CHECK_EQUAL(device_transfer(&device, EXANEST_OP_GET, partner.address, local, remote,
					    LENGTH, NULL),
			    0);
		CHECK_EQUAL(pattern_differs(local, LENGTH, 9), LENGTH);
		CHECK(ASK(&partner, served, 0, 0) >= (round + 1) * LENGTH / 65536);
		CHECK_EQUAL(partner_ask(&partner, PARTNER_ADVISE, remote, LENGTH, MADV_DONTNEED),
			    0);
	}
	/* A part of a page that is not there: the rest of it is as provided. */
	memset(local, 0, LENGTH);
	CHECK_EQUAL(device_transfer(&device, EXANEST_OP_PUT, partner.address, local,
				    remote + 5 * PAGE + 9, 100, NULL),
		    0);
	CHECK_EQUAL(device_transfer(&device, EXANEST_OP_GET, partner.address, local, remote, LENGTH,
				    NULL),
		    0);
	CHECK_EQUAL(pattern_differs(local, LENGTH, 9), 5 * PAGE + 9);
	CHECK(!local[5 * PAGE + 9] && !memcmp(local + 5 * PAGE + 9, local + 5 * PAGE + 10, 99));
	pattern_fill(local, 5 * PAGE + 109, 9);
	CHECK_EQUAL(pattern_differs(local, LENGTH, 9), LENGTH);
	stop();
}

/* More faults at a time than the ring has room for. */
static void small_ring(void)
{
	uint64_t remote;
	int round;

	start(1);
	remote = ASK(&partner, provide_range, 1, 0);
	for (round = 0; round < 3; round++) {
		CHECK_EQUAL(device_transfer(&device, EXANEST_OP_GET, partner.address, local, remote,
					    LENGTH, NULL),
			    0);
		CHECK_EQUAL(pattern_differs(local, LENGTH, 9), LENGTH);
		CHECK_EQUAL(partner_ask(&partner, PARTNER_ADVISE, remote, LENGTH, MADV_DONTNEED),
			    0);
	}
	stop();
}

static void refused(void)
{
	struct exanest_completion completion;
	uint64_t remote, ticket;
	struct exanest_submission get;

	start(8);
	remote = ASK(&partner, provide_range, 0, 0);
	get = (struct exanest_submission){
		.peer = partner.address,
		.local = (uintptr_t)local,
		.remote = remote + 3 * PAGE + 5,
		.length = 100,
		.op = EXANEST_OP_GET,
	};
	device_submit(&device, &get);
	ticket = ASK(&partner, next_fault, 60000, 0);
	CHECK(ticket);
	CHECK_EQUAL(ASK(&partner, resolve, ticket + 1, 0), -ENOENT);
	CHECK_EQUAL(ASK(&partner, resolve, ticket, 1), -EINVAL);
	CHECK_EQUAL(ASK(&partner, resolve, ticket, -EIO), 0);
	CHECK_EQUAL(ASK(&partner, resolve, ticket, -EIO), -ENOENT);
	device_wait(&device, &completion);
	CHECK_EQUAL(completion.status, -EFAULT);
	CHECK_EQUAL(completion.fault_side, EXANEST_SIDE_REMOTE);
	CHECK_EQUAL(completion.fault_address, remote + 3 * PAGE + 5);

	/* Given back while a block waits: the kernel's whole it is. */
	memset(local, 1, 100);
	device_submit(&device, &get);
	CHECK_EQUAL(ASK(&partner, next_fault, 60000, 1), remote + 3 * PAGE);
	CHECK_EQUAL(ASK(&partner, give_back, 0, 0), 0);
	CHECK_EQUAL(ASK(&partner, give_back, 0, 0), -ENOENT);
	device_wait(&device, &completion);
	CHECK_EQUAL(completion.status, 0);
	CHECK_EQUAL(local[50], 0);
	CHECK_EQUAL(device_statistics(&device).fault_errors, 1);
	stop();
}

/* What is there, but may not be written, is no pager's to provide. */
static void read_only(void)
{
	struct exanest_submission add = { .op = EXANEST_OP_ATOMIC, .length = 8 };
	struct exanest_completion completion;
	uint64_t remote;

	start(8);
	remote = ASK(&partner, provide_range, 1, 0);
	CHECK_EQUAL(device_transfer(&device, EXANEST_OP_GET, partner.address, local, remote, LENGTH,
				    NULL),
		    0);
	CHECK_EQUAL(partner_ask(&partner, PARTNER_PROTECT, remote, LENGTH, PROT_READ), 0);
	CHECK_EQUAL(device_transfer(&device, EXANEST_OP_PUT, partner.address, local,
				    remote + 7 * PAGE, 100, &completion),
		    -EFAULT);
	CHECK_EQUAL(completion.fault_address, remote + 7 * PAGE);
	add.peer = partner.address;
	add.remote = remote + 8 * PAGE;
	completion = device_do(&device, &add);
	CHECK_EQUAL(completion.status, -EFAULT);
	CHECK_EQUAL(completion.fault_address, remote + 8 * PAGE);
	CHECK_EQUAL(device_transfer(&device, EXANEST_OP_GET, partner.address, local, remote, LENGTH,
				    NULL),
		    0);
	CHECK_EQUAL(pattern_differs(local, LENGTH, 9), LENGTH);
	stop();
}

/* A pager that says yes, and does nothing: its peer's transfers end. */
static void pretended(void)
{
	struct exanest_completion completion;
	uint64_t remote;

	start(8);
	remote = ASK(&partner, provide_range, 1, 1);
	CHECK_EQUAL(device_transfer(&device, EXANEST_OP_GET, partner.address, local,
				    remote + 5 * PAGE, 100, &completion),
		    -EBUSY);
	CHECK_EQUAL(completion.fault_side, EXANEST_SIDE_REMOTE);
	stop();
}

static void not_answered(void)
{
	unsigned int before = parameter_get("pager_timeout_ms");
	struct exanest_completion completion;
	uint64_t remote;

	parameter_set("pager_timeout_ms", 200);
	start(8);
	remote = ASK(&partner, provide_range, 0, 0);
	CHECK_EQUAL(device_transfer(&device, EXANEST_OP_GET, partner.address, local, remote, LENGTH,
				    &completion),
		    -ETIMEDOUT);
	CHECK_EQUAL(completion.fault_side, EXANEST_SIDE_REMOTE);
	/* Across a link that loses packets, a later block may have met its fault first. */
	if (partner_is_far(&partner))
		CHECK(completion.fault_address - remote < LENGTH);
	else
		CHECK_EQUAL(completion.fault_address, remote);
	parameter_set("pager_timeout_ms", before);
	stop();
}

/* More blocks than an engine takes wait for an answer: another context's go on. */
static void beside_waiting(void)
{
	unsigned int before = parameter_get("pager_timeout_ms"), i;
	struct exanest_completion completion;
	uint64_t remote, memory;
	struct device other;

	parameter_set("pager_timeout_ms", 600000);
	start(8);
	remote = ASK(&partner, provide_range, 0, 0);
	memory = partner_ask(&partner, PARTNER_MAP, LENGTH, PROT_READ | PROT_WRITE, 0);
	for (i = 0; i < 32; i++)
		device_post(&device, EXANEST_OP_GET, partner.address, local, remote, LENGTH);
	CHECK(ASK(&partner, next_fault, 60000, 0));
	device_open(&other, NULL);
	for (i = 0; i < 4; i++)
		CHECK_EQUAL(device_transfer(&other, EXANEST_OP_PUT, partner.address, local, memory,
					    LENGTH, NULL),
			    0);
	device_close(&other);
	/* They still wait: the engine was not reset. */
	CHECK(!device_reap(&device, &completion));
	parameter_set("pager_timeout_ms", before);
	stop();
}

/* Either side dies while a block waits for an answer. */
static void death(void)
{
	struct exanest_submission get = { .op = EXANEST_OP_GET };
	unsigned int before = parameter_get("pager_timeout_ms");
	struct exanest_completion completion;
	uint64_t remote;

	parameter_set("pager_timeout_ms", 600000);
	start(8);
	remote = ASK(&partner, provide_range, 0, 0);
	get.peer = partner.address;
	get.local = (uintptr_t)local;
	get.remote = remote;
	get.length = LENGTH / 2;
	device_submit(&device, &get);
	CHECK(ASK(&partner, next_fault, 60000, 0));
	device_close(&device);
	device_open(&device, NULL);
	/* Elsewhere, as events of the first get may still be in the ring. */
	get.remote = remote + LENGTH / 2;
	device_submit(&device, &get);
	while (ASK(&partner, next_fault, 1000, 1) < get.remote)
		continue;
	partner_kill(&partner);
	device_wait(&device, &completion);
	CHECK_EQUAL(completion.status, partner_is_far(&partner) ? -EHOSTUNREACH : -ECONNRESET);
	device_close(&device);
	parameter_set("pager_timeout_ms", before);
}

/* Contexts of this process that the driver has not freed yet. */
static unsigned int contexts_count(void)
{
	FILE *file = fopen("/sys/kernel/debug/exanest/contexts", "r");
	char line[1000], pid[32];
	unsigned int count = 0;

	CHECK(file);
	snprintf(pid, sizeof(pid), " pid=%d ", (int)getpid());
	while (fgets(line, sizeof(line), file))
		count += strstr(line, pid) != NULL;
	fclose(file);
	return count;
}

static void *protect(void *memory)
{
	int protection = PROT_READ;

	for (;; protection ^= PROT_WRITE)
		CHECK_EQUAL(mprotect(memory, PROTECTED, protection), 0);
	return NULL;
}

/* In the partner: its address space is locked most of the time, so that page faults take long. */
static uint64_t delay_faults(uint64_t unused, uint64_t unused2)
{
	void *memory = map_private(PROTECTED, false);
	pthread_t thread;

	(void)unused, (void)unused2;
	memset(memory, 1, PROTECTED);
	return pthread_create(&thread, NULL, protect, memory);
}

/*
 * The submitter leaves while its block is on its way to a pager, where it must not wait. There is
 * one at a time: each that comes back makes the driver look for others that wait.
 */
static void left_meanwhile(void)
{
	unsigned int before = parameter_get("pager_timeout_ms"), round;
	struct device leaving;
	uint64_t remote;
	time_t end;

	parameter_set("pager_timeout_ms", 600000);
	start(8);
	remote = ASK(&partner, provide_range, 0, 0);
	CHECK_EQUAL(ASK(&partner, delay_faults, 0, 0), 0);
	for (round = 0; round < LEFT_ROUNDS; round++) {
		device_open(&leaving, NULL);
		device_post(&leaving, EXANEST_OP_GET, partner.address, local, remote, PAGE);
		usleep(random_below(LEFT_US));
		device_close(&leaving);
	}
	end = time(NULL) + LEFT_SECONDS;
	while (contexts_count() > 1) {
		CHECK(time(NULL) < end);
		usleep(10000);
	}
	parameter_set("pager_timeout_ms", before);
	stop();
}

static void arguments(void)
{
	struct device_options options = { .faults = 8 };
	struct device with, without;
	void *memory = map_private(LENGTH, false);

	device_open(&with, &options);
	device_open(&without, NULL);
	CHECK_EQUAL(pager(&without, 1, memory, LENGTH), -ENXIO);
	CHECK_EQUAL(pager(&with, 2, memory, LENGTH), -EINVAL);
	CHECK_EQUAL(pager(&with, 1, memory, 0), -EINVAL);
	CHECK_EQUAL(pager(&with, 1, (char *)memory + 1, LENGTH), -EINVAL);
	CHECK_EQUAL(pager(&with, 1, memory, 100), -EINVAL);
	CHECK_EQUAL(pager(&with, 1, (void *)-PAGE, 2 * PAGE), -EINVAL);
	CHECK_EQUAL(pager(&with, 1, memory, LENGTH), 0);
	CHECK_EQUAL(pager(&with, 1, (char *)memory + PAGE, PAGE), -EEXIST);
	CHECK_EQUAL(pager(&with, 0, (char *)memory + PAGE, PAGE), -ENOENT);
	CHECK_EQUAL(device_resolved(&with, 1, 0), -ENOENT);
	CHECK_EQUAL(device_resolved(&with, 0, 0), -EINVAL);
	device_close(&with); /* with the range taken over */
	device_close(&without);
}

/* In the partner: the range is one of userfaultfd, too. */
static uint64_t watch(uint64_t with_pager, uint64_t unused)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register range = { .mode = UFFDIO_REGISTER_MODE_MISSING };

	(void)unused;
	userfault = syscall(SYS_userfaultfd, O_CLOEXEC | 1 /* UFFD_USER_MODE_ONLY */);
	if (userfault < 0)
		return 0;
	CHECK(ioctl(userfault, UFFDIO_API, &api) == 0);
	provide_range(with_pager, 0);
	if (!with_pager)
		CHECK_EQUAL(give_back(0, 0), 0);
	range.range.start = (uintptr_t)provided;
	range.range.len = LENGTH;
	CHECK(ioctl(userfault, UFFDIO_REGISTER, &range) == 0);
	return (uintptr_t)provided;
}

/* The driver never sleeps in userfaultfd: who does not take the faults over gets errors. */
static void userfaultfd(void)
{
	uint64_t remote;

	start(8);
	remote = ASK(&partner, watch, 0, 0);
	if (!remote)
		test_skip("no userfaultfd");
	CHECK_EQUAL(device_transfer(&device, EXANEST_OP_GET, partner.address, local, remote, 100,
				    NULL),
		    -EFAULT);
	stop();

	start(8);
	remote = ASK(&partner, watch, 1, 0);
	CHECK_EQUAL(device_transfer(&device, EXANEST_OP_GET, partner.address, local, remote, LENGTH,
				    NULL),
		    0);
	CHECK_EQUAL(pattern_differs(local, LENGTH, 9), LENGTH);
	stop();
}

static const struct test tests[] = {
	{ "arguments", arguments },
	{ "provided_on_demand", provided_on_demand },
	{ "small_ring", small_ring },
	{ "refused", refused },
	{ "read_only", read_only },
	{ "pretended", pretended },
	{ "not_answered", not_answered },
	{ "beside_waiting", beside_waiting },
	{ "death", death },
	{ "left_meanwhile", left_meanwhile },
	{ "userfaultfd", userfaultfd },
	{ NULL, NULL },
};

int main(int argc, char **argv)
{
	return tests_run("forward", tests, argc, argv);
}

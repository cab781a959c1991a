// SPDX-License-Identifier: GPL-2.0
/*
 * What transfers cost, the peer beside it in the same run: cost [ROUNDS].
 * For driver/tests/vm --count, whose clock counts instructions, one a
 * nanosecond; prints the medians of the rounds and, as TAP, whether each is
 * what it should be:
 *
 *	warm: 4 MiB in 4 KiB pages, present on both sides, translations too
 *	cold: 4 MiB absent on both sides, against pages locked for the transfer
 *	neighbour: eight warm transfers while a ninth keeps meeting faults
 *
 * QEMU counts each step of a 'rep movsq', with which both the module and the
 * kernel's own calls copy in that machine, as an instruction; a processor counts
 * one. So a copy of as many steps is measured, too, and taken off both sides.
 */
#include "device.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define LENGTH (4ul << 20)
#define WARM 8

static unsigned int rounds = 21, number, failed;

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static uint64_t median(uint64_t *values)
{
	qsort(values, rounds, sizeof(*values), compare);
	return values[rounds / 2];
}

static void result(int good, const char *name)
{
	failed += !good;
	printf("%sok %u - %s\n", good ? "" : "not ", ++number, name);
}

static uint64_t partner_map(uint64_t length, uint64_t unused)
{
	void *memory = map_private(length, false);

	(void)unused;
	memset(memory, 1, length);
	return (uintptr_t)memory;
}

static void copy_steps(void *to, const void *from, size_t length)
{
#ifdef __x86_64__
	length /= 8;
	__asm__ volatile("rep movsq" : "+D"(to), "+S"(from), "+c"(length) : : "memory");
#else
	memcpy(to, from, length);
#endif
}

/* offset: of the remote side in its page. At most half of the call's, with or without the copy. */
static void warm(size_t offset, bool copied, const char *name)
{
	uint64_t *device_ns = calloc(rounds, 8), *call_ns = calloc(rounds, 8);
	uint64_t *copy_ns = calloc(rounds, 8), device_all, call, copy, start;
	struct partner partner;
	struct device device;
	unsigned char *local;
	uint64_t remote;
	unsigned int i;

	partner_start(&partner, NULL);
	device_open(&device, NULL);
	local = map_private(2 * LENGTH, false);
	memset(local, 2, 2 * LENGTH);
	remote = partner_ask(&partner, PARTNER_CALL, (uintptr_t)partner_map, LENGTH + 4096, 0) +
		 offset;
	for (i = 0; i < rounds; i++) {
		struct iovec here = { local, LENGTH }, there = { (void *)remote, LENGTH };

		device_post(&device, EXANEST_OP_GET, partner.address, local, remote, LENGTH);
		device_wait_asleep(&device);
		start = clock_ns(CLOCK_MONOTONIC);
		device_post(&device, EXANEST_OP_GET, partner.address, local, remote, LENGTH);
		device_wait_asleep(&device);
		device_ns[i] = clock_ns(CLOCK_MONOTONIC) - start;
		start = clock_ns(CLOCK_MONOTONIC);
		CHECK(process_vm_readv(partner.pid, &here, 1, &there, 1, 0) == (ssize_t)LENGTH);
		call_ns[i] = clock_ns(CLOCK_MONOTONIC) - start;
		start = clock_ns(CLOCK_MONOTONIC);
		copy_steps(local + LENGTH, local, LENGTH);
		copy_ns[i] = clock_ns(CLOCK_MONOTONIC) - start;
	}
	device_all = median(device_ns);
	call = median(call_ns);
	copy = median(copy_ns);
	printf("# warm offset=%zu device=%llu process_vm_readv=%llu ratio=%.3f\n", offset,
	       (unsigned long long)device_all, (unsigned long long)call, (double)device_all / call);
	printf("# ... without the copy's %llu steps: ratio=%.3f\n", (unsigned long long)copy,
	       ((double)device_all - copy) / ((double)call - copy));
	result(copied ? 2 * device_all <= call : 2 * (device_all - copy) <= call - copy, name);
	device_close(&device);
	partner_stop(&partner);
}

static double cold(unsigned int policy, const char *name)
{
	uint64_t *fault_ns = calloc(rounds, 8), *pin_ns = calloc(rounds, 8);
	uint64_t faulted, pinned, start;
	struct device_options options = { .policy = policy };
	unsigned char *local = map_private(LENGTH, false), *remote = map_private(LENGTH, false);
	struct device device;
	unsigned int i, pin;

	device_open(&device, &options);
	for (i = 0; i < 2 * rounds; i++) {
		pin = i & 1;
		madvise(local, LENGTH, MADV_DONTNEED);
		madvise(remote, LENGTH, MADV_DONTNEED);
		start = clock_ns(CLOCK_MONOTONIC);
		if (pin)
			CHECK(!mlock(local, LENGTH) && !mlock(remote, LENGTH));
		device_post(&device, EXANEST_OP_PUT, device.address, local, (uintptr_t)remote,
			    LENGTH);
		device_wait_asleep(&device);
		if (pin)
			CHECK(!munlock(local, LENGTH) && !munlock(remote, LENGTH));
		(pin ? pin_ns : fault_ns)[i / 2] = clock_ns(CLOCK_MONOTONIC) - start;
	}
	faulted = median(fault_ns);
	pinned = median(pin_ns);
	printf("# cold policy=%s device=%llu pinned=%llu ratio=%.3f\n", name,
	       (unsigned long long)faulted, (unsigned long long)pinned, (double)faulted / pinned);
	device_close(&device);
	return (double)faulted / pinned;
}

/* The ninth: a page is there a millisecond after it was asked for, and is taken away again. */
struct ninth {
	struct device device;
	unsigned char *provided, *local;
	int events;
	volatile int stop;
	unsigned long faults;
};

static void *ninth_run(void *argument)
{
	struct ninth *ninth = argument;
	struct exanest_completion completion;
	struct exanest_fault fault;
	struct pollfd entry = { .fd = ninth->device.fd, .events = POLLIN };

	while (!ninth->stop) {
		madvise(ninth->provided, LENGTH, MADV_DONTNEED);
		device_post(&ninth->device, EXANEST_OP_GET, ninth->device.address, ninth->local,
			    (uintptr_t)ninth->provided, LENGTH);
		while (!device_reap(&ninth->device, &completion)) {
			poll(&entry, 1, -1);
			while (device_fault(&ninth->device, &fault)) {
				usleep(1000);
				memset((void *)(uintptr_t)fault.address, 1, fault.length);
				device_resolved(&ninth->device, fault.ticket, 0);
				ninth->faults++;
			}
		}
	}
	return NULL;
}

static void ninth_open(struct ninth *ninth)
{
	struct device_options options = { .faults = 64 };
	struct exanest_pager pager = { .size = sizeof(pager), .enable = 1, .length = LENGTH };

	memset(ninth, 0, sizeof(*ninth));
	device_open(&ninth->device, &options);
	ninth->provided = map_private(LENGTH, false);
	ninth->local = map_private(LENGTH, false);
	pager.address = (uintptr_t)ninth->provided;
	CHECK_EQUAL(ioctl(ninth->device.fd, EXANEST_IOC_PAGER, &pager), 0);
}

static uint64_t eight(struct device *devices, unsigned char **memory)
{
	uint64_t start = clock_ns(CLOCK_MONOTONIC);
	unsigned int i;

	for (i = 0; i < WARM; i++)
		device_post(&devices[i], EXANEST_OP_PUT, devices[i].address, memory[i],
			    (uintptr_t)memory[i] + LENGTH, LENGTH);
	for (i = 0; i < WARM; i++)
		device_wait_asleep(&devices[i]);
	return clock_ns(CLOCK_MONOTONIC) - start;
}

static void neighbour(void)
{
	uint64_t *alone = calloc(rounds, 8), *beside = calloc(rounds, 8), warm_alone, warm_beside;
	struct device devices[WARM];
	unsigned char *memory[WARM];
	struct ninth ninth;
	unsigned long faults = 0;
	pthread_t thread;
	unsigned int i;

	for (i = 0; i < WARM; i++) {
		device_open(&devices[i], NULL);
		memory[i] = map_private(2 * LENGTH, false);
		memset(memory[i], i, 2 * LENGTH);
	}
	eight(devices, memory);
	for (i = 0; i < rounds; i++) {
		alone[i] = eight(devices, memory);
		ninth_open(&ninth);
		CHECK(pthread_create(&thread, NULL, ninth_run, &ninth) == 0);
		usleep(5000);
		beside[i] = eight(devices, memory);
		ninth.stop = 1;
		CHECK(pthread_join(thread, NULL) == 0);
		device_close(&ninth.device);
		munmap(ninth.provided, LENGTH);
		munmap(ninth.local, LENGTH);
		faults += ninth.faults;
	}
	warm_alone = median(alone);
	warm_beside = median(beside);
	printf("# neighbour alone=%llu beside=%llu ratio=%.3f faults=%lu\n",
	       (unsigned long long)warm_alone, (unsigned long long)warm_beside,
	       (double)warm_beside / warm_alone, faults);
	result(faults >= rounds && warm_beside <= warm_alone * 1.05,
	       "a transfer that meets faults slows eight others by no more than 5 %");
}

static unsigned char *pager_open(struct device *device, unsigned int pages)
{
	struct device_options options = { .faults = 128 };
	struct exanest_pager pager = { .size = sizeof(pager), .enable = 1 };
	unsigned char *memory = map_private(pages * PAGE, false);

	device_open(device, &options);
	pager.address = (uintptr_t)memory;
	pager.length = pages * PAGE;
	CHECK_EQUAL(ioctl(device->fd, EXANEST_IOC_PAGER, &pager), 0);
	return memory;
}

/* What a fault event and its answer cost while 128 blocks wait for each peer, each an atomic. */
static uint64_t pager_cost(unsigned int peers)
{
	enum { EACH = 128 };
	struct device owner, *devices = calloc(peers, sizeof(*devices));
	struct exanest_completion completion;
	struct exanest_fault fault;
	unsigned int i, j, events = 0;
	uint64_t *tickets = calloc(peers * EACH, 8), start;
	unsigned char *memory;
	struct exanest_submission add = { .op = EXANEST_OP_ATOMIC, .length = 8 };
	struct device_options options = { .submissions = EACH, .completions = EACH };

	memory = pager_open(&owner, peers * EACH);
	add.peer = owner.address;
	for (i = 0; i < peers; i++)
		device_open(&devices[i], &options);
	start = clock_ns(CLOCK_MONOTONIC);
	for (i = 0; i < peers; i++) {
		for (j = 0; j < EACH; j++) {
			add.remote = (uintptr_t)memory + (i * EACH + j) * PAGE;
			device_submit(&devices[i], &add);
		}
	}
	while (events < peers * EACH) {
		struct pollfd entry = { .fd = owner.fd, .events = POLLIN };

		/* Events that found no room come with an answer; of a ticket that there is not, here. */
		if (!device_fault(&owner, &fault)) {
			if (!poll(&entry, 1, 1))
				device_resolved(&owner, UINT64_MAX, 0);
			continue;
		}
		tickets[events++] = fault.ticket;
	}
	while (events) /* the last one first */
		CHECK_EQUAL(device_resolved(&owner, tickets[--events], -EIO), 0);
	for (i = 0; i < peers; i++)
		for (j = 0; j < EACH; j++) {
			struct pollfd entry = { .fd = devices[i].fd, .events = POLLIN };

			while (!device_reap(&devices[i], &completion))
				poll(&entry, 1, -1);
			CHECK_EQUAL(completion.status, -EFAULT);
		}
	start = clock_ns(CLOCK_MONOTONIC) - start;
	for (i = 0; i < peers; i++)
		device_close(&devices[i]);
	device_close(&owner);
	munmap(memory, peers * EACH * PAGE);
	free(devices);
	free(tickets);
	return start / (peers * EACH);
}

static void pager(void)
{
	uint64_t few, many;

	pager_cost(1);
	few = pager_cost(1);
	many = pager_cost(32);
	printf("# pager waiting=128 each=%llu waiting=4096 each=%llu ratio=%.3f\n",
	       (unsigned long long)few, (unsigned long long)many, (double)many / few);
	result(many < 2 * few, "a fault event costs the same however many blocks wait");
}

int main(int argc, char **argv)
{
	if (argc > 1)
		rounds = atoi(argv[1]);
	CHECK(rounds > 0);
	warm(0, true, "4 MiB cost at most half of process_vm_readv's instructions");
	warm(8, false, "the same without the copy's, where pages do not begin together");
	cold(EXANEST_POLICY_TOUCH, "touch");
	result(cold(EXANEST_POLICY_AHEAD, "ahead") < 1,
	       "absent pages cost less than locking them for the transfer");
	result(cold(EXANEST_POLICY_HUGE, "huge") < 1, "the same with huge pages");
	neighbour();
	pager();
	printf("1..%u\n", number);
	return failed != 0;
}

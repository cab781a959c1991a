// SPDX-License-Identifier: GPL-2.0
/*
 * The shares of the processors that the engine and other processes get when all
 * are busy. For driver/tests/vm --count, where no other machine's load is in it.
 */
#include "device.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PARAMETER "engine_share"
#define ROUNDS 51
#define LENGTH (2ul << 20)
#define SECONDS 3

static void bind_to(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	CHECK(sched_setaffinity(0, sizeof(set), &set) == 0);
}

static void *map(size_t length)
{
	void *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
			    0);

	CHECK(memory != MAP_FAILED);
	memset(memory, 1, length);
	return memory;
}

/* Keeps a processor busy; *used: how much of it it had, ns. */
static pid_t spinner(int cpu, volatile uint64_t *used)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	bind_to(cpu);
	for (;;)
		*used = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

static void end(const pid_t *pids, int count)
{
	int i;

	for (i = 0; i < count; i++)
		kill(pids[i], SIGKILL);
	for (i = 0; i < count; i++)
		waitpid(pids[i], NULL, 0);
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static uint64_t ninth_tenth(uint64_t *values)
{
	qsort(values, ROUNDS, sizeof(*values), compare);
	return values[ROUNDS * 9 / 10];
}

/* Time of one transfer of a caller that polls. */
static uint64_t polled(struct device *device, unsigned char *memory)
{
	struct exanest_submission submission = {
		.peer = device->address,
		.local = (uintptr_t)memory,
		.remote = (uintptr_t)memory + LENGTH,
		.length = LENGTH,
		.op = EXANEST_OP_PUT,
	};
	uint64_t start = clock_ns(CLOCK_MONOTONIC);
	struct exanest_completion completion;

	device_submit(device, &submission);
	while (!device_reap(device, &completion))
		;
	CHECK_EQUAL(completion.status, 0);
	return clock_ns(CLOCK_MONOTONIC) - start;
}

/* With as many that poll as there are processors, the engine does not wait for their time slices. */
static void pollers(void)
{
	int cpus = sysconf(_SC_NPROCESSORS_ONLN), cpu;
	uint64_t before[ROUNDS], equal[ROUNDS];
	unsigned int share = parameter_get(PARAMETER), i;
	volatile uint64_t *used = map(4096);
	unsigned char *memory = map(2 * LENGTH);
	struct device_options options = { .poll_us = 20 };
	struct device device;
	pid_t *pids = calloc(cpus, sizeof(*pids));

	device_open(&device, &options);
	for (cpu = 1; cpu < cpus; cpu++)
		pids[cpu] = spinner(cpu, &used[cpu]);
	bind_to(0);
	parameter_set(PARAMETER, 0);
	for (i = 0; i < ROUNDS; i++)
		equal[i] = polled(&device, memory);
	parameter_set(PARAMETER, share);
	for (i = 0; i < ROUNDS; i++)
		before[i] = polled(&device, memory);
	end(pids + 1, cpus - 1);
	free(pids);
	printf("# nine of ten transfers take at most %llu us, %llu by an equal\n",
	       (unsigned long long)ninth_tenth(before) / 1000,
	       (unsigned long long)ninth_tenth(equal) / 1000);
	CHECK(ninth_tenth(before) * 2 < ninth_tenth(equal));
	device_close(&device);
}

/* As many transfers as fit, again and again. */
static pid_t flood(void)
{
	struct pollfd entry = { .events = POLLIN };
	struct exanest_completion completion;
	struct exanest_submission submission;
	unsigned char *memory;
	struct device device;
	unsigned int i;
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	memory = map(2 * LENGTH);
	device_open(&device, NULL);
	submission = (struct exanest_submission){
		.peer = device.address,
		.local = (uintptr_t)memory,
		.remote = (uintptr_t)memory + LENGTH,
		.length = LENGTH,
		.op = EXANEST_OP_PUT,
	};
	entry.fd = device.fd;
	for (i = 0; i < 32; i++)
		device_submit(&device, &submission);
	for (;;) {
		poll(&entry, 1, -1);
		while (device_reap(&device, &completion))
			device_submit(&device, &submission);
	}
}

/* Every processor has time for others, however much is submitted. */
static void rest(void)
{
	int cpus = sysconf(_SC_NPROCESSORS_ONLN), floods = 2 * cpus, cpu, i;
	unsigned int share = parameter_get(PARAMETER), least = 100;
	volatile uint64_t *used = map(4096);
	uint64_t start, passed;
	pid_t *pids = calloc(3 * cpus, sizeof(*pids));

	for (i = 0; i < floods; i++)
		pids[i] = flood();
	for (cpu = 0; cpu < cpus; cpu++)
		pids[floods + cpu] = spinner(cpu, &used[cpu]);
	sleep(1);
	start = clock_ns(CLOCK_MONOTONIC);
	for (cpu = 0; cpu < cpus; cpu++)
		used[cpus + cpu] = used[cpu];
	sleep(SECONDS);
	passed = clock_ns(CLOCK_MONOTONIC) - start;
	for (cpu = 0; cpu < cpus; cpu++) {
		unsigned int percent = (used[cpu] - used[cpus + cpu]) * 100 / passed;

		printf("# processor %d: %u %% for others\n", cpu, percent);
		if (percent < least)
			least = percent;
	}
	end(pids, floods + cpus);
	free(pids);
	/* A processor's time is counted in ticks, and the floods themselves need some of it. */
	CHECK(least >= (100 - share) / 3);
}

static const struct test tests[] = {
	{ "callers that poll do not hold the engine up", pollers },
	{ "the engine leaves time on every processor", rest },
	{ NULL, NULL },
};

int main(int argc, char **argv)
{
	return tests_run("priority", tests, argc, argv);
}

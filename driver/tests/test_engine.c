// SPDX-License-Identifier: GPL-2.0
/*
 * What the driver does with an engine that works in the background, and with one that
 * fails: the module of driver/tests/engine, which each test loads anew.
 */
#include "device.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mman.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MODULE "/run/session/exanest_test.ko"
#define LENGTH (1ul << 20)
/* What an engine may take for a block; a virtual machine may be descheduled for longer than the second. */
#define TIMEOUT_MS 60000
#define FAILING_TIMEOUT_MS 400

static void load(const char *parameters)
{
	int fd = open(MODULE, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		test_skip("there is no " MODULE);
	syscall(SYS_delete_module, "exanest_test", O_NONBLOCK);
	CHECK_EQUAL(syscall(SYS_finit_module, fd, parameters, 0), 0);
	close(fd);
}

static void unload(void)
{
	CHECK_EQUAL(syscall(SYS_delete_module, "exanest_test", O_NONBLOCK), 0);
}

static void set(const char *name, const char *value)
{
	char path[100];

	snprintf(path, sizeof(path), "/sys/module/exanest_test/parameters/%s", name);
	CHECK(write_file(path, value));
}

static long get(const char *name)
{
	char path[100];
	FILE *file;
	long value;

	snprintf(path, sizeof(path), "/sys/module/exanest_test/parameters/%s", name);
	file = fopen(path, "r");
	CHECK(file && fscanf(file, "%ld", &value) == 1);
	fclose(file);
	return value;
}

/* A counter of the test engine in debugfs, -1: it is not registered. */
static long state(const char *counter)
{
	return engine_count("test", counter);
}

static struct device device;
static unsigned char *local, *remote;

static unsigned int timeout_before;

static void start(const char *parameters)
{
	load(parameters);
	timeout_before = parameter_get("block_timeout_ms");
	parameter_set("block_timeout_ms", TIMEOUT_MS);
	device_open(&device, NULL);
	CHECK(!strcmp(device_engine(&device), "test"));
	local = map_private(LENGTH, false);
	remote = map_private(LENGTH, false);
}

/* The first transfer starts a watchdog with this time-out, which a shorter one later does not change. */
static void start_failing(const char *parameters)
{
	start(parameters);
	parameter_set("block_timeout_ms", FAILING_TIMEOUT_MS);
}

static void stop(void)
{
	device_close(&device);
	unload();
	parameter_set("block_timeout_ms", timeout_before);
}

static int put(size_t length)
{
	return device_transfer(&device, EXANEST_OP_PUT, device.address, local, (uintptr_t)remote,
			       length, NULL);
}

static void put_verified(uint64_t what)
{
	pattern_fill(local, LENGTH, what);
	CHECK_EQUAL(put(LENGTH), 0);
	CHECK_EQUAL(pattern_differs(remote, LENGTH, what), LENGTH);
}

/* A transfer ends with -EIO, and what follows depends on the engine. */
static void put_fails(void)
{
	CHECK_EQUAL(put(100), -EIO);
}

static void works(void)
{
	struct exanest_submission add = { .op = EXANEST_OP_ATOMIC, .length = 8, .operand = 5 };
	struct exanest_completion completion;
	int round;

	start("");
	for (round = 0; round < 20; round++) {
		put_verified(round);
		madvise(round % 2 ? local : remote, LENGTH, MADV_DONTNEED);
	}
	*(uint64_t *)remote = 7;
	add.peer = device.address;
	add.remote = (uintptr_t)remote;
	completion = device_do(&device, &add);
	CHECK_EQUAL(completion.status, 0);
	CHECK_EQUAL(completion.value, 7);
	CHECK_EQUAL(*(uint64_t *)remote, 12);
	CHECK(mprotect(remote + LENGTH / 2, 4096, PROT_READ) == 0);
	CHECK_EQUAL(put(LENGTH), -EFAULT);
	CHECK_EQUAL(state("resets"), 0);
	CHECK_EQUAL(get("attached"), 1);
	stop();
}

/* Whatever submit accepts of what it is offered, if only it says when there is room. */
static void accepts_one(void)
{
	start("mode=one");
	put_verified(1);
	put_verified(2);
	CHECK_EQUAL(state("resets"), 0);
	stop();
}

/* It completes blocks that it does not accept: each is one or the other. */
static void both(void)
{
	int round;

	start("mode=both");
	for (round = 0; round < 5; round++)
		put_verified(round);
	CHECK_EQUAL(state("resets"), 0);
	CHECK_EQUAL(state("in_flight"), 0);
	stop();
}

static void never(void)
{
	struct exanest_submission gets[4], add = { .op = EXANEST_OP_ATOMIC, .length = 8 };
	struct exanest_completion completion;
	struct device other;
	int i, failed = 0;

	start_failing("");
	put_verified(1);
	device_open(&other, NULL);
	set("mode", "never");
	put_fails();
	CHECK(state("resets") >= 1);
	/* The context, and others, go on once the engine does. */
	set("mode", "work");
	put_verified(2);
	/* Of those in flight the late one ends, and atomics, which may have been executed. */
	set("mode", "never");
	add.peer = other.address;
	add.remote = (uintptr_t)remote;
	device_submit(&device, &(struct exanest_submission){ .op = EXANEST_OP_PUT,
							     .cookie = 1,
							     .peer = device.address,
							     .local = (uintptr_t)local,
							     .remote = (uintptr_t)remote,
							     .length = 100 });
	usleep(FAILING_TIMEOUT_MS / 2 * 1000);
	add.cookie = 2;
	device_submit(&device, &add);
	for (i = 0; i < 4; i++) {
		gets[i] = (struct exanest_submission){ .op = EXANEST_OP_GET,
						       .cookie = 10 + i,
						       .peer = other.address,
						       .local = (uintptr_t)local + i * 4096,
						       .remote = (uintptr_t)remote + i * 4096,
						       .length = 4096 };
		device_submit(&device, &gets[i]);
	}
	/* The first reset is that of cookie 1; what is sent again then is completed. */
	device_wait(&device, &completion);
	set("mode", "work");
	failed += completion.status == -EIO;
	for (i = 1; i < 6; i++) {
		if (completion.cookie < 10)
			CHECK_EQUAL(completion.status, -EIO);
		device_wait(&device, &completion);
		failed += completion.status == -EIO;
	}
	CHECK(failed >= 2);
	put_verified(3);
	device_close(&other);
	stop();
}

/* Completions from before the reset, when other blocks have their slots. */
static void late(void)
{
	int round;

	start_failing("late_ms=1500");
	put_verified(1);
	set("mode", "late");
	memset(remote, 0, 100);
	put_fails();
	set("mode", "work");
	parameter_set("block_timeout_ms", TIMEOUT_MS);
	for (round = 0; state("dropped") == 0; round++) {
		CHECK(round < 10000);
		put_verified(round);
	}
	CHECK_EQUAL(state("resets"), 1);
	stop();
}

static void twice(void)
{
	int round;

	start("mode=twice");
	for (round = 0; round < 10; round++)
		put_verified(round);
	CHECK(state("dropped") >= 10);
	CHECK_EQUAL(state("resets"), 0);
	stop();
}

/* It is reset until it is given up; then contexts get another engine. */
static void given_up(const char *mode)
{
	struct device other;
	char parameters[50];

	snprintf(parameters, sizeof(parameters), "mode=%s", mode);
	start_failing(parameters);
	put_fails();
	while (!state("dead")) {
		put_fails();
		CHECK(state("resets") <= 3);
	}
	put_fails();
	device_open(&other, NULL);
	CHECK(!strcmp(device_engine(&other), "software"));
	device_close(&other);
	stop();
}

static void slot(void)
{
	given_up("slot");
}

static void generation(void)
{
	given_up("generation");
}

static void length(void)
{
	given_up("length");
}

static void too_short(void)
{
	given_up("short");
}

static void side(void)
{
	given_up("side");
}

static void status(void)
{
	given_up("status");
}

static void full(void)
{
	given_up("full");
}

static void reset_fails(void)
{
	start_failing("mode=never reset_fails=1");
	put_fails();
	CHECK_EQUAL(state("resets"), 1);
	CHECK_EQUAL(state("dead"), 1);
	put_fails();
	stop();
}

/* What the driver knows to be present is mapped for the engine again. */
static void reset_forgets(void)
{
	start_failing("reset_forgets=1");
	put_verified(1);
	set("mode", "never");
	put_fails();
	CHECK(state("resets") >= 1);
	set("mode", "work");
	parameter_set("block_timeout_ms", TIMEOUT_MS);
	put_verified(2);
	stop();
}

/* Print the time since begin, ns, which must be shorter than that. */
static void check_time(uint64_t begin, unsigned int most_ms)
{
	uint64_t passed_ms = (clock_ns(CLOCK_MONOTONIC) - begin) / 1000000;

	printf("# %llu ms\n", (unsigned long long)passed_ms);
	CHECK(passed_ms < most_ms);
}

static void submit_put(void)
{
	struct exanest_submission submission = {
		.op = EXANEST_OP_PUT,
		.peer = device.address,
		.local = (uintptr_t)local,
		.remote = (uintptr_t)remote,
		.length = 100,
	};

	device_submit(&device, &submission);
	while (state("in_flight") < 1)
		usleep(1000);
}

/* The module of an engine goes while contexts use it: they get -EIO, and can be closed. */
static void unregistered(void)
{
	struct exanest_completion completion;
	struct device other;

	start("");
	put_verified(1);
	parameter_set("block_timeout_ms", 3600000);
	set("mode", "never");
	submit_put();
	unload();
	device_wait(&device, &completion);
	CHECK_EQUAL(completion.status, -EIO);
	put_fails();
	device_open(&other, NULL);
	CHECK(!strcmp(device_engine(&other), "software"));
	/* Contexts of different engines do not reach each other. */
	CHECK_EQUAL(device_transfer(&other, EXANEST_OP_PUT, device.address, local,
				    (uintptr_t)remote, 100, NULL),
		    -EHOSTUNREACH);
	device_close(&other);
	device_close(&device);
	parameter_set("block_timeout_ms", timeout_before);
}

static void *unload_in_background(void *argument)
{
	unload();
	return argument;
}

/* An engine moves until it is reset: pages that are taken away before that are not written any more. */
static void unregistered_moving(void)
{
	struct exanest_completion completion;
	unsigned char *other = map_private(LENGTH, false);
	pthread_t thread;

	start("");
	put_verified(0);
	set("page_us", "10000");
	pattern_fill(local, LENGTH, 1);
	device_submit(&device, &(struct exanest_submission){ .op = EXANEST_OP_PUT,
							     .peer = device.address,
							     .local = (uintptr_t)local,
							     .remote = (uintptr_t)remote,
							     .length = LENGTH });
	while (pattern_differs(remote, 4096, 0) == 4096)
		usleep(100);
	CHECK(pthread_create(&thread, NULL, unload_in_background, NULL) == 0);
	while (state("in_flight") >= 0)
		usleep(100);
	CHECK_EQUAL(munmap(remote, LENGTH), 0);
	/* Most likely its pages are now those that were freed. */
	pattern_fill(other, LENGTH, 2);
	pthread_join(thread, NULL);
	CHECK_EQUAL(pattern_differs(other, LENGTH, 2), LENGTH);
	device_wait(&device, &completion);
	CHECK(completion.status == -EIO || completion.status == -EFAULT);
	device_close(&device);
	parameter_set("block_timeout_ms", timeout_before);
}

/* With a block at an engine that does not answer: munmap(2), LEAVE, close, and a kill. */
static void not_hung(void)
{
	uint64_t begin = clock_ns(CLOCK_MONOTONIC);
	int status;
	pid_t pid;

	start_failing("");
	put_verified(1);
	set("mode", "never");
	submit_put();
	CHECK_EQUAL(munmap(remote, LENGTH), 0);
	CHECK_EQUAL(ioctl(device.fd, EXANEST_IOC_LEAVE), 0);
	CHECK(get("quiesced") >= 1);
	device_close(&device);

	set("mode", "work");
	device_open(&device, NULL);
	remote = map_private(LENGTH, false);
	put_verified(2);
	set("mode", "never");
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		device_open(&device, NULL);
		submit_put();
		pause();
	}
	while (state("in_flight") < 1)
		usleep(1000);
	kill(pid, SIGKILL);
	CHECK(waitpid(pid, &status, 0) == pid);
	check_time(begin, 60000);
	stop();
}

/* Once LEAVE returned nothing moves any more, in either direction, though the engine is slow. */
static void left_moving(void)
{
	unsigned char *copy = map_private(LENGTH, false);
	struct device other;
	int round;

	start("");
	for (round = 0; round < 2; round++) {
		set("page_us", "0");
		device_open(&other, NULL);
		memset(local, 2 * round, LENGTH);
		put_verified(round);
		set("page_us", "2000");
		memset(local, 2 * round + 1, LENGTH);
		device_submit(round ? &device : &other,
			      &(struct exanest_submission){
				      .op = round ? EXANEST_OP_PUT : EXANEST_OP_GET,
				      .peer = round ? other.address : device.address,
				      .local = (uintptr_t)(round ? local : remote),
				      .remote = (uintptr_t)(round ? remote : local),
				      .length = LENGTH });
		while (pattern_differs(remote, 4096, round) == 4096)
			usleep(100);
		CHECK_EQUAL(ioctl(other.fd, EXANEST_IOC_LEAVE), 0);
		memcpy(copy, remote, LENGTH);
		usleep(200000);
		CHECK(!memcmp(copy, remote, LENGTH));
		device_close(&other);
	}
	stop();
}

static _Atomic bool done;

static void *take_away(void *argument)
{
	unsigned int round;

	(void)argument;
	for (round = 0; !done; round++) {
		madvise(round % 2 ? local : remote, LENGTH, MADV_PAGEOUT);
		usleep(random_below(3000));
	}
	return NULL;
}

/* Pages are taken away between the engine's look at its table and the access. */
static void invalidated(void)
{
	int round, rounds = quick_or(5, 20);
	pthread_t thread;

	random_seed();
	start("page_us=100");
	CHECK(pthread_create(&thread, NULL, take_away, NULL) == 0);
	for (round = 0; round < rounds; round++) {
		put_verified(round);
		/* On a busy machine nothing may have been taken away yet. */
		if (!device_statistics(&device).invalidations && rounds < 500)
			rounds++;
	}
	done = true;
	pthread_join(thread, NULL);
	CHECK(device_statistics(&device).invalidations > 0);
	stop();
}

/* Engine threads that have no rest do not hold up what waits for all tasks. */
static void tasks_rcu(void)
{
	struct exanest_submission put_all = { .op = EXANEST_OP_PUT, .length = LENGTH };
	struct device busy[4];
	uint64_t begin;
	int status, i;
	pid_t pid;

	load("");
	unload(); /* the software engine, then */
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		local = map_private(2 * LENGTH, false);
		put_all.local = (uintptr_t)local;
		put_all.remote = put_all.local + LENGTH;
		for (i = 0; i < 4; i++)
			device_open(&busy[i], NULL);
		for (;;) {
			for (i = 0; i < 4; i++) {
				struct exanest_completion completion;

				put_all.peer = busy[i].address;
				device_submit(&busy[i], &put_all);
				while (busy[i].submitted - busy[i].reaped > 32)
					device_wait(&busy[i], &completion);
			}
		}
	}
	usleep(500000);
	load("");
	begin = clock_ns(CLOCK_MONOTONIC);
	set("rcu_tasks", "1");
	check_time(begin, 30000);
	kill(pid, SIGKILL);
	CHECK(waitpid(pid, &status, 0) == pid);
	unload();
}

/*
 * Makes pages all the time: meanwhile open, which has found an engine, waits for this process's
 * address space.
 */
static void *populate(void *argument)
{
	const volatile bool *ends = argument;
	const size_t length = 16 * LENGTH;
	void *memory = map_private(length, false);

	while (!*ends) {
		CHECK_EQUAL(madvise(memory, length, MADV_POPULATE_WRITE), 0);
		CHECK_EQUAL(madvise(memory, length, MADV_DONTNEED), 0);
	}
	return NULL;
}

/* Opens, moves some bytes and closes until the flag is set. */
static void come_and_go(const volatile bool *ends)
{
	const size_t length = 3 * PAGE;
	unsigned char *from = map_private(length, false), *to = map_private(length, false);
	unsigned int round, moved = 0;
	struct device own;
	pthread_t thread;
	int status;

	CHECK(pthread_create(&thread, NULL, populate, (void *)ends) == 0);
	for (round = 0; !*ends; round++) {
		device_open(&own, NULL);
		pattern_fill(from, length, round);
		status = device_transfer(&own, EXANEST_OP_PUT, own.address, from, (uintptr_t)to,
					 length, NULL);
		CHECK(status == 0 || status == -EIO); /* its engine was unregistered */
		CHECK(status || pattern_differs(to, length, round) == length);
		moved += !status;
		device_close(&own);
	}
	CHECK(moved);
	pthread_join(thread, NULL);
}

/* Nobody who opens sees that an engine is being registered or unregistered. */
static void opened_meanwhile(void)
{
	enum { PROCESSES = 3 };
	const int rounds = quick_or(6, 20);
	volatile bool *ends = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
				   -1, 0);
	pid_t pids[PROCESSES];
	int i, status;

	CHECK(ends != MAP_FAILED);
	for (i = 0; i < PROCESSES; i++) {
		pids[i] = fork();
		CHECK(pids[i] >= 0);
		if (pids[i] == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			come_and_go(ends);
			_exit(0);
		}
	}
	for (i = 0; i < rounds; i++) {
		load("");
		usleep(random_below(30000));
		unload();
		usleep(random_below(5000));
	}
	*ends = true;
	for (i = 0; i < PROCESSES; i++) {
		CHECK(waitpid(pids[i], &status, 0) == pids[i]);
		CHECK_EQUAL(status, 0);
	}
}

static const struct test tests[] = {
	{ "works", works },
	{ "accepts_one", accepts_one },
	{ "both", both },
	{ "never", never },
	{ "late", late },
	{ "twice", twice },
	{ "slot", slot },
	{ "generation", generation },
	{ "length", length },
	{ "too_short", too_short },
	{ "side", side },
	{ "status", status },
	{ "full", full },
	{ "reset_fails", reset_fails },
	{ "reset_forgets", reset_forgets },
	{ "unregistered", unregistered },
	{ "unregistered_moving", unregistered_moving },
	{ "opened_meanwhile", opened_meanwhile },
	{ "not_hung", not_hung },
	{ "left_moving", left_moving },
	{ "invalidated", invalidated },
	{ "tasks_rcu", tasks_rcu },
	{ NULL, NULL },
};

int main(int argc, char **argv)
{
	return tests_run("engine", tests, argc, argv);
}

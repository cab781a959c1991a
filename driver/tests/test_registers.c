// SPDX-License-Identifier: GPL-2.0
/*
 * What the driver does with an engine in hardware: the model, which driver/tests/vm --engine
 * starts beside the virtual machine. The last test kills it.
 */
#include "../registers.h"
#include "device.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/reboot.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define DRIVER "/sys/bus/pci/drivers/exanest"
#define PCI_DEVICES "/sys/bus/pci/devices"
#define PORTS "/sys/class/virtio-ports"
/* In a guest without a root: guest-initramfs. */
#define MODULE "/session/module.ko"
#define LENGTH (256ul << 10)
#define IN_FLIGHT 32
#define ROUNDS 10
#define RESETS 3
/* For what an engine may take for a block, in the test in which it takes none any more. */
#define TIMEOUT_MS 2000
/* After the kill: the time above, two time-outs of a command, and the pace of a busy machine. */
#define END_SECONDS 60

static struct device device;
static char engine[sizeof(((struct exanest_query *)0)->engine)]; /* its name */
static char *local, *remote;

static bool is_software(const struct device *of)
{
	return !strcmp(device_engine(of), "software");
}

static void start(void)
{
	device_open(&device, NULL);
	if (is_software(&device))
		test_skip("there is no engine in hardware");
	snprintf(engine, sizeof(engine), "%s", device_engine(&device));
	local = map_private(LENGTH, false);
	remote = map_private(LENGTH, false);
}

static int transfer(unsigned int op)
{
	return device_transfer(&device, op, device.address, local, (uintptr_t)remote, LENGTH, NULL);
}

static void forget(void *memory)
{
	CHECK_EQUAL(madvise(memory, LENGTH, MADV_DONTNEED), 0);
}

/* Pages of the source are there, those of the destination are not; and both the other way round. */
static void faults(void)
{
	struct exanest_statistics statistics;

	start();
	pattern_fill(local, LENGTH, 1);
	CHECK_EQUAL(transfer(EXANEST_OP_PUT), 0);
	CHECK_EQUAL(pattern_differs(remote, LENGTH, 1), LENGTH);
	statistics = device_statistics(&device);
	CHECK(statistics.faults && statistics.bytes == LENGTH);

	pattern_fill(remote, LENGTH, 2);
	forget(local);
	CHECK_EQUAL(transfer(EXANEST_OP_GET), 0);
	CHECK_EQUAL(pattern_differs(local, LENGTH, 2), LENGTH);

	/* The source is what is absent: zeros. */
	forget(remote);
	CHECK_EQUAL(transfer(EXANEST_OP_GET), 0);
	CHECK(!local[0] && !memcmp(local, local + 1, LENGTH - 1));
	device_close(&device);
}

/*
 * Blocks are cut by the written side, so the side that is read may be in two spans of
 * translations, and the fault in the second.
 */
static void unaligned(void)
{
	size_t span = 2ul << 20, offset;
	char *memory;

	start();
	memory = map_private(3 * span, false);
	memory += span - ((uintptr_t)memory & (span - 1));
	for (offset = PAGE / 2; offset < 16384; offset += 3 * PAGE) {
		local = memory + span - LENGTH / 2 - offset;
		pattern_fill(remote, LENGTH, offset);
		CHECK_EQUAL(madvise(memory, 2 * span, MADV_DONTNEED), 0);
		CHECK_EQUAL(transfer(EXANEST_OP_PUT), 0);
		CHECK(!remote[0] && !memcmp(remote, remote + 1, LENGTH - 1));
	}
	device_close(&device);
}

/* A page that was taken away is not written to any more: the put is to the one in its place. */
static void invalidated(void)
{
	unsigned int round;

	start();
	for (round = 1; round <= ROUNDS; round++) {
		pattern_fill(local, LENGTH, round);
		CHECK_EQUAL(transfer(EXANEST_OP_PUT), 0);
		CHECK_EQUAL(pattern_differs(remote, LENGTH, round), LENGTH);
		forget(remote);
		CHECK(!remote[0] && !memcmp(remote, remote + 1, LENGTH - 1));
		CHECK_EQUAL(transfer(EXANEST_OP_PUT), 0);
		CHECK_EQUAL(pattern_differs(remote, LENGTH, round), LENGTH);
	}
	CHECK(device_statistics(&device).invalidations >= ROUNDS);
	device_close(&device);
}

/* A fault in the middle of a block that cannot be resolved: its address and side. */
static void refused(void)
{
	struct exanest_completion completion;
	size_t hole = 5 * 16384 + 2 * PAGE;

	start();
	CHECK_EQUAL(munmap(remote + hole, PAGE), 0);
	CHECK_EQUAL(device_transfer(&device, EXANEST_OP_PUT, device.address, local,
				    (uintptr_t)remote, LENGTH, &completion),
		    -EFAULT);
	CHECK_EQUAL(completion.fault_side, EXANEST_SIDE_REMOTE);
	CHECK_EQUAL(completion.fault_address, remote + hole);
	device_close(&device);
}

static bool contains(const char *path, const char *text)
{
	char content[100] = "";
	FILE *file = fopen(path, "r");
	bool found;

	if (!file)
		return false;
	found = fgets(content, sizeof(content), file) && strstr(content, text);
	fclose(file);
	return found;
}

/* Other ivshmem devices are left alone. */
static void foreign(void)
{
	unsigned int engines = 0, others = 0;
	struct dirent *entry;
	char path[300];
	DIR *directory;

	directory = opendir(PCI_DEVICES);
	CHECK(directory);
	while ((entry = readdir(directory))) {
		snprintf(path, sizeof(path), PCI_DEVICES "/%s/device", entry->d_name);
		if (!contains(path, "0x1110"))
			continue;
		snprintf(path, sizeof(path), DRIVER "/%s", entry->d_name);
		if (access(path, F_OK))
			others++;
		else
			engines++;
	}
	closedir(directory);
	if (!engines)
		test_skip("there is no engine in hardware");
	CHECK_EQUAL(engines, 1);
	CHECK_EQUAL(others, 1);
}

/* Puts, as many at a time as the ring has room for. */
static void submit_puts(void)
{
	struct exanest_submission submission = {
		.peer = device.address,
		.local = (uintptr_t)local,
		.remote = (uintptr_t)remote,
		.length = LENGTH,
		.op = EXANEST_OP_PUT,
	};
	unsigned int i;

	for (i = 0; i < IN_FLIGHT; i++)
		device_submit(&device, &submission);
}

/* Puts until one fails, which has to be soon. Then all of them do. */
static void puts_fail(void)
{
	struct exanest_completion completion = { .status = 0 };
	time_t end = time(NULL) + END_SECONDS;
	unsigned int i;

	while (!completion.status) {
		CHECK(time(NULL) < end);
		submit_puts();
		for (i = 0; i < IN_FLIGHT; i++)
			device_wait(&device, &completion);
	}
	CHECK_EQUAL(completion.status, -EIO);
	CHECK_EQUAL(transfer(EXANEST_OP_PUT), -EIO);
}

static void software_works(void)
{
	device_open(&device, NULL);
	CHECK(is_software(&device));
	remote = map_private(LENGTH, false);
	pattern_fill(local, LENGTH, 7);
	CHECK_EQUAL(transfer(EXANEST_OP_PUT), 0);
	CHECK_EQUAL(pattern_differs(remote, LENGTH, 7), LENGTH);
	device_close(&device);
}

static volatile uint32_t *map_bar(const char *name, unsigned int number)
{
	volatile uint32_t *bar;
	char path[300];
	int fd;

	snprintf(path, sizeof(path), PCI_DEVICES "/%s/resource%u", name, number);
	fd = open(path, O_RDWR | O_SYNC | O_CLOEXEC);
	CHECK(fd >= 0);
	bar = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (bar == MAP_FAILED)
		test_skip("the kernel keeps registers to its drivers; see iomem=relaxed");
	close(fd);
	return bar;
}

/* Ring for an index that cannot be: the engine reports that it failed. */
static void break_index(unsigned int index, unsigned int number)
{
	volatile uint32_t *doorbell = map_bar(engine, EXANEST_BAR_DOORBELL);
	volatile uint32_t *registers = map_bar(engine, EXANEST_BAR_REGISTERS);

	registers[index / 4] += 100000;
	doorbell[EXANEST_DOORBELL_OFFSET / 4] = registers[EXANEST_REG_DOORBELL_BASE / 4] + number;
}

static void await_reset(long before)
{
	while (engine_count(engine, "resets") == before)
		usleep(10000);
}

/* It reports that it failed. It is reset, and goes on. */
static void failed(void)
{
	struct exanest_completion completion;
	unsigned int i;

	start();
	pattern_fill(local, LENGTH, 3);
	CHECK_EQUAL(transfer(EXANEST_OP_PUT), 0);
	submit_puts();
	break_index(EXANEST_REG_COMMAND_PRODUCER, EXANEST_DOORBELL_COMMAND);
	for (i = 0; i < IN_FLIGHT; i++) {
		device_wait(&device, &completion);
		CHECK_EQUAL(completion.status, 0);
	}
	await_reset(0);
	pattern_fill(local, LENGTH, 4);
	forget(remote);
	CHECK_EQUAL(transfer(EXANEST_OP_PUT), 0);
	CHECK_EQUAL(pattern_differs(remote, LENGTH, 4), LENGTH);
	device_close(&device);
}

/*
 * Pages are taken away while the engine is reset. The invalidation that waits for the engine
 * returns when that is off, so the next one comes before it is on again: it must not be stopped
 * for that. An engine that is stopped each time is given up.
 */
static void invalidated_in_reset(void)
{
	enum { BYTES = 16 << 20 };
	unsigned int round;
	size_t offset;
	long resets;

	start();
	local = map_private(BYTES, false);
	remote = map_private(BYTES, false);
	for (round = 1; round <= RESETS; round++) {
		pattern_fill(local, BYTES, round);
		CHECK_EQUAL(device_transfer(&device, EXANEST_OP_PUT, device.address, local,
					    (uintptr_t)remote, BYTES, NULL),
			    0);
		CHECK_EQUAL(pattern_differs(remote, BYTES, round), BYTES);
		resets = engine_count(engine, "resets");
		/* Not that of commands, which the next invalidation would set right. */
		break_index(EXANEST_REG_SUBMISSION_PRODUCER, EXANEST_DOORBELL_SUBMISSION);
		for (offset = 0; offset < BYTES; offset += PAGE)
			CHECK_EQUAL(madvise(remote + offset, PAGE, MADV_DONTNEED), 0);
		await_reset(resets);
	}
	CHECK_EQUAL(transfer(EXANEST_OP_PUT), 0);
	device_close(&device);
}

/* The device is taken from the driver while blocks are in flight, and given back. */
static void removed(void)
{
	struct exanest_completion completion;
	unsigned int i;

	start();
	CHECK_EQUAL(transfer(EXANEST_OP_PUT), 0);
	submit_puts();
	CHECK(write_file(DRIVER "/unbind", engine));
	for (i = 0; i < IN_FLIGHT; i++) {
		device_wait(&device, &completion);
		CHECK(!completion.status || completion.status == -EIO);
	}
	CHECK_EQUAL(transfer(EXANEST_OP_PUT), -EIO);
	CHECK_EQUAL(munmap(remote, LENGTH), 0);
	device_close(&device);
	software_works();

	CHECK(write_file(DRIVER "/bind", engine));
	start();
	pattern_fill(local, LENGTH, 8);
	CHECK_EQUAL(transfer(EXANEST_OP_PUT), 0);
	CHECK_EQUAL(pattern_differs(remote, LENGTH, 8), LENGTH);
	device_close(&device);
}

/* The path of a file of the device's power management. */
static void power_file(char path[300], const char *file)
{
	snprintf(path, 300, PCI_DEVICES "/%s/power/%s", engine, file);
}

static void await_power(const char *state)
{
	time_t end = time(NULL) + END_SECONDS;
	char path[300];

	power_file(path, "runtime_status");
	while (!contains(path, state)) {
		CHECK(time(NULL) < end);
		usleep(10000);
	}
}

/* It was off: it has started again, and has forgotten what it moved before. */
static void await_restart(void)
{
	time_t end = time(NULL) + END_SECONDS;

	while (engine_count(engine, "transfers") < 0) {
		CHECK(time(NULL) < end);
		usleep(10000);
	}
	CHECK_EQUAL(engine_count(engine, "transfers"), 0);
}

/* Where power/control permits, an engine is suspended while no context is open, and not before. */
static void runtime_suspended(void)
{
	char control[300];
	unsigned int round;

	start();
	power_file(control, "control");
	CHECK(write_file(control, "auto"));
	for (round = 1; round <= 2; round++) {
		await_power("active");
		pattern_fill(local, LENGTH, round);
		forget(remote);
		CHECK_EQUAL(transfer(EXANEST_OP_PUT), 0);
		CHECK_EQUAL(pattern_differs(remote, LENGTH, round), LENGTH);
		/* Longer than it takes until an engine without a context is suspended. */
		usleep(1500000);
		CHECK(engine_count(engine, "transfers") > 0);
		await_power("active");
		device_close(&device);
		await_power("suspended");
		CHECK_EQUAL(engine_count(engine, "transfers"), -1);
		device_open(&device, NULL);
		CHECK(!is_software(&device));
		await_restart();
	}
	device_close(&device);
	CHECK_EQUAL(engine_count(engine, "resets"), 0);
	/* A suspended one can be taken from the driver. */
	await_power("suspended");
	CHECK(write_file(DRIVER "/unbind", engine));
	CHECK(write_file(DRIVER "/bind", engine));
	await_power("suspended");
	CHECK(write_file(control, "on"));
	await_power("active");
}

/*
 * The machine is suspended while blocks are in flight; pm_test=devices resumes it after 5 s. Needs
 * driver/tests/vm --root none.
 */
static void suspended(void)
{
	enum { BYTES = 16 << 20, COUNT = 16 };
	struct exanest_completion completion;
	unsigned int i;

	start();
	local = map_private(BYTES, true);
	remote = map_private(BYTES, true);
	pattern_fill(local, BYTES, 1);
	CHECK_EQUAL(device_transfer(&device, EXANEST_OP_PUT, device.address, local,
				    (uintptr_t)remote, BYTES, NULL),
		    0);
	CHECK(engine_count(engine, "bytes") >= BYTES);
	for (i = 0; i < COUNT; i++)
		device_post(&device, EXANEST_OP_PUT, device.address, local, (uintptr_t)remote,
			    BYTES);
	CHECK(write_file("/sys/power/pm_test", "devices"));
	CHECK(write_file("/sys/power/state", "freeze"));
	CHECK(write_file("/sys/power/pm_test", "none"));
	for (i = 0; i < COUNT; i++) {
		device_wait(&device, &completion);
		CHECK_EQUAL(completion.status, 0);
	}
	CHECK_EQUAL(pattern_differs(remote, BYTES, 1), BYTES);
	/* It was off meanwhile, as it has forgotten what it moved before, and had blocks left to move. */
	CHECK(engine_count(engine, "bytes") > 0);
	CHECK(engine_count(engine, "bytes") <= COUNT * (long)BYTES);
	CHECK_EQUAL(engine_count(engine, "resets"), 0);
	device_close(&device);
}

/* The ivshmem device, which is the only one. */
static void find_engine(void)
{
	struct dirent *entry;
	char path[300];
	DIR *directory;

	directory = opendir(PCI_DEVICES);
	CHECK(directory);
	while ((entry = readdir(directory))) {
		snprintf(path, sizeof(path), PCI_DEVICES "/%s/device", entry->d_name);
		if (contains(path, "0x1110"))
			snprintf(engine, sizeof(engine), "%.*s", (int)sizeof(engine) - 1,
				 entry->d_name);
	}
	closedir(directory);
	if (!engine[0])
		test_skip("there is no engine in hardware");
}

static void load_module(const char *parameters)
{
	int fd = open(MODULE, O_RDONLY | O_CLOEXEC);

	CHECK(fd >= 0);
	CHECK_EQUAL(syscall(SYS_delete_module, "exanest", 0), 0);
	CHECK_EQUAL(syscall(SYS_finit_module, fd, parameters, 0), 0);
	close(fd);
}

/*
 * The machine is restarted while the engine is in use. The next kernel finds the engine off, and
 * runs this test again. Needs driver/tests/vm --root none --parameters engine_devices=0, so that
 * the module leaves the engine as it finds it, and --qemu -action --qemu reboot=reset.
 */
static void restarted(void)
{
	volatile uint32_t *registers;

	find_engine();
	registers = map_bar(engine, EXANEST_BAR_REGISTERS);
	CHECK_EQUAL(registers[EXANEST_REG_MAGIC / 4], EXANEST_MAGIC);
	CHECK_EQUAL(registers[EXANEST_REG_STATUS / 4], EXANEST_ENGINE_DISABLED);
	/* The driver sets it when it starts the engine. */
	if (registers[EXANEST_REG_INDEX_BASE / 4])
		return;
	load_module("engine_devices=1");
	start();
	CHECK_EQUAL(transfer(EXANEST_OP_PUT), 0);
	submit_puts();
	reboot(RB_AUTOBOOT);
	check_failed(__FILE__, __LINE__, "the machine restarts");
}

/* See driver/tests/vm --engine. */
static void kill_engine(void)
{
	struct dirent *entry;
	char path[300];
	DIR *directory;

	directory = opendir(PORTS);
	CHECK(directory);
	while ((entry = readdir(directory))) {
		snprintf(path, sizeof(path), PORTS "/%s/name", entry->d_name);
		if (!contains(path, "engine"))
			continue;
		snprintf(path, sizeof(path), "/dev/%s", entry->d_name);
		CHECK(write_file(path, "kill\n"));
		closedir(directory);
		return;
	}
	check_failed(__FILE__, __LINE__, "there is a port to have the engine killed by");
}

/* It does not answer any more: transfers, munmap(2) and close(2) end nevertheless. */
static void killed(void)
{
	unsigned int timeout = parameter_get("block_timeout_ms");

	start();
	parameter_set("block_timeout_ms", TIMEOUT_MS);
	CHECK_EQUAL(transfer(EXANEST_OP_PUT), 0);
	kill_engine();
	puts_fail();
	CHECK_EQUAL(munmap(remote, LENGTH), 0);
	device_close(&device);
	parameter_set("block_timeout_ms", timeout);
	software_works();
}

static const struct test tests[] = {
	{ "faults", faults },
	{ "unaligned", unaligned },
	{ "invalidated", invalidated },
	{ "refused", refused },
	{ "foreign", foreign },
	{ "failed", failed },
	{ "invalidated_in_reset", invalidated_in_reset },
	{ "removed", removed },
	{ "runtime_suspended", runtime_suspended },
	{ "killed", killed },
	{ NULL, NULL },
};

/* Each in a machine of its own. */
static const struct test alone[] = {
	{ "suspended", suspended },
	{ "restarted", restarted },
	{ NULL, NULL },
};

static bool runs_alone(const char *name)
{
	const struct test *test = alone;

	while (test->name && strcmp(test->name, name))
		test++;
	return test->name;
}

int main(int argc, char **argv)
{
	return tests_run("registers", argc == 2 && runs_alone(argv[1]) ? alone : tests, argc, argv);
}

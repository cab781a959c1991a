// SPDX-License-Identifier: GPL-2.0
/*
 * What the driver does between two nodes, that the tests with a partner do not ask: they run
 * between nodes as well. For driver/tests/nodes; the last two tests kill engines.
 */
#include "device.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LENGTH (4ul << 20)
#define END_SECONDS 120
/* EXPORTS_MAX of the module's engine_registers.c */
#define EXPORTS 32

static struct device device;
static struct partner partner;
static char *local;

static void start(void)
{
	if (!getenv("EXANEST_TEST_PARTNERS"))
		test_skip("there is no other node");
	partner_start(&partner, NULL);
	device_open(&device, NULL);
	local = map_private(LENGTH, false);
}

static void stop(void)
{
	device_close(&device);
	partner_stop(&partner);
}

static uint64_t map_there(void)
{
	return partner_ask(&partner, PARTNER_MAP, LENGTH, PROT_READ | PROT_WRITE, 0);
}

static int transfer(unsigned int op, uint64_t peer, uint64_t remote)
{
	return device_transfer(&device, op, peer, local, remote, LENGTH, NULL);
}

/* In the partner. */
static uint64_t pinned(uint64_t unused, uint64_t unused2)
{
	(void)unused, (void)unused2;
	return pinned_kib();
}

/* Nothing is there on either side, and nothing is pinned afterwards. */
static void absent(void)
{
	struct exanest_statistics statistics;
	char engine[64];
	long bytes, packets;
	uint64_t remote;

	start();
	snprintf(engine, sizeof(engine), "%s", device_engine(&device));
	bytes = engine_count(engine, "bytes");
	packets = engine_count(engine, "packets_sent");
	remote = map_there();
	CHECK(device.address >> EXANEST_ADDRESS_NODE_SHIFT &&
	      partner.address >> EXANEST_ADDRESS_NODE_SHIFT);
	CHECK(device.address >> EXANEST_ADDRESS_NODE_SHIFT !=
	      partner.address >> EXANEST_ADDRESS_NODE_SHIFT);
	CHECK_EQUAL(transfer(EXANEST_OP_GET, partner.address, remote), 0);
	CHECK(!local[0] && !memcmp(local, local + 1, LENGTH - 1));
	pattern_fill(local, LENGTH, 1);
	CHECK_EQUAL(partner_ask(&partner, PARTNER_ADVISE, remote, LENGTH, MADV_DONTNEED), 0);
	CHECK_EQUAL(transfer(EXANEST_OP_PUT, partner.address, remote), 0);
	CHECK_EQUAL(partner_ask(&partner, PARTNER_DIFFERS, remote, LENGTH, 1), LENGTH);
	CHECK_EQUAL(pinned_kib(), 0);
	CHECK_EQUAL(partner_ask(&partner, PARTNER_CALL, (uintptr_t)pinned, 0, 0), 0);
	statistics = device_statistics(&device);
	CHECK_EQUAL(statistics.bytes, 2 * LENGTH);
	CHECK(statistics.faults);
	/* What the engine counts itself. A put has a packet for each of its pages, or more. */
	CHECK_EQUAL(engine_count(engine, "bytes") - bytes, 2 * LENGTH);
	CHECK(engine_count(engine, "packets_sent") - packets >= (long)(LENGTH / 4096));
	stop();
}

/* A context of another domain knows the address, but not the secret. */
static void another_domain(void)
{
	const struct device_options other = { .secret = 'x' };
	uint64_t remote;

	start();
	remote = map_there();
	device_close(&device);
	device_open(&device, &other);
	CHECK_EQUAL(transfer(EXANEST_OP_PUT, partner.address, remote), -EHOSTUNREACH);
	CHECK_EQUAL(transfer(EXANEST_OP_GET, partner.address, remote), -EHOSTUNREACH);
	stop();
}

/* An address of a node that is none, and those of contexts that never were. */
static void addresses(void)
{
	uint64_t remote;

	start();
	remote = map_there();
	CHECK_EQUAL(transfer(EXANEST_OP_PUT, partner.address ^ 8ull << EXANEST_ADDRESS_NODE_SHIFT,
			     remote),
		    -EHOSTUNREACH);
	CHECK_EQUAL(transfer(EXANEST_OP_PUT, partner.address ^ 1ull << 40, remote), -EHOSTUNREACH);
	CHECK_EQUAL(transfer(EXANEST_OP_PUT, partner.address ^ 1, remote), -EHOSTUNREACH);
	CHECK_EQUAL(transfer(EXANEST_OP_PUT, partner.address, remote), 0);
	/* A context of this node, by the same engine. */
	CHECK_EQUAL(transfer(EXANEST_OP_PUT, device.address, (uintptr_t)local), 0);
	stop();
}

/* As ssh would. */
static void run_on(int node, const char *command)
{
	const char *nodes = getenv("EXANEST_TEST_NODES");
	char number[2] = { '0' + node };
	int status;
	pid_t pid;

	CHECK(nodes);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		execl(nodes, nodes, "on", number, command, NULL);
		_exit(127);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK_EQUAL(status, 0);
}

/* The module of the other node is removed, and comes back: its contexts are new ones, and are reached. */
static void reloaded(void)
{
	uint64_t remote;

	start();
	remote = map_there();
	CHECK_EQUAL(transfer(EXANEST_OP_PUT, partner.address, remote), 0);
	partner_stop(&partner);
	CHECK_EQUAL(transfer(EXANEST_OP_PUT, partner.address, remote), -EHOSTUNREACH);
	run_on(2, "m=\"/run/session/busybox\"; $m rmmod exanest && "
		  "$m insmod /run/session/module.ko $EXANEST_MODULE_PARAMETERS");
	partner_start(&partner, NULL);
	remote = map_there();
	pattern_fill(local, LENGTH, 2);
	CHECK_EQUAL(transfer(EXANEST_OP_PUT, partner.address, remote), 0);
	CHECK_EQUAL(partner_ask(&partner, PARTNER_DIFFERS, remote, LENGTH, 2), LENGTH);
	stop();
}

static void kill_engine(int node)
{
	run_on(node, "for p in /sys/class/virtio-ports/*; do "
		     "if grep -q engine $p/name; then echo kill >/dev/${p##*/}; fi; done");
}

/* Transfers end although the other engine does not answer any more, and this one works on. */
static void far_engine_killed(void)
{
	time_t end = time(NULL) + END_SECONDS;
	uint64_t remote;
	int status;

	start();
	remote = map_there();
	CHECK_EQUAL(transfer(EXANEST_OP_PUT, partner.address, remote), 0);
	kill_engine(2);
	do
		status = transfer(EXANEST_OP_PUT, partner.address, remote);
	while (!status && time(NULL) < end);
	CHECK_EQUAL(status, -EHOSTUNREACH);
	CHECK_EQUAL(transfer(EXANEST_OP_PUT, device.address, (uintptr_t)local), 0);
	stop();
}

/* Only the other node is waited for, which may take its time; this engine does not answer any more. */
static void own_engine_killed(void)
{
	uint64_t there = 2ull << EXANEST_ADDRESS_NODE_SHIFT, remote;
	time_t end = time(NULL) + END_SECONDS;
	int status;

	if (!getenv("EXANEST_TEST_PARTNERS"))
		test_skip("there is no other node");
	device_open(&device, NULL);
	local = map_private(LENGTH, false);
	remote = (uintptr_t)map_private(LENGTH, false);
	parameter_set("block_timeout_ms", 2000);
	kill_engine(1);
	/* Until it is killed it says that the other one, which was killed before, is not reached. */
	do
		status = transfer(EXANEST_OP_PUT, there | 1, remote);
	while (status == -EHOSTUNREACH && time(NULL) < end);
	CHECK_EQUAL(status, -EIO);
	device_close(&device);
	/* New contexts use the software engine. */
	device_open(&device, NULL);
	CHECK_EQUAL(device.address >> EXANEST_ADDRESS_NODE_SHIFT, 0);
	CHECK_EQUAL(transfer(EXANEST_OP_PUT, device.address, remote), 0);
	device_close(&device);
}

/* A process has so many contexts that other nodes reach; one more is refused, until one is closed. */
static void contexts_of_a_process(void)
{
	struct exanest_join join = { .size = sizeof(join), .secret = "s" };
	int files[EXPORTS + 1], i;

	start();
	device_close(&device);
	for (i = 0; i <= EXPORTS; i++) {
		files[i] = open(EXANEST_DEVICE, O_RDWR | O_CLOEXEC);
		CHECK(files[i] >= 0);
		if (i < EXPORTS)
			CHECK_EQUAL(ioctl(files[i], EXANEST_IOC_JOIN, &join), 0);
	}
	CHECK(ioctl(files[EXPORTS], EXANEST_IOC_JOIN, &join) == -1 && errno == EMFILE);
	close(files[0]);
	CHECK_EQUAL(ioctl(files[EXPORTS], EXANEST_IOC_JOIN, &join), 0);
	for (i = 1; i <= EXPORTS; i++)
		close(files[i]);
	device_open(&device, NULL);
	CHECK_EQUAL(transfer(EXANEST_OP_PUT, partner.address, map_there()), 0);
	stop();
}

static const struct test tests[] = {
	{ "absent", absent },
	{ "contexts_of_a_process", contexts_of_a_process },
	{ "another_domain", another_domain },
	{ "addresses", addresses },
	{ "reloaded", reloaded },
	{ "far_engine_killed", far_engine_killed },
	{ "own_engine_killed", own_engine_killed },
	{ NULL, NULL },
};

int main(int argc, char **argv)
{
	return tests_run("nodes", tests, argc, argv);
}

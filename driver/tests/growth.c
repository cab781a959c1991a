// SPDX-License-Identifier: GPL-2.0
/*
 * Small jobs, one after the other, of which a part is killed: growth [JOBS].
 * The kernel has the memory of all of them back afterwards.
 */
#include "device.h"

#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define LENGTH (1ul << 20)
#define CONTEXTS "/sys/kernel/debug/exanest/contexts"
/* Before the first measurement: caches of the kernel's own fill up. */
#define WARM_UP 50
/* What the kernel itself may have come to keep meanwhile, KiB, in slabs and altogether. */
#define SLAB_MOST 512
#define PAGES_MOST 4096

struct memory {
	unsigned long available, slab; /* KiB */
};

static int contexts_open(void)
{
	FILE *file = fopen(CONTEXTS, "r");
	char line[512];
	int lines = 0;

	CHECK(file);
	while (fgets(line, sizeof(line), file))
		lines++;
	fclose(file);
	return lines;
}

/* Once everything that ended has been given back, and caches are empty. */
static struct memory measure(void)
{
	struct memory memory = { 0, 0 };
	unsigned long value;
	char line[256];
	FILE *file;
	int tick, fd;

	for (tick = 0; contexts_open() && tick < 600; tick++)
		usleep(100000);
	CHECK_EQUAL(contexts_open(), 0);
	sleep(2);
	fd = open("/proc/sys/vm/drop_caches", O_WRONLY);
	CHECK(fd >= 0);
	CHECK(write(fd, "3", 1) == 1);
	close(fd);
	sleep(1);
	file = fopen("/proc/meminfo", "r");
	CHECK(file);
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "MemFree: %lu", &value) == 1 ||
		    sscanf(line, "Cached: %lu", &value) == 1)
			memory.available += value;
		if (sscanf(line, "SUnreclaim: %lu", &value) == 1)
			memory.slab = value;
	}
	fclose(file);
	return memory;
}

/* A put and a get of memory that is not there yet. number: every fourth dies of it. */
static void job(unsigned int number)
{
	struct partner partner;
	struct device device;
	unsigned char *local;
	uint64_t remote;

	partner_start(&partner, NULL);
	device_open(&device, NULL);
	local = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(local != MAP_FAILED);
	remote = partner_ask(&partner, PARTNER_MAP, LENGTH, PROT_READ | PROT_WRITE, 0);
	CHECK_EQUAL(device_transfer(&device, EXANEST_OP_GET, partner.address, local, remote, LENGTH,
				    NULL),
		    0);
	if (number % 4 == 0)
		raise(SIGKILL);
	pattern_fill(local, 4096, number);
	CHECK_EQUAL(device_transfer(&device, EXANEST_OP_PUT, partner.address, local, remote, LENGTH,
				    NULL),
		    0);
	CHECK_EQUAL(partner_ask(&partner, PARTNER_DIFFERS, remote, 4096, number), 4096);
	if (number % 4 == 1)
		_exit(0);
	device_close(&device);
	partner_stop(&partner);
	_exit(0);
}

static void jobs(unsigned int count)
{
	unsigned int i;
	int status;
	pid_t pid;

	for (i = 0; i < count; i++) {
		pid = fork();
		CHECK(pid >= 0);
		if (pid == 0)
			job(i);
		CHECK(waitpid(pid, &status, 0) == pid);
		CHECK_EQUAL(status, i % 4 == 0 ? SIGKILL : 0);
	}
}

int main(int argc, char **argv)
{
	unsigned int count = argc > 1 ? atoi(argv[1]) : 1000;
	struct memory before, after;
	long slab, pages;
	bool good;

	CHECK(count > 0);
	jobs(WARM_UP);
	before = measure();
	jobs(count);
	after = measure();
	slab = (long)after.slab - (long)before.slab;
	pages = (long)before.available - (long)after.available;
	printf("# after %u jobs: %ld KiB more in slabs, %ld KiB fewer free\n", count, slab, pages);
	good = slab < SLAB_MOST && pages < PAGES_MOST;
	printf("%sok 1 - %u jobs leave nothing behind\n1..1\n", good ? "" : "not ", count);
	return !good;
}

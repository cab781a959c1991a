/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a get by the engine of /dev/exanest costs, in all of the system: beside
 * process_vm_readv, and beside the same engine with pinned memory. Meant for a
 * machine of one processor, or one that counts instructions: then the clock
 * counts what the engine's thread does, too.
 */
#include "cost.h"

#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include "pattern.h"
#include "sample.h"

enum kind {
	READV,
	ENGINE,
	ENGINE_PINNED,
	COLD_READV,
	COLD_ENGINE,
	COLD_PINNED, /* locked before and unlocked after the transfer */
	KINDS
};

struct device {
	struct pair pair;
	uint64_t remote;
	size_t size;
	uint8_t *warm, *pinned; /* destinations */
	double *seconds[KINDS];
};

static int copy(struct device *device, uint8_t *local)
{
	struct iovec to = { local, device->size };
	struct iovec from = { (void *)(uintptr_t)device->remote, device->size };

	if (process_vm_readv(device->pair.child, &to, 1, &from, 1, 0) == (ssize_t)device->size)
		return 0;
	warn("process_vm_readv");
	return -1;
}

static int get(struct device *device, uint8_t *local)
{
	return cost_get(&device->pair, local, device->remote, device->size);
}

static int get_pinned(struct device *device, uint8_t *local)
{
	if (mlock(local, device->size)) {
		warn("mlock");
		return -1;
	}
	if (get(device, local))
		return -1;
	return munlock(local, device->size);
}

static int one(struct device *device, enum kind kind, size_t number)
{
	bool cold = kind >= COLD_READV;
	uint8_t *local = kind == ENGINE_PINNED ? device->pinned : device->warm;
	double start;
	int status;

	if (cold) {
		local = cost_untouched(device->size);
		if (!local)
			return -1;
	}
	start = sample_seconds();
	switch (kind) {
	case READV:
	case COLD_READV:
		status = copy(device, local);
		break;
	case COLD_PINNED:
		status = get_pinned(device, local);
		break;
	default:
		status = get(device, local);
	}
	device->seconds[kind][number] = sample_seconds() - start;
	if (!status && !pattern_matches(local, device->size, COST_SEED)) {
		warnx("wrong contents after a transfer of %zu bytes", device->size);
		status = -1;
	}
	if (cold)
		munmap(local, device->size);
	else
		memset(local, 0, device->size);
	return status;
}

/* The kernel's own word, from the line of /proc/self/status, in KiB. */
static long kernel_says(const char *name)
{
	FILE *file = fopen("/proc/self/status", "re");
	long value = -1;
	char line[128];

	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, name, strlen(name)))
			value = strtol(line + strlen(name), NULL, 10);
	if (file)
		fclose(file);
	return value;
}

static int check_pins(void)
{
	if (kernel_says("VmLck:") == 0 && kernel_says("VmPin:") == 0)
		return 0;
	warnx("pages are pinned or locked that should not be");
	return -1;
}

static int measure(struct device *device, const struct cost *cost)
{
	size_t skip = (size_t)cost->warm_up, count = skip + (size_t)cost->iterations, i, kind;

	for (i = 0; i < count; i++) {
		for (kind = 0; kind < KINDS; kind++) {
			if (kind == ENGINE_PINNED && mlock(device->pinned, device->size))
				return -1;
			if (one(device, (enum kind)kind, i))
				return -1;
			if (kind == ENGINE_PINNED && munlock(device->pinned, device->size))
				return -1;
			if (check_pins())
				return -1;
		}
	}
	for (kind = 0; kind < KINDS; kind++)
		printf("%20.4f",
		       cost_microseconds(device->seconds[kind] + skip, (size_t)cost->iterations));
	return 0;
}

/* Present pages of the usual size. */
static uint8_t *buffer(size_t size)
{
	uint8_t *area = cost_untouched(size);

	if (area)
		memset(area, 1, size);
	return area;
}

int cost_device(const struct cost *cost)
{
	struct device device = { .size = cost->size };
	size_t count = (size_t)(cost->iterations + cost->warm_up);
	pf_options options = *cost->options;
	int status = -1;
	size_t kind;

	options.transport = PF_TRANSPORT_DEVICE;
	device.warm = buffer(cost->size);
	device.pinned = buffer(cost->size);
	for (kind = 0; kind < KINDS; kind++) {
		device.seconds[kind] = calloc(count, sizeof(double));
		if (!device.seconds[kind])
			goto out;
	}
	if (!device.warm || !device.pinned ||
	    cost_open(&device.pair, cost, &options, cost->size, &device.remote))
		goto out;
	if (strstr(pf_peer_path(device.pair.peer), "engine"))
		status = measure(&device, cost);
	else
		warnx("%s", pf_peer_path(device.pair.peer));
	if (cost_close(&device.pair))
		status = -1;
out:
	for (kind = 0; kind < KINDS; kind++)
		free(device.seconds[kind]);
	if (device.warm)
		munmap(device.warm, cost->size);
	if (device.pinned)
		munmap(device.pinned, cost->size);
	return status;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The time of a get by the engine of /dev/exanest, compared with
 * process_vm_readv and with a get by the engine into locked memory. Run it on
 * one processor, or where a nanosecond is an instruction: the time then
 * includes the work of the engine's thread.
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
	COLD_PINNED, /* with mlock before the transfer and munlock after it */
	KINDS
};

struct device {
	struct session session;
	uint64_t remote;
	size_t size;
	uint8_t *warm, *pinned; /* destinations */
	double *samples[KINDS]; /* s */
};

static int copy(struct device *device, uint8_t *local)
{
	struct iovec to = { local, device->size };
	struct iovec from = { (void *)(uintptr_t)device->remote, device->size };

	if (process_vm_readv(device->session.child, &to, 1, &from, 1, 0) == (ssize_t)device->size)
		return 0;
	warn("process_vm_readv");
	return -1;
}

static int get(struct device *device, uint8_t *local)
{
	return cost_get(&device->session, local, device->remote, device->size);
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

static int measure_once(struct device *device, enum kind kind, size_t number)
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
	device->samples[kind][number] = sample_seconds() - start;
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

static int check_pins(void)
{
	if (process_status(getpid(), "VmLck") == 0 && process_status(getpid(), "VmPin") == 0)
		return 0;
	warnx("pages are pinned or locked after a transfer: see VmLck and VmPin");
	return -1;
}

static int measure(struct device *device, const struct cost *cost)
{
	size_t skip = (size_t)cost->warm_up, count = skip + (size_t)cost->iterations, i, kind;

	for (i = 0; i < count; i++) {
		for (kind = 0; kind < KINDS; kind++) {
			if (kind == ENGINE_PINNED && mlock(device->pinned, device->size))
				return -1;
			if (measure_once(device, (enum kind)kind, i))
				return -1;
			if (kind == ENGINE_PINNED && munlock(device->pinned, device->size))
				return -1;
			if (check_pins())
				return -1;
		}
	}
	cost_print(device->samples, KINDS, skip, (size_t)cost->iterations);
	return 0;
}

/* Map and touch pages of the base size. */
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

	options.transport = PF_TRANSPORT_DEVICE;
	device.warm = buffer(cost->size);
	device.pinned = buffer(cost->size);
	if (!device.warm || !device.pinned || cost_samples(device.samples, KINDS, count) ||
	    cost_open(&device.session, cost, &options, cost->size, &device.remote))
		goto out;
	if (strstr(pf_peer_path(device.session.peer), "engine"))
		status = measure(&device, cost);
	else
		warnx("%s", pf_peer_path(device.session.peer));
	if (cost_close(&device.session))
		status = -1;
out:
	free(device.samples[0]);
	if (device.warm)
		munmap(device.warm, cost->size);
	if (device.pinned)
		munmap(device.pinned, cost->size);
	return status;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the service thread does for /dev/exanest: resolve the faults that the
 * kernel forwards, and wake progress from its sleep when the engine is done.
 */
#ifndef PF_DEVICE_WATCH_H
#define PF_DEVICE_WATCH_H

#include "base/service.h"
#include "device.h"
#include "memory/memory.h"

struct event;

struct device_watch {
	struct device *device;
	struct memory *memory;
	struct service *service;
	void (*wake)(pf_context *context);
	pf_context *context;
	struct event *faulted;
	struct event *completed; /* added only while progress sleeps */
};

/*
 * Before service_start. wake(context): wake progress. What it is given belongs to the
 * caller and lives longer. PF_OK, also without a device, or PF_ERR_MEMORY.
 */
int device_watch_open(struct device_watch *watch, struct device *device, struct memory *memory,
		      struct service *service, void (*wake)(pf_context *context),
		      pf_context *context);
/* After service_stop, or where service_start was never called. */
void device_watch_close(struct device_watch *watch);
/* Progress, before it sleeps: have it woken by the next completion. */
void device_watch_await(struct device_watch *watch);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The part of /dev/exanest on the service thread: resolve the page faults that the kernel forwards,
 * and wake progress from its sleep when a transfer has completed.
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
	void (*wake)(pf_context *context); /* wakes progress; any thread */
	pf_context *context;               /* argument of wake */
	struct event *faulted;             /* on fault_event; NULL: no device */
	struct event *completed; /* on completion_event; active only while progress sleeps */
};

/*
 * Open the watch before service_start. wake(context) wakes progress. All arguments are borrowed and
 * must outlive the watch. Return PF_OK, also without a device, or PF_ERR_MEMORY.
 */
int device_watch_open(struct device_watch *watch, struct device *device, struct memory *memory,
		      struct service *service, void (*wake)(pf_context *context),
		      pf_context *context);
/* Close the watch after service_stop, or if service_start was never called. */
void device_watch_close(struct device_watch *watch);
/*
 * Progress, before a sleep: have the next completion wake progress. Check device_has_completion
 * afterwards: an earlier completion wakes nothing.
 */
void device_watch_await(struct device_watch *watch);

#endif

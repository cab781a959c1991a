/* SPDX-License-Identifier: BSD-3-Clause */
#include "watch.h"

#include <event2/event.h>
#include <stdlib.h>

#include "base/allocate.h"
#include "base/check.h"
#include "base/page.h"

/* A page fault of the engine, being resolved. */
struct device_fault {
	struct resolution resolution; /* first member: a pointer to it points to the fault, too */
	struct device *device;
	uint64_t ticket;
};

/* Resolving thread: answer the fault. */
static void device_fault_resolved(struct resolution *resolution)
{
	struct device_fault *fault = (struct device_fault *)resolution;
	uint64_t page = page_size();
	int status = resolution->status;

	/* With the first page present, the engine can go on, and reports the absent page later. */
	if (status != PF_OK && resolution->failed / page != resolution->address / page)
		status = PF_OK;
	device_answer_fault(fault->device, fault->ticket, status);
	free(fault);
}

static void device_watch_on_fault(int fd, short what, void *arg)
{
	struct device_watch *watch = arg;
	struct exanest_fault reported;

	assert_service(watch->service);
	(void)fd;
	(void)what;
	while (device_take_fault(watch->device, &reported)) {
		struct device_fault *fault = allocate_or_wait(sizeof(*fault));

		*fault = (struct device_fault){ .resolution = { .address = reported.address,
								.length = reported.length,
								.write = reported.write,
								.done = device_fault_resolved },
						.device = watch->device,
						.ticket = reported.ticket };
		memory_resolve(watch->memory, &fault->resolution);
	}
}

static void device_watch_on_completion(int fd, short what, void *arg)
{
	struct device_watch *watch = arg;

	assert_service(watch->service);
	(void)fd;
	(void)what;
	watch->wake(watch->context);
}

int device_watch_open(struct device_watch *watch, struct device *device, struct memory *memory,
		      struct service *service, void (*wake)(pf_context *context),
		      pf_context *context)
{
	assert_service(service);
	*watch = (struct device_watch){ .device = device,
					.memory = memory,
					.service = service,
					.wake = wake,
					.context = context };
	if (device->fd < 0)
		return PF_OK;
	watch->faulted = event_new(service->base, device->fault_event, EV_READ | EV_PERSIST,
				   device_watch_on_fault, watch);
	watch->completed = event_new(service->base, device->completion_event, EV_READ,
				     device_watch_on_completion, watch);
	if (watch->faulted && watch->completed && !event_add(watch->faulted, NULL))
		return PF_OK;
	device_watch_close(watch);
	return PF_ERR_MEMORY;
}

void device_watch_close(struct device_watch *watch)
{
	assert_service(watch->service);
	if (watch->faulted)
		event_free(watch->faulted);
	if (watch->completed)
		event_free(watch->completed);
	watch->faulted = NULL;
	watch->completed = NULL;
}

struct await_task {
	struct task task;
	struct device_watch *watch;
};

/* Service thread: watch for the next completion. */
static void await_task_run(struct task *task, bool dropped)
{
	const struct await_task *await = (struct await_task *)task;

	assert_service(await->watch->service);
	if (!dropped)
		event_add(await->watch->completed, NULL);
	free(task);
}

void device_watch_await(struct device_watch *watch)
{
	struct await_task *await = malloc(sizeof(*await));

	assert_progress(watch->context);
	/* Without memory for the task, progress sleeps until its timeout. */
	if (!await)
		return;
	*await = (struct await_task){ .task.run = await_task_run, .watch = watch };
	service_run(watch->service, &await->task);
}

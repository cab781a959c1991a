/* SPDX-License-Identifier: BSD-3-Clause */
#include "service.h"

#include <errno.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "allocate.h"
#include "check.h"
#include "descriptor.h"
#include <libpf/pf.h>
#include "slice.h"
#include "thread.h"

static void service_wake(struct service *service)
{
	uint64_t one = 1;

	/* The write can only fail with a full counter, and then the thread is awake. */
	if (write(service->wake, &one, sizeof(one)) < 0)
		return;
}

/* Run the tasks queued until now. Return whether the thread is to stop. */
static bool service_run_tasks(struct service *service, bool dropped)
{
	struct tasks tasks = STAILQ_HEAD_INITIALIZER(tasks);
	struct task *task;
	bool stopping;

	pthread_mutex_lock(&service->lock);
	STAILQ_CONCAT(&tasks, &service->tasks);
	stopping = service->stopping;
	pthread_mutex_unlock(&service->lock);
	while ((task = STAILQ_FIRST(&tasks))) {
		STAILQ_REMOVE_HEAD(&tasks, next);
		task->run(task, dropped);
	}
	return stopping;
}

static void service_on_wake(int fd, short what, void *arg)
{
	struct service *service = arg;
	uint64_t count;

	assert_service(service);
	(void)what;
	while (read(fd, &count, sizeof(count)) < 0 && errno == EINTR)
		;
	if (service_run_tasks(service, false))
		event_base_loopbreak(service->base);
}

static void *service_main(void *arg)
{
	struct service *service = arg;

	(void)check_enter(service, service);
	slice_request_short();
	/* The first allocation of a thread is slow: now, not while progress waits for a task. */
	free(allocate_or_wait(1));
	event_base_dispatch(service->base);
	return NULL;
}

void service_run(struct service *service, struct task *task)
{
	pthread_mutex_lock(&service->lock);
	STAILQ_INSERT_TAIL(&service->tasks, task, next);
	pthread_mutex_unlock(&service->lock);
	service_wake(service);
}

/* libevent ends the process without these: epoll, a pair for signals, and an eventfd. */
#define SERVICE_DESCRIPTORS 4

int service_open(struct service *service)
{
	memset(service, 0, sizeof(*service));
	STAILQ_INIT(&service->tasks);
	pthread_mutex_init(&service->lock, NULL);
	service->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (descriptor_limit_reserve(SERVICE_DESCRIPTORS))
		service->base = event_base_new();
	if (service->wake >= 0 && service->base)
		service->woken = event_new(service->base, service->wake, EV_READ | EV_PERSIST,
					   service_on_wake, service);
	if (service->woken && !event_add(service->woken, NULL))
		return PF_OK;
	service_close(service);
	return PF_ERR_SYSTEM;
}

int service_start(struct service *service)
{
	int error = thread_start(&service->thread, "libpf service", service_main, service);

	if (!error)
		return PF_OK;
	errno = error;
	return PF_ERR_SYSTEM;
}

struct event *service_event(struct service *service, int fd, short what,
			    void (*callback)(int fd, short what, void *arg), void *arg)
{
	struct event *event;
	unsigned tries = 0;

	assert_service(service);
	while (!(event = event_new(service->base, fd, what, callback, arg)))
		allocate_wait(&tries);
	return event;
}

void service_stop(struct service *service)
{
	pthread_mutex_lock(&service->lock);
	service->stopping = true;
	pthread_mutex_unlock(&service->lock);
	service_wake(service);
	pthread_join(service->thread, NULL);
}

void service_close(struct service *service)
{
	(void)service_run_tasks(service, true);
	if (service->woken)
		event_free(service->woken);
	if (service->base)
		event_base_free(service->base);
	if (service->wake >= 0)
		close(service->wake);
	pthread_mutex_destroy(&service->lock);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The service thread: an event loop and an executor for what must go on
 * whether or not the application is inside pf_progress. It sleeps otherwise.
 * It knows nothing of what it runs: the layers above register events on its
 * loop and give it tasks.
 *
 * Lifetime: service_open, events on service_base, service_start, tasks and more
 * events (from the thread itself only), service_stop, events freed,
 * service_close.
 */
#ifndef PF_SERVICE_H
#define PF_SERVICE_H

#include <pthread.h>
#include <stdbool.h>

struct event;
struct event_base;

/*
 * Work for the service thread, embedded in an allocation of the caller's that
 * run frees. dropped: the thread has ended, run must only free what the task
 * holds.
 */
struct task {
	struct task *next;
	void (*run)(struct task *task, bool dropped);
};

struct service {
	struct event_base *base;
	int wake; /* eventfd: tasks were added, or the thread is to stop */
	struct event *woken;
	pthread_t thread;
	/* Under the lock. */
	pthread_mutex_t lock;
	struct task *tasks, **tasks_last;
	bool stopping;
};

/* PF_OK, or PF_ERR_SYSTEM with nothing left open. */
int service_open(struct service *service);
/* Start the thread. PF_OK, or PF_ERR_SYSTEM with errno. */
int service_start(struct service *service);
/* Any thread: have the task run by the service thread, in the order given. */
void service_run(struct service *service, struct task *task);
/*
 * Service thread: a new event of its loop. Waits for memory, as allocate_or_wait: without the event
 * a peer or a page fault would be lost.
 */
struct event *service_event(struct service *service, int fd, short what,
			    void (*callback)(int fd, short what, void *arg), void *arg);
/* Run the tasks given so far, then end the thread. */
void service_stop(struct service *service);
/* After service_stop, or without service_start: drop the tasks that are left. */
void service_close(struct service *service);

#endif

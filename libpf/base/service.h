/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The service thread: an event loop and an executor for work independent of the application's
 * calls of pf_progress. The thread sleeps otherwise. The work is unknown here: the layers above
 * register events on the loop and give tasks to the thread.
 *
 * Lifetime: service_open, events on service_base, service_start, tasks and more events (from the
 * thread itself only), service_stop, events freed, service_close.
 */
#ifndef PF_SERVICE_H
#define PF_SERVICE_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/queue.h>

struct event;
struct event_base;

/*
 * Work for the service thread, embedded in an allocation of the caller, freed by run. dropped:
 * the thread has ended, and run must only free the memory of the task.
 */
struct task {
	STAILQ_ENTRY(task) next;
	void (*run)(struct task *task, bool dropped);
};

STAILQ_HEAD(tasks, task);

struct service {
	struct event_base *base;
	int wake; /* eventfd: signals new tasks, or the stop of the thread */
	struct event *woken;
	pthread_t thread;
	/* Under the lock. */
	pthread_mutex_t lock;
	struct tasks tasks;
	bool stopping;
};

/* PF_OK, or PF_ERR_SYSTEM with nothing left open. */
int service_open(struct service *service);
/* Start the thread. PF_OK, or PF_ERR_SYSTEM with errno. */
int service_start(struct service *service);
/* Any thread: have the task run by the service thread, in the order of the calls. */
void service_run(struct service *service, struct task *task);
/*
 * Service thread: make a new event of its loop. Waits for memory, as allocate_or_wait: without
 * the event a peer or a page fault would be lost.
 */
struct event *service_event(struct service *service, int fd, short what,
			    void (*callback)(int fd, short what, void *arg), void *arg);
/* Run the tasks queued until now, then end the thread. */
void service_stop(struct service *service);
/* After service_stop, or without service_start: drop the remaining tasks. */
void service_close(struct service *service);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
#include "thread.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

struct thread_start {
	const char *name;
	void *(*run)(void *);
	void *arg;
};

/* Is the calling thread a thread of libpf? */
static _Thread_local bool thread_is_own;

static void *thread_run(void *arg)
{
	const struct thread_start start = *(struct thread_start *)arg;

	free(arg);
	thread_is_own = true;
	pthread_setname_np(pthread_self(), start.name);
	return start.run(start.arg);
}

bool thread_is_real_time(int *policy)
{
	*policy = sched_getscheduler(0) & ~SCHED_RESET_ON_FORK;
	return *policy == SCHED_FIFO || *policy == SCHED_RR;
}

/* False: the thread inherits policy and priority of the caller. */
static bool thread_raise_priority(pthread_attr_t *attributes)
{
	struct sched_param parameters;
	int policy;

	if (thread_is_own || !thread_is_real_time(&policy) || sched_getparam(0, &parameters) ||
	    parameters.sched_priority >= sched_get_priority_max(policy))
		return false;
	parameters.sched_priority++;
	return !pthread_attr_setinheritsched(attributes, PTHREAD_EXPLICIT_SCHED) &&
	       !pthread_attr_setschedpolicy(attributes, policy) &&
	       !pthread_attr_setschedparam(attributes, &parameters);
}

int thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *arg)
{
	struct thread_start *start = malloc(sizeof(*start));
	sigset_t blocked, before;
	pthread_attr_t attributes;
	int error;

	assert_that(strlen(name) <= 15);
	if (!start)
		return ENOMEM;
	*start = (struct thread_start){ name, run, arg };
	error = pthread_attr_init(&attributes);
	if (error) {
		free(start);
		return error;
	}
	sigfillset(&blocked);
	sigdelset(&blocked, SIGSEGV);
	sigdelset(&blocked, SIGBUS);
	sigdelset(&blocked, SIGFPE);
	sigdelset(&blocked, SIGILL);
	sigdelset(&blocked, SIGTRAP);
	sigdelset(&blocked, SIGSYS);
	pthread_sigmask(SIG_SETMASK, &blocked, &before);
	error = thread_raise_priority(&attributes) ?
			pthread_create(thread, &attributes, thread_run, start) :
			EPERM;
	if (error == EPERM)
		error = pthread_create(thread, NULL, thread_run, start);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	if (error)
		free(start);
	return error;
}

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A context: an open descriptor, bound to the address space that opened it. It puts
 * the layers below together; transfer.h says how long it lives.
 */
#ifndef EXANEST_CONTEXT_H
#define EXANEST_CONTEXT_H

#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/uidgid.h>
#include <linux/workqueue.h>

#include "transfer.h"
#include "translation.h"

struct exanest_context {
	struct exanest_port port;
	struct exanest_space_user user;
	u64 invalidations; /* of the space, before it was opened */
	struct rcu_head rcu;
	struct work_struct free_work;
	struct list_head link; /* in the list of all, for debugfs */

	const struct cred *cred; /* of who opened it */
	kuid_t charged;          /* whose limit it counts against */
	pid_t pid;
	char comm[TASK_COMM_LEN];

	struct mutex setup_lock; /* of what is set once, and of the end */
};

extern const struct file_operations exanest_context_operations;

int exanest_contexts_start(void);
/* No descriptor is open any more. Sleeps until the last context is freed. */
void exanest_contexts_stop(void);

/* Call with all of them, in turn, under the lock of the list. */
void exanest_contexts_call(void (*call)(struct exanest_context *context, void *argument),
			   void *argument);

/* In the order of struct exanest_statistics. */
void exanest_context_count(const struct exanest_context *context, u64 values[EXANEST_COUNTERS]);

#endif

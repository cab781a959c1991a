// SPDX-License-Identifier: GPL-2.0
/* The software engine: kernel threads that move bytes, and are done when move returns. */
#include <linux/cpumask.h>
#include <linux/freezer.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/wait.h>

#include "block.h"
#include "engine.h"
#include "move.h"
#include "priority.h"

#define THREADS_MAX 64U
#define RUN_SIZE (8 * EXANEST_BLOCK_SIZE)

static uint engine_threads;
module_param(engine_threads, uint, 0444);
MODULE_PARM_DESC(engine_threads, "Threads that move blocks; 0: one for two processors, at most 8");

static char *engine_cpus = "";
module_param(engine_cpus, charp, 0444);
MODULE_PARM_DESC(engine_cpus, "List of processors that they are bound to in turn; empty: none");

static struct exanest_engine *the_engine;
static struct task_struct *threads[THREADS_MAX];
static DECLARE_WAIT_QUEUE_HEAD(threads_wait);

static int software_thread(void *data)
{
	struct exanest_engine *engine = data;
	struct exanest_priority priority;

	set_freezable(); /* an image of the system is of memory that keeps still */
	exanest_priority_start(&priority);
	while (!kthread_should_stop()) {
		if (exanest_engine_serve(engine)) {
			exanest_priority_spend(&priority);
			/* Under load it never sleeps by itself, which Tasks RCU waits for. */
			cond_resched_tasks_rcu_qs();
			try_to_freeze();
			continue;
		}
		exanest_priority_sleep(&priority);
		wait_event_freezable_exclusive(threads_wait, !exanest_engine_idle(engine) ||
								     kthread_should_stop());
		exanest_priority_wake(&priority);
	}
	return 0;
}

static void software_wake(struct exanest_engine *engine)
{
	wake_up(&threads_wait);
}

static const struct exanest_engine_operations software = {
	.name = "software",
	.features = EXANEST_FEATURE_ATOMICS,
	.wake = software_wake,
	.move = exanest_move,
};

static void threads_stop(void)
{
	unsigned int i;

	for (i = 0; i < THREADS_MAX && threads[i]; i++) {
		kthread_stop(threads[i]);
		threads[i] = NULL;
	}
}

static int threads_start(void)
{
	unsigned int count = engine_threads, cpu = -1, i;
	struct task_struct *thread;
	cpumask_var_t cpus;
	int error;

	if (!count)
		count = clamp(num_online_cpus() / 2, 1U, 8U);
	count = min(count, THREADS_MAX);
	if (!zalloc_cpumask_var(&cpus, GFP_KERNEL))
		return -ENOMEM;
	error = cpulist_parse(engine_cpus, cpus);
	if (!error && !cpumask_empty(cpus) && !cpumask_subset(cpus, cpu_online_mask))
		error = -EINVAL;
	if (error) {
		pr_err("exanest: engine_cpus=%s is no list of online processors\n", engine_cpus);
		goto free;
	}

	for (i = 0; i < count; i++) {
		thread = kthread_create(software_thread, the_engine, "exanest/%u", i);
		if (IS_ERR(thread)) {
			error = PTR_ERR(thread);
			threads_stop();
			goto free;
		}
		if (!cpumask_empty(cpus)) {
			cpu = cpumask_next(cpu, cpus);
			if (cpu >= nr_cpu_ids)
				cpu = cpumask_first(cpus);
			kthread_bind(thread, cpu);
		}
		threads[i] = thread;
		wake_up_process(thread);
	}
free:
	free_cpumask_var(cpus);
	return error;
}

int exanest_software_start(void)
{
	static const struct exanest_limits limits = { .depth = 64, .run = RUN_SIZE };
	int error;

	the_engine = exanest_engine_register(&software, &limits, NULL);
	if (IS_ERR(the_engine))
		return PTR_ERR(the_engine);
	error = threads_start();
	if (error)
		exanest_engine_unregister(the_engine);
	return error;
}

void exanest_software_stop(void)
{
	threads_stop();
	exanest_engine_unregister(the_engine);
}

// SPDX-License-Identifier: GPL-2.0
/* A module that fails as the parameter says, to test that driver/tests/vm notices. */
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/slab.h>

static char *fault = "none";
module_param(fault, charp, 0444);
MODULE_PARM_DESC(fault,
		 "none, warn, oops, leak, lost, overrun, locks, sleep, race, hang or refuse");

static struct kmem_cache *cache;

/* Wait for what never completes. */
static int hang(void *unused)
{
	DECLARE_COMPLETION_ONSTACK(never);

	wait_for_completion(&never);
	return 0;
}

static void overrun(void)
{
	char *object = kmem_cache_alloc(cache, GFP_KERNEL);

	if (!object)
		return;
	OPTIMIZER_HIDE_VAR(object);
	object[40] = 1;
	kmem_cache_free(cache, object);
}

/* Memory that nothing points to any more. */
static void lose(void)
{
	char *object = kmalloc(100, GFP_KERNEL);

	OPTIMIZER_HIDE_VAR(object);
}

/* In both orders, one after the other: only lockdep sees it. */
static void lock_both(void)
{
	static DEFINE_MUTEX(one);
	static DEFINE_MUTEX(other);

	mutex_lock(&one);
	mutex_lock(&other);
	mutex_unlock(&other);
	mutex_unlock(&one);
	mutex_lock(&other);
	mutex_lock(&one);
	mutex_unlock(&one);
	mutex_unlock(&other);
}

static void sleep_atomic(void)
{
	preempt_disable();
	might_sleep();
	preempt_enable();
}

static unsigned long raced;

/* In two threads at once. */
static int race(void *unused)
{
	while (!kthread_should_stop()) {
		raced++;
		barrier();
		cond_resched();
	}
	return 0;
}

static void race_both(void)
{
	struct task_struct *tasks[2];
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(tasks); i++)
		tasks[i] = kthread_run(race, NULL, "broken_race");
	msleep(2000);
	for (i = 0; i < ARRAY_SIZE(tasks); i++)
		if (!IS_ERR(tasks[i]))
			kthread_stop(tasks[i]);
}

static int __init broken_init(void)
{
	struct task_struct *task;

	if (!strcmp(fault, "refuse"))
		return -ENODEV;
	cache = kmem_cache_create("broken", 40, 0, 0, NULL);
	if (!cache)
		return -ENOMEM;
	if (!strcmp(fault, "warn"))
		WARN(1, "a warning as asked for\n");
	if (!strcmp(fault, "oops"))
		*(volatile int *)8 = 1;
	if (!strcmp(fault, "overrun"))
		overrun();
	if (!strcmp(fault, "leak") && !kmem_cache_alloc(cache, GFP_KERNEL))
		pr_info("no memory to leak\n");
	if (!strcmp(fault, "lost"))
		lose();
	if (!strcmp(fault, "locks"))
		lock_both();
	if (!strcmp(fault, "sleep"))
		sleep_atomic();
	if (!strcmp(fault, "race"))
		race_both();
	if (!strcmp(fault, "hang")) {
		task = kthread_run(hang, NULL, "broken_hang");
		if (IS_ERR(task))
			return PTR_ERR(task);
		__module_get(THIS_MODULE);
	}
	pr_info("broken: loaded\n");
	return 0;
}

static void __exit broken_exit(void)
{
	kmem_cache_destroy(cache);
}

module_init(broken_init);
module_exit(broken_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("exanest: a module that goes wrong on request");

// SPDX-License-Identifier: GPL-2.0
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/rcupdate.h>
#include <linux/workqueue.h>

#include "context.h"
#include "engine.h"
#include "statistics.h"

/* Only root may open it, unless the administrator's udev rule permits others. */
static struct miscdevice device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "exanest",
	.mode = 0600,
	.fops = &exanest_context_operations,
};

static int __init exanest_init(void)
{
	int error;

	exanest_workqueue = alloc_workqueue("exanest", WQ_UNBOUND, 0);
	if (!exanest_workqueue)
		return -ENOMEM;
	error = exanest_engine_start(&exanest_software_engine);
	if (error)
		goto workqueue;
	error = misc_register(&device);
	if (error)
		goto engine;
	exanest_statistics_start();
	return 0;

engine:
	exanest_engine_stop();
workqueue:
	destroy_workqueue(exanest_workqueue);
	return error;
}

/*
 * No descriptor is open, but what they left may still be on its way out: the
 * contexts first, as the engine and the resolvers have to let go of them.
 */
static void __exit exanest_exit(void)
{
	exanest_statistics_stop();
	misc_deregister(&device);
	exanest_context_drain();
	exanest_engine_stop();
	destroy_workqueue(exanest_workqueue);
	rcu_barrier(); /* translations on their way out */
}

module_init(exanest_init);
module_exit(exanest_exit);

MODULE_DESCRIPTION("A fault-tolerant DMA engine: put, get and atomics without pinning");
MODULE_AUTHOR("The exanest maintainers");
MODULE_LICENSE("GPL");
MODULE_VERSION("0.2");

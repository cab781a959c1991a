// SPDX-License-Identifier: GPL-2.0
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/rcupdate.h>

#include "context.h"
#include "memory.h"
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

	exanest_engines_start(&exanest_transfers);
	error = exanest_memories_start();
	if (error)
		return error;
	error = exanest_contexts_start();
	if (error)
		goto memories;
	error = exanest_software_start();
	if (error)
		goto contexts;
	error = exanest_registers_start();
	if (error)
		goto software;
	error = misc_register(&device);
	if (error)
		goto registers;
	exanest_statistics_start();
	return 0;

registers:
	exanest_registers_stop();
software:
	exanest_software_stop();
contexts:
	exanest_contexts_stop();
memories:
	exanest_memories_stop();
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
	exanest_contexts_stop();
	exanest_registers_stop();
	exanest_software_stop();
	exanest_memories_stop();
	rcu_barrier(); /* translations on their way out */
}

module_init(exanest_init);
module_exit(exanest_exit);

MODULE_DESCRIPTION("A page-fault tolerant DMA engine: put, get and atomics without pinning");
MODULE_AUTHOR("The exanest maintainers");
MODULE_LICENSE("GPL");
MODULE_VERSION("1.0.0-rc1");

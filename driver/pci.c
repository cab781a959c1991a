// SPDX-License-Identifier: GPL-2.0
/* The PCI functions that are engines. */
#include <linux/delay.h>
#include <linux/dma-mapping.h>
#include <linux/log2.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/pm_runtime.h>
#include <linux/random.h>

#include "block.h"
#include "engine_registers.h"
#include "hardware.h"
#include "report.h"

#define NODES_MAX 64U
#define ENTRIES_MAX 256U /* of a queue: the blocks that an engine has outstanding at most */
#define ATOMICS_ALL (0x3fU | 0x3fU << 16) /* six operations, of 4 and of 8 bytes */
/* After its last context an engine is suspended, where power/control permits. */
#define AUTOSUSPEND_MS 1000
/* How long a suspend waits for blocks in flight; those to other nodes may take longer. */
#define SUSPEND_MS 500
/* Longest COMMAND_TIME that is believed. */
#define COMMAND_TIME_MAX_US (10U * USEC_PER_SEC)

static bool engine_devices = true;
module_param(engine_devices, bool, 0444);
MODULE_PARM_DESC(engine_devices, "Drive engines in hardware; new contexts use them");

static ushort node;
module_param(node, ushort, 0444);
MODULE_PARM_DESC(node, "Number of this machine on the link of its engine, 1 to 65535; 0: no link");

static ushort nodes[NODES_MAX];
static unsigned int nodes_count;
module_param_array(nodes, ushort, &nodes_count, 0444);
MODULE_PARM_DESC(nodes, "Numbers of the other machines of the cluster, with commas between");

/* An engine without a link has a number, too. */
static u32 cluster_node(void)
{
	return node ?: 1;
}

static const u16 *cluster_peers(unsigned int *count)
{
	*count = node ? nodes_count : 0;
	return nodes;
}

static int cluster_check(void)
{
	unsigned int i, j;

	if (nodes_count && !node) {
		pr_err("exanest: nodes= needs node=, the number of this machine\n");
		return -EINVAL;
	}
	for (i = 0; i < nodes_count; i++) {
		if (!nodes[i] || nodes[i] == node) {
			pr_err("exanest: nodes=%u is not the number of another machine\n",
			       nodes[i]);
			return -EINVAL;
		}
		for (j = 0; j < i; j++) {
			if (nodes[j] == nodes[i]) {
				pr_err("exanest: nodes has %u twice\n", nodes[i]);
				return -EINVAL;
			}
		}
	}
	return 0;
}

static bool is_between(u32 value, u32 least, u32 most)
{
	return value >= least && value <= most;
}

/* Whether it is an engine at all. Nothing is said about what is none. */
static bool is_engine(struct pci_dev *pci)
{
	void __iomem *registers;
	bool found;

	if (pci_resource_len(pci, EXANEST_BAR_REGISTERS) < EXANEST_REGISTERS_SIZE ||
	    pci_resource_len(pci, EXANEST_BAR_DOORBELL) <= EXANEST_DOORBELL_OFFSET)
		return false;
	registers = pci_iomap(pci, EXANEST_BAR_REGISTERS, EXANEST_REGISTERS_SIZE);
	if (!registers)
		return false;
	found = readl(registers + EXANEST_REG_MAGIC) == EXANEST_MAGIC;
	pci_iounmap(pci, registers);
	return found;
}

static int read_identification(struct device_engine *device)
{
	u32 version = register_read(device, EXANEST_REG_VERSION);
	u32 entries = register_read(device, EXANEST_REG_QUEUE_ENTRIES);
	u32 physical_bits = register_read(device, EXANEST_REG_PHYSICAL_BITS);
	u64 features = readq(device->registers + EXANEST_REG_FEATURES);

	if (version >> 16 != EXANEST_VERSION >> 16) {
		pci_err(device->pci, "version %u.%u of the interface; this driver knows %u\n",
			version >> 16, version & 0xffff, EXANEST_VERSION >> 16);
		return -ENODEV;
	}
	device->blocks = register_read(device, EXANEST_REG_BLOCKS);
	device->spaces_max = register_read(device, EXANEST_REG_SPACES);
	device->address_bits = register_read(device, EXANEST_REG_ADDRESS_BITS);
	device->doorbell_base = register_read(device, EXANEST_REG_DOORBELL_BASE);
	device->command_time = clamp(register_read(device, EXANEST_REG_COMMAND_TIME), 1U,
				     COMMAND_TIME_MAX_US);
	if (register_read(device, EXANEST_REG_BLOCK_SIZE) != EXANEST_BLOCK_SIZE ||
	    register_read(device, EXANEST_REG_TRANSFER_MAX) < EXANEST_BLOCK_SIZE ||
	    !(register_read(device, EXANEST_REG_PAGE_SIZES) & BIT(PAGE_SHIFT)) ||
	    !is_between(device->spaces_max, 1, 65536) || !is_between(device->blocks, 1, 256) ||
	    !is_between(device->address_bits, 48, 57) || !is_between(physical_bits, 32, 52) ||
	    !is_between(entries, 64, 65536) || !is_power_of_2(entries)) {
		pci_err(device->pci, "its limits are not those of an engine\n");
		return -ENODEV;
	}
	device->depth = min(entries, ENTRIES_MAX);
	device->operations = exanest_registers_operations;
	device->operations.name = pci_name(device->pci);
	if (features & EXANEST_ENGINE_ATOMICS &&
	    (register_read(device, EXANEST_REG_ATOMICS) & ATOMICS_ALL) == ATOMICS_ALL)
		device->operations.features = EXANEST_FEATURE_ATOMICS;
	return dma_set_mask_and_coherent(&device->pci->dev, DMA_BIT_MASK(physical_bits));
}

static int queues_create(struct device_engine *device)
{
	const struct {
		struct queue *queue;
		size_t entry;
	} queues[] = {
		{ &device->commands, sizeof(struct exanest_engine_command) },
		{ &device->submissions, sizeof(struct exanest_engine_submission) },
		{ &device->completions, sizeof(struct exanest_engine_completion) },
		{ &device->faults, sizeof(struct exanest_engine_fault) },
	};
	struct device *owner = &device->pci->dev;
	struct queue *queue;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(queues); i++) {
		queue = queues[i].queue;
		mutex_init(&queue->lock);
		queue->entries = dmam_alloc_coherent(owner, device->depth * queues[i].entry,
						     &queue->address, GFP_KERNEL);
		if (!queue->entries)
			return -ENOMEM;
	}
	device->indices = dmam_alloc_coherent(owner, sizeof(*device->indices),
					      &device->indices_address, GFP_KERNEL);
	device->flights = devm_kcalloc(owner, device->depth, sizeof(*device->flights), GFP_KERNEL);
	return device->indices && device->flights ? 0 : -ENOMEM;
}

static void locks_init(struct device_engine *device)
{
	mutex_init(&device->state_lock);
	spin_lock_init(&device->commands_lock);
	spin_lock_init(&device->flights_lock);
	mutex_init(&device->exports_lock);
	INIT_LIST_HEAD(&device->memories);
	xa_init_flags(&device->exports, XA_FLAGS_ALLOC | XA_FLAGS_ACCOUNT);
}

/* Off and, if that is to be had, on. */
static int engine_restart(struct device_engine *device)
{
	int error = -EIO;

	mutex_lock(&device->state_lock);
	exanest_hardware_stop(device);
	if (!device->cut)
		error = exanest_hardware_start(device);
	mutex_unlock(&device->state_lock);
	return error;
}

static int registers_register(struct device_engine *device)
{
	const struct exanest_limits limits = {
		.depth = min(device->depth, device->blocks),
		.run = EXANEST_BLOCK_SIZE, /* so that it is one block of the engine as well */
		.node = device->peers_count ? device->node : 0,
	};
	struct exanest_engine *engine;

	engine = exanest_engine_register(&device->operations, &limits, device);
	if (IS_ERR(engine))
		return PTR_ERR(engine);
	WRITE_ONCE(device->engine, engine);
	return 0;
}

static int registers_probe(struct pci_dev *pci, const struct pci_device_id *id)
{
	struct device_engine *device;
	int error;

	error = pcim_enable_device(pci);
	if (error)
		return error;
	/* The identifiers are those of every ivshmem device, too. */
	if (!is_engine(pci))
		return -ENODEV;
	device = devm_kzalloc(&pci->dev, sizeof(*device), GFP_KERNEL);
	if (!device)
		return -ENOMEM;
	error = pcim_iomap_regions(pci, BIT(EXANEST_BAR_DOORBELL) | BIT(EXANEST_BAR_REGISTERS),
				   "exanest");
	if (error)
		return error;
	device->pci = pci;
	device->doorbell = pcim_iomap_table(pci)[EXANEST_BAR_DOORBELL];
	device->registers = pcim_iomap_table(pci)[EXANEST_BAR_REGISTERS];
	device->node = cluster_node();
	device->peers = cluster_peers(&device->peers_count);
	get_random_bytes(&device->generation, sizeof(device->generation));
	locks_init(device);
	error = read_identification(device);
	if (error)
		return error;
	error = queues_create(device);
	if (error)
		return error;
	pci_set_master(pci);
	error = exanest_report_start(device) ?: engine_restart(device);
	if (error)
		goto master;
	pci_set_drvdata(pci, device);
	error = registers_register(device);
	if (error)
		goto stop;
	pci_info(pci, "engine with %u blocks in flight\n", device->depth);
	pm_runtime_set_autosuspend_delay(&pci->dev, AUTOSUSPEND_MS);
	pm_runtime_use_autosuspend(&pci->dev);
	/* With a link it is never suspended at run time: it serves other nodes. */
	if (!device->peers_count) {
		pm_runtime_mark_last_busy(&pci->dev);
		pm_runtime_put_autosuspend(&pci->dev);
	}
	return 0;

stop:
	mutex_lock(&device->state_lock);
	exanest_hardware_stop(device);
	mutex_unlock(&device->state_lock);
master:
	pci_clear_master(pci);
	return error;
}

/*
 * state_lock is held, and the engine is off. Pages that it wrote to are marked now, while
 * invalidations still come here. What is entered from now on it does not write to.
 */
static void spaces_empty(struct device_engine *device)
{
	struct device_memory *memory;

	list_for_each_entry(memory, &device->memories, link) {
		u64 end = 1ULL << memory->tables.bits;

		spin_lock(&memory->tables.lock);
		exanest_tables_take(&memory->tables, 0, end);
		spin_unlock(&memory->tables.lock);
		exanest_tables_release(&memory->tables, memory->client, 0, end);
	}
}

static void registers_remove(struct pci_dev *pci)
{
	struct device_engine *device = pci_get_drvdata(pci);

	if (!device->peers_count)
		pm_runtime_get_noresume(&pci->dev); /* the reference that probe dropped */
	pm_runtime_dont_use_autosuspend(&pci->dev);
	mutex_lock(&device->state_lock);
	device->removed = true;
	if (device->ready)
		exanest_hardware_stop(device);
	spaces_empty(device);
	mutex_unlock(&device->state_lock);
	exanest_report_stop(device);
	exanest_engine_unregister(device->engine);
	pci_clear_master(pci);
	xa_destroy(&device->exports);
}

/*
 * Suspend of the machine, and an image of it: tasks and the worker are frozen, so no block is submitted. At
 * run time: no context is open. Blocks that are not complete after SUSPEND_MS are submitted again.
 */
static int registers_suspend(struct device *owner)
{
	struct device_engine *device = dev_get_drvdata(owner);
	unsigned long deadline = jiffies + msecs_to_jiffies(SUSPEND_MS);

	while (exanest_flights_any(device) && time_before(jiffies, deadline))
		usleep_range(100, 200);
	mutex_lock(&device->state_lock);
	device->suspended = true;
	if (device->ready)
		exanest_hardware_stop(device);
	mutex_unlock(&device->state_lock);
	return 0;
}

/*
 * It starts when the worker runs: not while an image of the machine is written, in which what other
 * nodes put meanwhile would be missing.
 */
static int registers_resume(struct device *owner)
{
	struct device_engine *device = dev_get_drvdata(owner);

	mutex_lock(&device->state_lock);
	device->suspended = false;
	/* The kernel that loaded an image may have left it on. */
	if (!device->cut)
		exanest_hardware_stop(device);
	mutex_unlock(&device->state_lock);
	exanest_engine_resumed(device->engine);
	return 0;
}

/*
 * The machine restarts, or another kernel takes over (kexec), whose memory the engine must not
 * write to. Processes still run, and no resume follows.
 */
static void registers_shutdown(struct pci_dev *pci)
{
	registers_suspend(&pci->dev);
}

static const struct dev_pm_ops registers_pm = {
	SYSTEM_SLEEP_PM_OPS(registers_suspend, registers_resume)
		RUNTIME_PM_OPS(registers_suspend, registers_resume, NULL)
};

/*
 * No MODULE_DEVICE_TABLE: a machine with an ivshmem device would load the module for it,
 * whatever it is used for. Other identifiers can be added with new_id in sysfs.
 */
static const struct pci_device_id registers_ids[] = {
	{ PCI_DEVICE(PCI_VENDOR_ID_REDHAT_QUMRANET, 0x1110) },
	{},
};

static struct pci_driver registers_driver = {
	.name = "exanest",
	.id_table = registers_ids,
	.probe = registers_probe,
	.remove = registers_remove,
	.shutdown = registers_shutdown,
	.driver.pm = pm_ptr(&registers_pm),
};

int exanest_registers_start(void)
{
	return cluster_check() ?: engine_devices ? pci_register_driver(&registers_driver) : 0;
}

void exanest_registers_stop(void)
{
	if (engine_devices)
		pci_unregister_driver(&registers_driver);
}

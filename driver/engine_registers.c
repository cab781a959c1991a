// SPDX-License-Identifier: GPL-2.0
/*
 * Engines in hardware, as engine.md specifies them: PCI functions that move bytes through
 * page tables of their own. One node: transfers between processes of this machine.
 *
 * A block that meets an absent page is not parked in the engine: its fault is rejected, so
 * that it completes with the address, and the driver's resolver, which knows policies,
 * pagers and limits, has the page brought in and sends the block again.
 *
 * What the engine writes (indices, completions, faults) is read once and checked; what
 * cannot be resets it. Every wait for it has an end, after which it is cut off memory.
 *
 * State. The engine is ready, or off: then it accesses no memory. epoch counts how often it
 * went off. So who waits for a command waits no more when the epoch is another one.
 *
 * Lock order: state_lock, then completions.lock or faults.lock; tables.lock of a space,
 * then commands_lock. Handlers of interrupts take no state_lock, as who holds it may wait
 * for them.
 */
#include <linux/delay.h>
#include <linux/dma-mapping.h>
#include <linux/idr.h>
#include <linux/interrupt.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/random.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "block.h"
#include "engine.h"
#include "registers.h"
#include "tables.h"
#include "translation.h"

#define NODE 1U          /* of this machine: it has no others yet */
#define ENTRIES_MAX 256U /* of a queue: the blocks that an engine has outstanding at most */
#define INTERRUPTS                                                                                 \
	(BIT(EXANEST_VECTOR_STATUS) | BIT(EXANEST_VECTOR_COMPLETION) | BIT(EXANEST_VECTOR_FAULT))
#define GONE (~0U) /* what registers of a removed device read as */

/* The link is not used, but its registers have to be allowed. */
#define LINK_PAYLOAD 4096
#define LINK_TIMEOUT_US 10000
#define LINK_RETRIES 16

/* Longest COMMAND_TIME that is believed, and what this machine may take besides. */
#define COMMAND_TIME_MAX_US (10U * USEC_PER_SEC)
#define COMMAND_TIME_MORE_US (100U * USEC_PER_MSEC)
/* Looks at a status or an index before sleeping between them. */
#define LOOKS 200

#define ATOMICS_ALL (0x3fU | 0x3fU << 16) /* six operations, of 4 and of 8 bytes */

static bool engine_devices = true;
module_param(engine_devices, bool, 0444);
MODULE_PARM_DESC(engine_devices, "Drive engines in hardware; new contexts use them");

struct queue {
	void *entries;
	dma_addr_t address;
	u32 index;         /* the next one that the driver writes, or reads */
	struct mutex lock; /* of those that the driver reads */
};

struct device_engine {
	struct pci_dev *pci;
	void __iomem *registers;
	void __iomem *doorbell;
	u32 doorbell_base;
	struct exanest_engine_operations operations;
	struct exanest_engine *engine; /* from the first attach on */
	u32 depth;                     /* entries of each queue, and blocks in flight */
	u32 address_bits, spaces_max;
	u32 command_time; /* us */
	u64 key[2];       /* of all spaces: the driver's domains protect within one node */
	struct queue commands, submissions, completions, faults;
	struct exanest_engine_indices *indices; /* written by the engine */
	dma_addr_t indices_address;

	struct mutex state_lock; /* of what follows */
	bool cut;                /* no bus master any more: it did not stop */
	bool removed;
	u64 incarnation;
	u32 generation; /* of the last space */
	struct list_head spaces;
	struct ida numbers;

	spinlock_t commands_lock; /* of commands and what follows; ready also needs state_lock */
	bool ready;
	bool holding; /* entry held of the command queue is still to be looked at */
	u32 held;
	unsigned int epoch;

	spinlock_t flights_lock;
	struct exanest_descriptor *flights; /* by slot; length 0: none */
};

struct device_space {
	struct list_head link;
	struct exanest_space *client;
	struct exanest_tables tables;
	u32 number, generation;
};

/* A command that was given to the engine. */
struct ticket {
	u32 index;
	unsigned int epoch;
};

/*
 * Registers.
 */
static u32 register_read(const struct device_engine *device, unsigned int offset)
{
	return readl(device->registers + offset);
}

static void register_write(struct device_engine *device, unsigned int offset, u32 value)
{
	writel(value, device->registers + offset);
}

static void register_write64(struct device_engine *device, unsigned int offset, u64 value)
{
	writeq(value, device->registers + offset);
}

static void ring(struct device_engine *device, enum exanest_doorbell number)
{
	writel(device->doorbell_base + number, device->doorbell + EXANEST_DOORBELL_OFFSET);
}

/* Sleep for a moment, but for the first looks. */
static void look_again(unsigned int *looks)
{
	if (++*looks < LOOKS)
		cpu_relax();
	else
		usleep_range(20, 100);
}

static unsigned long command_deadline(const struct device_engine *device, u32 commands)
{
	return jiffies + usecs_to_jiffies(COMMAND_TIME_MORE_US) +
	       commands * usecs_to_jiffies(device->command_time) + 1;
}

/*
 * Returns STATUS: as wanted, all ones, FAILED where READY is wanted, or after the longest
 * time another.
 */
static u32 await_status(struct device_engine *device, u32 wanted)
{
	unsigned long deadline = command_deadline(device, 1);
	unsigned int looks = 0;
	bool late;
	u32 status;

	do {
		late = time_after(jiffies, deadline);
		status = register_read(device, EXANEST_REG_STATUS);
		if (status == wanted || status == GONE ||
		    (status == EXANEST_ENGINE_FAILED && wanted == EXANEST_ENGINE_READY))
			break;
		look_again(&looks);
	} while (!late);
	return status;
}

static void fail(struct device_engine *device, const char *reason)
{
	struct exanest_engine *engine = READ_ONCE(device->engine);

	if (engine)
		exanest_engine_fail(engine, reason);
}

/*
 * Commands.
 */
/* commands_lock is held. */
static bool commands_have_room(const struct device_engine *device)
{
	u32 oldest = le32_to_cpu(READ_ONCE(device->indices->command_consumer));

	if (device->holding)
		oldest = device->held;
	/* An index that cannot be leaves no room, until the caller's deadline. */
	return device->commands.index - oldest < device->depth;
}

/* commands_lock is held, the engine is ready, and there is room. */
static void command_put(struct device_engine *device, const struct exanest_engine_command *command,
			struct ticket *ticket)
{
	struct exanest_engine_command *entries = device->commands.entries;

	ticket->index = device->commands.index++;
	ticket->epoch = device->epoch;
	entries[ticket->index & (device->depth - 1)] = *command;
	dma_wmb();
	register_write(device, EXANEST_REG_COMMAND_PRODUCER, device->commands.index);
	ring(device, EXANEST_DOORBELL_COMMAND);
}

/*
 * Give the engine a command. hold: for command_status. -ENODEV: it is off; -ETIMEDOUT:
 * it takes no commands. Sleeps.
 */
static int command_give(struct device_engine *device, const struct exanest_engine_command *command,
			bool hold, struct ticket *ticket)
{
	unsigned long deadline = command_deadline(device, device->depth);
	unsigned int looks = 0;
	int error;

	do {
		spin_lock(&device->commands_lock);
		error = !device->ready ? -ENODEV : commands_have_room(device) ? 0 : -EAGAIN;
		if (!error) {
			command_put(device, command, ticket);
			if (hold) {
				device->holding = true;
				device->held = ticket->index;
			}
		}
		spin_unlock(&device->commands_lock);
		if (error != -EAGAIN)
			return error;
		look_again(&looks);
	} while (time_before(jiffies, deadline));
	return -ETIMEDOUT;
}

/* 0: the command was executed, or the engine was off since. Sleeps. */
static int command_wait(struct device_engine *device, const struct ticket *ticket)
{
	u32 consumer = le32_to_cpu(READ_ONCE(device->indices->command_consumer));
	unsigned long deadline = command_deadline(device,
						  min(ticket->index - consumer, device->depth) + 1);
	unsigned int looks = 0;
	bool late = false;

	while (READ_ONCE(device->epoch) == ticket->epoch) {
		consumer = le32_to_cpu(READ_ONCE(device->indices->command_consumer));
		if ((s32)(READ_ONCE(device->commands.index) - consumer) < 0)
			return -EIO;
		if ((s32)(consumer - ticket->index) > 0) {
			dma_rmb();
			return 0;
		}
		if (late)
			return -ETIMEDOUT;
		late = time_after(jiffies, deadline);
		look_again(&looks);
	}
	return 0;
}

/* state_lock is held. */
static int command_run(struct device_engine *device, const struct exanest_engine_command *command)
{
	const struct exanest_engine_command *entries = device->commands.entries;
	struct ticket ticket;
	u32 status;
	int error;

	error = command_give(device, command, true, &ticket);
	if (error)
		return error;
	error = command_wait(device, &ticket);
	status = le32_to_cpu(READ_ONCE(entries[ticket.index & (device->depth - 1)].status));
	spin_lock(&device->commands_lock);
	device->holding = false;
	spin_unlock(&device->commands_lock);
	if (!error && status != EXANEST_COMMAND_OK) {
		pci_err(device->pci, "command %u ended with status %u\n",
			le32_to_cpu(command->operation), status);
		error = -EIO;
	}
	return error;
}

/*
 * State. state_lock is held.
 */
static void engine_stop(struct device_engine *device)
{
	u32 status;

	spin_lock(&device->commands_lock);
	device->ready = false;
	spin_unlock(&device->commands_lock);

	register_write(device, EXANEST_REG_CONTROL, 0);
	ring(device, EXANEST_DOORBELL_CONTROL);
	status = await_status(device, EXANEST_ENGINE_DISABLED);
	if (status != EXANEST_ENGINE_DISABLED) {
		/* A removed device accesses nothing, and this does not reach it. */
		pci_clear_master(device->pci);
		device->cut = true;
		pci_err(device->pci, status == GONE ? "the device is gone\n" :
						      "it does not stop: cut off memory\n");
	}
	spin_lock(&device->commands_lock);
	WRITE_ONCE(device->epoch, device->epoch + 1);
	spin_unlock(&device->commands_lock);
}

static int space_enter(struct device_engine *device, const struct device_space *space)
{
	const struct exanest_engine_command command = {
		.operation = cpu_to_le32(EXANEST_COMMAND_SPACE_ATTACH),
		.space = cpu_to_le32(space->number),
		.argument = {
			cpu_to_le64(exanest_tables_root(&space->tables)),
			cpu_to_le64(device->key[0]),
			cpu_to_le64(device->key[1]),
			cpu_to_le64(EXANEST_ATTACH_SHAPE(space->generation, PAGE_SHIFT,
							 space->tables.bits)),
		},
	};

	return command_run(device, &command);
}

static void write_queue(struct device_engine *device, unsigned int offset, struct queue *queue)
{
	queue->index = 0;
	register_write64(device, offset, queue->address);
	register_write(device, offset + 8, device->depth);
}

/* It reads nothing, and nothing is read that it writes. */
static void write_configuration(struct device_engine *device)
{
	register_write(device, EXANEST_REG_NODE, NODE);
	register_write(device, EXANEST_REG_LINK_PAYLOAD, LINK_PAYLOAD);
	register_write(device, EXANEST_REG_LINK_TIMEOUT, LINK_TIMEOUT_US);
	register_write(device, EXANEST_REG_LINK_RETRIES, LINK_RETRIES);
	device->incarnation = max_t(u64, device->incarnation + 1, ktime_get_real_ns());
	register_write64(device, EXANEST_REG_INCARNATION, device->incarnation);
	memset(device->indices, 0, sizeof(*device->indices));
	register_write64(device, EXANEST_REG_INDEX_BASE, device->indices_address);
	mutex_lock(&device->completions.lock);
	write_queue(device, EXANEST_REG_COMPLETION_BASE, &device->completions);
	mutex_unlock(&device->completions.lock);
	mutex_lock(&device->faults.lock);
	write_queue(device, EXANEST_REG_FAULT_BASE, &device->faults);
	mutex_unlock(&device->faults.lock);
	write_queue(device, EXANEST_REG_COMMAND_BASE, &device->commands);
	write_queue(device, EXANEST_REG_SUBMISSION_BASE, &device->submissions);
	register_write(device, EXANEST_REG_COMMAND_PRODUCER, 0);
	register_write(device, EXANEST_REG_SUBMISSION_PRODUCER, 0);
	register_write(device, EXANEST_REG_COMPLETION_CONSUMER, 0);
	register_write(device, EXANEST_REG_FAULT_CONSUMER, 0);
	register_write(device, EXANEST_REG_IRQ_ENABLE, INTERRUPTS);
}

/* It is off, and was DISABLED. */
static int engine_start(struct device_engine *device)
{
	struct device_space *space;
	u32 status;
	int error;

	write_configuration(device);
	wmb(); /* all of that before it is enabled */
	register_write(device, EXANEST_REG_CONTROL, 1);
	ring(device, EXANEST_DOORBELL_CONTROL);
	status = await_status(device, EXANEST_ENGINE_READY);
	if (status != EXANEST_ENGINE_READY) {
		pci_err(device->pci, "it does not start: status %#x, error %u, detail %#llx\n",
			status, register_read(device, EXANEST_REG_ERROR),
			readq(device->registers + EXANEST_REG_ERROR_DETAIL));
		goto stop;
	}
	spin_lock(&device->commands_lock);
	device->ready = true;
	spin_unlock(&device->commands_lock);
	list_for_each_entry(space, &device->spaces, link) {
		error = space_enter(device, space);
		if (error)
			goto stop;
	}
	return 0;

stop:
	engine_stop(device);
	return -EIO;
}

/* The engine did not do in this epoch what it has to: when this returns it was off. No lock is held. */
static void engine_cut_off(struct device_engine *device, unsigned int epoch, const char *reason)
{
	bool stopped = false;

	mutex_lock(&device->state_lock);
	if (device->ready && device->epoch == epoch) {
		engine_stop(device);
		stopped = true;
	}
	mutex_unlock(&device->state_lock);
	if (stopped)
		fail(device, reason);
}

/*
 * Spaces.
 */
static struct device_engine *device_of(const struct exanest_engine *engine)
{
	return exanest_engine_private(engine);
}

static struct device_space *space_create(struct device_engine *device, struct mm_struct *mm)
{
	unsigned int bits = min_t(unsigned int, fls64(mm->task_size - 1), device->address_bits);
	struct device_space *space = kzalloc(sizeof(*space), GFP_KERNEL_ACCOUNT);
	int number, error = -ENOMEM;

	if (!space)
		return ERR_PTR(-ENOMEM);
	number = ida_alloc_max(&device->numbers, device->spaces_max - 1, GFP_KERNEL);
	if (number < 0) {
		error = number == -ENOSPC ? -EMFILE : number;
		goto free;
	}
	space->number = number;
	error = exanest_tables_init(&space->tables, &device->pci->dev, bits);
	if (error)
		goto number;
	return space;

number:
	ida_free(&device->numbers, number);
free:
	kfree(space);
	return ERR_PTR(error);
}

static void space_destroy(struct device_engine *device, struct device_space *space)
{
	exanest_tables_free(&space->tables);
	ida_free(&device->numbers, space->number);
	kfree(space);
}

static int registers_attach(struct exanest_engine *engine, struct exanest_space *client)
{
	struct device_engine *device = device_of(engine);
	struct device_space *space = space_create(device, client->mm);
	const char *reason = NULL;
	int error = 0;

	if (IS_ERR(space))
		return PTR_ERR(space);
	mutex_lock(&device->state_lock);
	/* Contexts may open before exanest_engine_register has returned. */
	WRITE_ONCE(device->engine, engine);
	if (!++device->generation)
		device->generation++;
	space->generation = device->generation;
	/* One that is off gets it when it starts. */
	if (device->ready)
		error = space_enter(device, space);
	if (error) {
		engine_stop(device);
		reason = "it did not attach a space";
	} else {
		space->client = client;
		client->private = space;
		list_add(&space->link, &device->spaces);
	}
	mutex_unlock(&device->state_lock);
	if (reason)
		fail(device, reason);
	if (error)
		space_destroy(device, space);
	return error;
}

static void registers_detach(struct exanest_engine *engine, struct exanest_space *client)
{
	struct device_engine *device = device_of(engine);
	struct device_space *space = client->private;
	const struct exanest_engine_command command = {
		.operation = cpu_to_le32(EXANEST_COMMAND_SPACE_DETACH),
		.space = cpu_to_le32(space->number),
	};
	const char *reason = NULL;

	mutex_lock(&device->state_lock);
	if (device->ready && command_run(device, &command)) {
		engine_stop(device);
		reason = "it did not detach a space";
	}
	list_del(&space->link);
	client->private = NULL;
	mutex_unlock(&device->state_lock);
	if (reason)
		fail(device, reason);
	space_destroy(device, space);
}

static int registers_map(struct exanest_engine *engine, struct exanest_translation *translation,
			 unsigned int first, unsigned int count)
{
	struct device_space *space = translation->space->private;

	return exanest_tables_map(&space->tables, translation, first, count);
}

/*
 * Take what is valid in a range, and tell the engine in the same moment, so that what was
 * taken is known to be on its way. -EAGAIN: the engine has no room for the command.
 */
static int invalidate_begin(struct device_engine *device, struct device_space *space, u64 start,
			    u64 end, struct ticket *ticket, bool *found)
{
	const struct exanest_engine_command command = {
		.operation = cpu_to_le32(EXANEST_COMMAND_INVALIDATE),
		.space = cpu_to_le32(space->number),
		.argument = { cpu_to_le64(start), cpu_to_le64(end - start) },
	};
	int error = 0;

	spin_lock(&space->tables.lock);
	spin_lock(&device->commands_lock);
	ticket->epoch = device->epoch;
	if (device->ready && !commands_have_room(device)) {
		error = -EAGAIN;
	} else {
		*found = exanest_tables_take(&space->tables, start, end);
		if (!device->ready)
			error = -ENODEV;
		else if (*found)
			command_put(device, &command, ticket);
	}
	spin_unlock(&device->commands_lock);
	spin_unlock(&space->tables.lock);
	return error;
}

/* Take a range and return when the engine cannot access it any more. Whether there was something. */
static bool invalidate(struct device_engine *device, struct device_space *space, u64 start, u64 end)
{
	unsigned long deadline = command_deadline(device, device->depth);
	static const char reason[] = "it did not confirm an invalidation";
	struct ticket ticket;
	unsigned int looks = 0;
	bool found = false;
	int error;

	while ((error = invalidate_begin(device, space, start, end, &ticket, &found)) == -EAGAIN) {
		if (time_after(jiffies, deadline))
			engine_cut_off(device, ticket.epoch, reason);
		look_again(&looks);
	}
	if (!found)
		return false;
	if (error || command_wait(device, &ticket))
		engine_cut_off(device, ticket.epoch, reason);
	return true;
}

static bool registers_invalidate(struct exanest_engine *engine, struct exanest_space *client,
				 unsigned long start, unsigned long end, bool may_block)
{
	struct device_space *space = client->private;
	u64 stop = min_t(u64, end, 1ULL << space->tables.bits);

	if (start >= stop)
		return true;
	if (!may_block)
		return !exanest_tables_present(&space->tables, start, stop);
	if (invalidate(device_of(engine), space, start, stop))
		exanest_tables_release(&space->tables, client, start, stop);
	return true;
}

/*
 * Blocks.
 */
/* Returns whether a side of the block is beyond what its space can have; then it is completed. */
static bool beyond(struct exanest_engine *engine, const struct exanest_descriptor *what, u32 side)
{
	bool local = side == EXANEST_SIDE_LOCAL;
	u64 address = local ? what->local_address : what->remote_address;
	struct device_space *space = (local ? what->local : what->remote)->private;
	u64 limit = 1ULL << space->tables.bits;
	struct exanest_result result = { .tag = what->tag, .status = -EFAULT, .side = side };

	if (address < limit && what->length <= limit - address)
		return false;
	if (address < limit)
		result.skipped = exanest_tables_mapped(&space->tables, address, limit - address);
	exanest_engine_complete(engine, &result);
	return true;
}

static void flight_put(struct device_engine *device, const struct exanest_descriptor *what)
{
	spin_lock(&device->flights_lock);
	device->flights[what->tag & 0xffff] = *what;
	spin_unlock(&device->flights_lock);
}

/* false: the engine does not have such a block. */
static bool flight_take(struct device_engine *device, u64 tag, struct exanest_descriptor *what)
{
	bool found = false;

	if (tag > U32_MAX || (tag & 0xffff) >= device->depth)
		return false;
	spin_lock(&device->flights_lock);
	*what = device->flights[tag & 0xffff];
	if (what->length && what->tag == tag) {
		device->flights[tag & 0xffff].length = 0;
		found = true;
	}
	spin_unlock(&device->flights_lock);
	return found;
}

static void block_give(struct device_engine *device, const struct exanest_descriptor *what)
{
	const struct device_space *remote = what->remote->private, *local = remote;
	struct exanest_engine_submission *entries = device->submissions.entries, entry = {
		.operation = what->op == EXANEST_OP_PUT ? EXANEST_ENGINE_PUT :
			     what->op == EXANEST_OP_GET ? EXANEST_ENGINE_GET :
							  EXANEST_ENGINE_ATOMIC,
		.tag = cpu_to_le64(what->tag),
		.remote = cpu_to_le64(what->remote_address),
		.length = cpu_to_le32(what->length),
		.node = cpu_to_le32(NODE),
		.remote_space = cpu_to_le32(remote->number),
		.generation = cpu_to_le32(remote->generation),
	};

	if (what->op == EXANEST_OP_ATOMIC) {
		entry.atomic = what->atomic;
		entry.operand = cpu_to_le64(what->operand);
		if (what->atomic == EXANEST_ATOMIC_COMPARE_SWAP)
			entry.compare = cpu_to_le64(what->compare);
	} else {
		local = what->local->private;
		entry.local = cpu_to_le64(what->local_address);
	}
	entry.space = cpu_to_le32(local->number);
	flight_put(device, what);
	/* There is room: as many blocks are in flight as the queue has entries, at most. */
	entries[device->submissions.index++ & (device->depth - 1)] = entry;
}

static unsigned int registers_submit(struct exanest_engine *engine,
				     const struct exanest_descriptor *descriptors,
				     unsigned int count)
{
	struct device_engine *device = device_of(engine);
	const struct exanest_descriptor *what;
	unsigned int i;

	for (i = 0; i < count && READ_ONCE(device->ready); i++) {
		what = &descriptors[i];
		if (beyond(engine, what, EXANEST_SIDE_REMOTE) ||
		    (what->op != EXANEST_OP_ATOMIC && beyond(engine, what, EXANEST_SIDE_LOCAL)))
			continue;
		block_give(device, what);
	}
	return i;
}

static void registers_kick(struct exanest_engine *engine)
{
	struct device_engine *device = device_of(engine);

	dma_wmb(); /* entries before their index */
	register_write(device, EXANEST_REG_SUBMISSION_PRODUCER, device->submissions.index);
	ring(device, EXANEST_DOORBELL_SUBMISSION);
}

/* An atomic that was aborted may have been executed, so it is left to its end, which is near. */
static bool flight_aborts(struct device_engine *device, unsigned int slot,
			  const struct exanest_space *client, u32 *tag)
{
	const struct exanest_descriptor *what = &device->flights[slot];
	bool aborts;

	spin_lock(&device->flights_lock);
	aborts = what->length && what->op != EXANEST_OP_ATOMIC &&
		 (what->local == client || what->remote == client);
	*tag = what->tag;
	spin_unlock(&device->flights_lock);
	return aborts;
}

static void registers_quiesce(struct exanest_engine *engine, struct exanest_space *client)
{
	struct device_engine *device = device_of(engine);
	struct exanest_engine_command command = {
		.operation = cpu_to_le32(EXANEST_COMMAND_ABORT),
	};
	struct ticket ticket;
	unsigned int slot;
	u32 tag;

	for (slot = 0; slot < device->depth; slot++) {
		if (!flight_aborts(device, slot, client, &tag))
			continue;
		command.argument[0] = cpu_to_le64(tag);
		if (command_give(device, &command, false, &ticket))
			return; /* it is reset, or about to be */
	}
}

/* state_lock is held, and the engine is off. No handler has a block in hand when it returns. */
static void flights_drop(struct device_engine *device)
{
	mutex_lock(&device->completions.lock);
	spin_lock(&device->flights_lock);
	memset(device->flights, 0, device->depth * sizeof(*device->flights));
	spin_unlock(&device->flights_lock);
	mutex_unlock(&device->completions.lock);
}

static int registers_reset(struct exanest_engine *engine)
{
	struct device_engine *device = device_of(engine);
	int error = -EIO;

	mutex_lock(&device->state_lock);
	if (device->ready)
		engine_stop(device);
	flights_drop(device);
	if (!device->cut && !device->removed)
		error = engine_start(device);
	mutex_unlock(&device->state_lock);
	return error;
}

static const struct exanest_engine_operations registers_operations = {
	.space_attach = registers_attach,
	.space_detach = registers_detach,
	.map = registers_map,
	.invalidate = registers_invalidate,
	.submit = registers_submit,
	.kick = registers_kick,
	.quiesce = registers_quiesce,
	.reset = registers_reset,
};

/*
 * What the engine reports.
 */
static void mark_used(struct exanest_space *client, u64 address, u32 length)
{
	struct exanest_translation *translation;
	u32 offset, part;

	rcu_read_lock();
	for (; length; address += part, length -= part) {
		offset = address & (EXANEST_SPAN_SIZE - 1);
		part = min_t(u32, length, EXANEST_SPAN_SIZE - offset);
		translation = exanest_translation_find(client, address);
		if (translation)
			exanest_translation_mark(translation, offset, part, false);
	}
	rcu_read_unlock();
}

/* false: it cannot be. */
static bool result_of_fault(const struct exanest_engine_completion *completion,
			    const struct exanest_descriptor *what, struct exanest_result *result)
{
	u64 offset = le64_to_cpu(completion->address);

	result->status = -EFAULT;
	result->side = le32_to_cpu(completion->side);
	switch (result->side) {
	case EXANEST_SIDE_LOCAL:
		offset -= what->local_address;
		break;
	case EXANEST_SIDE_REMOTE:
		offset -= what->remote_address;
		break;
	default:
		return false;
	}
	result->skipped = offset;
	return offset < what->length;
}

static bool result_of(struct device_engine *device,
		      const struct exanest_engine_completion *completion,
		      const struct exanest_descriptor *what, struct exanest_result *result)
{
	u32 status = le32_to_cpu(completion->status);
	bool atomic = what->op == EXANEST_OP_ATOMIC;

	*result = (struct exanest_result){ .tag = what->tag };
	switch (status) {
	case EXANEST_STATUS_OK:
		result->moved = what->length;
		if (atomic)
			result->value = le64_to_cpu(completion->value);
		return true;
	case EXANEST_STATUS_FAULT:
		return result_of_fault(completion, what, result);
	case EXANEST_STATUS_ABORTED:
		result->status = atomic ? -EIO : -ECANCELED;
		return true;
	case EXANEST_STATUS_INVALID:
	case EXANEST_STATUS_UNREACHABLE:
	case EXANEST_STATUS_MEMORY:
		dev_err_ratelimited(&device->pci->dev, "a block ended with status %u\n", status);
		result->status = -EIO;
		return true;
	default: /* of other nodes, or of faults that were rejected otherwise */
		return false;
	}
}

static bool completion_handle(struct device_engine *device,
			      const struct exanest_engine_completion *completion)
{
	struct exanest_descriptor what;
	struct exanest_result result;

	if (!flight_take(device, le64_to_cpu(completion->tag), &what)) {
		fail(device, "it completed a block that it does not have");
		return false;
	}
	if (!result_of(device, completion, &what, &result)) {
		fail(device, "it completed a block with what cannot be");
		return false;
	}
	if (!result.status) {
		mark_used(what.remote, what.remote_address, what.length);
		if (what.op != EXANEST_OP_ATOMIC)
			mark_used(what.local, what.local_address, what.length);
	}
	exanest_engine_complete(device->engine, &result);
	return true;
}

/*
 * A fault becomes the end of its block, see above. Which block it was is seen from the
 * completion. One that ended meanwhile is not found, which is fine.
 */
static bool fault_handle(struct device_engine *device, const struct exanest_engine_fault *fault)
{
	const struct exanest_engine_command command = {
		.operation = cpu_to_le32(EXANEST_COMMAND_REJECT),
		.argument = { fault->fault, cpu_to_le64(EXANEST_STATUS_FAULT) },
	};
	struct ticket ticket;
	int error;

	if (!fault->fault || le32_to_cpu(fault->space) >= device->spaces_max ||
	    le32_to_cpu(fault->node) != NODE ||
	    le32_to_cpu(fault->flags) & ~(EXANEST_ENGINE_FAULT_WRITE | EXANEST_ENGINE_FAULT_REMOTE |
					  EXANEST_ENGINE_FAULT_ATOMIC)) {
		fail(device, "it reported a fault that cannot be");
		return false;
	}
	error = command_give(device, &command, false, &ticket);
	if (error == -ETIMEDOUT)
		fail(device, "it takes no commands");
	return !error;
}

/* The queue's lock is held. Entries that there are; 0 if their index cannot be. */
static u32 queue_filled(struct device_engine *device, const struct queue *queue,
			const __le32 *producer)
{
	u32 count = le32_to_cpu(READ_ONCE(*producer)) - queue->index;

	if (count > device->depth) {
		fail(device, "it reported an index that cannot be");
		return 0;
	}
	dma_rmb(); /* the index before the entries */
	return count;
}

static irqreturn_t completion_interrupt(int irq, void *data)
{
	struct device_engine *device = data;
	struct queue *queue = &device->completions;
	const struct exanest_engine_completion *entries = queue->entries;
	struct exanest_engine_completion completion;
	bool sane = true;
	u32 count;

	mutex_lock(&queue->lock);
	while (sane && READ_ONCE(device->ready) &&
	       (count = queue_filled(device, queue, &device->indices->completion_producer))) {
		for (; sane && count; count--) {
			completion = entries[queue->index++ & (device->depth - 1)];
			barrier(); /* what is checked is the copy */
			/*
			 * Before the block's slot is free: at the doorbell of the next block in it
			 * the engine finds room, and no doorbell is needed for the room alone.
			 */
			register_write(device, EXANEST_REG_COMPLETION_CONSUMER, queue->index);
			sane = completion_handle(device, &completion);
		}
	}
	mutex_unlock(&queue->lock);
	return IRQ_HANDLED;
}

static irqreturn_t fault_interrupt(int irq, void *data)
{
	struct device_engine *device = data;
	struct queue *queue = &device->faults;
	const struct exanest_engine_fault *entries = queue->entries;
	struct exanest_engine_fault fault;
	bool sane = true;
	u32 count;

	mutex_lock(&queue->lock);
	while (sane && READ_ONCE(device->ready) &&
	       (count = queue_filled(device, queue, &device->indices->fault_producer))) {
		for (; sane && count; count--) {
			fault = entries[queue->index++ & (device->depth - 1)];
			barrier(); /* what is checked is the copy */
			sane = fault_handle(device, &fault);
		}
		register_write(device, EXANEST_REG_FAULT_CONSUMER, queue->index);
		ring(device, EXANEST_DOORBELL_FAULT); /* it may have more */
	}
	mutex_unlock(&queue->lock);
	return IRQ_HANDLED;
}

static irqreturn_t status_interrupt(int irq, void *data)
{
	struct device_engine *device = data;
	u32 status = register_read(device, EXANEST_REG_STATUS);

	if (!READ_ONCE(device->ready))
		return IRQ_HANDLED; /* who starts or stops it looks */
	if (status == EXANEST_ENGINE_FAILED) {
		dev_err_ratelimited(&device->pci->dev, "it failed: error %u, detail %#llx\n",
				    register_read(device, EXANEST_REG_ERROR),
				    readq(device->registers + EXANEST_REG_ERROR_DETAIL));
		fail(device, "it failed");
	} else if (status == GONE) {
		fail(device, "its registers cannot be read");
	}
	return IRQ_HANDLED;
}

/*
 * The PCI function.
 */
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
	device->spaces_max = register_read(device, EXANEST_REG_SPACES);
	device->address_bits = register_read(device, EXANEST_REG_ADDRESS_BITS);
	device->doorbell_base = register_read(device, EXANEST_REG_DOORBELL_BASE);
	device->command_time = clamp(register_read(device, EXANEST_REG_COMMAND_TIME), 1U,
				     COMMAND_TIME_MAX_US);
	if (register_read(device, EXANEST_REG_BLOCK_SIZE) != EXANEST_BLOCK_SIZE ||
	    register_read(device, EXANEST_REG_TRANSFER_MAX) < EXANEST_BLOCK_SIZE ||
	    !(register_read(device, EXANEST_REG_PAGE_SIZES) & BIT(PAGE_SHIFT)) ||
	    !is_between(device->spaces_max, 1, 65536) ||
	    !is_between(device->address_bits, 48, 57) || !is_between(physical_bits, 32, 52) ||
	    !is_between(entries, 64, 65536) || !is_power_of_2(entries)) {
		pci_err(device->pci, "its limits are not those of an engine\n");
		return -ENODEV;
	}
	device->depth = min(entries, ENTRIES_MAX);
	device->operations = registers_operations;
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

static const struct {
	unsigned int vector;
	irq_handler_t handler;
} interrupts[] = {
	{ EXANEST_VECTOR_STATUS, status_interrupt },
	{ EXANEST_VECTOR_COMPLETION, completion_interrupt },
	{ EXANEST_VECTOR_FAULT, fault_interrupt },
};

static int interrupts_request(struct device_engine *device)
{
	struct pci_dev *pci = device->pci;
	unsigned int i;
	int error;

	error = pci_alloc_irq_vectors(pci, EXANEST_VECTORS, EXANEST_VECTORS, PCI_IRQ_MSIX);
	if (error < 0)
		return error;
	for (i = 0; i < ARRAY_SIZE(interrupts); i++) {
		error = devm_request_threaded_irq(&pci->dev,
						  pci_irq_vector(pci, interrupts[i].vector), NULL,
						  interrupts[i].handler, IRQF_ONESHOT, "exanest",
						  device);
		if (error)
			return error;
	}
	return 0;
}

static void interrupts_free(struct device_engine *device)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(interrupts); i++)
		devm_free_irq(&device->pci->dev, pci_irq_vector(device->pci, interrupts[i].vector),
			      device);
}

static void locks_init(struct device_engine *device)
{
	mutex_init(&device->state_lock);
	spin_lock_init(&device->commands_lock);
	spin_lock_init(&device->flights_lock);
	INIT_LIST_HEAD(&device->spaces);
	ida_init(&device->numbers);
}

/* Off and, if that is to be had, on. */
static int engine_restart(struct device_engine *device)
{
	int error = -EIO;

	mutex_lock(&device->state_lock);
	engine_stop(device);
	if (!device->cut)
		error = engine_start(device);
	mutex_unlock(&device->state_lock);
	return error;
}

static int registers_register(struct device_engine *device)
{
	const struct exanest_limits limits = {
		.depth = device->depth,
		.run = EXANEST_BLOCK_SIZE, /* so that it is one block of the engine as well */
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
	get_random_bytes(device->key, sizeof(device->key));
	device->key[0] |= 1; /* not 0 */
	locks_init(device);
	error = read_identification(device);
	if (error)
		return error;
	error = queues_create(device);
	if (error)
		return error;
	pci_set_master(pci);
	error = interrupts_request(device) ?: engine_restart(device);
	if (error)
		goto master;
	pci_set_drvdata(pci, device);
	error = registers_register(device);
	if (error)
		goto stop;
	pci_info(pci, "engine with %u blocks in flight\n", device->depth);
	return 0;

stop:
	mutex_lock(&device->state_lock);
	engine_stop(device);
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
	struct device_space *space;

	list_for_each_entry(space, &device->spaces, link) {
		u64 end = 1ULL << space->tables.bits;

		spin_lock(&space->tables.lock);
		exanest_tables_take(&space->tables, 0, end);
		spin_unlock(&space->tables.lock);
		exanest_tables_release(&space->tables, space->client, 0, end);
	}
}

static void registers_remove(struct pci_dev *pci)
{
	struct device_engine *device = pci_get_drvdata(pci);

	mutex_lock(&device->state_lock);
	device->removed = true;
	if (device->ready)
		engine_stop(device);
	spaces_empty(device);
	mutex_unlock(&device->state_lock);
	interrupts_free(device);
	exanest_engine_unregister(device->engine);
	pci_clear_master(pci);
	ida_destroy(&device->numbers);
}

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
};

int exanest_registers_start(void)
{
	return engine_devices ? pci_register_driver(&registers_driver) : 0;
}

void exanest_registers_stop(void)
{
	if (engine_devices)
		pci_unregister_driver(&registers_driver);
}

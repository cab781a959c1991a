// SPDX-License-Identifier: GPL-2.0
/* What the layers above ask of an engine in hardware: its spaces, and the blocks that it moves. */
#include <linux/pm_runtime.h>
#include <linux/slab.h>

#include "engine_registers.h"
#include "hardware.h"
#include "translation.h"

#define EXPORTS_MAX 32 /* contexts of one process that have joined a domain */
#define REMOTE_BITS 57 /* of addresses on other nodes */

/*
 * Spaces and exports.
 */
static struct device_engine *device_of(const struct exanest_engine *engine)
{
	return exanest_engine_private(engine);
}

static int registers_attach(struct exanest_engine *engine, struct exanest_space *client)
{
	struct device_engine *device = device_of(engine);
	struct device_memory *memory = kzalloc(sizeof(*memory), GFP_KERNEL_ACCOUNT);
	int error;

	if (!memory)
		return -ENOMEM;
	INIT_LIST_HEAD(&memory->exports);
	memory->client = client;
	error = pm_runtime_resume_and_get(&device->pci->dev);
	if (error)
		goto free;
	error = exanest_tables_init(&memory->tables, &device->pci->dev,
				    min_t(unsigned int, fls64(client->mm->task_size - 1),
					  device->address_bits));
	if (error)
		goto put;
	client->private = memory;
	mutex_lock(&device->state_lock);
	/* Contexts may open before exanest_engine_register has returned. */
	WRITE_ONCE(device->engine, engine);
	list_add(&memory->link, &device->memories);
	mutex_unlock(&device->state_lock);
	return 0;

put:
	pm_runtime_put_autosuspend(&device->pci->dev);
free:
	kfree(memory);
	return error;
}

/* state_lock is held. Nothing reaches the export when it returns. */
static void export_end(struct device_engine *device, struct device_export *export,
		       const char **reason)
{
	struct device_memory *memory = export->memory;
	const struct exanest_engine_command command = {
		.operation = cpu_to_le32(EXANEST_COMMAND_SPACE_DETACH),
		.space = cpu_to_le32(export->number),
	};

	if (device->ready && exanest_command_run(device, &command)) {
		exanest_hardware_stop(device);
		*reason = "it did not detach a space";
	}
	spin_lock(&memory->tables.lock);
	list_del(&export->link);
	memory->exports_count--;
	spin_unlock(&memory->tables.lock);
	mutex_lock(&device->exports_lock);
	xa_erase(&device->exports, export->number);
	mutex_unlock(&device->exports_lock);
	kfree(export);
}

static void registers_detach(struct exanest_engine *engine, struct exanest_space *client)
{
	struct device_engine *device = device_of(engine);
	struct device_memory *memory = client->private;
	struct device_export *export, *next;
	const char *reason = NULL;

	mutex_lock(&device->state_lock);
	/* There are some if the engine is unregistered. */
	list_for_each_entry_safe(export, next, &memory->exports, link)
		export_end(device, export, &reason);
	list_del(&memory->link);
	client->private = NULL;
	mutex_unlock(&device->state_lock);
	if (reason)
		exanest_hardware_fail(device, reason);
	exanest_tables_free(&memory->tables);
	kfree(memory);
	pm_runtime_mark_last_busy(&device->pci->dev);
	pm_runtime_put_autosuspend(&device->pci->dev);
}

/* state_lock is held, under which no memory is reclaimed: its invalidation may wait for that lock. */
static int export_begin(struct device_engine *device, struct device_export *export)
{
	struct device_memory *memory = export->memory;

	mutex_lock(&device->exports_lock);
	xa_store(&device->exports, export->number, export, GFP_NOWAIT); /* its entry is reserved */
	mutex_unlock(&device->exports_lock);
	if (!++device->generation)
		device->generation++;
	export->generation = device->generation;
	spin_lock(&memory->tables.lock);
	list_add(&export->link, &memory->exports);
	memory->exports_count++;
	spin_unlock(&memory->tables.lock);
	/* One that is off gets it when it starts. */
	return device->ready ? exanest_hardware_enter(device, export) : 0;
}

static u64 address_of(const struct device_engine *device, const struct device_export *export)
{
	return (u64)device->node << EXANEST_ADDRESS_NODE_SHIFT | (u64) export->number << 32 |
	       export->generation;
}

/* An export with a number. ERR_PTR. */
static struct device_export *export_create(struct device_engine *device,
					   struct exanest_export *client)
{
	struct device_export *export = kzalloc(sizeof(*export), GFP_KERNEL_ACCOUNT);
	const struct xa_limit limit = XA_LIMIT(0, device->spaces_max - 1);
	int error;

	if (!export)
		return ERR_PTR(-ENOMEM);
	export->memory = client->space->private;
	export->client = client;
	error = xa_alloc(&device->exports, &export->number, NULL, limit, GFP_KERNEL_ACCOUNT);
	if (error) {
		kfree(export);
		return ERR_PTR(error == -EBUSY ? -EMFILE : error);
	}
	return export;
}

static int registers_export(struct exanest_engine *engine, struct exanest_export *client)
{
	struct device_engine *device = device_of(engine);
	struct device_export *export = export_create(device, client);
	const char *reason = NULL;
	int error = -EMFILE;

	if (IS_ERR(export))
		return PTR_ERR(export);
	mutex_lock(&device->state_lock);
	/* Each has an INVALIDATE of its own. */
	if (export->memory->exports_count == EXPORTS_MAX) {
		xa_erase(&device->exports, export->number);
		kfree(export);
		goto unlock;
	}
	error = export_begin(device, export);
	if (!error) {
		client->address = address_of(device, export);
		client->private = export;
	} else {
		exanest_hardware_stop(device);
		reason = "it did not attach a space";
		export_end(device, export, &reason);
	}
unlock:
	mutex_unlock(&device->state_lock);
	if (reason)
		exanest_hardware_fail(device, reason);
	return error;
}

static void registers_retract(struct exanest_engine *engine, struct exanest_export *client)
{
	struct device_engine *device = device_of(engine);
	const char *reason = NULL;

	mutex_lock(&device->state_lock);
	if (client->private)
		export_end(device, client->private, &reason);
	client->private = NULL;
	mutex_unlock(&device->state_lock);
	if (reason)
		exanest_hardware_fail(device, reason);
}

static int registers_map(struct exanest_engine *engine, struct exanest_translation *translation,
			 unsigned int first, unsigned int count)
{
	struct device_memory *memory = translation->space->private;

	return exanest_tables_map(&memory->tables, translation, first, count);
}

/*
 * Take what is valid in a range, and tell the engine in the same moment, so that what was
 * taken is known to be on its way. -EAGAIN: the engine has no room for the commands. -ENODEV: it
 * is not ready, and there is no ticket.
 */
static int invalidate_begin(struct device_engine *device, struct device_memory *memory, u64 start,
			    u64 end, struct ticket *ticket, bool *found)
{
	struct exanest_engine_command command = {
		.operation = cpu_to_le32(EXANEST_COMMAND_INVALIDATE),
		.argument = { cpu_to_le64(start), cpu_to_le64(end - start) },
	};
	const struct device_export *export;
	int error = 0;

	spin_lock(&memory->tables.lock);
	spin_lock(&device->commands_lock);
	ticket->epoch = device->epoch;
	if (device->ready && !exanest_commands_have_room(device, memory->exports_count)) {
		error = -EAGAIN;
	} else {
		*found = exanest_tables_take(&memory->tables, start, end);
		/* Without an export the engine knows nothing of it: there is nothing to wait for. */
		ticket->index = device->commands.index - 1;
		if (!device->ready)
			error = -ENODEV;
		list_for_each_entry(export, &memory->exports, link) {
			if (error || !*found)
				break;
			command.space = cpu_to_le32(export->number);
			/* They are executed in order: the last one's ticket is that of all. */
			exanest_command_put(device, &command, ticket);
		}
	}
	spin_unlock(&device->commands_lock);
	spin_unlock(&memory->tables.lock);
	return error;
}

/* Take a range and return when the engine cannot access it any more. Whether there was something. */
static bool invalidate(struct device_engine *device, struct device_memory *memory, u64 start,
		       u64 end)
{
	unsigned long deadline = exanest_command_deadline(device, device->depth);
	static const char reason[] = "it did not confirm an invalidation";
	struct ticket ticket;
	unsigned int looks = 0;
	bool found = false;
	int error;

	while ((error = invalidate_begin(device, memory, start, end, &ticket, &found)) == -EAGAIN) {
		if (time_after(jiffies, deadline))
			exanest_hardware_cut_off(device, ticket.epoch, reason);
		exanest_hardware_look_again(&looks);
	}
	if (!found)
		return false;
	/*
	 * Spaces are attached after the engine is ready, so one that is about to start does not
	 * find what was taken before: wait until no stop, start or reset is in progress.
	 */
	if (error)
		exanest_hardware_await_off(device);
	else if (exanest_command_wait(device, &ticket))
		exanest_hardware_cut_off(device, ticket.epoch, reason);
	return true;
}

static bool registers_invalidate(struct exanest_engine *engine, struct exanest_space *client,
				 unsigned long start, unsigned long end, bool may_block)
{
	struct device_memory *memory = client->private;
	u64 stop = min_t(u64, end, 1ULL << memory->tables.bits);

	if (start >= stop)
		return true;
	if (!may_block)
		return !exanest_tables_present(&memory->tables, start, stop);
	if (invalidate(device_of(engine), memory, start, stop))
		exanest_tables_release(&memory->tables, client, start, stop);
	return true;
}

/*
 * Blocks.
 */
static u64 limit_of(const struct exanest_export *export)
{
	const struct device_memory *memory;

	if (!export)
		return 1ULL << REMOTE_BITS;
	memory = export->space->private;
	return 1ULL << memory->tables.bits;
}

/* Returns whether a side of the block is beyond what its space can have; then it is completed. */
static bool beyond(struct exanest_engine *engine, const struct exanest_descriptor *what, u32 side)
{
	bool local = side == EXANEST_SIDE_LOCAL;
	u64 address = local ? what->local_address : what->remote_address;
	const struct exanest_export *export = local ? what->local : what->remote;
	u64 limit = limit_of(export);
	struct exanest_result result = { .tag = what->tag, .status = -EFAULT, .side = side };
	struct device_memory *memory;

	if (address < limit && what->length <= limit - address)
		return false;
	if (address < limit) {
		memory = export ? export->space->private : NULL;
		result.skipped = limit - address;
		if (memory)
			result.skipped = exanest_tables_mapped(&memory->tables, address,
							       limit - address);
	}
	exanest_engine_complete(engine, &result);
	return true;
}

static void block_give(struct device_engine *device, const struct exanest_descriptor *what)
{
	const struct device_export *local = what->local->private;
	struct exanest_engine_submission *entries = device->submissions.entries, entry = {
		.operation = what->op == EXANEST_OP_PUT ? EXANEST_ENGINE_PUT :
			     what->op == EXANEST_OP_GET ? EXANEST_ENGINE_GET :
							  EXANEST_ENGINE_ATOMIC,
		.space = cpu_to_le32(local->number),
		.tag = cpu_to_le64(what->tag),
		.remote = cpu_to_le64(what->remote_address),
		.length = cpu_to_le32(what->length),
		.node = cpu_to_le32(what->remote ? device->node :
						   what->peer >> EXANEST_ADDRESS_NODE_SHIFT),
		.remote_space = cpu_to_le32(what->peer >> 32 & U16_MAX),
		.generation = cpu_to_le32(what->peer),
	};

	if (what->op == EXANEST_OP_ATOMIC) {
		entry.atomic = what->atomic;
		entry.operand = cpu_to_le64(what->operand);
		if (what->atomic == EXANEST_ATOMIC_COMPARE_SWAP)
			entry.compare = cpu_to_le64(what->compare);
	} else {
		entry.local = cpu_to_le64(what->local_address);
	}
	exanest_flight_put(device, what);
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
	ring_doorbell(device, EXANEST_DOORBELL_SUBMISSION);
}

static void registers_quiesce(struct exanest_engine *engine, struct exanest_export *client)
{
	struct device_engine *device = device_of(engine);
	struct exanest_engine_command command = {
		.operation = cpu_to_le32(EXANEST_COMMAND_ABORT),
	};
	struct ticket ticket;
	unsigned int slot;
	u32 tag;

	for (slot = 0; slot < device->depth; slot++) {
		if (!exanest_flight_aborts(device, slot, client, &tag))
			continue;
		command.argument[0] = cpu_to_le64(tag);
		if (exanest_command_give(device, &command, false, &ticket))
			return; /* it is reset, or about to be */
	}
}

static void registers_settle(struct exanest_engine *engine,
			     const struct exanest_remote_fault *fault, int status, u64 address)
{
	struct device_engine *device = device_of(engine);
	struct exanest_engine_command command = {
		.operation = cpu_to_le32(status ? EXANEST_COMMAND_REJECT : EXANEST_COMMAND_RESUME),
		.argument = { cpu_to_le64(fault->fault) },
	};

	if (status) {
		command.argument[2] = cpu_to_le64(address);
		command.argument[1] = cpu_to_le64(status == -ETIMEDOUT ?
							  EXANEST_STATUS_FAULT_TIMEOUT :
						  status == -EBUSY  ? EXANEST_STATUS_FAULT_BUSY :
						  status == -ENOMEM ? EXANEST_STATUS_FAULT_MEMORY :
								      EXANEST_STATUS_FAULT);
	}
	/* After a reset the number may be that of another fault. */
	if (exanest_command_give_in(device, fault->epoch, &command) == -ETIMEDOUT)
		exanest_hardware_fail(device, "it takes no commands");
}

static int registers_reset(struct exanest_engine *engine)
{
	struct device_engine *device = device_of(engine);
	int error = -EIO;

	mutex_lock(&device->state_lock);
	if (device->ready)
		exanest_hardware_stop(device);
	exanest_flights_drop(device);
	if (device->suspended)
		error = 0; /* it starts after the resume */
	else if (!device->cut && !device->removed)
		error = exanest_hardware_start(device);
	mutex_unlock(&device->state_lock);
	return error;
}

static bool registers_answers(struct exanest_engine *engine)
{
	struct device_engine *device = device_of(engine);
	const struct exanest_engine_command nop = {
		.operation = cpu_to_le32(EXANEST_COMMAND_NOP),
	};
	struct ticket ticket;
	int error = exanest_command_give(device, &nop, false, &ticket);

	if (!error)
		error = exanest_command_wait(device, &ticket);
	return !error || error == -ENODEV; /* off: it is being reset */
}

static const char *const counter_names[] = {
	[EXANEST_COUNTER_TRANSFERS] = "transfers",
	[EXANEST_COUNTER_BYTES] = "bytes",
	[EXANEST_COUNTER_BLOCKS_DONE] = "blocks_done",
	[EXANEST_COUNTER_BLOCKS_AGAIN] = "blocks_again",
	[EXANEST_COUNTER_PACKETS_SENT] = "packets_sent",
	[EXANEST_COUNTER_PACKETS_RECEIVED] = "packets_received",
	[EXANEST_COUNTER_PACKETS_DROPPED] = "packets_dropped",
	[EXANEST_COUNTER_PACKETS_DENIED] = "packets_denied",
	[EXANEST_COUNTER_TIMEOUTS] = "timeouts",
	[EXANEST_COUNTER_FAULTS_LOCAL] = "faults_local",
	[EXANEST_COUNTER_FAULTS_REMOTE] = "faults_remote",
	[EXANEST_COUNTER_RESUMES] = "resumes",
	[EXANEST_COUNTER_REJECTS] = "rejects",
	[EXANEST_COUNTER_INVALIDATIONS] = "invalidations",
	[EXANEST_COUNTER_CACHE_HITS] = "cache_hits",
	[EXANEST_COUNTER_CACHE_MISSES] = "cache_misses",
	[EXANEST_COUNTER_ATOMICS_DONE] = "atomics_done",
	[EXANEST_COUNTER_INTERRUPTS] = "interrupts",
	[EXANEST_ENGINE_COUNTERS] = NULL,
};

static bool counters_read(struct device_engine *device, u64 *values)
{
	unsigned int i;

	BUILD_BUG_ON(EXANEST_ENGINE_COUNTERS > EXANEST_ENGINE_COUNTERS_MAX);
	for (i = 0; i < EXANEST_ENGINE_COUNTERS; i++) {
		/* A register of a device that is gone takes long to read. */
		if (!READ_ONCE(device->ready))
			return false;
		values[i] = readq(device->registers + EXANEST_REG_COUNTERS + i * sizeof(u64));
		if (values[i] == U64_MAX)
			return false;
	}
	return true;
}

static bool registers_count(struct exanest_engine *engine, u64 *values)
{
	struct device_engine *device = device_of(engine);
	/* 0: it may be suspended. Less: this kernel has no runtime power management. */
	int in_use = pm_runtime_get_if_in_use(&device->pci->dev);
	bool all = in_use && counters_read(device, values);

	if (in_use > 0)
		pm_runtime_put_autosuspend(&device->pci->dev);
	return all;
}

const struct exanest_engine_operations exanest_registers_operations = {
	.space_attach = registers_attach,
	.space_detach = registers_detach,
	.export = registers_export,
	.retract = registers_retract,
	.settle = registers_settle,
	.map = registers_map,
	.invalidate = registers_invalidate,
	.submit = registers_submit,
	.kick = registers_kick,
	.answers = registers_answers,
	.quiesce = registers_quiesce,
	.reset = registers_reset,
	.counters = counter_names,
	.count = registers_count,
};

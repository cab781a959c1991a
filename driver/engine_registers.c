// SPDX-License-Identifier: GPL-2.0
/* What the layers above ask of an engine in hardware: its spaces, and the blocks that it moves. */
#include <linux/slab.h>

#include "engine_registers.h"
#include "hardware.h"
#include "translation.h"

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
		error = exanest_hardware_enter(device, space);
	if (error) {
		exanest_hardware_stop(device);
		reason = "it did not attach a space";
	} else {
		space->client = client;
		client->private = space;
		list_add(&space->link, &device->spaces);
	}
	mutex_unlock(&device->state_lock);
	if (reason)
		exanest_hardware_fail(device, reason);
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
	if (device->ready && exanest_command_run(device, &command)) {
		exanest_hardware_stop(device);
		reason = "it did not detach a space";
	}
	list_del(&space->link);
	client->private = NULL;
	mutex_unlock(&device->state_lock);
	if (reason)
		exanest_hardware_fail(device, reason);
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
	if (device->ready && !exanest_commands_have_room(device)) {
		error = -EAGAIN;
	} else {
		*found = exanest_tables_take(&space->tables, start, end);
		if (!device->ready)
			error = -ENODEV;
		else if (*found)
			exanest_command_put(device, &command, ticket);
	}
	spin_unlock(&device->commands_lock);
	spin_unlock(&space->tables.lock);
	return error;
}

/* Take a range and return when the engine cannot access it any more. Whether there was something. */
static bool invalidate(struct device_engine *device, struct device_space *space, u64 start, u64 end)
{
	unsigned long deadline = exanest_command_deadline(device, device->depth);
	static const char reason[] = "it did not confirm an invalidation";
	struct ticket ticket;
	unsigned int looks = 0;
	bool found = false;
	int error;

	while ((error = invalidate_begin(device, space, start, end, &ticket, &found)) == -EAGAIN) {
		if (time_after(jiffies, deadline))
			exanest_hardware_cut_off(device, ticket.epoch, reason);
		exanest_hardware_look_again(&looks);
	}
	if (!found)
		return false;
	if (error || exanest_command_wait(device, &ticket))
		exanest_hardware_cut_off(device, ticket.epoch, reason);
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
		if (!exanest_flight_aborts(device, slot, client, &tag))
			continue;
		command.argument[0] = cpu_to_le64(tag);
		if (exanest_command_give(device, &command, false, &ticket))
			return; /* it is reset, or about to be */
	}
}

static int registers_reset(struct exanest_engine *engine)
{
	struct device_engine *device = device_of(engine);
	int error = -EIO;

	mutex_lock(&device->state_lock);
	if (device->ready)
		exanest_hardware_stop(device);
	exanest_flights_drop(device);
	if (!device->cut && !device->removed)
		error = exanest_hardware_start(device);
	mutex_unlock(&device->state_lock);
	return error;
}

const struct exanest_engine_operations exanest_registers_operations = {
	.space_attach = registers_attach,
	.space_detach = registers_detach,
	.map = registers_map,
	.invalidate = registers_invalidate,
	.submit = registers_submit,
	.kick = registers_kick,
	.quiesce = registers_quiesce,
	.reset = registers_reset,
};

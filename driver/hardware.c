// SPDX-License-Identifier: GPL-2.0
#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/timekeeping.h>

#include "hardware.h"

#define INTERRUPTS                                                                                 \
	(BIT(EXANEST_VECTOR_STATUS) | BIT(EXANEST_VECTOR_COMPLETION) | BIT(EXANEST_VECTOR_FAULT))

/* Of the link. A node that does not answer is given up after 10 ms * (1 + 2 + 4 + 8 + 12 * 16): 2 s. */
#define LINK_PAYLOAD 4096
#define LINK_TIMEOUT_US 10000
#define LINK_RETRIES 16

/* What this machine may take beside COMMAND_TIME. */
#define COMMAND_TIME_MORE_US (100U * USEC_PER_MSEC)
/* Looks at a status or an index before sleeping between them. */
#define LOOKS 200

void exanest_hardware_look_again(unsigned int *looks)
{
	if (++*looks < LOOKS)
		cpu_relax();
	else
		usleep_range(20, 100);
}

unsigned long exanest_command_deadline(const struct device_engine *device, u32 commands)
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
	unsigned long deadline = exanest_command_deadline(device, 1);
	unsigned int looks = 0;
	bool late;
	u32 status;

	do {
		late = time_after(jiffies, deadline);
		status = register_read(device, EXANEST_REG_STATUS);
		if (status == wanted || status == GONE ||
		    (status == EXANEST_ENGINE_FAILED && wanted == EXANEST_ENGINE_READY))
			break;
		exanest_hardware_look_again(&looks);
	} while (!late);
	return status;
}

void exanest_hardware_fail(struct device_engine *device, const char *reason)
{
	struct exanest_engine *engine = READ_ONCE(device->engine);

	if (engine)
		exanest_engine_fail(engine, reason);
}

/*
 * Commands.
 */
bool exanest_commands_have_room(const struct device_engine *device, unsigned int count)
{
	u32 oldest = le32_to_cpu(READ_ONCE(device->indices->command_consumer));

	if (device->holding)
		oldest = device->held;
	/* An index that cannot be leaves no room, until the caller's deadline. */
	return device->commands.index - oldest + count <= device->depth;
}

void exanest_command_put(struct device_engine *device, const struct exanest_engine_command *command,
			 struct ticket *ticket)
{
	struct exanest_engine_command *entries = device->commands.entries;

	ticket->index = device->commands.index++;
	ticket->epoch = device->epoch;
	entries[ticket->index & (device->depth - 1)] = *command;
	dma_wmb();
	register_write(device, EXANEST_REG_COMMAND_PRODUCER, device->commands.index);
	ring_doorbell(device, EXANEST_DOORBELL_COMMAND);
}

/* epoch: NULL, or the only one in which the command may be given. */
static int command_give(struct device_engine *device, const struct exanest_engine_command *command,
			bool hold, const unsigned int *epoch, struct ticket *ticket)
{
	unsigned long deadline = exanest_command_deadline(device, device->depth);
	unsigned int looks = 0;
	int error;

	do {
		spin_lock(&device->commands_lock);
		if (!device->ready || (epoch && *epoch != device->epoch))
			error = -ENODEV;
		else
			error = exanest_commands_have_room(device, 1) ? 0 : -EAGAIN;
		if (!error) {
			exanest_command_put(device, command, ticket);
			if (hold) {
				device->holding = true;
				device->held = ticket->index;
			}
		}
		spin_unlock(&device->commands_lock);
		if (error != -EAGAIN)
			return error;
		exanest_hardware_look_again(&looks);
	} while (time_before(jiffies, deadline));
	return -ETIMEDOUT;
}

int exanest_command_give(struct device_engine *device, const struct exanest_engine_command *command,
			 bool hold, struct ticket *ticket)
{
	return command_give(device, command, hold, NULL, ticket);
}

int exanest_command_give_in(struct device_engine *device, unsigned int epoch,
			    const struct exanest_engine_command *command)
{
	struct ticket ticket;

	return command_give(device, command, false, &epoch, &ticket);
}

int exanest_command_wait(struct device_engine *device, const struct ticket *ticket)
{
	u32 consumer = le32_to_cpu(READ_ONCE(device->indices->command_consumer));
	unsigned long deadline =
		exanest_command_deadline(device, min(ticket->index - consumer, device->depth) + 1);
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
		exanest_hardware_look_again(&looks);
	}
	return 0;
}

int exanest_command_run(struct device_engine *device, const struct exanest_engine_command *command)
{
	const struct exanest_engine_command *entries = device->commands.entries;
	struct ticket ticket;
	u32 status;
	int error;

	error = exanest_command_give(device, command, true, &ticket);
	if (error)
		return error;
	error = exanest_command_wait(device, &ticket);
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
 * State.
 */
void exanest_hardware_stop(struct device_engine *device)
{
	u32 status;

	spin_lock(&device->commands_lock);
	device->ready = false;
	spin_unlock(&device->commands_lock);

	register_write(device, EXANEST_REG_CONTROL, 0);
	ring_doorbell(device, EXANEST_DOORBELL_CONTROL);
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

int exanest_hardware_enter(struct device_engine *device, const struct device_export *export)
{
	const struct exanest_tables *tables = &export->memory->tables;
	const struct exanest_engine_command command = {
		.operation = cpu_to_le32(EXANEST_COMMAND_SPACE_ATTACH),
		.space = cpu_to_le32(export->number),
		.argument = {
			cpu_to_le64(exanest_tables_root(tables)),
			cpu_to_le64(export->client->key[0]),
			cpu_to_le64(export->client->key[1]),
			cpu_to_le64(EXANEST_ATTACH_SHAPE(export->generation, PAGE_SHIFT,
							 tables->bits)),
		},
	};

	return exanest_command_run(device, &command);
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
	register_write(device, EXANEST_REG_NODE, device->node);
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

static int peers_set(struct device_engine *device)
{
	struct exanest_engine_command command = {
		.operation = cpu_to_le32(EXANEST_COMMAND_PEER_SET),
	};
	unsigned int i;
	int error = 0;

	for (i = 0; i < device->peers_count && !error; i++) {
		command.argument[0] = cpu_to_le64(device->peers[i]);
		error = exanest_command_run(device, &command);
	}
	return error;
}

int exanest_hardware_start(struct device_engine *device)
{
	struct device_export *export;
	unsigned long number;
	u32 status;
	int error;

	write_configuration(device);
	wmb(); /* all of that before it is enabled */
	register_write(device, EXANEST_REG_CONTROL, 1);
	ring_doorbell(device, EXANEST_DOORBELL_CONTROL);
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
	error = peers_set(device);
	if (error)
		goto stop;
	xa_for_each(&device->exports, number, export) {
		error = exanest_hardware_enter(device, export);
		if (error)
			goto stop;
	}
	return 0;

stop:
	exanest_hardware_stop(device);
	return -EIO;
}

void exanest_hardware_cut_off(struct device_engine *device, unsigned int epoch, const char *reason)
{
	bool stopped = false;

	mutex_lock(&device->state_lock);
	if (device->ready && device->epoch == epoch) {
		exanest_hardware_stop(device);
		stopped = true;
	}
	mutex_unlock(&device->state_lock);
	if (stopped)
		exanest_hardware_fail(device, reason);
}

/* Whoever stops it makes it not ready, and then off, in one hold of the lock. */
void exanest_hardware_await_off(struct device_engine *device)
{
	mutex_lock(&device->state_lock);
	mutex_unlock(&device->state_lock);
}

/*
 * Blocks that the engine has.
 */
void exanest_flight_put(struct device_engine *device, const struct exanest_descriptor *what)
{
	spin_lock(&device->flights_lock);
	device->flights[what->tag & 0xffff] = *what;
	spin_unlock(&device->flights_lock);
}

bool exanest_flight_take(struct device_engine *device, u64 tag, struct exanest_descriptor *what)
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

bool exanest_flight_aborts(struct device_engine *device, unsigned int slot,
			   const struct exanest_export *client, u32 *tag)
{
	const struct exanest_descriptor *what = &device->flights[slot];
	bool aborts;

	spin_lock(&device->flights_lock);
	aborts = what->length && (what->op != EXANEST_OP_ATOMIC || !what->remote) &&
		 (what->local == client || what->remote == client);
	*tag = what->tag;
	spin_unlock(&device->flights_lock);
	return aborts;
}

bool exanest_flights_any(struct device_engine *device)
{
	bool any = false;
	unsigned int i;

	spin_lock(&device->flights_lock);
	for (i = 0; i < device->depth; i++)
		any |= device->flights[i].length;
	spin_unlock(&device->flights_lock);
	return any;
}

void exanest_flights_drop(struct device_engine *device)
{
	mutex_lock(&device->completions.lock);
	spin_lock(&device->flights_lock);
	memset(device->flights, 0, device->depth * sizeof(*device->flights));
	spin_unlock(&device->flights_lock);
	mutex_unlock(&device->completions.lock);
}

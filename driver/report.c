// SPDX-License-Identifier: GPL-2.0
/* What an engine in hardware reports: completions, faults, and its state. */
#include <linux/interrupt.h>

#include "hardware.h"
#include "report.h"
#include "translation.h"

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

	if (!exanest_flight_take(device, le64_to_cpu(completion->tag), &what)) {
		exanest_hardware_fail(device, "it completed a block that it does not have");
		return false;
	}
	if (!result_of(device, completion, &what, &result)) {
		exanest_hardware_fail(device, "it completed a block with what cannot be");
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
 * A fault becomes the end of its block, see hardware.h. Which block it was is seen from the
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
		exanest_hardware_fail(device, "it reported a fault that cannot be");
		return false;
	}
	error = exanest_command_give(device, &command, false, &ticket);
	if (error == -ETIMEDOUT)
		exanest_hardware_fail(device, "it takes no commands");
	return !error;
}

/* The queue's lock is held. Entries that there are; 0 if their index cannot be. */
static u32 queue_filled(struct device_engine *device, const struct queue *queue,
			const __le32 *producer)
{
	u32 count = le32_to_cpu(READ_ONCE(*producer)) - queue->index;

	if (count > device->depth) {
		exanest_hardware_fail(device, "it reported an index that cannot be");
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
		ring_doorbell(device, EXANEST_DOORBELL_FAULT); /* it may have more */
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
		exanest_hardware_fail(device, "it failed");
	} else if (status == GONE) {
		exanest_hardware_fail(device, "its registers cannot be read");
	}
	return IRQ_HANDLED;
}

static const struct {
	unsigned int vector;
	irq_handler_t handler;
} interrupts[] = {
	{ EXANEST_VECTOR_STATUS, status_interrupt },
	{ EXANEST_VECTOR_COMPLETION, completion_interrupt },
	{ EXANEST_VECTOR_FAULT, fault_interrupt },
};

int exanest_report_start(struct device_engine *device)
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

void exanest_report_stop(struct device_engine *device)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(interrupts); i++)
		devm_free_irq(&device->pci->dev, pci_irq_vector(device->pci, interrupts[i].vector),
			      device);
}

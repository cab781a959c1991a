// SPDX-License-Identifier: GPL-2.0
/* What an engine in hardware reports: completions, faults, and its state. */
#include <linux/interrupt.h>

#include "block.h"
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

/* An error at an address. false: it cannot be. */
static bool result_at(const struct exanest_engine_completion *completion,
		      const struct exanest_descriptor *what, struct exanest_result *result)
{
	u64 offset = le64_to_cpu(completion->address);

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
	/* The other node wrote the address. If it is not of the block, report the block's first. */
	if (offset >= what->length && result->side == EXANEST_SIDE_REMOTE && !what->remote)
		offset = 0;
	result->skipped = offset;
	return offset < what->length;
}

/* How a block to another node ends, beside what one of this node does. */
static bool result_of_node(struct device_engine *device,
			   const struct exanest_engine_completion *completion,
			   const struct exanest_descriptor *what, struct exanest_result *result)
{
	bool atomic = what->op == EXANEST_OP_ATOMIC;

	switch (le32_to_cpu(completion->status)) {
	case EXANEST_STATUS_INVALID: /* the other engine does not do it */
	case EXANEST_STATUS_UNREACHABLE:
		result->status = -EHOSTUNREACH;
		return true;
	case EXANEST_STATUS_MEMORY:
		if (le32_to_cpu(completion->side) == EXANEST_SIDE_LOCAL) {
			dev_err_ratelimited(&device->pci->dev, "it cannot access memory\n");
			result->status = -EIO;
			return true;
		}
		result->status = -EFAULT;
		break;
	case EXANEST_STATUS_PEER_RESET:
		result->status = atomic ? -ECONNRESET : -ECANCELED;
		return true;
	case EXANEST_STATUS_LINK_TIMEOUT:
		result->status = atomic ? -ECONNRESET : -EHOSTUNREACH;
		return true;
	case EXANEST_STATUS_FAULT_TIMEOUT:
		result->status = -ETIMEDOUT;
		break;
	case EXANEST_STATUS_FAULT_BUSY:
		result->status = -EBUSY;
		break;
	case EXANEST_STATUS_FAULT_MEMORY:
		result->status = -ENOMEM;
		break;
	default:
		return false;
	}
	return result_at(completion, what, result);
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
			result->value = what->length == 4 && !what->remote ?
						(u32)le64_to_cpu(completion->value) :
						le64_to_cpu(completion->value);
		return true;
	case EXANEST_STATUS_FAULT:
		result->status = -EFAULT;
		return result_at(completion, what, result);
	case EXANEST_STATUS_ABORTED:
		result->status = !atomic ? -ECANCELED : what->remote ? -EIO : -ECONNRESET;
		return true;
	}
	if (!what->remote)
		return result_of_node(device, completion, what, result);
	switch (status) {
	case EXANEST_STATUS_INVALID:
	case EXANEST_STATUS_UNREACHABLE:
	case EXANEST_STATUS_MEMORY:
		dev_err_ratelimited(&device->pci->dev, "a block ended with status %u\n", status);
		result->status = -EIO;
		return true;
	}
	return false;
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
		if (what.remote)
			mark_used(what.remote->space, what.remote_address, what.length);
		if (what.op != EXANEST_OP_ATOMIC)
			mark_used(what.local->space, what.local_address, what.length);
	}
	exanest_engine_complete(device->engine, &result);
	return true;
}

static bool fault_possible(const struct device_engine *device,
			   const struct exanest_engine_fault *fault)
{
	u64 block = le64_to_cpu(fault->block), address = le64_to_cpu(fault->address);
	u32 length = le32_to_cpu(fault->length);

	return fault->fault && le32_to_cpu(fault->space) < device->spaces_max &&
	       !(le32_to_cpu(fault->flags) &
		 ~(EXANEST_ENGINE_FAULT_WRITE | EXANEST_ENGINE_FAULT_REMOTE |
		   EXANEST_ENGINE_FAULT_ATOMIC)) &&
	       length && block <= address && address - block + length <= EXANEST_BLOCK_SIZE &&
	       address + length >= address;
}

static void fault_give(struct device_engine *device, struct device_export *export,
		       unsigned int epoch, const struct exanest_engine_fault *fault)
{
	const u64 address = le64_to_cpu(fault->address), end = address + le32_to_cpu(fault->length);
	const struct exanest_remote_fault what = {
		.fault = le64_to_cpu(fault->fault),
		.epoch = epoch,
		.node = le32_to_cpu(fault->node),
		.request = le64_to_cpu(fault->request),
		.start = le64_to_cpu(fault->block),
		.end = end,
		/* ahead is the other node's word: too much brings pages in that nobody needs. */
		.last = max(end, end + le32_to_cpu(fault->ahead)),
		.address = address,
		.write = le32_to_cpu(fault->flags) & EXANEST_ENGINE_FAULT_WRITE,
	};

	exanest_engine_fault(device->engine, export->client, &what);
}

/*
 * A block of this node that meets a page fault ends, see hardware.h. Which block it was is seen
 * from the completion. The page fault of another node's block is resolved. One that ended
 * meanwhile is not found, which is fine.
 */
static bool fault_handle(struct device_engine *device, unsigned int epoch,
			 const struct exanest_engine_fault *fault)
{
	const struct exanest_engine_command reject = {
		.operation = cpu_to_le32(EXANEST_COMMAND_REJECT),
		.argument = { fault->fault, cpu_to_le64(EXANEST_STATUS_FAULT) },
	};
	struct device_export *export;
	struct ticket ticket;
	int error = 0;

	if (!fault_possible(device, fault)) {
		exanest_hardware_fail(device, "it reported a fault that cannot be");
		return false;
	}
	if (le32_to_cpu(fault->node) == device->node) {
		error = exanest_command_give(device, &reject, false, &ticket);
	} else {
		/* An export that is gone: so is the fault. */
		mutex_lock(&device->exports_lock);
		export = xa_load(&device->exports, le32_to_cpu(fault->space));
		if (export && export->generation == le32_to_cpu(fault->generation))
			fault_give(device, export, epoch, fault);
		mutex_unlock(&device->exports_lock);
	}
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
	unsigned int epoch;
	bool sane = true;
	u32 count;

	mutex_lock(&queue->lock);
	/* First: a start, which comes after a stop, waits for the lock. So they are of this epoch or none. */
	epoch = READ_ONCE(device->epoch);
	smp_rmb();
	while (sane && READ_ONCE(device->ready) &&
	       (count = queue_filled(device, queue, &device->indices->fault_producer))) {
		for (; sane && count; count--) {
			fault = entries[queue->index++ & (device->depth - 1)];
			barrier(); /* what is checked is the copy */
			sane = fault_handle(device, epoch, &fault);
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
	u32 status;

	if (!READ_ONCE(device->ready))
		return IRQ_HANDLED; /* what starts or stops it looks */
	status = register_read(device, EXANEST_REG_STATUS);
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

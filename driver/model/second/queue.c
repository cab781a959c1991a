// SPDX-License-Identifier: GPL-2.0
/* Queues and the index block. */
#include <string.h>

#include "memory.h"
#include "queue.h"
#include "registers.h"

/* Return the entry of an index, or NULL after the engine failed. */
void *get_entry(struct engine *e, const struct queue *q, u32 index)
{
	u64 address = q->base + (u64)(index & (q->entries - 1)) * q->entry_size;
	void *entry = physical(e, address, q->entry_size);

	if (!entry)
		fail(e, ERROR_MEMORY, address);
	return entry;
}

/* Make an index of the engine visible, after what was written before it. */
void publish_index(struct engine *e, u32 offset, u32 value)
{
	u32 *index = physical(e, e->index_base + offset, sizeof(*index));

	if (index)
		__atomic_store_n(index, value, __ATOMIC_RELEASE);
	else
		fail(e, ERROR_MEMORY, e->index_base + offset);
}

/* Check a new value of the producer of a queue, which the driver writes. */
bool is_producer_allowed(struct engine *e, const struct queue *q, u32 producer, u32 offset)
{
	u32 used = producer - q->consumer;

	if (used <= q->entries && used >= q->producer - q->consumer)
		return true;
	fail(e, ERROR_INDEX, offset);
	return false;
}

/* Check a new value of the consumer of a queue, which the driver writes. */
bool is_consumer_allowed(struct engine *e, const struct queue *q, u32 consumer, u32 offset)
{
	if (consumer - q->consumer <= q->producer - q->consumer)
		return true;
	fail(e, ERROR_INDEX, offset);
	return false;
}

void post_completion(struct engine *e, const struct completion *completion)
{
	void *entry = get_entry(e, &e->completion, e->completion.producer);

	if (!entry)
		return;
	memcpy(entry, completion, sizeof(*completion));
	publish_index(e, INDEX_COMPLETION_PRODUCER, ++e->completion.producer);
	count(e, REG_TRANSFERS, 1);
	e->due |= 1u << VECTOR_COMPLETION;
}

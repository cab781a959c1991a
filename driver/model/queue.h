/* SPDX-License-Identifier: GPL-2.0 */
/* A queue in the memory of the node, from the side of the engine: engine.md, section 5. */
#ifndef MODEL_QUEUE_H
#define MODEL_QUEUE_H

#include "memory.h"

struct queue {
	uint64_t base;
	uint32_t entries; /* a power of two */
	uint32_t size;    /* bytes of an entry */
	uint32_t producer, consumer;
};

static inline uint32_t queue_used(const struct queue *queue)
{
	return queue->producer - queue->consumer;
}

static inline uint64_t queue_address(const struct queue *queue, uint32_t index)
{
	return queue->base + (uint64_t)(index & (queue->entries - 1)) * queue->size;
}

/* Take an index that the driver wrote. false: it is out of range. */
bool queue_produced(struct queue *queue, uint32_t producer);
bool queue_consumed(struct queue *queue, uint32_t consumer);

#endif

// SPDX-License-Identifier: GPL-2.0
#include "queue.h"

bool queue_produced(struct queue *queue, uint32_t producer)
{
	if (producer - queue->consumer > queue->entries ||
	    producer - queue->consumer < queue_used(queue))
		return false;
	queue->producer = producer;
	return true;
}

bool queue_consumed(struct queue *queue, uint32_t consumer)
{
	if (consumer - queue->consumer > queue_used(queue))
		return false;
	queue->consumer = consumer;
	return true;
}

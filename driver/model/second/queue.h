/* SPDX-License-Identifier: GPL-2.0 */
/* Queues and the index block: section 5 of engine.md. */
#ifndef SECOND_QUEUE_H
#define SECOND_QUEUE_H

#include "state.h"

/* Return the entry of an index, or NULL after the engine failed. */
void *get_entry(struct engine *e, const struct queue *q, u32 index);
/* Make an index of the engine visible, after what was written before it. */
void publish_index(struct engine *e, u32 offset, u32 value);
/* Check a new value of an index of the driver, which is at offset; the engine fails if it cannot be. */
bool is_producer_allowed(struct engine *e, const struct queue *q, u32 producer, u32 offset);
bool is_consumer_allowed(struct engine *e, const struct queue *q, u32 consumer, u32 offset);
/* Write a completion. There is room for it. */
void post_completion(struct engine *e, const struct completion *completion);

#endif

// SPDX-License-Identifier: GPL-2.0
/* Page faults. */
#include <string.h>

#include "fault.h"
#include "queue.h"
#include "registers.h"

static void describe_block_fault(struct engine *e, const struct block *b, struct fault_entry *f)
{
	const struct submission *s = &b->transfer->submission;

	f->block = s->local + b->offset;
	f->length = f->block + b->length - f->address;
	f->flags = s->operation == OPERATION_GET ? FAULT_WRITE : 0;
	f->space = s->space;
	f->generation = e->spaces[s->space].generation;
	f->node = e->node;
	f->ahead = s->length - b->offset - b->length;
	f->tag = s->tag;
}

static void describe_record_fault(const struct record *r, struct fault_entry *f)
{
	f->block = r->request.address;
	f->length = f->block + r->request.length - f->address;
	f->flags = FAULT_REMOTE;
	if (r->type != PACKET_GET)
		f->flags |= FAULT_WRITE;
	if (r->type == PACKET_ATOMIC)
		f->flags |= FAULT_ATOMIC;
	f->space = r->request.space;
	f->generation = r->request.generation;
	f->node = r->sender.peer->node;
	f->ahead = r->request.ahead;
	f->request = r->number;
}

/* Write the entries of faults that are not written, while there is room. */
static void write_faults(struct engine *e)
{
	struct queue *q = &e->fault;
	struct fault *fault;

	for (fault = TAILQ_FIRST(&e->faults); fault; fault = TAILQ_NEXT(fault, link)) {
		struct fault_entry f = { .fault = fault->id, .address = fault->address };
		void *entry;

		if (fault->written)
			continue;
		if (q->producer - q->consumer >= q->entries)
			return;
		entry = get_entry(e, q, q->producer);
		if (!entry)
			return;
		if (fault->block)
			describe_block_fault(e, fault->block, &f);
		else
			describe_record_fault(fault->record, &f);
		memcpy(entry, &f, sizeof(f));
		publish_index(e, INDEX_FAULT_PRODUCER, ++q->producer);
		count(e, fault->block ? REG_FAULTS_LOCAL : REG_FAULTS_REMOTE, 1);
		fault->written = true;
		e->due |= 1u << VECTOR_FAULT;
	}
}

void raise_fault(struct engine *e, struct fault *fault, u64 address)
{
	fault->id = ++e->fault_id;
	fault->address = address;
	fault->written = false;
	TAILQ_INSERT_TAIL(&e->faults, fault, link);
	write_faults(e);
}

void clear_fault(struct engine *e, struct fault *fault)
{
	if (!fault->id)
		return;
	fault->id = 0;
	TAILQ_REMOVE(&e->faults, fault, link);
}

struct fault *find_fault(struct engine *e, u64 id)
{
	struct fault *fault;

	TAILQ_FOREACH(fault, &e->faults, link)
		if (fault->id == id)
			return fault;
	return NULL;
}

void run_fault_doorbell(struct engine *e)
{
	u32 consumer = get32(e, REG_FAULT_CONSUMER);

	if (!is_consumer_allowed(e, &e->fault, consumer, REG_FAULT_CONSUMER))
		return;
	e->fault.consumer = consumer;
	write_faults(e);
}

// SPDX-License-Identifier: GPL-2.0
/* Commands. */
#include <string.h>

#include "command.h"
#include "fault.h"
#include "initiator.h"
#include "link.h"
#include "queue.h"
#include "registers.h"
#include "target.h"
#include "zeros.h"

/* The bytes of arguments that each operation uses, from offset 8 on. */
static const u8 argument_sizes[] = {
	[COMMAND_NOP] = 0,         [COMMAND_SPACE_ATTACH] = 30, [COMMAND_SPACE_DETACH] = 0,
	[COMMAND_INVALIDATE] = 16, [COMMAND_PEER_SET] = 4,      [COMMAND_PEER_CLEAR] = 4,
	[COMMAND_RESUME] = 8,      [COMMAND_REJECT] = 24,       [COMMAND_ABORT] = 8,
};

static bool is_attach_allowed(const struct command *c)
{
	u8 shift = c->attach.page_shift;

	return shift < 32 && PAGE_SIZES >> shift & 1 && c->attach.bits > shift &&
	       c->attach.bits <= ADDRESS_BITS && (c->attach.key[0] || c->attach.key[1]) &&
	       c->attach.generation && !(c->attach.root & ((1ull << shift) - 1)) &&
	       c->attach.root < 1ull << PHYSICAL_BITS;
}

/* Check what makes a command INVALID. */
static bool is_command_allowed(const struct engine *e, const struct command *c)
{
	u8 used;

	if (c->operation > COMMAND_ABORT)
		return false;
	used = argument_sizes[c->operation];
	if (!are_zeros(c->arguments + used, sizeof(c->arguments) - used) || c->reserved)
		return false;
	switch (c->operation) {
	case COMMAND_SPACE_ATTACH:
		return c->space < SPACES && is_attach_allowed(c);
	case COMMAND_SPACE_DETACH:
		return c->space < SPACES;
	case COMMAND_INVALIDATE:
		return c->space < SPACES && c->invalidate.length &&
		       c->invalidate.start <= UINT64_MAX - c->invalidate.length;
	case COMMAND_PEER_SET:
	case COMMAND_PEER_CLEAR:
		return !c->space && c->node >= 1 && c->node <= 65535 && c->node != e->node;
	case COMMAND_REJECT:
		return !c->space && c->reject.status >= STATUS_FAULT &&
		       c->reject.status <= STATUS_FAULT_MEMORY;
	default:
		return !c->space;
	}
}

static u32 attach_space(struct engine *e, const struct command *c)
{
	struct space *s = &e->spaces[c->space];

	if (s->attached)
		return COMMAND_EXISTS;
	s->attached = true;
	s->root = c->attach.root;
	memcpy(s->key, c->attach.key, sizeof(s->key));
	s->generation = c->attach.generation;
	s->page_shift = c->attach.page_shift;
	s->bits = c->attach.bits;
	return COMMAND_OK;
}

static u32 detach_space(struct engine *e, const struct command *c)
{
	struct space *s = &e->spaces[c->space];

	if (!s->attached)
		return COMMAND_NOT_FOUND;
	for (unsigned int i = 0; i < QUEUE_ENTRIES; i++)
		if (e->transfers[i].open && e->transfers[i].submission.space == c->space)
			abort_transfer(e, &e->transfers[i]);
	end_records(e, c->space);
	s->attached = false;
	return COMMAND_OK;
}

static u32 set_peer(struct engine *e, u32 node)
{
	if (find_peer(e, node))
		return COMMAND_EXISTS;
	for (unsigned int i = 1; i < 1 + PEERS; i++) {
		struct peer *peer = &e->peers[i];

		if (peer->set)
			continue;
		peer->set = true;
		peer->node = node;
		peer->incarnation = 0;
		return COMMAND_OK;
	}
	return COMMAND_FULL;
}

static u32 clear_peer(struct engine *e, u32 node)
{
	struct peer *peer = find_peer(e, node);

	if (!peer)
		return COMMAND_NOT_FOUND;
	forget_peer(e, peer, STATUS_UNREACHABLE);
	peer->set = false;
	return COMMAND_OK;
}

static u32 end_fault(struct engine *e, const struct command *c)
{
	struct fault *fault = find_fault(e, c->fault);

	if (!fault)
		return COMMAND_NOT_FOUND;
	if (c->operation == COMMAND_RESUME) {
		count(e, REG_RESUMES, 1);
		resume(e, fault);
	} else {
		count(e, REG_REJECTS, 1);
		reject(e, fault, c->reject.status, c->reject.address);
	}
	return COMMAND_OK;
}

static u32 abort_tag(struct engine *e, u64 tag)
{
	u32 status = COMMAND_NOT_FOUND;

	for (unsigned int i = 0; i < QUEUE_ENTRIES; i++)
		if (e->transfers[i].open && e->transfers[i].submission.tag == tag) {
			abort_transfer(e, &e->transfers[i]);
			status = COMMAND_OK;
		}
	return status;
}

static u32 run_command(struct engine *e, const struct command *c)
{
	if (!is_command_allowed(e, c))
		return COMMAND_INVALID;
	switch (c->operation) {
	case COMMAND_SPACE_ATTACH:
		return attach_space(e, c);
	case COMMAND_SPACE_DETACH:
		return detach_space(e, c);
	case COMMAND_INVALIDATE:
		/* This engine keeps no translation after an access. */
		if (!e->spaces[c->space].attached)
			return COMMAND_NOT_FOUND;
		count(e, REG_INVALIDATIONS, 1);
		return COMMAND_OK;
	case COMMAND_PEER_SET:
		return set_peer(e, c->node);
	case COMMAND_PEER_CLEAR:
		return clear_peer(e, c->node);
	case COMMAND_RESUME:
	case COMMAND_REJECT:
		return end_fault(e, c);
	case COMMAND_ABORT:
		return abort_tag(e, c->tag);
	default:
		return COMMAND_OK;
	}
}

void run_command_doorbell(struct engine *e)
{
	struct queue *q = &e->command;
	u32 producer = get32(e, REG_COMMAND_PRODUCER);

	if (!is_producer_allowed(e, q, producer, REG_COMMAND_PRODUCER))
		return;
	q->producer = producer;
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	while (is_ready(e) && q->consumer != q->producer) {
		struct command *entry = get_entry(e, q, q->consumer);
		struct command c;
		u32 status;

		if (!entry)
			return;
		memcpy(&c, entry, sizeof(c));
		status = run_command(e, &c);
		if (!is_ready(e))
			return;
		entry->status = status;
		publish_index(e, INDEX_COMMAND_CONSUMER, ++q->consumer);
		e->due |= 1u << VECTOR_COMMAND;
	}
}

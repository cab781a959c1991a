// SPDX-License-Identifier: GPL-2.0
/* The engine: power on, enable, reset. */
#include <string.h>

#include "engine.h"
#include "link.h"
#include "memory.h"
#include "registers.h"

static void forget_all(struct engine *e)
{
	memset(&e->due, 0, sizeof(*e) - offsetof(struct engine, due));
	TAILQ_INIT(&e->faults);
	TAILQ_INIT(&e->remote_senders);
	TAILQ_INIT(&e->local_senders);
	TAILQ_INIT(&e->uncut);
	for (unsigned int i = 0; i < 1 + PEERS; i++)
		init_peer(&e->peers[i]);
}

void power_on(struct engine *e)
{
	forget_all(e);
	set32(e, REG_MAGIC, MAGIC);
	set32(e, REG_VERSION, VERSION_1_0);
	set64(e, REG_FEATURES, FEATURES);
	set32(e, REG_BLOCK_SIZE, BLOCK_SIZE);
	set32(e, REG_BLOCKS, BLOCKS);
	set32(e, REG_SPACES, SPACES);
	set32(e, REG_PEERS, PEERS);
	set32(e, REG_QUEUE_ENTRIES, QUEUE_ENTRIES);
	set32(e, REG_TRANSFER_MAX, TRANSFER_MAX);
	set32(e, REG_PAGE_SIZES, PAGE_SIZES);
	set32(e, REG_ADDRESS_BITS, ADDRESS_BITS);
	set32(e, REG_PHYSICAL_BITS, PHYSICAL_BITS);
	set32(e, REG_ATOMICS, ATOMICS);
	set32(e, REG_DOORBELL_BASE, DOORBELL_BASE);
	set32(e, REG_COMMAND_TIME, COMMAND_TIME);
	set32(e, REG_TRANSFER_BLOCKS, TRANSFER_BLOCKS);
}

static void reset(struct engine *e)
{
	forget_all(e);
	set32(e, REG_ERROR, ERROR_NONE);
	set64(e, REG_ERROR_DETAIL, 0);
	set32(e, REG_STATUS, ENGINE_DISABLED);
	e->due = 1u << VECTOR_STATUS;
}

static bool is_power_of_two(u32 n)
{
	return n && !(n & (n - 1));
}

static bool is_base_allowed(u64 base, u64 size)
{
	return base % 64 == 0 && base < 1ull << PHYSICAL_BITS &&
	       size <= (1ull << PHYSICAL_BITS) - base;
}

/* Read the registers of a queue; returns the first one that is not allowed, or 0. */
static u32 configure_queue(struct engine *e, struct queue *q, u32 offset, u32 entry_size)
{
	bool allowed;

	q->base = get64(e, offset);
	q->entries = get32(e, offset + 8);
	q->entry_size = entry_size;
	allowed = is_power_of_two(q->entries) && q->entries >= 2 && q->entries <= QUEUE_ENTRIES;
	if (!is_base_allowed(q->base, allowed ? (u64)q->entries * entry_size : entry_size))
		return offset;
	return allowed ? 0 : offset + 8;
}

/* Read the configuration; returns the first register that is not allowed, or 0. */
static u32 configure(struct engine *e)
{
	u32 timeout = get32(e, REG_LINK_TIMEOUT);
	u32 bad;

	e->node = get32(e, REG_NODE);
	e->payload = get32(e, REG_LINK_PAYLOAD);
	e->timeout = timeout * 1000ull;
	e->retries = get32(e, REG_LINK_RETRIES);
	e->incarnation = get64(e, REG_INCARNATION);
	e->index_base = get64(e, REG_INDEX_BASE);
	if (e->node < 1 || e->node > 65535)
		return REG_NODE;
	if (!is_power_of_two(e->payload) || e->payload < 256 || e->payload > PACKET_PAYLOAD)
		return REG_LINK_PAYLOAD;
	if (timeout < 1 || timeout > 10000000)
		return REG_LINK_TIMEOUT;
	if (e->retries < 1 || e->retries > 255)
		return REG_LINK_RETRIES;
	if (!e->incarnation)
		return REG_INCARNATION;
	if (!is_base_allowed(e->index_base, INDEX_SIZE))
		return REG_INDEX_BASE;
	bad = configure_queue(e, &e->command, REG_COMMAND_BASE, sizeof(struct command));
	if (!bad)
		bad = configure_queue(e, &e->submission, REG_SUBMISSION_BASE,
				      sizeof(struct submission));
	if (!bad)
		bad = configure_queue(e, &e->completion, REG_COMPLETION_BASE,
				      sizeof(struct completion));
	if (!bad)
		bad = configure_queue(e, &e->fault, REG_FAULT_BASE, sizeof(struct fault_entry));
	return bad;
}

static void enable(struct engine *e)
{
	u32 bad;
	u8 *index;

	forget_all(e);
	bad = configure(e);
	if (bad) {
		fail(e, ERROR_CONFIGURATION, bad);
		return;
	}
	index = physical(e, e->index_base, INDEX_SIZE);
	if (!index) {
		fail(e, ERROR_MEMORY, e->index_base);
		return;
	}
	memset(index, 0, INDEX_SIZE);
	e->peers[0].set = true;
	e->peers[0].self = true;
	e->peers[0].node = e->node;
	for (u32 counter = REG_TRANSFERS; counter <= REG_INTERRUPTS; counter += 8)
		set64(e, counter, 0);
	set32(e, REG_STATUS, ENGINE_READY);
	e->due = 1u << VECTOR_STATUS;
}

void run_control(struct engine *e)
{
	u32 control = get32(e, REG_CONTROL);
	u32 status = get32(e, REG_STATUS);

	if (control > 1)
		fail(e, ERROR_CONFIGURATION, REG_CONTROL);
	else if (control == 0 && status != ENGINE_DISABLED)
		reset(e);
	else if (control == 1 && status == ENGINE_DISABLED)
		enable(e);
}

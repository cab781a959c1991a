// SPDX-License-Identifier: GPL-2.0
/* The engine behind the interface of the conformance suite. */
#include <stdlib.h>
#include <string.h>

#include "../conformance/adapter.h"
#include "command.h"
#include "engine.h"
#include "fault.h"
#include "link.h"
#include "registers.h"
#include "submission.h"

#define ALIGNMENT 65536 /* of the memory of a node */

/* Do what follows from a call of the adapter. */
static void finish_call(struct engine *e)
{
	if (is_ready(e))
		progress(e);
	raise_vectors(e);
}

static void *adapter_allocate(size_t size)
{
	size_t rounded = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
	void *ram = aligned_alloc(ALIGNMENT, rounded);

	return ram ? memset(ram, 0, rounded) : NULL;
}

static void adapter_release(void *ram, size_t size)
{
	(void)size;
	free(ram);
}

static void *adapter_create(void *ram, size_t size)
{
	struct engine *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	e->ram = ram;
	e->size = size;
	power_on(e);
	return e;
}

static u32 adapter_read32(void *engine, unsigned int offset)
{
	return offset <= REG_SIZE - sizeof(u32) ? get32(engine, offset) : 0;
}

static u64 adapter_read64(void *engine, unsigned int offset)
{
	return offset <= REG_SIZE - sizeof(u64) ? get64(engine, offset) : 0;
}

/* The driver writes the registers from CONTROL to FAULT_CONSUMER; others are RO or reserved. */
static bool is_writable(unsigned int offset, unsigned int width)
{
	return offset >= REG_CONTROL && offset + width <= REG_FAULT_CONSUMER + sizeof(u32);
}

static void adapter_write32(void *engine, unsigned int offset, u32 value)
{
	if (is_writable(offset, sizeof(value)))
		set32(engine, offset, value);
}

static void adapter_write64(void *engine, unsigned int offset, u64 value)
{
	if (is_writable(offset, sizeof(value)))
		set64(engine, offset, value);
}

static void adapter_doorbell(void *engine, unsigned int number, u64 now)
{
	struct engine *e = engine;

	e->now = now;
	if (number == DOORBELL_CONTROL)
		run_control(e);
	else if (!is_ready(e))
		return;
	else if (number == DOORBELL_COMMAND)
		run_command_doorbell(e);
	else if (number == DOORBELL_SUBMISSION)
		run_submission_doorbell(e);
	else if (number == DOORBELL_FAULT)
		run_fault_doorbell(e);
	finish_call(e);
}

static void adapter_receive(void *engine, const void *packet, size_t length, u64 now)
{
	struct engine *e = engine;

	if (!is_ready(e))
		return;
	e->now = now;
	receive_packet(e, packet, length);
	finish_call(e);
}

static size_t adapter_transmit(void *engine, void *packet, size_t size, u64 now)
{
	struct engine *e = engine;
	struct packet p;
	size_t length;

	if (!is_ready(e) || size < sizeof(p))
		return 0;
	e->now = now;
	length = make_packet(e, &p);
	memcpy(packet, &p, length);
	finish_call(e);
	return length;
}

static u64 adapter_advance(void *engine, u64 now)
{
	struct engine *e = engine;
	u64 next;

	if (!is_ready(e))
		return NEVER;
	e->now = now;
	next = run_timers(e);
	finish_call(e);
	return next;
}

static u32 adapter_interrupts(void *engine)
{
	struct engine *e = engine;
	u32 raised = e->raised;

	e->raised = 0;
	return raised;
}

const struct adapter conformance_adapter = {
	.name = "second",
	.allocate = adapter_allocate,
	.release = adapter_release,
	.create = adapter_create,
	.destroy = free,
	.read32 = adapter_read32,
	.read64 = adapter_read64,
	.write32 = adapter_write32,
	.write64 = adapter_write64,
	.doorbell = adapter_doorbell,
	.receive = adapter_receive,
	.transmit = adapter_transmit,
	.advance = adapter_advance,
	.interrupts = adapter_interrupts,
};

/* SPDX-License-Identifier: GPL-2.0 */
/* The functions of an adapter that are the same for every user of the model in its own process. */
#ifndef CONFORMANCE_ADAPTED_H
#define CONFORMANCE_ADAPTED_H

#include <string.h>

#include "../../registers.h"
#include "../engine.h"
#include "adapter.h"

/* The first member of what create returns. */
struct adapted {
	struct engine *engine;
	_Alignas(64) uint8_t registers[EXANEST_REGISTERS_SIZE];
};

static uint32_t adapted_read32(void *engine, unsigned int offset)
{
	uint32_t value;

	memcpy(&value, ((struct adapted *)engine)->registers + offset, sizeof(value));
	return value;
}

static uint64_t adapted_read64(void *engine, unsigned int offset)
{
	uint64_t value;

	memcpy(&value, ((struct adapted *)engine)->registers + offset, sizeof(value));
	return value;
}

static void adapted_write32(void *engine, unsigned int offset, uint32_t value)
{
	memcpy(((struct adapted *)engine)->registers + offset, &value, sizeof(value));
}

static void adapted_write64(void *engine, unsigned int offset, uint64_t value)
{
	memcpy(((struct adapted *)engine)->registers + offset, &value, sizeof(value));
}

static void adapted_doorbell(void *engine, unsigned int number, uint64_t now)
{
	engine_doorbell(((struct adapted *)engine)->engine, number, now);
}

static void adapted_receive(void *engine, const void *packet, size_t length, uint64_t now)
{
	engine_receive(((struct adapted *)engine)->engine, packet, length, now);
}

static uint64_t adapted_advance(void *engine, uint64_t now)
{
	return engine_expire(((struct adapted *)engine)->engine, now);
}

static uint32_t adapted_interrupts(void *engine)
{
	return engine_interrupts(((struct adapted *)engine)->engine);
}

#define ADAPTED_FUNCTIONS                                                                          \
	.read32 = adapted_read32, .read64 = adapted_read64, .write32 = adapted_write32,            \
	.write64 = adapted_write64, .doorbell = adapted_doorbell, .receive = adapted_receive,      \
	.advance = adapted_advance, .interrupts = adapted_interrupts

#endif

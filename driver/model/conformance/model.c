// SPDX-License-Identifier: GPL-2.0
/* The model behind the interface of the conformance suite. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "adapted.h"

struct model {
	struct adapted adapted;
	uint8_t *ram;
	size_t size;
};

static bool in_memory(const struct model *model, uint64_t address, size_t length)
{
	return length <= model->size && address <= model->size - length;
}

static bool memory_read(void *context, uint64_t address, void *bytes, size_t length)
{
	struct model *model = context;

	if (!in_memory(model, address, length))
		return false;
	memcpy(bytes, model->ram + address, length);
	return true;
}

static bool memory_write(void *context, uint64_t address, const void *bytes, size_t length)
{
	struct model *model = context;

	if (!in_memory(model, address, length))
		return false;
	memcpy(model->ram + address, bytes, length);
	return true;
}

static bool memory_compare_swap(void *context, uint64_t address, unsigned int width,
				uint64_t *value, uint64_t desired)
{
	struct model *model = context;
	uint64_t before = 0;

	if (!in_memory(model, address, width) || address % width)
		return false;
	memcpy(&before, model->ram + address, width);
	if (before == *value)
		memcpy(model->ram + address, &desired, width);
	*value = before;
	return true;
}

static void *allocate(size_t size)
{
	void *ram = aligned_alloc(1 << 16, size);

	if (ram)
		memset(ram, 0, size);
	return ram;
}

static void release(void *ram, size_t size)
{
	free(ram);
}

static void *create(void *ram, size_t size)
{
	struct model *model = aligned_alloc(64, (sizeof(*model) + 63) / 64 * 64);
	struct memory memory = {
		.context = model,
		.read = memory_read,
		.write = memory_write,
		.compare_swap = memory_compare_swap,
	};

	if (!model)
		return NULL;
	model->ram = ram;
	model->size = size;
	model->adapted.engine = engine_create(&memory, model->adapted.registers, 0);
	return model;
}

static void destroy(void *engine)
{
	struct model *model = engine;

	engine_destroy(model->adapted.engine);
	free(model);
}

static size_t transmit(void *engine, void *packet, size_t size, uint64_t now)
{
	struct model *model = engine;
	size_t length = 0;
	uint32_t node;

	if (size < ENGINE_PACKET_MAX)
		return 0;
	/* Without a packet, it has handled some of the node's own. */
	do
		length = engine_transmit(model->adapted.engine, packet, &node, now);
	while (!length && engine_busy(model->adapted.engine));
	return length;
}

const struct adapter conformance_adapter = {
	.name = "model",
	.allocate = allocate,
	.release = release,
	.create = create,
	.destroy = destroy,
	.transmit = transmit,
	ADAPTED_FUNCTIONS,
};

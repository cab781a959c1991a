// SPDX-License-Identifier: GPL-2.0
#include "command.h"

#include <endian.h>
#include <string.h>

#include "../registers.h"

#define NODE_MAX 65535u

/* The command in the byte order of the processor. */
struct command {
	uint32_t operation, space;
	uint64_t argument[6];
};

/* The number of arguments of each operation, and whether it names a space. */
static const struct {
	unsigned int arguments;
	bool space;
} shapes[] = {
	[EXANEST_COMMAND_NOP] = { 0, false },         [EXANEST_COMMAND_SPACE_ATTACH] = { 4, true },
	[EXANEST_COMMAND_SPACE_DETACH] = { 0, true }, [EXANEST_COMMAND_INVALIDATE] = { 2, true },
	[EXANEST_COMMAND_PEER_SET] = { 1, false },    [EXANEST_COMMAND_PEER_CLEAR] = { 1, false },
	[EXANEST_COMMAND_RESUME] = { 1, false },      [EXANEST_COMMAND_REJECT] = { 3, false },
	[EXANEST_COMMAND_ABORT] = { 1, false },
};

static bool decode(const struct exanest_engine_command *entry, struct command *command)
{
	unsigned int i;

	command->operation = le32toh(entry->operation);
	command->space = le32toh(entry->space);
	if (command->operation >= sizeof(shapes) / sizeof(shapes[0]) || entry->reserved)
		return false;
	for (i = 0; i < 6; i++) {
		command->argument[i] = le64toh(entry->argument[i]);
		if (i >= shapes[command->operation].arguments && command->argument[i])
			return false;
	}
	return shapes[command->operation].space ? command->space < SPACES : !command->space;
}

static uint32_t attach(struct core *core, const struct command *command)
{
	struct space *space = &core->spaces[command->space];
	uint64_t root = command->argument[0], shape = command->argument[3];
	uint32_t generation = (uint32_t)shape;
	uint8_t page_shift = (uint8_t)(shape >> 32), bits = (uint8_t)(shape >> 40);

	if (shape >> 48 || !generation || !(command->argument[1] | command->argument[2]))
		return EXANEST_COMMAND_INVALID;
	if ((page_shift != 12 && page_shift != 14 && page_shift != 16) || bits <= page_shift ||
	    bits > TRANSLATION_ADDRESS_BITS)
		return EXANEST_COMMAND_INVALID;
	if (root & ((1ull << page_shift) - 1) || root >> TRANSLATION_PHYSICAL_BITS)
		return EXANEST_COMMAND_INVALID;
	if (space->attached)
		return EXANEST_COMMAND_EXISTS;
	*space = (struct space){
		.attached = true,
		.page_shift = page_shift,
		.bits = bits,
		.generation = generation,
		.root = root,
		.key = { command->argument[1], command->argument[2] },
	};
	return EXANEST_COMMAND_OK;
}

static uint32_t detach(struct core *core, const struct command *command, uint64_t now)
{
	struct space *space = &core->spaces[command->space];

	if (!space->attached)
		return EXANEST_COMMAND_NOT_FOUND;
	space->attached = false;
	initiator_detach(&core->initiator, command->space, now);
	target_detach(&core->target, command->space);
	translation_invalidate(&core->translation, space, 0, UINT64_MAX);
	return EXANEST_COMMAND_OK;
}

static uint32_t invalidate(struct core *core, const struct command *command)
{
	uint64_t start = command->argument[0], length = command->argument[1];

	if (!length || length > UINT64_MAX - start)
		return EXANEST_COMMAND_INVALID;
	if (!core->spaces[command->space].attached)
		return EXANEST_COMMAND_NOT_FOUND;
	translation_invalidate(&core->translation, &core->spaces[command->space], start,
			       start + length - 1);
	core->invalidations++;
	return EXANEST_COMMAND_OK;
}

static uint32_t set_peer(struct core *core, uint64_t node)
{
	struct peer *peer;

	if (!node || node > NODE_MAX || node == core->node)
		return EXANEST_COMMAND_INVALID;
	if (peer_find(&core->peers, (uint32_t)node))
		return EXANEST_COMMAND_EXISTS;
	peer = peer_find(&core->peers, 0);
	if (!peer || !core_peer_add(peer, (uint32_t)node))
		return EXANEST_COMMAND_FULL;
	return EXANEST_COMMAND_OK;
}

static uint32_t clear_peer(struct core *core, uint64_t node)
{
	struct peer *peer;

	if (!node || node > NODE_MAX || node == core->node)
		return EXANEST_COMMAND_INVALID;
	peer = peer_find(&core->peers, (uint32_t)node);
	if (!peer)
		return EXANEST_COMMAND_NOT_FOUND;
	core_peer_remove(core, peer);
	return EXANEST_COMMAND_OK;
}

static uint32_t resume(struct core *core, uint64_t fault)
{
	if (!initiator_resume(&core->initiator, fault) && !target_resume(&core->target, fault))
		return EXANEST_COMMAND_NOT_FOUND;
	core->resumes++;
	return EXANEST_COMMAND_OK;
}

static uint32_t reject(struct core *core, uint64_t fault, uint64_t status, uint64_t address,
		       uint64_t now)
{
	if (status < EXANEST_STATUS_FAULT || status > EXANEST_STATUS_FAULT_MEMORY)
		return EXANEST_COMMAND_INVALID;
	if (!initiator_reject(&core->initiator, fault, (uint32_t)status, address, now) &&
	    !target_reject(&core->target, fault, (uint32_t)status, address))
		return EXANEST_COMMAND_NOT_FOUND;
	core->rejects++;
	return EXANEST_COMMAND_OK;
}

uint32_t command_execute(struct core *core, const struct exanest_engine_command *entry,
			 uint64_t now)
{
	struct command command;

	if (!decode(entry, &command))
		return EXANEST_COMMAND_INVALID;
	switch (command.operation) {
	case EXANEST_COMMAND_SPACE_ATTACH:
		return attach(core, &command);
	case EXANEST_COMMAND_SPACE_DETACH:
		return detach(core, &command, now);
	case EXANEST_COMMAND_INVALIDATE:
		return invalidate(core, &command);
	case EXANEST_COMMAND_PEER_SET:
		return set_peer(core, command.argument[0]);
	case EXANEST_COMMAND_PEER_CLEAR:
		return clear_peer(core, command.argument[0]);
	case EXANEST_COMMAND_RESUME:
		return resume(core, command.argument[0]);
	case EXANEST_COMMAND_REJECT:
		return reject(core, command.argument[0], command.argument[1], command.argument[2],
			      now);
	case EXANEST_COMMAND_ABORT:
		return initiator_abort(&core->initiator, command.argument[0], now) ?
			       EXANEST_COMMAND_OK :
			       EXANEST_COMMAND_NOT_FOUND;
	default:
		return EXANEST_COMMAND_OK;
	}
}

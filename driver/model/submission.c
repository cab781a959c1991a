// SPDX-License-Identifier: GPL-2.0
#include "submission.h"

#include <endian.h>
#include <string.h>

#include "../registers.h"
#include "../uapi/exanest.h"

#define NODE_MAX 65535u

static bool in_range(uint64_t address, uint32_t length, unsigned int bits)
{
	return address <= (1ull << bits) - length && length <= 1ull << bits;
}

/* Are the fields 0 that the operation does not use? */
static bool reserved_zero(const struct exanest_engine_submission *entry)
{
	static const struct exanest_engine_submission zeros;
	struct exanest_engine_submission copy = *entry;

	if (entry->reserved[0] || entry->reserved[1])
		return false;
	switch (entry->operation) {
	case EXANEST_ENGINE_NOP:
		copy.tag = 0;
		return !memcmp(&copy, &zeros, sizeof(copy));
	case EXANEST_ENGINE_PUT:
	case EXANEST_ENGINE_GET:
		return !entry->atomic && !entry->operand && !entry->compare;
	case EXANEST_ENGINE_ATOMIC:
		return !entry->local &&
		       (!entry->compare || entry->atomic == EXANEST_ATOMIC_COMPARE_SWAP);
	default:
		return false;
	}
}

static bool lengths_allowed(const struct submission *submission, unsigned int bits)
{
	uint32_t length = submission->length;

	if (submission->operation == EXANEST_ENGINE_ATOMIC)
		return submission->atomic <= EXANEST_ATOMIC_COMPARE_SWAP &&
		       (length == 4 || length == 8) && !(submission->remote % length) &&
		       in_range(submission->remote, length, TRANSLATION_ADDRESS_BITS);
	return length && length <= TRANSFER_MAX && in_range(submission->local, length, bits) &&
	       in_range(submission->remote, length, TRANSLATION_ADDRESS_BITS);
}

uint32_t submission_check(struct core *core, const struct exanest_engine_submission *entry,
			  struct submission *submission, struct peer **peer)
{
	const struct space *space;
	uint32_t node = le32toh(entry->node);

	*submission = (struct submission){
		.operation = entry->operation,
		.atomic = entry->atomic,
		.space = le32toh(entry->space),
		.tag = le64toh(entry->tag),
		.local = le64toh(entry->local),
		.remote = le64toh(entry->remote),
		.length = le32toh(entry->length),
		.remote_space = le32toh(entry->remote_space),
		.generation = le32toh(entry->generation),
		.operand = le64toh(entry->operand),
		.compare = le64toh(entry->compare),
	};
	*peer = NULL;
	if (!reserved_zero(entry))
		return EXANEST_STATUS_INVALID;
	if (submission->operation == EXANEST_ENGINE_NOP)
		return EXANEST_STATUS_OK;
	if (submission->space >= SPACES)
		return EXANEST_STATUS_INVALID;
	space = &core->spaces[submission->space];
	if (!space->attached || !lengths_allowed(submission, space->bits))
		return EXANEST_STATUS_INVALID;
	if (!node || node > NODE_MAX)
		return EXANEST_STATUS_UNREACHABLE;
	*peer = peer_find(&core->peers, node);
	return *peer ? EXANEST_STATUS_OK : EXANEST_STATUS_UNREACHABLE;
}

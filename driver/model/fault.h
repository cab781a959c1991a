/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Faults that blocks have met. A fault is part of its block, so there is room
 * for each, however full the fault queue of the driver is.
 */
#ifndef MODEL_FAULT_H
#define MODEL_FAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

struct fault {
	TAILQ_ENTRY(fault) link; /* unreported, in the order in which they were met */
	uint64_t number;         /* 0: none */
	bool unreported;
	/* What the fault entry says. */
	uint64_t address, block, tag, request;
	uint32_t length, flags, space, generation, node, ahead;
};

struct faults {
	TAILQ_HEAD(fault_list, fault) unreported;
	uint64_t count;
};

/*
 * The block met a fault: the fields from address on are set. where: a number of
 * 31 bits that says which block it is, and can be found in the fault's number.
 */
static inline void fault_begin(struct faults *faults, struct fault *fault, uint32_t where)
{
	fault->number = ++faults->count << 31 | where;
	fault->unreported = true;
	TAILQ_INSERT_TAIL(&faults->unreported, fault, link);
}

static inline void fault_end(struct faults *faults, struct fault *fault)
{
	if (fault->unreported)
		TAILQ_REMOVE(&faults->unreported, fault, link);
	fault->unreported = false;
	fault->number = 0;
}

static inline bool fault_is(const struct fault *fault, uint64_t number)
{
	return number && fault->number == number;
}

/* Where a block ends that is rejected at address: there, if that is of the block and not before the fault. */
static inline uint64_t fault_address(const struct fault *fault, uint64_t address)
{
	return address - fault->address < fault->length ? address : fault->address;
}

static inline uint32_t fault_where(uint64_t number)
{
	return number & INT32_MAX;
}

#endif

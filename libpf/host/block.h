/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A block of a transfer that has a record of its own, because it is on its
 * way or has met a fault:
 *
 *   READY -> MOVING -> DONE
 *              |
 *           FAULTED -> RESOLVING -> READY (retransmit)
 *
 * The faulted block waits for the resolver of the side that owns the page;
 * all others keep moving.
 */
#ifndef PF_BLOCK_H
#define PF_BLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/fault.h"
#include "pf.h"

struct transfer;

enum block_state { BLOCK_READY, BLOCK_MOVING, BLOCK_FAULTED, BLOCK_RESOLVING };

struct block {
	struct block *next;
	struct transfer *transfer;
	enum block_state state;
	uint64_t offset, length;
	enum pf_side side; /* FAULTED, RESOLVING: whose page */
	uint64_t address;  /* and which */
	unsigned retries;
	unsigned supplied; /* times that a pager brought its pages, since it was cut */
	bool on_device;    /* MOVING: by its engine, else by a message */
	uint64_t faulted;  /* when it last met a fault, ns */
};

/* A READY one; NULL without memory, with which the transfer has failed. */
struct block *block_new(struct transfer *transfer, uint64_t offset, uint64_t length);
void block_free(struct block *block);
/* One that is READY, or NULL. */
struct block *block_ready(struct transfer *transfer);
/* Of its first byte, at that side. */
uint64_t block_address(const struct block *block, enum pf_side side);
/* The transfer has failed before it. */
bool block_given_up(const struct transfer *transfer, const struct block *block);
/* Its pages were brought in and are gone again, more than once: waiting for them is the way forward. */
bool block_is_patient(const struct block *block);

/* Progress: it met a fault; kind: what it looks like. The side that owns the page finds out what it is. */
void block_fault(pf_context *context, struct block *block, enum pf_side side, uint64_t address,
		 enum fault_kind kind);
/* Progress: the resolver is done with its fault. */
void block_resolved(pf_context *context, struct block *block, int status, uint64_t address,
		    enum fault_kind kind);

/*
 * The rest of the transfer is not started any more. Faults may be found and
 * resolved in any order, but it is the one in front that is reported: so what
 * is before it goes on.
 */
void transfer_fail(struct transfer *transfer, int status, enum pf_side side, uint64_t address);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Atomic operations that this process executes on its own memory, for itself or for a peer. */
#ifndef PF_MEMORY_ATOMIC_H
#define PF_MEMORY_ATOMIC_H

#include <stdbool.h>
#include <stdint.h>

/* op: enum pf_atomic_op; width: 4 or 8 bytes; address: a multiple of width. */
struct atomic_request {
	uint64_t address;
	uint64_t operand, compare;
	uint8_t op, width;
};

/* Are op, width and alignment permitted? They may come from another process. */
bool atomic_valid(unsigned op, unsigned width, uint64_t address);
/*
 * Any thread: execute it with the processor's atomic instructions. May wait for the
 * page. PF_OK with the value before in *value, or PF_ERR_FAULT with the address there.
 */
int atomic_execute(const struct atomic_request *request, uint64_t *value);

#endif

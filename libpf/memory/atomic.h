/* SPDX-License-Identifier: BSD-3-Clause */
/* Atomic operations on own memory, for the process or for a peer. */
#ifndef PF_MEMORY_ATOMIC_H
#define PF_MEMORY_ATOMIC_H

#include <stdbool.h>
#include <stdint.h>

struct atomic_request {
	uint64_t address; /* multiple of width */
	uint64_t operand; /* value to add, to combine or to store */
	uint64_t compare; /* value expected by PF_ATOMIC_COMPARE_SWAP */
	uint8_t op;       /* enum pf_atomic_op */
	uint8_t width;    /* bytes: 4 or 8 */
};

/* Are op, width and alignment permitted? A peer may have chosen them. */
bool atomic_valid(unsigned op, unsigned width, uint64_t address);
/*
 * Any thread: execute a valid request with the processor's atomic instructions, in the order
 * of __ATOMIC_SEQ_CST. May wait for the page. Returns PF_OK with the value before in *value,
 * or PF_ERR_FAULT with the address in *value.
 */
int atomic_execute(const struct atomic_request *request, uint64_t *value);

#endif

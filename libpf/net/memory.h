/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This process's memory as the protocol core sees it: is it there, put bytes
 * into it, and have what is absent resolved.
 */
#ifndef PF_NET_MEMORY_H
#define PF_NET_MEMORY_H

#include "engine.h"

/* The callbacks of struct net_callbacks; user is the engine. */
int memory_source(void *user, const struct net_wait *wait, uint64_t address, uint32_t length,
		  uint64_t *bad);
int memory_destination(void *user, const struct net_wait *wait, uint64_t address, uint32_t length,
		       uint64_t *bad);
int memory_place(void *user, const struct net_wait *wait, uint64_t address, const void *data,
		 uint32_t length, uint64_t *bad);
int memory_fetch(void *user, const struct net_wait *wait, uint64_t address, void *to,
		 uint32_t length, uint64_t *bad);
bool memory_gather(void *user, const struct iovec *from, unsigned count, void *to);
int memory_atomic(void *user, const struct net_wait *wait, enum pf_atomic_op op, unsigned width,
		  uint64_t operand, uint64_t compare, uint64_t *value, uint64_t *bad);

/* The driver: tell the core what was resolved. Returns how many. */
unsigned memory_tell(struct engine *engine);
/* When nobody resolves any more. */
void memory_forget(struct engine *engine);

#endif

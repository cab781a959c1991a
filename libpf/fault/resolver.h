/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The resolver makes a range of this process's own memory present. It knows
 * nothing of transports; the side that owns a page runs it, on the service
 * thread, because bringing a page in may take long.
 */
#ifndef PF_RESOLVER_H
#define PF_RESOLVER_H

#include <stdbool.h>

#include "pf.h"

/* Nobody asks for more at a time: the longest block. */
#define RESOLVER_MOST (1u << 24)

/*
 * Policy touch: bring in every page of [address, address + length), writable
 * if write. Returns PF_OK, or PF_ERR_FAULT with the first address that cannot
 * be had in *failed.
 */
int resolver_touch(uint64_t address, uint64_t length, bool write, uint64_t *failed);

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/* Granules of a block: section 8 of engine.md. */
#ifndef SECOND_GRANULE_H
#define SECOND_GRANULE_H

#include "state.h"

/* The granules of a range that begins at a multiple of GRANULE. */
u64 granules(u32 offset, u32 length);
/* The first granules of the mask that follow one another, at most `limit` bytes of them. */
u64 next_run(u64 mask, u32 limit, u32 block_length, u32 *offset, u32 *length);
/* Check that granules of a block can be read: as check_memory. */
u32 check_granules(struct engine *e, const struct space *s, u64 address, u32 length, u64 mask,
		   u64 *failed);

#endif

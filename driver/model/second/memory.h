/* SPDX-License-Identifier: GPL-2.0 */
/* Physical memory and spaces: section 6 of engine.md. */
#ifndef SECOND_MEMORY_H
#define SECOND_MEMORY_H

#include "state.h"

/* Accesses return enum status or ACCESS_ABSENT, and where the access failed. */

/* Return the memory at a physical address, or NULL if it is not all memory. */
void *physical(struct engine *e, u64 address, u64 length);
/* Translate a range of at most BLOCK_SIZE bytes, without an access. */
u32 check_memory(struct engine *e, const struct space *s, u64 address, u32 length, bool write,
		 u64 *failed);
u32 read_memory(struct engine *e, const struct space *s, u64 address, void *data, u32 length,
		u64 *failed);
/* Write all the bytes or none. */
u32 write_memory(struct engine *e, const struct space *s, u64 address, const void *data, u32 length,
		 u64 *failed);
/* Execute the atomic operation of a record, and set its value. */
u32 atomic_memory(struct engine *e, const struct space *s, struct record *r, u64 *failed);

#endif

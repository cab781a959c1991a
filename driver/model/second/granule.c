// SPDX-License-Identifier: GPL-2.0
/* Granules of a block. */
#include "granule.h"
#include "memory.h"

/* The first n granules. */
static u64 first_granules(u32 n)
{
	return n >= 64 ? ~0ull : (1ull << n) - 1;
}

/* The granules of a range that begins at a multiple of GRANULE. */
u64 granules(u32 offset, u32 length)
{
	return first_granules((length + GRANULE - 1) / GRANULE) << offset / GRANULE;
}

/* The first granules of the mask that follow one another, at most `limit` bytes of them. */
u64 next_run(u64 mask, u32 limit, u32 block_length, u32 *offset, u32 *length)
{
	u32 first = __builtin_ctzll(mask);
	u32 n = 1;

	while (n < limit / GRANULE && first + n < 64 && mask >> (first + n) & 1)
		n++;
	*offset = first * GRANULE;
	*length = n * GRANULE;
	if (*length > block_length - *offset)
		*length = block_length - *offset;
	return granules(*offset, *length);
}

/* Check that granules of a block can be read. */
u32 check_granules(struct engine *e, const struct space *s, u64 address, u32 length, u64 mask,
		   u64 *failed)
{
	while (mask) {
		u32 run_offset, run_length, status;
		u64 run = next_run(mask, BLOCK_SIZE, length, &run_offset, &run_length);

		status = check_memory(e, s, address + run_offset, run_length, false, failed);
		if (status)
			return status;
		mask &= ~run;
	}
	return STATUS_OK;
}

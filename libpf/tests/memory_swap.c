/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory in swap, and memory of a group whose limit it exceeds. */
#include <errno.h>
#include <unistd.h>

#include "machine.h"
#include "memory.h"

#define SWAP (512 * MIB)
/* The limit of a group; buffers are twice as large. */
#define LIMIT (16 * MIB)

static const char *with_swap(void)
{
	return machine_swap(SWAP);
}

static const char *swap_out(struct memory *memory)
{
	long pages = (long)(memory->size / PAGE), out = 0;
	const char *error;
	int tries;

	/* A page that is in use cannot be swapped out for a moment. */
	for (tries = 0; tries < 200 && out < pages; tries++) {
		if (tries)
			usleep(1000);
		error = memory_advise(memory, MADV_PAGEOUT);
		if (error)
			return error;
		out = memory_pages(memory->map, memory->size, PAGE_SWAPPED);
		if (out > pages * 9 / 10 && tries > 20)
			break;
	}
	errno = 0;
	return out > pages * 9 / 10 ? NULL :
				      memory_error("only %ld of %ld pages are in swap", out, pages);
}

static const char *keep_swapping(struct memory *memory, unsigned turn)
{
	usleep(turn % 100);
	return memory_advise(memory, MADV_PAGEOUT);
}

static const char *with_group(void)
{
	const char *reason = machine_swap(SWAP);

	return reason ? reason : machine_group(LIMIT);
}

static const char *map_in_group(struct memory *memory)
{
	const char *error = machine_enter();

	if (error)
		return error;
	error = memory_map_anonymous(memory, 0);
	if (error)
		machine_leave();
	return error;
}

static const char *see_the_limit(struct memory *memory)
{
	long swapped = memory_pages(memory->map, memory->size, PAGE_SWAPPED);

	errno = 0;
	return swapped * (long)PAGE < (long)(memory->length - LIMIT) / 2 ?
		       memory_error("the limit has no effect: %ld pages are in swap", swapped) :
		       NULL;
}

static void unmap_in_group(struct memory *memory)
{
	munmap(memory->map, memory->size);
	machine_leave();
}

const struct memory_kind memory_swap_kinds[] = {
	{ .name = "swapped out before", .machine = with_swap, .prepare = swap_out },
	{ .name = "swapped out during",
	  .machine = with_swap,
	  .prepare = swap_out,
	  .disturb = keep_swapping },
	{ .name = "memory cgroup of half the size",
	  .only = 2 * LIMIT,
	  .machine = with_group,
	  .map = map_in_group,
	  .prepare = see_the_limit,
	  .unmap = unmap_in_group },
	{ .name = NULL },
};

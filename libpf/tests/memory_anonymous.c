/* SPDX-License-Identifier: BSD-3-Clause */
/* Anonymous memory: never touched, or given back to the kernel. */
#include <errno.h>
#include <unistd.h>

#include "memory.h"

static const char *untouched(struct memory *memory)
{
	const char *error = memory_map_anonymous(memory, 0);
	long present;

	if (error)
		return error;
	present = memory_pages(memory->map, memory->size, PAGE_PRESENT);
	errno = 0;
	return present > 0 ? memory_error("%ld pages are present without a touch", present) : NULL;
}

static const char *drop(struct memory *memory)
{
	size_t i;

	/* Make the pages present. */
	for (i = 0; i < memory->size; i += PAGE)
		memory->map[i] = 1;
	return memory_advise(memory, MADV_DONTNEED);
}

static const char *give_back(struct memory *memory)
{
	return memory_advise(memory, MADV_FREE);
}

/* For some of the pages, which depend on the turn. */
static const char *advise_some(struct memory *memory, unsigned turn, int advice)
{
	size_t pages = memory->size / PAGE, first = turn * 7919ull % pages;
	size_t count = 1 + turn * 104729ull % (pages - first);

	if (madvise(memory->map + first * PAGE, count * PAGE, advice))
		return memory_error("madvise %d", advice);
	return NULL;
}

static const char *keep_dropping(struct memory *memory, unsigned turn)
{
	usleep(turn % 100);
	return advise_some(memory, turn, MADV_DONTNEED);
}

/* Reclaim frees pages that were not written since. */
static const char *keep_giving_back(struct memory *memory, unsigned turn)
{
	const char *error = advise_some(memory, turn, MADV_FREE);

	usleep(turn % 100);
	/* This may fail without swap. */
	if (!error)
		advise_some(memory, turn, MADV_PAGEOUT);
	return error;
}

const struct memory_kind memory_anonymous_kinds[] = {
	{ .name = "present" },
	{ .name = "never touched", .holds = CONTENTS_ZERO, .map = untouched },
	{ .name = "MADV_DONTNEED before", .holds = CONTENTS_ZERO, .prepare = drop },
	{ .name = "MADV_DONTNEED during",
	  .holds = CONTENTS_EITHER,
	  .loses = true,
	  .disturb = keep_dropping },
	{ .name = "MADV_FREE before", .holds = CONTENTS_EITHER, .prepare = give_back },
	{ .name = "MADV_FREE during",
	  .holds = CONTENTS_EITHER,
	  .loses = true,
	  .disturb = keep_giving_back },
	{ .name = NULL },
};

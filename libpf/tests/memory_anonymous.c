/* SPDX-License-Identifier: BSD-3-Clause */
/* Anonymous memory: never touched, and given back to the kernel. */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory.h"

#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT 21
#endif

static const char *advise(struct memory *memory, int advice)
{
	return madvise(memory->map, memory->size, advice) ? memory_error("madvise %d", advice) :
							    NULL;
}

static const char *untouched(struct memory *memory)
{
	const char *error = memory_map_anonymous(memory, 0);
	long present;

	if (error)
		return error;
	present = memory_pages(memory->map, memory->size, PAGE_PRESENT);
	errno = 0;
	return present > 0 ? memory_error("%ld pages are there untouched", present) : NULL;
}

static const char *drop(struct memory *memory)
{
	size_t i;

	/* Written first, otherwise there is nothing to drop. */
	for (i = 0; i < memory->size; i += PAGE)
		memory->map[i] = 1;
	return advise(memory, MADV_DONTNEED);
}

static const char *give_back(struct memory *memory)
{
	return advise(memory, MADV_FREE);
}

/* Some of the pages, not always the same. */
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

/* Reclaim takes those pages that nobody has written since. */
static const char *keep_giving_back(struct memory *memory, unsigned turn)
{
	const char *error = advise_some(memory, turn, MADV_FREE);

	usleep(turn % 100);
	/* Not everywhere without swap. */
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

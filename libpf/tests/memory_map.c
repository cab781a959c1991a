/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory whose mapping forbids access or changes: permissions, moves, holes. */
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "memory.h"

static const char *protect(struct memory *memory, int protection)
{
	return mprotect(memory->map, memory->size, protection) ? memory_error("mprotect") : NULL;
}

static const char *make_read_only(struct memory *memory)
{
	return protect(memory, PROT_READ);
}

static const char *permit_nothing(struct memory *memory)
{
	return protect(memory, PROT_NONE);
}

static const char *permit_all(struct memory *memory)
{
	return protect(memory, PROT_READ | PROT_WRITE);
}

static const char *keep_protecting(struct memory *memory, int protection, unsigned turn)
{
	const char *error = protect(memory, protection);

	usleep(turn % 20);
	if (!error)
		error = permit_all(memory);
	usleep(turn % 100);
	return error;
}

static const char *keep_taking_write(struct memory *memory, unsigned turn)
{
	return keep_protecting(memory, PROT_READ, turn);
}

static const char *keep_taking_all(struct memory *memory, unsigned turn)
{
	return keep_protecting(memory, PROT_NONE, turn);
}

/* ---- moved away and back ---- */

static const char *move(struct memory *memory, void *from, void *to)
{
	return mremap(from, memory->size, memory->size, MREMAP_MAYMOVE | MREMAP_FIXED, to) ==
			       MAP_FAILED ?
		       memory_error("mremap") :
		       NULL;
}

static const char *keep_moving(struct memory *memory, unsigned turn)
{
	const char *error;

	if (!memory->other)
		memory->other = memory_reserve(memory->size);
	error = move(memory, memory->map, memory->other);
	usleep(turn % 20);
	if (!error)
		error = move(memory, memory->other, memory->map);
	usleep(turn % 100);
	return error;
}

/* ---- unmapped: by system calls, because the thread sanitizer reports this intended race ---- */

static const char *unmap(struct memory *memory)
{
	return syscall(SYS_munmap, memory->map, memory->size) ? memory_error("munmap") : NULL;
}

static const char *map_again(struct memory *memory)
{
	return syscall(SYS_mmap, memory->map, memory->size, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == -1 ?
		       memory_error("mmap") :
		       NULL;
}

static const char *keep_unmapping(struct memory *memory, unsigned turn)
{
	const char *error = unmap(memory);

	usleep(turn % 20);
	if (!error)
		error = map_again(memory);
	usleep(turn % 100);
	return error;
}

const struct memory_kind memory_map_kinds[] = {
	{ .name = "read-only",
	  .destination = OUTCOME_FAULTS,
	  .prepare = make_read_only,
	  .settle = permit_all },
	{ .name = "no access",
	  .source = OUTCOME_FAULTS,
	  .destination = OUTCOME_FAULTS,
	  .prepare = permit_nothing,
	  .settle = permit_all },
	{ .name = "mprotect to read-only and back during",
	  .destination = OUTCOME_EITHER,
	  .disturb = keep_taking_write },
	{ .name = "mprotect to none and back during",
	  .source = OUTCOME_EITHER,
	  .destination = OUTCOME_EITHER,
	  .disturb = keep_taking_all },
	{ .name = "mremap away and back during",
	  .source = OUTCOME_EITHER,
	  .destination = OUTCOME_EITHER,
	  .disturb = keep_moving },
	{ .name = "unmapped before",
	  .source = OUTCOME_FAULTS,
	  .destination = OUTCOME_FAULTS,
	  .holds = CONTENTS_EITHER,
	  .loses = true,
	  .prepare = unmap,
	  .settle = map_again },
	{ .name = "munmap and mmap during",
	  .source = OUTCOME_EITHER,
	  .destination = OUTCOME_EITHER,
	  .holds = CONTENTS_EITHER,
	  .loses = true,
	  .disturb = keep_unmapping },
	{ .name = NULL },
};

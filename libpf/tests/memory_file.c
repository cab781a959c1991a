/* SPDX-License-Identifier: BSD-3-Clause */
/* Mapped files, which are unlinked at once. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "memory.h"

static const char *make_file(struct memory *memory)
{
	const char *folder = getenv("TMPDIR");
	char path[200];

	snprintf(path, sizeof(path), "%s/pf-matrix-XXXXXX", folder ? folder : "/tmp");
	memory->fd = mkostemp(path, O_CLOEXEC);
	if (memory->fd < 0)
		return memory_error("%s", path);
	unlink(path);
	/* Blocks are allocated when they are written: the file is sparse. */
	if (ftruncate(memory->fd, (off_t)memory->size))
		return memory_error("ftruncate to %zu", memory->size);
	return NULL;
}

static const char *map_file(struct memory *memory)
{
	const char *error = make_file(memory);

	if (!error) {
		memory->map = mmap(memory_reserve(memory->size), memory->size,
				   PROT_READ | PROT_WRITE, MAP_SHARED, memory->fd, 0);
		if (memory->map != MAP_FAILED)
			return NULL;
		error = memory_error("mmap of a file");
	}
	if (memory->fd >= 0)
		close(memory->fd);
	return error;
}

/* Drop it from the page cache if the file system has storage. */
static const char *make_cold(struct memory *memory)
{
	if (msync(memory->map, memory->size, MS_SYNC) ||
	    madvise(memory->map, memory->size, MADV_DONTNEED))
		return memory_error("msync");
	posix_fadvise(memory->fd, 0, 0, POSIX_FADV_DONTNEED);
	return NULL;
}

static const char *make_private(struct memory *memory)
{
	const char *error = make_cold(memory);

	if (error)
		return error;
	return mmap(memory->map, memory->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED,
		    memory->fd, 0) == MAP_FAILED ?
		       memory_error("mmap of a file") :
		       NULL;
}

/* Writes to the private mapping do not change the file. */
static const char *check_file(struct memory *memory)
{
	struct memory file = *memory;
	const char *error;

	file.map = mmap(NULL, memory->size, PROT_READ, MAP_SHARED, memory->fd, 0);
	if (file.map == MAP_FAILED)
		return memory_error("mmap of a file");
	file.start = file.map;
	file.length = file.size;
	error = memory_check(&file, memory->kind, 0, memory->seed);
	munmap(file.map, file.size);
	return error;
}

/* A page boundary in the middle of the buffer, if there is one. */
static size_t middle(const struct memory *memory)
{
	size_t start = (size_t)(memory->start - memory->map);

	return (start + memory->length / 2) & ~(PAGE - 1);
}

static const char *truncate_to(struct memory *memory, size_t size)
{
	return ftruncate(memory->fd, (off_t)size) ? memory_error("ftruncate") : NULL;
}

static const char *truncate_half(struct memory *memory)
{
	uint8_t *end = memory->map + middle(memory);

	if (end > memory->start)
		memory->bad = (uint64_t)(uintptr_t)end;
	return truncate_to(memory, middle(memory));
}

static const char *make_whole(struct memory *memory)
{
	return truncate_to(memory, memory->size);
}

static const char *keep_truncating(struct memory *memory, unsigned turn)
{
	const char *error = truncate_to(memory, middle(memory));

	usleep(turn % 20);
	if (!error)
		error = make_whole(memory);
	usleep(turn % 100);
	return error;
}

static const char *map_program(struct memory *memory)
{
	size_t size;
	memory->map = (uint8_t *)(uintptr_t)memory_program(&size);
	errno = 0;
	return memory->size > size ? memory_error("the program has only %zu bytes", size) : NULL;
}

static void leave_mapped(struct memory *memory)
{
}

const struct memory_kind memory_file_kinds[] = {
	{ .name = "MAP_SHARED file", .map = map_file, .prepare = make_cold },
	{ .name = "MAP_PRIVATE file",
	  .map = map_file,
	  .prepare = make_private,
	  .settle = check_file },
	{ .name = "sparse file", .holds = CONTENTS_ZERO, .map = map_file },
	{ .name = "file truncated before",
	  .source = OUTCOME_FAULTS,
	  .destination = OUTCOME_FAULTS,
	  .holds = CONTENTS_EITHER,
	  .loses = true,
	  .map = map_file,
	  .prepare = truncate_half,
	  .settle = make_whole },
	{ .name = "file truncated during",
	  .source = OUTCOME_EITHER,
	  .destination = OUTCOME_EITHER,
	  .holds = CONTENTS_EITHER,
	  .loses = true,
	  .map = map_file,
	  .disturb = keep_truncating,
	  .settle = make_whole },
	{ .name = ".rodata and code of the program",
	  .destination = OUTCOME_FAULTS,
	  .holds = CONTENTS_PROGRAM,
	  .most = MIB / 4,
	  .map = map_program,
	  .unmap = leave_mapped },
	{ .name = NULL },
};

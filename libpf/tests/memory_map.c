/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory whose mapping forbids access or changes: permissions, moves, holes; and memory that the kernel
 * copies for the process that has it alone.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
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

/* Of Linux 5.14; the headers of the build may be older. */
#ifndef SYS_memfd_secret
#define SYS_memfd_secret 447
#endif

static const char *has_secret(void)
{
	int fd = (int)syscall(SYS_memfd_secret, O_CLOEXEC);

	if (fd < 0)
		return "no memfd_secret";
	close(fd);
	return NULL;
}

static const char *map_secret(struct memory *memory)
{
	memory->fd = (int)syscall(SYS_memfd_secret, O_CLOEXEC);
	if (memory->fd < 0 || ftruncate(memory->fd, (off_t)memory->size))
		return memory_error("memfd_secret of %zu bytes", memory->size);
	memory->map = mmap(memory_reserve(memory->size), memory->size, PROT_READ | PROT_WRITE,
			   MAP_SHARED, memory->fd, 0);
	return memory->map == MAP_FAILED ? memory_error("mmap of memfd_secret") : NULL;
}

static int open_perf(void)
{
	struct perf_event_attr event = { .type = PERF_TYPE_SOFTWARE,
					 .size = sizeof(event),
					 .config = PERF_COUNT_SW_DUMMY };

	return (int)syscall(SYS_perf_event_open, &event, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static const char *has_driver(void)
{
	int fd = open_perf();

	if (fd < 0)
		return "perf_event_open is not permitted";
	close(fd);
	return NULL;
}

/*
 * The ring of perf, whose pages the kernel maps as a driver maps its own since Linux 6.13: page 0 is the
 * header, zeros follow, 2^n pages. A program cannot write them.
 */
static const char *map_driver(struct memory *memory)
{
	size_t pages = 1;

	while (pages * PAGE < memory->size)
		pages *= 2;
	memory->other = (void *)(uintptr_t)(pages + 1);
	memory->fd = open_perf();
	if (memory->fd < 0)
		return memory_error("perf_event_open");
	memory->map = mmap(NULL, (pages + 1) * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, memory->fd,
			   0);
	if (memory->map == MAP_FAILED)
		return memory_error("mmap of %zu pages of perf", pages + 1);
	memory->map += PAGE;
	return NULL;
}

static void unmap_driver(struct memory *memory)
{
	munmap(memory->map - PAGE, (size_t)(uintptr_t)memory->other * PAGE);
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
	{ .name = "memfd_secret", .machine = has_secret, .map = map_secret },
	{ .name = "memfd_secret never touched",
	  .holds = CONTENTS_ZERO,
	  .machine = has_secret,
	  .map = map_secret },
	{ .name = "a driver's",
	  .source_only = true,
	  .holds = CONTENTS_ZERO,
	  .machine = has_driver,
	  .map = map_driver,
	  .unmap = unmap_driver },
	{ .name = NULL },
};

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Kinds of memory that an engine may be given as a buffer: one table, for the
 * matrix of faults in libpf and in MPI. Knows neither of them.
 *
 * To add a kind: an entry in one of the arrays below, or in an array of its
 * own that memory_kinds[] lists. Functions that return a text return NULL for
 * success, and otherwise what is wrong, valid until the thread calls again.
 */
#ifndef PF_TESTS_MEMORY_H
#define PF_TESTS_MEMORY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PAGE ((size_t)4096)
#define HUGE_PAGE ((size_t)2 << 20)
#define MIB ((size_t)1 << 20)

/* What a transfer from or to it comes to. */
enum outcome {
	OUTCOME_MOVES,
	OUTCOME_FAULTS, /* PF_ERR_FAULT with the address memory.bad */
	OUTCOME_EITHER, /* one or the other, by who is faster; then with any address in the buffer */
};

/* What is in memory before a transfer; each follows from the position and a seed. */
enum contents {
	CONTENTS_PATTERN,
	CONTENTS_ZERO,
	CONTENTS_EITHER,  /* pattern or zero, in each byte */
	CONTENTS_PAGES,   /* the same in all pages */
	CONTENTS_PROGRAM, /* read-only data of the program, the same in all its processes */
};

struct memory;

struct memory_kind {
	const char *name;
	enum outcome source, destination;
	enum contents holds;
	bool source_only; /* what is put there would be lost */
	bool engine;      /* only where there is a memory_pager */
	bool loses;       /* what arrives may get lost again: zeros in its place */
	size_t only;      /* not 0: the one length it makes sense for */
	size_t most;      /* not 0: the longest buffer there is */
	size_t unit;      /* not 0: of its pages */
	/* Prepare the machine, once for all processes: NULL, or why it cannot be had here. */
	const char *(*machine)(void);
	/* Fill in memory->map, size bytes; NULL: private anonymous memory. */
	const char *(*map)(struct memory *memory);
	/* After it was filled with what it holds, which is a pattern if it is written at all. */
	const char *(*prepare)(struct memory *memory);
	/* Again and again on a thread of its own while transfers go on. */
	const char *(*disturb)(struct memory *memory, unsigned turn);
	/* Back to memory that can be read, and written unless destination is OUTCOME_FAULTS for
	 * good; what else is to be checked is checked here. */
	const char *(*settle)(struct memory *memory);
	void (*unmap)(struct memory *memory); /* NULL: munmap */
};

/* The end of an array of kinds has no name. */
extern const struct memory_kind memory_anonymous_kinds[];
extern const struct memory_kind memory_swap_kinds[];
extern const struct memory_kind memory_fork_kinds[];
extern const struct memory_kind memory_file_kinds[];
extern const struct memory_kind memory_huge_kinds[];
extern const struct memory_kind memory_map_kinds[];
extern const struct memory_kind memory_pager_kinds[];

/* All arrays, ended by NULL. The first kind of all is memory without anything special. */
extern const struct memory_kind *const memory_kinds[];

struct memory {
	const struct memory_kind *kind;
	uint8_t *map; /* the mapping, whole pages, and in it */
	size_t size;
	uint8_t *start; /* the buffer */
	size_t length;
	uint64_t seed;
	uint64_t bad; /* OUTCOME_FAULTS: the first address of the buffer that is not there */
	_Atomic uint64_t turns; /* of the disturbance */
	bool source;            /* otherwise a destination */
	/* For the kind's own use. */
	int fd;
	pid_t child;
	void *other;
	_Atomic bool *stop_child;
	/* The disturbance. */
	pthread_t thread;
	bool disturbed;
	_Atomic bool stop;
	const char *failure;
};

/*
 * Of who has an engine with a user-space pager: from start to stop the pages of
 * the mapping that are absent hold what memory->other has. NULL: there is none.
 */
struct memory_pager {
	const char *(*start)(struct memory *memory);
	void (*stop)(struct memory *memory); /* also if start failed, or never was */
};
extern const struct memory_pager *memory_pager;

/* Where a buffer that is offset bytes off a page's start begins in its mapping. */
static inline size_t memory_position(size_t offset)
{
	return PAGE + offset;
}

/* Map, fill and prepare a buffer. After a failure there is nothing to close. */
const char *memory_open(struct memory *memory, const struct memory_kind *kind, bool source,
			size_t length, size_t offset, uint64_t seed);
/* Start the kind's disturbance, if it has one, and wait for its first turn. */
const char *memory_disturb(struct memory *memory);
/* End it, and settle. */
const char *memory_settle(struct memory *memory);
/*
 * Do the buffer's bytes come from the buffer, so far into its mapping, of a
 * memory of that kind filled with seed?
 */
const char *memory_check(const struct memory *memory, const struct memory_kind *from,
			 size_t position, uint64_t seed);
/* Is all around the buffer what it was? */
const char *memory_check_around(const struct memory *memory);
void memory_close(struct memory *memory);

/* For the kinds: addresses that no other mapping is ever given, so that holes stay holes. */
void *memory_place(size_t size);
/* Anonymous private memory there, or an error. */
const char *memory_map_anonymous(struct memory *memory, int flags);
/* Text with errno's. */
const char *memory_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Pages of [start, start + size) in this state; -1 if the kernel does not tell. */
enum page_state { PAGE_PRESENT, PAGE_SWAPPED };
long memory_pages(const void *start, size_t size, enum page_state state);
/* A number of kB from a smaps line of this mapping, e.g. "AnonHugePages:"; -1 if there is none. */
long memory_smaps(const void *start, const char *field);
/* CONTENTS_PROGRAM: where it is, and how much. */
const uint8_t *memory_program(size_t *size);

#endif

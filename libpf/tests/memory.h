/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Kinds of memory that may be a buffer of a transfer, for the matrix of faults in libpf and in MPI.
 * Independent of both.
 *
 * To add a kind, add an entry to one of the arrays below, or a new array to memory_kinds[].
 * Functions that return a text return NULL for success, and otherwise an error, valid until the
 * thread calls such a function again.
 */
#ifndef PF_TESTS_MEMORY_H
#define PF_TESTS_MEMORY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/types.h>

#include "page.h"

#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT 21
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

/* Bytes of a huge page, 2 to 512 MiB. */
#define HUGE_PAGE memory_huge_page()
#define MIB ((size_t)1 << 20)

/* The result of a transfer from or to it. */
enum outcome {
	OUTCOME_MOVES,
	OUTCOME_FAULTS, /* PF_ERR_FAULT with the address memory.bad */
	OUTCOME_EITHER, /* either, depending on timing; the address may be any of the buffer */
};

/* The contents before a transfer, from position and seed. */
enum contents {
	CONTENTS_PATTERN,
	CONTENTS_ZERO,
	CONTENTS_EITHER,  /* pattern or zero, in each byte */
	CONTENTS_PAGES,   /* all pages are equal */
	CONTENTS_PROGRAM, /* read-only data of the program, equal in all its processes */
};

struct memory;

struct memory_kind {
	const char *name;
	enum outcome source, destination;
	enum contents holds;
	bool source_only; /* bytes put there would be lost */
	bool engine;      /* needs a memory_pager */
	bool loses;       /* bytes that arrived may become zeros again */
	size_t only;      /* the only useful length; 0: any */
	size_t most;      /* the longest buffer; 0: no limit */
	bool huge;        /* its pages are huge pages */
	/* Prepare the machine, once for all processes. Returns why that is impossible. */
	const char *(*machine)(void);
	/* Set memory->map to memory->size bytes; NULL: private anonymous memory. */
	const char *(*map)(struct memory *memory);
	/* Called after it was filled with its contents. */
	const char *(*prepare)(struct memory *memory);
	/* Called again and again on a thread of its own during transfers. */
	const char *(*disturb)(struct memory *memory, unsigned turn);
	/* Make it accessible again, except for writing where that is never possible; and check what
	 * else is to be checked. */
	const char *(*settle)(struct memory *memory);
	void (*unmap)(struct memory *memory); /* NULL: munmap */
};

/* An entry without a name ends an array. */
extern const struct memory_kind memory_anonymous_kinds[];
extern const struct memory_kind memory_swap_kinds[];
extern const struct memory_kind memory_fork_kinds[];
extern const struct memory_kind memory_file_kinds[];
extern const struct memory_kind memory_huge_kinds[];
extern const struct memory_kind memory_map_kinds[];
extern const struct memory_kind memory_pager_kinds[];

/* All arrays, ended by NULL. The first kind is ordinary memory. */
extern const struct memory_kind *const memory_kinds[];

struct memory {
	const struct memory_kind *kind;
	uint8_t *map; /* the mapping, whole pages */
	size_t size;
	uint8_t *start; /* the buffer in it */
	size_t length;
	uint64_t seed;
	uint64_t bad;           /* OUTCOME_FAULTS: the first inaccessible address of the buffer */
	_Atomic uint64_t turns; /* number of calls of disturb */
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
 * Set by a program that can register a pager: from start to stop, absent pages of the mapping have
 * the contents of memory->other. NULL: there is none.
 */
struct memory_pager {
	const char *(*start)(struct memory *memory);
	void (*stop)(struct memory *memory); /* also after start failed or was not called */
};
extern const struct memory_pager *memory_pager;

/* The position in its mapping of a buffer with this offset in its first page. */
static inline size_t memory_position(size_t offset)
{
	return PAGE + offset;
}

/* Length of the longest buffers that tests try: more in the long lists of tests/run. */
size_t memory_longest(void);
/* Map, fill and prepare a buffer. A failure leaves nothing to close. */
const char *memory_open(struct memory *memory, const struct memory_kind *kind, bool source,
			size_t length, size_t offset, uint64_t seed);
/* Start the kind's disturbance, if it has one, and wait for its first turn. */
const char *memory_disturb(struct memory *memory);
/* End the disturbance, and settle. */
const char *memory_settle(struct memory *memory);
/* Check that the buffer has the bytes at this position of a memory of that kind with this seed. */
const char *memory_check(const struct memory *memory, const struct memory_kind *from,
			 size_t position, uint64_t seed);
/* Check that the bytes around the buffer are unchanged. */
const char *memory_check_around(const struct memory *memory);
void memory_close(struct memory *memory);

size_t memory_huge_page(void);
/* For the kinds: addresses that no other mapping gets, so that holes remain. */
void *memory_reserve(size_t size);
/* madvise for the whole mapping, or an error. */
const char *memory_advise(struct memory *memory, int advice);
/* Map anonymous private memory. */
const char *memory_map_anonymous(struct memory *memory, int flags);
/* A text, with that of errno. */
const char *memory_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The number of pages of [start, start + size) in this state; -1 if unknown. */
enum page_state { PAGE_PRESENT, PAGE_SWAPPED };
long memory_pages(const void *start, size_t size, enum page_state state);
/* A field of this mapping in smaps, such as "AnonHugePages:", in kB; -1 if there is none. */
long memory_smaps(const void *start, const char *field);
/* CONTENTS_PROGRAM: its address and size. */
const uint8_t *memory_program(size_t *size);

#endif

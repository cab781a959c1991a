/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The mappings of an address space: where they are, and where their pages come from. Linux 6.11
 * tells that of one address (PROCMAP_QUERY). Before, /proc/PID/maps has to be read from its first
 * line, which takes milliseconds if the process has many mappings. So a list of all is kept, at most
 * one is read at a time, and the service thread reads those that take long.
 */
#ifndef PF_MAPPING_H
#define PF_MAPPING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/service.h"

struct mapping {
	uint64_t start, end; /* addresses */
	uint64_t inode;      /* of its file; 0: anonymous memory */
	dev_t device;        /* of its file */
	uint64_t flags;      /* MAPPING_*; others may be set, too */
};
#define MAPPING_READABLE 1
#define MAPPING_WRITABLE 2
#define MAPPING_SHARED 8

/* Was the file opened for writing? */
static inline bool mapping_writes_file(const struct mapping *mapping)
{
	return (mapping->flags & (MAPPING_WRITABLE | MAPPING_SHARED)) ==
	       (MAPPING_WRITABLE | MAPPING_SHARED);
}

struct mappings;

/*
 * lifetime: of a list, ns; 0: none is kept. service, which is borrowed, reads the lists that take long;
 * NULL: the caller does. NULL if /proc/PID/maps cannot be opened, or there is no memory.
 */
struct mappings *mappings_open(pid_t pid, uint64_t lifetime, struct service *service);
void mappings_close(struct mappings *mappings);

/*
 * Any thread: the mapping at the address, or false. It may be as old as the list, and neighbours that
 * differ in permissions only may come as one mapping, with those of the first. What is not in the list
 * comes as anonymous memory, up to the next mapping of the list.
 */
bool mappings_find(struct mappings *mappings, uint64_t address, struct mapping *mapping);
/*
 * Any thread: the mapping at the address in this process, as it is now. path: the path of its file,
 * or empty; NULL: none is asked for. Slow before 6.11.
 */
bool mappings_find_now(struct mappings *mappings, uint64_t address, struct mapping *mapping,
		       char *path, size_t size);

/*
 * Open /proc/PID/NAME. -1 if it cannot be, or if the /proc here is that of another PID namespace,
 * where the number means another process.
 */
int process_file_open(pid_t pid, const char *name);

#endif

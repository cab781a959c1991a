/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The mappings of an address space: ranges, and the origin of their pages. Linux 6.11 tells the
 * mapping of an address (PROCMAP_QUERY). Before, /proc/PID/maps has to be read from its first
 * line, which takes milliseconds if the process has many mappings. For such kernels a list of all
 * mappings is kept, at most one list is read at a time, and the service thread reads lists that
 * take long.
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
	uint64_t flags;      /* MAPPING_*; further bits may be set, too */
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
 * lifetime: of a list, ns; 0: no list is kept. service, which is borrowed, reads the lists that
 * take long; NULL: the caller does. NULL if /proc/PID/maps cannot be opened, or there is no
 * memory.
 */
struct mappings *mappings_open(pid_t pid, uint64_t lifetime, struct service *service);
void mappings_close(struct mappings *mappings);

/*
 * Any thread: find the mapping at the address; false: none. The result may be as old as the list,
 * and neighbours with different permissions may come as one mapping, with the permissions of the
 * first. Memory absent from the list comes as anonymous memory, up to the next mapping of the
 * list.
 */
bool mappings_find(struct mappings *mappings, uint64_t address, struct mapping *mapping);
/*
 * Any thread: find the mapping at the address in the calling process, as of now. path: the path
 * of its file, or empty; NULL: no path is asked for. Slow before 6.11.
 */
bool mappings_find_now(struct mappings *mappings, uint64_t address, struct mapping *mapping,
		       char *path, size_t size);

/*
 * Open /proc/PID/NAME. -1 on an error, or if /proc belongs to another PID namespace, where the
 * number means another process.
 */
int process_file_open(pid_t pid, const char *name);

#endif

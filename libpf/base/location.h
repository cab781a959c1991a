/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where a process runs: the core, the cache and the NUMA node that all of its processors share. It
 * travels in the address of a context, so that processes of one host know how far apart they are.
 *
 * Read from sysfs, not by hwloc: hwloc_topology_load took 58 ms and 3 MiB on a machine with two
 * processors, and each process of a job would call it; to read these files took 44 us there.
 */
#ifndef PF_LOCATION_H
#define PF_LOCATION_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Each is a number plus 1: of the first processor of the core, of the first that shares the cache
 * of the last level, and of the node. 0: not known, or the process may run on several of them.
 */
struct location {
	uint16_t core, cache, node;
};

/* What two processes share, from the nearest on; the order is that of the names. */
enum distance {
	DISTANCE_UNKNOWN,
	DISTANCE_SAME_CORE,
	DISTANCE_SHARED_CACHE,
	DISTANCE_SAME_NODE,
	DISTANCE_OTHER_NODE,
	DISTANCES
};

/* "/sys"; the tests change it. */
extern const char *location_sysfs;

/* Of a thread that may run on the processors of the set, which has size bytes. */
struct location location_of(const cpu_set_t *set, size_t size);
/* Of the calling thread. */
struct location location_here(void);
enum distance location_distance(const struct location *a, const struct location *b);
/* "other_node"; NULL for DISTANCE_UNKNOWN. */
const char *distance_name(enum distance distance);
/* The distance of that name, or DISTANCE_UNKNOWN. */
enum distance distance_parse(const char *name);

/* Is this network interface known to be attached to another node? */
bool location_is_far(const struct location *location, const char *interface);
/*
 * Have the kernel take pages from that node for this part of a file in memory, whichever process
 * touches them first; from another node while that one has none. Without a known node, or
 * permission, the process that touches a page first decides.
 */
void location_prefer(const struct location *location, void *address, size_t length);

#endif

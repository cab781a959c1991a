/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Location of a process: the core, the cache and the NUMA node shared by all of its processors.
 * The location travels in the address of a context: processes of a host know how far apart their
 * peers are.
 *
 * Read from sysfs, not by hwloc: hwloc_topology_load took 58 ms and 3 MiB on a machine with two
 * processors, and each process of a job would call hwloc; reading the files took 44 us there.
 */
#ifndef PF_LOCATION_H
#define PF_LOCATION_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Numbers plus 1: of the first processor of the core, of the first processor at the cache of the
 * last level, and of the node. 0: not known, or the process may run on several.
 */
struct location {
	uint16_t core, cache, node;
};

/* The nearest thing shared by two processes; the order is the order of the names. */
enum distance {
	DISTANCE_UNKNOWN,
	DISTANCE_SAME_CORE,
	DISTANCE_SHARED_CACHE,
	DISTANCE_SAME_NODE,
	DISTANCE_OTHER_NODE,
	DISTANCES
};

/* "/sys"; the tests change the path. */
extern const char *location_sysfs;

/* Return the location of a thread on the processors of the set, which has size bytes. */
struct location location_of(const cpu_set_t *set, size_t size);
/* Return the location of the calling thread. */
struct location location_here(void);
enum distance location_distance(const struct location *a, const struct location *b);
/* "other_node"; NULL for DISTANCE_UNKNOWN. */
const char *distance_name(enum distance distance);
/* Return the distance with the name, or DISTANCE_UNKNOWN. */
enum distance distance_parse(const char *name);

/* Is the network interface known to be attached to another node? */
bool location_is_far(const struct location *location, const char *interface);
/*
 * Have the kernel take pages of the node for a part of a file in memory, whichever process
 * touches the pages first; pages of another node while the node has none. Without a known node,
 * or permission, the process that touches a page first decides.
 */
void location_prefer(const struct location *location, void *address, size_t length);

#endif

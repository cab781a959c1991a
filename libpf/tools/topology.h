/* SPDX-License-Identifier: BSD-3-Clause */
/* Which cores there are and which two are near each other, by hwloc. Numbers are the system's. */
#ifndef TOOLS_TOPOLOGY_H
#define TOOLS_TOPOLOGY_H

#include <stdbool.h>
#include <stddef.h>

#define CORE_ANY -1

/* For the side that measures and for its partner. */
struct cores {
	int first, second; /* CORE_ANY: not bound */
	char text[96];     /* "0 and 1, sharing L3" */
};

/*
 * Two different cores, of those this process may use, that share the nearest
 * cache; the same one twice if there is no other. Returns 0, or -1 after a
 * message on standard error.
 */
int cores_choose(struct cores *cores);
/* "A,B" or "none". The same. */
int cores_parse(struct cores *cores, const char *argument);
/* Do both run on one? */
bool cores_shared(const struct cores *cores);
/* Bind this process; the same. */
int core_bind(int core);

struct topology {
	int packages, cores, processors, numa_nodes;
	int usable; /* processors this process may run on */
	struct {
		char name[8]; /* "L1d", "L3" */
		unsigned long long bytes;
		int count;
	} caches[8];
	int cache_count;
};

/* The same. */
int topology_load(struct topology *result);

#endif

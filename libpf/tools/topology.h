/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processors and caches, by hwloc. Processors have the system's numbers. Functions of type int
 * return 0, or -1 with a message on standard error.
 */
#ifndef TOOLS_TOPOLOGY_H
#define TOOLS_TOPOLOGY_H

#include <stdbool.h>
#include <stddef.h>

#define CORE_ANY -1

struct cores {
	int first;     /* processor of the measuring side; CORE_ANY: not bound */
	int second;    /* processor of the partner; CORE_ANY: not bound */
	char text[96]; /* "0 and 1, sharing L3" */
};

/*
 * Choose two usable processors of different cores with the nearest shared cache. If only one core
 * is usable, choose one processor for both.
 */
int cores_choose(struct cores *cores);
/* Parse "A,B" or "none". */
int cores_parse(struct cores *cores, const char *argument);
/* Return whether both processes are bound to one processor. */
bool cores_shared(const struct cores *cores);
/* Bind this process to the processor; do nothing for CORE_ANY. */
int core_bind(int core);

struct topology {
	int packages, cores, processors, numa_nodes;
	int usable; /* usable processors of this process */
	struct {
		char name[8]; /* "L1d", "L3" */
		unsigned long long bytes;
		int count;
	} caches[8];
	int cache_count;
};

int topology_load(struct topology *result);

#endif

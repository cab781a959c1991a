/* SPDX-License-Identifier: BSD-3-Clause */
#include "location.h"

#include <ctype.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "file.h"

/* Most processors and nodes that Linux has on any architecture. */
#define PROCESSORS_MOST 8192
#define NODES_MOST 1024
#define SET_BYTES CPU_ALLOC_SIZE(PROCESSORS_MOST)
/* Caches of one processor, of all levels and kinds. */
#define CACHES_MOST 8

struct set {
	cpu_set_t bits[PROCESSORS_MOST / CPU_SETSIZE];
};

const char *location_sysfs = "/sys";

static const char *const names[DISTANCES] = {
	[DISTANCE_SAME_CORE] = "same_core",
	[DISTANCE_SHARED_CACHE] = "shared_cache",
	[DISTANCE_SAME_NODE] = "same_node",
	[DISTANCE_OTHER_NODE] = "other_node",
};

/* Read a list of numbers, "0-3,8-11". False: there is none. */
static bool read_list(const char *path, struct set *set)
{
	char text[4096], *at = text;
	unsigned long number, last;

	CPU_ZERO_S(SET_BYTES, set->bits);
	if (!file_read_text(path, text, sizeof(text)))
		return false;
	while (isdigit((unsigned char)*at)) {
		number = last = strtoul(at, &at, 10);
		if (*at == '-')
			last = strtoul(at + 1, &at, 10);
		for (; number <= last && number < PROCESSORS_MOST; number++)
			CPU_SET_S(number, SET_BYTES, set->bits);
		at += *at == ',';
	}
	return CPU_COUNT_S(SET_BYTES, set->bits) > 0;
}

static unsigned first_of(const struct set *set)
{
	unsigned number = 0;

	while (number < PROCESSORS_MOST - 1 && !CPU_ISSET_S(number, SET_BYTES, set->bits))
		number++;
	return number;
}

/*
 * Return the first number of the list in the file plus 1, if all of the processors are in the
 * list; else 0.
 */
static uint16_t shared_by(const struct set *processors, const char *path)
{
	struct set list, both;

	if (!read_list(path, &list))
		return 0;
	CPU_AND_S(SET_BYTES, both.bits, list.bits, processors->bits);
	if (!CPU_EQUAL_S(SET_BYTES, both.bits, processors->bits))
		return 0;
	return (uint16_t)(first_of(&list) + 1);
}

static uint16_t find_node(const struct set *processors)
{
	struct set nodes;
	char path[256];
	unsigned node;

	snprintf(path, sizeof(path), "%s/devices/system/node/has_cpu", location_sysfs);
	if (!read_list(path, &nodes))
		return 0;
	for (node = first_of(&nodes); node < NODES_MOST; node++) {
		if (!CPU_ISSET_S(node, SET_BYTES, nodes.bits))
			continue;
		snprintf(path, sizeof(path), "%s/devices/system/node/node%u/cpulist",
			 location_sysfs, node);
		if (shared_by(processors, path))
			return (uint16_t)(node + 1);
	}
	return 0;
}

/* The last level comes last, and shares with the most processors. */
static uint16_t find_cache(const struct set *processors, unsigned processor)
{
	uint16_t cache = 0;
	char path[256];
	int i;

	for (i = CACHES_MOST - 1; i >= 0 && !cache; i--) {
		snprintf(path, sizeof(path),
			 "%s/devices/system/cpu/cpu%u/cache/index%d/shared_cpu_list",
			 location_sysfs, processor, i);
		cache = shared_by(processors, path);
	}
	return cache;
}

struct location location_of(const cpu_set_t *set, size_t size)
{
	struct set processors = { 0 };
	unsigned processor;
	char path[256];

	memcpy(&processors, set, size < sizeof(processors) ? size : sizeof(processors));
	processor = first_of(&processors);
	snprintf(path, sizeof(path), "%s/devices/system/cpu/cpu%u/topology/thread_siblings_list",
		 location_sysfs, processor);
	return (struct location){ .core = shared_by(&processors, path),
				  .cache = find_cache(&processors, processor),
				  .node = find_node(&processors) };
}

struct location location_here(void)
{
	struct set processors = { 0 };

	if (sched_getaffinity(0, sizeof(processors), processors.bits) < 0)
		return (struct location){ 0 };
	return location_of(processors.bits, sizeof(processors));
}

enum distance location_distance(const struct location *a, const struct location *b)
{
	if (a->core && a->core == b->core)
		return DISTANCE_SAME_CORE;
	if (a->cache && a->cache == b->cache)
		return DISTANCE_SHARED_CACHE;
	if (!a->node || !b->node)
		return DISTANCE_UNKNOWN;
	return a->node == b->node ? DISTANCE_SAME_NODE : DISTANCE_OTHER_NODE;
}

const char *distance_name(enum distance distance)
{
	return names[distance];
}

enum distance distance_parse(const char *name)
{
	unsigned distance;

	for (distance = DISTANCES - 1; distance; distance--) {
		if (!strcmp(names[distance], name))
			break;
	}
	return (enum distance)distance;
}

bool location_is_far(const struct location *location, const char *interface)
{
	char path[256], text[16];
	long node;

	snprintf(path, sizeof(path), "%s/class/net/%s/device/numa_node", location_sysfs, interface);
	if (!location->node || !file_read_text(path, text, sizeof(text)))
		return false;
	/* -1: the system does not know. */
	node = strtol(text, NULL, 10);
	return node >= 0 && node + 1 != location->node;
}

void location_prefer(const struct location *location, void *address, size_t length)
{
	const unsigned word = 8 * sizeof(unsigned long);
	unsigned long nodes[NODES_MOST / (8 * sizeof(unsigned long))] = { 0 };
	unsigned node = location->node - 1u;

	if (node >= NODES_MOST)
		return;
	nodes[node / word] = 1ul << node % word;
	/* Containers may not permit the call: then pages lie as without the call. */
	(void)syscall(SYS_mbind, address, length, MPOL_PREFERRED, nodes, NODES_MOST, 0);
}

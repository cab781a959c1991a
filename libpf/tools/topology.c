/* SPDX-License-Identifier: BSD-3-Clause */
#include "topology.h"

#include <err.h>
#include <hwloc.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int topology_discover(hwloc_topology_t *topology)
{
	if (hwloc_topology_init(topology)) {
		warn("hwloc_topology_init");
		return -1;
	}
	hwloc_topology_set_icache_types_filter(*topology, HWLOC_TYPE_FILTER_KEEP_NONE);
	if (!hwloc_topology_load(*topology))
		return 0;
	warn("hwloc_topology_load");
	hwloc_topology_destroy(*topology);
	return -1;
}

/* Return the usable processors of this process; NULL: no memory. */
static hwloc_bitmap_t topology_usable_processors(hwloc_topology_t topology)
{
	hwloc_bitmap_t set = hwloc_bitmap_alloc();

	if (set && hwloc_get_cpubind(topology, set, HWLOC_CPUBIND_PROCESS))
		hwloc_bitmap_copy(set, hwloc_topology_get_allowed_cpuset(topology));
	if (!set)
		warn("hwloc_bitmap_alloc");
	return set;
}

/* List the first usable processor of each core. Returns the number of processors. */
static int first_processors(hwloc_topology_t topology, hwloc_const_bitmap_t set, hwloc_obj_t *list,
			    int size)
{
	hwloc_obj_t core = NULL;
	int count = 0;

	while (count < size &&
	       (core = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_CORE, core))) {
		hwloc_obj_t processor = NULL;

		while ((processor = hwloc_get_next_obj_inside_cpuset_by_type(
				topology, core->cpuset, HWLOC_OBJ_PU, processor))) {
			if (hwloc_bitmap_isset(set, processor->os_index))
				break;
		}
		if (processor)
			list[count++] = processor;
	}
	return count;
}

/* Return the nearest shared cache of two objects, or else the nearest common object. */
static hwloc_obj_t topology_common(hwloc_topology_t topology, hwloc_obj_t a, hwloc_obj_t b)
{
	hwloc_obj_t object = hwloc_get_common_ancestor_obj(topology, a, b);
	hwloc_obj_t cache = object;

	while (cache && !hwloc_obj_type_is_cache(cache->type))
		cache = cache->parent;
	return cache ? cache : object;
}

/* Rank a shared object: caches by level, then parts of the machine, then the machine. */
static int object_distance(hwloc_obj_t object)
{
	if (hwloc_obj_type_is_cache(object->type))
		return (int)object->attr->cache.depth;
	return object->type == HWLOC_OBJ_MACHINE ? 100 : 50;
}

static void cores_describe(struct cores *cores, hwloc_obj_t object)
{
	char type[32];

	hwloc_obj_type_snprintf(type, sizeof(type), object, 0);
	if (cores->first == cores->second)
		snprintf(cores->text, sizeof(cores->text), "%d, both processes on it",
			 cores->first);
	else if (hwloc_obj_type_is_cache(object->type))
		snprintf(cores->text, sizeof(cores->text), "%d and %d, sharing %s", cores->first,
			 cores->second, type);
	else
		snprintf(cores->text, sizeof(cores->text),
			 "%d and %d, sharing no cache, but one %s", cores->first, cores->second,
			 type);
}

static void cores_nearest(hwloc_topology_t topology, hwloc_obj_t *list, int count,
			  struct cores *cores)
{
	hwloc_obj_t object, best_object = topology_common(topology, list[0], list[0]);
	int best = INT_MAX, i, j;

	cores->first = cores->second = (int)list[0]->os_index;
	for (i = 0; i < count; i++) {
		for (j = i + 1; j < count; j++) {
			object = topology_common(topology, list[i], list[j]);
			if (object_distance(object) >= best)
				continue;
			best = object_distance(object);
			best_object = object;
			cores->first = (int)list[i]->os_index;
			cores->second = (int)list[j]->os_index;
		}
	}
	cores_describe(cores, best_object);
}

int cores_choose(struct cores *cores)
{
	hwloc_topology_t topology;
	hwloc_obj_t *list = NULL;
	hwloc_bitmap_t set;
	int size, count, status = -1;

	if (topology_discover(&topology))
		return -1;
	set = topology_usable_processors(topology);
	size = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PU);
	if (set && size > 0)
		list = calloc((size_t)size, sizeof(hwloc_obj_t));
	if (!list) {
		warnx("no memory for a list of %d processors", size);
		goto out;
	}
	count = first_processors(topology, set, list, size);
	if (count) {
		cores_nearest(topology, list, count, cores);
		status = 0;
	} else {
		warnx("hwloc finds no core that this process may use: name two with --cores");
	}
out:
	free(list);
	hwloc_bitmap_free(set);
	hwloc_topology_destroy(topology);
	return status;
}

/* Parse a number up to the character after; move *text behind the character. -1: malformed. */
static int cores_parse_number(const char **text, char after)
{
	const int max = 1 << 20;
	char *end;
	long number;

	if (**text < '0' || **text > '9')
		return -1;
	number = strtol(*text, &end, 10);
	if (*end != after || number > max)
		return -1;
	*text = end + 1;
	return (int)number;
}

int cores_parse(struct cores *cores, const char *argument)
{
	const char *text = argument;
	hwloc_obj_t first, second;
	hwloc_topology_t topology;
	hwloc_bitmap_t set;
	int status = -1;
	char list[128];

	*cores = (struct cores){ CORE_ANY, CORE_ANY, "not bound" };
	if (!strcmp(text, "none"))
		return 0;
	cores->first = cores_parse_number(&text, ',');
	cores->second = cores->first < 0 ? -1 : cores_parse_number(&text, 0);
	if (cores->second < 0) {
		warnx("--cores %s: must be two core numbers A,B, or none", argument);
		return -1;
	}
	if (topology_discover(&topology))
		return -1;
	set = topology_usable_processors(topology);
	first = hwloc_get_pu_obj_by_os_index(topology, (unsigned)cores->first);
	second = hwloc_get_pu_obj_by_os_index(topology, (unsigned)cores->second);
	if (set && first && second && hwloc_bitmap_isset(set, first->os_index) &&
	    hwloc_bitmap_isset(set, second->os_index)) {
		cores_describe(cores, topology_common(topology, first, second));
		status = 0;
	} else if (set) {
		hwloc_bitmap_list_snprintf(list, sizeof(list), set);
		warnx("--cores %s: this process may only use %s", argument, list);
	}
	hwloc_bitmap_free(set);
	hwloc_topology_destroy(topology);
	return status;
}

bool cores_shared(const struct cores *cores)
{
	return cores->first != CORE_ANY && cores->first == cores->second;
}

int core_bind(int core)
{
	cpu_set_t *set;
	size_t size;
	int status;

	if (core == CORE_ANY)
		return 0;
	set = CPU_ALLOC((size_t)core + 1);
	if (!set) {
		warn("CPU_ALLOC");
		return -1;
	}
	size = CPU_ALLOC_SIZE((size_t)core + 1);
	CPU_ZERO_S(size, set);
	CPU_SET_S((size_t)core, size, set);
	status = sched_setaffinity(0, size, set);
	CPU_FREE(set);
	if (status)
		warn("bind to core %d", core);
	return status;
}

static void add_cache(struct topology *topology, hwloc_obj_t cache, int count)
{
	int i = topology->cache_count;

	if (i == sizeof(topology->caches) / sizeof(topology->caches[0]))
		return;
	hwloc_obj_type_snprintf(topology->caches[i].name, sizeof(topology->caches[i].name), cache,
				0);
	topology->caches[i].bytes = cache->attr->cache.size;
	topology->caches[i].count = count;
	topology->cache_count++;
}

int topology_load(struct topology *result)
{
	hwloc_topology_t topology;
	hwloc_bitmap_t set;
	int depth;

	memset(result, 0, sizeof(*result));
	if (topology_discover(&topology))
		return -1;
	set = topology_usable_processors(topology);
	result->packages = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PACKAGE);
	result->cores = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE);
	result->processors = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PU);
	result->numa_nodes = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE);
	result->usable = set ? hwloc_bitmap_weight(set) : result->processors;
	for (depth = hwloc_topology_get_depth(topology) - 1; depth >= 0; depth--) {
		hwloc_obj_t object = hwloc_get_obj_by_depth(topology, depth, 0);

		if (object && hwloc_obj_type_is_cache(object->type))
			add_cache(result, object, (int)hwloc_get_nbobjs_by_depth(topology, depth));
	}
	hwloc_bitmap_free(set);
	hwloc_topology_destroy(topology);
	return 0;
}

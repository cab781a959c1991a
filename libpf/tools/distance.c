/* SPDX-License-Identifier: BSD-3-Clause */
#include "distance.h"

#include <err.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

/* Largest number of processors of Linux on any architecture. */
#define PROCESSORS_MOST 8192
#define SET_BYTES CPU_ALLOC_SIZE(PROCESSORS_MOST)

static struct location processor_location(int processor)
{
	struct location location = { 0 };
	cpu_set_t *set = CPU_ALLOC(PROCESSORS_MOST);

	if (!set)
		return location;
	CPU_ZERO_S(SET_BYTES, set);
	CPU_SET_S((size_t)processor, SET_BYTES, set);
	location = location_of(set, SET_BYTES);
	CPU_FREE(set);
	return location;
}

/* List the usable processors of this process. Returns the number of processors, or -1. */
static int distance_usable_processors(int list[PROCESSORS_MOST])
{
	cpu_set_t *set = CPU_ALLOC(PROCESSORS_MOST);
	int count = 0, i;

	if (!set || sched_getaffinity(0, SET_BYTES, set)) {
		warn("the processors that this process may use");
		count = -1;
	}
	for (i = 0; i < PROCESSORS_MOST && count >= 0; i++) {
		if (CPU_ISSET_S((size_t)i, SET_BYTES, set))
			list[count++] = i;
	}
	CPU_FREE(set);
	return count;
}

/* The first of each distance. */
static int find_pairs(const int *list, int count, struct location *locations,
		      struct cores pairs[DISTANCES])
{
	char text[32];
	int i, j;

	for (i = 0; i < count; i++) {
		locations[i] = processor_location(list[i]);
		for (j = 0; j < i; j++) {
			struct cores *pair =
				&pairs[location_distance(&locations[j], &locations[i])];

			if (pair->first != CORE_ANY)
				continue;
			snprintf(text, sizeof(text), "%d,%d", list[j], list[i]);
			if (cores_parse(pair, text))
				return -1;
		}
	}
	return 0;
}

int cores_by_distance(struct cores pairs[DISTANCES])
{
	int list[PROCESSORS_MOST], count = distance_usable_processors(list), status, i;
	struct location *locations;

	for (i = 0; i < DISTANCES; i++)
		pairs[i].first = pairs[i].second = CORE_ANY;
	if (count < 0)
		return -1;
	locations = calloc((size_t)count, sizeof(*locations));
	if (!locations) {
		warn("locations of processors");
		return -1;
	}
	status = find_pairs(list, count, locations, pairs);
	free(locations);
	return status;
}

enum distance cores_distance(const struct cores *cores)
{
	struct location first = processor_location(cores->first);
	struct location second = processor_location(cores->second);

	return location_distance(&first, &second);
}

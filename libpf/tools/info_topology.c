/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>

#include "info.h"
#include "json.h"
#include "text.h"

static void topology_print_json(const struct topology *topology)
{
	int i;

	json_number("packages", (uint64_t)topology->packages);
	json_number("cores", (uint64_t)topology->cores);
	json_number("processors", (uint64_t)topology->processors);
	json_number("usable", (uint64_t)topology->usable);
	json_number("numa_nodes", (uint64_t)topology->numa_nodes);
	json_start("caches", '[');
	for (i = 0; i < topology->cache_count; i++) {
		json_start(NULL, '{');
		json_string("name", topology->caches[i].name);
		json_number("bytes", topology->caches[i].bytes);
		json_number("count", (uint64_t)topology->caches[i].count);
		json_end('}');
	}
	json_end(']');
}

static void topology_print_text(const struct topology *topology)
{
	char size[32];
	int i;

	printf("  %-18s %d in %d package%s, %d processor%s, of which %d usable\n", "cores",
	       topology->cores, topology->packages, topology->packages == 1 ? "" : "s",
	       topology->processors, topology->processors == 1 ? "" : "s", topology->usable);
	printf("  %-18s ", "caches");
	for (i = 0; i < topology->cache_count; i++) {
		size_format(topology->caches[i].bytes, size, sizeof(size));
		printf("%s%d x %s %s", i ? ", " : "", topology->caches[i].count,
		       topology->caches[i].name, size);
	}
	printf("\n  %-18s %d\n", "NUMA nodes", topology->numa_nodes);
}

/* Print the number of a place that this process is bound to, as its peers see the place, or -. */
static void print_location(bool json)
{
	const struct location here = location_here();
	const struct {
		const char *name;
		unsigned number; /* plus 1 */
	} rows[] = { { "NUMA node", here.node },
		     { "cache of processor", here.cache },
		     { "core of processor", here.core } };
	char text[96] = "";
	size_t used = 0;
	unsigned i;

	for (i = 0; i < 3; i++) {
		if (rows[i].number)
			used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s %u",
						 used ? ", " : "", rows[i].name,
						 rows[i].number - 1);
	}
	row_print(json, json ? "bound_to" : "bound to", "%s", used ? text : "nothing");
}

static void print_distances(const struct info *info, bool json)
{
	const struct cores *pairs = info->pairs;
	uint64_t share_min[DISTANCES];
	enum distance distance;

	options_read_share_min(&info->origins.in_force, share_min);
	if (json)
		json_start("distances", '[');
	for (distance = DISTANCE_UNKNOWN + 1; distance < DISTANCES; distance++) {
		if (pairs[distance].first == CORE_ANY)
			continue;
		if (json) {
			json_start(NULL, '{');
			json_string("name", distance_name(distance));
			json_string("cores", pairs[distance].text);
			json_number("share_min", share_min[distance]);
			json_end('}');
		} else {
			row_print(json, distance_name(distance), "cores %s; share_min %llu",
				  pairs[distance].text, (unsigned long long)share_min[distance]);
		}
	}
	if (json)
		json_end(']');
}

void info_print_topology(const struct info *info, bool json)
{
	if (json)
		topology_print_json(&info->topology);
	else
		topology_print_text(&info->topology);
	row_print(json, json ? "nearest_cores" : "nearest cores", "%s", info->cores.text);
	print_location(json);
	print_distances(info, json);
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>

#include "info.h"
#include "json.h"
#include "row.h"
#include "size.h"

static void print_json(const struct topology *topology)
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

static void print_text(const struct topology *topology)
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

void info_print_topology(const struct info *info, bool json)
{
	if (json)
		print_json(&info->topology);
	else
		print_text(&info->topology);
	row_print(json, json ? "nearest_cores" : "nearest cores", "%s", info->cores.text);
}

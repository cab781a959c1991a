/* SPDX-License-Identifier: BSD-3-Clause */
#include <inttypes.h>
#include <stdio.h>

#include "info.h"
#include "base/options.h"

static void title(const char *text)
{
	static bool first = true;

	printf("%s%s\n", first ? "" : "\n", text);
	first = false;
}

/* Exact, with a suffix where one fits. */
static void format_value(uint64_t value, char *text, size_t size)
{
	if (value == UINT64_MAX)
		snprintf(text, size, "unlimited");
	else if (value && !(value & ((1 << 30) - 1)))
		snprintf(text, size, "%" PRIu64 "G", value >> 30);
	else if (value && !(value & ((1 << 20) - 1)))
		snprintf(text, size, "%" PRIu64 "M", value >> 20);
	else if (value && !(value & 1023))
		snprintf(text, size, "%" PRIu64 "K", value >> 10);
	else
		snprintf(text, size, "%" PRIu64, value);
}

static void print_capabilities(const struct info *info)
{
	int i;

	title("Capabilities");
	for (i = 0; i < info->capability_count; i++)
		printf("  %-18s %-4s %s\n", info->capabilities[i].name,
		       info->capabilities[i].available ? "yes" : "no",
		       info->capabilities[i].detail);
}

static void print_permissions(const struct info *info)
{
	int i;

	title("Permission to copy from another process");
	for (i = 0; i < info->permission_count; i++)
		printf("  %-18s %s\n", info->permissions[i].name, info->permissions[i].detail);
}

static void print_paths(const struct info *info)
{
	int i;

	title("Paths");
	for (i = 0; i < info->path_count; i++)
		printf("  %-18s %s\n", info->paths[i].what, info->paths[i].how);
}

static void print_option_details(const pf_option_info *info)
{
	char name[64], least[32], most[32], allowed[128];

	option_variable(info->name, name, sizeof(name));
	format_value(info->minimum, least, sizeof(least));
	format_value(info->maximum, most, sizeof(most));
	if (info->names)
		option_allowed(info, allowed, sizeof(allowed));
	else
		snprintf(allowed, sizeof(allowed), "from %s to %s", least, most);
	printf("      %s\n      %s, %s\n", info->help, name, allowed);
}

static void print_options(const struct info *info, bool details)
{
	const struct origins *origins = &info->origins;
	const pf_option_info *option;
	const pf_text_info *text;
	char number[32], variable[64];

	title("Options");
	for (option = pf_option_table(); option->name; option++) {
		uint64_t value = *option_field((pf_options *)&origins->in_force, option);
		const char *name = option_value_name(option, value);

		format_value(value, number, sizeof(number));
		printf("  %-18s %-10s %s\n", option->name, name ? name : number,
		       origin_name(origin_of(origins, option)));
		if (details)
			print_option_details(option);
	}
	for (text = pf_text_table(); text->name; text++) {
		const char *value = *option_text((pf_options *)&origins->in_force, text);

		printf("  %-18s %-10s %s\n", text->name, value ? value : "none",
		       value ? "environment" : "default");
		option_variable(text->name, variable, sizeof(variable));
		if (details)
			printf("      %s\n      %s\n", text->help, variable);
	}
	if (!details)
		printf("  (pf_info --options explains them)\n");
}

static void print_calibration(const struct info *info)
{
	title("Calibration");
	printf("  %-18s %s\n", "file", info->calibration_path);
	printf("  %-18s %s: %s\n", "state", info->calibration, info->calibration_detail);
	printf("  %-18s %s\n", "this machine", info->machine);
}

static void print_topology(const struct info *info)
{
	const struct topology *topology = &info->topology;
	char value[32];
	int i;

	title("Topology");
	printf("  %-18s %d in %d package%s, %d processor%s, of which %d usable\n", "cores",
	       topology->cores, topology->packages, topology->packages == 1 ? "" : "s",
	       topology->processors, topology->processors == 1 ? "" : "s", topology->usable);
	printf("  %-18s ", "caches");
	for (i = 0; i < topology->cache_count; i++) {
		format_value(topology->caches[i].bytes, value, sizeof(value));
		printf("%s%d x %s %s", i ? ", " : "", topology->caches[i].count,
		       topology->caches[i].name, value);
	}
	printf("\n  %-18s %d\n", "NUMA nodes", topology->numa_nodes);
	printf("  %-18s %s\n", "nearest cores", info->cores.text);
}

static void print_live(const struct info *info)
{
	const struct live *live = &info->live;

	title("Live: two processes");
	printf("  %-18s %s\n", "cores", info->cores.text);
	printf("  %-18s %s\n", "path", live->path);
	printf("  %-18s %s\n", "path back", live->partner_path);
	printf("  %-18s a put and a get of %zu bytes, contents verified\n", "moved", live->length);
	printf("  %-18s %" PRIu64 " bytes by this process, %" PRIu64 " from the other end, %" PRIu64
	       " through the ring\n",
	       "", live->single_copy_bytes, live->shared_bytes, live->stream_bytes);
}

void info_print_text(const struct info *info, unsigned sections, bool details)
{
	if (sections & SECTION_CAPABILITIES)
		print_capabilities(info);
	if (sections & SECTION_PERMISSIONS)
		print_permissions(info);
	if (sections & SECTION_PATHS)
		print_paths(info);
	if (sections & SECTION_OPTIONS)
		print_options(info, details);
	if (sections & SECTION_CALIBRATION)
		print_calibration(info);
	if (sections & SECTION_TOPOLOGY)
		print_topology(info);
	if (sections & SECTION_LIVE)
		print_live(info);
}

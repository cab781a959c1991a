/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>

#include "info.h"
#include "json.h"
#include "base/options.h"

static void print_capabilities(const struct info *info)
{
	int i;

	json_start("capabilities", '[');
	for (i = 0; i < info->capability_count; i++) {
		json_start(NULL, '{');
		json_string("name", info->capabilities[i].name);
		json_boolean("available", info->capabilities[i].available);
		json_string("detail", info->capabilities[i].detail);
		json_end('}');
	}
	json_end(']');
}

static void print_permissions(const struct info *info)
{
	int i;

	json_start("permissions", '{');
	for (i = 0; i < info->permission_count; i++)
		json_string(info->permissions[i].name, info->permissions[i].detail);
	json_end('}');
}

static void print_paths(const struct info *info)
{
	int i;

	json_start("paths", '{');
	for (i = 0; i < info->path_count; i++)
		json_string(info->paths[i].what, info->paths[i].how);
	json_end('}');
}

/* By name where it has one. */
static void option_value(const char *key, const pf_option_info *option, const pf_options *options)
{
	uint64_t value = *option_field((pf_options *)options, option);
	const char *name = option_value_name(option, value);

	if (name)
		json_string(key, name);
	else
		json_number(key, value);
}

static void option_names(const pf_option_info *option)
{
	const char *const *name;

	if (!option->names)
		return;
	json_start("names", '[');
	for (name = option->names; *name; name++)
		json_string(NULL, *name);
	json_end(']');
}

static void print_options(const struct info *info)
{
	const struct origins *origins = &info->origins;
	const pf_option_info *option;
	const pf_text_info *text;
	char variable[64];

	json_start("options", '[');
	for (option = pf_option_table(); option->name; option++) {
		option_variable(option->name, variable, sizeof(variable));
		json_start(NULL, '{');
		json_string("name", option->name);
		option_value("value", option, &origins->in_force);
		option_value("default", option, &origins->defaults);
		json_string("origin", origin_name(origin_of(origins, option)));
		json_string("variable", variable);
		json_number("minimum", option->minimum);
		json_number("maximum", option->maximum);
		option_names(option);
		json_number("level", (uint64_t)option->level);
		json_string("help", option->help);
		json_end('}');
	}
	for (text = pf_text_table(); text->name; text++) {
		const char *value = *option_text((pf_options *)&origins->in_force, text);

		option_variable(text->name, variable, sizeof(variable));
		json_start(NULL, '{');
		json_string("name", text->name);
		json_string("value", value ? value : "");
		json_string("default", "");
		json_string("origin", value ? "environment" : "default");
		json_string("variable", variable);
		json_number("level", (uint64_t)text->level);
		json_string("help", text->help);
		json_end('}');
	}
	json_end(']');
}

static void print_calibration(const struct info *info)
{
	json_start("calibration", '{');
	json_string("file", info->calibration_path);
	json_string("state", info->calibration);
	json_string("detail", info->calibration_detail);
	json_string("machine", info->machine);
	json_end('}');
}

static void print_topology(const struct info *info)
{
	const struct topology *topology = &info->topology;
	int i;

	json_start("topology", '{');
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
	json_string("nearest_cores", info->cores.text);
	json_end('}');
}

static void print_live(const struct info *info)
{
	const struct live *live = &info->live;

	json_start("live", '{');
	json_string("cores", info->cores.text);
	json_string("path", live->path);
	json_string("path_back", live->partner_path);
	json_number("bytes_each_way", live->length);
	json_number("single_copy_bytes", live->single_copy_bytes);
	json_number("shared_bytes", live->shared_bytes);
	json_number("stream_bytes", live->stream_bytes);
	json_end('}');
}

void info_print_json(const struct info *info, unsigned sections)
{
	char version[32];

	snprintf(version, sizeof(version), "%d.%d", PF_VERSION_MAJOR, PF_VERSION_MINOR);
	json_start(NULL, '{');
	json_string("version", version);
	if (sections & SECTION_CAPABILITIES)
		print_capabilities(info);
	if (sections & SECTION_PERMISSIONS)
		print_permissions(info);
	if (sections & SECTION_PATHS)
		print_paths(info);
	if (sections & SECTION_OPTIONS)
		print_options(info);
	if (sections & SECTION_CALIBRATION)
		print_calibration(info);
	if (sections & SECTION_TOPOLOGY)
		print_topology(info);
	if (sections & SECTION_LIVE)
		print_live(info);
	json_end('}');
	json_finish();
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include <inttypes.h>
#include <stdio.h>

#include "info.h"
#include "options.h"

/* Is the next thing the first of its object or array? */
static bool first = true;

static void text(const char *string)
{
	const unsigned char *at;

	putchar('"');
	for (at = (const unsigned char *)string; *at; at++) {
		if (*at == '"' || *at == '\\')
			printf("\\%c", *at);
		else if (*at < 0x20)
			printf("\\u%04x", *at);
		else
			putchar(*at);
	}
	putchar('"');
}

static void comma(void)
{
	if (!first)
		putchar(',');
	first = false;
}

/* key may be NULL: an element of an array */
static void start(const char *key, char bracket)
{
	comma();
	if (key) {
		text(key);
		putchar(':');
	}
	putchar(bracket);
	first = true;
}

static void end(char bracket)
{
	putchar(bracket);
	first = false;
}

static void string(const char *key, const char *value)
{
	comma();
	text(key);
	putchar(':');
	text(value);
}

static void number(const char *key, uint64_t value)
{
	comma();
	text(key);
	printf(":%" PRIu64, value);
}

static void boolean(const char *key, bool value)
{
	comma();
	text(key);
	printf(":%s", value ? "true" : "false");
}

static void print_capabilities(const struct info *info)
{
	int i;

	start("capabilities", '[');
	for (i = 0; i < info->capability_count; i++) {
		start(NULL, '{');
		string("name", info->capabilities[i].name);
		boolean("available", info->capabilities[i].available);
		string("detail", info->capabilities[i].detail);
		end('}');
	}
	end(']');
}

static void print_permissions(const struct info *info)
{
	int i;

	start("permissions", '{');
	for (i = 0; i < info->permission_count; i++)
		string(info->permissions[i].name, info->permissions[i].detail);
	end('}');
}

static void print_paths(const struct info *info)
{
	int i;

	start("paths", '{');
	for (i = 0; i < info->path_count; i++)
		string(info->paths[i].what, info->paths[i].how);
	end('}');
}

/* By name where it has one. */
static void option_value(const char *key, const pf_option_info *option, const pf_options *options)
{
	uint64_t value = *option_field((pf_options *)options, option);
	const char *name = option_value_name(option, value);

	if (name)
		string(key, name);
	else
		number(key, value);
}

static void option_names(const pf_option_info *option)
{
	const char *const *name;

	if (!option->names)
		return;
	start("names", '[');
	for (name = option->names; *name; name++) {
		comma();
		text(*name);
	}
	end(']');
}

static void print_options(const struct info *info)
{
	const struct origins *origins = &info->origins;
	const pf_option_info *option;
	char variable[64];

	start("options", '[');
	for (option = pf_option_table(); option->name; option++) {
		option_variable(option, variable, sizeof(variable));
		start(NULL, '{');
		string("name", option->name);
		option_value("value", option, &origins->in_force);
		option_value("default", option, &origins->defaults);
		string("origin", origin_name(origin_of(origins, option)));
		string("variable", variable);
		number("minimum", option->minimum);
		number("maximum", option->maximum);
		option_names(option);
		number("level", (uint64_t)option->level);
		string("help", option->help);
		end('}');
	}
	end(']');
}

static void print_calibration(const struct info *info)
{
	start("calibration", '{');
	string("file", info->calibration_path);
	string("state", info->calibration);
	string("detail", info->calibration_detail);
	string("machine", info->machine);
	end('}');
}

static void print_topology(const struct info *info)
{
	const struct topology *topology = &info->topology;
	int i;

	start("topology", '{');
	number("packages", (uint64_t)topology->packages);
	number("cores", (uint64_t)topology->cores);
	number("processors", (uint64_t)topology->processors);
	number("usable", (uint64_t)topology->usable);
	number("numa_nodes", (uint64_t)topology->numa_nodes);
	start("caches", '[');
	for (i = 0; i < topology->cache_count; i++) {
		start(NULL, '{');
		string("name", topology->caches[i].name);
		number("bytes", topology->caches[i].bytes);
		number("count", (uint64_t)topology->caches[i].count);
		end('}');
	}
	end(']');
	string("nearest_cores", info->cores.text);
	end('}');
}

static void print_live(const struct info *info)
{
	const struct live *live = &info->live;

	start("live", '{');
	string("cores", info->cores.text);
	string("path", live->path);
	string("path_back", live->partner_path);
	number("bytes_each_way", live->length);
	number("single_copy_bytes", live->single_copy_bytes);
	number("shared_bytes", live->shared_bytes);
	number("stream_bytes", live->stream_bytes);
	end('}');
}

void info_print_json(const struct info *info, unsigned sections)
{
	char version[32];

	snprintf(version, sizeof(version), "%d.%d", PF_VERSION_MAJOR, PF_VERSION_MINOR);
	start(NULL, '{');
	string("version", version);
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
	end('}');
	putchar('\n');
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/options.h"
#include "info.h"
#include "json.h"
#include "text.h"

static void print_json_value(const char *key, const pf_option_info *option,
			     const pf_options *options)
{
	uint64_t value = *option_field((pf_options *)options, option);
	const char *name = option_value_name(option, value);

	if (name)
		json_string(key, name);
	else
		json_number(key, value);
}

static void print_json_range(const pf_option_info *option)
{
	const char *const *name;

	json_number("minimum", option->minimum);
	json_number("maximum", option->maximum);
	if (!option->names)
		return;
	json_start("names", '[');
	for (name = option->names; *name; name++)
		json_string(NULL, *name);
	json_end(']');
}

/* Members of options of both kinds. */
static void print_json_common(const char *name, const char *origin, int level, const char *help)
{
	char variable[64];

	option_variable(name, variable, sizeof(variable));
	json_string("name", name);
	json_string("origin", origin);
	json_string("variable", variable);
	json_number("level", (uint64_t)level);
	json_string("help", help);
}

static void options_print_json(const struct origins *origins)
{
	const pf_option_info *option;
	const pf_text_info *text;

	for (option = pf_option_table(); option->name; option++) {
		json_start(NULL, '{');
		print_json_common(option->name, origin_name(origins, option), option->level,
				  option->help);
		print_json_value("value", option, &origins->in_force);
		print_json_value("default", option, &origins->defaults);
		print_json_range(option);
		json_end('}');
	}
	for (text = pf_text_table(); text->name; text++) {
		const char *value = *option_text((pf_options *)&origins->in_force, text);

		json_start(NULL, '{');
		print_json_common(text->name, value ? "environment" : "default", text->level,
				  text->help);
		json_string("value", value ? value : "");
		json_string("default", "");
		json_end('}');
	}
}

static void print_option(const char *name, const char *value, const char *origin)
{
	printf("  %-18s %-10s %s\n", name, value, origin);
}

static void print_details(const char *name, const char *help, const char *allowed)
{
	char variable[64];

	option_variable(name, variable, sizeof(variable));
	printf("      %s\n      %s%s\n", help, variable, allowed);
}

/* Format the permitted values as option_allowed does, but with suffixes. */
static void describe_range(const pf_option_info *option, char *text, size_t size)
{
	char allowed[128], minimum[32], maximum[32];
	const char *from;

	option_allowed(option, allowed, sizeof(allowed));
	from = option->names ? NULL : strstr(allowed, "from ");
	if (!from) {
		snprintf(text, size, ", %s", allowed);
		return;
	}
	size_format(option->minimum, minimum, sizeof(minimum));
	size_format(option->maximum, maximum, sizeof(maximum));
	snprintf(text, size, ", %.*sfrom %s to %s", (int)(from - allowed), allowed, minimum,
		 maximum);
}

static void options_print_text(const struct origins *origins, bool details)
{
	const pf_option_info *option;
	const pf_text_info *text;
	char number[32], allowed[256];

	for (option = pf_option_table(); option->name; option++) {
		uint64_t value = *option_field((pf_options *)&origins->in_force, option);
		const char *name = option_value_name(option, value);

		size_format(value, number, sizeof(number));
		describe_range(option, allowed, sizeof(allowed));
		print_option(option->name, name ? name : number, origin_name(origins, option));
		if (details)
			print_details(option->name, option->help, allowed);
	}
	for (text = pf_text_table(); text->name; text++) {
		const char *value = *option_text((pf_options *)&origins->in_force, text);

		print_option(text->name, value ? value : "none", value ? "environment" : "default");
		if (details)
			print_details(text->name, text->help, "");
	}
	if (!details)
		printf("  (pf_info --options explains them)\n");
}

void info_print_options(const struct info *info, bool json)
{
	if (json)
		options_print_json(&info->origins);
	else
		options_print_text(&info->origins, info->details);
}

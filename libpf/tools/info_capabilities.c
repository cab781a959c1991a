/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <string.h>

#include "info.h"
#include "json.h"

const pf_capability *info_capability(const struct info *info, const char *name)
{
	int i;

	for (i = 0; i < info->capability_count; i++) {
		if (!strcmp(info->capabilities[i].name, name))
			return &info->capabilities[i];
	}
	return NULL;
}

bool info_is_available(const struct info *info, const char *name)
{
	const pf_capability *capability = info_capability(info, name);

	return capability && capability->available;
}

void info_print_capabilities(const struct info *info, bool json)
{
	int i;

	for (i = 0; i < info->capability_count; i++) {
		const pf_capability *capability = &info->capabilities[i];

		if (!json) {
			printf("  %-18s %-4s %s\n", capability->name,
			       capability->available ? "yes" : "no", capability->detail);
			continue;
		}
		json_start(NULL, '{');
		json_string("name", capability->name);
		json_boolean("available", capability->available);
		json_string("detail", capability->detail);
		json_end('}');
	}
}

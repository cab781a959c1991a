/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/options.h"

#include <stdio.h>

#include "net/interface.h"

int pf_options_error(const pf_options *options, char *buffer, size_t size)
{
	int length = options_error(options, buffer, size);
	const pf_text_info *info;
	pf_options environment;
	char name[64];

	if (length)
		return length;
	if (!options)
		pf_options_init(&environment, NULL);
	for (info = pf_text_table(); info->name; info++) {
		const char *list = *option_text(
			options ? (pf_options *)(uintptr_t)options : &environment, info);

		if (!list || interfaces_valid(list))
			continue;
		if (options)
			snprintf(name, sizeof(name), "%s", info->name);
		else
			option_variable(info->name, name, sizeof(name));
		return option_error(name, list,
				    "names, addresses or networks (10.0.0.0/8) separated by commas",
				    buffer, size);
	}
	return 0;
}

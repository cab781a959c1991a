/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/options.h"

#include <stdio.h>

#include "net/interface.h"

int pf_options_error(const pf_options *options, char *buffer, size_t size)
{
	int length = options_error(options, buffer, size);
	const pf_text_info *info;
	pf_options values;
	char name[64], number[32], allowed[64];

	if (length)
		return length;
	options_complete(options, &values);
	for (info = pf_text_table(); info->name; info++) {
		const char *list = *option_text(&values, info);

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
	if (values.port_min <= values.port_max)
		return 0;
	snprintf(number, sizeof(number), "%llu", (unsigned long long)values.port_min);
	snprintf(allowed, sizeof(allowed), "at most %s (%llu)",
		 options ? "port_max" : "LIBPF_PORT_MAX", (unsigned long long)values.port_max);
	return option_error(options ? "port_min" : "LIBPF_PORT_MIN", number, allowed, buffer, size);
}

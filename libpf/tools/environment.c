/* SPDX-License-Identifier: BSD-3-Clause */
#include "environment.h"

#include <err.h>

#include "base/options.h"
#include "net/interface.h"

static int check_interfaces(const struct origins *origins, const pf_text_info *info)
{
	const char *text = *option_text((pf_options *)&origins->in_force, info), *element;
	char name[64];
	int length;

	element = text ? interfaces_malformed(text, &length) : NULL;
	if (!element)
		return 0;
	option_variable(info->name, name, sizeof(name));
	warnx("%s=%s is invalid: \"%.*s\" is neither an interface nor an address nor a network such "
	      "as 10.0.0.0/8",
	      name, text, length, element);
	return -1;
}

int environment_check(const struct origins *origins)
{
	int status = origins_check_environment(origins);
	const pf_text_info *info;

	for (info = pf_text_table(); info->name; info++)
		status |= check_interfaces(origins, info);
	return status;
}

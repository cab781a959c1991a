/* SPDX-License-Identifier: BSD-3-Clause */
#include "environment.h"

#include <err.h>
#include <stdlib.h>

#include "base/options.h"
#include "net/interface.h"

static int check_option(const pf_option_info *info)
{
	char name[64], allowed[128], error[512];
	const char *text;
	uint64_t value;

	option_variable(info->name, name, sizeof(name));
	text = getenv(name);
	if (!text || option_parse(info, text, &value))
		return 0;
	option_allowed(info, allowed, sizeof(allowed));
	option_error(name, text, allowed, error, sizeof(error));
	warnx("%s (%s)", error, info->help);
	return -1;
}

static int check_interfaces(const pf_text_info *info)
{
	const char *text, *element;
	char name[64];
	int length;

	option_variable(info->name, name, sizeof(name));
	text = getenv(name);
	element = text ? interfaces_malformed(text, &length) : NULL;
	if (!element)
		return 0;
	warnx("%s=%s is invalid: \"%.*s\" is neither an interface nor an address nor a network such "
	      "as 10.0.0.0/8",
	      name, text, length, element);
	return -1;
}

static void warn_of_unknown(const char *name, const char *nearest, void *arg)
{
	(void)arg;
	if (nearest)
		warnx("%s is not an option of libpf and has no effect; the nearest is %s", name,
		      nearest);
	else
		warnx("%s is not an option of libpf and has no effect; see pf_info --options",
		      name);
}

int environment_check(void)
{
	const pf_option_info *info;
	const pf_text_info *text;
	int status = 0;

	for (info = pf_option_table(); info->name; info++)
		status |= check_option(info);
	for (text = pf_text_table(); text->name; text++)
		status |= check_interfaces(text);
	options_unknown(warn_of_unknown, NULL);
	return status;
}

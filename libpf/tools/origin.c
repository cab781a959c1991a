/* SPDX-License-Identifier: BSD-3-Clause */
#include "origin.h"

#include <ctype.h>
#include <err.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/calibration.h"
#include "base/options.h"

#define OPTIONS_MOST (sizeof(((struct origins *)0)->calibrated) / sizeof(bool))

void option_variable(const char *option, char *name, size_t size)
{
	size_t i;

	snprintf(name, size, "PF_%s", option);
	for (i = 0; name[i]; i++)
		name[i] = (char)toupper((unsigned char)name[i]);
}

/* With every variable out of the way; they are back afterwards. */
static void load_defaults(pf_options *options)
{
	const pf_option_info *table = pf_option_table(), *info;
	char *values[OPTIONS_MOST] = { NULL };
	pf_options calibrated;
	char name[64];

	for (info = table; info->name && info - table < (int)OPTIONS_MOST; info++) {
		const char *value;

		option_variable(info->name, name, sizeof(name));
		value = getenv(name);
		if (value)
			values[info - table] = strdup(value);
		unsetenv(name);
	}
	setenv("PF_CALIBRATE", "0", 1);
	pf_options_init(options, NULL);
	unsetenv("PF_CALIBRATE");
	pf_options_init(&calibrated, NULL);
	options->calibrate = calibrated.calibrate;
	for (info = table; info->name && info - table < (int)OPTIONS_MOST; info++) {
		option_variable(info->name, name, sizeof(name));
		if (values[info - table])
			setenv(name, values[info - table], 1);
		free(values[info - table]);
	}
}

/* The file names an option if reading it over two different values leaves the same one. */
static void load_calibration(struct origins *origins)
{
	const pf_option_info *table = pf_option_table(), *info;
	pf_options zeros, ones;

	memset(&zeros, 0, sizeof(zeros));
	memset(&ones, 0xff, sizeof(ones));
	errno = 0;
	origins->calibration = calibration_read(&zeros);
	origins->calibration_errno = errno;
	if (origins->calibration != PF_OK || calibration_read(&ones) != PF_OK)
		return;
	for (info = table; info->name && info - table < (int)OPTIONS_MOST; info++)
		origins->calibrated[info - table] = *option_field(&zeros, info) ==
						    *option_field(&ones, info);
}

void origins_load(struct origins *origins)
{
	memset(origins, 0, sizeof(*origins));
	load_defaults(&origins->defaults);
	load_calibration(origins);
	pf_options_init(&origins->in_force, &origins->culprit);
}

enum origin origin_of(const struct origins *origins, const pf_option_info *info)
{
	char name[64];
	const char *text;
	uint64_t value;

	option_variable(info->name, name, sizeof(name));
	text = getenv(name);
	if (text)
		return option_parse(info, text, &value) ? ORIGIN_ENVIRONMENT : ORIGIN_DEFAULT;
	if (origins->in_force.calibrate && origins->calibrated[info - pf_option_table()])
		return ORIGIN_CALIBRATION;
	return ORIGIN_DEFAULT;
}

const char *origin_name(enum origin origin)
{
	switch (origin) {
	case ORIGIN_CALIBRATION:
		return "calibration";
	case ORIGIN_ENVIRONMENT:
		return "environment";
	default:
		return "default";
	}
}

int origins_check_environment(const struct origins *origins)
{
	const pf_option_info *info;
	char name[64], allowed[128];

	for (info = pf_option_table(); origins->culprit && info->name; info++) {
		option_variable(info->name, name, sizeof(name));
		if (!getenv(name) || origin_of(origins, info) == ORIGIN_ENVIRONMENT)
			continue;
		option_allowed(info, allowed, sizeof(allowed));
		warnx("%s=%s is invalid: must be %s (%s)", name, getenv(name), allowed, info->help);
	}
	return origins->culprit ? -1 : 0;
}

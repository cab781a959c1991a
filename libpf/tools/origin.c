/* SPDX-License-Identifier: BSD-3-Clause */
#include "origin.h"

#include <err.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/options.h"

void origins_load(struct origins *origins)
{
	pf_options calibrated;

	memset(origins, 0, sizeof(*origins));
	options_read_defaults(&origins->defaults, NULL);
	calibrated = origins->defaults;
	errno = 0;
	origins->calibration = options_read_calibration(&calibrated, NULL);
	origins->calibration_errno = errno;
	options_load(&origins->in_force, origins->origin, &origins->culprit);
}

enum option_origin origin_of(const struct origins *origins, const pf_option_info *info)
{
	return origins->origin[info - pf_option_table()];
}

const char *origin_name(enum option_origin origin)
{
	switch (origin) {
	case OPTION_CALIBRATION:
		return "calibration";
	case OPTION_ENVIRONMENT:
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
		if (!getenv(name) || origin_of(origins, info) == OPTION_ENVIRONMENT)
			continue;
		option_allowed(info, allowed, sizeof(allowed));
		warnx("%s=%s is invalid: must be %s (%s)", name, getenv(name), allowed, info->help);
	}
	return origins->culprit ? -1 : 0;
}

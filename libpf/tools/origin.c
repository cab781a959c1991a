/* SPDX-License-Identifier: BSD-3-Clause */
#include "origin.h"

#include <errno.h>
#include <string.h>

void origins_load(struct origins *origins)
{
	pf_options calibrated;

	memset(origins, 0, sizeof(*origins));
	options_read_defaults(&origins->defaults, NULL);
	calibrated = origins->defaults;
	errno = 0;
	origins->calibration = options_read_calibration(&calibrated, NULL);
	origins->calibration_errno = errno;
	options_load(&origins->in_force, origins->origin, NULL);
}

const char *origin_name(const struct origins *origins, const pf_option_info *info)
{
	switch (origins->origin[info - pf_option_table()]) {
	case OPTION_CALIBRATION:
		return "calibration";
	case OPTION_ENVIRONMENT:
		return "environment";
	default:
		return "default";
	}
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the value in force of each option came from. */
#ifndef TOOLS_ORIGIN_H
#define TOOLS_ORIGIN_H

#include "base/options.h"

struct origins {
	pf_options defaults;
	pf_options in_force;
	int calibration;                        /* result of options_read_calibration */
	int calibration_errno;                  /* when the result is PF_ERR_SYSTEM */
	enum option_origin origin[OPTIONS_MAX]; /* indexed as pf_option_table */
};

void origins_load(struct origins *origins);
/* Return "default", "calibration" or "environment". */
const char *origin_name(const struct origins *origins, const pf_option_info *info);

#endif

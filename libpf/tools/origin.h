/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the value of each option in force came from. */
#ifndef TOOLS_ORIGIN_H
#define TOOLS_ORIGIN_H

#include "base/options.h"

struct origins {
	pf_options defaults;
	pf_options in_force;
	int calibration;               /* result of options_read_calibration */
	int calibration_errno;         /* if that is PF_ERR_SYSTEM */
	enum option_origin origin[OPTIONS_MAX]; /* by place in pf_option_table */
	const pf_option_info *culprit; /* of an environment variable in error, or NULL */
};

void origins_load(struct origins *origins);
enum option_origin origin_of(const struct origins *origins, const pf_option_info *info);
/* "default", "calibration", "environment" */
const char *origin_name(enum option_origin origin);
/* Name each PF_* variable that libpf does not take on standard error; -1 if there is one. */
int origins_check_environment(const struct origins *origins);

#endif

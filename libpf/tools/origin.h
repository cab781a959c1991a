/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the value of each option in force came from. */
#ifndef TOOLS_ORIGIN_H
#define TOOLS_ORIGIN_H

#include <stdbool.h>
#include <stddef.h>

#include "pf.h"

enum origin { ORIGIN_DEFAULT, ORIGIN_CALIBRATION, ORIGIN_ENVIRONMENT };

struct origins {
	pf_options defaults;
	pf_options in_force;
	int calibration;               /* calibration_read's result */
	int calibration_errno;         /* if that is PF_ERR_SYSTEM */
	bool calibrated[32];           /* by place in pf_option_table: the file names it */
	const pf_option_info *culprit; /* of an environment variable in error, or NULL */
};

void origins_load(struct origins *origins);
enum origin origin_of(const struct origins *origins, const pf_option_info *info);
/* "default", "calibration", "environment" */
const char *origin_name(enum origin origin);
/* Name each PF_* variable that libpf does not take on standard error; -1 if there is one. */
int origins_check_environment(const struct origins *origins);
/* "PF_EAGER_LIMIT" */
void option_variable(const char *option, char *name, size_t size);

#endif

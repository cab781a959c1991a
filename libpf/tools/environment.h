/* SPDX-License-Identifier: BSD-3-Clause */
/* The PF_* environment variables, as the user of a tool set them. */
#ifndef TOOLS_ENVIRONMENT_H
#define TOOLS_ENVIRONMENT_H

#include "origin.h"

/* Report each invalid variable on standard error. Returns -1 if there is one, else 0. */
int environment_check(const struct origins *origins);

#endif

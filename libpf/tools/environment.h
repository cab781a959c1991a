/* SPDX-License-Identifier: BSD-3-Clause */
/* The LIBPF_* environment variables, as the user of a tool set them. */
#ifndef TOOLS_ENVIRONMENT_H
#define TOOLS_ENVIRONMENT_H

/*
 * Report each invalid or unknown variable on standard error. Returns -1 if a variable is invalid,
 * else 0.
 */
int environment_check(void);

#endif

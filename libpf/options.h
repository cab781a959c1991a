/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PF_OPTIONS_H
#define PF_OPTIONS_H

#include <stdbool.h>

#include "pf.h"

uint64_t *option_field(pf_options *options, const pf_option_info *info);
bool option_valid(const pf_option_info *info, uint64_t value);
/* A number with an optional suffix K, M or G (powers of 1024); false if it is anything else. */
bool option_parse(const char *text, uint64_t *value);

#endif

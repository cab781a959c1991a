/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PF_OPTIONS_H
#define PF_OPTIONS_H

#include <stdbool.h>

#include "pf.h"

uint64_t *option_field(pf_options *options, const pf_option_info *info);
const char **option_text(pf_options *options, const pf_text_info *info);
bool option_valid(const pf_option_info *info, uint64_t value);
/* A number with an optional suffix K, M or G (powers of 1024); false if it is anything else. */
bool number_parse(const char *text, uint64_t *value);
/* The name of a value, or a number in range. False if it is neither; *value stays as it is then. */
bool option_parse(const pf_option_info *info, const char *text, uint64_t *value);
/* NULL for an option whose values have no names. */
const char *option_value_name(const pf_option_info *info, uint64_t value);
/* "from 0 to 7", or "red, green or blue" */
void option_allowed(const pf_option_info *info, char *buffer, size_t size);

#endif

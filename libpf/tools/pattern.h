/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contents that reveal a wrong, lost or misplaced byte. A shorter pattern is a prefix of a longer
 * one with the same seed.
 */
#ifndef TOOLS_PATTERN_H
#define TOOLS_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void pattern_fill(void *buffer, size_t length, uint64_t seed);
bool pattern_matches(const void *buffer, size_t length, uint64_t seed);

#endif

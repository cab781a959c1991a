/* SPDX-License-Identifier: BSD-3-Clause */
/* Contents for --validate: bytes that depend on their place and on a seed. */
#ifndef BENCHMARK_PATTERN_H
#define BENCHMARK_PATTERN_H

#include <stddef.h>
#include <stdint.h>

/* Mixes a value into a seed; equal inputs give equal seeds on every rank. */
uint64_t pattern_seed(uint64_t seed, uint64_t value);

void pattern_fill(void *buffer, size_t length, uint64_t seed);

/* Offset of the first byte that pattern_fill would not have written; length if there is none. */
size_t pattern_check(const void *buffer, size_t length, uint64_t seed);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PF_NUMBER_H
#define PF_NUMBER_H

#include <stdint.h>

static inline uint64_t number_min(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t number_max(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PF_TESTS_PATIENCE_H
#define PF_TESTS_PATIENCE_H

#include <stdlib.h>

/* How many times slower than usual this machine may be, for example when it is emulated. */
static inline unsigned patience(void)
{
	const char *factor = getenv("EXANEST_TEST_PATIENCE");
	unsigned value = factor ? (unsigned)strtoul(factor, NULL, 10) : 1;

	return value ? value : 1;
}

#endif

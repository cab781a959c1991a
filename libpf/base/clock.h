/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PF_CLOCK_H
#define PF_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Time of the clock, ns; CLOCK_MONOTONIC for durations. */
static inline uint64_t clock_nanoseconds(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

#endif

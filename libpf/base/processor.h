/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PF_PROCESSOR_H
#define PF_PROCESSOR_H

#include <stdbool.h>

/*
 * Whether all cores of a socket share the cache of the last level, as those of Intel's processors for
 * servers do: a line goes from one core to another through it, in about half the time that memory takes. On
 * others, as AMD's, groups of a few cores have a cache each, and lines take as long as those of memory
 * from one group to another. Virtual machines often show one cache although there are several, so
 * what the kernel says of caches does not tell.
 */
static inline bool processor_shares_cache(void)
{
#if defined(__x86_64__) || defined(__i386__)
	return __builtin_cpu_is("intel");
#else
	return false;
#endif
}

#endif

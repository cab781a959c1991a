/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bytes invisible to memcheck, the tool of valgrind: written here by another process or the
 * kernel.
 */
#ifndef PF_MEMCHECK_H
#define PF_MEMCHECK_H

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <stddef.h>

#ifdef HAVE_VALGRIND_MEMCHECK_H
#include <valgrind/memcheck.h>
#else
#define VALGRIND_MAKE_MEM_DEFINED(address, length) ((void)(address), (void)(length), 0)
#define VALGRIND_CHECK_MEM_IS_DEFINED(address, length) ((void)(address), (void)(length), 0)
#define RUNNING_ON_VALGRIND 0
#endif

/* Mark the bytes valid. A few instructions where valgrind does not run. */
static inline void memcheck_defined(const void *memory, size_t length)
{
	(void)VALGRIND_MAKE_MEM_DEFINED(memory, length);
}

#endif

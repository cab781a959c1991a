/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stand-in for the header of this name that some packages of Open MPI 5 lack.
 * See ompi-btl-exanest/compat/README.md.
 */
#ifndef EXANEST_COMPAT_THREADS_PTHREADS_THREADS_H
#define EXANEST_COMPAT_THREADS_PTHREADS_THREADS_H

#include <pthread.h>

#include "opal/mca/threads/threads.h"

/* What yields the processor: chosen by the library at its start. */
OPAL_DECLSPEC extern void (*opal_threads_pthreads_yield_fn)(void);

static inline void opal_thread_yield(void)
{
	opal_threads_pthreads_yield_fn();
}

#endif

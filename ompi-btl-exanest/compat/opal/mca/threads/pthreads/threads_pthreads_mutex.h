/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stand-in for the header of this name that some packages of Open MPI 5 lack: a lock or condition
 * of opal/mca/threads/mutex.h is one of POSIX. See ompi-btl-exanest/compat/README.md.
 */
#ifndef EXANEST_COMPAT_THREADS_PTHREADS_MUTEX_H
#define EXANEST_COMPAT_THREADS_PTHREADS_MUTEX_H

#include "opal_config.h"

#if OPAL_ENABLE_DEBUG
#error "this Open MPI was built for debugging: its own header is needed"
#endif

#include <pthread.h>
#include <stdbool.h>

/* mutex.h gets these from the header that is replaced. */
#include "opal/class/opal_object.h"
#include "opal/constants.h"

typedef pthread_mutex_t opal_thread_internal_mutex_t;
typedef pthread_cond_t opal_thread_internal_cond_t;

#define OPAL_THREAD_INTERNAL_MUTEX_INITIALIZER PTHREAD_MUTEX_INITIALIZER
#define OPAL_THREAD_INTERNAL_COND_INITIALIZER PTHREAD_COND_INITIALIZER
#ifdef PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP
#define OPAL_THREAD_INTERNAL_RECURSIVE_MUTEX_INITIALIZER PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP
#endif

static inline void opal_thread_internal_mutex_lock(opal_thread_internal_mutex_t *mutex)
{
	pthread_mutex_lock(mutex);
}

static inline void opal_thread_internal_mutex_unlock(opal_thread_internal_mutex_t *mutex)
{
	pthread_mutex_unlock(mutex);
}

/* Return 0 if the mutex was free, else 1. */
static inline int opal_thread_internal_mutex_trylock(opal_thread_internal_mutex_t *mutex)
{
	return pthread_mutex_trylock(mutex) != 0;
}

static inline void opal_thread_internal_cond_signal(opal_thread_internal_cond_t *condition)
{
	pthread_cond_signal(condition);
}

#endif

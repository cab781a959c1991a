/* SPDX-License-Identifier: BSD-3-Clause */
#include "life.h"

#include <assert.h>
#include <pthread.h>
#include <stddef.h>

#include "base/page.h"

_Atomic uint32_t *life_word(void *page)
{
	return (_Atomic uint32_t *)((uint8_t *)page + page_size() - LIFE_BYTES);
}

#if defined(__GLIBC__) && __SIZEOF_POINTER__ == 8
static_assert(offsetof(pthread_mutex_t, __data.__lock) == 0, "the word is the lock");
static_assert(offsetof(pthread_mutex_t, __data.__owner) >= LIFE_BYTES, "no more is shared");

void life_begin(void *page)
{
	pthread_mutex_t *mutex = (pthread_mutex_t *)(void *)life_word(page);
	pthread_mutexattr_t attributes;

	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
	pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(mutex, &attributes);
	pthread_mutexattr_destroy(&attributes);
	/* Never unlocked: the mark comes with the end of the thread. */
	pthread_mutex_lock(mutex);
}
#else
/* The layout of a mutex is not known: the word stays 0. */
void life_begin(void *page)
{
	(void)page;
}
#endif

/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#ifdef PF_ASSERTIONS

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

_Thread_local struct check_roles check_roles;

void check_failed(const char *file, int line, const char *function, const char *what)
{
	fprintf(stderr, "%s:%d: %s: assertion failed: %s\n", file, line, function, what);
	fflush(stderr);
	abort();
}

#ifdef __GLIBC__
/* A system call only where the answer may be no: a child of fork remembers the thread of its parent. */
static bool is_this_thread(pid_t owner)
{
	static _Thread_local pid_t thread;

	if (!thread || owner != thread)
		thread = gettid();
	return owner == thread;
}
#endif

/*
 * glibc notes the thread that owns a mutex, whatever its type. With other libraries the owner is
 * unknown: true.
 */
bool check_held(const pthread_mutex_t *lock)
{
#ifdef __GLIBC__
	return is_this_thread(lock->__data.__owner);
#else
	(void)lock;
	return true;
#endif
}

bool check_held_writing(const pthread_rwlock_t *lock)
{
#ifdef __GLIBC__
	return is_this_thread(lock->__data.__cur_writer);
#else
	(void)lock;
	return true;
#endif
}

bool check_held_reading(const pthread_rwlock_t *lock)
{
	pthread_rwlock_t *held = (pthread_rwlock_t *)(uintptr_t)lock;

	if (pthread_rwlock_trywrlock(held))
		return true;
	pthread_rwlock_unlock(held);
	return false;
}

#endif

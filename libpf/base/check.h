/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Assertions on states, locks and threads: the statements of comments, checked in test builds.
 * configure compiles assertions with --enable-assertions and with sanitizers, and nothing of
 * assertions in a release. A failed assertion prints its place and calls abort(3).
 *
 * A thread has roles: the service thread, or inside progress. The caller of pf_open and of
 * pf_close has both, because no other thread of libpf runs then. Roles nest: a callback of one
 * context may open, poll or close another context.
 */
#ifndef PF_CHECK_H
#define PF_CHECK_H

#include <stddef.h>

#ifdef PF_ASSERTIONS

#include <pthread.h>
#include <stdbool.h>

/* Roles of the calling thread; NULL: none. */
struct check_roles {
	const void *progress; /* the context of the progress around the thread */
	const void *service;  /* the service of which the thread is the service thread */
};
extern _Thread_local struct check_roles check_roles;

__attribute__((noreturn)) void check_failed(const char *file, int line, const char *function,
					    const char *what);
/* Does the calling thread hold the lock? */
bool check_held(const pthread_mutex_t *lock);
/* Does the calling thread hold the lock for writing? */
bool check_held_writing(const pthread_rwlock_t *lock);
/* Does any thread hold the lock, for reading or writing? The readers of a lock are not noted. */
bool check_held_reading(const pthread_rwlock_t *lock);

#define assert_that(condition)                                                                     \
	((condition) ? (void)0 : check_failed(__FILE__, __LINE__, __func__, #condition))
/* Record for a later assertion what a release does not need. */
#define check_record(field, value) ((void)((field) = (value)))
/* Take the role for the object. Returns the outer object, for check_leave. */
#define check_enter(role, object) check_exchange(&check_roles.role, object)
#define check_leave(role, outer) ((void)(check_roles.role = (outer)))

static inline const void *check_exchange(const void **role, const void *object)
{
	const void *outer = *role;

	*role = object;
	return outer;
}

#else

/* The condition is compiled, to stay valid, but not evaluated. */
#define assert_that(condition) ((void)sizeof((condition) ? 1 : 0))
#define check_record(field, value) ((void)sizeof((field) = (value)))
#define check_enter(role, object) ((void)sizeof(object), (const void *)NULL)
#define check_leave(role, outer) ((void)(outer))

#endif

/* The calling thread is inside progress of the context. */
#define assert_progress(of_context) assert_role(progress, of_context)
/* The calling thread is the service thread. */
#define assert_service(of_service) assert_role(service, of_service)
/* The calling thread holds the lock; a lock is not taken while needed is false. */
#define assert_locked(lock, needed) assert_held(check_held, lock, needed)
/* The calling thread holds the lock of readers and writers for writing. */
#define assert_locked_writing(lock) assert_held(check_held_writing, lock, true)
/* Any thread holds the lock of readers and writers. */
#define assert_locked_reading(lock) assert_held(check_held_reading, lock, true)

#ifdef PF_ASSERTIONS
#define assert_role(role, object)                                                                  \
	(check_roles.role == (const void *)(object) ?                                              \
		 (void)0 :                                                                         \
		 check_failed(__FILE__, __LINE__, __func__,                                        \
			      "this thread is " #role " of " #object))
#define assert_held(held, lock, needed)                                                            \
	(!(needed) || held(lock) ?                                                                 \
		 (void)0 :                                                                         \
		 check_failed(__FILE__, __LINE__, __func__, "this thread holds " #lock))
#else
#define assert_role(role, object) ((void)sizeof(object))
#define assert_held(held, lock, needed) ((void)sizeof(lock), (void)sizeof(needed))
#endif

#endif

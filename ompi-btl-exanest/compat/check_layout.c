/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Check what the headers of this folder declare against the Open MPI library that is linked:
 * exit status 0 if it fits, else 1, with the reason on stderr. configure runs it, and make check.
 */
#include "../btl_exanest_compat.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "opal/class/opal_free_list.h"
#include "opal/class/opal_pointer_array.h"

#if BTL_VERSION >= 330

static int failures;

static void expect(bool fits, const char *what)
{
	if (!fits) {
		fprintf(stderr, "check_layout: %s differs from the library's\n", what);
		failures = 1;
	}
}

/* The library keeps the size of each class; these hold a lock. */
static void check_sizes(void)
{
	expect(OBJ_CLASS(opal_mutex_t)->cls_sizeof == sizeof(opal_mutex_t), "sizeof(opal_mutex_t)");
	expect(OBJ_CLASS(opal_recursive_mutex_t)->cls_sizeof == sizeof(opal_recursive_mutex_t),
	       "sizeof(opal_recursive_mutex_t)");
	expect(OBJ_CLASS(opal_free_list_t)->cls_sizeof == sizeof(opal_free_list_t),
	       "sizeof(opal_free_list_t)");
	expect(OBJ_CLASS(opal_pointer_array_t)->cls_sizeof == sizeof(opal_pointer_array_t),
	       "sizeof(opal_pointer_array_t)");
}

/* The library's constructor must leave in each field what POSIX makes there. */
static void check_mutex(void)
{
	pthread_mutexattr_t attributes;
	pthread_mutex_t expected;
	opal_recursive_mutex_t mutex;

	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&expected, &attributes);
	pthread_mutexattr_destroy(&attributes);

	memset(&mutex, 0xaa, sizeof(mutex));
	OBJ_CONSTRUCT(&mutex, opal_recursive_mutex_t);
	expect(!memcmp(&mutex.m_lock, &expected, sizeof(expected)), "opal_mutex_t.m_lock");
	expect(opal_mutex_atomic_trylock(&mutex) == 0, "opal_mutex_t.m_lock_atomic");
	opal_mutex_atomic_unlock(&mutex);
	/* Recursive: the second lock succeeds, too. */
	expect(opal_mutex_trylock(&mutex) == 0 && opal_mutex_trylock(&mutex) == 0,
	       "opal_mutex_trylock");
	opal_mutex_unlock(&mutex);
	opal_mutex_unlock(&mutex);
	OBJ_DESTRUCT(&mutex);
	pthread_mutex_destroy(&expected);
}

static void check_condition(void)
{
	struct {
		opal_cond_t condition;
		unsigned char behind[64];
	} got, expected;

	memset(&got, 0xaa, sizeof(got));
	memset(&expected, 0xaa, sizeof(expected));
	pthread_cond_init(&expected.condition, NULL);
	expect(opal_cond_init(&got.condition) == OPAL_SUCCESS &&
		       !memcmp(&got, &expected, sizeof(got)),
	       "opal_cond_t");
	opal_cond_destroy(&got.condition);
	pthread_cond_destroy(&expected.condition);
}

int main(void)
{
	check_sizes();
	check_mutex();
	check_condition();
	return failures;
}

#else /* Open MPI 4.1 has all its headers; static analysis compiles this there. */

int main(void)
{
	return 0;
}

#endif

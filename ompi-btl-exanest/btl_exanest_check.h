/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Assertions of libpf (libpf/base/check.h), if the component is built with libpf and
 * --enable-assertions. Nothing is checked in a release, nor inside Open MPI's tree, where
 * libpf is only installed.
 */
#ifndef MCA_BTL_EXANEST_CHECK_H
#define MCA_BTL_EXANEST_CHECK_H

#include "btl_exanest.h"

#ifdef PF_ASSERTIONS
#include <base/check.h>
#else
/* The arguments are compiled, so that the assertions stay valid, but not evaluated. */
#define assert_that(condition) ((void)sizeof((condition) ? 1 : 0))
#define assert_progress(of_context) ((void)sizeof(of_context))
#define assert_locked(lock, needed) ((void)sizeof(lock), (void)sizeof(needed))
#endif

/* The calling thread holds the lock of the component, taken only while Open MPI uses threads. */
#define assert_locked_component()                                                                  \
	assert_locked(MCA_BTL_EXANEST_PTHREAD_MUTEX(&mca_btl_exanest_component.lock),              \
		      opal_using_threads())

#endif

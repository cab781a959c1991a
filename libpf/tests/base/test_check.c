/* SPDX-License-Identifier: BSD-3-Clause */
/* Assertions end a process that breaks them, and no other: base/check.h. */
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "unit.h"

#ifdef PF_ASSERTIONS

static int object, other;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t lock_of_readers = PTHREAD_RWLOCK_INITIALIZER;

/* Run in a child process, without its message. Return whether it was ended by abort(3). */
static bool is_aborted(void (*run)(void))
{
	pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (!child) {
		close(STDERR_FILENO);
		run();
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void break_condition(void)
{
	assert_that(object != 0);
}

static void break_progress(void)
{
	(void)check_enter(progress, &other);
	assert_progress(&object);
}

static void keep_progress(void)
{
	const void *outer = check_enter(progress, &object);

	assert_progress(&object);
	check_leave(progress, outer);
}

/* A callback of one context may poll another: the role of the first comes back. */
static void nest_progress(void)
{
	const void *outer = check_enter(progress, &other);

	keep_progress();
	assert_progress(&other);
	check_leave(progress, outer);
}

static void leave_progress(void)
{
	keep_progress();
	assert_progress(&object);
}

static void break_service(void)
{
	assert_service(&object);
}

static void keep_service(void)
{
	(void)check_enter(service, &object);
	assert_service(&object);
}

static void break_lock(void)
{
	assert_locked(&lock, true);
}

static void *hold_lock(void *arg)
{
	pthread_mutex_lock(&lock);
	return arg;
}

/* The lock is held, but by a thread that has ended. */
static void break_lock_of_other(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, hold_lock, NULL);
	pthread_join(thread, NULL);
	assert_locked(&lock, true);
}

static void keep_lock(void)
{
	assert_locked(&lock, false);
	pthread_mutex_lock(&lock);
	assert_locked(&lock, true);
}

static void break_reading(void)
{
	assert_locked_reading(&lock_of_readers);
}

/* A reader is no writer. */
static void break_writing(void)
{
	pthread_rwlock_rdlock(&lock_of_readers);
	assert_locked_writing(&lock_of_readers);
}

static void keep_reading(void)
{
	pthread_rwlock_rdlock(&lock_of_readers);
	assert_locked_reading(&lock_of_readers);
	pthread_rwlock_unlock(&lock_of_readers);
	pthread_rwlock_wrlock(&lock_of_readers);
	assert_locked_reading(&lock_of_readers);
	assert_locked_writing(&lock_of_readers);
}

static void test_broken(void **state)
{
	assert_true(is_aborted(break_condition));
	assert_true(is_aborted(break_progress));
	assert_true(is_aborted(leave_progress));
	assert_true(is_aborted(break_service));
	assert_true(is_aborted(break_lock));
	assert_true(is_aborted(break_lock_of_other));
	assert_true(is_aborted(break_reading));
	assert_true(is_aborted(break_writing));
}

static void test_kept(void **state)
{
	assert_false(is_aborted(keep_progress));
	assert_false(is_aborted(nest_progress));
	assert_false(is_aborted(keep_service));
	assert_false(is_aborted(keep_lock));
	assert_false(is_aborted(keep_reading));
}

#else

static int evaluated;

static void *evaluate(void)
{
	evaluated++;
	return NULL;
}

/* A release evaluates no condition. */
static void test_kept(void **state)
{
	assert_that(evaluate());
	assert_progress(evaluate());
	assert_service(evaluate());
	assert_int_equal(evaluated, 0);
	/* The function counts where it is called. */
	assert_null(evaluate());
	assert_int_equal(evaluated, 1);
}

static void test_broken(void **state)
{
	skip();
}

#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_broken),
		cmocka_unit_test(test_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

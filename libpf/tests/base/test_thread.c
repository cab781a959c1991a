/* SPDX-License-Identifier: BSD-3-Clause */
/* The threads that libpf starts: their signals and their priority. */
#include "unit.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include "base/thread.h"

/* What a thread says of itself, and of a thread that it starts. */
struct described {
	sigset_t blocked;
	char name[16];
	int policy, priority;
	struct described *inner; /* NULL: start none */
};

static void *describe(void *arg)
{
	struct described *described = arg;
	struct sched_param parameters;
	pthread_t thread;

	pthread_sigmask(SIG_SETMASK, NULL, &described->blocked);
	pthread_getname_np(pthread_self(), described->name, sizeof(described->name));
	pthread_getschedparam(pthread_self(), &described->policy, &parameters);
	described->priority = parameters.sched_priority;
	if (described->inner && !thread_start(&thread, "inner", describe, described->inner))
		pthread_join(thread, NULL);
	return NULL;
}

static void start_and_join(struct described *described)
{
	pthread_t thread;

	assert_int_equal(thread_start(&thread, "described", describe, described), 0);
	pthread_join(thread, NULL);
}

static void test_signals(void **state)
{
	static const int own[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS };
	static const int others[] = { SIGINT, SIGTERM, SIGALRM, SIGUSR1, SIGCHLD, SIGPROF };
	struct described described = { 0 };
	sigset_t before, after;
	size_t i;

	pthread_sigmask(SIG_SETMASK, NULL, &before);
	start_and_join(&described);
	assert_string_equal(described.name, "described");
	for (i = 0; i < ARRAY_SIZE(own); i++)
		assert_false(sigismember(&described.blocked, own[i]));
	for (i = 0; i < ARRAY_SIZE(others); i++)
		assert_true(sigismember(&described.blocked, others[i]));
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	for (i = 1; i < 32; i++)
		assert_int_equal(sigismember(&after, (int)i), sigismember(&before, (int)i));
}

static void test_ordinary_policy(void **state)
{
	struct described described = { 0 };

	start_and_join(&described);
	assert_int_equal(described.policy, SCHED_OTHER);
}

/* One priority more than the program's thread, and so has a thread that such a thread starts. */
static void test_real_time(void **state)
{
	static const int policies[] = { SCHED_RR, SCHED_FIFO, SCHED_RR | SCHED_RESET_ON_FORK };
	const struct sched_param ordinary = { 0 };
	struct sched_param parameters;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(policies); i++) {
		const int policy = policies[i] & ~SCHED_RESET_ON_FORK;
		const int most = sched_get_priority_max(policy);
		struct described inner = { 0 }, described = { .inner = &inner };

		parameters.sched_priority = 1;
		if (pthread_setschedparam(pthread_self(), policies[i], &parameters) == EPERM)
			skip();
		start_and_join(&described);
		assert_int_equal(described.policy, policy);
		assert_int_equal(described.priority, 2);
		assert_int_equal(inner.policy, policy);
		assert_int_equal(inner.priority, 2);
		parameters.sched_priority = most;
		assert_int_equal(pthread_setschedparam(pthread_self(), policies[i], &parameters),
				 0);
		start_and_join(&described);
		assert_int_equal(described.priority, most);
		assert_int_equal(pthread_setschedparam(pthread_self(), SCHED_OTHER, &ordinary), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_signals),
		cmocka_unit_test(test_ordinary_policy),
		cmocka_unit_test(test_real_time),
	};

	return cmocka_run_group_tests_name("thread", tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which processes may copy from one with a context where kernel.yama.ptrace_scope is 1: the option
 * ptracer. Skipped where Yama does not restrict this process, as one of root.
 *
 * A launcher starts the process with the context and another one, as mpirun does. A stranger is no
 * descendant of the launcher. The test itself is an ancestor of all, to which Yama permits everything.
 */
#include "unit.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

struct tracer_case {
	const char *name;
	uint64_t ptracer;
	bool shell;    /* the launcher starts a shell, and that the process */
	bool named;    /* the program has named its tracer itself: any */
	bool peer;     /* the other process of the launcher may copy */
	bool stranger; /* a stranger may copy */
};

static const struct tracer_case cases[] = {
	{ "launcher", .ptracer = PF_PTRACER_LAUNCHER, .peer = true },
	{ "launcher, below a shell", .ptracer = PF_PTRACER_LAUNCHER, .shell = true, .peer = true },
	{ "none", .ptracer = PF_PTRACER_NONE },
	{ "any", .ptracer = PF_PTRACER_ANY, .peer = true, .stranger = true },
	{ "launcher, but the program has named any", .ptracer = PF_PTRACER_LAUNCHER, .named = true,
	  .peer = true, .stranger = true },
};

/* Shared by the processes of a test. */
static struct {
	_Atomic pid_t target; /* the process with a context; 0: not yet, -1: it has none */
	_Atomic int peer;     /* the result of the other process, plus one */
} * shared;

static uint64_t cookie = 0x5f3759df5f3759df;

/* errno of a copy from the process with the context */
static int copy_target(void)
{
	uint64_t value = 0;
	struct iovec here = { &value, sizeof(value) }, there = { &cookie, sizeof(cookie) };

	return process_vm_readv(shared->target, &here, 1, &there, 1, 0) == sizeof(value) ? 0 :
											   errno;
}

/* A child that ends with the test. own: in a process group of its own */
static pid_t child_start(bool own)
{
	pid_t child = fork();

	if (child)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (own)
		setpgid(0, 0);
	return 0;
}

/* The exit status of a child that copies. */
static int child_copies(void)
{
	pid_t child = child_start(true);
	int status = 0;

	if (!child)
		_exit(copy_target());
	waitpid(child, &status, 0);
	return child > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : ECHILD;
}

static void target_run(const struct tracer_case *now)
{
	pf_options options;
	pf_context *context;

	pf_options_init(&options, sizeof(options), NULL);
	options.network = PF_NETWORK_OFF;
	options.ptracer = now->ptracer;
	if (now->named)
		prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	shared->target = pf_open(&options, NULL, &context) == PF_OK ? getpid() : -1;
	for (;;)
		pause();
}

static void launcher_run(const struct tracer_case *now)
{
	if (!child_start(true)) {
		if (!now->shell || !child_start(false))
			target_run(now);
		pause();
	}
	while (!shared->target)
		usleep(1000);
	shared->peer = child_copies() + 1;
	pause();
}

static void case_run(const struct tracer_case *now, int *peer, int *stranger)
{
	pid_t launcher;

	shared->target = shared->peer = 0;
	launcher = child_start(true);
	assert_true(launcher >= 0);
	if (!launcher)
		launcher_run(now);
	while (!shared->peer)
		usleep(1000);
	assert_true(shared->target > 0);
	*peer = shared->peer - 1;
	*stranger = child_copies();
	/* The death of each process kills its children. */
	kill(launcher, SIGKILL);
	waitpid(launcher, NULL, 0);
}

static void test_case(void **state)
{
	static const struct tracer_case plain = { .ptracer = PF_PTRACER_NONE };
	const struct tracer_case *now = *state;
	int peer, stranger;

	case_run(&plain, &peer, &stranger);
	if (peer != EPERM)
		skip();
	case_run(now, &peer, &stranger);
	assert_int_equal(peer, now->peer ? 0 : EPERM);
	assert_int_equal(stranger, now->stranger ? 0 : EPERM);
}

int main(void)
{
	struct CMUnitTest tests[ARRAY_SIZE(cases)];
	size_t i;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED)
		return 2;
	for (i = 0; i < ARRAY_SIZE(cases); i++)
		tests[i] = (struct CMUnitTest){ cases[i].name, test_case, NULL, NULL,
						(void *)(uintptr_t)&cases[i] };
	return cmocka_run_group_tests_name("tracer", tests, NULL, NULL);
}

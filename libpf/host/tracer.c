/* SPDX-License-Identifier: BSD-3-Clause */
#include "tracer.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "copy.h"
#include <libpf/pf.h>

/* At this scope a process may name its tracer; at higher scopes only CAP_SYS_PTRACE helps. */
#define SCOPE_NAMED 1
/* Ends the search for a launcher where processes come and go meanwhile. */
#define ANCESTORS_MOST 64

int tracer_scope(void)
{
	FILE *file = fopen("/proc/sys/kernel/yama/ptrace_scope", "re");
	int scope = -1;

	if (!file)
		return -1;
	if (fscanf(file, "%d", &scope) != 1)
		scope = -1;
	fclose(file);
	return scope;
}

bool tracer_is_privileged(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	return !syscall(SYS_capget, &header, data) &&
	       data[CAP_TO_INDEX(CAP_SYS_PTRACE)].effective & CAP_TO_MASK(CAP_SYS_PTRACE);
}

/*
 * Copy from this process in a child, as another process of the job would. Returns 0, or the errno
 * of process_vm_readv.
 *
 * The child is made by clone with no signal for its end: fork would run the handlers of
 * pthread_atfork, and a handler of the program for SIGCHLD could take the status. The child makes
 * system calls only, because other threads of the parent may have held any lock.
 */
static int tracer_test(void)
{
	const uint64_t cookie = 0x5f3759df5f3759df; /* any value; the copy must equal it */
	const pid_t parent = gettid();
	int error, *result;
	pid_t child;

	result = mmap(NULL, sizeof(*result), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (result == MAP_FAILED)
		return errno;
	*result = ECHILD;
	child = (pid_t)syscall(SYS_clone, 0ul, 0ul, 0ul, 0ul, 0ul);
	if (!child) {
		*result = copy_probe(parent, (uint64_t)(uintptr_t)&cookie, cookie);
		syscall(SYS_exit_group, 0);
	}
	error = child < 0 ? errno : 0;
	while (child > 0 && waitpid(child, NULL, __WCLONE) < 0 && errno == EINTR)
		;
	if (!error)
		error = *result;
	munmap(result, sizeof(*result));
	return error;
}

/* 0: the process is gone, or /proc does not show it. */
static pid_t parent_find(pid_t pid)
{
	char path[32], line[128];
	int parent = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	file = fopen(path, "re");
	if (!file)
		return 0;
	while (fgets(line, sizeof(line), file) && sscanf(line, "PPid: %d", &parent) != 1)
		;
	fclose(file);
	return parent;
}

/*
 * Process 1 of a container may be the launcher; process 1 of the host adopts orphans of launchers.
 */
static bool is_usable(pid_t pid)
{
	struct stat status;

	return pid > 1 || (pid == 1 && !stat("/proc/1", &status) && status.st_uid == geteuid());
}

/*
 * Return the process that started the process group of this process. mpirun and srun make a group
 * for each rank, and are found also where a shell runs a rank. 0: there is none.
 */
static pid_t launcher_find(void)
{
	const pid_t group = getpgrp();
	pid_t pid = getppid();
	unsigned steps;

	for (steps = 0; pid > 0 && getpgid(pid) == group; steps++)
		pid = steps < ANCESTORS_MOST ? parent_find(pid) : 0;
	return is_usable(pid) ? pid : 0;
}

void tracer_permit(uint64_t whom)
{
	pid_t launcher;

	if (whom == PF_PTRACER_NONE || tracer_scope() != SCOPE_NAMED || !tracer_test())
		return;
	if (whom == PF_PTRACER_ANY) {
		(void)prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
		return;
	}
	launcher = launcher_find();
	if (launcher)
		(void)prctl(PR_SET_PTRACER, (unsigned long)launcher, 0, 0, 0);
}

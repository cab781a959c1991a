/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Run a program whose process_vm_readv and process_vm_writev fail with EPERM, as with the default
 * seccomp profiles of container runtimes. The program's children inherit this.
 *
 *   deny_cma PROGRAM [ARGUMENT...]
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXIT_CANNOT_DENY 126
#define EXIT_CANNOT_RUN 127

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define IF_EQUAL(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), (yes), (no))
#define RETURN(action) BPF_STMT(BPF_RET | BPF_K, (action))

static int deny(void)
{
	/* The numbers of this architecture; calls by another one's numbers are not filtered. */
	struct sock_filter filter[] = {
		LOAD(nr),
		IF_EQUAL(__NR_process_vm_readv, 1, 0),
		IF_EQUAL(__NR_process_vm_writev, 0, 1),
		RETURN(SECCOMP_RET_ERRNO | EPERM),
		RETURN(SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {
		.len = sizeof(filter) / sizeof(*filter),
		.filter = filter,
	};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -1;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static int denied(void)
{
	errno = 0;
	return syscall(SYS_process_vm_readv, getpid(), NULL, 0, NULL, 0, 0) == -1 && errno == EPERM;
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		fprintf(stderr, "usage: deny_cma PROGRAM [ARGUMENT...]\n");
		return EXIT_CANNOT_DENY;
	}
	if (deny() || !denied()) {
		fprintf(stderr, "deny_cma: seccomp: %s\n", strerror(errno));
		return EXIT_CANNOT_DENY;
	}
	execvp(argv[1], argv + 1);
	fprintf(stderr, "deny_cma: %s: %s\n", argv[1], strerror(errno));
	return EXIT_CANNOT_RUN;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processes that use libpf, seen from outside: each has a statistics page open. What is read comes
 * from other processes, may be forged, and is checked.
 */
#ifndef TOOLS_PROCESS_H
#define TOOLS_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "counters.h"

struct process {
	pid_t pid;
	ino_t page;               /* inode of the statistics page: one for each context */
	uint64_t started;         /* when the context was opened: CLOCK_BOOTTIME, ns */
	char job[64];             /* PMIX_NAMESPACE; "" outside of a job */
	int rank;                 /* -1: unknown */
	char command[32];         /* printable */
	struct counters total;    /* since the context was opened */
	struct counters counters; /* to show: the total, or what was counted in an interval */
};

struct processes {
	struct process *list; /* sorted by job, rank and pid; those outside of jobs are last */
	size_t count;
	unsigned closed; /* processes of this user that it may not look into */
};

/*
 * Find the processes of this user, and the process only, of any user, if it is not 0. complain:
 * report unusable pages on standard error. Returns 0, or -1 after a message. Free the list with
 * processes_free.
 */
int processes_find(struct processes *processes, pid_t only, bool complain);
void processes_free(struct processes *processes);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processes with libpf, seen from outside: each has a statistics page open. The contents of a page
 * come from a foreign process, may be forged, and are checked.
 */
#ifndef TOOLS_PROCESS_H
#define TOOLS_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "counters.h"

struct process {
	pid_t pid;
	ino_t page;               /* inode of the statistics page, unique for a context */
	uint64_t started;         /* when the context was opened: CLOCK_BOOTTIME, ns */
	char job[64];             /* PMIX_NAMESPACE; "" outside of a job */
	int rank;                 /* -1: unknown */
	char command[32];         /* printable */
	struct counters total;    /* since the context was opened */
	struct counters counters; /* to show: the total, or the counts of an interval */
};

struct processes {
	struct process *list; /* sorted by job, rank and pid; processes outside of jobs are last */
	size_t count;
	unsigned closed; /* processes of this user with closed files */
};

/*
 * Find the processes of this user; only, if not 0: find the process of this number, of any user.
 * complain: report unusable pages on standard error. Returns 0, or -1 after a message. Free the
 * list with processes_free.
 */
int processes_find(struct processes *processes, pid_t only, bool complain);
void processes_free(struct processes *processes);

#endif

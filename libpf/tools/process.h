/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processes that use libpf, as another process of their user sees them: by the
 * statistics page that each has open. All that is read comes from processes
 * that may be anything, and is checked.
 */
#ifndef TOOLS_PROCESS_H
#define TOOLS_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "counters.h"

struct process {
	pid_t pid;
	ino_t page;               /* which of its contexts, if it has several */
	uint64_t started;         /* the context; CLOCK_BOOTTIME, ns */
	char job[64];             /* PMIX_NAMESPACE; "" outside of a job */
	int rank;                 /* -1: not known */
	char command[32];         /* printable */
	struct counters total;    /* since the context was opened */
	struct counters counters; /* what is to be shown: the same, or a part of it */
};

struct processes {
	struct process *list; /* by job, rank and pid; those without a job last */
	size_t count;
	unsigned closed; /* processes of this user that do not let us look */
};

/*
 * All of this user, and only too, whosever it is, if that is not 0. complain:
 * say on standard error which pages are not usable. Returns 0, or -1 after a
 * message. Free with processes_free.
 */
int processes_find(struct processes *processes, pid_t only, bool complain);
void processes_free(struct processes *processes);

#endif

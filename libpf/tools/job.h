/* SPDX-License-Identifier: BSD-3-Clause */
/* Processes of a job, and the sum of the counters. */
#ifndef TOOLS_JOB_H
#define TOOLS_JOB_H

#include "process.h"

struct job {
	const char *name; /* "" for processes outside of jobs */
	const struct process *processes;
	size_t count;
	struct counters sum;
};

/*
 * Set *job to the next job of the list, or to the first job if job->processes is NULL. Returns
 * false at the end of the list.
 */
bool job_next(struct job *job, const struct processes *processes);

/* Keep only the process pid and the other processes of its job. */
void job_select(struct processes *processes, pid_t pid);

#endif

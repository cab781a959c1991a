/* SPDX-License-Identifier: BSD-3-Clause */
#include "job.h"

#include <string.h>

bool job_next(struct job *job, const struct processes *processes)
{
	const struct process *end = processes->list + processes->count, *process;

	job->processes = job->processes ? job->processes + job->count : processes->list;
	if (job->processes == end)
		return false;
	job->name = job->processes->job;
	job->sum = (struct counters){ .stat = { 0 } };
	for (process = job->processes; process < end && !strcmp(process->job, job->name); process++)
		counters_add(&job->sum, &process->counters);
	job->count = (size_t)(process - job->processes);
	return true;
}

void job_select(struct processes *processes, pid_t pid)
{
	char job[sizeof(processes->list->job)] = "";
	size_t i, kept = 0;

	for (i = 0; i < processes->count; i++) {
		if (processes->list[i].pid == pid)
			memcpy(job, processes->list[i].job, sizeof(job));
	}
	for (i = 0; i < processes->count; i++) {
		const struct process *process = &processes->list[i];

		if (process->pid == pid || (job[0] && !strcmp(process->job, job)))
			processes->list[kept++] = *process;
	}
	processes->count = kept;
}

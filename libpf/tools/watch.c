/* SPDX-License-Identifier: BSD-3-Clause */
#include "watch.h"

#include <err.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

#include "job_print.h"
#include "sample.h"

/* Reduce the counters to the counts since before. */
static void processes_subtract(struct processes *processes, const struct processes *before)
{
	size_t i, k;

	for (i = 0; i < processes->count; i++) {
		struct process *process = &processes->list[i];

		for (k = 0; k < before->count; k++) {
			const struct process *old = &before->list[k];

			if (old->pid == process->pid && old->page == process->page &&
			    old->started == process->started)
				counters_subtract(&process->counters, &old->total);
		}
	}
}

static int watch_find(struct processes *processes, pid_t pid, bool complain)
{
	if (processes_find(processes, pid, complain))
		return -1;
	if (pid)
		job_select(processes, pid);
	return 0;
}

static void explain_none(const struct processes *processes, pid_t pid)
{
	if (pid && kill(pid, 0) && errno == ESRCH)
		warnx("there is no process %d", (int)pid);
	else if (pid && processes->closed)
		warnx("process %d does not use libpf, or this user may not look into it", (int)pid);
	else if (pid)
		warnx("process %d does not use libpf; pf_info --job lists the processes that do",
		      (int)pid);
	else if (processes->closed)
		warnx("no process of this user on this host uses libpf; %u could not be looked into",
		      processes->closed);
	else
		warnx("no process of this user on this host uses libpf");
}

static void sleep_until(double when)
{
	struct timespec end = { .tv_sec = (time_t)when };

	end.tv_nsec = (long)((when - (double)end.tv_sec) * 1e9);
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) == EINTR)
		;
}

static int watch_print(const struct processes *processes, double seconds, bool json)
{
	if (json)
		job_print_json(processes, seconds);
	else
		job_print_text(processes, seconds);
	if (!fflush(stdout) && !ferror(stdout))
		return 0;
	warn("standard output");
	return -1;
}

int watch(pid_t pid, double interval, bool json)
{
	struct processes before, now;
	double time = sample_seconds(), last = time;
	int status;

	if (watch_find(&before, pid, true))
		return -1;
	if (!before.count) {
		explain_none(&before, pid);
		processes_free(&before);
		return -1;
	}
	status = watch_print(&before, 0, json);
	while (interval > 0 && !status && before.count) {
		sleep_until(time += interval);
		status = watch_find(&now, pid, false);
		if (!status && now.count) {
			processes_subtract(&now, &before);
			status = watch_print(&now, sample_seconds() - last, json);
		}
		last = sample_seconds();
		processes_free(&before);
		before = now;
	}
	processes_free(&before);
	return status;
}

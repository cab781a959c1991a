/* SPDX-License-Identifier: BSD-3-Clause */
/* pf_info --job: the statistics of running processes, by job. */
#ifndef TOOLS_JOB_H
#define TOOLS_JOB_H

#include <stdbool.h>

#include "process.h"

/*
 * Show those of pid and its job, or all if pid is 0; once if interval is 0,
 * else every so many seconds what was counted meanwhile, until there are none
 * left. Returns 0, or -1 after a message on standard error.
 */
int job_show(pid_t pid, double interval, bool json);

/* One job, a part of the sorted list: the end of those that start at first. */
size_t job_end(const struct processes *processes, size_t first);
struct counters job_sum(const struct processes *processes, size_t first, size_t end);

/* seconds: in which it was counted; 0: since each context was opened */
void job_print_text(const struct processes *processes, double seconds);
void job_print_json(const struct processes *processes, double seconds);

#endif

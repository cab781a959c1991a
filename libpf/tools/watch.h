/* SPDX-License-Identifier: BSD-3-Clause */
/* pf_info --job: show the statistics of running processes, by job. */
#ifndef TOOLS_WATCH_H
#define TOOLS_WATCH_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * Show the process pid and its job, or all processes of this user if pid is 0. If interval (in
 * seconds) is not 0, show the counts of each interval until no process is left. Returns 0, or -1
 * with a message on standard error.
 */
int watch(pid_t pid, double interval, bool json);

#endif

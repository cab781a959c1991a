/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Print the counters of processes, by job. seconds: the time in which they were counted; 0: since
 * each context was opened.
 */
#ifndef TOOLS_JOB_PRINT_H
#define TOOLS_JOB_PRINT_H

#include "job.h"

void job_print_text(const struct processes *processes, double seconds);
void job_print_json(const struct processes *processes, double seconds);

#endif

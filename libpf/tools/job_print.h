/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Print the counters of processes, by job. seconds: length of the counted interval; 0: since the
 * opening of each context.
 */
#ifndef TOOLS_JOB_PRINT_H
#define TOOLS_JOB_PRINT_H

#include "job.h"

void job_print_text(const struct processes *processes, double seconds);
void job_print_json(const struct processes *processes, double seconds);

#endif

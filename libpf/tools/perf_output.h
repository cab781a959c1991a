/* SPDX-License-Identifier: BSD-3-Clause */
/* Results of pf_perf on standard output, as a table or as comma-separated values. */
#ifndef TOOLS_PERF_OUTPUT_H
#define TOOLS_PERF_OUTPUT_H

#include "perf_tests.h"

void output_start(bool csv, const struct settings *settings, const struct cores *cores,
		  const char *path);
void output_test(bool csv, const struct perf_test *test);
void output_row(bool csv, const struct perf_test *test, const struct settings *settings,
		const struct row *row);

/* A remark among the rows; values have no place for one. */
void output_note(bool csv, const char *text);

#endif

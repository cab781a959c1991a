/* SPDX-License-Identifier: BSD-3-Clause */
/* Results of pf_perf on standard output, as tables or as comma-separated values. */
#ifndef TOOLS_PERF_OUTPUT_H
#define TOOLS_PERF_OUTPUT_H

#include "perf_measure.h"

/* cache_line: from cache_line_describe; path: from session_path. */
void output_start(bool csv, const struct settings *settings, const struct cores *cores,
		  const char *cache_line, const char *path);
void output_test(bool csv, const struct perf_test *test);
void output_row(bool csv, const struct perf_test *test, const struct settings *settings,
		const struct row *row);
/* Print a remark between rows; nothing with csv. */
void output_note(bool csv, const char *text);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
#include "perf_output.h"

#include <stdio.h>

void output_start(bool csv, const struct settings *settings, const struct cores *cores,
		  const char *cache_line, const char *path)
{
	if (csv) {
		printf("test,bytes,unit,median,lowest,highest,repetitions,iterations,contents\n");
		fflush(stdout);
		return;
	}
	printf("# pf_perf %s; cores: %s\n", PF_VERSION_STRING, cores->text);
	printf("# cache line: %s\n# transfers: %s\n", cache_line, path);
	printf("# median, lowest and highest of %u repetitions; window %u\n", settings->repetitions,
	       settings->window);
	fflush(stdout);
}

void output_test(bool csv, const struct perf_test *test)
{
	if (csv)
		return;
	printf("\n%s: %s, %s\n", test->name, test->title, perf_unit(test));
	printf("%12s %12s %12s %12s %12s\n", "bytes", "median", "lowest", "highest", "iterations");
}

/* Decimal places for four significant digits. */
static int decimal_places(double value)
{
	return value < 10 ? 3 : value < 100 ? 2 : value < 1000 ? 1 : 0;
}

void output_row(bool csv, const struct perf_test *test, const struct settings *settings,
		const struct row *row)
{
	const struct summary *summary = &row->summary;
	int places = decimal_places(summary->median);

	if (csv)
		printf("%s,%zu,%s,%.6g,%.6g,%.6g,%u,%llu,%s\n", test->name, row->size,
		       perf_unit(test), summary->median, summary->lowest, summary->highest,
		       settings->repetitions, (unsigned long long)row->iterations,
		       settings->verify ? "ok" : "unverified");
	else
		printf("%12zu %12.*f %12.*f %12.*f %12llu%s\n", row->size, places, summary->median,
		       places, summary->lowest, places, summary->highest,
		       (unsigned long long)row->iterations,
		       settings->verify ? "  contents ok" : "");
	fflush(stdout);
}

void output_note(bool csv, const char *text)
{
	if (!csv)
		printf("# %s\n", text);
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <string.h>

#include "job_print.h"

#define WIDTH_MIN 7

enum unit { COUNT, BYTES, TIME };

/* Columns of the table; a line of the table is a process. */
static const struct column {
	const char *group; /* heading of a group of columns; "": continued */
	const char *name;
	enum unit unit;
	unsigned value; /* enum pf_stat; with TIME a percentage of the faults */
	enum { ALWAYS, IN_NETWORK, IF_ANY } shown; /* shown for jobs with network, if not 0 */
} columns[] = {
	{ "faults here", "minor", COUNT, PF_STAT_LOCAL_MINOR },
	{ "", "major", COUNT, PF_STAT_LOCAL_MAJOR },
	{ "", "pager", COUNT, PF_STAT_LOCAL_PAGER },
	{ "", "permission", COUNT, PF_STAT_LOCAL_PERMISSION },
	{ "faults in peers", "minor", COUNT, PF_STAT_REMOTE_MINOR },
	{ "", "major", COUNT, PF_STAT_REMOTE_MAJOR },
	{ "", "pager", COUNT, PF_STAT_REMOTE_PAGER },
	{ "", "permission", COUNT, PF_STAT_REMOTE_PERMISSION },
	{ "", "retransmits", COUNT, PF_STAT_RETRANSMITS },
	{ "bytes by route", "single", BYTES, PF_STAT_SINGLE_COPY_BYTES },
	{ "", "shared", BYTES, PF_STAT_SHARED_BYTES },
	{ "", "stream", BYTES, PF_STAT_STREAM_BYTES },
	{ "", "device", BYTES, PF_STAT_DEVICE_BYTES, IF_ANY },
	{ "", "messages", BYTES, PF_STAT_SEND_BYTES },
	{ "packets", "sent", COUNT, PF_STAT_NET_SENT, IN_NETWORK },
	{ "", "received", COUNT, PF_STAT_NET_RECEIVED, IN_NETWORK },
	{ "", "lost", COUNT, PF_STAT_NET_LOST, IN_NETWORK },
	{ "", "dropped", COUNT, PF_STAT_NET_DROPPED, IN_NETWORK },
	{ "", "malformed", COUNT, PF_STAT_NET_MALFORMED, IF_ANY },
	{ "", "unknown", COUNT, PF_STAT_NET_UNKNOWN, IF_ANY },
	{ "", "unexpected", COUNT, PF_STAT_NET_UNEXPECTED, IF_ANY },
	{ "", "different", COUNT, PF_STAT_NET_DIFFERENT, IF_ANY },
	{ "", "forged", COUNT, PF_STAT_NET_FORGED, IF_ANY },
	{ "", "replayed", COUNT, PF_STAT_NET_REPLAYED, IF_ANY },
	{ "", "refused", COUNT, PF_STAT_NET_REFUSED, IF_ANY },
	{ "resolved in less than", "median", TIME, 50 },
	{ "", "99%", TIME, 99 },
	{ "", "longest", TIME, 100 },
};

#define COLUMNS (sizeof(columns) / sizeof(columns[0]))

static bool is_shown(const struct column *column, const struct counters *sum)
{
	return column->shown == ALWAYS ||
	       sum->stat[column->shown == IF_ANY ? column->value : PF_STAT_NET_SENT];
}

static int column_width(const struct column *column)
{
	int length = (int)strlen(column->name) + 1;

	return length < WIDTH_MIN ? WIDTH_MIN : length;
}

/* Format a small number exactly, a larger one with three significant digits. */
static void number_format(char *text, size_t size, uint64_t number, enum unit unit)
{
	static const char *const suffixes[][6] = {
		[COUNT] = { "", "K", "M", "G", "T", "P" },
		[BYTES] = { "", "K", "M", "G", "T", "P" },
		[TIME] = { "ns", "us", "ms", "s" },
	};
	const char *const *suffix = suffixes[unit];
	double value = (double)number, step = unit == BYTES ? 1024 : 1000;

	if (number < (unit == TIME ? 1000 : 10000)) {
		snprintf(text, size, "%.0f%s", value, *suffix);
		return;
	}
	while (value >= step && suffix + 1 < suffixes[unit] + 6 && suffix[1]) {
		value /= step;
		suffix++;
	}
	snprintf(text, size, "%.*f%s", value < 10 ? 2 : value < 100 ? 1 : 0, value, *suffix);
}

static void print_value(const struct column *column, const struct counters *counters)
{
	uint64_t value = column->unit == TIME ? counters_percentile(counters, column->value) :
						counters->stat[column->value];
	char text[32];

	if (column->unit != TIME || (value && value != UINT64_MAX))
		number_format(text, sizeof(text), value, column->unit);
	else
		snprintf(text, sizeof(text), "%s", value ? "more" : "-");
	printf("%*s", column_width(column), text);
}

static void print_head(const struct counters *sum)
{
	size_t i;
	int column = 0, printed = 0;

	printf("%6s%9s", "", "");
	for (i = 0; i < COLUMNS; i++) {
		if (!is_shown(&columns[i], sum))
			continue;
		if (columns[i].group[0]) {
			/* Indent by two, as the numbers below are. */
			printf("%*s%s", column - printed + 2, "", columns[i].group);
			printed = column + 2 + (int)strlen(columns[i].group);
		}
		column += column_width(&columns[i]);
	}
	printf("\n%6s%9s", "rank", "pid");
	for (i = 0; i < COLUMNS; i++) {
		if (is_shown(&columns[i], sum))
			printf("%*s", column_width(&columns[i]), columns[i].name);
	}
	printf("  command\n");
}

static void text_counters(const struct counters *counters, const struct counters *sum)
{
	size_t i;

	for (i = 0; i < COLUMNS; i++) {
		if (is_shown(&columns[i], sum))
			print_value(&columns[i], counters);
	}
}

static void text_process(const struct process *process, const struct counters *sum)
{
	char rank[16] = "-";

	if (process->rank >= 0)
		snprintf(rank, sizeof(rank), "%d", process->rank);
	printf("%6s%9d", rank, (int)process->pid);
	text_counters(&process->counters, sum);
	printf("  %s\n", process->command);
}

static void print_title(const struct job *job, double seconds)
{
	if (job->name[0])
		printf("Job %s, ", job->name);
	else
		printf("Outside of jobs, ");
	printf("%zu process%s", job->count, job->count == 1 ? "" : "es");
	if (seconds > 0)
		printf(", in the last %.2f s\n", seconds);
	else
		printf(", since the start of each\n");
}

void job_print_text(const struct processes *processes, double seconds)
{
	static const char *separator = "";
	struct job job = { .processes = NULL };
	size_t i;

	while (job_next(&job, processes)) {
		fputs(separator, stdout);
		separator = "\n";
		print_title(&job, seconds);
		print_head(&job.sum);
		for (i = 0; i < job.count; i++)
			text_process(&job.processes[i], &job.sum);
		/* Processes outside of jobs are unrelated. */
		if (!job.name[0] || job.count == 1)
			continue;
		printf("%15s", "sum");
		text_counters(&job.sum, &job.sum);
		putchar('\n');
	}
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include <time.h>

#include "base/clock.h"
#include "job_print.h"
#include "json.h"

static void print_bound(const char *key, const struct counters *counters, unsigned percent)
{
	uint64_t bound = counters_percentile(counters, percent);

	/* No fault, or a fault beyond the histogram. */
	if (!bound || bound == UINT64_MAX)
		json_null(key);
	else
		json_number(key, bound);
}

static void json_counters(const struct counters *counters)
{
	const pf_stat_info *table = pf_stat_table();
	unsigned i;

	json_start("statistics", '{');
	for (i = 0; i < PF_STAT_COUNT; i++)
		json_number(table[i].name, counters->stat[i]);
	json_end('}');
	json_start("resolve_time", '{');
	json_number("faults", counters_resolved(counters));
	print_bound("median_below_ns", counters, 50);
	print_bound("percentile_99_below_ns", counters, 99);
	print_bound("longest_below_ns", counters, 100);
	json_start("histogram", '[');
	for (i = 0; i < PF_RESOLVE_BUCKETS; i++)
		json_number(NULL, counters->resolve[i]);
	json_end(']');
	json_end('}');
}

static void json_process(const struct process *process)
{
	uint64_t now = clock_nanoseconds(CLOCK_BOOTTIME);

	json_start(NULL, '{');
	json_number("pid", (uint64_t)process->pid);
	if (process->rank < 0)
		json_null("rank");
	else
		json_number("rank", (uint64_t)process->rank);
	json_string("command", process->command);
	json_real("age_seconds",
		  now > process->started ? (double)(now - process->started) * 1e-9 : 0);
	json_counters(&process->counters);
	json_end('}');
}

void job_print_json(const struct processes *processes, double seconds)
{
	struct job job = { .processes = NULL };
	size_t i;

	json_start(NULL, '{');
	json_version();
	if (seconds > 0)
		json_real("seconds", seconds);
	json_start("jobs", '[');
	while (job_next(&job, processes)) {
		json_start(NULL, '{');
		if (job.name[0])
			json_string("name", job.name);
		else
			json_null("name");
		json_start("processes", '[');
		for (i = 0; i < job.count; i++)
			json_process(&job.processes[i]);
		json_end(']');
		json_start("sum", '{');
		json_counters(&job.sum);
		json_end('}');
		json_end('}');
	}
	json_end(']');
	json_end('}');
	json_finish();
}

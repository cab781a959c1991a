// SPDX-License-Identifier: GPL-2.0
#include <linux/debugfs.h>
#include <linux/seq_file.h>

#include "context.h"
#include "statistics.h"

static const char *const counter_names[EXANEST_COUNTERS] = {
	[EXANEST_TRANSFERS] = "transfers",
	[EXANEST_BYTES] = "bytes",
	[EXANEST_BLOCKS] = "blocks",
	[EXANEST_RETRANSMITS] = "retransmits",
	[EXANEST_FAULT_ERRORS] = "fault_errors",
	[EXANEST_TRANSLATION_MISSES] = "translation_misses",
	[EXANEST_TRANSLATION_FILLS] = "translation_fills",
	[EXANEST_INVALIDATIONS] = "invalidations",
	[EXANEST_FAULTS] = "faults",
	[EXANEST_FAULTS_PAGER] = "faults_pager",
	[EXANEST_FAULTS_FAILED] = "faults_failed",
	[EXANEST_RESOLVE_NS] = "resolve_ns",
};

static struct dentry *folder;

static void contexts_show_one(struct exanest_context *context, void *argument)
{
	struct seq_file *file = argument;
	u64 values[EXANEST_COUNTERS];
	unsigned int i;

	exanest_context_count(context, values);
	seq_printf(file, "address=%llu pid=%d comm=%*pE uid=%u%s", context->port.member.address,
		   context->pid, (int)strnlen(context->comm, sizeof(context->comm)), context->comm,
		   from_kuid_munged(&init_user_ns, context->cred->euid),
		   exanest_port_gone(&context->port) ? " gone" : "");
	for (i = 0; i < EXANEST_COUNTERS; i++)
		seq_printf(file, " %s=%llu", counter_names[i], values[i]);
	seq_putc(file, '\n');
}

static int contexts_show(struct seq_file *file, void *unused)
{
	exanest_contexts_call(contexts_show_one, file);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(contexts);

static void engines_show_one(const struct exanest_engine_state *state, void *argument)
{
	unsigned int i;

	seq_printf(argument, "engine=%s depth=%u in_flight=%u resets=%llu dropped=%llu dead=%d",
		   state->name, state->depth, state->in_flight, state->resets, state->dropped,
		   state->dead);
	for (i = 0; state->counters && state->counters[i]; i++)
		seq_printf(argument, " %s=%llu", state->counters[i], state->values[i]);
	seq_putc(argument, '\n');
}

static int engines_show(struct seq_file *file, void *unused)
{
	exanest_engines_call(engines_show_one, file);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(engines);

void exanest_statistics_start(void)
{
	folder = debugfs_create_dir("exanest", NULL);
	debugfs_create_file("contexts", 0400, folder, NULL, &contexts_fops);
	debugfs_create_file("engines", 0400, folder, NULL, &engines_fops);
}

void exanest_statistics_stop(void)
{
	debugfs_remove(folder);
}

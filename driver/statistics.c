// SPDX-License-Identifier: GPL-2.0
#include <linux/debugfs.h>
#include <linux/seq_file.h>
#include <linux/uaccess.h>

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

long exanest_statistics_ioctl(struct exanest_context *context, void __user *argument)
{
	struct exanest_statistics statistics;
	u64 *values = &statistics.transfers;
	unsigned int i;
	long error;

	BUILD_BUG_ON(sizeof(statistics) != offsetof(struct exanest_statistics, transfers) +
						   EXANEST_COUNTERS * sizeof(u64));
	error = exanest_copy_in(&statistics, sizeof(statistics), argument);
	if (error)
		return error;
	statistics.reserved = 0;
	for (i = 0; i < EXANEST_COUNTERS; i++)
		values[i] = atomic64_read(&context->counters.value[i]);
	return exanest_copy_out(argument, &statistics, sizeof(statistics));
}

static void contexts_show_one(struct exanest_context *context, void *argument)
{
	struct seq_file *file = argument;
	unsigned int i;

	seq_printf(file, "address=%llu pid=%d comm=%*pE uid=%u%s", context->address, context->pid,
		   (int)strnlen(context->comm, sizeof(context->comm)), context->comm,
		   from_kuid_munged(&init_user_ns, context->cred->euid),
		   exanest_context_gone(context) ? " gone" : "");
	for (i = 0; i < EXANEST_COUNTERS; i++)
		seq_printf(file, " %s=%lld", counter_names[i],
			   atomic64_read(&context->counters.value[i]));
	seq_putc(file, '\n');
}

static int contexts_show(struct seq_file *file, void *unused)
{
	exanest_contexts_call(contexts_show_one, file);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(contexts);

void exanest_statistics_start(void)
{
	folder = debugfs_create_dir("exanest", NULL);
	debugfs_create_file("contexts", 0400, folder, NULL, &contexts_fops);
}

void exanest_statistics_stop(void)
{
	debugfs_remove(folder);
}

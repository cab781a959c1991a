/* SPDX-License-Identifier: BSD-3-Clause */
#include "process.h"

#include <stdlib.h>

#include "base/allocate.h"
#include <libpf/pf.h>

struct process *process_new(pid_t pid)
{
	struct process *process = allocate_or_wait(sizeof(*process));

	process->pid = pid;
	atomic_init(&process->references, 1);
	return process;
}

struct process *process_get(struct process *process)
{
	atomic_fetch_add_explicit(&process->references, 1, memory_order_relaxed);
	return process;
}

void process_put(struct process *process)
{
	/* Before the free: release the accesses of this thread, acquire those of all threads. */
	if (!process ||
	    atomic_fetch_sub_explicit(&process->references, 1, memory_order_acq_rel) != 1)
		return;
	if (process->inbox.memory)
		inbox_destroy(&process->inbox);
	free(process);
}

void process_watch_life(struct process *process, int fd)
{
	struct inbox inbox;

	if (process->inbox.memory || inbox_view(&inbox, fd) != PF_OK)
		return;
	process->inbox = inbox;
	atomic_store_explicit(&process->life, life_word(inbox.memory), memory_order_release);
}

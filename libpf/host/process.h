/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The process at the other end of connections and channels. The kernel gives
 * its number to another process some time after it ended, so no copy may
 * use the number once the process is known to be dead.
 *
 * Lifetime: made by the service thread with the first connection, and referenced by
 * connections, by the channel from that process and by its peer; whichever
 * lets go last frees it.
 */
#ifndef PF_PROCESS_H
#define PF_PROCESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

struct process {
	pid_t pid; /* in the PID namespace of this process; 0: it has no number there */
	/*
	 * Set by the service thread before it reports the end, read before each copy. No order
	 * is needed: a copy that begins just before is one that the process could have ended in.
	 */
	_Atomic bool dead;
	_Atomic unsigned references;
};

/* One reference. Waits for memory. */
struct process *process_new(pid_t pid);
struct process *process_get(struct process *process);
/* NULL is allowed. */
void process_put(struct process *process);

static inline bool process_is_dead(const struct process *process)
{
	return atomic_load_explicit(&((struct process *)process)->dead, memory_order_relaxed);
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The process at the other end of connections and channels. The kernel gives
 * its number to another process some time after it ended, so no copy may
 * use the number once the process is dead: see life.h.
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

#include "inbox.h"

struct process {
	pid_t pid; /* in the PID namespace of this process; 0: it has no number there */
	/*
	 * Set by the service thread before it reports the end, also of a process that lives but is
	 * given up. Read before each copy, without order: a copy that begins just before is one that
	 * the process could have ended in.
	 */
	_Atomic bool dead;
	struct inbox inbox;               /* of the process, for life; the service thread's own */
	_Atomic(_Atomic uint32_t *) life; /* in inbox; NULL: its inbox is not known */
	_Atomic unsigned references;
};

/* One reference. Waits for memory. */
struct process *process_new(pid_t pid);
struct process *process_get(struct process *process);
/* NULL is allowed. */
void process_put(struct process *process);
/*
 * Service thread: from now on look at the life of the process whose inbox this is. fd stays the
 * caller's. Without effect for a second inbox, or if it is none.
 */
void process_watch_life(struct process *process, int fd);

/* Has it ended, or called exec? Known at once if its inbox is. */
static inline bool process_has_ended(const struct process *process)
{
	_Atomic uint32_t *life = atomic_load_explicit(&((struct process *)process)->life,
						      memory_order_acquire);

	return life && life_is_over(life);
}

/*
 * Does it still run, for all that is known? So may one that this process gave up, as when it closed
 * all its descriptors. False where the life of processes is not known: life.h.
 */
static inline bool process_lives(const struct process *process)
{
	_Atomic uint32_t *life = atomic_load_explicit(&((struct process *)process)->life,
						      memory_order_acquire);

	return life && atomic_load_explicit(life, memory_order_relaxed) && !life_is_over(life);
}

/* Has it ended, or did this process give it up? Then nothing is copied to or from it. */
static inline bool process_is_dead(const struct process *process)
{
	return atomic_load_explicit(&((struct process *)process)->dead, memory_order_relaxed) ||
	       process_has_ended(process);
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The process at the other end of connections and channels. The kernel gives the number to another
 * process some time after the end: no copy may use the number once the process is dead: see life.h.
 *
 * Lifetime: made by the service thread with the first connection, and referenced by connections, by
 * the channel from the process and by the peer of the process; the last reference given back frees
 * the record.
 */
#ifndef PF_PROCESS_H
#define PF_PROCESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "inbox.h"

struct process {
	pid_t pid; /* in the PID namespace of this process; 0: no number there */
	/*
	 * Set by the service thread before the end is reported, also of a living process that is
	 * given up. Read before each copy, without order: a copy that begins just before is a copy
	 * in which the process could have ended.
	 */
	_Atomic bool dead;
	struct inbox inbox;               /* of the process, for life; the service thread's own */
	_Atomic(_Atomic uint32_t *) life; /* in inbox; NULL: the inbox is unknown */
	_Atomic unsigned references;
};

/* Return a process with one reference. Waits for memory. */
struct process *process_new(pid_t pid);
struct process *process_get(struct process *process);
/* NULL is allowed. */
void process_put(struct process *process);
/*
 * Service thread: from now on look at the life of the process with this inbox. fd stays the
 * caller's. No effect for a second inbox, or without life.
 */
void process_watch_life(struct process *process, int fd);

/* Has the process ended, or called exec? Known at once if the inbox is known. */
static inline bool process_has_ended(const struct process *process)
{
	_Atomic uint32_t *life = atomic_load_explicit(&((struct process *)process)->life,
						      memory_order_acquire);

	return life && life_is_over(life);
}

/*
 * Does the process still run, as far as is known? A process that this process gave up may, as after
 * closing all its descriptors. False where the life of processes is not known: life.h.
 */
static inline bool process_lives(const struct process *process)
{
	_Atomic uint32_t *life = atomic_load_explicit(&((struct process *)process)->life,
						      memory_order_acquire);

	return life && atomic_load_explicit(life, memory_order_relaxed) && !life_is_over(life);
}

/*
 * Has the process ended, or did this process give the process up? Then no byte is copied to or from
 * the process.
 */
static inline bool process_is_dead(const struct process *process)
{
	return atomic_load_explicit(&((struct process *)process)->dead, memory_order_relaxed) ||
	       process_has_ended(process);
}

#endif

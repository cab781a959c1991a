/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PF_THREAD_H
#define PF_THREAD_H

#include <pthread.h>
#include <stdbool.h>

/*
 * Start a thread of libpf in the program's process. name: at most 15 characters, static.
 *
 * Signals are the program's: none is delivered to the thread, except signals raised by an
 * instruction of the thread itself, as SIGSEGV. The kernel ends a process that blocks a raised
 * signal, although the program may have a handler, and the thread may run the program's code
 * (pf_supply_fn).
 *
 * The thread has the policy and the priority of the caller. If the policy is a real-time policy,
 * the priority is higher by 1 than that of the program's thread: the caller may poll on the only
 * processor of both, and the kernel would run the thread only after the caller's slice, or never
 * (SCHED_FIFO). Without permission for more (RLIMIT_RTPRIO) the priority is equal.
 *
 * Returns 0 or an errno.
 */
int thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *arg);
/* Does the policy of the calling thread keep its processor from all ordinary threads? */
bool thread_is_real_time(int *policy);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Single copy between address spaces, by the kernel. A page of either side without access ends the
 * copy early, never with a signal.
 */
#ifndef PF_COPY_H
#define PF_COPY_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/trace.h"
#include "pf.h"
#include "process.h"

/*
 * Copy length bytes to the process (put) or from the process. *moved is the number of bytes copied.
 * Returns 0 if all were copied, otherwise the errno of the end: EFAULT because of an address, ESRCH
 * because the process is dead or has no main thread any more, any other errno because the kernel
 * does not permit the copy. Any thread.
 */
int copy_process(const struct process *process, bool put, void *local, uint64_t remote,
		 size_t length, size_t *moved);

int copy_traced(struct trace *trace, const void *transfer, const struct process *process,
		const uint8_t *peer, bool put, void *local, uint64_t remote, size_t length,
		size_t *moved);

/*
 * Copy likewise, as an event of the trace if there is a trace. transfer: NULL if the copy is the
 * whole of a transfer, or for a transfer of a peer. peer: the id of the peer.
 */
static inline int copy_and_trace(struct trace *trace, const void *transfer,
				 const struct process *process, const uint8_t *peer, bool put,
				 void *local, uint64_t remote, size_t length, size_t *moved)
{
	return __builtin_expect(trace != NULL, 0) ?
		       copy_traced(trace, transfer, process, peer, put, local, remote, length,
				   moved) :
		       copy_process(process, put, local, remote, length, moved);
}

/* Return the side whose address failed, after EFAULT at these addresses. */
enum pf_side copy_fault_side(const struct process *process, bool put, const void *local,
			     uint64_t remote);

/*
 * Check access to the memory of pid: the cookie must have the expected value, which also proves
 * that pid is the peer in this PID namespace. Returns 0 or an errno.
 */
int copy_probe(pid_t pid, uint64_t cookie_address, uint64_t cookie);

/* Return the path used instead, and why, for the errno of copy_probe: a static text. */
const char *copy_refusal(int error);

#endif

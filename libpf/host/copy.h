/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Single copy between address spaces, by the kernel. A page of either side without access ends the
 * copy early, never with a signal.
 */
#ifndef PF_COPY_H
#define PF_COPY_H

#include <errno.h>
#include <stdbool.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/check.h"
#include "base/trace.h"
#include <libpf/pf.h>
#include "process.h"

#define COPY_PIECES_FEW 16

/* Pieces to copy by one system call. A list is opened, filled, copied once, and closed. */
struct copy_list {
	struct iovec *here, *there; /* pieces of this process and of the peer, equally long */
	unsigned count, most;
	struct iovec few[2][COPY_PIECES_FEW];
};

/* Make room for more than COPY_PIECES_FEW pieces, at most IOV_MAX. The list may get less. */
void copy_list_grow(struct copy_list *list, unsigned most);
void copy_list_shrink(struct copy_list *list);

/* Begin a list for most pieces. Without memory there is room for COPY_PIECES_FEW. */
static inline void copy_list_open(struct copy_list *list, unsigned most)
{
	list->here = list->few[0];
	list->there = list->few[1];
	list->count = 0;
	list->most = COPY_PIECES_FEW;
	if (most > COPY_PIECES_FEW)
		copy_list_grow(list, most);
}

static inline void copy_list_close(struct copy_list *list)
{
	if (list->most > COPY_PIECES_FEW)
		copy_list_shrink(list);
}

/* Add a piece of at least one byte. */
static inline void copy_list_add(struct copy_list *list, uint64_t local, uint64_t remote,
				 size_t length)
{
	assert_that(length && list->count < list->most);
	list->here[list->count] = (struct iovec){ (void *)(uintptr_t)local, length };
	list->there[list->count++] = (struct iovec){ (void *)(uintptr_t)remote, length };
}

/*
 * Copy the pieces to the process (put) or from the process, in order; the list is used up. *moved
 * is the number of bytes copied. Returns 0 if all were copied, otherwise the errno of the end:
 * EFAULT because of an address, ESRCH because the process is dead or has no main thread any more,
 * else an errno because the kernel does not permit the copy. Any thread.
 */
int copy_process(const struct process *process, bool put, struct copy_list *list, size_t *moved);

int copy_traced(struct trace *trace, const void *transfer, const struct process *process,
		const uint8_t *peer, bool put, struct copy_list *list, size_t *moved);

/*
 * Copy likewise, as events of the trace if there is a trace. transfer: NULL if the copy is the
 * whole of a transfer, or for a transfer of a peer. peer: the id of the peer.
 */
static inline int copy_and_trace(struct trace *trace, const void *transfer,
				 const struct process *process, const uint8_t *peer, bool put,
				 struct copy_list *list, size_t *moved)
{
	return __builtin_expect(trace != NULL, 0) ?
		       copy_traced(trace, transfer, process, peer, put, list, moved) :
		       copy_process(process, put, list, moved);
}

/* Return the side whose address failed, after EFAULT at these addresses. */
enum pf_side copy_fault_side(const struct process *process, bool put, uint64_t local,
			     uint64_t remote);

/*
 * An errno never returned by process_vm_readv: the peer gives no cookie, because the peer exposes
 * ranges alone, and checks and moves every byte.
 */
#define COPY_EXPOSED EACCES

/*
 * Check access to the memory of pid: the cookie must have the expected value, which also proves
 * that pid is the peer in this PID namespace. Returns 0 or an errno.
 */
int copy_probe(pid_t pid, uint64_t cookie_address, uint64_t cookie);

/* Return the path used instead, and why, for the errno of copy_probe: a static text. */
const char *copy_refusal(int error);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
#include "copy.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/probe.h"

void copy_list_grow(struct copy_list *list, unsigned most)
{
	struct iovec *pieces = malloc(2 * most * sizeof(*pieces));

	assert_that(most <= IOV_MAX);
	if (!pieces)
		return;
	list->here = pieces;
	list->there = pieces + most;
	list->most = most;
}

void copy_list_shrink(struct copy_list *list)
{
	free(list->here);
}

static ssize_t copy_once(pid_t pid, bool put, const struct iovec *here, const struct iovec *there,
			 unsigned count)
{
	return put ? process_vm_writev(pid, here, count, there, count, 0) :
		     process_vm_readv(pid, here, count, there, count, 0);
}

static void piece_advance(struct iovec *piece, size_t bytes)
{
	piece->iov_base = (char *)piece->iov_base + bytes;
	piece->iov_len -= bytes;
}

/* Copy count pieces, or up to the first byte that cannot be copied. */
static int copy_pieces(pid_t pid, bool put, struct iovec *here, struct iovec *there, unsigned count,
		       size_t *moved)
{
	ssize_t bytes;
	size_t left;

	*moved = 0;
	/* After a short count, the next call starts at the cause and returns its errno. */
	while (count) {
		bytes = copy_once(pid, put, here, there, count);
		if (bytes <= 0)
			return bytes ? errno : EFAULT;
		*moved += (size_t)bytes;
		for (left = (size_t)bytes; count && left >= here->iov_len; count--) {
			left -= here++->iov_len;
			there++;
		}
		if (count) {
			piece_advance(here, left);
			piece_advance(there, left);
		}
	}
	return 0;
}

int copy_process(const struct process *process, bool put, struct copy_list *list, size_t *moved)
{
	*moved = 0;
	return process_is_dead(process) ?
		       ESRCH :
		       copy_pieces(process->pid, put, list->here, list->there, list->count, moved);
}

/* Each piece is copied by itself, because the trace has the time of each. */
int copy_traced(struct trace *trace, const void *transfer, const struct process *process,
		const uint8_t *peer, bool put, struct copy_list *list, size_t *moved)
{
	int error = process_is_dead(process) ? ESRCH : 0;
	unsigned i;

	*moved = 0;
	for (i = 0; i < list->count && !error; i++) {
		uint64_t local = (uintptr_t)list->here[i].iov_base;
		uint64_t remote = (uintptr_t)list->there[i].iov_base;
		uint64_t since = trace_time(trace);
		size_t length;

		error = copy_pieces(process->pid, put, &list->here[i], &list->there[i], 1, &length);
		if (length)
			record_moved(trace, since, transfer, put, local, remote, length, peer);
		*moved += length;
	}
	return error;
}

static int copy_from(pid_t pid, void *to, uint64_t address, size_t length, size_t *moved)
{
	struct iovec here = { to, length }, there = { (void *)(uintptr_t)address, length };

	return copy_pieces(pid, false, &here, &there, 1, moved);
}

enum pf_side copy_fault_side(const struct process *process, bool put, uint64_t local,
			     uint64_t remote)
{
	/* The main thread of this process may have ended. */
	pid_t source = put ? gettid() : process->pid;
	size_t moved;
	char byte;

	if (!copy_from(source, &byte, put ? local : remote, 1, &moved))
		return put ? PF_SIDE_REMOTE : PF_SIDE_LOCAL;
	return put ? PF_SIDE_LOCAL : PF_SIDE_REMOTE;
}

int copy_probe(pid_t pid, uint64_t cookie_address, uint64_t cookie)
{
	uint64_t value = 0;
	size_t moved;
	int error = copy_from(pid, &value, cookie_address, sizeof(value), &moved);

	if (error)
		return error;
	return value == cookie ? 0 : ESRCH;
}

const char *copy_refusal(int error)
{
	switch (error) {
	case EPERM:
		return PF_PATH_RING ": process_vm_readv is not permitted towards this process "
				    "(user namespace, other user, seccomp or Yama)";
	case COPY_EXPOSED:
		return PF_PATH_RING ": the peer exposes ranges alone (its option expose is 1)";
	case ENOSYS:
		return PF_PATH_RING ": this kernel or container has no process_vm_readv";
	case ESRCH:
		return PF_PATH_RING ": the peer's process is not visible from this PID namespace, "
				    "or its main thread has ended";
	default:
		return PF_PATH_RING ": process_vm_readv fails towards this process";
	}
}

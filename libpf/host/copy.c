/* SPDX-License-Identifier: BSD-3-Clause */
#include "copy.h"

#include <errno.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/probe.h"

static ssize_t copy_once(pid_t pid, bool put, void *local, uint64_t remote, size_t length)
{
	struct iovec here = { local, length };
	struct iovec there = { (void *)(uintptr_t)remote, length };

	return put ? process_vm_writev(pid, &here, 1, &there, 1, 0) :
		     process_vm_readv(pid, &here, 1, &there, 1, 0);
}

/* Copy the whole of a range, or up to the first byte that cannot be copied. */
static int copy_range(pid_t pid, bool put, void *local, uint64_t remote, size_t length,
		      size_t *moved)
{
	size_t done = 0;
	ssize_t bytes;

	/* After a short count, the next call starts at the cause and returns its errno. */
	while (done < length) {
		bytes = copy_once(pid, put, (char *)local + done, remote + done, length - done);
		if (bytes <= 0) {
			*moved = done;
			return bytes ? errno : EFAULT;
		}
		done += (size_t)bytes;
	}
	*moved = done;
	return 0;
}

int copy_process(const struct process *process, bool put, void *local, uint64_t remote,
		 size_t length, size_t *moved)
{
	*moved = 0;
	return process_is_dead(process) ?
		       ESRCH :
		       copy_range(process->pid, put, local, remote, length, moved);
}

int copy_traced(struct trace *trace, const void *transfer, const struct process *process,
		const uint8_t *peer, bool put, void *local, uint64_t remote, size_t length,
		size_t *moved)
{
	uint64_t since = trace_time(trace);
	int error = copy_process(process, put, local, remote, length, moved);

	if (*moved)
		record_moved(trace, since, transfer, put, (uintptr_t)local, remote, *moved, peer);
	return error;
}

enum pf_side copy_fault_side(const struct process *process, bool put, const void *local,
			     uint64_t remote)
{
	/* The main thread of this process may have ended. */
	pid_t source = put ? gettid() : process->pid;
	uint64_t address = put ? (uint64_t)(uintptr_t)local : remote;
	char byte;

	if (copy_once(source, false, &byte, address, 1) == 1)
		return put ? PF_SIDE_REMOTE : PF_SIDE_LOCAL;
	return put ? PF_SIDE_LOCAL : PF_SIDE_REMOTE;
}

int copy_probe(pid_t pid, uint64_t cookie_address, uint64_t cookie)
{
	uint64_t value = 0;
	size_t moved;
	int error = copy_range(pid, false, &value, cookie_address, sizeof(value), &moved);

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
	case ENOSYS:
		return PF_PATH_RING ": this kernel or container has no process_vm_readv";
	case ESRCH:
		return PF_PATH_RING ": the peer's process is not visible from this PID namespace, "
				    "or its main thread has ended";
	default:
		return PF_PATH_RING ": process_vm_readv fails towards this process";
	}
}

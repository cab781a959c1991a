/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For LD_PRELOAD: single copy that changes one byte in every transfer of 64
 * bytes and more. A verification of contents must notice it.
 */
#include <dlfcn.h>
#include <sys/uio.h>

typedef ssize_t (*copy_fn)(pid_t pid, const struct iovec *local, unsigned long local_count,
			   const struct iovec *remote, unsigned long remote_count,
			   unsigned long flags);

ssize_t process_vm_readv(pid_t pid, const struct iovec *local, unsigned long local_count,
			 const struct iovec *remote, unsigned long remote_count,
			 unsigned long flags)
{
	copy_fn copy = (copy_fn)dlsym(RTLD_NEXT, "process_vm_readv");
	ssize_t bytes = copy(pid, local, local_count, remote, remote_count, flags);

	if (bytes >= 64)
		((char *)local->iov_base)[bytes / 2] ^= 1;
	return bytes;
}

ssize_t process_vm_writev(pid_t pid, const struct iovec *local, unsigned long local_count,
			  const struct iovec *remote, unsigned long remote_count,
			  unsigned long flags)
{
	copy_fn copy = (copy_fn)dlsym(RTLD_NEXT, "process_vm_writev");
	char *byte = (char *)local->iov_base + local->iov_len / 2;
	ssize_t bytes;

	if (local->iov_len < 64)
		return copy(pid, local, local_count, remote, remote_count, flags);
	*byte ^= 1;
	bytes = copy(pid, local, local_count, remote, remote_count, flags);
	*byte ^= 1;
	return bytes;
}

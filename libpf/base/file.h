/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PF_FILE_H
#define PF_FILE_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>

/* Linux 6.3; older C libraries lack the name. */
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u
#endif

/* Does the errno mean want of memory for a file of memfd_create? */
static inline bool file_lacks_memory(int error)
{
	return error == ENOSPC || error == ENOMEM;
}

/*
 * Give a part of a file of memfd_create its memory now: with strict overcommitment
 * (vm.overcommit_memory=2) a store to a page refused by the kernel raises SIGBUS. False: there is
 * no memory. Where the kernel cannot allocate ahead, stores ask for the pages.
 */
static inline bool file_allocate(int fd, off_t offset, off_t length)
{
	int error;

	do {
		error = fallocate(fd, 0, offset, length) ? errno : 0;
	} while (error == EINTR);
	return !file_lacks_memory(error);
}

/*
 * Call memfd_create for a file never executed. Linux 6.3 to 6.5 with vm.memfd_noexec=2 refuse any
 * other file, and before 6.3 the kernel does not know the flag.
 */
static inline int file_create(const char *name, unsigned flags)
{
	int fd = memfd_create(name, flags | MFD_NOEXEC_SEAL);

	return fd < 0 && errno == EINVAL ? memfd_create(name, flags) : fd;
}

/*
 * Ask before a file gets its size, a file of memfd_create included: beyond the limit
 * (RLIMIT_FSIZE) the system call raises SIGXFSZ, which ends the program. False: errno is EFBIG.
 */
static inline bool file_size_permitted(uint64_t size)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_FSIZE, &limit) < 0 || size <= limit.rlim_cur)
		return true;
	errno = EFBIG;
	return false;
}

/*
 * Read a short file, up to size - 1 bytes. False, and an empty text: the file cannot be read or is empty.
 */
bool file_read_text(const char *path, char *text, size_t size);

#endif
